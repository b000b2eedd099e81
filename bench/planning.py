#!/usr/bin/env python3
# ===- planning.py - how long planning and small steps take ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Prints one table: the wall time of fp8-opt to `placed` on stacks of layers, and the step time of the small examples
# on the CPU, medians of n. The figures of docs/performance.md come from it.
#
# ===----------------------------------------------------------------------=== #
"""usage: bench/planning.py [--bin=build/bin] [--n=5] [--layers=1,4,8,32]"""

import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SMALL = ("llama3_ffn_small", "ffn_tensorwise", "ffn_delayed", "ffn_block128")


def median_seconds(command, n):
    times = []
    for _ in range(n):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin")
    parser.add_argument("--n", type=int, default=5)
    parser.add_argument("--layers", default="1,4,8,32")
    options = parser.parse_args()
    opt, run = options.bin / "fp8-opt", options.bin / "fp8-run"
    print(f"machine {platform.processor() or platform.machine()}, medians of {options.n}")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        print("\nplanning, Llama-3-8B feed-forward, target h200, policy auto, to placed")
        for layers in map(int, options.layers.split(",")):
            source = folder / f"ffn{layers}.mlir"
            with open(source, "w") as out:
                subprocess.run([sys.executable, ROOT / "examples/gen.py", f"--layers={layers}"], check=True, stdout=out)
            plan = folder / "plan.json"
            seconds = median_seconds([opt, source, "--compile=target=h200", "--emit=plan", "-o", plan], options.n)
            facts = json.loads(plan.read_text())
            print(f"  {layers:4} layers  {seconds:8.3f} s  {len(facts['timeline']):6} kernels  "
                  f"peak {facts['peak_bytes']:,} B")
        print("\nsteps on this CPU, one core, policy auto")
        for name in SMALL:
            output = folder / "run.json"
            subprocess.run([run, ROOT / f"examples/{name}.mlir", f"--steps={options.n + 1}", f"--json={output}"],
                           check=True, stdout=subprocess.DEVNULL)
            times = json.loads(output.read_text())["step_ms"]
            print(f"  {name:18} {statistics.median(times):9.2f} ms")


if __name__ == "__main__":
    main()
