#!/usr/bin/env python3
# ===- demo.py - what ./dev demo shows ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Plans the full-size Llama-3-8B feed-forward step under each policy and under falling budgets, says why each tensor
# is kept, then compiles and runs the small step of the same family and compares measured with planned.
#
# ===----------------------------------------------------=== #
"""Show the memory plans of examples/llama3_ffn.mlir and run examples/llama3_ffn_small.mlir on the CPU."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

POLICIES = ("save-all", "recompute-all", "op-list", "min-cut", "auto")
BUDGETS = 5
MIB = 1 << 20


class Failed(Exception):
    """A command that did not do what the demo needs; the text is for the reader."""


def run(command, needed=True):
    """Runs a command with its messages on our standard error."""
    code = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL).returncode
    if code and needed:
        raise Failed(f"exit code {code} from: {' '.join(str(part) for part in command)}")
    return code


def heading(text):
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


class Demo:
    def __init__(self, tools, examples, folder):
        self.opt, self.run_tool = tools / "fp8-opt", tools / "fp8-run"
        self.full, self.small = examples / "llama3_ffn.mlir", examples / "llama3_ffn_small.mlir"
        self.folder = folder

    def plan(self, policy, budget=None):
        output = self.folder / "plan.json"
        options = f"target=h200,policy={policy}" + (f",budget={budget}" if budget is not None else "")
        run([self.opt, self.full, f"--compile={options}", "--emit=plan", "-o", output])
        return json.loads(output.read_text())

    def row(self, name, plan, save_all):
        freed = save_all["peak_bytes"] - plan["peak_bytes"]
        values = (f"{plan['peak_bytes']:,}", f"{plan['saved_bytes'] / MIB:,.1f}", f"{freed / MIB:+,.1f}",
                  f"{plan['recompute_us'] / 1e3:.2f}", f"{plan['step_us'] / 1e3:.2f}")
        print(f"{name:<34}" + "".join(f"{value:>{width}}" for value, width in zip(values, (18, 14, 14, 14, 12))))

    def plans(self):
        heading("Llama-3-8B, four feed-forward layers, 16,384 tokens, FP8 rowwise: plans for one H200 (uncalibrated)")
        plans = {policy: self.plan(policy) for policy in POLICIES}
        columns = ("peak bytes", "saved MiB", "freed MiB", "recompute ms", "step ms")
        print(f"{'policy':<34}" + "".join(f"{c:>{w}}" for c, w in zip(columns, (18, 14, 14, 14, 12))))
        for policy in POLICIES:
            self.row(policy, plans[policy], plans["save-all"])
        lowest, highest = plans["auto"]["min_feasible_peak_bytes"], plans["auto"]["peak_bytes"]
        for step in range(BUDGETS):
            budget = highest - (highest - lowest) * (step + 1) // (BUDGETS + 1)
            self.row(f"auto, budget {budget:,}", self.plan("auto", budget), plans["save-all"])
        self.row("auto, the smallest feasible peak", self.plan("auto", lowest), plans["save-all"])
        print("freed: peak below that of save-all. Times are estimates from the target's data sheet rates.")

    def report(self):
        heading("What auto keeps, and why")
        run([self.opt, self.full, "--compile=target=h200,policy=auto", "--emit=report", "-o", "-"])

    def execute(self):
        heading("Four layers of the same family at 512 tokens, compiled and run on this CPU")
        output = self.folder / "run.json"
        code = run([self.run_tool, self.small, "--check", f"--json={output}"], needed=False)
        if not output.exists():
            raise Failed(f"fp8-run ended with exit code {code} and without a result")
        result = json.loads(output.read_text())
        planned, measured = result["planned_peak_bytes"], result["measured_peak_bytes"]
        print(f"\nplanned peak    {planned:>14,} bytes")
        print(f"measured peak   {measured:>14,} bytes")
        print(f"max_rel_error   {result['max_rel_error']:>14} against the reference interpreter")
        print(f"step            {min(result['step_ms']):>14.1f} ms")
        if code or planned != measured or result["max_rel_error"] != 0:
            raise Failed("the run differs from its plan or from the reference")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of fp8-opt and fp8-run")
    parser.add_argument("--examples", type=pathlib.Path, required=True, help="folder of the example programs")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="fp8-demo-") as folder:
            demo = Demo(options.bin, options.examples, pathlib.Path(folder))
            demo.plans()
            demo.report()
            demo.execute()
    except (Failed, OSError, ValueError, KeyError) as error:
        print(f"error: {type(error).__name__ + ': ' if not isinstance(error, Failed) else ''}{error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
