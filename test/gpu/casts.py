# ===- casts.py - Casts on a GPU beside the CPU backend ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: casts.py CPU.fp8 GPU.fp8
#
# Runs casts.mlir, compiled for each, on the same bits: 64 million random ones as f32 and as bf16, every bf16 value, and
# the f32 values halfway between neighbours of both FP8 types with the values beside them, under scales from a subnormal to
# the largest. Needs libfp8rt.so (FP8RT_LIBRARY), NumPy and torch.
#
# ===----------------------------------------------------------=== #
"""Prints how many values were cast, and exits with 1 where a bit differs."""

import pathlib
import sys

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from fp8opt.arrays import run_torch  # noqa: E402
from fp8opt.runtime import Program  # noqa: E402

SHAPE = (2048, 4096)
COUNT = SHAPE[0] * SHAPE[1]
# 1, powers of two, what amax / 448 gives, and the extremes.
SCALES = [1.0, 2.0**-7, 448 / 3.7, 1.5e-39, 3.0e38, 2.0**-126, 0.3333333, 57344.0]


def special_bits():
    """f32 bits: every sum of two neighbouring FP8 values halved, with three values on each side, both signs, and all
    exponents with their first and last fractions."""
    codes = np.arange(256, dtype=np.uint8)
    found = []
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        values = torch.from_numpy(codes).view(dtype).to(torch.float32).numpy()
        values = np.unique(values[np.isfinite(values)].astype(np.float64))
        middles = np.concatenate([values, (values[:-1] + values[1:]) / 2, [464.0, -464.0, 61440.0, -61440.0]])
        found.append(middles.astype(np.float32).view(np.uint32))
    ends = np.arange(512, dtype=np.uint32) << np.uint32(23)
    found += [ends, ends | np.uint32(0x7FFFFF), ends | np.uint32(1)]
    bits = np.concatenate(found)
    return np.concatenate([bits + np.uint32(step) for step in (0, 1, 2, 3)] + [bits - np.uint32(step) for step in (1, 2, 3)])


def main():
    cpu, gpu = Program(sys.argv[1], "cpu").functions["casts"], Program(sys.argv[2], "cuda").functions["casts"]
    random = np.random.default_rng(0)
    different = 0
    for number, scale in enumerate(SCALES):
        wide = random.integers(0, 2**32, COUNT, dtype=np.uint32)
        narrow = random.integers(0, 2**16, COUNT, dtype=np.uint16)
        narrow[:2**16] = np.arange(2**16)
        special = special_bits()
        # The midpoints themselves, whatever the scale: halfway after the multiplication where it is exact.
        wide[:special.size] = special
        with np.errstate(all="ignore"):
            divided = (special.view(np.float32).astype(np.float64) / scale).astype(np.float32).view(np.uint32)
        wide[special.size:2 * special.size] = divided
        arguments = {"x": torch.from_numpy(wide.view(np.float32).reshape(SHAPE)),
                     "b": torch.from_numpy(narrow.view(np.int16).reshape(SHAPE)).view(torch.bfloat16),
                     "s": torch.full((1, 1), scale, dtype=torch.float32)}
        expected = run_torch(cpu, arguments)
        found = run_torch(gpu, {name: value.cuda() for name, value in arguments.items()})
        torch.cuda.synchronize()
        for (name, want), have in zip(expected.items(), found.values()):
            differs = (want.view(torch.uint8) != have.cpu().view(torch.uint8)).sum().item()
            if differs:
                print(f"scale {scale}, {name}: {differs} of {COUNT} differ")
            different += differs
    print(f"{COUNT * len(SCALES):,} f32 and as many bf16 values cast to both types, "
          f"{len(SCALES)} scales: {different} bits differ from the CPU")
    sys.exit(different != 0)


if __name__ == "__main__":
    main()
