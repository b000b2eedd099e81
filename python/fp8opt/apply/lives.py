# ===- lives.py - what a lowered graph has in torch's memory ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A forward and a backward graph of the backend run operation by operation: stretches of fp8-opt, which allocate their results
# and compute in an arena, and operations of PyTorch. Their sizes are known, and a tensor is let go after its last use, so the
# peak of torch's allocations is known before anything has run. Needs torch.
#
#===----------------------------------------------------------------------===//
"""Peaks of the backend's graphs."""

from __future__ import annotations

import operator
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, Iterable, List, Optional, Sequence, Tuple

import torch

from .division import BlockCost
from .operations import Operation

__all__ = ["CompiledGraph", "results_of"]

_NONE: FrozenSet[int] = frozenset()


@dataclass
class _Lives:
    """The storages of a graph, by number, while its operations run. Names hold storages; a storage is there while a name that
    holds it is."""

    sizes: Dict[int, int] = field(default_factory=dict)  # of those that the graph counts
    holders: Dict[int, int] = field(default_factory=dict)
    live: int = 0
    peak: int = 0

    def make(self, size: int) -> int:
        number = len(self.sizes)
        self.sizes[number] = size
        return number

    def hold(self, storages: Iterable[int]) -> None:
        for number in storages:
            self.holders[number] = self.holders.get(number, 0) + 1
            if self.holders[number] == 1:
                self.live += self.sizes[number]
        self.peak = max(self.peak, self.live)

    def drop(self, storages: Iterable[int]) -> None:
        for number in storages:
            self.holders[number] -= 1
            if self.holders[number] == 0:
                self.live -= self.sizes[number]


def results_of(module: torch.fx.GraphModule) -> Sequence[Any]:
    """The results of a graph: nodes, or None."""
    return next(node for node in reversed(module.graph.nodes) if node.op == "output").args[0]


class _Run:
    """A pass over a graph. `given` has the storages that placeholders bring along, by their place among the placeholders;
    those of others are somebody else's and not counted."""

    def __init__(self, module: torch.fx.GraphModule, given: Dict[int, int], sizes: Dict[int, int]):
        self.lives = _Lives(dict(sizes))
        self.module = module
        self.held: Dict[torch.fx.Node, Any] = {}  # a set of storages, or a list of them for a tuple of tensors
        last: Dict[torch.fx.Node, torch.fx.Node] = {}
        for node in module.graph.nodes:
            for operand in node.all_input_nodes:
                last[operand] = node
        ends: Dict[torch.fx.Node, List[torch.fx.Node]] = {}
        for node, user in last.items():
            ends.setdefault(user, []).append(node)
        place = 0
        for node in module.graph.nodes:
            if node.op == "output":
                break
            if node.op == "placeholder":
                self.held[node] = frozenset([given[place]]) if place in given else _NONE
                place += 1
            else:
                self.held[node] = self._made(node)
            self.lives.hold(self._all(node))
            self.lives.peak = max(self.lives.peak, self.lives.live + self._temporary_bytes(node))
            for gone in ends.get(node, []) + ([] if node in last else [node]):
                self.lives.drop(self._all(gone))

    def _temporary_bytes(self, node: torch.fx.Node) -> int:
        part = self.module.get_submodule(str(node.target)) if node.op == "call_module" else None
        return (part.temporary_bytes or 0) if isinstance(part, Operation) else 0

    def _all(self, node: torch.fx.Node) -> FrozenSet[int]:
        held = self.held[node]
        return frozenset().union(*held) if isinstance(held, list) else held

    def _made(self, node: torch.fx.Node) -> Any:
        if node.op == "call_function" and node.target is operator.getitem:
            source = self.held[node.args[0]]
            return source[node.args[1]] if isinstance(source, list) else source
        if node.op == "call_module":
            part = self.module.get_submodule(str(node.target))
            if not isinstance(part, (torch.fx.GraphModule, Operation)):
                made = self._stretch(node, part.places)
                return made[0] if part.single else made
            if isinstance(part, Operation):
                value = node.meta.get("val")
            else:  # operations that were to be a stretch: only their results are known
                value = torch.fx.map_arg(results_of(part), lambda result: result.meta.get("val"))
        else:
            value = node.meta.get("val")
        if isinstance(value, (tuple, list)):
            return [self._tensor(node, item) for item in value]
        return self._tensor(node, value)

    def _stretch(self, node: torch.fx.Node, places: Sequence[Tuple[str, Optional[int], int]]) -> List[FrozenSet[int]]:
        """The results of a stretch: each name one storage; those that lie in an operand are the operand's."""
        made: Dict[str, FrozenSet[int]] = {}
        result: List[FrozenSet[int]] = []
        for name, argument, size in places:
            if argument is not None:
                result.append(self._all(node.args[argument]))  # type: ignore[arg-type]
                continue
            if name not in made:
                made[name] = frozenset([self.lives.make(size)])
            result.append(made[name])
        return result

    def _tensor(self, node: torch.fx.Node, value: Any) -> FrozenSet[int]:
        """The storage of an operation's result: that of the operand whose memory it lies in, or one of its own."""
        if not isinstance(value, torch.Tensor):
            return _NONE
        storage = value.untyped_storage()
        for operand in node.all_input_nodes:
            other = operand.meta.get("val")
            if isinstance(other, torch.Tensor) and other.untyped_storage()._cdata == storage._cdata:
                return self._all(operand)
        return frozenset([self.lives.make(storage.nbytes())])

    def of(self, result: Any) -> FrozenSet[int]:
        """The storages of one of the graph's results."""
        return self._all(result) if isinstance(result, torch.fx.Node) else _NONE

    def bytes(self, storages: Iterable[int]) -> int:
        return sum(self.lives.sizes[number] for number in storages)


@dataclass
class CompiledGraph:
    """A joint graph that the backend has compiled: `forward` and `backward` are its parts as they run. `forward_outputs` is
    how many results of forward are the module's, `static` are the places of parameters among the inputs, `saved_inputs` those of
    inputs that are kept for backward. `own` names what is kept that nobody else has."""

    forward_outputs: int
    static: FrozenSet[int]
    saved_inputs: FrozenSet[int]
    own: FrozenSet[str]
    forward: Optional[torch.fx.GraphModule] = None
    backward: Optional[torch.fx.GraphModule] = None

    @staticmethod
    def of(forward: torch.fx.GraphModule, forward_outputs: int, static: Iterable[int]) -> CompiledGraph:
        """What there is to know from the forward graph that a partitioner has given."""
        outputs = results_of(forward)
        inputs = [node for node in forward.graph.nodes if node.op == "placeholder"]
        saved = [node for node in outputs[forward_outputs:] if isinstance(node, torch.fx.Node)]
        holders = Counter(_storage(node) for node in dict.fromkeys([*inputs, *outputs[:forward_outputs], *saved])
                          if isinstance(node, torch.fx.Node))
        return CompiledGraph(forward_outputs, frozenset(static),
                             frozenset(inputs.index(node) for node in saved if node.op == "placeholder"),
                             frozenset(node.name for node in saved if holders[_storage(node)] == 1 and node not in inputs
                                       and node not in outputs[:forward_outputs]))

    def cost(self) -> BlockCost:
        """What a step of the graph takes in torch's memory, the arena left out (`seconds` is 0). Temporaries within an
        operation of PyTorch are those of its first call on a GPU, none before."""
        assert self.forward is not None and self.backward is not None
        first = _Run(self.forward, {}, {})
        outputs = results_of(self.forward)
        results = frozenset().union(*(first.of(item) for item in outputs[:self.forward_outputs]))
        saved = [first.of(item) for item in outputs[self.forward_outputs:]]
        kept = frozenset().union(*saved) - results
        given = {place: next(iter(storages)) for place, storages in enumerate(saved) if storages and storages <= kept}
        second = _Run(self.backward, given, first.lives.sizes)
        gradients = results_of(self.backward)
        own = {place for place in self.saved_inputs if place not in self.static and place < len(gradients)
               and isinstance(gradients[place], torch.fx.Node)}
        parameters = frozenset().union(*(second.of(item) for place, item in enumerate(gradients) if place in self.static))
        inputs = [node for node in self.forward.graph.nodes if node.op == "placeholder"]
        return BlockCost(first.bytes(kept), sum(_storage_bytes(inputs[place]) for place in own), first.lives.peak,
                         second.lives.peak, second.bytes(parameters), first.bytes(results), 0.0)


def _storage(node: torch.fx.Node) -> int:
    """What tells the storage of a value, where it is a tensor."""
    value = node.meta.get("val")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else id(node)


def _storage_bytes(node: torch.fx.Node) -> int:
    value = node.meta.get("val")
    return value.untyped_storage().nbytes() if isinstance(value, torch.Tensor) else 0
