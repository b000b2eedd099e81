# ===- sharded.py - modules that FSDP2 sharded, as one rank computes them ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `torch.distributed.fsdp.fully_shard` replaces a module's weights by shards and gathers them in hooks around forward and
# backward. What a rank computes is the module with whole weights, so that is what a capture looks at: here the hooks are
# set aside and the shards stand for weights on the meta device. Needs torch.
#
#===----------------------------------------------------------------------===//
"""Modules under `fully_shard`."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch
from torch._subclasses import FakeTensorMode
from torch.utils import _pytree as pytree

__all__ = ["gathered_bytes", "shards_of", "sharded_prefixes", "unsharded"]


def _state(module: torch.nn.Module) -> Optional[Any]:
    """What `fully_shard` keeps for a module; None where it did not wrap it."""
    state = getattr(module, "_get_fsdp_state", None)
    return state() if state is not None else None


def sharded_prefixes(module: torch.nn.Module) -> Tuple[str, ...]:
    """Prefixes of the names of the weights that FSDP2 gathers and frees again."""
    return tuple(path + "." if path else "" for path, child in module.named_modules() if _state(child) is not None)


def gathered_bytes(*modules: torch.nn.Module) -> int:
    """The bytes of weights that are gathered at once: those of two groups that run one after the other, since FSDP2
    gathers one ahead; 0 where nothing is sharded."""
    sizes: List[int] = []
    for group, state in _groups(*modules):
        dtype = state._mp_policy.param_dtype
        shards = [parameter.sharded_param for parameter in group.fsdp_params]
        sizes.append(sum(shard.numel() * (dtype or shard.dtype).itemsize for shard in shards))
    return max((sum(sizes[index:index + 2]) for index in range(len(sizes))), default=0)


def shards_of(module: torch.nn.Module) -> int:
    """Among how many ranks the weights of a module are divided; 1 where they are not."""
    return max((group.mesh_info.shard_mesh_size for group, _ in _groups(module)), default=1)


def _groups(*modules: torch.nn.Module) -> Iterator[Tuple[Any, Any]]:
    """The groups of weights that are gathered together, with the state of their module, each once."""
    seen = set()
    for module in modules:
        for child in module.modules():
            state = _state(child)
            group = getattr(state, "_fsdp_param_group", None)
            if group is not None and id(group) not in seen:
                seen.add(id(group))
                yield group, state


@contextlib.contextmanager
def unsharded(module: Any, args: tuple, kwargs: Optional[Dict[str, Any]],
              fake: bool = False) -> Iterator[Tuple[tuple, Dict[str, Any]]]:
    """A module under `fully_shard` as one rank computes it, while the context lasts: without FSDP2's hooks, with whole
    weights, in the type that they are gathered in. Weights, buffers and inputs lie on the meta device then, or, with `fake`,
    are fake tensors of their own device; the context gives the inputs. Any other module and its inputs are left as they are."""
    kwargs = dict(kwargs or {})
    if not isinstance(module, torch.nn.Module) or not sharded_prefixes(module):
        yield args, kwargs
        return
    dtypes: Dict[int, torch.dtype] = {}
    hooks_before: List[Tuple[Any, List[Tuple[Any, Any]]]] = []
    for child in module.modules():
        state = _state(child)
        if state is None:
            continue
        for parameter in child.parameters():  # an inner group's own setting comes later and counts
            dtypes[id(parameter)] = state._mp_policy.param_dtype or parameter.dtype
        for hooks in (child._forward_pre_hooks, child._forward_hooks):
            hooks_before.append((hooks, list(hooks.items())))
            for key, hook in list(hooks.items()):
                if getattr(hook, "__self__", None) is state:
                    del hooks[key]
    root = _state(module)
    inputs_as = root._mp_policy.param_dtype if root is not None and root._mp_policy.cast_forward_inputs else None
    mode = FakeTensorMode() if fake else None
    replaced, whole = [], {}
    for child in module.modules():
        for table in (child._parameters, child._buffers):
            for name, tensor in table.items():
                if tensor is None:
                    continue
                if id(tensor) not in whole:
                    whole[id(tensor)] = _without_bytes(tensor, dtypes.get(id(tensor), tensor.dtype), mode)
                replaced.append((table, name, tensor))
                table[name] = whole[id(tensor)]
    try:
        yield pytree.tree_map_only(torch.Tensor, lambda tensor: _without_bytes(
            tensor, inputs_as if inputs_as is not None and tensor.is_floating_point() else tensor.dtype, mode), (args, kwargs))
    finally:
        for table, name, tensor in replaced:
            table[name] = tensor
        for hooks, items in hooks_before:
            hooks.clear()
            hooks.update(items)


def _without_bytes(tensor: torch.Tensor, dtype: torch.dtype, mode: Optional[FakeTensorMode]) -> torch.Tensor:
    """A tensor of the same, for a shard of the whole, shape: a fake one of its device, or one of the meta device."""
    with mode or contextlib.nullcontext():
        result = torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=dtype,
                                     device=tensor.device if mode is not None else "meta")
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(result, requires_grad=tensor.requires_grad)
        return result.requires_grad_(tensor.requires_grad)
