# ===- main.py - fp8opt pipeline ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The subcommand that simulates a pipeline schedule: what each rank has in flight, when, and how long it idles.
#
# ===--------------------------------------------------------===#
"""fp8opt pipeline: microbatches in flight on each rank, by simulating the schedule."""

import json
import pathlib
from typing import List

from ..command import InputError, Parser, parse_bytes, read_text
from ..job import SCHEDULES
from ..tables import align, mib
from . import Durations, idle_fraction, in_flight, make_schedule, read_schedule, run

__all__ = ["main"]

EXAMPLES = """examples:
  fp8opt pipeline --schedule=interleaved --pp=8 --vp=4 --microbatches=32
  fp8opt pipeline --schedule=zero-bubble --pp=8 --microbatches=32 --saved=600MiB --deferred=200MiB
  fp8opt pipeline --schedule=dualpipe --pp=8 --microbatches=20 --timeline=0
  fp8opt pipeline --steps=mine.json             a list of steps for each rank: [["F0.0", "B0.0"], ...]

A step is F (forward), B (backward), D (its part for the inputs) or W (its part for the weights), the chunk, a dot and the
microbatch; & in front: at the same time as the step before. Megatron's --pipeline-model-parallel-size is --pp, the number of
chunks of a rank (virtual stages) --vp.
"""


def main(arguments: List[str]) -> int:
    """Runs the subcommand."""
    parser = Parser(prog="fp8opt pipeline", description=__doc__, epilog=EXAMPLES)
    parser.add_argument("--schedule", default="1f1b", help=", ".join(SCHEDULES))
    parser.add_argument(
        "--steps", help="JSON file with the steps of each rank, instead of --pp, --vp and --microbatches"
    )
    parser.add_argument("--pp", type=int, default=1, help="pipeline ranks")
    parser.add_argument("--vp", type=int, default=1, help="chunks of a rank (interleaved)")
    parser.add_argument("--microbatches", type=int, default=1)
    parser.add_argument("--saved", default="0", help="bytes that one chunk keeps of one microbatch until its backward")
    parser.add_argument(
        "--deferred", default="0", help="bytes that it keeps from the inputs' part of backward to the weights' part"
    )
    parser.add_argument(
        "--times", default="1,1,1", help="time of forward, of backward for inputs and of backward for weights"
    )
    parser.add_argument("--timeline", type=int, help="print each step of this rank")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    saved, deferred = parse_bytes(options.saved), parse_bytes(options.deferred)
    try:
        durations = Durations(*(float(text) for text in options.times.split(",")))
    except (TypeError, ValueError):
        raise InputError(f"expected --times as three numbers such as 1,1,1, but got '{options.times}'") from None
    if not all(0 < value < 1e12 for value in (durations.forward, durations.inputs, durations.weights)):
        raise InputError(f"expected --times between 0 and 10^12, but got '{options.times}'")
    if options.steps:
        try:
            schedule = read_schedule(json.loads(read_text(pathlib.Path(options.steps))))
        except (ValueError, RecursionError) as error:
            raise InputError(f"'{options.steps}': {error}") from None
        if options.schedule == "1f1b":
            options.schedule = "interleaved"  # chunk c of rank r is stage c * ranks + r
    else:
        if options.schedule != "interleaved" and options.vp > 1:
            raise InputError(f"expected --schedule=interleaved with --vp={options.vp}, but got {options.schedule}")
        schedule = make_schedule(options.schedule, options.pp, options.microbatches, options.vp)
    timed = run(schedule, durations, options.schedule)
    table = _table(schedule, timed, saved, deferred)
    if options.timeline is not None and not 0 <= options.timeline < len(schedule):
        raise InputError(f"expected --timeline between 0 and {len(schedule) - 1}, but got {options.timeline}")
    if options.json:
        print(json.dumps(table, indent=1))
        return 0
    print("\n".join(_lines(table, saved or deferred)))
    if options.timeline is not None:
        rows = [("step", "start", "end", "in flight", "put off", "MiB")]
        for entry in table[options.timeline]["timeline"]:
            rows.append(
                (
                    entry["step"],
                    f"{entry['start']:g}",
                    f"{entry['end']:g}",
                    str(entry["in_flight"]),
                    str(entry["put_off"]),
                    mib(entry["bytes"]),
                )
            )
        print("\n".join(["", f"rank {options.timeline}, step by step:"] + align(rows)))
    return 0


def _table(schedule, timed, saved: int, deferred: int) -> List[dict]:
    """Each rank: its peaks and its timeline. While a weights' part is put off, `deferred` of its bytes are live."""
    idle = idle_fraction(timed)
    ranks = []
    for rank, steps in enumerate(schedule):
        timeline = []
        for point, time in zip(in_flight(steps), timed[rank]):
            put_off = sum(point.put_off.values())
            size = (point.count - put_off) * saved + put_off * deferred
            timeline.append(
                {
                    "step": str(point.step),
                    "start": time.start,
                    "end": time.end,
                    "in_flight": point.count,
                    "put_off": put_off,
                    "bytes": size,
                }
            )
        ranks.append(
            {
                "rank": rank,
                "in_flight": max(entry["in_flight"] for entry in timeline),
                "put_off": max(entry["put_off"] for entry in timeline),
                "bytes": max(entry["bytes"] for entry in timeline),
                "idle": idle[rank],
                "timeline": timeline,
            }
        )
    return ranks


def _lines(table: List[dict], sized: bool) -> List[str]:
    """The peaks of all ranks."""
    rows = [("rank", "in flight", "put off", "idle %") + (("peak MiB",) if sized else ())]
    for rank in table:
        row = (str(rank["rank"]), str(rank["in_flight"]), str(rank["put_off"]), f"{100 * rank['idle']:.1f}")
        rows.append(row + ((mib(rank["bytes"]),) if sized else ()))
    end = max(entry["end"] for rank in table for entry in rank["timeline"])
    return align(rows) + [
        f"in flight: microbatches times chunks from forward to the end of backward; the step takes {end:g}"
    ]
