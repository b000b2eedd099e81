# ===- collectives.py - functional collectives of PyTorch ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `_c10d_functional` operations become the dialect's collectives. Each process group is an axis of the grid; which ranks are
# neighbours along it the graph does not say. `wait_tensor` is a view: when transfers start and end is for the plan to say.
#
# ===------------------------------------------------------=== #
"""Emitters of collectives, and the grid that they need."""

from __future__ import annotations

from typing import Any, Dict, Optional

from ..graphs.graph import Graph, Node, Ref
from .program import ARITHMETIC, Importer

# The places of the size and the name of the group among the operands.
_GROUP = {
    "_c10d_functional.all_gather_into_tensor.default": (1, 2),
    "_c10d_functional.reduce_scatter_tensor.default": (2, 3),
    "_c10d_functional.all_reduce.default": (None, 2),
    "_c10d_functional.all_to_all_single.default": (None, 3),
}


def grid_of(graph: Graph) -> Dict[str, int]:
    """The process groups of a graph's collectives, as axes of a grid, with their sizes. What says no size (an all-reduce) has
    that of the others in its group."""
    grid: Dict[str, int] = {}
    for node in graph.nodes:
        size, group = _GROUP.get(node.op, (None, None))
        if size is not None and len(node.args) > group and isinstance(node.args[size], int) and node.args[size] > 1:
            grid[_axis(node.args[group])] = node.args[size]
    return grid


def _axis(group: Any) -> str:
    """The name of a group as that of an axis."""
    return f"group_{group}"


def _split(state: Importer, node: Node) -> Optional[tuple]:
    """The operand in the order of its dimensions, the axis and its size; None where the dialect cannot say the collective."""
    (_, tensor), = node.outputs if len(node.outputs) == 1 else (("", None),)
    source, group = node.args[0], _GROUP[node.op][1]
    axis = _axis(node.args[group]) if len(node.args) > group else ""
    if tensor is None or tensor.dtype not in ARITHMETIC or axis not in state.grid or not isinstance(source, Ref):
        return None
    if not tensor.shape or state.order_of(node.outputs[0][0]) != tuple(range(len(tensor.shape))):
        return None
    return state.read(source), axis, state.grid[axis]


def all_gather(state: Importer, node: Node) -> bool:
    found = _split(state, node)
    if found is None:
        return False
    x, axis, size = found
    state.define(node.name, state.f.all_gather(x, axis, size, 0, node.name))
    return True


def reduce_scatter(state: Importer, node: Node) -> bool:
    found = _split(state, node)
    if found is None or node.args[1] not in ("sum", "max"):
        return False
    x, axis, size = found
    state.define(node.name, state.f.reduce_scatter(x, axis, size, 0, node.args[1], node.name))
    return True


def all_reduce(state: Importer, node: Node) -> bool:
    found = _split(state, node)
    if found is None or node.args[1] not in ("sum", "max"):
        return False
    x, axis, _ = found
    state.define(node.name, state.f.all_reduce(x, axis, node.args[1], node.name))
    return True


def all_to_all(state: Importer, node: Node) -> bool:
    """One whose pieces are all of one size, along the first dimension."""
    found = _split(state, node)
    if found is None or len({*node.args[1], *node.args[2]}) > 1:
        return False
    x, axis, size = found
    if len(node.args[1]) not in (0, size):
        return False
    state.define(node.name, state.f.all_to_all(x, axis, size, 0, 0, node.name))
    return True
