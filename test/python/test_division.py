# ===- test_division.py - one budget over several blocks ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The peak of a step through blocks against a simulation of its events, and divisions against all that there are.
#
# ===-----------------------------------------------------=== #

import itertools
import random

import pytest

from fp8opt.apply.division import BlockCost, divide, peak_of_blocks
from fp8opt.command import InputError


def simulated(costs):
    """What lies there, by name, event by event: a block's forward takes its input and leaves what it keeps and its result;
    backward takes the gradient of its result, leaves that of its input and those of its parameters."""
    there, peak = {}, 0

    def during(size):
        nonlocal peak
        peak = max(peak, sum(there.values()) + size)

    last = len(costs) - 1
    for number, cost in enumerate(costs):
        during(cost.forward)
        there[f"kept {number}"] = cost.kept
        if number > 0:  # the input was the result of the block before
            there.pop(f"result {number - 1}")
            there[f"input {number}"] = cost.kept_inputs
        there[f"result {number}"] = cost.results
    for number in range(last, -1, -1):
        cost = costs[number]
        there.pop(f"kept {number}")  # in the peak of backward from here on
        during(cost.backward)
        if number < last:
            there.pop(f"gradient {number + 1}")
        there.pop(f"input {number}", None)
        there[f"gradient {number}"] = cost.results
        there[f"parameters {number}"] = cost.gradients
    return peak


def ways(seed, count=4):
    draw = random.Random(seed)
    gradients, results = draw.randrange(9), draw.randrange(1, 9)
    return [BlockCost(draw.randrange(30), draw.choice([0, results]), draw.randrange(10, 60), draw.randrange(20, 80), gradients,
                      results, draw.randrange(1, 20)) for _ in range(count)]


@pytest.mark.parametrize("seed", range(20))
def test_peak_of_blocks(seed):
    costs = ways(seed, 5)
    for blocks in range(1, 6):
        assert peak_of_blocks(costs[:blocks]) == simulated(costs[:blocks])


@pytest.mark.parametrize("seed", range(20))
def test_no_other_division_is_faster(seed):
    costs, blocks = ways(seed), 4
    for most in (1, 2, 3):
        every = [chosen for chosen in itertools.product(range(len(costs)), repeat=blocks) if len(set(chosen)) <= most]
        peaks = {chosen: simulated([costs[index] for index in chosen]) for chosen in every}
        for budget in sorted(set(peaks.values()))[::7]:
            found = divide(costs, blocks, budget, most)
            fastest = min(sum(costs[index].seconds for index in chosen) for chosen in every if peaks[chosen] <= budget)
            assert found.peak_bytes == peaks[found.chosen] <= budget and len(set(found.chosen)) <= most
            assert found.seconds == fastest
        with pytest.raises(InputError, match="expected a budget of at least [0-9,]+ B for 4 blocks"):
            divide(costs, blocks, min(peaks.values()) - 1, most)


def test_the_last_block_keeps_for_the_shortest_time():
    keeping = BlockCost(kept=100, kept_inputs=0, forward=110, backward=120, gradients=1, results=10, seconds=1.0)
    sparing = BlockCost(kept=10, kept_inputs=0, forward=110, backward=120, gradients=1, results=10, seconds=2.0)
    assert divide([keeping, sparing], 3, 200).chosen == (1, 1, 0)
    assert divide([keeping, sparing], 3).chosen == (0, 0, 0)


def test_refused():
    with pytest.raises(InputError, match="at least one block"):
        divide(ways(0), 0)
