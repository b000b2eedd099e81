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

import copy
import inspect
import math
import warnings
from typing import AbstractSet, Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple, Union

import torch
from functorch.compile import make_boxed_func

from ..arrays import run_torch
from ..command import InputError, parse_bytes
from ..compiler import Artifact, compile
from ..errors import CompileError
from ..explanations.planning import GraphPlan
from ..graphs.graph import ELEMENT_BYTES, GraphError, Tensor
from ..graphs.trace import default_decompositions, from_function
from ..importer import Place, Program, import_function
from ..importer.program import ARITHMETIC, live_nodes
from ..importer.scaled import find_scaling
from ..importer.views import physical_order
from .division import peak_of_blocks
from .lives import CompiledGraph, results_of
from .operations import Operation
from .partition import Budget, PlanPartitioner
from .stretches import move_earlier

__all__ = ["Backend", "fp8opt"]

# Where a graph's `meta` says what it is a part of.
_PART = "fp8opt_part"
# How many plans are looked at for a budget.
_PLANS = 5
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

    def __init__(self, program: Program, artifact: Artifact, single: bool, arenas: Arenas, device: torch.device,
                 donated: AbstractSet[str]):
        super().__init__()
        self.donated = donated
        self.device = device
        self.program, self.artifact, self.single, self.arenas = program, artifact, single, arenas
        self.function = next(iter(artifact.functions.values()))
        self.inputs = [(item.name, item.tensor) for item in program.graph.inputs]
        self.shapes = {argument.name: argument.shape for argument in self.function.arguments}
        self.results = [(result.name, result.shape, getattr(torch, _TORCH_TYPES[result.dtype.name]))
                        for result in self.function.results]

    @property
    def arena_bytes(self) -> int:
        """What it asks of the arena: its own size, and room to begin at a multiple of 256."""
        return self.function.arena_bytes + 256

    @property
    def places(self) -> List[Tuple[str, Optional[int], int]]:
        """Of each output the name of the result that it lies in, or the place of the input, and the result's bytes."""
        sizes = {name: math.prod(shape) * dtype.itemsize for name, shape, dtype in self.results}
        inputs = {item.target or item.name: index for index, item in enumerate(self.program.graph.inputs)}
        return [(place.name, inputs[place.name] if place.is_argument else None, sizes.get(place.name, 0))
                for place in self.program.outputs]

    def forward(self, *inputs: torch.Tensor) -> Any:
        given: Dict[str, torch.Tensor] = {}
        for (name, tensor), value in zip(self.inputs, inputs):
            if name in self.shapes:
                if name in self.donated and torch._C._autograd._get_current_graph_task_keep_graph():
                    value = value.clone()  # another backward pass will read it
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

    Stretches of a graph run with kernels of fp8-opt on the device that their inputs lie on (a CPU, or the GPU of `target`); what
    has no op in the dialect is run by PyTorch, and so are the operations that `leave` names (`"aten.sum.dim_IntList"`). All
    stretches share one arena a device (`arenas`). `budget` limits the peak of each graph's step (`expected_peak_bytes`): of several
    plans the fastest one that is within it is taken, or the one of the lowest peak, with a warning. `stretches` lists what was
    compiled, `left` the operations that PyTorch runs, with their numbers, `graphs` the joint graphs, `plans` their plans."""

    def __init__(self, budget: Budget = None, target: str = "h200", compiler: Optional[str] = None, leave: Iterable[str] = ()):
        self.budget = None if budget is None else parse_bytes(budget)
        self.target, self.compiler, self.leave = target, compiler, frozenset(leave)
        self.plans: List[GraphPlan] = []
        self.stretches: List[Stretch] = []
        self.arenas = Arenas()
        self.left: Dict[str, int] = {}
        self.graphs: List[CompiledGraph] = []

    def __call__(self, module: torch.fx.GraphModule, inputs: Any, **_options: Any) -> Any:
        from torch._dynamo.backends.common import aot_autograd

        return aot_autograd(fw_compiler=self._compile, bw_compiler=self._compile, partition_fn=self._partition,
                            decompositions=_decompositions())(module, inputs)

    def expected_peak_bytes(self, blocks: int = 1) -> int:
        """The peak of a step over what was there before it, the arena included: of all compiled graphs, each run once, or
        `blocks` times one after the other where one graph stands for equal blocks. Parameters, inputs and the gradients of
        the results are given, the results stay, and so do the gradients of parameters. Temporaries within an operation that
        PyTorch runs are in it from the first step on, on a GPU."""
        arenas: Dict[torch.device, int] = {}
        for stretch in self.stretches:
            arenas[stretch.device] = max(arenas.get(stretch.device, 0), stretch.arena_bytes)
        return sum(arenas.values()) + peak_of_blocks([graph.cost() for graph in self.graphs] * blocks)

    def _partition(self, joint: torch.fx.GraphModule, joint_inputs: Any, **options: Any) -> Any:
        budget = self._budget_of_plan(joint, options) if self.budget is not None else None
        return self._split(joint, joint_inputs, budget, options)

    def _split(self, joint: torch.fx.GraphModule, joint_inputs: Any, budget: Optional[int], options: Dict[str, Any]) -> Any:
        """The parts of a joint graph by its plan at a budget."""
        partitioner = PlanPartitioner(budget, self.target, self.compiler)
        forward, backward = partitioner(joint, joint_inputs, **options)
        self.plans += partitioner.plans
        if _symbolic(forward):
            return forward, backward
        forward.meta[_PART], backward.meta[_PART] = ((len(self.graphs), part) for part in ("forward", "backward"))
        self.graphs.append(CompiledGraph.of(forward, options["num_fwd_outputs"],
                                            options.get("static_lifetime_input_indices") or ()))
        return forward, backward

    def _budget_of_plan(self, joint: torch.fx.GraphModule, options: Dict[str, Any]) -> Optional[int]:
        """Of plans from the fastest to the one of the smallest peak, the budget of the first that runs within ours. What a plan
        says is the peak of one program; here it is run in stretches, which is what counts. Which plans there are does not depend
        on our budget, so that a smaller one never gives a higher peak."""
        assert self.budget is not None
        found: List[Tuple[int, Optional[int]]] = []
        budgets: List[Optional[int]] = [None]
        for index in range(_PLANS):
            if index >= len(budgets):
                break
            probe = Backend(None, self.target, self.compiler, self.leave)
            parts = probe._split(copy.deepcopy(joint), None, budgets[index], dict(options))
            if not probe.plans:
                return None
            if index == 0:
                plan = probe.plans[0].plan
                most, least = plan["peak_bytes"], plan["min_feasible_peak_bytes"]
                budgets += sorted({least + (most - least) * part // (_PLANS - 1) for part in range(_PLANS - 1)}, reverse=True)
            for part in parts:
                probe._compile(part, None)
            found.append((probe.expected_peak_bytes(), budgets[index]))
            if found[-1][0] <= self.budget:
                return found[-1][1]
        peak, budget = min(found, key=lambda entry: entry[0])
        warnings.warn(f"no plan of this graph runs within {self.budget:,} B; the one of the lowest peak, {peak:,} B, is taken",
                      stacklevel=2)
        return budget

    def _compile(self, module: torch.fx.GraphModule, _inputs: Any) -> Any:
        if _symbolic(module):
            return make_boxed_func(module.forward)
        index, part = module.meta.get(_PART, (None, ""))
        lowered = self.lower(module, self.graphs[index].own if part == "backward" else frozenset())
        if index is not None:
            setattr(self.graphs[index], part, lowered)
        # What is given is let go after its last use.
        lowered.graph.set_codegen(torch.fx.graph._BoxedCodeGen())
        lowered.recompile()

        def run(arguments: List[Any]) -> Any:
            return lowered.forward(arguments)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def lower(self, module: torch.fx.GraphModule, own: AbstractSet[str] = frozenset()) -> torch.fx.GraphModule:
        """The graph with its stretches replaced by compiled ones. Inputs that are its `own` may be written over by the last that
        reads them."""
        from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
        from torch.fx.passes.operator_support import create_op_support

        _split_reciprocals(module)
        supported = _supported(module) - {node.name for node in module.graph.nodes if str(node.target) in self.leave}
        together = True
        while True:
            support = create_op_support(lambda _modules, node: node.name in supported)
            lowered = copy.deepcopy(module)
            cutter = CapabilityBasedPartitioner(lowered, support, allows_single_node_partition=True)
            parts = [part for part in cutter.propose_partitions() if any(_computes(node) for node in part.nodes)]
            if together:
                moved = move_earlier(lowered, [set(part.nodes) for part in parts], own)
                for part, nodes in zip(parts, moved):
                    part.nodes = {node: None for node in lowered.graph.nodes if node in nodes}
                parts = [part for part in parts if any(_computes(node) for node in part.nodes)]
            lowered = cutter.fuse_partitions(parts)
            donated = {node.target: {operand.name for operand in node.all_input_nodes
                                     if operand.name in own and list(operand.users) == [node]}
                       for node in lowered.graph.nodes if node.op == "call_module"}
            found = {name: _import(lowered.get_submodule(name), names) for name, names in donated.items()}
            # Operations whose chain a stretch has a piece of only.
            cut = {name for program in found.values() if isinstance(program, Program) for name in program.unsupported}
            if not cut & supported:
                break
            if together:
                together = False
            else:
                supported -= cut
        for node in module.graph.nodes:
            if node.op == "call_function" and node.name not in supported:
                self.left[str(node.target)] = self.left.get(str(node.target), 0) + 1
        for name, program in found.items():
            self._replace(lowered, name, program, donated[name])
        for node in list(lowered.graph.nodes):
            if node.op == "call_function" and _computes(node):
                name = f"pytorch_{node.name}"
                lowered.add_submodule(name, Operation(node))
                node.op, node.target = "call_module", name
        lowered.recompile()
        return lowered

    def _replace(self, module: torch.fx.GraphModule, name: str, program: Union[Program, GraphError],
                 donated: AbstractSet[str]) -> None:
        part = module.get_submodule(name)
        devices = [node.meta["val"].device for node in part.graph.nodes if node.op == "placeholder"]
        try:
            if isinstance(program, GraphError):
                raise program
            artifact = compile(program.text, target=self.target if any(item.type != "cpu" for item in devices) else "cpu")
        except (GraphError, CompileError, ValueError) as error:
            warnings.warn(f"PyTorch runs a stretch that fp8-opt did not compile: {error}", stacklevel=2)
            return
        single = isinstance(results_of(part), torch.fx.Node)
        stretch = Stretch(program, artifact, single, self.arenas, devices[0], donated)
        self.stretches.append(stretch)
        setattr(module, name, stretch)


def _decompositions() -> dict:
    """Inductor's table, but for dropout, which PyTorch runs, so that its mask is eager's."""
    return {op: function for op, function in default_decompositions().items() if "native_dropout.default" not in str(op)}


def _split_reciprocals(module: torch.fx.GraphModule) -> None:
    """Gives each reader of the reciprocals of a scale its own, so that they are in its stretch and the scale is what goes from one
    stretch to another: a product of the dialect has the scales themselves."""
    inverse: Set[torch.fx.Node] = set()
    for node in module.graph.nodes:
        if node.op == "call_function" and getattr(node.meta.get("val"), "dtype", None) == torch.float32:
            source = node.args[0] if node.args and isinstance(node.args[0], torch.fx.Node) else None
            if str(node.target) == "aten.reciprocal.default" or source in inverse and (
                    not _computes(node) or str(node.target) == "aten.mul.Tensor" and node.args[1] == 1.0):
                inverse.add(node)
    for node in reversed(list(module.graph.nodes)):
        if node in inverse:
            for user in list(node.users)[1:]:
                with module.graph.inserting_before(user):
                    own = module.graph.node_copy(node)
                user.replace_input_with(node, own)
    module.recompile()


def _import(part: torch.fx.GraphModule, donated: AbstractSet[str]) -> Union[Program, GraphError]:
    """The program of a stretch, which may write over inputs that are `donated`, or why there is none."""
    output = next(node for node in reversed(part.graph.nodes) if node.op == "output")
    results = output.args
    try:
        if isinstance(results[0], torch.fx.Node):
            output.args = (results,)
        return import_function(from_function(part), donated=donated)
    except GraphError as error:
        return error
    finally:
        output.args = results


def _symbolic(module: torch.fx.GraphModule) -> bool:
    """Whether sizes of a graph are symbols: it is one for several sizes, and PyTorch runs it as it is."""
    def symbols(value: Any) -> bool:
        sizes = (*value.shape, *value.stride()) if isinstance(value, torch.Tensor) else (value,)
        return any(isinstance(size, torch.SymInt) for size in sizes)

    return any(symbols(node.meta.get("val")) for node in module.graph.nodes if node.op == "placeholder")


def _computes(node: torch.fx.Node) -> bool:
    """Whether an operation makes bytes: no view."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and all(result.alias_info is None for result in schema.returns)


def _supported(module: torch.fx.GraphModule) -> Set[str]:
    """Names of the nodes that the dialect has ops for, on types that run, and of those that such an op stands for."""
    graph = from_function(module)
    try:
        unsupported = set(import_function(graph).unsupported)
    except GraphError:
        return set()
    tensors = graph.tensors()
    recognised = find_scaling(graph)
    names = set()
    for node in recognised.nodes:
        values = node.reads() + [name for name, _ in node.outputs]
        runs = all(name in tensors and tensors[name] is not None and tensors[name].dtype in _RUNNABLE for name in values)
        once = node.random or node.effect or node.op.startswith("_c10d_functional.")
        if runs and node.name not in unsupported and not once:
            names.add(node.name)
    # Within a chain of operations that is one op types do not count: nothing else reads what lies there.
    inside = {node.name for node in live_nodes(graph)} - {node.name for node in live_nodes(recognised)}
    return names | inside


def fp8opt(module: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
    """The backend "fp8opt" of torch.compile; `options={"budget": "40GiB", "target": "h200"}` sets it."""
    settings = dict(options.pop("options", None) or {})
    known = [name for name in inspect.signature(Backend.__init__).parameters if name != "self"]
    if not settings.keys() <= set(known):
        raise InputError(f"expected options among {', '.join(map(repr, known))}, but got "
                         f"{', '.join(map(repr, sorted(settings.keys() - set(known))))}")
    return Backend(**settings)(module, inputs)
