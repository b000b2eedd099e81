# RUN: %python %s
# REQUIRES: numpy, ml_dtypes, full-speed
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The interpreter's matmul does at least 2 GFLOP/s, or references of the small examples would take minutes. Processor
time of the whole process, starting and reading the inputs included; the best of three."""

import os
import resource
import sys

import ml_dtypes
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from interpret import run, tensor  # noqa: E402

M, N, K = 512, 1792, 512
LEAST = 2e9


def seconds(text, arrays):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(text, arrays, [(ml_dtypes.bfloat16, (M, N))])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main():
    rng = np.random.default_rng(0)
    bad = False
    for name, a_group, b_group in [("per tensor", (0, 0), (0, 0)), ("1x128 by 128x128", (1, 128), (128, 128))]:
        a, b = (rng.standard_normal(shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((M, K), (K, N)))
        scales = [np.ones([-(-size // part) if part else 1 for size, part in zip(array.shape, group)], np.float32)
                  for array, group in ((a, a_group), (b, b_group))]
        ta, tb = tensor(a.dtype, a.shape, a_group), tensor(b.dtype, b.shape, b_group)
        tsa, tsb = (tensor(scale.dtype, scale.shape) for scale in scales)
        ty = tensor(ml_dtypes.bfloat16, (M, N))
        text = (f"func.func @f(%a: {ta}, %b: {tb}, %s: {tsa}, %t: {tsb}) -> {ty} {{\n"
                f"  %y = fp8.matmul %a, %b scales(%s, %t : {tsa}, {tsb}) : {ta}, {tb} -> {ty}\n  return %y : {ty}\n}}")
        rate = 2 * M * N * K / min(seconds(text, [a, b, *scales]) for _ in range(3))
        bad |= rate < LEAST
        print(f"{'error: ' if rate < LEAST else ''}{name}: {rate / 1e9:.1f} GFLOP/s")
    sys.exit(bad)


main()
