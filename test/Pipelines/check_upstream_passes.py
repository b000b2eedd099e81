# ===- check_upstream_passes.py - plans against upstream clean-ups ----------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# -cse -canonicalize -loop-invariant-code-motion leave the plan of a step as it
# is, byte by byte: run on what fp8-select-saved leaves (clones behind
# barriers), on planned IR, and on placed IR. The plan of IR that continues
# from a file is also that of a single run.
#
# usage: check_upstream_passes.py TARGET POLICY FILE...
#
# ===------------------------------------------------------------------------=== #

import subprocess
import sys

CLEAN = "cse,canonicalize,loop-invariant-code-motion"


def run(arguments, text=None):
    done = subprocess.run(["fp8-opt", *arguments], input=text, capture_output=True)
    if done.returncode:
        sys.exit(f"fp8-opt {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr.decode()}")
    return done.stdout


def pipeline(passes):
    return [f"--pass-pipeline=builtin.module({passes})", "--mlir-print-debuginfo"]


def main():
    target, policy, *paths = sys.argv[1:]
    selection = (f"fp8-set-target{{target={target}}},fp8-build-backward,fp8-expand-recipes,fp8-cast-before-gather,"
                 f"fp8-legalize-layouts,fp8-select-saved{{policy={policy}}}")
    forming = "fp8-split-rows,fp8-form-kernels,fp8-schedule,fp8-overlap,fp8-insert-frees,fp8-reserve-workspace"
    failures = 0
    for path in paths:
        plan = run([path, f"--compile=target={target},policy={policy}", "--emit=plan"])
        selected = run([path, *pipeline(selection)])
        planned = run(["-", *pipeline(forming)], selected)
        placed = run(["-", *pipeline("fp8-place")], planned)
        for name, text in {
            "planned": planned,
            "placed": placed,
            "selected, cleaned": run(["-", *pipeline(f"{CLEAN},{forming}")], selected),
            "planned, cleaned": run(["-", *pipeline(CLEAN)], planned),
            "planned, cleaned, placed": run(["-", *pipeline(f"{CLEAN},fp8-place")], planned),
            "placed, cleaned": run(["-", *pipeline(CLEAN)], placed),
        }.items():
            if run(["-", "--compile", "--emit=plan"], text) != plan:
                print(f"{path}, {policy}: the plan of '{name}' is another")
                failures += 1
    print("different plans:", failures)
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
