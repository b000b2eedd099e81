# ===- main.py - fp8opt rank ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The subcommand that says what each pipeline rank of a job holds, and which recomputation it needs.
#
# ===--------------------------------------------------------===#
"""fp8opt rank: the memory of each pipeline rank of a job, item by item, and the lightest recomputation that fits."""

import dataclasses
import json
from typing import List

from ..command import InputError, Parser, parse_bytes
from ..job import Job, Recompute, load_job
from ..tables import align, mib
from .fit import choices, lightest, lightest_of_all
from .graph import walk
from .layers import layer_graph
from .memory import RankMemory, rank_memory, stage_cost
from .oplist import kept_abs
from .stages import policy_of

__all__ = ["main"]

EXAMPLES = """examples:
  fp8opt rank --config=job.toml                      all pipeline ranks
  fp8opt rank --config=job.toml --compare            with recomputation none, as the job says, and full
  fp8opt rank --config=job.toml --fit --device=80GiB the lightest recomputation that fits, per rank
  fp8opt rank --config=job.toml --timeline=0         rank 0, step by step of the schedule
  fp8opt rank --config=job.toml --layer=3            what one layer keeps for backward, tensor by tensor
  fp8opt rank --config=job.toml --list-abs           what `abs` in torchtitan's list of ops to keep costs
"""


def main(arguments: List[str]) -> int:
    """Runs the subcommand."""
    parser = Parser(prog="fp8opt rank", description=__doc__, epilog=EXAMPLES)
    parser.add_argument("--config", required=True, help="job file")
    parser.add_argument("--frees", help="prompt, emptied or late, instead of the job's")
    parser.add_argument(
        "--ahead", type=int, help="steps that the CPU is ahead of the GPU, where it does not wait for it"
    )
    parser.add_argument("--allocator", help="none, expandable or segments, instead of the job's")
    parser.add_argument(
        "--recompute", help="none, full, or a list of modules such as mla_up_proj,layernorm, instead of the job's"
    )
    parser.add_argument("--device", help="bytes of a GPU, instead of the job's")
    parser.add_argument("--compare", action="store_true", help="compare recomputation none, the job's, and full")
    parser.add_argument("--fit", action="store_true", help="the lightest recomputation that fits, per rank")
    parser.add_argument("--timeline", type=int, help="each step of this rank")
    parser.add_argument("--layer", type=int, help="what this layer keeps")
    parser.add_argument("--list-abs", action="store_true", help="what abs in a list of ops costs (dense models)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    job = load_job(options.config)
    changes = {
        key: getattr(options, key) for key in ("frees", "ahead", "allocator") if getattr(options, key) is not None
    }
    if changes:
        job = dataclasses.replace(job, **changes)
    if options.device:
        job = dataclasses.replace(job, device=parse_bytes(options.device))
    if options.recompute:
        job = dataclasses.replace(job, recompute=_recompute(options.recompute, job.recompute.originals))
    ranks = job.sizes.pipeline
    if options.timeline is not None and not 0 <= options.timeline < ranks:
        raise InputError(f"expected --timeline between 0 and {ranks - 1}, but got {options.timeline}")
    if options.list_abs:
        lines = _abs_lines(job)
    elif options.layer is not None:
        lines = _layer_lines(job, options.layer)
    elif options.fit:
        lines = _fit_lines(job)
    elif options.compare:
        lines = _compare_lines(job)
    elif options.json:
        print(json.dumps(_table(job, options.timeline), indent=1))
        return 0
    elif options.timeline is not None:
        lines = _timeline_lines(rank_memory(job, options.timeline))
    else:
        lines = _lines(job)
    print("\n".join(lines))
    return 0


def _recompute(text: str, originals: bool) -> Recompute:
    """A policy from the command line."""
    if text in ("none", "full"):
        return Recompute(text, (), originals)
    return Recompute("selective", tuple(text.split(",")), originals)


def _lines(job: Job) -> List[str]:
    """All ranks, item by item, in MiB."""
    memories = [rank_memory(job, rank) for rank in range(job.sizes.pipeline)]
    rows = [["MiB, pipeline rank"] + [str(m.rank) for m in memories]]
    for name in dict.fromkeys(name for m in memories for name in m.parameters):
        rows.append([name] + [mib(m.parameters.get(name, 0)) for m in memories])
    rows.append(["kept by microbatches in flight"] + [mib(m.peak.others) for m in memories])
    rows.append(["operands of weight gradients put off"] + [mib(m.peak.deferred) for m in memories])
    rows.append(["the chunk that runs"] + [mib(m.peak.running) for m in memories])
    rows.append(["layers gathered by the FSDP"] + [mib(m.gathered) for m in memories])
    rows.append(["reserved beyond it by the allocator"] + [mib(m.unused) for m in memories])
    for name in memories[0].beside:
        rows.append([name] + [mib(m.beside[name]) for m in memories])
    rows.append(["all"] + [mib(m.bytes) for m in memories])
    rows.append(["in flight at the peak"] + [str(m.peak.in_flight) for m in memories])
    lines = [_title(job), ""] + align(
        [row for number, row in enumerate(rows) if number == 0 or any(cell != "0" for cell in row[1:])]
    )
    worst = max(memories, key=lambda m: m.bytes)
    lines += ["", f"rank {worst.rank} is the fullest: at {worst.peak.step}, in {worst.peak.at}"]
    host = max(m.host for m in memories)
    if host:
        lines.append(f"optimizer on the host: at most {mib(host)} MiB for a GPU")
    return lines


def _title(job: Job) -> str:
    """The job in a line."""
    s, r = job.sizes, job.recompute
    sizes = f"TP{s.tensor} PP{s.pipeline} VPP{s.virtual} EP{s.expert} CP{s.context} DP{s.data}"
    policy = r.granularity + (f" ({' '.join(r.modules)})" if r.modules else "")
    tokens = f"{job.batch.sequence * job.batch.micro:,} tokens"
    frees = job.frees + (f" ({job.ahead} ahead)" if job.ahead else "")
    return f"{job.model.name}, {s.world} GPUs, {sizes}, {tokens}, {job.schedule}, recompute {policy}, frees {frees}"


def _compare_lines(job: Job) -> List[str]:
    """Recomputation none, the job's, full."""
    policies = [Recompute("none", (), job.recompute.originals)]
    if job.recompute.granularity == "selective":
        policies.append(job.recompute)
    policies.append(Recompute("full", (), job.recompute.originals))
    rows = [
        ["recompute", "kept by one layer MiB"]
        + [f"rank {rank} MiB" for rank in range(job.sizes.pipeline)]
        + ["recomputed %", "step %"]
    ]
    for policy in policies:
        changed = dataclasses.replace(job, recompute=policy)
        costs = [stage_cost(changed, stage) for stage in range(len(changed.stages()))]
        forward, backward, again = (sum(getattr(c, f"{p}_us") for c in costs) for p in ("forward", "backward", "again"))
        layer = _saved_of_layer(changed, job.model.layers - 1)
        name = policy.granularity + (": " + " ".join(policy.modules) if policy.modules else "")
        rows.append(
            [name, mib(layer)]
            + [mib(rank_memory(changed, rank).bytes) for rank in range(job.sizes.pipeline)]
            + [f"{100 * again / forward:.0f}", f"{100 * (forward + backward + again) / (forward + backward):.0f}"]
        )
    return (
        [_title(job), ""]
        + align(rows)
        + [
            "",
            "recomputed: time of what runs again, of the time of forward; step: time of all, of that without recomputation;",
            "by the rates of one H200, without communication",
        ]
    )


def _saved_of_layer(job: Job, layer: int) -> int:
    """What one layer keeps."""
    return walk(layer_graph(job, layer), policy_of(job)).saved


def _layer_lines(job: Job, layer: int) -> List[str]:
    """What a layer keeps, tensor by tensor, and the peaks of its passes."""
    if not 0 <= layer < job.model.layers + job.model.mtp_layers:
        raise InputError(
            f"expected --layer between 0 and {job.model.layers + job.model.mtp_layers - 1}, but got {layer}"
        )
    steps = walk(layer_graph(job, layer), policy_of(job))
    rows = [("kept for backward", "bytes", "MiB")]
    rows += [
        (life.name, f"{life.bytes:,}", f"{life.bytes / 2**20:,.1f}")
        for life in steps.lives
        if life.saved and life.bytes
    ]
    rows.append(("all", f"{steps.saved:,}", f"{steps.saved / 2**20:,.1f}"))
    lines = [_title(job), "", f"layer {layer}:"] + align(rows, indent="  ")
    for backward, name in ((False, "forward"), (True, "backward")):
        worst = max((p for p in steps.points if p.backward == backward), key=lambda p: p.live)
        lines.append(f"  peak of {name} {mib(worst.live)} MiB, in {worst.op}")
    return lines


def _timeline_lines(memory: RankMemory) -> List[str]:
    """A rank step by step."""
    rows = [("step", "in flight", "kept MiB", "put off MiB", "running MiB", "all MiB", "in")]
    for m in memory.moments:
        rows.append((m.step, str(m.in_flight), mib(m.others), mib(m.deferred), mib(m.running), mib(m.bytes), m.at))
    return align(rows, left=(0, 6)) + [
        f"and {mib(memory.bytes - memory.peak.bytes)} MiB of parameters and overhead throughout"
    ]


def _fit_lines(job: Job) -> List[str]:
    """The lightest recomputation per rank."""
    rows = [("rank", "lightest recomputation", "MiB", "recomputed %", "full MiB", "none MiB")]
    every = [choices(job, rank) for rank in range(job.sizes.pipeline)]
    for rank, own in enumerate(every):
        best = lightest(own, job.device)
        by_name = {c.recompute.granularity: c for c in own if c.recompute.granularity != "selective"}
        name = best.name if best.bytes <= job.device else "none fits; the smallest is " + best.name
        rows.append(
            (str(rank), name, mib(best.bytes), _share([best]), mib(by_name["full"].bytes), mib(by_name["none"].bytes))
        )
    common = lightest_of_all(every, job.device)
    if common:
        rows.append(("all", common[0].name, mib(max(c.bytes for c in common)), _share(common), "", ""))
    lines = [_title(job), f"for a GPU of {mib(job.device)} MiB:", ""] + align(rows, left=(0, 1))
    return lines if common else lines + ["no recomputation fits all ranks"]


def _share(chosen) -> str:
    """What is recomputed, in percent of the time of forward."""
    return f"{100 * sum(c.again_us for c in chosen) / sum(c.forward_us for c in chosen):.0f}"


def _abs_lines(job: Job) -> List[str]:
    """What abs in the list costs."""
    kept = kept_abs(job)
    layer, layers = sum(k.bytes for k in kept), job.model.layers
    rows = [("kept", "bytes", "MiB", "read again by")] + [
        (k.name, f"{k.bytes:,}", f"{k.bytes / 2**20:,.0f}", k.reader) for k in kept
    ]
    rows.append(("a layer", f"{layer:,}", f"{layer / 2**20:,.0f}", ""))
    rows.append((f"{layers} layers", f"{layer * layers:,}", f"{layer * layers / 2**20:,.0f}", ""))
    return align(rows, left=(0, 3)) + [
        f"abs in the list of ops to keep: {layer * layers / 2**30:.2f} GiB more on each GPU"
    ]


def _table(job: Job, timeline) -> dict:
    """All ranks as JSON; `timeline`: that rank's steps."""
    ranks = []
    for rank in range(job.sizes.pipeline):
        memory = rank_memory(job, rank)
        entry = {
            "rank": rank,
            "bytes": memory.bytes,
            "parameters": [{"item": name, "bytes": size} for name, size in memory.parameters.items()],
            "peak": memory.peak._asdict(),
            "gathered": memory.gathered,
            "unused": memory.unused,
            "beside": [{"item": name, "bytes": size} for name, size in memory.beside.items()],
            "host": memory.host,
        }
        if timeline == rank:
            entry["timeline"] = [moment._asdict() for moment in memory.moments]
        ranks.append(entry)
    return {"job": _title(job), "ranks": ranks}
