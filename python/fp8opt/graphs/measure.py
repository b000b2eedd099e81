# ===- measure.py - a captured graph with what PyTorch keeps of it ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Puts the parts of the capture together: the joint graph, what eager mode keeps, what torch.compile's partitioner keeps,
# and what a change of a selective checkpoint's list would do. Needs torch.
#
#===----------------------------------------------------------------------===//
"""The capture that `fp8opt.capture` gives."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional

import torch

from .eager import kept_by_eager
from .graph import Change, Graph, Kept
from .partitioner import capture_compiled, is_cheap, kept_by_min_cut
from .sharded import gathered_bytes, unsharded
from .trace import CaptureError, capture_joint, compiling

__all__ = ["capture", "capture_compiled", "CaptureError"]


def capture(module: torch.nn.Module, *args: Any, name: str = "", kwargs: Optional[Dict[str, Any]] = None,
            decompositions: Optional[dict] = None, regathered: Iterable[str] = (), measure: bool = True) -> Graph:
    """The joint forward and backward graph of `module(*args, **kwargs)`, as `trace.capture_joint` says.

    With `measure`, `graph.kept` says what PyTorch keeps from forward to backward: in eager mode, and by the min-cut
    partitioner of torch.compile. Both run on fake tensors."""
    graph, joint, forward_outputs = capture_joint(module, *args, name=name, kwargs=kwargs,
                                                  decompositions=decompositions, regathered=regathered)
    if measure:
        if isinstance(module, torch.nn.Module):
            graph.kept.append(eager(module, *args, kwargs=kwargs))
        graph.kept.append(kept_by_min_cut(joint, forward_outputs, graph))
    return graph


def eager(module: torch.nn.Module, *args: Any, kwargs: Optional[Dict[str, Any]] = None) -> Kept:
    """What eager mode keeps; where selective checkpoints do, also what it would keep without each cheap operation of
    their lists. A module under `fully_shard` is run as one rank computes it, with whole weights."""
    with unsharded(module, args, kwargs) as (inputs, keywords):
        kept = _eager(module, inputs, keywords)
    size = gathered_bytes(module)
    if size:
        kept.notes.append(f"FSDP2 gathers weights outside of what is counted, one group ahead: {size / 2**20:,.1f} MiB more "
                          "at the peak")
    return kept


def _eager(module: torch.nn.Module, args: tuple, kwargs: Dict[str, Any]) -> Kept:
    try:
        kept = kept_by_eager(module, *args, kwargs=kwargs)
    except CaptureError:  # it branches on values, perhaps not where it is compiled
        with compiling():
            return kept_by_eager(module, *args, kwargs=kwargs)
    if kept.how == "eager selective checkpoint":
        for op in _cheap_saved(kept):
            other = kept_by_eager(module, *args, kwargs=kwargs, drop=[op])
            times = sum(value.op == op and "policy" in value.why for value in kept.values)
            if other.bytes < kept.bytes:
                kept.changes.append(Change(op, other.bytes, other.peak_bytes or 0, times))
    return kept


def _cheap_saved(kept: Kept) -> List[str]:
    """Operations that the list saves though they are cheap, those that keep most first; of 1 % of all at least."""
    sizes: Dict[str, int] = {}
    for value in kept.values:
        if "policy" in value.why and is_cheap(value.op):
            sizes[value.op] = sizes.get(value.op, 0) + value.bytes
    return sorted((op for op, size in sizes.items() if size * 100 >= kept.bytes), key=lambda op: (-sizes[op], op))
