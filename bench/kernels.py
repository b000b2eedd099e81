#!/usr/bin/env python3
# ===- kernels.py - achieved rates of the kernels of a step ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs an artifact on a GPU through fp8-run with --bench and a ledger, and prints a line for each kernel: its time, the
# bytes it must move, and their rate as a share of the copy rate measured in the same run; a matmul's line has its
# operations per second. Needs only Python and fp8-run.
#
# ===----------------------------------------------------------------------=== #
"""usage: bench/kernels.py ARTIFACT [--run=build/bin/fp8-run] [--steps=20] [--json=OUT] [FP8-RUN OPTIONS]"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def kernels_of(commands):
    """One entry a kernel: its fills and launches, which follow one another under one name, are summed."""
    kernels = []
    for command in commands:
        if command["op"] in ("alloc", "free"):
            continue
        key = (command["function"], command["name"], command["loc"])
        if not kernels or kernels[-1]["key"] != key:
            kernels.append({"key": key, "op": command["op"], "ms": 0.0, "bytes": 0, "flops": 0})
        kernel = kernels[-1]
        kernel["ms"] += command["ms"]
        kernel["flops"] += command["flops"]
        if command["op"] != "fill":
            kernel["op"] = command["op"]
            kernel["bytes"] += command["bytes"]
    return kernels


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("artifact")
    parser.add_argument("--run", type=pathlib.Path, default=ROOT / "build/bin/fp8-run")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", type=pathlib.Path)
    options, rest = parser.parse_known_args()

    with tempfile.TemporaryDirectory() as folder:
        results, ledger = pathlib.Path(folder, "results.json"), pathlib.Path(folder, "ledger.json")
        command = [options.run, options.artifact, "--backend=cuda", f"--steps={options.steps}", "--bench"]
        command += [f"--json={results}", f"--ledger={ledger}", *rest]
        if subprocess.run(command).returncode != 0:
            sys.exit("error: fp8-run failed")
        run = json.loads(results.read_text())
        kernels = kernels_of(json.loads(ledger.read_text())["commands"])

    copy = run["copy_bytes_per_s"]
    print(f"{'kernel':36} {'op':7} {'ms':>9} {'MiB':>10} {'TB/s':>7} {'of copy':>8} {'TFLOP/s':>8}  place")
    for kernel in kernels:
        seconds = kernel["ms"] * 1e-3
        rate = kernel["bytes"] / seconds if seconds else 0.0
        kernel["bytes_per_s"], kernel["share_of_copy"] = rate, rate / copy
        kernel["flops_per_s"] = kernel["flops"] / seconds if seconds else 0.0
        kernel["function"], kernel["name"], kernel["loc"] = kernel.pop("key")
        flops = f"{kernel['flops_per_s'] * 1e-12:8.0f}" if kernel["flops"] else " " * 8
        print(
            f"{kernel['name'][:36]:36} {kernel['op']:7} {kernel['ms']:9.4f} {kernel['bytes'] / 2**20:10.2f} "
            f"{rate * 1e-12:7.3f} {rate / copy:7.1%} {flops}  {kernel['loc']}"
        )
    step, gemms = statistics.median(run["step_ms"]), statistics.median(run["gemm_ms"])
    total = sum(kernel["ms"] for kernel in kernels)
    print(f"step {step:.3f} ms, commands one by one {total:.3f} ms, matmuls alone {gemms:.3f} ms, copy {copy * 1e-12:.3f} TB/s")
    if options.json:
        summary = {"step_ms": step, "gemm_ms": gemms, "copy_bytes_per_s": copy, "kernels": kernels}
        options.json.write_text(json.dumps(summary, indent=2) + "\n")


if __name__ == "__main__":
    main()
