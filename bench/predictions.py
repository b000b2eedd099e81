#!/usr/bin/env python3
# ===- predictions.py - predicted step times beside measured ones ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: predictions.py RESULTS.json... [--fp8-opt PATH] [--target h200] [--planned-for OLD.json]
#
# RESULTS are what compare_torch.py wrote about artifacts of examples/llama3_ffn.mlir, which must be named as in PLANS. Each
# is planned again, with the rates of --planned-for (those that the artifact was compiled with) and then priced with those of
# --target. Where the plan has another peak than the one that ran, or keeps other bytes, nothing is compared: the planner has
# changed since, so take the one of that day (an older commit, whose fp8-opt reads the same target files).
#
# ===-----------------------------------------------------------------------------=== #
"""Says how far the estimates of steps are from what was measured of the same plans."""

import argparse
import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
PLANS = {"auto": "", "budget4192": ",budget=4192MiB", "budget3300": ",budget=3300MiB", "smallest": ",budget=",
         "microbatches4": ",microbatches=4", **{name: f",policy={name}" for name in ("save-all", "op-list", "recompute-all")}}


class Planner:
    def __init__(self, options):
        self.options, self.known = options, {}

    def opt(self, program, *arguments):
        return subprocess.run([self.options.fp8_opt, "-", *arguments], input=program, check=True, capture_output=True,
                              text=True).stdout

    def get(self, name):
        """Seconds of a step, and peak and kept bytes of its plan."""
        if name not in self.known:
            program = (ROOT / "examples/llama3_ffn.mlir").read_text()
            compiled = f"--compile=target={self.options.planned_for or self.options.target}{PLANS[name]}"
            if name == "smallest":
                fastest = self.opt(program, compiled.removesuffix(PLANS[name]), "--emit=plan")
                compiled += str(json.loads(fastest)["min_feasible_peak_bytes"])
            planned = self.opt(program, compiled, "--compile-to=planned", "--mlir-print-debuginfo")
            priced = re.sub(r'fp8\.target = "[^"]*"', f'fp8.target = "{self.options.target}"', planned)
            plan = json.loads(self.opt(priced, "--compile", "--emit=plan"))
            steps = {entry["function"]: entry["step_us"] * 1e-6 for entry in plan["functions"]}
            accumulate = [name for name in steps if name.endswith(".accumulate")]
            # The first of four microbatches does not add to what was there.
            seconds = sum(steps.values()) + sum(2 * steps[name] for name in accumulate)
            self.known[name] = seconds, plan["peak_bytes"], plan["saved_bytes"]
        return self.known[name]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=pathlib.Path, nargs="+")
    parser.add_argument("--fp8-opt", default=ROOT / "build/bin/fp8-opt", type=pathlib.Path)
    parser.add_argument("--target", default="h200", help="name or file")
    parser.add_argument("--planned-for", help="name or file; the target where it is not given")
    planner = Planner(parser.parse_args())
    errors = []
    for path in planner.options.results:
        rows = json.loads(path.read_text())
        for row in [row for key in ("ours_before", "ours", "ours_after") for row in rows.get(key, [])]:
            if row.get("streams", 1) != 1:
                continue
            seconds, peak, saved = planner.get(row["name"])
            if (peak, saved) != (row["planned_peak_bytes"], row["saved_bytes"]):
                print(f"{path.name}: {row['name']}: another plan ran, with a peak of {row['planned_peak_bytes']} B, now {peak}")
                continue
            errors.append(seconds * 1e3 / row["ms"] - 1)
            print(f"{path.name}: {row['name']}: predicted {seconds * 1e3:.1f} ms, measured {row['ms']:.1f}, {errors[-1]:+.1%}")
    if errors:
        print(f"largest error of {len(errors)}: {max(errors, key=abs):+.1%}")


if __name__ == "__main__":
    main()
