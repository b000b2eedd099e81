# ===- inputs.py - inputs from a seed, outputs from a run ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The input rule of docs/artifact.md, "Inputs", and a reader of what `fp8-run --dump-outputs` writes.
#
# ===----------------------------------------------------------------------=== #
"""Arguments of a test run by name and seed, and its outputs as arrays."""

import json
import math
import pathlib

import ml_dtypes
import numpy as np

DTYPES = {
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "i8": np.uint8,
}

# The reciprocal of the deviation of a sum of four 16-bit uniforms, as f32.
UNIT = np.float32(float.fromhex("0x1.bb67aep-16"))
MASK = (1 << 64) - 1


def _mix(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def _mix_array(x: np.ndarray) -> np.ndarray:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def make_input(name: str, shape, element: str, seed: int, scale: float = 1.0, step: int = 0,
               microbatch: int = 0) -> np.ndarray:
    """The argument `name` of a run, as f32 values that are exact in `element` (bf16 or f32). For a parameter or state
    leave `step` and `microbatch` at 0, since those do not change."""
    digest = 0xCBF29CE484222325
    for byte in name.encode():
        digest = ((digest ^ byte) * 0x100000001B3) & MASK
    key = _mix(digest)
    for number in (seed, step, microbatch):
        key = _mix(key ^ number)
    count = math.prod(shape)
    with np.errstate(over="ignore"):
        bits = _mix_array(np.uint64(key) + np.arange(count, dtype=np.uint64) * np.uint64(0xD1342543DE82EF95))
    total = np.zeros(count, dtype=np.int64)
    for part in range(4):
        total += ((bits >> np.uint64(16 * part)) & np.uint64(0xFFFF)).astype(np.int64)
    values = (total - 131070).astype(np.float32) * UNIT * np.float32(scale)
    return values.astype(DTYPES[element]).astype(np.float32).reshape(shape)


def read_outputs(folder) -> dict:
    """The outputs of a run in their order, name to f32 array."""
    folder = pathlib.Path(folder)
    index = json.loads((folder / "index.json").read_text())
    entries = index["outputs"] if isinstance(index, dict) else index
    outputs = {}
    for entry in entries:
        data = np.fromfile(folder / entry["file"], dtype=DTYPES[entry["dtype"]])
        outputs[entry["name"]] = data.astype(np.float32).reshape(entry["shape"])
    return outputs
