# RUN: %python %s %fp8_src_root
# REQUIRES: numpy, ml_dtypes
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Joint, planned and placed IR give the same bits under every policy, whole and in pieces of rows, state included."""

import os
import subprocess
import sys

ROOT = sys.argv[1]
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs")]
import reference  # noqa: E402

PLANNED = ["-fp8-form-kernels", "-fp8-schedule", "-fp8-insert-frees"]


def main():
    bad = False
    for recipe in ("delayed", "rowwise"):
        text = subprocess.run(
            [sys.executable, os.path.join(ROOT, "examples", "gen.py"), "--kind=ffn", "--layers=2", "--tokens=32",
             "--dim=32", "--ffn=48", f"--recipe={recipe}"], check=True, capture_output=True, text=True).stdout
        run = dict(seed=9, steps=2, microbatches=2)
        joint = reference.outputs(text, **run)
        for policy in ("save-all", "recompute-all", "op-list", "min-cut", "auto"):
            selected = reference.PASSES + [f"-fp8-select-saved=policy={policy}"]
            passes = selected + PLANNED
            in_pieces = selected + ["-fp8-split-rows=pieces=3"]
            for phase, outputs in (("planned", reference.outputs(text, passes, **run)),
                                   ("placed", reference.outputs(text, passes + ["-fp8-place"], **run)),
                                   ("in pieces", reference.outputs(text, in_pieces, **run)),
                                   ("in pieces, placed",
                                    reference.outputs(text, in_pieces + [*PLANNED, "-fp8-place"], **run))):
                different = [name for name in joint if outputs[name].tobytes() != joint[name].tobytes()]
                failed = different or list(outputs) != list(joint)
                bad |= bool(failed)
                print(f"{'error: ' if failed else ''}{recipe}, {policy}, {phase}: {len(different)} of {len(joint)} "
                      f"outputs differ {different}")
    sys.exit(bad)


main()
