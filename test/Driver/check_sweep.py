#!/usr/bin/env python3
# ===- check_sweep.py - a sweep against plans at its budgets ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_sweep.py IN.mlir OUT.csv POINTS [OPTIONS]   OUT.csv and OUT.json were written by
#                                                   fp8-opt IN.mlir --compile=OPTIONS --sweep=POINTS
#
# ===-----------------------------------------------------------------------=== #

import csv
import json
import subprocess
import sys

path, output, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
options = sys.argv[4].split(",") if len(sys.argv) > 4 else []
microbatches = next((int(option.split("=")[1]) for option in options if option.startswith("microbatches=")), 1)


def of_one_step(plan):
    """What a plan of all functions says of a step, with the keys of a point."""
    functions = plan["functions"]
    kept = [sum(s["bytes"] for s in f["segments"] if s["name"] == "step") for f in functions]
    runs = [microbatches - 1 if f["function"].endswith(".accumulate") else 1 for f in functions]
    point = {key: sum(f[key] * n for f, n in zip(functions, runs))
             for key in ("step_us", "recompute_us", "step_lower_bound_us")}
    return {
        "peak_bytes": max(f["peak_bytes"] + k for f, k in zip(functions, kept)),
        "arena_bytes": max(f["arena_bytes"] for f in functions),
        "host_bytes": max(f["host_bytes"] for f in functions),
        "step_us": point["step_us"],
        "recompute_us": point["recompute_us"],
        "gap_pct": plan["gap_pct"] if len(functions) == 1 else 100 * (point["step_us"] / point["step_lower_bound_us"] - 1),
        "smallest": max(f["min_feasible_peak_bytes"] for f in functions),
    }


with open(output, newline="") as file:
    rows = list(csv.DictReader(file))
with open(output[: -len("csv")] + "json") as file:
    sweep = json.load(file)
points = sweep["points"]
assert len(rows) == len(points) == count, f"expected {count} points, but got {len(rows)} and {len(points)}"
for row, point in zip(rows, points):
    for key, value in point.items():
        assert (row[key] == "") if value is None else abs(float(row[key]) - value) < 1e-3, f"{key}: {row} and {point}"

for index, point in enumerate(points):
    chosen = ",".join([*options, f"budget={point['budget_bytes']}"])
    command = ["fp8-opt", path, f"--compile={chosen}", "--emit=plan"]
    plan = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    for key in ("target", "target_calibrated", "model_error_pct"):
        assert sweep[key] == plan[key], f"{key}: {sweep[key]}, but the plan says {plan[key]}"
    plan = of_one_step(plan)
    for key, value in point.items():
        assert key == "budget_bytes" or abs(plan[key] - value) <= 1e-9 * value, f"{key}: {value}, but the plan says {plan[key]}"
    assert point["peak_bytes"] <= point["budget_bytes"]
    assert point["gap_pct"] >= 0
    if index:
        assert point["peak_bytes"] <= points[index - 1]["peak_bytes"], "the peak rises as the budget falls"
        assert point["step_us"] >= points[index - 1]["step_us"], "the time falls as the budget falls"
assert points[-1]["budget_bytes"] == plan["smallest"], "the last budget is not the smallest peak"
print("ok")
