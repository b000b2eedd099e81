# ===- partitioned.py - torch.compile by plans beside stock torch.compile ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Llama-3-8B layers in float8 under torch.compile, each layer compiled: PyTorch's partitioner at its memory budgets, and
# fp8opt.apply.compile_blocks at the peaks that those reach and below, in one run; with --whole, all layers as one graph and
# fp8opt.apply.Partitioner. Times are medians of at most --repeats steps, fewer where they agree; peaks are over what was
# allocated before the step, weights apart, weight gradients included, with the allocator's reserved bytes beside them and what was
# said before the step ran. Of the block at three budgets and two parts, compilation and plans take about 240 s on an H200, as the
# times of recorded rows add up.
#
# usage: partitioned.py [--kind ffn|block] [--layers 4 --tokens 16384 --dim 4096 --ffn 14336 --heads 32 --groups 8]
#        [--budgets 1 0.75 0.5 0.25] [--parts 1 0.85] [--whole] [--repeats 20] [--fp8-opt PATH] [--out FILE.json]
#
# ===------------------------------------------------------------------=== #
"""Prints a table of both partitioners and writes it as JSON."""

import argparse
import dataclasses
import gc
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

MIB = 2**20


def stack_of(options):
    """The layers and their inputs, the same each time."""
    import llama_torch
    import torch

    torch._dynamo.reset()
    gc.collect()
    torch.manual_seed(0)
    stack = llama_torch.Stack(options.kind, options.layers, options.dim, options.ffn, options.heads, options.groups)
    stack.to(options.device)
    return stack, llama_torch.inputs(options.tokens, options.dim, options.heads, options.device)


def measure(options, stack, inputs, row):
    """Runs the step: fills in what it keeps, its peak and its times."""
    import torch

    x, cos, sin = inputs
    gradient = torch.randn_like(x)
    parameters = list(stack.parameters())
    cuda = options.device == "cuda"

    def step():
        for parameter in parameters:
            parameter.grad = None
        h = stack(x.detach().requires_grad_(), cos, sin)
        saved = torch.cuda.memory_allocated() if cuda else 0
        h.backward(gradient)
        return saved

    started = time.time()
    step()
    row["compile_s"] = time.time() - started
    step()
    for parameter in parameters:
        parameter.grad = None
    if not cuda:
        return
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    base, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    row["saved_bytes"] = step() - base
    torch.cuda.synchronize()
    row["peak_bytes"] = torch.cuda.max_memory_allocated() - base
    row["reserved_bytes"] = torch.cuda.max_memory_reserved() - reserved
    times = []
    while len(times) < options.repeats and not steady(times):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    row["ms"], row["ms_min"], row["repeats"] = statistics.median(times), min(times), len(times)


def steady(times):
    """Whether the median of these times is known well enough: after 6, where the middle half of them lies within 0.5 %."""
    if len(times) < 6:
        return False
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return high - low <= 0.005 * middle


def stock(options, row):
    """PyTorch's partitioner at one of its memory budgets."""
    import torch
    import torch._functorch.config as config

    stack, inputs = stack_of(options)
    if options.whole:
        stack.compile()
    else:
        for layer in stack.layers:
            layer.compile()
    with config.patch(activation_memory_budget=row["share"]):
        measure(options, stack, inputs, row)


def ours(options, row, known):
    """fp8opt at a peak; `known` holds the ways to split a layer once they are known."""
    import contextlib

    from fp8opt.apply import compile_blocks, partitioned

    stack, inputs = stack_of(options)
    started = time.time()
    target = "h200" if options.device == "cuda" else "cpu"
    with contextlib.ExitStack() as context:
        if options.whole:
            partitioner = context.enter_context(partitioned(row["budget"], target, options.fp8_opt))
            stack.compile()
        else:
            plan = compile_blocks(stack.layers, *inputs, budget=row["budget"], target=target, compiler=options.fp8_opt,
                                  ways=known.get("ways"))
            known["ways"] = plan.ways
        row["plan_s"] = time.time() - started
        measure(options, stack, inputs, row)
    if options.whole:
        chosen, = partitioner.chosen
        row["expected_peak_bytes"], row["expected_ms"] = chosen.peak_bytes, chosen.seconds * 1e3
        row["chosen"] = [str(chosen.choice)]
    else:
        row["expected_peak_bytes"], row["expected_ms"] = plan.expected_peak_bytes, plan.expected_seconds * 1e3
        row["chosen"] = [str(item.choice) for item in plan.chosen]


def show(row):
    def size(key):
        return f"{row[key] / MIB:>10,.0f}" if key in row else f"{'':>10}"

    ms = f"{row['ms']:>9.2f}" if "ms" in row else f"{'':>9}"
    said = ""
    if "expected_peak_bytes" in row:
        said = f"   said {row['expected_peak_bytes'] / MIB:,.0f} MiB, {row['expected_ms']:.1f} ms"
        if "peak_bytes" in row:
            said += f" ({100 * (row['expected_peak_bytes'] / row['peak_bytes'] - 1):+.1f} %)"
    print(f"{row['name']:<38}{ms} ms{size('peak_bytes')} MiB{size('saved_bytes')} saved{size('reserved_bytes')} reserved{said}"
          f"{'   ' + row['error'] if 'error' in row else ''}", flush=True)


def run(options):
    import torch

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    rows, known = [], {}

    def add(row, make, *arguments):
        started = time.time()
        try:
            make(options, row, *arguments)
        except Exception as error:  # one variant's failure leaves the others
            row["error"] = f"{type(error).__name__}: {error}"[:400]
        row["wall_s"] = time.time() - started
        rows.append(row)
        show(row)
        result = {"schema": "fp8opt-partitioned-2", "torch": torch.__version__, "options": vars(options), "rows": rows,
                  "variants": [dataclasses.asdict(item) for item in known["ways"].variants] if "ways" in known else [],
                  "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu"}
        if options.out:  # also where a limit of time ends the run
            pathlib.Path(options.out).write_text(json.dumps(result, indent=1, default=str) + "\n")
        return row

    found = [add({"name": f"torch.compile, budget {share:g}", "share": share}, stock) for share in options.budgets]
    add({"name": "fp8-opt, fastest", "budget": None}, ours, known)
    goals = [(f"{size} MiB", size * MIB) for size in options.goals] or [
        (f"{part:g} of budget {row['share']:g}'s peak", int(part * row["peak_bytes"]))
        for row in found if "peak_bytes" in row for part in options.parts]
    for name, goal in goals:
        add({"name": f"fp8-opt, {name}", "budget": goal}, ours, known)
    print("", *sorted({row["error"] for row in rows if "error" in row}), sep="\n")
    for row in rows:
        show(row)
    return 0 if not any("error" in row for row in rows) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--kind", choices=("ffn", "block"), default="ffn")
    for name, value in (("layers", 4), ("tokens", 16384), ("dim", 4096), ("ffn", 14336), ("heads", 32), ("groups", 8),
                        ("repeats", 20)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--budgets", type=float, nargs="+", default=[1.0, 0.75, 0.5, 0.25])
    parser.add_argument("--goals", type=int, nargs="+", default=[], help="peaks in MiB, instead of those that stock reaches")
    parser.add_argument("--parts", type=float, nargs="+", default=[1.0, 0.85], help="of stock's peaks, what ours are given")
    parser.add_argument("--whole", action="store_true", help="all layers as one graph")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--fp8-opt")
    parser.add_argument("--out")
    options = parser.parse_args()
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
