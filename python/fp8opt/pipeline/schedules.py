# ===- schedules.py - pipeline schedules ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The order of forward and backward steps on each pipeline rank, for the schedules that the field has published and from a
# user's own list.
#
# ===--------------------------------------------------------===#
"""Pipeline schedules as lists of steps, one list a rank."""

import re
from collections import deque
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..command import InputError

__all__ = ["SCHEDULES", "Schedule", "Step", "check_sizes", "make_schedule", "read_schedule", "stage_of"]


class Step(NamedTuple):
    """A step of a rank. `kind`: F forward, B backward, D its part for the inputs (dgrad), W its part for the weights
    (wgrad). `beside`: runs at the same time as the step before it."""

    kind: str
    chunk: int
    microbatch: int
    beside: bool = False

    def __str__(self):
        return f"{'&' if self.beside else ''}{self.kind}{self.chunk}.{self.microbatch}"


Schedule = List[List[Step]]


def stage_of(name: str, ranks: int, rank: int, chunk: int) -> Tuple[int, int]:
    """(direction, stage) of a chunk: in dualpipe microbatches of direction 1 go through the ranks backwards, and chunk 1 is
    the stage that such a rank has for them."""
    if name == "dualpipe":
        return (0, rank) if chunk == 0 else (1, ranks - 1 - rank)
    if name in ("dualpipev", "zero-bubble-v"):
        return (0, rank) if chunk == 0 else (0, 2 * ranks - 1 - rank)
    return 0, chunk * ranks + rank


class _Writer:
    """Writes the steps of a rank; microbatches of a chunk are numbered in order by kind."""

    def __init__(self):
        self.steps: List[Step] = []
        self.next: Dict[Tuple[str, int], int] = {}
        self.put_off: deque = deque()

    def add(self, kind: str, chunk: int, beside: bool = False) -> None:
        """The next microbatch of a chunk. B and D count together, as do B and W; D puts its W off."""
        number = self.next.get((("D" if kind == "B" else kind), chunk), 0)
        self.next["D" if kind == "B" else kind, chunk] = number + 1
        self.steps.append(Step(kind, chunk, number, beside))
        if kind == "D":
            self.put_off.append((chunk, number))

    def weight(self, chunk: Optional[int] = None) -> bool:
        """The W that was put off first (of a chunk), if any is left; gives whether there was one."""
        found = next((entry for entry in self.put_off if chunk in (None, entry[0])), None)
        if found:
            self.put_off.remove(found)
            self.steps.append(Step("W", *found))
        return found is not None


# Microbatches times chunks times ranks of the largest schedule: some seconds to write and to run.
_LARGEST = 1 << 21


def check_sizes(name: str, ranks: int, microbatches: int, chunks: int = 1) -> None:
    """Refuses sizes for which there is no such schedule."""
    if name not in _MAKERS:
        raise InputError(f"expected a schedule of {', '.join(_MAKERS)}, but got '{name}'")
    for what, value in (("pipeline ranks", ranks), ("microbatches", microbatches), ("chunks", chunks)):
        if value < 1:
            raise InputError(f"expected {what} of at least 1, but got {value}")
    if ranks * microbatches * chunks > _LARGEST:
        raise InputError(
            f"expected at most {_LARGEST:,} microbatches x chunks x pipeline ranks, but got {microbatches} x {chunks} x {ranks}"
        )
    if name == "interleaved" and microbatches % ranks:
        raise InputError(
            f"expected microbatches as a multiple of {ranks} pipeline ranks for interleaved, but got {microbatches}"
        )
    if name == "dualpipe" and (ranks % 2 or microbatches % 2 or microbatches < 2 * ranks):
        raise InputError(
            f"expected an even number of ranks and at least {2 * ranks} microbatches, an even number, for dualpipe, "
            f"but got {ranks} ranks and {microbatches} microbatches"
        )
    if name == "dualpipev" and microbatches < 2 * ranks:
        raise InputError(f"expected at least {2 * ranks} microbatches for dualpipev, but got {microbatches}")


def make_schedule(name: str, ranks: int, microbatches: int, chunks: int = 1) -> Schedule:
    """The steps of each rank. `chunks`: stages of a rank (virtual pipeline size; fixed by the schedule but for interleaved)."""
    check_sizes(name, ranks, microbatches, chunks)
    return [_MAKERS[name](ranks, rank, microbatches, chunks) for rank in range(ranks)]


def _one_f_one_b(ranks: int, rank: int, microbatches: int, chunks: int) -> List[Step]:
    """Warm up with a forward a later rank, then one forward, one backward."""
    writer = _Writer()
    warm = min(ranks - 1 - rank, microbatches)
    for _ in range(warm):
        writer.add("F", 0)
    for _ in range(microbatches - warm):
        writer.add("F", 0)
        writer.add("B", 0)
    for _ in range(warm):
        writer.add("B", 0)
    return writer.steps


def _interleaved(ranks: int, rank: int, microbatches: int, chunks: int) -> List[Step]:
    """Megatron-LM's interleaved 1F1B (arXiv 2104.04473): groups of `ranks` microbatches go through a rank's chunks in turn."""
    writer = _Writer()
    total = microbatches * chunks
    warm = min(2 * (ranks - 1 - rank) + (chunks - 1) * ranks, total)
    forward = [(i // ranks) % chunks for i in range(total)]
    backward = [chunks - 1 - chunk for chunk in forward]
    for i in range(warm):
        writer.add("F", forward[i])
    for i in range(total - warm):
        writer.add("F", forward[warm + i])
        writer.add("B", backward[i])
    for i in range(total - warm, total):
        writer.add("B", backward[i])
    return writer.steps


def _zero_bubble(rank: int, microbatches: int, warm: int, delay: int) -> List[Step]:
    """One forward, one backward for inputs; the weights' part follows `delay` microbatches later (arXiv 2401.10241)."""
    writer = _Writer()
    warm = min(warm, microbatches)
    for _ in range(warm):
        writer.add("F", 0)
    for i in range(microbatches):
        if i < microbatches - warm:
            writer.add("F", 0)
        writer.add("D", 0)
        if i >= delay:
            writer.weight()
    while writer.weight():
        pass
    return writer.steps


def _zero_bubble_h1(ranks: int, rank: int, microbatches: int, chunks: int) -> List[Step]:
    """ZB-H1 (ZB1P): as many in flight as 1F1B has on its first rank."""
    return _zero_bubble(rank, microbatches, ranks - 1 - rank, rank)


def _zero_bubble_h2(ranks: int, rank: int, microbatches: int, chunks: int) -> List[Step]:
    """ZB-H2 (ZB2P): enough forward steps first that no rank ever waits; twice the memory."""
    return _zero_bubble(rank, microbatches, 2 * (ranks - 1 - rank), 2 * rank)


def _zero_bubble_v(ranks: int, rank: int, microbatches: int, chunks: int) -> List[Step]:
    """ZB-V: two chunks a rank, the second on the way back, so that the last stage is on the first rank (section 6 there)."""
    writer = _Writer()
    # The phases assume enough microbatches to fill the pipeline; steps of those that do not exist are left out.
    count = max(2 * ranks - 1, microbatches)
    done = {0: 0, 1: 0}

    def forward(chunk: int) -> None:
        writer.add("F", chunk)
        done[chunk] += 1

    for _ in range(2 * (ranks - rank) - 1):
        forward(0)
    for _ in range(rank):
        forward(1)
        forward(0)
    for _ in range(ranks - rank):
        forward(1)
        writer.add("D", 1)
        writer.weight()
    while done[1] < count:
        if done[0] < count:
            forward(0)
        writer.add("D", 0)
        writer.weight()
        forward(1)
        writer.add("D", 1)
        writer.weight()
    for _ in range(rank):
        writer.add("D", 0)
        writer.add("D", 1)
    for _ in range(ranks - rank):
        writer.add("D", 0)
        writer.weight(0)
    while writer.weight(1):
        pass
    while writer.weight(0):
        pass
    return [step for step in writer.steps if step.microbatch < microbatches]


def _dual(before: int, depth: int, main: int, middle: bool) -> List[Step]:
    """The eight phases of DualPipe (arXiv 2412.19437, figure 5) for a rank that is `depth` from the outer end and `before`
    from the middle; `main`: how often the main phase runs. Chunk 0 is the one whose microbatches arrive first."""
    writer = _Writer()

    def pair(forward: int, backward: int, beside: bool = True) -> None:
        writer.add("F", forward)
        writer.add("B", backward, beside)

    for _ in range(2 * before):
        writer.add("F", 0)
    for _ in range(depth + 1):
        writer.add("F", 0)
        writer.add("F", 1)
    for _ in range(before):
        writer.add("D", 1)
        writer.weight()
        writer.add("F", 1)
    for i in range(main):
        pair(0, 1, beside=not (middle and i == 0))
        pair(1, 0)
    for _ in range(before):
        writer.add("B", 1)
        pair(1, 0)
    # The second half of what is left puts its weights' part off, to fill the end.
    left = [1, 0] * (depth + 1)
    for i, chunk in enumerate(left):
        writer.add("B" if i < depth + 1 else "D", chunk)
    for _ in range(before):
        writer.weight()
        writer.add("D", 0)
    while writer.weight():
        pass
    return writer.steps


def _dualpipe(ranks: int, rank: int, microbatches: int, chunks: int) -> List[Step]:
    """DualPipe: microbatches enter at both ends; a rank holds a stage of either direction."""
    half, depth = ranks // 2, min(rank, ranks - 1 - rank)
    steps = _dual(half - depth - 1, depth, microbatches // 2 - ranks + depth + 1, depth == half - 1)
    # In the second half the microbatches of the other direction arrive first.
    return [step._replace(chunk=1 - step.chunk) for step in steps] if rank >= half else steps


def _dualpipev(ranks: int, rank: int, microbatches: int, chunks: int) -> List[Step]:
    """DualPipeV: half of DualPipe; the second chunk of a rank is on the way back, as in ZB-V."""
    return _dual(ranks - rank - 1, rank, microbatches - 2 * ranks + rank + 1, rank == ranks - 1)


_MAKERS = {
    "1f1b": _one_f_one_b,
    "interleaved": _interleaved,
    "zero-bubble": _zero_bubble_h1,
    "zero-bubble-h2": _zero_bubble_h2,
    "zero-bubble-v": _zero_bubble_v,
    "dualpipe": _dualpipe,
    "dualpipev": _dualpipev,
}

SCHEDULES = tuple(_MAKERS)


def read_schedule(table: Any) -> Schedule:
    """A user's schedule: a list with a list of steps for each rank, each step `F0.3` (kind, chunk, microbatch), `F3` for
    chunk 0, or with & in front where it runs beside the step before it."""
    if not isinstance(table, list) or not table or not all(isinstance(steps, list) for steps in table):
        raise InputError('expected a list of ranks, each a list of steps such as "F0.3"')
    schedule = []
    for rank, steps in enumerate(table):
        if not steps:
            raise InputError(f"rank {rank}: expected steps such as F0.3, but got none")
        row = []
        for text in steps:
            match = re.fullmatch(r"(&?)([FBDW])(?:(\d{1,6})\.)?(\d{1,7})", text) if isinstance(text, str) else None
            if not match:
                shown = text if not isinstance(text, str) else text[:40]
                raise InputError(f"rank {rank}: expected a step such as F0.3, B0.3, D0.3 or W0.3, but got {shown!r}")
            if match.group(1) and not row:
                raise InputError(f"rank {rank}: expected a step before '{text}', which runs beside it, but got none")
            row.append(Step(match.group(2), int(match.group(3) or 0), int(match.group(4)), bool(match.group(1))))
        schedule.append(row)
    return schedule
