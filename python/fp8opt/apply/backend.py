# ===- backend.py - a backend of torch.compile ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# torch.compile(backend="fp8opt"): the joint graph is split by a plan, then each forward and backward graph is cut into
# stretches that the dialect has ops for, which are compiled and run in one arena, and the rest, which PyTorch runs.
# Needs torch.
#
#===----------------------------------------------------------------------===//
"""The backend that runs kernels of fp8-opt under a captured graph."""

from __future__ import annotations

import math
import warnings
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch

from ..arrays import run_torch
from ..compiler import Artifact, compile
from ..errors import CompileError
from ..graphs.graph import ELEMENT_BYTES, GraphError, Tensor
from ..graphs.trace import default_decompositions, from_function
from ..importer import Place, Program, import_function
from ..importer.program import ARITHMETIC
from ..importer.views import physical_order
from .partition import Budget, PlanPartitioner

__all__ = ["Backend", "fp8opt"]

_RUNNABLE = {*ARITHMETIC, "float8_e4m3fn", "float8_e5m2"}


class Arenas:
    """One arena a device, for all stretches of a backend: they run one after the other on one stream, and all that outlives
    one of them lies in torch's own memory."""

    def __init__(self) -> None:
        self.sizes: Dict[torch.device, int] = {}
        self.memory: Dict[torch.device, torch.Tensor] = {}

    def get(self, size: int, device: torch.device) -> torch.Tensor:
        """At least `size` bytes, the same at every call until a larger size is asked for."""
        self.sizes[device] = max(self.sizes.get(device, 0), size)
        if device not in self.memory or self.memory[device].numel() < size:
            self.memory.pop(device, None)  # first, so that the two are not there at once
            self.memory[device] = torch.empty(self.sizes[device], dtype=torch.uint8, device=device)
        return self.memory[device]


class Stretch(torch.nn.Module):
    """A part of a graph, compiled: called with the part's inputs, gives its outputs."""

    def __init__(self, program: Program, artifact: Artifact, single: bool, arenas: Arenas):
        super().__init__()
        self.program, self.artifact, self.single, self.arenas = program, artifact, single, arenas
        self.function = next(iter(artifact.functions.values()))
        self.inputs = [(item.name, item.tensor) for item in program.graph.inputs]
        self.shapes = {argument.name: argument.shape for argument in self.function.arguments}
        self.results = [(result.name, result.shape, getattr(torch, _TORCH_TYPES[result.dtype.name]))
                        for result in self.function.results]

    def forward(self, *inputs: torch.Tensor) -> Any:
        given: Dict[str, torch.Tensor] = {}
        for (name, tensor), value in zip(self.inputs, inputs):
            if name in self.shapes:
                given[name] = _in_memory_order(value, tensor, self.shapes[name])
        device = inputs[0].device
        placed = {name: torch.empty(shape, dtype=dtype, device=device) for name, shape, dtype in self.results}
        run_torch(self.function, given, device, placed, lambda size: self.arenas.get(size, device))
        outputs = []
        for place in self.program.outputs:
            base = given[place.name] if place.is_argument else placed[place.name]
            outputs.append(base.as_strided(place.tensor.shape, place.tensor.stride, place.tensor.offset))
        return outputs[0] if self.single else tuple(outputs)


_TORCH_TYPES = {"bf16": "bfloat16", "f32": "float32", "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2"}


def _in_memory_order(value: torch.Tensor, tensor: Tensor, shape: Sequence[int]) -> torch.Tensor:
    """An input as its argument has it: row-major in the order of memory, or the whole of its storage."""
    if value.stride() != tensor.stride and tensor.elements > 1:
        moved = torch.empty_strided(tensor.shape, tensor.stride, dtype=value.dtype, device=value.device)
        value = moved.copy_(value)
    whole = math.prod(shape)
    offset = value.storage_offset() if whole == tensor.elements else 0
    steps = [math.prod(shape[axis + 1:]) for axis in range(len(shape))]
    return value.detach().as_strided(tuple(shape), steps, offset)


class Backend:
    """A backend of torch.compile with its settings; `torch.compile(backend="fp8opt")` is one with none set.

    `budget` limits the peak of each graph's step, as planned. Stretches of a graph run with kernels of fp8-opt on the
    device that their inputs lie on (a CPU, or the GPU of `target`); what has no op in the dialect is run by PyTorch.
    All stretches share one arena a device (`arenas`). `stretches` lists what was compiled, `left` the operations that PyTorch
    runs, with their numbers."""

    def __init__(self, budget: Budget = None, target: str = "h200", compiler: Optional[str] = None):
        self.partitioner = PlanPartitioner(budget, target, compiler)
        self.target = target
        self.stretches: List[Stretch] = []
        self.arenas = Arenas()
        self.left: Dict[str, int] = {}

    def __call__(self, module: torch.fx.GraphModule, inputs: Any, **_options: Any) -> Any:
        from torch._dynamo.backends.common import aot_autograd

        return aot_autograd(fw_compiler=self._compile, bw_compiler=self._compile, partition_fn=self.partitioner,
                            decompositions=_decompositions())(module, inputs)

    def _compile(self, module: torch.fx.GraphModule, _inputs: Any) -> Any:
        from functorch.compile import make_boxed_func

        return make_boxed_func(self.lower(module).forward)

    def lower(self, module: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """The graph with its stretches replaced by compiled ones."""
        from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
        from torch.fx.passes.operator_support import create_op_support

        supported = _supported(module)
        for node in module.graph.nodes:
            if node.op == "call_function" and node.name not in supported:
                self.left[str(node.target)] = self.left.get(str(node.target), 0) + 1
        support = create_op_support(lambda _modules, node: node.name in supported)
        cutter = CapabilityBasedPartitioner(module, support, allows_single_node_partition=True)
        parts = [part for part in cutter.propose_partitions() if any(_computes(node) for node in part.nodes)]
        module = cutter.fuse_partitions(parts)
        for node in list(module.graph.nodes):
            if node.op == "call_module":
                self._replace(module, node.target)
        module.recompile()
        return module

    def _replace(self, module: torch.fx.GraphModule, name: str) -> None:
        part = module.get_submodule(name)
        output = next(node for node in reversed(part.graph.nodes) if node.op == "output")
        single = isinstance(output.args[0], torch.fx.Node)
        if single:
            output.args = ((output.args[0],),)
        try:
            program = import_function(from_function(part, name))
            if program.unsupported:
                raise GraphError(f"it has {', '.join(program.unsupported)}, which the dialect has no op for")
            devices = {node.meta["val"].device.type for node in part.graph.nodes if node.op == "placeholder"}
            artifact = compile(program.text, target="cpu" if devices == {"cpu"} else self.target)
        except (GraphError, CompileError, ValueError) as error:
            warnings.warn(f"PyTorch runs a stretch that fp8-opt did not compile: {error}", stacklevel=2)
            if single:
                output.args = (output.args[0][0],)
            part.recompile()
            return
        stretch = Stretch(program, artifact, single, self.arenas)
        self.stretches.append(stretch)
        setattr(module, name, stretch)


def _decompositions() -> dict:
    """Inductor's table, but for dropout, which PyTorch runs, so that its mask is eager's."""
    return {op: function for op, function in default_decompositions().items() if "native_dropout.default" not in str(op)}


def _computes(node: torch.fx.Node) -> bool:
    """Whether an operation makes bytes: no view."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and all(result.alias_info is None for result in schema.returns)


def _supported(module: torch.fx.GraphModule) -> set:
    """Names of the nodes that the dialect has ops for, on types that run."""
    graph = from_function(module)
    try:
        unsupported = set(import_function(graph).unsupported)
    except GraphError:
        return set()
    tensors = graph.tensors()
    names = set()
    for node in graph.nodes:
        values = node.reads() + [name for name, _ in node.outputs]
        runs = all(name in tensors and tensors[name] is not None and tensors[name].dtype in _RUNNABLE for name in values)
        if runs and node.name not in unsupported and not node.random and not node.effect:
            names.add(node.name)
    return names


def fp8opt(module: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
    """The backend "fp8opt" of torch.compile; `options={"budget": "40GiB", "target": "h200"}` sets it."""
    settings = {key: value for key, value in (options.pop("options", None) or {}).items()}
    return Backend(**settings)(module, inputs)
