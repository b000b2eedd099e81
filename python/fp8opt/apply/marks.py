# ===- marks.py - a joint graph split as a plan says ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Marks every forward operation as saved or recomputed, lets torch's own code split by these marks (it knows random numbers,
# collectives and symbols), and puts backward in the order of the plan. Needs torch.
#
#===----------------------------------------------------------------------===//
"""Splits by a plan of fp8-opt."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch
from torch.utils.checkpoint import CheckpointPolicy

from ..explanations.planning import GraphPlan

__all__ = ["partition_by", "reorder"]

_WAIT = torch.ops._c10d_functional.wait_tensor.default


def partition_by(plan: GraphPlan, joint: torch.fx.GraphModule, joint_inputs: Any, *, num_fwd_outputs: int,
                 **options: Any) -> Tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """Splits a joint graph by its plan into a forward and a backward graph."""
    from torch._functorch.partitioners import default_partition

    kept = {*plan.kept, *plan.returned}
    forward = {name for node in plan.graph.nodes if node.region == "forward" for name, _ in node.outputs if name}
    once = {node.name for node in plan.graph.nodes if node.random or node.effect}
    again = set(plan.recomputed) & forward
    for node in joint.graph.nodes:
        if node.op != "call_function":
            continue
        node.meta.pop("recompute", None)
        node.meta.pop("ac_graph_id", None)
        # Of an operation with several results these are marked, and the operation only where it runs again: torch would save the
        # state of the random generator for an attention that may draw numbers, whether it is computed again or not.
        if isinstance(node.meta.get("val"), (tuple, list)):
            if any(user.name in again for user in node.users):
                node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
        elif node.name in forward:
            saved = node.name in kept or node.name in once
            # Of a collective that is kept, what has been waited for.
            waited = [user for user in node.users if user.target is _WAIT]
            if node.target is _WAIT:
                saved = node.args[0].name in kept
            elif waited and str(node.target).startswith("_c10d_functional"):
                saved = False
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
