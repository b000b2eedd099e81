# ===- backend.py - torch.compile with kernels of fp8-opt beside Inductor's ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Llama-3-8B layers in float8, each layer compiled: by stock torch.compile, and by fp8opt.apply.Backend at the fastest plan and
# within parts of its peak. For each its time (a median), the peak over what was there before the step, the arena included, in bytes
# that were asked of torch's allocator, what was said before the step ran, and how far the gradients are from those of eager mode.
#
# usage: backend.py [--kind ffn|block] [--layers 4 --tokens 16384 --dim 4096 --ffn 14336 --heads 32 --groups 8]
#        [--parts 0.8] [--leave OP...] [--profile] [--skip-stock] [--repeats 15] [--device cuda|cpu] [--out FILE.json]
#
# ===----------------------------------------------------------------------=== #
"""Prints a table and writes it as JSON."""

import argparse
import json
import pathlib
import statistics
import struct
import sys
import time

from partitioned import MIB, stack_of

BASELINE = "torch.compile"


def run_step(stack, inputs, gradient):
    x, cos, sin = inputs
    for parameter in stack.parameters():
        parameter.grad = None
    x = x.detach().requires_grad_()
    stack(x, cos, sin).backward(gradient)
    return [parameter.grad for parameter in stack.parameters()] + [x.grad]


def problem(options):
    """The layers, their inputs and the gradient of their result, the same each time."""
    import torch

    stack, inputs = stack_of(options)
    return stack, inputs, torch.randn_like(inputs[0])


def gradients(stack, inputs, gradient):
    """Those of one step, in host memory."""
    return [item.float().cpu() for item in run_step(stack, inputs, gradient)]


def measure(options, row, reference, budget=None, leave=()):
    """One way: compiles, runs, fills in the row; gives the backend, if it is ours."""
    import torch
    from fp8opt.apply import Backend

    stack, inputs, gradient = problem(options)
    cuda = options.device == "cuda"
    backend = None
    if row["name"] != BASELINE:
        backend = Backend(budget, "h200" if cuda else "cpu", leave=leave)
    for layer in stack.layers:
        layer.compile(dynamic=False, **({"backend": backend} if backend else {}))
    started = time.time()
    found = gradients(stack, inputs, gradient)
    row["compile_s"] = time.time() - started
    row["gradients_differ"] = max(((one - other).norm() / other.norm()).item() for one, other in zip(found, reference))
    del found
    if backend:
        row["said_bytes"] = backend.expected_peak_bytes(options.layers)
        row["arena_bytes"] = sum(memory.numel() for memory in backend.arenas.memory.values())
        row["left"], row["graphs"], row["stretches"] = backend.left, len(backend.graphs), len(backend.stretches)
        row["plan_peak_bytes"] = [plan.plan["peak_bytes"] for plan in backend.plans]
    if not cuda:
        return backend
    run_step(stack, inputs, gradient)
    for parameter in stack.parameters():
        parameter.grad = None
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    run_step(stack, inputs, gradient)
    after = torch.cuda.memory_stats()
    arena = row.get("arena_bytes", 0)
    for key in ("requested", "allocated", "reserved"):
        row[f"peak_{key}_bytes"] = after[f"{key}_bytes.all.peak"] - before[f"{key}_bytes.all.current"] + arena
    times = []
    for _ in range(options.repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run_step(stack, inputs, gradient)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    row["ms"] = statistics.median(times)
    if options.profile and backend:
        profile(row, stack, inputs, gradient, backend)
    return backend


def launches(data):
    """Of an artifact's launches the kernels, each with what it makes, the bytes that it moves, its grid and its source line."""
    count, = struct.unpack_from("<I", data, 12)
    for place in range(16, 16 + 64 * count, 64):
        offset, size = struct.unpack_from("<QQ", data, place + 16)
        if data[place:place + 16].rstrip(b"\0") == b"manifest":
            manifest = json.loads(data[offset:offset + size])
    for function in manifest["functions"]:
        for command in function["commands"]:
            if command["op"] == "launch":
                yield command["kernel"], (f"{command['name']} {command['bytes'] / MIB:,.0f} MiB grid {command['grid'][0]} x "
                                          f"{command['block'][0]} at {command['loc']}")


def profile(row, stack, inputs, gradient, backend):
    """The kernels of one step, the longest first; ours with what they are for. Kernels of two stretches may have one name."""
    import torch

    known = {}
    for number, stretch in enumerate(backend.stretches):
        for kernel, text in launches(bytes(stretch.artifact)):
            known.setdefault(kernel, []).append(f"[{number}] {text}")

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        run_step(stack, inputs, gradient)
        torch.cuda.synchronize()
    row["kernels"] = [{"name": event.key, "count": event.count, "us": event.self_device_time_total,
                       "for": known.get(event.key, [])}
                      for event in sorted(found.key_averages(), key=lambda event: -event.self_device_time_total)
                      if event.self_device_time_total > 0][:80]
    for kernel in row["kernels"][:40]:
        print(f"    {kernel['us'] / 1e3:>9.2f} ms {kernel['count']:>5} times  {kernel['name'][:80]}  "
              f"{'; '.join(kernel['for'])[:160]}")


def show(row):
    text = f"{row['name']:<34}"
    if "ms" in row:
        text += f"{row['ms']:>9.2f} ms {row['peak_allocated_bytes'] / MIB:>8,.0f} MiB allocated {row['peak_reserved_bytes'] / MIB:>8,.0f} reserved"
    if "said_bytes" in row:
        text += f"   said {row['said_bytes']:,} B"
        if "peak_requested_bytes" in row:
            difference = row["peak_requested_bytes"] - row["said_bytes"]
            text += f", asked for {row['peak_requested_bytes']:,} B: {'equal' if difference == 0 else f'{difference:+,} B'}"
    if "gradients_differ" in row:
        text += f"   gradients differ by {row['gradients_differ']:.2e}"
    print(text + (f"   {row['error']}" if "error" in row else ""), flush=True)


def run(options):
    import torch

    rows = []
    reference = gradients(*problem(options))

    def add(name, *arguments):
        row, backend = {"name": name}, None
        try:
            backend = measure(options, row, reference, *arguments)
        except Exception as error:  # one row's failure leaves the others
            row["error"] = f"{type(error).__name__}: {error}"[:600]
        rows.append(row)
        show(row)
        if options.out:
            result = {"schema": "fp8opt-backend-1", "torch": torch.__version__, "options": vars(options), "rows": rows,
                      "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu"}
            pathlib.Path(options.out).write_text(json.dumps(result, indent=1, default=str) + "\n")
        return backend

    if not options.skip_stock:
        add(BASELINE)
    backend = add("fp8opt, fastest")
    if options.leave:
        add(f"fp8opt, PyTorch runs {', '.join(options.leave)}", None, options.leave)
    if backend is not None and backend.plans:
        peak = backend.expected_peak_bytes()
        del backend
        for part in options.parts:
            add(f"fp8opt, {part:g} of a layer's peak", int(part * peak))
    print()
    for row in rows:
        if row.get("left"):
            print(f"{row['name']}: PyTorch runs {row['left']}")
    for row in rows:
        show(row)
    return 1 if any("error" in row for row in rows) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--kind", choices=("ffn", "block"), default="ffn")
    for name, value in (("layers", 4), ("tokens", 16384), ("dim", 4096), ("ffn", 14336), ("heads", 32), ("groups", 8),
                        ("repeats", 15)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--parts", type=float, nargs="+", default=[0.8], help="budgets, of the fastest plan's peak of one layer")
    parser.add_argument("--leave", nargs="+", default=[], help="operations that PyTorch runs, in one more row")
    parser.add_argument("--profile", action="store_true", help="the kernels of each of our rows by their time")
    parser.add_argument("--skip-stock", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out")
    options = parser.parse_args()
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
