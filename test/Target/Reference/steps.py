# RUN: %python %s %fp8_src_root
# REQUIRES: numpy, ml_dtypes
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of the examples' family, differentiated, expanded and interpreted, against the same step written by hand in
NumPy (python/fp8opt/testing), for each recipe; with delayed scaling over three steps of two microbatches, and its state.

The 2-norm of the difference, relative, stays below 1e-3. Products are summed in another order there and exp is another
one, so a value that lies at a rounding border of bf16 or FP8 may fall to the other side; few do, and with the seed used
here the largest difference is 2.5e-5. A wrong scale, format, axis or gradient term moves an output by 2e-2 or more, the
roundings of FP8 themselves being 2^-4."""

import os
import subprocess
import sys

ROOT = sys.argv[1]
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs")]
import reference  # noqa: E402
from fp8opt.testing.ffn import FfnStep  # noqa: E402

TOLERANCE = 1e-3


def main():
    bad = False
    for recipe in ("tensorwise", "rowwise", "block128", "delayed"):
        sizes = dict(layers=2, tokens=128, dim=128, ffn=256)
        steps, microbatches = (3, 2) if recipe == "delayed" else (1, 1)
        text = subprocess.run(
            [sys.executable, os.path.join(ROOT, "examples", "gen.py"), "--kind=ffn", f"--recipe={recipe}",
             *(f"--{name}={value}" for name, value in sizes.items())], check=True, capture_output=True, text=True).stdout
        actual = reference.outputs(text, seed=5, steps=steps, microbatches=microbatches)

        model = FfnStep(*sizes.values(), recipe, seed=5)
        for step in range(steps):
            for microbatch in range(microbatches):
                results = model.run(step, microbatch)
            model.end_of_step()
        expected = dict(zip(["layers.1.out", "d_x", *("d_" + name for name in model.weights)], results))
        expected.update(("state:" + name, value) for name, value in model.state_outputs())
        bad |= not reference.equal(recipe, actual, expected, TOLERANCE)
    sys.exit(bad)


main()
