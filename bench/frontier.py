#!/usr/bin/env python3
# ===- frontier.py - auto beside the partitioners of PyTorch ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs the test tool fp8-frontier and prints a table for each program: at some budgets, the fastest plan of each policy
# whose simulated peak fits. docs/frontier.md has its output. Fails where a plan of another policy is faster than all that
# `auto` has within its peak.
#
# ===------------------------------------------------------------------------=== #
"""usage: bench/frontier.py [--bin=build/bin] [--target=h200] [FILE.mlir ...]

Without files, the Llama-3-8B feed-forward of 4 and of 32 layers."""

import argparse
import collections
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = (4, 32)
ROWS = 8


def read_plans(tool, source, target):
    """{function: {policy: [(peak in bytes, microseconds, share)]}}"""
    plans = collections.OrderedDict()
    text = subprocess.run([tool, source, target], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        function, policy, share, peak, time = line.split(",")
        plans.setdefault(function, {}).setdefault(policy, []).append((int(peak), float(time), float(share)))
    return plans


def fastest(plans, budget):
    """The shortest step of the plans within a budget; None where none fits."""
    return min((time for peak, time, _ in plans if peak <= budget), default=None)


def count_worse(plans):
    """How many plans of other policies are faster than all that `auto` has within their peak."""
    worse = 0
    for policy, others in plans.items():
        for peak, time, _ in others if policy != "auto" else ():
            own = fastest(plans["auto"], peak)
            worse += own is None or own > time * (1 + 1e-9)
    return worse


def print_table(name, plans):
    auto = sorted(plans["auto"])
    low, high = auto[0][0], max(auto[-1][0], plans["min-cut"][0][0])
    print(f"\n{name}\n\n| budget MiB | auto ms | memory budget ms | min-cut ms |\n|---|---|---|---|")
    for row in range(ROWS):
        budget = high - (high - low) * row // (ROWS - 1)
        cells = [fastest(plans[policy], budget) for policy in ("auto", "knapsack", "min-cut")]
        texts = ["-" if time is None else f"{time / 1000:.2f}" for time in cells]
        print(f"| {budget / 2**20:,.0f} | {' | '.join(texts)} |")
    smallest = min(plans["knapsack"])
    print(f"\nSmallest peaks: auto {low / 2**20:,.0f} MiB in {auto[0][1] / 1000:.2f} ms, memory budget "
          f"{smallest[0] / 2**20:,.0f} MiB in {smallest[1] / 1000:.2f} ms.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found = shutil.which("fp8-frontier")
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path(found).parent if found else ROOT / "build/bin")
    parser.add_argument("--target", default="h200")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    worse = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        files = {str(file.name): file for file in options.files}
        for layers in () if files else LAYERS:
            source = pathlib.Path(folder) / f"ffn{layers}.mlir"
            source.write_text(subprocess.run([sys.executable, ROOT / "examples/gen.py", f"--layers={layers}"],
                                             check=True, capture_output=True, text=True).stdout)
            files[f"Llama-3-8B feed-forward, {layers} layers"] = source
        for name, source in files.items():
            for function, plans in read_plans(options.bin / "fp8-frontier", source, options.target).items():
                if options.files:
                    name = f"{source.name}, @{function}"
                print_table(name, plans)
                worse += count_worse(plans)
                compared += sum(len(others) for policy, others in plans.items() if policy != "auto")
    print(f"\n{compared} plans of other policies, {worse} that auto is worse than")
    return worse != 0


if __name__ == "__main__":
    sys.exit(main())
