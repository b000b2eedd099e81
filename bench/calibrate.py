#!/usr/bin/env python3
# ===- calibrate.py - measures a target and writes its file ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: calibrate.py prepare DIR [--fp8-opt PATH] [--target h200] [--tokens N --dim N --ffn N]
#        calibrate.py run DIR --out TARGET.json [--fp8-run PATH] [--machine "NVIDIA H200"] [--repeats 20]
#
# `prepare` compiles one feed-forward layer for each recipe, and four rowwise layers at three budgets, into DIR (on a machine
# with the compiler); `run` measures them on the machine that the target is to describe, with fp8-run alone. The rates are
# those of all matmuls of a recipe and of all loop kernels; the error is that of the four layers, which no rate is
# fitted to. What cannot be measured so (the link, bf16 matmuls, f32 arithmetic) stays as the target had it.
#
# On the CPU (--target cpu, with sizes that take seconds: --tokens 1024 --dim 512 --ffn 1792) loop kernels compute longer than
# they move, so the rates of memory and of f32 arithmetic are the pair that fits all of them best, a copy to host memory
# is a large one within memory (fp8-run --bench), and the error is also that of the examples that run there.
#
# ===------------------------------------------------------------------------=== #
"""Measures kernels and matmuls through fp8-run and writes a target for fp8-opt --compile=target=FILE.json."""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
RATES = {"rowwise": "flops_f8_row", "tensorwise": "flops_f8_tensor", "block128": "flops_f8_block"}
# What runs on the CPU beside the layers, with the recipe of its matmuls.
EXAMPLES = {"llama3_ffn_small": "rowwise", "ffn_tensorwise": "tensorwise", "ffn_block128": "block128", "ffn_delayed": "tensorwise"}
# Commands that move less say what a launch costs; those that move more, what memory gives.
SMALL, LARGE = 2**16, 2**22


def compile_artifacts(options):
    options.folder.mkdir(parents=True, exist_ok=True)
    sizes = [f"--tokens={options.tokens}", f"--dim={options.dim}", f"--ffn={options.ffn}"]

    def compile_one(name, layers, recipe, budget=None):
        generate = [sys.executable, ROOT / "examples/gen.py", f"--layers={layers}", f"--recipe={recipe}", *sizes]
        return compile_program(name, subprocess.run(generate, check=True, capture_output=True).stdout, budget)

    def compile_program(name, program, budget=None):
        pipeline = f"--compile=target={options.target}" + (f",budget={budget}" if budget else "")
        subprocess.run([options.fp8_opt, "-", pipeline, "--emit=artifact", "-o", options.folder / f"{name}.fp8"],
                       input=program, check=True)
        plan = subprocess.run([options.fp8_opt, "-", pipeline, "--emit=plan"], input=program, check=True,
                              capture_output=True).stdout
        return json.loads(plan)

    for recipe in RATES:
        compile_one(recipe, 1, recipe)
    plan = compile_one("check0", 4, "rowwise")
    most, least = plan["peak_bytes"], plan["min_feasible_peak_bytes"]
    compile_one("check1", 4, "rowwise", (most + least) // 2)
    compile_one("check2", 4, "rowwise", least)
    if options.target == "cpu":
        for example in EXAMPLES:
            compile_program(example, (ROOT / f"examples/{example}.mlir").read_bytes())
    target = options.target if options.target.endswith(".json") else ROOT / f"lib/Target/Target/targets/{options.target}.json"
    (options.folder / "target.json").write_text(pathlib.Path(target).read_text())


def measure(fp8_run, artifact, backend, repeats, bench=False):
    """The run's JSON and the ledger's commands."""
    with tempfile.TemporaryDirectory() as folder:
        result, ledger = pathlib.Path(folder, "run.json"), pathlib.Path(folder, "ledger.json")
        command = [fp8_run, artifact, f"--backend={backend}", f"--steps={repeats}", f"--json={result}", f"--ledger={ledger}"]
        if backend == "cuda":
            command.append("--graph")
        command += ["--bench"] if bench else []
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"error: {artifact}: fp8-run failed: {(done.stdout + done.stderr)[-400:]}")
        return json.loads(result.read_text()), json.loads(ledger.read_text())["commands"]


def estimate(target, rate, commands):
    """Seconds of a step by the cost model: the longer of computing and moving, and a launch, each."""
    seconds = 0.0
    for command in commands:
        if command["op"] not in ("alloc", "free", "fill"):
            speed = rate if command["op"] == "gemm" else target["flops_f32"]
            seconds += max(command["flops"] / speed, command["bytes"] / target["copy_bytes_per_second"])
            seconds += target["launch_seconds"] if command["bytes"] else 0
    return seconds


def fit_loops(loops):
    """The rates of memory and of arithmetic with the least sum of differences between the longer of the two and what was
    measured, among those that some kernel reaches."""
    points = [(c["flops"], c["bytes"], c["ms"] * 1e-3) for c in loops if c["ms"] > 0]
    memory = sorted({moved / seconds for _, moved, seconds in points})
    arithmetic = sorted({flops / seconds for flops, _, seconds in points if flops})

    def error(rates):
        return sum(abs(max(moved / rates[0], flops / rates[1]) - seconds) for flops, moved, seconds in points)

    return min(((a, b) for a in memory for b in arithmetic), key=error)


def calibrate(options):
    target = json.loads((options.folder / "target.json").read_text())
    backend = "cuda" if target["chip"] else "cpu"
    moved = seconds = 0.0
    launches, overheads, every = [], [], []
    for recipe, key in RATES.items():
        run, commands = measure(options.fp8_run, options.folder / f"{recipe}.fp8", backend, options.repeats)
        gemms = [c for c in commands if c["op"] == "gemm"]
        target[key] = sum(c["flops"] for c in gemms) / sum(c["ms"] for c in gemms) * 1e3
        loops = [c for c in commands if c["op"] == "launch" and c["bytes"] > LARGE]
        every += loops
        moved += sum(c["bytes"] for c in loops)
        seconds += sum(c["ms"] for c in loops) * 1e-3
        launches += [c["ms"] * 1e-3 for c in commands if c["op"] == "launch" and 0 < c["bytes"] < SMALL]
        overheads.append(run.get("device_overhead_bytes") or 0)
    if not seconds:
        sys.exit(f"error: expected loop kernels that move more than {LARGE:,} B in a time that can be measured, but got none: "
                 "prepare with more --tokens")
    target["copy_bytes_per_second"] = moved / seconds
    fitted = "the link, bf16 matmuls and f32 arithmetic as before"
    if backend == "cpu":
        target["copy_bytes_per_second"], target["flops_f32"] = fit_loops(every)
        run, _ = measure(options.fp8_run, options.folder / "ffn_tensorwise.fp8", backend, 1, bench=True)
        target["host_bytes_per_second"] = run["copy_bytes_per_s"] / 2
        fitted = "the link and bf16 matmuls as before"
    if launches:
        target["launch_seconds"] = statistics.median(launches)
    errors = []
    checks = {f"check{number}": "rowwise" for number in range(3)} | (EXAMPLES if backend == "cpu" else {})
    for name, recipe in checks.items():
        run, commands = measure(options.fp8_run, options.folder / f"{name}.fp8", backend, options.repeats)
        measured = statistics.median(run["step_ms"]) * 1e-3
        predicted = estimate(target, target[RATES[recipe]], commands)
        errors.append(predicted / measured - 1)
        overheads.append(run.get("device_overhead_bytes") or 0)
        print(f"{name}: measured {measured * 1e3:.3f} ms, predicted {predicted * 1e3:.3f} ms, {errors[-1]:+.1%}")
    for key in (*RATES.values(), "copy_bytes_per_second", "flops_f32", "launch_seconds", "host_bytes_per_second"):
        target[key] = None if target[key] is None else float(f"{target[key]:.4g}")
    target["model_error_pct"] = round(max(abs(error) for error in errors) * 100, 2)
    target["device_overhead_bytes"] = max(overheads)
    target["status"] = "measured"
    target["source"] = (f"bench/calibrate.py on {options.machine}, {datetime.date.today().isoformat()}, medians of "
                        f"{options.repeats}; {fitted}")
    options.out.write_text(json.dumps(target, indent=2) + "\n")
    print(options.out.read_text(), end="")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    prepare = commands.add_parser("prepare", help="compile what is measured")
    prepare.add_argument("folder", type=pathlib.Path)
    prepare.add_argument("--fp8-opt", default=ROOT / "build/bin/fp8-opt", type=pathlib.Path)
    prepare.add_argument("--target", default="h200", help="name or file")
    prepare.add_argument("--tokens", type=int, default=16384)
    prepare.add_argument("--dim", type=int, default=4096)
    prepare.add_argument("--ffn", type=int, default=14336)
    prepare.set_defaults(call=compile_artifacts)
    run = commands.add_parser("run", help="measure, and write the target")
    run.add_argument("folder", type=pathlib.Path)
    run.add_argument("--fp8-run", default=ROOT / "build/bin/fp8-run", type=pathlib.Path)
    run.add_argument("--machine", default="this machine")
    run.add_argument("--repeats", type=int, default=20)
    run.add_argument("--out", required=True, type=pathlib.Path)
    run.set_defaults(call=calibrate)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
