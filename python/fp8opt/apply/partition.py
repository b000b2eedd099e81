# ===- partition.py - a partitioner for torch.compile ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# torch.compile hands a partitioner the joint graph and gets a forward and a backward graph back. The one here has fp8-opt
# plan the graph, marks every forward operation as saved or recomputed, lets torch's own code split by these marks (it
# knows random numbers, collectives and symbols), and puts backward in the order of the plan. Needs torch.
#
#===----------------------------------------------------------------------===//
"""The partitioner that follows a plan."""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import torch
from torch.utils.checkpoint import CheckpointPolicy

from ..explanations.planning import GraphPlan, PlanError, plan_graph
from ..graphs.graph import GraphError
from ..graphs.partitioner import targets_of
from ..graphs.trace import CaptureError, from_joint

__all__ = ["Partitioner", "partition_by", "partitioned"]

try:
    from torch._inductor.custom_graph_pass import CustomPartitionerFn
except ImportError:  # a torch without Inductor
    CustomPartitionerFn = object  # type: ignore[assignment,misc]

Budget = Union[None, str, int, Callable[[Any], Optional[str]]]


class Partitioner(CustomPartitionerFn):
    """A partitioner that keeps, recomputes and orders as the plan of fp8-opt says.

    For torch.compile with Inductor's kernels use `partitioned`, or set `torch._inductor.config.custom_partitioner_fn`;
    for a backend of one's own give it to `aot_autograd(partition_fn=...)`.

    `budget` limits the peak of each compiled graph's step, as planned (`"40GiB"`, or bytes); None: the fastest plan. A
    function gets the captured graph and gives the budget of that graph (`Coordinator.budget_of`). What no plan is found
    for is partitioned by torch's min-cut, with a warning. `plans` has the plan of each graph, in the order of
    compilation."""

    def __init__(self, budget: Budget = None, target: str = "h200", compiler: Optional[str] = None):
        self.budget, self.target, self.compiler = budget, target, compiler
        self.plans: List[GraphPlan] = []

    def __call__(self, gm: torch.fx.GraphModule, joint_inputs: Any, **options: Any) -> Tuple[Any, Any]:
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        options.pop("compiler", None)
        try:
            plan = self._plan(gm, options["num_fwd_outputs"], options.get("static_lifetime_input_indices"))
        except (CaptureError, GraphError, PlanError) as error:
            warnings.warn(f"fp8-opt has no plan for this graph, torch's min-cut partitions it: {error}", stacklevel=2)
            return min_cut_rematerialization_partition(gm, joint_inputs, **options)
        self.plans.append(plan)
        return partition_by(plan, gm, joint_inputs, **options)

    def _plan(self, gm: torch.fx.GraphModule, forward_outputs: int, static: Any) -> GraphPlan:
        _merge_equal(gm)
        graph = from_joint(gm, forward_outputs, f"graph_{len(self.plans)}", targets_of(gm, static or ()))
        if not any(item.region == "backward" and item.value for item in graph.outputs):
            raise GraphError("it has no gradients")
        budget = self.budget(graph) if callable(self.budget) else self.budget
        return plan_graph(graph, self.target, budget=None if budget is None else str(budget), compiler=self.compiler)

    def uuid(self) -> Optional[Any]:
        """What Inductor's cache of compiled graphs knows this partitioner by; None, which turns that cache off, where a
        function gives the budget."""
        if callable(self.budget):
            return None
        return hashlib.sha256(f"fp8opt 1 {self.budget} {self.target}".encode()).hexdigest()


def _merge_equal(gm: torch.fx.GraphModule) -> None:
    """Removes dead operations and makes one of equal ones, as torch's partitioner does before it looks at a graph."""
    from torch._functorch.compile_utils import fx_graph_cse

    gm.graph.eliminate_dead_code()
    gm.graph = fx_graph_cse(gm.graph)
    gm.recompile()


def partition_by(plan: GraphPlan, joint: torch.fx.GraphModule, joint_inputs: Any, *, num_fwd_outputs: int,
                 **options: Any) -> Tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """Splits a joint graph by its plan into a forward and a backward graph."""
    from torch._functorch.partitioners import default_partition

    kept = set(plan.kept)
    forward = {name for node in plan.graph.nodes if node.region == "forward" for name, _ in node.outputs if name}
    once = {node.name for node in plan.graph.nodes if node.random or node.effect}
    for node in joint.graph.nodes:
        if node.op != "call_function":
            continue
        node.meta.pop("recompute", None)
        node.meta.pop("ac_graph_id", None)
        if isinstance(node.meta.get("val"), (tuple, list)):
            if node.name in forward or any(user.name in forward for user in node.users):
                node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
        elif node.name in forward:
            saved = node.name in kept or node.name in once
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.MUST_RECOMPUTE
    fw, bw = default_partition(joint, joint_inputs, num_fwd_outputs=num_fwd_outputs, **options)
    reorder(bw, [name for name, _ in plan.order])
    return fw, bw


def reorder(module: torch.fx.GraphModule, order: List[str]) -> None:
    """Puts the operations of a graph in the given order of names: each after what it reads, which runs as late as it
    can; what the order leaves out comes where something needs it, or at the end."""
    graph = module.graph
    by_name: Dict[str, torch.fx.Node] = {node.name: node for node in graph.nodes}
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    place: Dict[torch.fx.Node, int] = {}
    done: Dict[torch.fx.Node, None] = {node: None for node in graph.nodes if node.op in ("placeholder", "get_attr")}
    for index, node in enumerate(graph.nodes):
        place[node] = index

    def visit(node: torch.fx.Node) -> None:
        # An explicit stack: chains are longer than Python's recursion.
        work = [node]
        while work:
            top = work[-1]
            if top in done:
                work.pop()
                continue
            missing = [operand for operand in top.all_input_nodes if operand not in done]
            if missing:
                work.extend(sorted(missing, key=lambda operand: -place[operand]))
            else:
                done[top] = None
                work.pop()

    for name in order:
        if name in by_name and by_name[name].op == "call_function":
            visit(by_name[name])
    for node in list(graph.nodes):
        if node is not output:
            visit(node)
    previous = None
    for node in done:
        if node.op == "call_function":
            if previous is None:
                output.prepend(node)
            else:
                previous.append(node)
            previous = node
    graph.lint()
    module.recompile()


@contextlib.contextmanager
def partitioned(budget: Budget = None, target: str = "h200", compiler: Optional[str] = None) -> Iterator[Partitioner]:
    """What torch.compile compiles inside is partitioned by plans of fp8-opt, and runs with Inductor's kernels:

        with fp8opt.apply.partitioned(budget="40GiB") as partitioner:
            step(torch.compile(model), batch)        # the first call compiles
        print(partitioner.plans[0].plan["peak_bytes"])
    """
    from torch._inductor import config

    partitioner = Partitioner(budget, target, compiler)
    with config.patch(custom_partitioner_fn=partitioner):
        yield partitioner
