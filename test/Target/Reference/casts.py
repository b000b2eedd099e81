# RUN: %python %s
# REQUIRES: numpy, ml_dtypes
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Casts of the reference against ml_dtypes: every code decoded, and over four million inputs encoded."""

import os
import sys

import ml_dtypes
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import interpret  # noqa: E402
from interpret import check, finish, run, tensor  # noqa: E402

FORMATS = {"f8E4M3FN": (ml_dtypes.float8_e4m3fn, 448.0), "f8E5M2": (ml_dtypes.float8_e5m2, 57344.0)}


def inputs_for(dtype):
    """All values and midpoints with their neighbours, the borders, and random bit patterns."""
    codes = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    finite = np.unique(codes[np.isfinite(codes)].astype(np.float64))
    middles = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2, [464, -464, 480, -480, 61440, -61440, 65536]])
    exact = middles.astype(np.float32)
    near = [exact]
    for direction in (np.inf, -np.inf):
        step = exact
        for _ in range(3):
            step = np.nextafter(step, np.float32(direction))
            near.append(step)
    special = np.array([0.0, -0.0, np.inf, -np.inf, 3.4028235e38, -3.4028235e38, 1e-45, -1e-45, 1.1754942e-38],
                       dtype=np.float32)
    nans = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32)
    generator = np.random.default_rng(7)
    any_bits = generator.integers(0, 2**32, 1 << 21, dtype=np.uint32).view(np.float32)
    # In the format's own range, where the roundings are.
    exponents = generator.uniform(-20, 18, 1 << 21)
    inside = (np.exp2(exponents) * generator.choice([-1, 1], 1 << 21)).astype(np.float32)
    return np.concatenate(near + [special, nans, any_bits, inside])


def main():
    for name, (dtype, largest) in FORMATS.items():
        codes = np.arange(256, dtype=np.uint8).view(dtype)
        q = tensor(dtype, [256], [0])
        (decoded,) = run(
            f"func.func @f(%q: {q}, %s: tensor<1xf32>) -> tensor<256xf32> {{\n"
            f"  %x = fp8.dequantize %q, %s : {q}, tensor<1xf32> -> tensor<256xf32>\n"
            "  return %x : tensor<256xf32>\n}",
            [codes, np.ones(1, np.float32)], [(np.float32, [256])])
        check(f"{name} decoded", decoded, codes.astype(np.float32))

        x = inputs_for(dtype)
        count = len(x)
        assert count >= 4_000_000
        q = tensor(dtype, [count], [0])
        text = (f"func.func @f(%x: tensor<{count}xf32>, %s: tensor<1xf32>) -> ({q}, {q}) {{\n"
                f"  %a = fp8.cast %x, %s : tensor<{count}xf32>, tensor<1xf32> -> {q}\n"
                f"  %b = fp8.cast %x, %s {{saturate = false}} : tensor<{count}xf32>, tensor<1xf32> -> {q}\n"
                f"  return %a, %b : {q}, {q}\n}}")
        for scale in (1.0, 0.37):
            saturated, open_ended = run(text, [x, np.array([scale], np.float32)], [(dtype, [count])] * 2)
            with np.errstate(all="ignore"):
                product = x * np.float32(scale)
                clamped = np.clip(product, -largest, largest).astype(dtype).view(np.uint8)
                clamped[np.isnan(product)] = 0x7F
                free = product.astype(dtype)
                free = np.where(np.isnan(free.astype(np.float32)), np.uint8(0x7F), free.view(np.uint8))
            check(f"{name} encoded, scale {scale}", saturated.view(np.uint8), clamped, nan_bits=True)
            check(f"{name} not saturated, scale {scale}", open_ended.view(np.uint8), free, nan_bits=True)

    x = inputs_for(ml_dtypes.bfloat16)
    count = len(x)
    (narrow,) = run(
        f"func.func @f(%x: tensor<{count}xf32>) -> tensor<{count}xbf16> {{\n"
        f"  %y = arith.truncf %x : tensor<{count}xf32> to tensor<{count}xbf16>\n"
        f"  return %y : tensor<{count}xbf16>\n}}", [x], [(ml_dtypes.bfloat16, [count])])
    with np.errstate(all="ignore"):
        check("bf16 rounded", narrow, x.astype(ml_dtypes.bfloat16))
    finish()


main()
