# ===- program.py - a captured graph as one fp8.step ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Walks the nodes of a captured graph and emits the ops that they stand for. Every storage that an operation makes is one
# tensor in row-major order of its memory; every view of it is made where it is read. What the dialect has no op for is an
# fp8.opaque of the same shapes, so that its bytes are true.
#
#===----------------------------------------------------------------------===//
"""From nodes to ops."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import AbstractSet, Callable, Dict, List, Optional, Sequence, Tuple

from ..builder import Module
from ..graphs.graph import ELEMENT_BYTES, Graph, GraphError, Node, Ref, Tensor
from ..tensor_types import TensorType
from ..values import Value
from .views import contiguous, find_chain, physical_order

# The dialect's element types. Whole numbers and booleans only pass through opaque operations.
ELEMENTS = {
    "bfloat16": "bf16", "float32": "f32", "float16": "f16", "float64": "f64", "bool": "i8", "uint8": "i8",
    "int8": "i8", "int16": "i16", "uint16": "i16", "int32": "i32", "uint32": "i32", "int64": "i64", "uint64": "i64",
    "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2", "float8_e4m3fnuz": "i8", "float8_e5m2fnuz": "i8",
    "float8_e8m0fnu": "i8", "complex64": "i64", "complex128": "f64",
}
ARITHMETIC = ("bfloat16", "float32")


@dataclass(eq=False)
class Home:
    """What lies in one storage: a value of the program in row-major order of the memory. A constant has no value, but
    `constant`, the number that all its elements are."""

    value: Optional[Value]
    dtype: str
    elements: int
    constant: Optional[float] = None


@dataclass
class Program:
    """An imported graph.

    `text` is the IR. `results` says for each result of the function what it is: the graph's outputs that it holds.
    `opaque` counts the operations that have no op in the dialect; `copies` names nodes whose view no chain of view ops
    gives, so that a copy stands for it. `unsupported` names the nodes that are opaque. Of an imported function, `outputs`
    says where each output lies."""

    text: str
    graph: Graph
    results: List[List[int]]
    opaque: Dict[str, int] = field(default_factory=dict)
    copies: List[str] = field(default_factory=list)
    unsupported: List[str] = field(default_factory=list)
    outputs: List["Place"] = field(default_factory=list)


@dataclass(frozen=True)
class Place:
    """Where an output of an imported function lies: in the storage of the function's result, or argument, `name`, with the
    strides of `tensor`."""

    name: str
    is_argument: bool
    tensor: Tensor


class Importer:
    """The state of one import; the emitters of `EMITTERS` work on it."""

    def __init__(self, graph: Graph, name: str):
        from .collectives import grid_of

        self.graph = graph
        self.grid = grid_of(graph)
        # The places are those of the graph, not of who asks for the import.
        self.module = Module(locations=False, grid=self.grid or None)
        self.f = self.module.function(name)
        self.tensors = graph.tensors()
        self.producers = graph.producers()
        self.homes: Dict[str, Home] = {}
        self.views: Dict[tuple, Value] = {}
        # Maxima as f32, whatever the graph rounds them to.
        self.wide: Dict[str, Value] = {}
        self.region = "forward"
        self.opaque: Dict[str, int] = {}
        self.unsupported: List[str] = []
        self.copies: List[str] = []
        self.name = ""
        self._parts = 0

    # Reading values.

    def tensor(self, name: str) -> Tensor:
        """The description of a value; a `GraphError` where it is no tensor."""
        tensor = self.tensors[name]
        if tensor is None:
            raise GraphError(f"expected '{name}' to be a tensor")
        return tensor

    def read(self, ref: Ref, shape: Optional[Sequence[int]] = None, order: Optional[Sequence[int]] = None) -> Value:
        """The value with its logical shape; broadcast to `shape` by torch's rules, then permuted by `order`."""
        tensor = self.tensor(ref.name)
        size, stride = list(tensor.shape), list(tensor.stride)
        if shape is not None:
            lead = len(shape) - len(size)
            stride = [0] * lead + [0 if own != wanted else step
                                   for own, wanted, step in zip(size, shape[lead:], stride)]
            size = list(shape)
        if order is not None:
            size, stride = [size[axis] for axis in order], [stride[axis] for axis in order]
        return self.strided(ref.name, size, stride, tensor.offset)

    def strided(self, name: str, shape: Sequence[int], stride: Sequence[int], offset: int) -> Value:
        """The view of a value's storage with these strides; made once a region."""
        home = self.homes[name]
        if home.constant is not None:
            return self.f.constant(home.constant, TensorType(ELEMENTS[home.dtype], tuple(shape)), self.part("constant"))
        key = (self.region, id(home), tuple(shape), tuple(step if size > 1 else 0 for size, step in zip(shape, stride)),
               offset)
        if key not in self.views:
            self.views[key] = self._make_view(home, shape, stride, offset)
        return self.views[key]

    def _make_view(self, home: Home, shape: Sequence[int], stride: Sequence[int], offset: int) -> Value:
        f, value = self.f, home.value
        chain = find_chain(home.elements, shape, stride, offset)
        if chain is None:
            self.copies.append(self.name)
            return self.emit_opaque("view", [value], [TensorType(value.type.element, tuple(shape))],
                                    self.part("view"))[0]
        if chain.shape != value.shape:
            value = f.reshape(value, chain.shape, self.part("reshape"))
        if chain.offset is not None:
            value = f.slice(value, chain.offset, chain.size, self.part("slice"))
        if chain.perm is not None:
            value = f.permute(value, chain.perm, self.part("permute"))
        if chain.dropped is not None:
            value = f.transpose(value, range(value.type.rank), self.part("copy"))
            value = f.reshape(value, chain.dropped, self.part("reshape"))
        if chain.repeated is not None:
            value = self.inner(f.broadcast(value, chain.repeated, self.part("broadcast"))
                               if value.type.element in ("bf16", "f32") else
                               self.emit_opaque("expand", [value], [value.type.with_shape(chain.repeated)],
                                                self.part("expand"))[0])
        return value

    def part(self, what: str) -> str:
        """The name of an op that stands for a part of the node: never one that a plan is asked to keep."""
        self._parts += 1
        return f"{self.name}'{what}.{self._parts}"

    # Making values.

    def inner(self, value: Value) -> Value:
        """Marks a value inside a node: no plan keeps it, since nothing in the graph goes by its name."""
        return self.f.mark(value, policy="recompute") if self.region == "forward" else value

    def named(self, value: Value, name: str) -> Value:
        """Makes what was the last op inside a node the node's result."""
        value.op.attributes.pop("fp8.policy", None)
        return self.f.rename(value, name)

    def define(self, name: str, value: Value, order: Optional[Sequence[int]] = None) -> None:
        """`value` is the node's result `name`, its dimensions in memory order (`order`, or those of its strides)."""
        tensor = self.tensor(name)
        self.homes[name] = Home(value, tensor.dtype, math.prod(value.shape))
        if order is None and physical_order(tensor.shape, tensor.stride) is None:
            self._restride(name)

    def _restride(self, name: str) -> None:
        """The storage of a result with gaps is held without them, so its strides are those of a row-major tensor."""
        tensor = self.tensor(name)
        self.tensors[name] = Tensor(tensor.dtype, tensor.shape, contiguous(tensor.shape), 0, tensor.bytes)

    def define_alias(self, name: str, source: str) -> None:
        self.homes[name] = self.homes[source]

    def order_of(self, name: str) -> Tuple[int, ...]:
        """The dimensions of a result in memory order."""
        tensor = self.tensor(name)
        return physical_order(tensor.shape, tensor.stride) or tuple(range(len(tensor.shape)))

    def type_of(self, name: str) -> TensorType:
        """The type of a result in memory order."""
        tensor = self.tensor(name)
        order = self.order_of(name)
        return TensorType(ELEMENTS[tensor.dtype], tuple(tensor.shape[axis] for axis in order))

    def emit_opaque(self, op: str, operands: Sequence[Value], types: Sequence[TensorType], name: str,
                    **keywords) -> List[Value]:
        return self.f.opaque(op, operands, types, name=name, **keywords)

    def fallback(self, node: Node) -> None:
        """An fp8.opaque with the node's operands and results."""
        self.opaque[node.op] = self.opaque.get(node.op, 0) + 1
        self.unsupported.append(node.name)
        operands, seen = [], set()
        for name in node.reads():
            home = self.homes.get(name)
            if home is None or home.value is None or id(home) in seen:
                continue
            seen.add(id(home))
            operands.append(home.value)
        names = [name for name, tensor in node.outputs if name and tensor is not None]
        never = node.random or node.effect or node.op.startswith("_c10d_functional.")
        made = self.emit_opaque(node.op, operands, [self.type_of(name) for name in names], names[0] if names else node.op,
                                flops=_flops(node, self), recompute="never" if never else None,
                                stateful=node.effect)
        for name, value in zip(names, made):
            self.define(name, value)


def _flops(node: Node, state: Importer) -> int:
    """What the matrix products of an operation cost; 0 where it has none that are known."""
    base = node.op.split(".")[1] if "." in node.op else node.op
    shapes = [state.tensor(name).shape for name in node.reads() if state.tensors[name] is not None]
    if base in ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm") and len(shapes) >= 2:
        a, b = shapes[-2:] if base in ("addmm", "baddbmm") else shapes[:2]
        return 2 * math.prod(a) * b[-1]
    if "scaled_dot_product" in base and "backward" not in base and len(shapes) >= 2:
        return 4 * math.prod(shapes[0]) * shapes[1][-2]
    if "scaled_dot_product" in base and len(shapes) >= 3:
        return 10 * math.prod(shapes[1]) * shapes[2][-2]
    return 0


Emitter = Callable[[Importer, Node], bool]


def import_graph(graph: Graph, name: str = "step") -> Program:
    """The program of a captured graph.

    Raises `GraphError` where the graph has no backward pass, or a tensor without elements."""
    from .scaled import find_scaling, groups_of_inputs
    from .table import EMITTERS

    if not any(item.region == "backward" and item.value for item in graph.outputs):
        raise GraphError(f"expected a joint graph with gradients, but '{graph.name}' has none: does a parameter or an "
                         "input require a gradient?")
    captured, graph = graph, find_scaling(graph)
    state = Importer(graph, name)
    live = live_nodes(graph)
    read_in = _read_inputs(graph, live)
    groups = groups_of_inputs(graph)
    regathered = []
    for item in graph.inputs:
        if item.tensor is None or item.name not in read_in:
            continue
        regathered += [item] if item.regathered else []
        _argument(state, item, groups.get(item.name))
    step = state.f.step()
    kept_outputs: List[List[int]] = []
    with step.forward():
        for item in regathered:
            _gather(state, item)
        _emit_region(state, live, "forward", EMITTERS)
        _run_once(state, live)
        first = _yield(state, step, "forward", kept_outputs)
    state.region = "backward"
    with step.backward():
        _emit_region(state, live, "backward", EMITTERS)
        _yield(state, step, "backward", kept_outputs, first)
    state.f.returns(*step.results)
    return Program(str(state.module), captured, kept_outputs, dict(sorted(state.opaque.items())), state.copies,
                   state.unsupported)


def import_function(graph: Graph, name: str = "stretch", donated: AbstractSet[str] = frozenset()) -> Program:
    """The program of a graph without a backward pass: one function whose results lie where its caller says, called
    `r0`, `r1` and so on. Inputs that are `donated` may be written over.

    Raises `GraphError` where a tensor has no elements, or no output is computed."""
    from .scaled import find_scaling, groups_of_inputs
    from .table import EMITTERS

    captured, graph = graph, find_scaling(graph)
    state = Importer(graph, name)
    live = live_nodes(graph)
    read_in = _read_inputs(graph, live)
    groups = groups_of_inputs(graph)
    for item in graph.inputs:
        if item.tensor is not None and item.name in read_in:
            _argument(state, item, groups.get(item.name), item.name in donated)
    step = state.f.step()
    arguments = {id(argument): argument for argument in state.f.arguments}
    names: Dict[int, str] = {}
    results: List[Value] = []
    outputs: List[Place] = []
    with step.forward():
        _emit_region(state, live, "forward", EMITTERS)
        for item in graph.outputs:
            if item.value is None:
                continue
            home, tensor = state.homes[item.value], state.tensor(item.value)
            value = home.value
            if value is None:
                state.name = item.value
                value = state.f.broadcast(state.strided(item.value, [1] * len(tensor.shape), [0] * len(tensor.shape), 0),
                                          tensor.shape, state.part("broadcast"))
                tensor = Tensor(tensor.dtype, tensor.shape, contiguous(tensor.shape), 0, tensor.bytes)
            if id(value) in arguments:
                outputs.append(Place(arguments[id(value)].name, True, tensor))
                continue
            if id(value) not in names:
                names[id(value)] = f"r{len(results)}"
                results.append(value)
            outputs.append(Place(names[id(value)], False, tensor))
        if not results:
            raise GraphError(f"expected an output of '{graph.name}' that is computed, but all are inputs")
        step.yields(*results)
    with step.backward():
        step.yields()
    state.f.returns(*step.results, placement="caller", names=[f"r{index}" for index in range(len(results))])
    return Program(str(state.module), captured, [], dict(sorted(state.opaque.items())), state.copies, state.unsupported,
                   outputs)


def live_nodes(graph: Graph) -> List[Node]:
    """The nodes that an output, or an effect, needs."""
    needed = {item.value for item in graph.outputs if item.value}
    result = []
    for node in reversed(graph.nodes):
        if node.effect or any(name in needed for name, _ in node.outputs if name):
            result.append(node)
            needed.update(node.reads())
    return result[::-1]


def _read_inputs(graph: Graph, live: Sequence[Node]) -> set:
    names = {name for node in live for name in node.reads()}
    return names | {item.value for item in graph.outputs if item.value}


def _argument(state: Importer, item, group: Optional[Tuple[int, int]] = None, donated: bool = False) -> None:
    """An argument for an input; `group` is what an FP8 matrix was scaled by."""
    tensor, marks = item.tensor, ["fp8.donated"] if donated else []
    if tensor.elements == 0:
        raise GraphError(f"expected tensors with elements, but input '{item.target or item.name}' has shape {tensor.shape}")
    if item.kind in ("parameter", "buffer"):
        marks.append("fp8.parameter")
    elif item.kind == "tangent":
        marks.append("fp8.tangent")
    order = physical_order(tensor.shape, tensor.stride)
    element = ELEMENTS[tensor.dtype]
    elements = tensor.storage_bytes // ELEMENT_BYTES[tensor.dtype]
    if order is not None and tensor.offset == 0 and elements == tensor.elements:
        type = TensorType(element, tuple(tensor.shape[axis] for axis in order), group)
    else:  # a part of a storage: the whole of it is given
        type = TensorType(element, (max(elements, 1),))
    name = item.target or item.name
    if item.regathered:
        # What stays is the shard; the size of one rank's is not in the graph, and it is in no sum.
        type, name = TensorType("i8", (1,)), f"{name}.shard"
    value = state.f.argument(name, type, *marks)
    state.homes[item.name] = Home(value, tensor.dtype, math.prod(type.shape))


def _gather(state: Importer, item) -> None:
    """A weight that something outside the graph gathers: a local value, gathered again where backward reads it."""
    state.name = item.name
    type = state.type_of(item.name)
    shard = state.homes[item.name].value
    value = state.emit_opaque("fsdp.all_gather", [shard], [type], item.target or item.name,
                              bytes=2 * type.bytes)[0]
    state.f.mark(value, policy="recompute")
    state.define(item.name, value)


def _emit_region(state: Importer, live: Sequence[Node], region: str, emitters: Dict[str, Emitter]) -> None:
    for node in live:
        if node.region != region:
            continue
        state.name = node.name
        place = node.location.line
        file, _, line = place.rpartition(":")
        if file and line.isdigit():
            with state.f.location(file, int(line)):
                _emit(state, node, emitters)
        else:
            with state.f.location(node.location.module or "graph", 1):
                _emit(state, node, emitters)


def _run_once(state: Importer, live: Sequence[Node]) -> None:
    """Keeps from being computed again what forward makes of an input that it updates: by then the input is another."""
    updated = [state.homes[item.of] for item in state.graph.outputs if item.kind == "mutation" and item.of in state.homes]
    for node in live:
        if node.region == "backward" or not any(state.homes.get(name) in updated for name in node.reads()):
            continue
        for home in (state.homes.get(name) for name, _ in node.outputs if name):
            if home is None or home in updated or home.value is None or home.value.op is None:
                continue
            if " fp8.opaque " in f"{home.value.op.head} ":
                home.value.op.attributes["recompute"] = "never"
            else:
                state.f.mark(home.value, policy="save")


def _emit(state: Importer, node: Node, emitters: Dict[str, Emitter]) -> None:
    for name, tensor in node.outputs:
        if name and tensor is not None and tensor.elements == 0:
            raise GraphError(f"expected tensors with elements, but '{name}' ({node.op}) has shape {tensor.shape}")
    if node.alias and all(alias or not name for alias, (name, _) in zip(node.alias, node.outputs)):
        same = all(state.tensors[alias].dtype == state.tensors[name].dtype
                   for alias, (name, _) in zip(node.alias, node.outputs) if name)
        if same:
            for alias, (name, _) in zip(node.alias, node.outputs):
                if name:
                    state.define_alias(name, alias)
            return
    emitter = emitters.get(node.op)
    if emitter is None or not emitter(state, node):
        state.fallback(node)


def _yield(state: Importer, step, region: str, kept: List[List[int]], others: Sequence[Value] = ()) -> List[Value]:
    """Ends a region with the storages of its outputs; each once, and none that was given or yielded before."""
    values: List[Value] = []
    index_of: Dict[int, int] = {}
    arguments = {id(argument) for argument in state.f.arguments}
    gone = {id(value) for value in others}
    for index, item in enumerate(state.graph.outputs):
        if item.region != region or item.value is None:
            continue
        home = state.homes[item.value]
        value = home.value
        if value is None:
            state.name = item.value
            tensor = state.tensor(item.value)
            value = state.strided(item.value, tensor.shape, tensor.stride, tensor.offset)
        if id(value) in arguments or id(value) in gone:
            continue
        if id(value) in index_of:
            kept[index_of[id(value)]].append(index)
            continue
        index_of[id(value)] = len(kept)
        kept.append([index])
        values.append(value)
    step.yields(*values)
    return values
