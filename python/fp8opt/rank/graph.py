# ===- graph.py - what a layer allocates, and when ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A layer as the operations that run on one rank, with the tensors that each reads and makes; and the walk through forward and
# backward that says which of them are live at each operation, under a policy of recomputation.
#
# ===--------------------------------------------------------===#
"""Operations of a layer and the lives of their tensors."""

import dataclasses
from typing import Dict, FrozenSet, List, NamedTuple, Sequence, Set, Tuple

__all__ = ["Graph", "Live", "Op", "Point", "Policy", "Walk", "walk"]


@dataclasses.dataclass(frozen=True)
class Op:
    """An operation: what it reads, what it makes, and what lives only while it runs. Names are those of the graph's tensors."""

    name: str
    reads: Tuple[str, ...]
    makes: Tuple[str, ...]
    work: Tuple[str, ...] = ()


@dataclasses.dataclass
class Graph:
    """The operations of a layer. Forward makes `output` from `input`; backward reads what forward made, and gradients.

    `bytes` has the size of every tensor; `modules` the recomputable modules (core_attn, mlp, ...) that a forward operation
    belongs to; `flops` the floating-point operations of those that multiply; `sent` and `gathered` what coalesced gathers
    read and make, which late frees hold until the CPU next waits for the GPU, `waits` the operations at which it does;
    `weight_operands` what the weight gradients read, which waits where they are put off.
    """

    input: str
    output: str
    bytes: Dict[str, int] = dataclasses.field(default_factory=dict)
    forward: List[Op] = dataclasses.field(default_factory=list)
    backward: List[Op] = dataclasses.field(default_factory=list)
    modules: Dict[str, FrozenSet[str]] = dataclasses.field(default_factory=dict)
    flops: Dict[str, float] = dataclasses.field(default_factory=dict)
    sent: List[str] = dataclasses.field(default_factory=list)
    gathered: List[str] = dataclasses.field(default_factory=list)
    waits: FrozenSet[str] = frozenset()
    weight_operands: List[str] = dataclasses.field(default_factory=list)


# Modules that a checkpoint runs again, as a whole, when the gradient of their result arrives. The others' results are made again
# where backward first reads them (Megatron-LM, CheckpointWithoutOutput).
CHECKPOINTED = frozenset(("all", "core_attn", "mlp", "moe", "shared_experts"))


class Policy(NamedTuple):
    """What is dropped after forward: tensors made by an operation of one of `modules`, or all but the layer's input. `frees`:
    `prompt`, or what lives until the CPU next waits for the GPU: `late` what coalesced gathers read and make, `emptied` what they
    read (what they make is emptied by hand)."""

    modules: FrozenSet[str] = frozenset()
    everything: bool = False
    frees: str = "prompt"


class Live(NamedTuple):
    """A tensor's life in a walk: the point at which it is made, that after which it is gone, whether it is kept from forward to
    backward, and whether it is still held after the layer's pass."""

    name: str
    bytes: int
    born: int
    dies: int
    saved: bool
    held: bool


class Point(NamedTuple):
    """An operation of a walk and what is live while it runs. `again`: it recomputes. `waits`: the CPU waits there for all that
    the GPU was given before."""

    op: str
    backward: bool
    again: bool
    live: int
    waits: bool


class Walk(NamedTuple):
    """A layer's forward and backward: its points, the lives of its tensors, and the bytes that it keeps between them."""

    points: List[Point]
    lives: List[Live]
    saved: int

    def peak(self, backward: bool) -> int:
        """The most that is live in one of the two passes."""
        return max((point.live for point in self.points if point.backward == backward), default=0)

    def held(self, backward: bool) -> int:
        """Bytes that one of the two passes leaves behind, for the next wait of the CPU to free."""
        border = next(index for index, point in enumerate(self.points) if point.backward)
        return sum(life.bytes for life in self.lives if life.held and (life.dies >= border) == backward)


def _order(graph: Graph, policy: Policy) -> List[Tuple[Op, bool, bool]]:
    """The operations as they run, each with whether it is in backward and whether it recomputes."""
    # What is dropped after forward, each with the module that makes it again.
    groups: Dict[str, str] = {}
    for op in graph.forward:
        chosen = {"all"} if policy.everything else policy.modules & graph.modules.get(op.name, frozenset())
        if chosen:
            groups.update((name, min(chosen)) for name in op.makes)
    order = [(op, False, False) for op in graph.forward]
    done: Set[str] = set()
    for op in graph.backward:
        wanted = [name for name in op.reads if name in groups and name not in done]
        for name in op.reads:
            made = name[2:] if name.startswith("d.") else ""
            if made not in done and groups.get(made) in CHECKPOINTED:
                wanted.append(made)
        if wanted:
            order += [(again, True, True) for again in _recompute(graph, groups, done, wanted)]
        order.append((op, True, False))
    return order


def _recompute(graph: Graph, groups: Dict[str, str], done: Set[str], wanted: Sequence[str]) -> List[Op]:
    """The forward operations that bring the wanted tensors back: all of each one's module, as a checkpoint runs them."""
    modules = {groups[name] for name in wanted}
    grown = True
    while grown:  # a module may start from another one's tensors
        grown = False
        for op in graph.forward:
            if any(groups.get(name) in modules for name in op.makes):
                for name in op.reads:
                    if name in groups and name not in done and groups[name] not in modules:
                        modules.add(groups[name])
                        grown = True
    ops = [op for op in graph.forward if any(groups.get(name) in modules for name in op.makes)]
    for op in ops:
        done |= set(op.makes)
    return ops


def walk(graph: Graph, policy: Policy = Policy()) -> Walk:
    """Runs a layer. Each tensor is freed after the last operation that reads it, in the pass that reads it last; the layer's
    input and the gradient of its output belong to it, its output and the gradient of its input to its neighbours."""
    order = _order(graph, policy)
    first_backward = next(index for index, (_, backward, _) in enumerate(order) if backward)
    # A name that is recomputed has two lives: (name, which).
    lives: Dict[Tuple[str, int], List[int]] = {(graph.input, 0): [0, 0]}
    current: Dict[str, Tuple[str, int]] = {graph.input: (graph.input, 0)}
    for index, (op, backward, again) in enumerate(order):
        for name in op.reads:
            if name in current:
                key = current[name]
                # Read in backward, what forward made is kept; what was made again there has a life of its own.
                lives[key][1] = index
            else:
                current[name] = (name, 0)
                lives[current[name]] = [first_backward if backward else 0, index]
        for name in op.makes:
            current[name] = (name, 1 if again else 0)
            lives[current[name]] = [index, index]
        for name in op.work:
            lives[(name, 2 * index + 2)] = [index, index]
    waits = [index for index, (op, _, _) in enumerate(order) if op.name in graph.waits]
    late = {"prompt": [], "emptied": graph.sent, "late": graph.sent + graph.gathered}[policy.frees]
    result = []
    for (name, _), (born, dies) in lives.items():
        saved, held = born < first_backward <= dies, False
        if name in late:
            end = first_backward if dies < first_backward else len(order)
            free = next((index for index in waits if dies < index < end), end)
            dies, held = free - 1, free == end
        result.append(Live(name, graph.bytes[name], born, dies, saved, held))
    points = []
    for index, (op, backward, again) in enumerate(order):
        live = sum(life.bytes for life in result if life.born <= index <= life.dies)
        points.append(Point(op.name, backward, again, live, op.name in graph.waits))
    return Walk(points, result, sum(life.bytes for life in result if life.saved))
