# ===- stretches.py - which stretch an operation runs in ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# torch's partitioner gathers operations in stretches from the end of a graph on, so that each runs in the last stretch that it
# can: the gradients of weights behind the backward pass of attention, with all that they read held until then. Here operations
# move to an earlier stretch where that leaves fewer bytes lying between the two, by a minimum cut. Needs torch.
#
#===----------------------------------------------------------------------===//
"""Stretches that leave little between them."""

from __future__ import annotations

import math
from typing import AbstractSet, Callable, Dict, List, Optional, Sequence, Set

import networkx
import torch

__all__ = ["move_earlier"]

Nodes = Set[torch.fx.Node]


def move_earlier(module: torch.fx.GraphModule, stretches: Sequence[Nodes], own: AbstractSet[str] = frozenset()) -> List[Nodes]:
    """The stretches of a graph with operations moved from later to earlier ones, so that what lies there when a later one begins
    takes the fewest bytes. Sets of nodes that form no cycle with the other nodes stay that. Of the placeholders those that `own` names count, which
    nobody else holds."""
    result = [set(nodes) for nodes in stretches]
    place = {node: index for index, node in enumerate(module.graph.nodes)}

    def end(nodes: Nodes) -> int:
        return max((place[node] for node in nodes), default=-1)

    order = sorted(range(len(result)), key=lambda index: end(result[index]))
    for position, later in enumerate(order):
        for earlier in reversed(order[:position]):
            moved = _worth_moving(module, result, earlier, later, own)
            result[earlier] |= moved
            result[later] -= moved
    return result


def _worth_moving(module: torch.fx.GraphModule, stretches: Sequence[Nodes], earlier: int, later: int,
                  own: AbstractSet[str]) -> Nodes:
    """What of one stretch is to run in another, earlier one: of all that can, what leaves the fewest bytes where the later one
    begins."""
    unit = {node: nodes for nodes in stretches for node in nodes}
    behind = _reached(stretches[earlier], unit, lambda node: list(node.users)) - stretches[earlier]
    before = _reached(stretches[later], unit, lambda node: node.all_input_nodes) - stretches[later]
    if not stretches[earlier] or stretches[earlier] & _reached(stretches[later], unit, lambda node: list(node.users)):
        return set()
    movable: Nodes = set()
    for node in module.graph.nodes:  # operands come first
        if node in stretches[later] and all(operand in movable or operand not in behind for operand in node.all_input_nodes):
            movable.add(node)
    if not movable:
        return set()
    graph = networkx.DiGraph()
    graph.add_nodes_from(("early", "late"))
    for node in {operand for item in movable for operand in item.all_input_nodes} - movable:
        # One that others read later lies there in any case.
        if all(user in movable or user in before or user in stretches[earlier] for user in node.users):
            graph.add_edge("early", (node, "held"), capacity=_bytes(node, own) or 0)
            graph.add_edges_from(((node, "held"), user) for user in node.users if user in movable)
    for node in movable:
        size = _bytes(node, own)
        graph.add_edge(node, (node, "held"), **({} if size is None else {"capacity": size}))
        graph.add_edges_from(((node, "held"), user if user in movable else "late") for user in node.users)
        graph.add_edges_from((node, operand) for operand in node.all_input_nodes if operand in movable)
    _, (early, _) = networkx.minimum_cut(graph, "early", "late")
    return movable & early


def _reached(start: Nodes, unit: Dict[torch.fx.Node, Nodes], following: Callable[[torch.fx.Node], List[torch.fx.Node]]) -> Nodes:
    """The nodes that one comes to from `start`, those of a stretch all at once."""
    found, work = set(start), list(start)
    while work:
        for step in following(work.pop()):
            for node in unit.get(step, (step,)):
                if node not in found:
                    found.add(node)
                    work.append(node)
    return found


def _bytes(node: torch.fx.Node, own: AbstractSet[str]) -> Optional[int]:
    """What a value takes while it is held; None for several tensors, which go from one stretch to another one by one."""
    value = node.meta.get("val")
    if isinstance(value, (tuple, list)):
        return None
    if not isinstance(value, torch.Tensor) or node.op == "placeholder" and node.name not in own:
        return 0
    return math.prod(value.shape) * value.element_size()
