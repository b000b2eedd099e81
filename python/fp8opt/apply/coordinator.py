# ===- coordinator.py - one memory budget over blocks that are compiled apart ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# torch.compile compiles the blocks of a model apart, and each plan sees its own graph only. What one block keeps lies under
# every other block's step, so the budget of one cannot be the budget of all. The coordinator divides it. Needs torch only
# through what calls it.
#
#===----------------------------------------------------------------------===//
"""Division of one budget over equal blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Optional, Union

from ..command import InputError, parse_bytes
from ..explanations.planning import GraphPlan, PlanError, budgets_of, plan_graph
from ..graphs.graph import Graph
from ..importer import Program, import_graph

__all__ = ["BlockCost", "Coordinator", "cost_of", "peak_of_blocks"]


@dataclass(frozen=True)
class BlockCost:
    """What one block costs, in bytes: `kept` from its forward to its backward, its inputs and those only it reads
    included; `peak`, the largest sum that its own forward and backward allocate, gradients of its parameters included;
    `gradients`, those of its parameters, which stay."""

    kept: int
    peak: int
    gradients: int


def peak_of_blocks(cost: BlockCost, blocks: int) -> int:
    """The peak of a step through `blocks` equal blocks, one after the other and back: while block k runs backward, those
    before it still keep theirs, and those behind it have left their gradients."""
    return max(before * cost.kept + cost.peak + (blocks - 1 - before) * cost.gradients for before in range(blocks))


def cost_of(plan: GraphPlan) -> BlockCost:
    """What a block costs by its plan."""
    tensors = plan.graph.tensors()
    inputs = {item.name: item for item in plan.graph.inputs}
    read = {name for node in plan.graph.nodes if node.region == "backward" for name in node.reads()}
    recomputed = {name for value in plan.recomputed if value in plan.graph.producers()
                  for name in plan.graph.producers()[value].reads()}
    # Every block is given another input; what is equal for all (positions) is no block's.
    own = [inputs[name] for name in sorted((read | recomputed) & set(inputs)) if inputs[name].kind == "input"]
    gradients = {item.of: item.value for item in plan.graph.outputs if item.kind == "gradient" and item.value}
    kept = plan.plan["saved_bytes"] + sum(item.tensor.bytes for item in own if item.name in gradients and item.tensor)
    stay = sum(tensors[value].bytes for name, value in gradients.items() if inputs[name].kind == "parameter")
    return BlockCost(kept, plan.plan["peak_bytes"], stay)


class Coordinator:
    """Divides `budget`, a limit on the peak of the whole step (parameters left out), over `blocks` equal blocks:

        coordinator = fp8opt.apply.Coordinator("60GiB", blocks=32, outside="4GiB")
        with fp8opt.apply.partitioned(coordinator.budget_of):
            ...

    `outside` is what else lies there when blocks run: logits, embeddings, the loss. The graph that is compiled first is
    taken for the block; another graph (an embedding, a head) gets what the blocks leave. `expected_peak` is the peak of
    the step by the plans, once the first graph is compiled."""

    def __init__(self, budget: Union[str, int], blocks: int, outside: Union[str, int] = 0, target: str = "h200",
                 compiler: Optional[str] = None):
        if blocks < 1:
            raise InputError(f"expected at least one block, but got {blocks}")
        self.budget, self.blocks, self.outside = parse_bytes(budget), blocks, parse_bytes(outside)
        self.target, self.compiler = target, compiler
        self.expected_peak: Optional[int] = None
        self.cost: Optional[BlockCost] = None
        self._budgets: Dict[str, Optional[str]] = {}

    def budget_of(self, graph: Graph) -> Optional[str]:
        """The budget of one compiled graph, for `Partitioner(budget=...)`."""
        program = import_graph(graph)
        if program.text not in self._budgets:
            first = not self._budgets
            self._budgets[program.text] = self._divide(program) if first else self._rest()
        return self._budgets[program.text]

    def _divide(self, program: Program) -> Optional[str]:
        """The largest budget of a block, of the grid of budgets, with which all fit; None, the fastest plan, where that
        fits."""

        def attempt(limit: Optional[int]) -> int:
            plan = plan_graph(program, self.target, budget=None if limit is None else str(limit), compiler=self.compiler)
            self.cost = cost_of(plan)
            self.expected_peak = peak_of_blocks(self.cost, self.blocks) + self.outside
            return self.expected_peak

        if attempt(None) <= self.budget:
            return None
        fastest = plan_graph(program, self.target, compiler=self.compiler).plan
        grid = budgets_of(fastest)
        if attempt(grid[0]) > self.budget:
            raise PlanError(f"expected a budget of at least {self.expected_peak:,} B for {self.blocks} blocks, but got "
                            f"{self.budget:,} B")
        low, high = 0, len(grid)  # grid[low] fits, grid[high] does not or is not there
        while high - low > 1:
            middle = (low + high) // 2
            if attempt(grid[middle]) <= self.budget:
                low = middle
            else:
                high = middle
        attempt(grid[low])
        return str(grid[low])

    def _rest(self) -> Optional[str]:
        """What the blocks leave to a graph that runs while all of them keep theirs."""
        assert self.cost is not None
        return str(max(self.budget - self.blocks * self.cost.kept, 1))
