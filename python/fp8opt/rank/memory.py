# ===- memory.py - all that a rank holds, over a step ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Puts a rank together: its parameters, what each microbatch in flight keeps, weight gradients put off, what runs at the moment,
# and the overhead of the device, at each step of the pipeline schedule.
#
# ===--------------------------------------------------------===#
"""The memory of each pipeline rank over a step."""

import dataclasses
from functools import lru_cache
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..job import Job
from ..params.ranks import rank_parameters
from ..pipeline import Step, in_flight, make_schedule
from .graph import Policy, Walk, walk
from .layers import embedding_graph, layer_graph, loss_graph
from .rates import op_us

__all__ = ["Moment", "RankMemory", "StageCost", "joint_peak", "policy_of", "rank_memory", "stage_cost"]


class StageCost(NamedTuple):
    """What a chunk costs: bytes kept from forward to backward for one microbatch; bytes of the operands that wait for weight
    gradients; live bytes at each operation of forward and of backward, kept ones of this chunk included; the operation at each
    peak; estimated microseconds of forward and of what backward computes again."""

    saved: int
    deferred: int
    forward: Tuple[int, ...]
    backward: Tuple[int, ...]
    forward_peak_at: str
    backward_peak_at: str
    forward_us: float
    again_us: float


class Moment(NamedTuple):
    """A step of the schedule on a rank: what is live at its worst operation, by what it is. `others` is what the microbatches
    in flight keep beside what runs, `running` what the running chunk has, kept and not."""

    step: str
    in_flight: int
    others: int
    deferred: int
    running: int
    at: str

    @property
    def bytes(self) -> int:
        """All activations."""
        return self.others + self.deferred + self.running


@dataclasses.dataclass
class RankMemory:
    """A pipeline rank: bytes of its parameters by item, of its activations over the schedule, of the layers that an FSDP has
    gathered, and of the device's overhead."""

    rank: int
    parameters: Dict[str, int]
    host: int
    moments: List[Moment]
    gathered: int
    overhead: int

    @property
    def peak(self) -> Moment:
        """The worst moment."""
        return max(self.moments, key=lambda moment: moment.bytes)

    @property
    def bytes(self) -> int:
        """Everything at the worst moment."""
        return sum(self.parameters.values()) + self.peak.bytes + self.gathered + self.overhead


def policy_of(job: Job) -> Policy:
    """The policy that a job's recomputation is."""
    late = job.frees == "late"
    if job.recompute.granularity == "full":
        return Policy(everything=True, late=late)
    return Policy(frozenset(job.recompute.modules), late=late)


@lru_cache(maxsize=256)
def _layer(job: Job, kind: str, layer: int) -> Tuple[Walk, int, float, float]:
    """The walk of a part, its deferred bytes, and the time of forward and of recomputation."""
    graph = (
        {"layer": layer_graph, "mtp": layer_graph}[kind](job, layer)
        if layer >= 0
        else {"loss": loss_graph, "embedding": embedding_graph}[kind](job)
    )
    result = walk(graph, policy_of(job) if layer >= 0 else Policy(late=job.frees == "late"))
    fp8 = job.precision.compute == "fp8" and kind in ("layer", "mtp")
    times = {op.name: op_us(graph, op, job.precision.recipe if fp8 else "bf16") for op in graph.forward}
    again = sum(times[point.op] for point in result.points if point.again)
    return result, sum(graph.bytes[name] for name in dict.fromkeys(graph.weight_operands)), sum(times.values()), again


def _same(job: Job, layer: int) -> int:
    """The first layer like this one, so that equal layers are walked once."""
    if layer >= job.model.layers:
        return job.model.layers
    return job.model.moe.dense_layers if job.model.is_moe(layer) else 0


def stage_cost(job: Job, stage: int) -> StageCost:
    """What one stage costs for one microbatch."""
    parts = []
    for part in job.stages()[stage]:
        parts.append(_layer(job, part.kind, _same(job, part.layer) if part.layer >= 0 else -1))
        if part.kind == "mtp":  # its own logits and loss
            parts.append(_layer(job, "loss", -1))
    forward: List[Tuple[int, str]] = []
    backward: List[Tuple[int, str]] = []
    kept = 0
    for index, (steps, _, _, _) in enumerate(parts):
        forward += [(kept + point.live, point.op) for point in steps.points if not point.backward]
        kept += steps.saved
    for steps, _, _, _ in reversed(parts):
        kept -= steps.saved
        backward += [(kept + point.live, point.op) for point in steps.points if point.backward]
    nothing = [(0, "")]
    return StageCost(
        saved=sum(steps.saved for steps, _, _, _ in parts),
        deferred=sum(size for _, size, _, _ in parts),
        forward=tuple(size for size, _ in forward),
        backward=tuple(size for size, _ in backward),
        forward_peak_at=max(forward or nothing)[1],
        backward_peak_at=max(backward or nothing)[1],
        forward_us=sum(time for _, _, time, _ in parts),
        again_us=sum(again for _, _, _, again in parts),
    )


def joint_peak(forward: Tuple[int, ...], backward: Tuple[int, ...]) -> int:
    """The smallest peak of two chunks that run side by side in one arena, when each waits for the other where that helps:
    the cheapest way through all pairs of their operations, both in order."""
    if not forward or not backward:
        return max(forward + backward, default=0)
    best: List[int] = []
    for i, f in enumerate(forward):
        row: List[int] = []
        for j, b in enumerate(backward):
            reach = []
            if i:
                reach.append(best[j])
            if j:
                reach.append(row[j - 1])
            if i and j:
                reach.append(best[j - 1])
            row.append(max(f + b, min(reach)) if reach else f + b)
        best = row
    return best[-1]


class _State(NamedTuple):
    """A step and what is in flight around it, without the numbers of microbatches: a schedule has few that differ."""

    kind: str
    chunk: int
    beside: int
    live: Tuple[Tuple[int, int], ...]
    put_off: Tuple[Tuple[int, int], ...]


def _states(job: Job, rank: int) -> Tuple[Tuple[str, int, _State], ...]:
    """The states of a job's rank, which do not depend on what a chunk costs."""
    if job.steps is not None:
        return _states_of(job.steps[rank])
    return _states_by_name(job.schedule, job.sizes.pipeline, job.batch.microbatches, job.sizes.virtual, rank)


@lru_cache(maxsize=64)
def _states_by_name(name: str, ranks: int, microbatches: int, chunks: int, rank: int):
    """The same by the name of a schedule."""
    return _states_of(make_schedule(name, ranks, microbatches, chunks)[rank])


def _states_of(steps: Sequence[Step]) -> Tuple[Tuple[str, int, _State], ...]:
    """Each step of a rank: its name, how many are in flight, and its state. `beside` is the chunk of the forward step that it
    runs with, or -1."""
    result = []
    before: Optional[Step] = None
    for point in in_flight(steps):
        step = point.step
        together = step.beside and before is not None and before.kind == "F"
        text = f"{before}{step}" if together else str(step)
        state = _State(
            step.kind,
            step.chunk,
            before.chunk if together else -1,
            tuple(point.live.items()),
            tuple(point.put_off.items()),
        )
        result.append((text, point.count, state))
        before = step
    return tuple(result)


def _activations(costs: List[StageCost], state: _State) -> Tuple[int, int, int, str]:
    """Bytes of a state: of others in flight, of operands put off, of what runs, and the operation at that one's peak."""
    live, put_off, cost = dict(state.live), dict(state.put_off), costs[state.chunk]
    if state.kind == "W":
        put_off[state.chunk] -= 1
        running, at = cost.deferred, "wgrad"
    elif state.beside >= 0:
        other = costs[state.beside]
        running, at = joint_peak(other.forward, cost.backward), f"{other.forward_peak_at} | {cost.backward_peak_at}"
        live[state.beside] -= 1
    elif state.kind == "F":
        running, at = max(cost.forward, default=0), cost.forward_peak_at
    else:
        running, at = max(cost.backward, default=0), cost.backward_peak_at
    live[state.chunk] -= 1
    others = sum((count - put_off.get(chunk, 0)) * costs[chunk].saved for chunk, count in live.items())
    return others, sum(count * costs[chunk].deferred for chunk, count in put_off.items()), running, at


def rank_memory(job: Job, rank: int) -> RankMemory:
    """The memory of one pipeline rank over a step of the job."""
    costs = [stage_cost(job, stage) for stage in job.stages_of(rank)]
    known: Dict[_State, Tuple[int, int, int, str]] = {}
    moments: List[Moment] = []
    for name, count, state in _states(job, rank):
        if state not in known:
            known[state] = _activations(costs, state)
        moments.append(Moment(name, count, *known[state]))
    held = rank_parameters(job, rank)
    return RankMemory(rank, held.items, held.host_bytes, moments, held.gathered, job.overhead)
