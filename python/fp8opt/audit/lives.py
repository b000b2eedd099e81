# ===- lives.py - steps, layers and groups in a history ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Finds the structure of a training run in the history of its allocator: rounds (a forward with its backward, between which
# almost nothing lives), the turn of each from forward to backward, and the clock of its layers, from tensors that are freed in
# the reverse of the order in which they were made.
#
# ===--------------------------------------------------------===#
"""Rounds, turns and layers of a run."""

import bisect
from typing import Dict, List, NamedTuple, Optional, Tuple

from .snapshot import Allocation, Frame, Snapshot

__all__ = ["Group", "Round", "find_rounds", "group_allocations"]


class Group(NamedTuple):
    """Allocations of a round with the same bytes and stack, in the order in which they were made."""

    size: int
    stack: int
    members: Tuple[Allocation, ...]


class Round(NamedTuple):
    """A forward and its backward: the events from `start` to `end`, the event at which forward turns to backward (None where
    nothing shows it), and the events at which a layer of forward begins or one of backward ends, in order."""

    start: int
    end: int
    turn: Optional[int]
    clock: Tuple[int, ...]

    def layer_at(self, event: int) -> int:
        """How many layers have passed at an event, forward and backward counted on."""
        return bisect.bisect_right(self.clock, event)


def group_allocations(allocations: List[Allocation], smallest: int) -> List[Group]:
    """Groups by size and stack, by the first member's birth; those smaller than `smallest` bytes a member are left out."""
    groups: Dict[Tuple[int, int], List[Allocation]] = {}
    for entry in allocations:
        if entry.size >= smallest:
            groups.setdefault((entry.size, entry.stack), []).append(entry)
    return [Group(size, stack, tuple(members)) for (size, stack), members in groups.items()]


def find_rounds(snapshot: Snapshot, smallest: int) -> List[Round]:
    """The rounds of a run. Of the tensors that a line keeps in forward, one for each layer, backward frees the last first: such
    a group shows where each round begins, turns and ends. Without one, as where a pipeline has several microbatches in flight, a
    round is what lies between two moments at which little is live, and has no turn."""
    length = len(snapshot.live)
    best: List[Tuple[int, int, List[Allocation]]] = []
    best_rank = (0, 0)
    made = [entry for entry in snapshot.allocations if entry.born >= 0]
    for group in group_allocations(made, smallest):
        chains = _chains(group)
        if chains:
            spreads = sorted(_spread(chain) for chain in chains)
            rank = spreads[len(spreads) // 2], group.size
            if rank > best_rank:
                best, best_rank = chains, rank
    if not best:
        return _rounds_by_level(snapshot, made)
    # A round ends where least is live between its last free and the next one's first layer.
    bounds = [0]
    for chain, following in zip(best, best[1:]):
        gap = range(chain[0].died, following[0].born)
        bounds.append(min(gap, key=lambda event: (snapshot.live[event], -event)) + 1)
    # The first round begins as long before its first layer as the others do: what is made before is the model.
    if len(best) > 1:
        bounds[0] = max(0, best[0][0].born - max(chain[0].born - start for chain, start in zip(best[1:], bounds[1:])))
    bounds.append(length)
    rounds = []
    backward = sorted(entry.born for entry in made if _in_backward(snapshot.stacks[entry.stack]))
    for chain, start, end in zip(best, bounds, bounds[1:]):
        clock = [entry.born for entry in chain] + [entry.died for entry in chain]
        # Forward turns between the last birth and the first free: where backward first makes something, if stacks tell; else
        # at once, so that nothing of backward is taken for kept.
        turn = chain[-1].born
        at = bisect.bisect_right(backward, chain[-1].born)
        if at < len(backward) and backward[at] < chain[-1].died:
            turn = backward[at] - 1
        rounds.append(Round(start, end, turn, tuple(sorted(clock))))
    return rounds


def _rounds_by_level(snapshot: Snapshot, made: List[Allocation]) -> List[Round]:
    """Rounds by how much is live of what is freed in the history: each rises above half of the most and falls below a tenth."""
    length = len(snapshot.live)
    change = [0] * (length + 1)
    for entry in made:
        if entry.died is not None:
            change[entry.born] += entry.size
            change[entry.died] -= entry.size
    level, levels = 0, []
    for step in change[:length]:
        level += step
        levels.append(level)
    top = max(levels)
    bounds, lowest, high = [0], 0, False
    for event, level in enumerate(levels):
        if level > top / 2:
            if not high and len(bounds) and lowest > bounds[-1]:
                bounds.append(lowest)
            high = True
        elif level < top / 10:
            if high or level <= levels[lowest]:
                lowest = event
            high = False
    bounds.append(length)
    return [Round(start, end, None, ()) for start, end in zip(bounds, bounds[1:])]


def _in_backward(stack: Tuple[Frame, ...]) -> bool:
    """Whether a stack is of backward: in a function of that name, or without lines, as autograd's own threads are."""
    return not stack or any(frame.function in ("backward", "_engine_run_backward") for frame in stack)


def _spread(chain: List[Allocation]) -> int:
    """How well a chain tells time: births and deaths that are both spread out come from forward and backward, deaths all at
    once from a list that was cleared."""
    return min(chain[-1].born - chain[0].born, chain[0].died - chain[-1].died)


def _chains(group: Group) -> List[List[Allocation]]:
    """The rounds of a group whose members are freed last first: for each time between two moments at which none is live, the
    members that are live when most are. Empty where the order is another, or no time has two."""
    events = sorted(
        [(m.born, 1, index) for index, m in enumerate(group.members)]
        + [(m.died, 0, index) for index, m in enumerate(group.members) if m.died is not None]
    )
    chains: List[List[Allocation]] = []
    stack: List[int] = []
    deepest: List[int] = []
    for _, birth, index in events:
        if birth:
            stack.append(index)
            if len(stack) > len(deepest):
                deepest = list(stack)
            continue
        if not stack or stack[-1] != index:
            return []
        stack.pop()
        if not stack:
            if len(deepest) >= 2:
                chains.append([group.members[i] for i in deepest])
            deepest = []
    return chains
