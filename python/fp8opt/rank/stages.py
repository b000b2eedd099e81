# ===- stages.py - the parts of a pipeline stage ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Walks the parts of a stage (layers, embedding, loss) under a job's policy of recomputation, each kind of layer once.
#
# ===--------------------------------------------------------===#
"""Walks through the parts of a pipeline stage."""

from functools import lru_cache
from typing import List, NamedTuple

from ..job import Job
from .graph import Policy, Walk, walk
from .layers import embedding_graph, layer_graph, loss_graph
from .rates import BACKWARD, op_us

__all__ = ["PartCost", "policy_of", "stage_parts"]


class PartCost(NamedTuple):
    """A part of a stage: its walk, bytes of the operands that wait for weight gradients, and estimated microseconds of forward, of
    backward and of what backward computes again."""

    walked: Walk
    deferred: int
    forward_us: float
    backward_us: float
    again_us: float


def policy_of(job: Job) -> Policy:
    """The policy that a job's recomputation is."""
    if job.recompute.granularity == "full":
        return Policy(everything=True, frees=job.frees)
    return Policy(frozenset(job.recompute.modules), frees=job.frees)


@lru_cache(maxsize=256)
def _part(job: Job, kind: str, layer: int) -> PartCost:
    """What a part of a stage costs."""
    graph = (
        {"layer": layer_graph, "mtp": layer_graph}[kind](job, layer)
        if layer >= 0
        else {"loss": loss_graph, "embedding": embedding_graph}[kind](job)
    )
    result = walk(graph, policy_of(job) if layer >= 0 else Policy(frees=job.frees))
    fp8 = job.precision.compute == "fp8" and kind in ("layer", "mtp")
    times = {op.name: op_us(graph, op, job.precision.recipe if fp8 else "bf16") for op in graph.forward}
    again = sum(times[point.op] for point in result.points if point.again)
    deferred = sum(graph.bytes[name] for name in dict.fromkeys(graph.weight_operands))
    backward = sum(BACKWARD.get(name, 2.0) * time for name, time in times.items())
    return PartCost(result, deferred, sum(times.values()), backward, again)


def _same(job: Job, layer: int) -> int:
    """The first layer like this one, so that equal layers are walked once."""
    if layer >= job.model.layers:
        return job.model.layers
    return job.model.moe.dense_layers if job.model.is_moe(layer) else 0


def stage_parts(job: Job, stage: int) -> List[PartCost]:
    """The parts of a stage in order."""
    parts = []
    for part in job.stages()[stage]:
        parts.append(_part(job, part.kind, _same(job, part.layer) if part.layer >= 0 else -1))
        if part.kind == "mtp":  # its own logits and loss
            parts.append(_part(job, "loss", -1))
    return parts
