# ===- check_offload.py - plans with host memory against those without -------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# For each program of a folder: host memory never makes a plan slower or its
# smallest peak higher, a budget is kept, and what runs has the bits of the
# reference and the planned peak, in both memory modes.
#
# usage: check_offload.py FOLDER TARGET.json OFFLOADED
# Fails where fewer than OFFLOADED values are offloaded in all.
#
# ===------------------------------------------------------------------------=== #

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import plan_runs


def run(path, **options):
    """The step as it runs, against the reference."""
    joined = ",".join(f"{key.replace('_', '-')}={value}" for key, value in options.items())
    with tempfile.TemporaryDirectory() as folder:
        artifact, reference = pathlib.Path(folder, "step.fp8"), pathlib.Path(folder, "step.ref")
        plan_runs.run_text([path, f"--compile={joined}", "--emit=artifact", "-o", str(artifact)])
        plan_runs.run_text([path, "--emit=reference", "-o", str(reference)])
        for memory in ("planned", "dynamic"):
            done = subprocess.run(["fp8-run", artifact, f"--memory={memory}", f"--check={reference}"], capture_output=True,
                                  text=True)
            assert done.returncode == 0, f"{path}, {joined}: {done.stdout}{done.stderr}"
            assert "equal to the reference bit for bit" in done.stdout, done.stdout
            assert "B, equal\n" in done.stdout, done.stdout


def check(path, target):
    alone, granted = {"target": target}, {"target": target, "host_memory": "1GiB"}
    most = plan_runs.make_plan(path, **alone)
    low = most["min_feasible_peak_bytes"]
    lowest = plan_runs.make_plan(path, **granted)["min_feasible_peak_bytes"]
    assert lowest <= low, f"{path}: the smallest peak rises from {low} to {lowest} with host memory"
    offloaded = 0
    for budget in (lowest, (lowest + low) // 2, (low + most["peak_bytes"]) // 2, most["peak_bytes"]):
        plan = plan_runs.make_plan(path, **granted, budget=budget)
        assert plan["peak_bytes"] <= budget, f"{path}: a peak of {plan['peak_bytes']} at a budget of {budget}"
        assert budget > lowest or plan["peak_bytes"] == lowest, f"{path}: {plan['peak_bytes']}, not {lowest}"
        if budget >= low:
            other = plan_runs.make_plan(path, **alone, budget=budget)
            assert plan["step_us"] <= other["step_us"] * (1 + 1e-9), f"{path}: slower with host memory at {budget}"
        assert plan["gap_pct"] is None or plan["gap_pct"] >= 0, f"{path}: below the bound at {budget}"
        if plan["offloaded"]:
            run(path, **granted, budget=budget)
        offloaded += len(plan["offloaded"])
    return offloaded


def main():
    folder, target, expected = sys.argv[1:]
    paths = sorted(str(path) for path in pathlib.Path(folder).glob("*.mlir"))
    assert paths, f"no .mlir file in '{folder}'"
    offloaded = sum(check(path, target) for path in paths)
    print(f"{len(paths)} programs, {offloaded} values offloaded")
    sys.exit(offloaded < int(expected))


if __name__ == "__main__":
    main()
