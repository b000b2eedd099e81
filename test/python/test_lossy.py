# ===- test_lossy.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Gradients through lossy forms, against NumPy and ml_dtypes.
#
# ===------------------------------=== #
"""Backward of a cube reads its base through a cast; forward does not."""

import subprocess

import ml_dtypes
import numpy as np
import pytest

from fp8opt.testing.inputs import make_input, read_outputs
from fp8opt.testing.numerics import bf16, cast, group_max, scale_te

ROWS, COLUMNS = 24, 200
PROGRAM = f"""
func.func @cube(%x: tensor<{ROWS}x{COLUMNS}xbf16> loc("x")) -> tensor<{ROWS}x{COLUMNS}xbf16> {{
  %g = arith.addf %x, %x : tensor<{ROWS}x{COLUMNS}xbf16> loc("g")
  %s = arith.mulf %g, %g : tensor<{ROWS}x{COLUMNS}xbf16> loc("square")
  %y = arith.mulf %s, %g : tensor<{ROWS}x{COLUMNS}xbf16> loc("y")
  return %y : tensor<{ROWS}x{COLUMNS}xbf16> loc("y")
}}
"""


def through(x, form):
    """`x` in f32 as backward reads it."""
    if form == "e5m2":
        limit = float(ml_dtypes.finfo(ml_dtypes.float8_e5m2).max)
        return np.clip(x, -limit, limit).astype(ml_dtypes.float8_e5m2).astype(np.float32)
    scale = scale_te(group_max(x, (1, 128)), ml_dtypes.float8_e4m3fn)
    return bf16(cast(x, scale, ml_dtypes.float8_e4m3fn) * (np.float32(1) / scale))


def run(tools, folder, form, policy):
    program, artifact = folder / "cube.mlir", folder / f"{policy}.fp8"
    program.write_text(PROGRAM)
    command = [tools / "fp8-opt", program, f"--compile=policy={policy},lossy=g:{form}", "--emit=artifact", "-o", artifact]
    subprocess.run(command, check=True, capture_output=True, text=True)
    out = folder / policy
    subprocess.run([tools / "fp8-run", artifact, "--seed=1", f"--dump-outputs={out}"], check=True, capture_output=True)
    return read_outputs(out)


@pytest.mark.parametrize("form", ["1x128", "e5m2"])
def test_gradient_of_a_lossy_base(tools, tmp_path, form):
    outputs = run(tools, tmp_path, form, "auto")
    x = make_input("x", (ROWS, COLUMNS), "bf16", 1).astype(np.float32)
    dy = make_input("d_y", (ROWS, COLUMNS), "bf16", 1).astype(np.float32)
    g = bf16(x + x).astype(np.float32)
    y = bf16(bf16(g * g).astype(np.float32) * g)
    assert np.array_equal(outputs["y"].astype(np.float32), y.astype(np.float32))
    lossy = through(g, form)
    square = bf16(lossy * lossy).astype(np.float32)
    ds = bf16(dy * lossy).astype(np.float32)
    last = bf16(dy * square).astype(np.float32)
    half = bf16(ds * lossy).astype(np.float32)
    # The three terms, in either order of the sums.
    wanted = [bf16(bf16(bf16(last + half).astype(np.float32) + half).astype(np.float32) * 2),
              bf16(bf16(last + bf16(half + half).astype(np.float32)).astype(np.float32) * 2)]
    got = outputs["d_x"].astype(np.float32)
    assert any(np.array_equal(got, want.astype(np.float32)) for want in wanted)
    assert not np.array_equal(lossy, g)
    for policy in ("save-all", "recompute-all", "min-cut"):
        others = run(tools, tmp_path, form, policy)
        assert all(np.array_equal(others[name].view(np.uint8), outputs[name].view(np.uint8)) for name in outputs), policy
