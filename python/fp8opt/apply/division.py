# ===- division.py - one memory budget over blocks that are compiled apart ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# torch.compile compiles the blocks of a model apart, and each sees its own graph only. What one block keeps lies under every
# other block's step, and the last block's is kept for the shortest time, so that the same way of computing is not the best
# for all. Given the ways in which one block can be computed, this chooses one for each. Needs no torch.
#
#===----------------------------------------------------------------------===//
"""Division of one budget over equal blocks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

from ..command import InputError

__all__ = ["BlockCost", "Division", "divide", "peak_of_blocks"]


@dataclass(frozen=True)
class BlockCost:
    """What one way to compute a block takes, in bytes: `kept` from its forward to its backward, `kept_inputs` of its inputs
    beside that (they are the results of the block before); the peaks of its `forward` and its `backward` by themselves, what
    it keeps and the gradients of its parameters (`gradients`, which stay) included; its `results`, as many as the gradients
    of its inputs. And the `seconds` that it takes."""

    kept: int
    kept_inputs: int
    forward: int
    backward: int
    gradients: int
    results: int
    seconds: float


@dataclass(frozen=True)
class Division:
    """A way for each block, by its number among those given; with the peak of the step through all blocks, and its time."""

    chosen: Tuple[int, ...]
    peak_bytes: int
    seconds: float


def _under(number: int, blocks: int, kept: int, cost: BlockCost, after: int) -> int:
    """The peak while block `number` runs forward or backward: the blocks before it keep `kept`, those behind it have left
    `after` bytes of gradients."""
    first, last = number == 0, number == blocks - 1
    # The input of the first block is given, and the last block's results stay with whoever computes the loss.
    forward = kept + (0 if first else cost.results) + cost.forward
    backward = (kept + (0 if first else cost.kept_inputs) + cost.backward + after + cost.results
                + (0 if last else cost.results))
    return max(forward, backward)


def peak_of_blocks(costs: Sequence[BlockCost]) -> int:
    """The peak of a step through blocks, one after the other and back."""
    peak, kept = 0, 0
    for number, cost in enumerate(costs):
        after = sum(other.gradients for other in costs[number + 1:])
        peak = max(peak, _under(number, len(costs), kept, cost, after))
        kept += cost.kept + (0 if number == 0 else cost.kept_inputs)
    return peak


def divide(costs: Sequence[BlockCost], blocks: int, budget: Optional[int] = None, most: int = 3) -> Division:
    """The fastest way through `blocks` equal blocks whose peak is within `budget` bytes, and of equally fast ones the one that
    keeps least; each block is computed in one of the ways `costs`, and at most `most` of them are used, since each has to be
    compiled.

    Raises `InputError` with the smallest peak where none fits."""
    if blocks < 1:
        raise InputError(f"expected at least one block, but got {blocks}")
    best: Optional[Division] = None
    for used in itertools.combinations(range(len(costs)), min(most, len(costs))):
        chosen = _fastest(costs, used, blocks, budget)
        if chosen is not None:
            ways = [costs[index] for index in chosen]
            found = Division(chosen, peak_of_blocks(ways), sum(way.seconds for way in ways))
            if best is None or (found.seconds, found.peak_bytes) < (best.seconds, best.peak_bytes):
                best = found
    if best is None:
        least = _least(costs, blocks, most)
        raise InputError(f"expected a budget of at least {least:,} B for {blocks} blocks, but got {budget:,} B")
    return best


def _least(costs: Sequence[BlockCost], blocks: int, most: int) -> int:
    """The smallest peak of a step through blocks, by bisection over budgets."""
    low, high = 0, min(peak_of_blocks([cost] * blocks) for cost in costs)  # high fits
    while low < high:
        middle = (low + high) // 2
        if any(_fastest(costs, used, blocks, middle) for used in itertools.combinations(range(len(costs)), min(most, len(costs)))):
            high = middle
        else:
            low = middle + 1
    return high


def _fastest(costs: Sequence[BlockCost], used: Sequence[int], blocks: int,
             budget: Optional[int]) -> Optional[Tuple[int, ...]]:
    """A shortest path over what the blocks so far keep: of the ways to get to a block, only those that no other beats in
    both time and bytes go on."""
    front: List[Tuple[int, float, Tuple[int, ...]]] = [(0, 0.0, ())]  # bytes kept, seconds, ways; more bytes, fewer seconds
    for number in range(blocks):
        after = (blocks - 1 - number) * costs[used[0]].gradients
        reached = []
        for kept, seconds, chosen in front:
            for index in used:
                cost = costs[index]
                if budget is not None and _under(number, blocks, kept, cost, after) > budget:
                    continue
                reached.append((kept + cost.kept + (0 if number == 0 else cost.kept_inputs), seconds + cost.seconds,
                                (*chosen, index)))
        front = []
        for entry in sorted(reached):
            if not front or entry[1] < front[-1][1]:
                front.append(entry)
        if not front:
            return None
    return min(front, key=lambda entry: (entry[1], entry[0]))[2]
