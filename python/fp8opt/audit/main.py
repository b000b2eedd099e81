# ===- main.py - fp8opt audit ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The subcommand that reads a memory snapshot and says what the run held beyond its plan.
#
# ===--------------------------------------------------------===#
"""fp8opt audit: reads a PyTorch memory snapshot and lists what was held longer than planned, with source lines."""

import bisect
import gc
import json
import pathlib
from typing import Dict, List

from ..command import InputError, Parser, parse_bytes
from ..job import load_job
from ..tables import align
from .findings import Finding, audit, user_lines
from .lives import find_rounds
from .planned import plan_of_file, plan_of_job
from .snapshot import Snapshot, read_snapshot

__all__ = ["main"]

EXAMPLES = """examples:
  fp8opt audit snapshot.pickle                        what grows, what is reserved and unused, who holds the peak
  fp8opt audit snapshot.pickle --config=job.toml      the same, and what outlived the plan of the job's layers
  fp8opt audit snapshot.pickle --plan=plan.json       against a plan of fp8-opt

In the run:  torch.cuda.memory._record_memory_history()  before two or three steps, then
             torch.cuda.memory._dump_snapshot("snapshot.pickle")
"""

KINDS = {
    "outlived": "outlived its last planned use",
    "two-layouts": "held in two layouts",
    "unplanned": "kept, and not in the plan",
    "grows": "grows from round to round",
}


def main(arguments: List[str]) -> int:
    """Runs the subcommand."""
    parser = Parser(prog="fp8opt audit", description=__doc__, epilog=EXAMPLES)
    parser.add_argument("snapshot", help="file of torch.cuda.memory._dump_snapshot, as it is or compressed (.gz, .xz)")
    parser.add_argument("--config", help="job file: the plan of its layers")
    parser.add_argument("--plan", help="plan.json of fp8-opt")
    parser.add_argument("--rank", type=int, default=0, help="pipeline rank of the job that the snapshot is of")
    parser.add_argument("--device", type=int, help="device in the snapshot; default the one with most events")
    parser.add_argument("--smallest", default="1MiB", help="smaller allocations are not looked at (default 1MiB)")
    parser.add_argument("--top", type=int, default=8, help="lines of the list of what is live at the peak")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    if options.config and options.plan:
        raise InputError("expected --config or --plan, but got both")
    plan = None
    if options.config:
        job = load_job(options.config)
        if not 0 <= options.rank < job.sizes.pipeline:
            raise InputError(f"expected --rank between 0 and {job.sizes.pipeline - 1}, but got {options.rank}")
        plan = plan_of_job(job, options.rank)
    elif options.plan:
        plan = plan_of_file(pathlib.Path(options.plan))
    smallest = max(1, parse_bytes(options.smallest))
    gc.disable()  # containers by the million, and none in a cycle
    snapshot = read_snapshot(pathlib.Path(options.snapshot), options.device)
    rounds = find_rounds(snapshot, smallest)
    findings = audit(snapshot, rounds, plan, smallest)
    table = _table(snapshot, findings, plan, len(rounds), max(0, options.top))
    print(json.dumps(table, indent=1) if options.json else "\n".join(_lines(table)))
    return 0


def _table(snapshot: Snapshot, findings: List[Finding], plan, rounds: int, top: int) -> dict:
    """The whole audit."""
    peak = snapshot.peak
    holders: Dict[tuple, List[int]] = {}
    for entry in snapshot.allocations:
        if entry.born <= peak and (entry.died is None or entry.died > peak):
            line = user_lines(snapshot.stacks[entry.stack], 1) if entry.stack >= 0 else ()
            held = holders.setdefault(line, [0, 0])
            held[0] += entry.size
            held[1] += 1
    largest = sorted(holders.items(), key=lambda item: (-item[1][0], item[0]))[:top]
    return {
        "device": snapshot.device,
        "events": len(snapshot.live),
        "rounds": rounds,
        "compared_with": plan.source if plan else None,
        "peak": {
            "event": peak,
            "live_bytes": snapshot.live[peak],
            "reserved_bytes": snapshot.reserved[peak],
            "reserved_unused_bytes": snapshot.reserved[peak] - snapshot.live[peak],
            "waiting_bytes": snapshot.waiting[peak],
            "by_line": [
                {"line": str(line[0]) if line else "(no stack)", "bytes": size, "allocations": count}
                for line, (size, count) in largest
            ],
        },
        "unused_segments": _unused(snapshot, peak, top),
        "findings": [
            {
                "kind": finding.kind,
                "tensor": finding.tensor,
                "bytes": finding.bytes,
                "each": finding.each,
                "count": finding.count,
                "at_peak": finding.at_peak,
                "lines": [{"file": f.file, "line": f.line, "function": f.function} for f in finding.lines],
                "why": finding.why,
            }
            for finding in findings
        ],
    }


def _unused(snapshot: Snapshot, peak: int, top: int) -> List[dict]:
    """Bytes of the allocator's segments at the peak in which nothing was live, by the line that asked for the segment."""
    live = sorted(
        (a.address, a.size) for a in snapshot.allocations if a.born <= peak and (a.died is None or a.died > peak)
    )
    addresses = [address for address, _ in live]
    unused: Dict[tuple, List[int]] = {}
    for address, size, born, died, stack in snapshot.segments:
        if born > peak or (died is not None and died <= peak):
            continue
        first, last = bisect.bisect_left(addresses, address), bisect.bisect_left(addresses, address + size)
        rest = size - sum(held for _, held in live[first:last])
        if rest > 0:
            entry = unused.setdefault(user_lines(snapshot.stacks[stack], 1), [0, 0])
            entry[0] += rest
            entry[1] += 1
    rows = sorted(unused.items(), key=lambda item: (-item[1][0], item[0]))[:top]
    return [
        {"line": str(line[0]) if line else "(no stack)", "bytes": size, "segments": count}
        for line, (size, count) in rows
    ]


def _lines(table: dict) -> List[str]:
    """The audit as text."""
    peak = table["peak"]
    lines = [
        f"{table['events']:,} events, {table['rounds']} rounds of forward and backward; "
        + (
            f"compared with {table['compared_with']}"
            if table["compared_with"]
            else "no plan to compare with (--config or --plan)"
        ),
        f"peak {peak['live_bytes']:,} B live, {peak['reserved_bytes']:,} B reserved, {peak['reserved_unused_bytes']:,} B of them unused",
    ]
    if peak["waiting_bytes"]:
        lines.append(f"freed there but held by another stream: {peak['waiting_bytes']:,} B")
    lines.append("")
    if not table["findings"]:
        lines.append("nothing held beyond the plan" if table["compared_with"] else "nothing grows from round to round")
    for finding in table["findings"]:
        name = f"'{finding['tensor']}' " if finding["tensor"] else ""
        lines.append(
            f"{finding['bytes']:>16,} B  {name}{KINDS[finding['kind']]}: {finding['count']} x {finding['each']:,} B, {finding['at_peak']:,} B at the peak"
        )
        lines.append(f"{'':18}  {finding['why']}")
        lines += [f"{'':18}  {line['file']}:{line['line']} in {line['function']}" for line in finding["lines"]]
    rows = [("bytes", "allocations", "live at the peak, by line")]
    rows += [(f"{row['bytes']:,}", str(row["allocations"]), row["line"]) for row in peak["by_line"]]
    lines += [""] + align(rows, left=(2,))
    if table["unused_segments"]:
        rows = [("bytes", "segments", "reserved and unused at the peak, by the line that grew the pool")]
        rows += [(f"{row['bytes']:,}", str(row["segments"]), row["line"]) for row in table["unused_segments"]]
        lines += [""] + align(rows, left=(2,))
    return lines
