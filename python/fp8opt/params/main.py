# ===- main.py - fp8opt params ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The subcommand that says what parameters cost, for one parameter or for the ranks of a job.
#
# ===--------------------------------------------------------===#
"""fp8opt params: bytes of a parameter, and of the parameters of each rank."""

import dataclasses
import json
import math
from typing import List

from ..command import InputError, Parser
from ..job import Job, load_job
from ..tables import align
from . import Precision, bytes_per_parameter, items, one_line
from .cast import cast_steps, transient_bytes
from .presets import PRESETS
from .ranks import rank_parameters

__all__ = ["main"]

EXAMPLES = """examples:
  fp8opt params --presets                                   every documented setting and its bytes
  fp8opt params --preset=fp8-compute -d 8                   one setting, item by item
  fp8opt params --parameters=fp8 --compute=fp8 --optimizer=distributed --moments=bf16 -d 64
  fp8opt params --config=job.toml                           the parameters of each pipeline rank of a job
"""


def main(arguments: List[str]) -> int:
    """Runs the subcommand."""
    parser = Parser(prog="fp8opt params", description=__doc__, epilog=EXAMPLES)
    parser.add_argument("--presets", action="store_true", help="list the documented settings")
    parser.add_argument("--preset", help="start from a documented setting")
    for field in dataclasses.fields(Precision):
        option = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            parser.add_argument(option, action="store_true", default=None)
        else:
            parser.add_argument(option, help=f"default {field.default}")
    parser.add_argument("-d", "--data-ranks", type=int, default=1, help="data-parallel ranks that state is spread over")
    parser.add_argument(
        "--count", type=float, default=0, help="number of parameters on the rank, to print bytes of all"
    )
    parser.add_argument("--config", help="job file: bytes per rank")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    if options.data_ranks < 1:
        raise InputError(f"expected -d of at least 1, but got {options.data_ranks}")
    if not 0 <= options.count < math.inf:
        raise InputError(f"expected --count of at least 0, but got {options.count:g}")
    if options.presets:
        print("\n".join(_presets()))
        return 0
    if options.config:
        job = load_job(options.config)
        print(json.dumps(_job_table(job), indent=1) if options.json else "\n".join(_job_lines(job)))
        return 0
    if options.preset and options.preset not in PRESETS:
        raise InputError(f"expected --preset of {', '.join(PRESETS)}, but got '{options.preset}'")
    precision = PRESETS[options.preset].precision if options.preset else Precision()
    chosen = {
        f.name: getattr(options, f.name) for f in dataclasses.fields(Precision) if getattr(options, f.name) is not None
    }
    precision = dataclasses.replace(precision, **chosen)
    if options.json:
        print(json.dumps(_table(precision, options.data_ranks), indent=1))
    else:
        print("\n".join(_lines(precision, options.data_ranks, options.count)))
    return 0


def _presets() -> List[str]:
    """The table of documented settings."""
    rows = [("setting", "bytes per parameter", "d=1", "d=8", "d=64", "published", "what")]
    for name, preset in PRESETS.items():
        sizes = [f"{float(bytes_per_parameter(preset.precision, d)):.2f}" for d in (1, 8, 64)]
        rows.append((name, one_line(preset.precision), *sizes, preset.published, preset.options))
    return (
        align(rows, left=(0, 1, 5, 6))
        + ["", "Sources:"]
        + align([(n, p.source) for n, p in PRESETS.items()], (0, 1), "  ")
    )


def _lines(precision: Precision, d: int, count: float) -> List[str]:
    """One setting, item by item."""
    rows = [("item", "bytes", f"on one of {d}", "why", "source")]
    for item in items(precision):
        where = " (host)" if item.host else " (transient)" if item.transient else ""
        rows.append(
            (
                item.name + where,
                f"{float(item.bytes):g}" + ("/d" if item.sharded else ""),
                f"{float(item.on_rank(d)):.4g}",
                item.why,
                item.source,
            )
        )
    total = bytes_per_parameter(precision, d)
    lines = align(rows, left=(0, 3, 4))
    lines += [
        "",
        f"{one_line(precision)} bytes per parameter of a linear: {float(total):g} at d = {d}; what is transient or on the host is not in it",
    ]
    other = one_line(precision, linear=False)
    lines.append(f"{other} bytes per other parameter (embeddings, norms, the router)")
    if count:
        lines.append(
            f"{count:,.0f} parameters of linears on the rank: {float(total) * count:,.0f} B, {float(total) * count / 2**30:,.2f} GiB"
        )
    return lines


def _table(precision: Precision, d: int) -> dict:
    """The same as JSON."""
    return {
        "bytes_per_parameter": float(bytes_per_parameter(precision, d)),
        "formula": one_line(precision),
        "data_ranks": d,
        "items": [
            {
                "item": item.name,
                "bytes": float(item.bytes),
                "on_rank": float(item.on_rank(d)),
                "sharded": item.sharded,
                "transient": item.transient,
                "host": item.host,
                "why": item.why,
                "source": item.source,
            }
            for item in items(precision)
        ],
    }


def _job_table(job: Job) -> dict:
    """The parameters of each pipeline rank."""
    ranks = []
    for rank in range(job.sizes.pipeline):
        held = rank_parameters(job, rank)
        dense = sum(w.count for w in held.weights if w.linear)
        largest = max((w.count for w in held.weights if w.linear), default=0)
        points = cast_steps(job.precision, dense, job.sizes.dense_copies, largest, sum(w.linear for w in held.weights))
        ranks.append(
            {
                "rank": rank,
                "parameters": held.count,
                "bytes": held.bytes,
                "host_bytes": held.host_bytes,
                "cast_transient_bytes": -(-transient_bytes(points) // 1),
                "items": [{"item": name, "bytes": size} for name, size in held.items.items()],
            }
        )
    return {"model": job.model.name, "world": job.sizes.world, "ranks": ranks}


def _job_lines(job: Job) -> List[str]:
    """The same as text."""
    table = _job_table(job)
    names = list(dict.fromkeys(entry["item"] for rank in table["ranks"] for entry in rank["items"]))
    rows = [("pipeline rank", "parameters", *names, "bytes")]
    for rank in table["ranks"]:
        sizes = {entry["item"]: entry["bytes"] for entry in rank["items"]}
        rows.append(
            (
                str(rank["rank"]),
                f"{rank['parameters']:,}",
                *(f"{sizes.get(name, 0):,}" for name in names),
                f"{rank['bytes']:,}",
            )
        )
    lines = [
        f"{job.model.name} on {job.sizes.world} GPUs; bytes of parameters, gradients and optimizer on one of each pipeline rank",
        "",
    ]
    lines += align([list(column) for column in zip(*rows)])
    host = max(rank["host_bytes"] for rank in table["ranks"])
    if host:
        lines.append(f"and in host memory, at most {host:,} B for each GPU")
    lines.append(
        f"the cast to what the next step computes with holds at most {max(r['cast_transient_bytes'] for r in table['ranks']):,} B more, after the optimizer's step"
    )
    return lines
