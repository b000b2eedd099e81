# ===- eager.py - what eager PyTorch keeps ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs a module forward and backward on fake tensors, as PyTorch would without a compiler, and watches which storages
# live: those that are there after forward are what is kept for backward, whoever holds them (autograd, checkpointing, an
# attribute of a function's context). Nothing is computed and nothing is allocated. Needs torch.
#
#===----------------------------------------------------------------------===//
"""What eager autograd and (selective) activation checkpointing keep from forward to backward."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree
from torch.utils import checkpoint as torch_checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

from .graph import Kept, KeptValue, Location
from .location import ModuleStack, watch
from .trace import _Annotate, refusal, type_name

_CHECKPOINT_FILE = os.path.join("torch", "utils", "checkpoint.py")
_PLAIN = (torch.Tensor, torch.nn.Parameter, FakeTensor)


@dataclass
class _Storage:
    """A storage that the step allocated, while it lives."""

    reference: StorageWeakRef
    op: str
    bytes: int
    dtype: str
    shape: Tuple[int, ...]
    location: Location
    selected: bool = False  # a selective checkpoint holds it, since its policy says so
    saved_at: str = ""  # the line whose operation saved it for its backward


class _Watch(TorchDispatchMode):
    """Notes every storage that an operation makes, and the largest sum of those that live at once."""

    def __init__(self, stack: ModuleStack, given: Iterable[torch.Tensor]):
        super().__init__()
        self.stack = stack
        self.live: Dict[int, _Storage] = {}
        self.given = {_key(tensor) for tensor in given}
        self.checkpoints: Dict[int, Any] = {}
        self.peak, self.peak_at, self.peak_location = 0, "", Location()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if any(not issubclass(type, _PLAIN) for type in types):
            # A wrapper subclass does its own operations on what it wraps; those come here.
            return NotImplemented
        checkpoint = _running_checkpoint()
        if checkpoint is not None:
            self.checkpoints[id(checkpoint)] = checkpoint
        result = function(*args, **(kwargs or {}))
        self._sweep()
        tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        for tensor in tensors:
            key = _key(tensor)
            if key in self.live or key in self.given:
                continue
            storage = tensor.untyped_storage()
            self.live[key] = _Storage(StorageWeakRef(storage), str(function), storage.nbytes(),
                                      str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape),
                                      self.stack.here())
        total = self.bytes()
        if total > self.peak:
            self.peak, self.peak_at, self.peak_location = total, str(function), self.stack.here()
        return result

    def _sweep(self) -> None:
        for key in [key for key, entry in self.live.items() if entry.reference.expired()]:
            del self.live[key]

    def bytes(self) -> int:
        return sum(entry.bytes for entry in self.live.values())

    def mark_selected(self) -> None:
        """Marks what selective checkpoints hold after forward."""
        for checkpoint in self.checkpoints.values():
            for tensor in _cached(checkpoint):
                entry = self.live.get(_key(tensor))
                if entry is not None:
                    entry.selected = True
        self.checkpoints.clear()

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        """Hook of autograd: notes the line at which a tensor is saved."""
        for inner in _parts(tensor):
            entry = self.live.get(_key(inner))
            if entry is not None and not entry.saved_at:
                here = self.stack.here()
                entry.saved_at = f"{here.module or 'the module'} ({here.line})" if here.line else here.module
        return tensor.detach()


def _key(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _parts(tensor: torch.Tensor) -> List[torch.Tensor]:
    """The plain tensors in a wrapper subclass; the tensor itself where it is none."""
    if type(tensor) in _PLAIN or not hasattr(tensor, "__tensor_flatten__"):
        return [tensor]
    names, _ = tensor.__tensor_flatten__()
    return [part for name in names for part in _parts(getattr(tensor, name))]


def _running_checkpoint() -> Optional[Any]:
    """The innermost selective checkpoint whose forward runs."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "__torch_dispatch__" and frame.f_code.co_filename.endswith(_CHECKPOINT_FILE):
            mode = frame.f_locals.get("self")
            if isinstance(mode, torch_checkpoint._CachingTorchDispatchMode):
                return mode
        frame = frame.f_back
    return None


def _cached(mode: Any) -> Iterator[torch.Tensor]:
    """The tensors that a selective checkpoint has saved."""
    for entries in mode.storage.values():
        for entry in entries.values() if isinstance(entries, dict) else entries:
            for leaf in pytree.tree_leaves(entry):
                value = getattr(leaf, "val", None)
                if isinstance(value, torch.Tensor):
                    yield from _parts(value)


@contextlib.contextmanager
def without_saving(ops: Iterable[str]) -> Iterator[None]:
    """Selective checkpoints made inside recompute the operations `ops` (`aten.abs.default`), whatever their policy
    says."""
    dropped = set(ops)
    modes = (torch_checkpoint._CachingTorchDispatchMode, torch_checkpoint._CachedTorchDispatchMode)
    originals = [mode.__init__ for mode in modes]

    def patched(original):
        def init(self, policy, *args, **kwargs):
            def changed(context, function, *inputs, **keywords):
                if str(function) in dropped:
                    return torch_checkpoint.CheckpointPolicy.MUST_RECOMPUTE
                return policy(context, function, *inputs, **keywords)

            original(self, changed, *args, **kwargs)

        return init

    for mode, original in zip(modes, originals):
        mode.__init__ = patched(original)
    try:
        yield
    finally:
        for mode, original in zip(modes, originals):
            mode.__init__ = original


@contextlib.contextmanager
def _fake_parameters(module: torch.nn.Module, mode: Optional[FakeTensorMode]) -> Iterator[List[torch.Tensor]]:
    """The module with fake tensors for its parameters and buffers; shared ones stay shared. Gives them."""
    replaced, fakes = [], {}
    for child in module.modules():
        for table in (child._parameters, child._buffers):
            for name, tensor in table.items():
                if tensor is None:
                    continue
                if id(tensor) not in fakes:
                    fakes[id(tensor)] = _fake(tensor, mode)
                replaced.append((table, name, tensor))
                table[name] = fakes[id(tensor)]
    try:
        yield list(fakes.values())
    finally:
        for table, name, tensor in replaced:
            table[name] = tensor


def _fake(tensor: torch.Tensor, mode: Optional[FakeTensorMode]) -> torch.Tensor:
    if mode is None:  # a tensor of the meta device
        fake = tensor.detach()
    else:
        fake = mode.from_tensor(tensor.detach())
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(fake, requires_grad=tensor.requires_grad)
    return fake.requires_grad_(tensor.requires_grad)


def kept_by_eager(module: torch.nn.Module, *args: Any, kwargs: Optional[Dict[str, Any]] = None,
                  drop: Iterable[str] = ()) -> Kept:
    """What eager PyTorch keeps from forward to backward of `module(*args, **kwargs)`, and the peak of the step.

    Parameters and inputs count in no sum; gradients do. `drop` names operations that selective checkpoints are to
    recompute though their list names them: what would be, without them."""
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    tensors += [*module.parameters(), *module.buffers()]
    meta = bool(tensors) and all(tensor.device.type == "meta" for tensor in tensors)
    mode = None if meta else FakeTensorMode(allow_non_fake_inputs=True)
    with contextlib.ExitStack() as stack:
        given = stack.enter_context(_fake_parameters(module, mode))
        inputs, keywords = pytree.tree_map_only(torch.Tensor, lambda tensor: _fake(tensor, mode),
                                                (args, dict(kwargs or {})))
        given = given + [leaf for leaf in pytree.tree_leaves((inputs, keywords)) if isinstance(leaf, torch.Tensor)]
        modules = stack.enter_context(watch(module))
        stack.enter_context(without_saving(drop))
        if mode is not None:
            stack.enter_context(mode)
        watched = stack.enter_context(_Watch(modules, [part for tensor in given for part in _parts(tensor)]))
        try:
            with torch.autograd.graph.saved_tensors_hooks(watched.pack, lambda tensor: tensor), _Annotate(modules):
                result = module(*inputs, **keywords)
        except Exception as error:  # whatever torch or the module raises
            raise refusal(f"{type_name(module)} could not be run on fake tensors", error) from error
        results = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        watched._sweep()
        watched.mark_selected()
        mine = {_key(part) for tensor in pytree.tree_leaves(result) if isinstance(tensor, torch.Tensor)
                for part in _parts(tensor)}
        values = [_kept_value(entry) for key, entry in watched.live.items() if key not in mine]
        selected = any(entry.selected for entry in watched.live.values())
        how = "eager selective checkpoint" if selected else "eager autograd"
        if results:
            # Gradients that are passed in are given, as in a captured graph.
            gradients = [torch.empty_like(tensor) for tensor in results]
            watched.given.update(_key(gradient) for gradient in gradients)
            for gradient in gradients:
                watched.live.pop(_key(gradient), None)
            del result
            torch.autograd.backward(results, gradients)
    return Kept(how, values, watched.peak, watched.peak_at, watched.peak_location)


def _kept_value(entry: _Storage) -> KeptValue:
    if entry.selected:
        why = f"the policy of selective checkpointing keeps what {entry.op} gives"
    elif entry.saved_at:
        why = f"autograd saved it for the backward of {entry.saved_at}"
    else:
        why = "an autograd function's context or a checkpoint holds it"
    return KeptValue(entry.op, entry.bytes, entry.dtype, entry.shape, entry.location, why)
