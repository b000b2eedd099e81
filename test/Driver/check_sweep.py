#!/usr/bin/env python3
# ===- check_sweep.py - a sweep against plans at its budgets ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_sweep.py IN.mlir OUT.csv POINTS   OUT.csv and OUT.json were written by
#                                         fp8-opt IN.mlir --sweep=POINTS
#
# ===-----------------------------------------------------------------------=== #

import csv
import json
import subprocess
import sys

path, output, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(output, newline="") as file:
    rows = list(csv.DictReader(file))
with open(output[: -len("csv")] + "json") as file:
    points = json.load(file)["points"]
assert len(rows) == len(points) == count, f"expected {count} points, but got {len(rows)} and {len(points)}"
for row, point in zip(rows, points):
    for key, value in point.items():
        assert (row[key] == "") if value is None else abs(float(row[key]) - value) < 1e-3, f"{key}: {row} and {point}"

for index, point in enumerate(points):
    command = ["fp8-opt", path, f"--compile=budget={point['budget_bytes']}", "--emit=plan"]
    plan = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    for key, value in point.items():
        assert key == "budget_bytes" or plan[key] == value, f"{key}: the sweep says {value}, the plan {plan[key]}"
    assert point["peak_bytes"] <= point["budget_bytes"]
    assert point["gap_pct"] >= 0
    if index:
        assert point["peak_bytes"] <= points[index - 1]["peak_bytes"], "the peak rises as the budget falls"
        assert point["step_us"] >= points[index - 1]["step_us"], "the time falls as the budget falls"
assert points[-1]["budget_bytes"] == plan["min_feasible_peak_bytes"], "the last budget is not the smallest peak"
print("ok")
