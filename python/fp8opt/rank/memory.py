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
from collections import deque
from functools import cached_property, lru_cache
from typing import Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..job import Job
from ..params.ranks import rank_parameters
from ..pipeline import Step, in_flight, make_schedule
from .buffers import deepep_bytes, nccl_bytes
from .graph import Walk
from .replay import replay
from .stages import stage_parts

__all__ = ["Moment", "PassCost", "RankMemory", "StageCost", "joint_peak", "rank_memory", "stage_cost"]


@dataclasses.dataclass(frozen=True, eq=False)
class PassCost:
    """Forward or backward of a chunk: live bytes at each operation, kept ones of this chunk included, and the operations; the
    number of the first operation at which the CPU waits for the GPU (that of all operations: none); and bytes that late frees
    leave behind at the end."""

    live: Tuple[int, ...]
    ops: Tuple[str, ...]
    first_wait: int
    held: int

    def peak(self, carried: int = 0) -> Tuple[int, str]:
        """The most that is live, and the operation there, where earlier steps left `carried` bytes for the next wait to free."""
        if not self.ops:
            return carried, ""
        (before, first), (after, second) = self._peaks
        return (before + carried, first) if self.first_wait and before + carried >= after else (after, second)

    @cached_property
    def _peaks(self) -> Tuple[Tuple[int, str], Tuple[int, str]]:
        """The same before the first wait, and from it on."""
        entries = list(zip(self.live, self.ops))
        halves = entries[: self.first_wait], entries[self.first_wait :]
        first, second = (max(half, key=lambda entry: entry[0], default=(0, "")) for half in halves)
        return first, second


class StageCost(NamedTuple):
    """What a chunk costs: bytes kept from forward to backward for one microbatch; bytes of the operands that wait for weight
    gradients; its two passes; estimated microseconds of forward, of backward and of what backward computes again."""

    saved: int
    deferred: int
    forward: PassCost
    backward: PassCost
    forward_us: float
    backward_us: float
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
    gathered, of what PyTorch's allocator has reserved beyond all of that, and of what is on the device beside PyTorch.
    """

    rank: int
    parameters: Dict[str, int]
    host: int
    moments: List[Moment]
    gathered: int
    unused: int
    beside: Dict[str, int]

    @property
    def peak(self) -> Moment:
        """The worst moment."""
        return max(self.moments, key=lambda moment: moment.bytes)

    @property
    def bytes(self) -> int:
        """Everything at the worst moment."""
        return sum(self.parameters.values()) + self.peak.bytes + self.gathered + self.unused + sum(self.beside.values())


def stage_cost(job: Job, stage: int) -> StageCost:
    """What one stage costs for one microbatch."""
    parts = stage_parts(job, stage)
    walks = [part.walked for part in parts]
    return StageCost(
        saved=sum(walked.saved for walked in walks),
        deferred=sum(part.deferred for part in parts),
        forward=_pass(walks, backward=False),
        backward=_pass(walks, backward=True),
        forward_us=sum(part.forward_us for part in parts),
        backward_us=sum(part.backward_us for part in parts),
        again_us=sum(part.again_us for part in parts),
    )


def _pass(walks: Sequence[Walk], backward: bool) -> PassCost:
    """One pass of a chunk's parts, which run in order, or in reverse."""
    live: List[int] = []
    ops: List[str] = []
    held, wait = 0, None
    kept = sum(walked.saved for walked in walks) if backward else 0
    for walked in reversed(walks) if backward else walks:
        if backward:
            kept -= walked.saved
        for point in walked.points:
            if point.backward != backward:
                continue
            if point.waits:
                held = 0
                wait = len(live) if wait is None else wait
            live.append(kept + held + point.live)
            ops.append(point.op)
        held += walked.held(backward)
        if not backward:
            kept += walked.saved
    return PassCost(tuple(live), tuple(ops), len(live) if wait is None else wait, held)


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


def _activations(costs: List[StageCost], state: _State, carried: int) -> Tuple[int, int, int, str]:
    """Bytes of a state: of others in flight, of operands put off, of what runs (with what late frees of earlier steps left), and
    the operation at that one's peak."""
    live, put_off, cost = dict(state.live), dict(state.put_off), costs[state.chunk]
    if state.kind == "W":
        put_off[state.chunk] -= 1
        running, at = cost.deferred + carried, "wgrad"
    elif state.beside >= 0:
        other = costs[state.beside].forward
        running = joint_peak(other.live, cost.backward.live)
        at = f"{other.peak()[1]} | {cost.backward.peak()[1]}"
        live[state.beside] -= 1
    else:
        running, at = (cost.forward if state.kind == "F" else cost.backward).peak(carried)
    live[state.chunk] -= 1
    others = sum((count - put_off.get(chunk, 0)) * costs[chunk].saved for chunk, count in live.items())
    return others, sum(count * costs[chunk].deferred for chunk, count in put_off.items()), running, at


class Carried:
    """What late frees of earlier steps still hold, where the CPU is `ahead` steps before the GPU at most. A step that overlaps
    another one leaves nothing, since both end together."""

    def __init__(self, ahead: int):
        self._steps: Deque[int] = deque(maxlen=ahead)

    @property
    def bytes(self) -> int:
        """Bytes at the start of the next step."""
        return sum(self._steps)

    def after(self, cost: Optional[PassCost]) -> None:
        """A step has run; None: one that holds nothing."""
        if cost is not None and cost.first_wait < len(cost.live):
            self._steps.clear()
        self._steps.append(cost.held if cost is not None else 0)


def rank_memory(job: Job, rank: int) -> RankMemory:
    """The memory of one pipeline rank over a step of the job."""
    costs = [stage_cost(job, stage) for stage in job.stages_of(rank)]
    known: Dict[Tuple[_State, int], Tuple[int, int, int, str]] = {}
    moments: List[Moment] = []
    carried = Carried(job.ahead)
    for name, count, state in _states(job, rank):
        key = state, carried.bytes
        if key not in known:
            known[key] = _activations(costs, *key)
        moments.append(Moment(name, count, *known[key]))
        cost = costs[state.chunk]
        carried.after(
            None if state.kind == "W" or state.beside >= 0 else cost.forward if state.kind == "F" else cost.backward
        )
    held = rank_parameters(job, rank)
    beside = {"DeepEP": deepep_bytes(job), "NCCL": nccl_bytes(job), "overhead of the device": job.overhead}
    unused = 0
    if job.allocator != "none":
        used = sum(held.items.values()) + held.gathered + max(moment.bytes for moment in moments)
        unused = replay(job, rank).reserved - used
    return RankMemory(rank, held.items, held.host_bytes, moments, held.gathered, unused, beside)
