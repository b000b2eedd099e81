# ===- partitioned.py - torch.compile by plans beside stock torch.compile ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Llama-3-8B layers in float8 under torch.compile, each layer compiled: PyTorch's partitioner at its memory budgets, and
# plans of fp8-opt at the peaks that those reach, in one run. Times are medians; peaks are over what was allocated before the
# step, weights apart, weight gradients included, with the allocator's reserved bytes beside them.
#
# usage: partitioned.py [--kind ffn|block] [--layers 4 --tokens 16384 --dim 4096 --ffn 14336 --heads 32 --groups 8]
#        [--budgets 1 0.75 0.5 0.25] [--whole] [--repeats 20] [--fp8-opt PATH] [--plans DIR] [--out FILE.json]
#
# On a machine without the compiler, --plans names a folder of plans made elsewhere: a first run leaves its programs there,
# `partitioned.py --plan DIR` on a machine with the compiler makes all their plans, and a second run finds them.
#
# ===------------------------------------------------------------------=== #
"""Prints a table of both partitioners and writes it as JSON."""

import argparse
import gc
import json
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

MIB = 2**20


def measure(torch, options, name, budget, partitioner):
    """One row: the layers compiled afresh, the step run, timed, its peak taken."""
    import llama_torch
    import torch._functorch.config as functorch_config
    import torch._inductor.config as inductor_config

    torch._dynamo.reset()
    gc.collect()
    torch.manual_seed(0)
    device = options.device
    stack = llama_torch.Stack(options.kind, options.layers, options.dim, options.ffn, options.heads, options.groups)
    stack.to(device)
    x, cos, sin = llama_torch.inputs(options.tokens, options.dim, options.heads, device)
    gradient = torch.randn_like(x)
    parameters = list(stack.parameters())
    compiled = [torch.compile(stack)] if options.whole else [torch.compile(layer) for layer in stack.layers]
    cuda = device == "cuda"

    def step():
        for parameter in parameters:
            parameter.grad = None
        h = x.detach().requires_grad_()
        for layer in compiled:
            h = layer(h, cos, sin)
        saved = torch.cuda.memory_allocated() if cuda else 0
        h.backward(gradient)
        return saved

    with functorch_config.patch(activation_memory_budget=budget), \
            inductor_config.patch(custom_partitioner_fn=partitioner):
        step()
        step()
        for parameter in parameters:
            parameter.grad = None
        row = {"name": name, "budget": budget}
        if cuda:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            base, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
            row["saved_bytes"] = step() - base
            torch.cuda.synchronize()
            row["peak_bytes"] = torch.cuda.max_memory_allocated() - base
            row["reserved_bytes"] = torch.cuda.max_memory_reserved() - reserved
            times = []
            for _ in range(options.repeats):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                step()
                end.record()
                torch.cuda.synchronize()
                times.append(start.elapsed_time(end))
            row["ms"], row["ms_min"] = statistics.median(times), min(times)
    if partitioner is not None:
        row["planned"] = [{"peak_bytes": plan.plan["peak_bytes"], "saved_bytes": plan.plan["saved_bytes"],
                           "step_us": plan.plan["step_us"]} for plan in partitioner.plans]
        if not partitioner.plans:
            row["error"] = "no plan"
    return row


def show(row):
    def size(key):
        return f"{row[key] / MIB:>10,.0f}" if key in row else f"{'':>10}"

    time = f"{row['ms']:>9.2f}" if "ms" in row else f"{'':>9}"
    planned = row.get("expected_peak_bytes")
    note = f"   planned {planned / MIB:,.0f} MiB" if planned else ""
    print(f"{row['name']:<34}{time} ms{size('peak_bytes')} MiB{size('saved_bytes')} saved{size('reserved_bytes')} reserved"
          f"{note}{'   ' + row['error'] if 'error' in row else ''}", flush=True)


def run(options):
    import torch

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    from fp8opt.apply import Coordinator, Partitioner

    rows = []

    def add(name, budget, partitioner=None, expected=None):
        try:
            row = measure(torch, options, name, budget, partitioner)
        except Exception as error:  # one variant's failure leaves the others
            row = {"name": name, "error": f"{type(error).__name__}: {error}"[:400]}
        if expected is not None:
            row["expected_peak_bytes"] = expected()
        rows.append(row)
        show(row)
        return row

    stock = [add(f"torch.compile, budget {budget:g}", budget) for budget in options.budgets]
    fastest = Partitioner(None, "h200", options.fp8_opt)
    add("plan, fastest", 1.0, fastest, lambda: _whole(fastest, options))
    goals = [(f"{size} MiB", size * MIB) for size in options.goals] or [
        (row["name"], row["peak_bytes"]) for row in stock if "peak_bytes" in row]
    for name, goal in goals:
        coordinator = Coordinator(goal, 1 if options.whole else options.layers, 0, "h200", options.fp8_opt)
        partitioner = Partitioner(coordinator.budget_of, "h200", options.fp8_opt)
        add(f"plan, peak of {name}", 1.0, partitioner, lambda c=coordinator: c.expected_peak)
    result = {"schema": "fp8opt-partitioned-1", "torch": torch.__version__, "options": vars(options), "rows": rows,
              "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu"}
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(result, indent=1, default=str) + "\n")
    return 0 if not any("error" in row for row in rows) else 1


def _whole(partitioner, options):
    """The peak of the step by the plans: of one graph its own, of layers that are compiled apart what they add up to."""
    from fp8opt.apply.coordinator import cost_of, peak_of_blocks

    if not partitioner.plans:
        return None
    plan = partitioner.plans[0]
    return plan.plan["peak_bytes"] if options.whole else peak_of_blocks(cost_of(plan), options.layers)


def plan_folder(options):
    """Plans every program of a folder that has no plan yet."""
    from fp8opt.explanations.planning import PlanStore

    made = PlanStore(options.plan).plan_all(options.fp8_opt)
    print(f"{made} plans made or found in {options.plan}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--kind", choices=("ffn", "block"), default="ffn")
    for name, value in (("layers", 4), ("tokens", 16384), ("dim", 4096), ("ffn", 14336), ("heads", 32), ("groups", 8),
                        ("repeats", 20)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--budgets", type=float, nargs="+", default=[1.0, 0.75, 0.5, 0.25])
    parser.add_argument("--goals", type=int, nargs="+", default=[], help="peaks in MiB, instead of those that stock reaches")
    parser.add_argument("--whole", action="store_true", help="all layers as one graph")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--fp8-opt")
    parser.add_argument("--plans", help="folder of plans")
    parser.add_argument("--plan", metavar="DIR", help="only plan the programs that lie there")
    parser.add_argument("--out")
    options = parser.parse_args()
    if options.plan:
        return plan_folder(options)
    if options.plans:
        os.environ["FP8OPT_PLANS"] = options.plans
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
