# ===- graph.py - a captured joint graph, without torch ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The joint forward and backward graph of a PyTorch module as plain data, and its JSON form, which is read and written
# without torch: a user can send one, and tests need no torch. docs/capture.md describes every key.
#
#===----------------------------------------------------------------------===//
"""Plain data of a captured graph.

A graph is a list of nodes in the order of the trace. Every value has a name, unique in the graph: the name of the FX
node that made it. A node's arguments hold `Ref("name")` where they read a value, and numbers, strings, lists and
`Special` (data types, devices, memory formats) elsewhere.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Tuple

SCHEMA = "fp8opt-graph-1"

# Bytes of an element, by the name that a dump uses: torch's, without the module.
ELEMENT_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
}

INPUT_KINDS = ("parameter", "buffer", "input", "tangent", "other")
OUTPUT_KINDS = ("output", "mutation", "gradient", "other")
REGIONS = ("forward", "backward")
# How PyTorch ran: eager autograd; eager with a selective checkpoint; torch.compile with its min-cut partitioner.
HOW = ("eager autograd", "eager selective checkpoint", "torch.compile")


class GraphError(ValueError):
    """A dump that is no graph of this schema; the text says where and what was expected."""


@dataclass(frozen=True)
class Tensor:
    """Element type, shape, strides and offset (in elements) of a value; `storage_bytes` of what it lies in."""

    dtype: str
    shape: Tuple[int, ...]
    stride: Tuple[int, ...]
    offset: int = 0
    storage_bytes: int = 0

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the elements, whatever the storage is."""
        return self.elements * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True)
class Ref:
    """An argument that is a value."""

    name: str


@dataclass(frozen=True)
class Special:
    """An argument that JSON has no form for: `kind` is `dtype`, `device`, `layout`, `memory_format` or `other`."""

    kind: str
    text: str


@dataclass(frozen=True)
class Location:
    """Where in the user's code a node comes from: the module's path and the Python lines, innermost first."""

    module: str = ""
    lines: Tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The innermost line as `file:line`, or nothing."""
        return self.lines[0].split(" ", 1)[0] if self.lines else ""


@dataclass
class Input:
    """A value that the graph is given. `target` is a parameter's or buffer's name in the module.

    `regathered`: an unsharded weight that something outside the graph gathers and frees (FSDP2), so that keeping it
    costs its bytes."""

    name: str
    kind: str
    tensor: Optional[Tensor]
    target: str = ""
    regathered: bool = False


@dataclass
class Node:
    """One operation. `outputs` are `(name, tensor)`, in the order of the op's results; a result that is no tensor, or
    that nothing reads, is left out by an empty name. `alias` gives for each output the value whose storage it shares,
    or an empty name. `recompute` is what selective checkpointing in the user's code asked for (`save`, `recompute`)."""

    op: str
    outputs: List[Tuple[str, Optional[Tensor]]]
    args: List[Any] = field(default_factory=list)
    kwargs: Dict[str, Any] = field(default_factory=dict)
    region: str = "forward"
    alias: List[str] = field(default_factory=list)
    location: Location = Location()
    random: bool = False
    effect: bool = False
    recompute: str = ""

    @property
    def name(self) -> str:
        """The name of the first output that has one."""
        return next((name for name, _ in self.outputs if name), "")

    def op_of(self, value: str) -> str:
        """The operation, with the number of the result that `value` is where others of its results are read too:
        `aten.topk.default#1`. The numbers are those of the dialect's op, and of its patterns for policies."""
        names = [name for name, tensor in self.outputs if name and tensor is not None]
        return f"{self.op}#{names.index(value)}" if len(names) > 1 and value in names else self.op

    def reads(self) -> List[str]:
        """Names of the values that the node reads, in order, with repetitions."""
        return [ref.name for ref in refs(list(self.args) + list(self.kwargs.values()))]


@dataclass
class Output:
    """A value that the graph gives back: a result, the new value of a mutated input, or the gradient of an input.

    `of` is the name of that input; `value` is None where there is no such gradient."""

    kind: str
    region: str
    value: Optional[str]
    of: str = ""


@dataclass
class Graph:
    """A joint graph. `kept` holds what PyTorch keeps from forward to backward, one entry a way of running."""

    name: str
    inputs: List[Input] = field(default_factory=list)
    nodes: List[Node] = field(default_factory=list)
    outputs: List[Output] = field(default_factory=list)
    kept: List["Kept"] = field(default_factory=list)
    torch: str = ""

    def tensors(self) -> Dict[str, Optional[Tensor]]:
        """The tensor of each value."""
        result = {item.name: item.tensor for item in self.inputs}
        for node in self.nodes:
            result.update((name, tensor) for name, tensor in node.outputs if name)
        return result

    def producers(self) -> Dict[str, Node]:
        """The node of each value that is no input."""
        return {name: node for node in self.nodes for name, _ in node.outputs if name}

    def roots(self) -> Dict[str, str]:
        """For each value the first one that lies in the same storage."""
        result = {item.name: item.name for item in self.inputs}
        for node in self.nodes:
            aliases = node.alias or [""] * len(node.outputs)
            for (name, _), alias in zip(node.outputs, aliases):
                if name:
                    result[name] = result[alias] if alias else name
        return result

    def save(self, path) -> None:
        """Writes the graph as JSON."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(to_json(self), file, separators=(",", ":"))
            file.write("\n")


@dataclass
class KeptValue:
    """A storage that PyTorch keeps from forward to backward: the operation that made it, where, and why."""

    op: str
    bytes: int
    dtype: str
    shape: Tuple[int, ...]
    location: Location
    why: str
    value: str = ""


@dataclass
class Change:
    """What taking an operation off the save list of a selective checkpoint would change: what is kept then, the peak
    then, and how many results of the operation are computed again."""

    op: str
    kept_bytes: int
    peak_bytes: int
    times: int


@dataclass
class Kept:
    """What one way of running keeps. `how` is one of `HOW`; `peak_bytes` is the largest sum of live storages that the step
    allocated, parameters and inputs left out, and `peak_at` the operation it was seen at; both are None where only the
    kept values are known. `changes` were tried, `notes` are sentences for the user."""

    how: str
    values: List[KeptValue]
    peak_bytes: Optional[int] = None
    peak_at: Optional[str] = None
    peak_location: Location = Location()
    changes: List[Change] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(value.bytes for value in self.values)


def refs(argument: Any) -> Iterator[Ref]:
    """All `Ref`s in an argument, in order."""
    if isinstance(argument, Ref):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for item in argument:
            yield from refs(item)
    elif isinstance(argument, dict):
        for item in argument.values():
            yield from refs(item)


# JSON. Locations and tensors repeat often, so they stand in tables.


def _argument_out(argument):
    if isinstance(argument, Ref):
        return {"value": argument.name}
    if isinstance(argument, Special):
        return {argument.kind: argument.text}
    if isinstance(argument, (list, tuple)):
        return [_argument_out(item) for item in argument]
    if isinstance(argument, float) and not math.isfinite(argument):
        return {"float": repr(argument)}
    return argument


def _argument_in(argument):
    if isinstance(argument, list):
        return [_argument_in(item) for item in argument]
    if isinstance(argument, dict):
        (kind, text), = argument.items()
        if kind == "value":
            return Ref(text)
        if kind == "float":
            return float(text)
        return Special(kind, text)
    return argument


class _Table:
    """Equal entries once, in the order of their first use."""

    def __init__(self):
        self.entries, self._index = [], {}

    def add(self, key, entry):
        if key not in self._index:
            self._index[key] = len(self.entries)
            self.entries.append(entry)
        return self._index[key]


def to_json(graph: Graph) -> dict:
    """The graph as what `json.dump` takes."""
    tensors, locations = _Table(), _Table()

    def tensor(item):
        if item is None:
            return None
        return tensors.add(item, {"dtype": item.dtype, "shape": list(item.shape), "stride": list(item.stride),
                                  "offset": item.offset, "storage_bytes": item.storage_bytes})

    def location(item):
        return locations.add(item, {"module": item.module, "lines": list(item.lines)})

    def node(item):
        result = {"op": item.op, "outputs": [[name, tensor(type)] for name, type in item.outputs],
                  "args": _argument_out(item.args), "region": item.region, "location": location(item.location)}
        if item.kwargs:
            result["kwargs"] = {key: _argument_out(value) for key, value in item.kwargs.items()}
        for key in ("alias", "random", "effect", "recompute"):
            value = getattr(item, key)
            if value and any(value if isinstance(value, list) else [value]):
                result[key] = value
        return result

    body = {
        "inputs": [{"name": item.name, "kind": item.kind, "tensor": tensor(item.tensor), "target": item.target,
                    "regathered": item.regathered} for item in graph.inputs],
        "nodes": [node(item) for item in graph.nodes],
        "outputs": [{"kind": item.kind, "region": item.region, "value": item.value, "of": item.of}
                    for item in graph.outputs],
        "kept": [{"how": item.how, "peak_bytes": item.peak_bytes, "peak_at": item.peak_at,
                  "peak_location": location(item.peak_location), "notes": item.notes,
                  "changes": [{"op": change.op, "kept_bytes": change.kept_bytes, "peak_bytes": change.peak_bytes,
                               "times": change.times} for change in item.changes],
                  "values": [{"op": value.op, "bytes": value.bytes, "dtype": value.dtype, "shape": list(value.shape),
                              "location": location(value.location), "why": value.why, "value": value.value}
                             for value in item.values]} for item in graph.kept],
    }
    return {"schema": SCHEMA, "name": graph.name, "torch": graph.torch, "tensors": tensors.entries,
            "locations": locations.entries, **body}


def from_json(data: Any) -> Graph:
    """The graph of what `json.load` gave; `GraphError` where it is no graph of this schema."""
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise GraphError(f"expected a graph of schema '{SCHEMA}', but got '{found}'; capture it again with this version")
    try:
        tensors = [Tensor(item["dtype"], tuple(item["shape"]), tuple(item["stride"]), item["offset"],
                          item["storage_bytes"]) for item in data["tensors"]]
        locations = [Location(item["module"], tuple(item["lines"])) for item in data["locations"]]

        def tensor(index):
            return None if index is None else tensors[index]

        graph = Graph(data["name"], torch=data["torch"])
        for item in data["inputs"]:
            graph.inputs.append(Input(item["name"], item["kind"], tensor(item["tensor"]), item["target"],
                                      item["regathered"]))
        for item in data["nodes"]:
            outputs = [(name, tensor(index)) for name, index in item["outputs"]]
            kwargs = {key: _argument_in(value) for key, value in item.get("kwargs", {}).items()}
            graph.nodes.append(Node(item["op"], outputs, _argument_in(item["args"]), kwargs, item["region"],
                                    item.get("alias", []), locations[item["location"]], item.get("random", False),
                                    item.get("effect", False), item.get("recompute", "")))
        for item in data["outputs"]:
            graph.outputs.append(Output(item["kind"], item["region"], item["value"], item["of"]))
        for item in data["kept"]:
            values = [KeptValue(value["op"], value["bytes"], value["dtype"], tuple(value["shape"]),
                                locations[value["location"]], value["why"], value["value"])
                      for value in item["values"]]
            changes = [Change(change["op"], change["kept_bytes"], change["peak_bytes"], change["times"])
                       for change in item["changes"]]
            graph.kept.append(Kept(item["how"], values, item["peak_bytes"], item["peak_at"],
                                   locations[item["peak_location"]], changes, item["notes"]))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise GraphError(f"expected a complete graph of schema '{SCHEMA}', but got one that is damaged: "
                         f"{type(error).__name__} {error}") from error
    check(graph)
    return graph


def check(graph: Graph) -> None:
    """Raises `GraphError` unless every name is defined once and before it is read, and every kind is a known one."""
    defined = set()

    def define(name, where):
        if name in defined:
            raise GraphError(f"expected names that are unique, but '{name}' is defined twice, last by {where}")
        defined.add(name)

    def read(name, where):
        if name not in defined:
            raise GraphError(f"expected a value that is defined before it is read, but got '{name}' in {where}")

    def tensor(item, where):
        if item is None:
            return
        if item.dtype not in ELEMENT_BYTES:
            raise GraphError(f"expected a data type that is known, but got '{item.dtype}' in {where}")
        if len(item.shape) != len(item.stride) or any(dim < 0 for dim in item.shape):
            raise GraphError(f"expected a stride for each dimension, but got shape {list(item.shape)} and strides "
                             f"{list(item.stride)} in {where}")

    def one_of(value, allowed, where):
        if value not in allowed:
            raise GraphError(f"expected one of {', '.join(allowed)}, but got '{value}' in {where}")

    for item in graph.kept:
        one_of(item.how, HOW, "what is kept")
    for item in graph.inputs:
        one_of(item.kind, INPUT_KINDS, f"input '{item.name}'")
        tensor(item.tensor, f"input '{item.name}'")
        define(item.name, "an input")
    for node in graph.nodes:
        where = f"node '{node.name}' ({node.op})"
        one_of(node.region, REGIONS, where)
        for name in node.reads():
            read(name, where)
        for alias in node.alias:
            if alias:
                read(alias, where)
        if node.alias and len(node.alias) != len(node.outputs):
            raise GraphError(f"expected an alias for each output, but got {len(node.alias)} in {where}")
        for name, type in node.outputs:
            tensor(type, where)
            if name:
                define(name, where)
    for item in graph.outputs:
        one_of(item.kind, OUTPUT_KINDS, "an output")
        one_of(item.region, REGIONS, "an output")
        if item.value is not None:
            read(item.value, "an output")


def load(path) -> Graph:
    """Reads a dump; `GraphError` where it is none."""
    with open(path, encoding="utf-8") as file:
        try:
            data = json.load(file)
        except ValueError as error:
            raise GraphError(f"expected a JSON file, but '{path}' is none: {error}") from error
    return from_json(data)
