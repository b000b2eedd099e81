#!/usr/bin/env python3
# ===- budgets.py - peaks under falling budgets -------------------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# budgets.py IN.mlir COUNT: plans with COUNT budgets from the peak of a plan
# without one down to the smallest feasible peak, and with one byte less.
#
# ===------------------------------------------------------------------------=== #

import json
import subprocess
import sys


def plan(options):
    command = ["fp8-opt", sys.argv[1], f"--compile=policy=auto{options}", "--emit=plan", "-o", "-"]
    return subprocess.run(command, capture_output=True, text=True)


def main():
    free = json.loads(plan("").stdout)
    high, low, count = free["peak_bytes"], free["min_feasible_peak_bytes"], int(sys.argv[2])
    last_peak = high
    for step in range(count):
        budget = high - (high - low) * step // (count - 1)
        run = plan(f",budget={budget}")
        if run.returncode:
            sys.exit(f"budget {budget}: {run.stderr[:500]}")
        result = json.loads(run.stdout)
        if result["peak_bytes"] > min(budget, last_peak):
            sys.exit(f"budget {budget}: peak {result['peak_bytes']} after {last_peak}")
        last_peak = result["peak_bytes"]
    run = plan(f",budget={low - 1}")
    if run.returncode != 1 or "error:" not in run.stderr or str(low) not in run.stderr:
        sys.exit(f"budget {low - 1}: expected an error that names {low}, but got {run.returncode}: {run.stderr[:500]}")


main()
