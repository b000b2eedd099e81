# ===- simulate.py - what a pipeline schedule keeps, and when ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs a schedule step by step: refuses one that cannot run, counts the microbatches in flight and the weight gradients put
# off after each step of each rank, and gives each step its start and end.
#
# ===--------------------------------------------------------===#
"""Simulation of pipeline schedules."""

import dataclasses
from collections import Counter
from typing import Dict, List, NamedTuple, Sequence, Tuple

from ..command import InputError
from .schedules import Schedule, Step, stage_of

__all__ = ["Durations", "Point", "Timed", "check_schedule", "idle_fraction", "in_flight", "peak_in_flight", "run"]


@dataclasses.dataclass(frozen=True)
class Durations:
    """Time of a step of one chunk, in any unit: forward, backward for inputs, backward for weights."""

    forward: float = 1.0
    inputs: float = 1.0
    weights: float = 1.0

    def of(self, step: Step) -> float:
        """The time of a step."""
        return {"F": self.forward, "B": self.inputs + self.weights, "D": self.inputs, "W": self.weights}[step.kind]


class Point(NamedTuple):
    """A step of a rank and what is live while it runs: microbatches in flight by chunk (from their forward step to the end
    of their backward step), and those of them whose weights' part is still put off."""

    step: Step
    live: Dict[int, int]
    put_off: Dict[int, int]

    @property
    def count(self) -> int:
        """Microbatches in flight, over all chunks."""
        return sum(self.live.values())


def check_schedule(schedule: Schedule) -> None:
    """Refuses a schedule in which a step is missing, done twice or out of order on its rank; where ranks differ in their
    microbatches the run says which step waits for ever."""
    for rank, steps in enumerate(schedule):
        done = Counter()
        for step in steps:
            key = step.chunk, step.microbatch
            name = f"rank {rank}: step {step}"
            if step.kind == "F":
                if done["F", key]:
                    raise InputError(f"{name}: expected one forward of each microbatch, but this is a second")
            elif step.kind in "BD":
                if not done["F", key]:
                    raise InputError(f"{name}: expected F{step.chunk}.{step.microbatch} before it")
                if done["BD", key]:
                    raise InputError(f"{name}: expected one backward of each microbatch, but this is a second")
                done["BD", key] += 1
                done["B", key] += step.kind == "B"
            else:
                if not done["BD", key] or done["B", key]:
                    raise InputError(f"{name}: expected D{step.chunk}.{step.microbatch} before it, and no B")
                if done["W", key]:
                    raise InputError(f"{name}: expected one W of each microbatch, but this is a second")
            done[step.kind if step.kind in "FW" else "any", key] += 1
        for (kind, key), count in sorted(done.items(), key=str):
            if kind == "F" and not done["B", key] and not done["W", key]:
                chunk, microbatch = key
                raise InputError(
                    f"rank {rank}: expected B{chunk}.{microbatch}, or D and W, but found neither to the end"
                )


def in_flight(steps: Sequence[Step]) -> List[Point]:
    """What is live during each step of a rank. A step that runs beside the one before it sees its memory, and that one's."""
    live: Dict[int, int] = {}
    put_off: Dict[int, int] = {}
    points = []
    for index, step in enumerate(steps):
        if step.kind == "F":
            live[step.chunk] = live.get(step.chunk, 0) + 1
        points.append(
            Point(step, {c: n for c, n in sorted(live.items()) if n}, {c: n for c, n in sorted(put_off.items()) if n})
        )
        if step.kind in "BW":
            live[step.chunk] -= 1
        if step.kind == "D":
            put_off[step.chunk] = put_off.get(step.chunk, 0) + 1
        elif step.kind == "W":
            put_off[step.chunk] -= 1
    return points


def peak_in_flight(schedule: Schedule) -> List[int]:
    """The largest number of microbatches in flight on each rank, over its chunks."""
    return [max((point.count for point in in_flight(steps)), default=0) for steps in schedule]


class Timed(NamedTuple):
    """A step with its start and end."""

    step: Step
    start: float
    end: float


def run(schedule: Schedule, durations: Durations = Durations(), name: str = "interleaved") -> List[List[Timed]]:
    """Start and end of each step, when every step starts as soon as its rank is free and what it needs is there.

    `name` says which stage a chunk is (`stage_of`). Transfers take no time. A schedule that can not finish is an InputError
    that names the step which waits.
    """
    check_schedule(schedule)
    ranks = len(schedule)
    last: Dict[int, int] = {}
    for rank, steps in enumerate(schedule):
        for step in steps:
            direction, stage = stage_of(name, ranks, rank, step.chunk)
            last[direction] = max(last.get(direction, 0), stage)

    def needs(rank: int, step: Step):
        direction, stage = stage_of(name, ranks, rank, step.chunk)
        return _needs(step, direction, stage, last[direction])

    ends: Dict[Tuple[str, int, int, int], float] = {}
    timed: List[List[Timed]] = [[] for _ in schedule]
    free = [0.0] * ranks
    moved = True
    while moved:
        moved = False
        for rank, steps in enumerate(schedule):
            while len(timed[rank]) < len(steps):
                # Steps side by side are one unit: they start together and the results of both are there at its end.
                unit = [steps[len(timed[rank])]]
                while len(timed[rank]) + len(unit) < len(steps) and steps[len(timed[rank]) + len(unit)].beside:
                    unit.append(steps[len(timed[rank]) + len(unit)])
                wanted = [needs(rank, step) for step in unit]
                if any(need is not None and need not in ends for need in wanted):
                    break
                start = max([free[rank]] + [ends[need] for need in wanted if need is not None])
                free[rank] = start + max(durations.of(step) for step in unit)
                for step in unit:
                    direction, stage = stage_of(name, ranks, rank, step.chunk)
                    ends["BD" if step.kind in "BD" else step.kind, direction, stage, step.microbatch] = free[rank]
                    timed[rank].append(Timed(step, start, free[rank]))
                moved = True
    for rank, steps in enumerate(schedule):
        for step in steps[len(timed[rank]) :]:
            need = needs(rank, step)
            if need is not None and need not in ends:
                kind, _, stage, microbatch = need
                what = "forward" if kind == "F" else "backward"
                raise InputError(
                    f"rank {rank}: step {step} waits for ever for the {what} of microbatch {microbatch} on stage {stage}"
                )
    return timed


def _needs(step: Step, direction: int, stage: int, last: int):
    """What a step waits for: (kind, direction, stage, microbatch), or None."""
    if step.kind == "F":
        return ("F", direction, stage - 1, step.microbatch) if stage else None
    if step.kind == "W":
        return "BD", direction, stage, step.microbatch
    return ("BD", direction, stage + 1, step.microbatch) if stage < last else ("F", direction, stage, step.microbatch)


def idle_fraction(timed: List[List[Timed]]) -> List[float]:
    """The part of the time between its first and its last step in which each rank does nothing."""
    fractions = []
    for steps in timed:
        busy, end = 0.0, steps[0].start
        for step in steps:
            busy += max(0.0, step.end - max(step.start, end))
            end = max(end, step.end)
        fractions.append(1 - busy / (end - steps[0].start))
    return fractions
