# ===- test_coordinator.py - one budget over several blocks ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The peak of a step through equal blocks against a simulation of its events, and budgets that are divided.
#
# ===----------------------------------------------------------=== #

import pathlib

import pytest

from fp8opt import load_graph
from fp8opt.apply.coordinator import BlockCost, Coordinator, peak_of_blocks
from fp8opt.command import InputError
from fp8opt.explanations.planning import PlanError

FOLDER = pathlib.Path(__file__).resolve().parent / "graphs"


def simulated(cost, blocks):
    """Forward keeps, backward runs each block at its peak, frees what it kept and leaves its gradients."""
    live, peak = 0, 0
    for _ in range(blocks):
        peak = max(peak, live + cost.peak)
        live += cost.kept
    for _ in range(blocks):
        live -= cost.kept
        peak = max(peak, live + cost.peak)
        live += cost.gradients
    return max(peak, live)


@pytest.mark.parametrize("cost", [BlockCost(10, 25, 3), BlockCost(2, 25, 8), BlockCost(0, 5, 5), BlockCost(7, 7, 0)])
@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_peak_of_blocks(cost, blocks):
    assert peak_of_blocks(cost, blocks) == simulated(cost, blocks)


def test_budget_is_divided(tools):
    graph = load_graph(FOLDER / "float8_checkpointed.json")
    options = {"blocks": 8, "target": "cpu", "compiler": str(tools / "fp8-opt")}
    free = Coordinator("1GiB", **options)
    assert free.budget_of(graph) is None  # the fastest plan fits
    enough = free.expected_peak
    tight = Coordinator(enough - 1, **options)
    budget = tight.budget_of(graph)
    assert int(budget) < free.cost.peak or tight.cost.kept < free.cost.kept
    assert tight.expected_peak <= enough - 1
    assert tight.budget_of(graph) == budget  # the same graph again is the same block
    with pytest.raises(PlanError, match="expected a budget of at least [0-9,]+ B for 8 blocks"):
        Coordinator("1KiB", **options).budget_of(graph)


def test_the_rest_goes_to_other_graphs(tools):
    coordinator = Coordinator("1MiB", blocks=4, target="cpu", compiler=str(tools / "fp8-opt"))
    coordinator.budget_of(load_graph(FOLDER / "mlp.json"))
    assert int(coordinator.budget_of(load_graph(FOLDER / "tied.json"))) == 2**20 - 4 * coordinator.cost.kept


def test_refused():
    with pytest.raises(InputError, match="at least one block"):
        Coordinator("1GiB", blocks=0)
    with pytest.raises(InputError, match="expected a size such as"):
        Coordinator("much", blocks=1)
