# RUN: %python %s
# REQUIRES: numpy, ml_dtypes
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Accuracy and special values of the elementary functions, as docs/numerics.md states them."""

import math
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import interpret  # noqa: E402
from interpret import finish, run  # noqa: E402

# The largest error stated, in ulp of the f32 result.
FUNCTIONS = {
    "math.exp": (np.exp, 0.90),
    "math.log": (np.log, 0.85),
    "math.tanh": (np.tanh, 1.34),
    "math.erf": (np.vectorize(math.erf, otypes=[np.float64]), 1.34),
    "math.sqrt": (np.sqrt, 0.5),
    "math.rsqrt": (lambda x: 1 / np.sqrt(x), 1.5),
}
# Below, exp gives zero instead of a result near the subnormal range.
EXP_FLUSHES = np.float32(float.fromhex("-0x1.5bf5bap+6"))
SPECIALS = {
    "math.exp": [(np.inf, np.inf), (-np.inf, 0.0), (0.0, 1.0), (88.72283, 3.4027985e38), (88.72284, np.inf),
                 (float.fromhex("-0x1.5bf5bcp+6"), 0.0), (-104.0, 0.0)],
    "math.log": [(np.inf, np.inf), (-np.inf, np.nan), (0.0, -np.inf), (-0.0, -np.inf), (1.0, 0.0), (-1.0, np.nan)],
    "math.tanh": [(np.inf, 1.0), (-np.inf, -1.0), (0.0, 0.0), (-0.0, -0.0), (1e-45, 1e-45)],
    "math.erf": [(np.inf, 1.0), (-np.inf, -1.0), (0.0, 0.0), (-0.0, -0.0)],
    "math.sqrt": [(np.inf, np.inf), (-np.inf, np.nan), (0.0, 0.0), (-0.0, -0.0), (-1.0, np.nan)],
    "math.rsqrt": [(np.inf, 0.0), (0.0, np.inf), (-0.0, -np.inf), (-1.0, np.nan), (4.0, 0.5)],
}


def apply(op, x):
    count = len(x)
    (y,) = run(
        f"func.func @f(%x: tensor<{count}xf32>) -> tensor<{count}xf32> {{\n"
        f"  %y = {op} %x : tensor<{count}xf32>\n"
        f"  return %y : tensor<{count}xf32>\n}}", [x], [(np.float32, [count])])
    return y


def main():
    generator = np.random.default_rng(3)
    x = np.concatenate([
        generator.integers(0, 2**32, 400_000, dtype=np.uint32).view(np.float32),
        generator.uniform(-105, 90, 200_000).astype(np.float32),
        generator.uniform(-5, 5, 200_000).astype(np.float32)])
    for op, (exact, bound) in FUNCTIONS.items():
        y = apply(op, x)
        with np.errstate(all="ignore"):
            reference = exact(x.astype(np.float64))
            if op == "math.exp":
                reference = np.where(x < EXP_FLUSHES, 0.0, reference)
            rounded = reference.astype(np.float32)
            is_nan = np.isnan(reference)
            ordinary = np.isfinite(rounded) & np.isfinite(y)
            ulp = np.maximum(np.exp2(np.floor(np.log2(np.abs(reference))) - 23), 2.0**-149)
            error = (np.abs(y.astype(np.float64) - reference) / ulp)[ordinary & (reference != 0)].max()
            canonical = np.isnan(y) if op == "math.exp" else y.view(np.uint32) == 0x7FC00000
            wrong = (is_nan & ~canonical) | (~is_nan & ~ordinary & (y != rounded))
        good = error <= bound and not wrong.any()
        if not good:
            interpret.failures += 1
        print(f"{'' if good else 'error: '}{op}: largest error {error:.3f} ulp (stated {bound}), "
              f"{int(wrong.sum())} wrong special values")
        inputs = np.array([x for x, _ in SPECIALS[op]] + [np.nan], np.float32)
        values = np.array([y for _, y in SPECIALS[op]] + [np.nan], np.float32)
        values[np.isnan(values)] = np.uint32(0x7FC00000).view(np.float32)
        interpret.check(f"{op}, special values", apply(op, inputs), values, nan_bits=True)
    finish()


main()
