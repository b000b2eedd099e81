# ===- replay.py - a rank's step, allocation by allocation ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Makes and frees every tensor of a pipeline rank's step in order, through a model of PyTorch's caching allocator, to say what it
# reserves beyond what is live.
#
# ===--------------------------------------------------------===#
"""What PyTorch's allocator reserves over a rank's step."""

import dataclasses
from collections import deque
from typing import Deque, Dict, Iterable, List, NamedTuple, Tuple

from ..command import InputError
from ..job import Job
from ..params.ranks import rank_parameters
from .allocator import Allocator
from .graph import Walk
from .stages import stage_parts

__all__ = ["Replay", "Reserved", "replay"]

# Microbatches for each pipeline rank: what is reserved does not grow any more after some rounds of the schedule.
_ROUNDS = 8


class Reserved(NamedTuple):
    """The most that was allocated and what was reserved in the end, in bytes."""

    allocated: int
    reserved: int


class _Events(NamedTuple):
    """A walk by its points: the lives that begin and that end at each, and where backward begins."""

    walked: Walk
    born: Tuple[Tuple[int, ...], ...]
    dies: Tuple[Tuple[int, ...], ...]
    border: int


def _events(walked: Walk) -> _Events:
    """The events of a walk; a life that is held has no end in it."""
    born: List[List[int]] = [[] for _ in walked.points]
    dies: List[List[int]] = [[] for _ in walked.points]
    for number, life in enumerate(walked.lives):
        if life.bytes:
            born[life.born].append(number)
            if not life.held:
                dies[life.dies].append(number)
    border = next(index for index, point in enumerate(walked.points) if point.backward)
    return _Events(walked, tuple(map(tuple, born)), tuple(map(tuple, dies)), border)


def replay(job: Job, rank: int) -> Reserved:
    """Runs one step of a rank after its parameters are there. Of a long step the first rounds of microbatches are enough."""
    enough = min(job.batch.microbatches, _ROUNDS * job.sizes.pipeline)
    if job.steps is None and enough < job.batch.microbatches:
        job = dataclasses.replace(job, batch=dataclasses.replace(job.batch, microbatches=enough))
    return Replay(job, rank).run()


class Replay:
    """The state of a step."""

    def __init__(self, job: Job, rank: int):
        self.steps = job.pipeline_steps()[rank]
        if any(step.beside or step.kind not in "FB" for step in self.steps):
            raise InputError(
                f"expected a schedule of whole forward and backward steps with 'allocator', but got '{job.schedule}'"
            )
        self.allocator = Allocator(expandable=job.allocator == "expandable")
        held = rank_parameters(job, rank)
        for size in [*held.items.values(), held.gathered]:
            if size:
                self.allocator.allocate(size)
        self.peak = self.allocator.allocated
        stages = job.stages_of(rank)
        self.chunks = [[_events(part.walked) for part in stage_parts(job, stage)] for stage in stages]
        # What late frees hold, by step; the oldest goes when the GPU has run it.
        self.ahead = job.ahead
        self.held: Deque[List[int]] = deque([[]])

    def run(self) -> Reserved:
        """All steps."""
        saved: Dict[Tuple[int, int], List[Dict[int, int]]] = {}
        for step in self.steps:
            chunk, key = self.chunks[step.chunk], (step.chunk, step.microbatch)
            if step.kind == "F":
                saved[key] = [{} for _ in chunk]
                for events, places in zip(chunk, saved[key]):
                    self._pass(events, places, range(events.border))
            else:
                for events, places in reversed(list(zip(chunk, saved.pop(key)))):
                    self._pass(events, places, range(events.border, len(events.born)))
            self.held.append([])
            while len(self.held) > self.ahead + 1:
                self._free(self.held.popleft())
        return Reserved(self.peak, self.allocator.reserved)

    def _pass(self, events: _Events, places: Dict[int, int], points: range) -> None:
        """Some points of a walk. `places` has the addresses of its live tensors."""
        walked = events.walked
        for index in points:
            if walked.points[index].waits:
                for addresses in self.held:
                    self._free(addresses)
                    addresses.clear()
            for number in events.born[index]:
                places[number] = self.make(walked, index, number)
            self.peak = max(self.peak, self.allocator.allocated)
            self._free(places.pop(number) for number in events.dies[index])
        self.held[-1] += [places.pop(number) for number in list(places) if self._leaves(walked, number, points)]

    def make(self, walked: Walk, index: int, number: int) -> int:
        """Allocates a tensor of a walk at one of its points and gives its address."""
        return self.allocator.allocate(walked.lives[number].bytes)

    @staticmethod
    def _leaves(walked: Walk, number: int, points: range) -> bool:
        """Whether a tensor is held beyond these points."""
        life = walked.lives[number]
        return life.held and life.dies in points

    def _free(self, addresses: Iterable[int]) -> None:
        for address in addresses:
            self.allocator.free(address)
