# ===- test_lossy.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Gradients through lossy forms, against NumPy and ml_dtypes.
#
# ===------------------------------=== #
"""Backward of a cube reads its base through a cast; forward does not."""

import json
import subprocess

import ml_dtypes
import numpy as np
import pytest

from fp8opt.testing.inputs import make_input, read_outputs
from fp8opt.testing.numerics import E4M3, bf16, cast, group_max, quantise, scale_te, scale_te_pow2, scaled_matmul

ROWS, COLUMNS = 24, 200
PROGRAM = f"""
func.func @cube(%x: tensor<{ROWS}x{COLUMNS}xbf16> loc("x")) -> tensor<{ROWS}x{COLUMNS}xbf16> {{
  %g = arith.addf %x, %x : tensor<{ROWS}x{COLUMNS}xbf16> loc("g")
  %s = arith.mulf %g, %g : tensor<{ROWS}x{COLUMNS}xbf16> loc("square")
  %y = arith.mulf %s, %g : tensor<{ROWS}x{COLUMNS}xbf16> loc("y")
  return %y : tensor<{ROWS}x{COLUMNS}xbf16> loc("y")
}}
"""


def e5m6_scale(x):
    """The power of two of each block of 128 columns, for every element: the largest that has none exceed 65024."""
    amax = group_max(x, (1, 128))
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log2(np.float32(65024) / amax))
    return np.where(amax == 0, 1, np.exp2(exponent)).astype(np.float32)


def e5m6(x):
    """f32 rounded to 5 bits of exponent and 6 of mantissa, as f32."""
    x = np.clip(x, -65024, 65024)
    _, exponent = np.frexp(x)
    step = np.exp2(np.maximum(exponent - 1, -14) - 6.0)
    return (np.rint(x / step) * step).astype(np.float32)


def through(x, form):
    """`x` in f32 as backward reads it."""
    if form == "e5m6":
        scale = e5m6_scale(x)
        return bf16(e5m6(x * scale) * (np.float32(1) / scale))
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


@pytest.mark.parametrize("form", ["1x128", "e5m2", "e5m6"])
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


def test_bytes_of_e5m6(tools, tmp_path):
    """Codes are the upper 12 bits of a half, two in three bytes, the even one in the lower bits; `fp8-run` compares them with
    the interpreter's."""
    artifact = tmp_path / "codes.fp8"
    shape, scales, codes = f"{ROWS}x{COLUMNS}xf32", f"{ROWS}x2xf32", f"{ROWS}x{COLUMNS}x!fp8.e5m6, #fp8.tensor<scale = [1, 128]>"
    text = f"""func.func @codes(%x: tensor<{shape}> loc("x")) -> (tensor<{codes}>, tensor<{scales}>) {{
  %m = fp8.amax %x group = [1, 128] : tensor<{shape}> -> tensor<{scales}>
  %s = fp8.scale %m format = !fp8.e5m6 {{pow2 = #fp8.pow2<floor>}} : tensor<{scales}> loc("s")
  %q = fp8.cast %x, %s : tensor<{shape}>, tensor<{scales}> -> tensor<{codes}> loc("q")
  return %q, %s : tensor<{codes}>, tensor<{scales}>
}}"""
    subprocess.run([tools / "fp8-opt", "-", "--compile", "--emit=artifact", "-o", artifact], input=text, check=True, text=True)
    program = tmp_path / "codes.mlir"
    program.write_text(text)
    subprocess.run([tools / "fp8-run", program, "--seed=5", "--check", f"--dump-outputs={tmp_path}"], check=True)
    outputs = read_outputs(tmp_path)
    x = make_input("x", (ROWS, COLUMNS), "f32", 5)
    scale = e5m6_scale(x)
    assert np.array_equal(outputs["s"], scale[:, [0, 128]])
    halves = e5m6(x * scale).astype(np.float16)
    assert np.array_equal(halves.astype(np.float32), e5m6(x * scale))
    bits = halves.view(np.uint16).astype(np.uint32) >> 4
    pairs = bits[:, ::2] | bits[:, 1::2] << 12
    bytes_ = np.stack([pairs >> shift & 0xFF for shift in (0, 8, 16)], axis=-1).reshape(ROWS, -1)
    assert np.array_equal(outputs["q"], bytes_)
    plan = json.loads(subprocess.run([tools / "fp8-opt", program, "--compile", "--emit=plan"], check=True, capture_output=True,
                                     text=True).stdout)
    gradient = ROWS * COLUMNS * 4
    assert plan["peak_bytes"] == ROWS * COLUMNS * 3 // 2 + ROWS * 2 * 4 + gradient


# A linear of exp(x) or of exp(x)^8: of values within a factor of some hundreds, or of some 10^20.
LINEAR = """
func.func @linear(%x: tensor<256x200xbf16> loc("x"), %w: tensor<64x200xbf16> {{fp8.parameter}} loc("w")) -> tensor<256x64xbf16> {{
  %e = math.exp %x : tensor<256x200xbf16> loc("e")
{powers}
  %y = fp8.linear {g}, %w recipe<block128> : tensor<256x200xbf16>, tensor<64x200xbf16> -> tensor<256x64xbf16> loc("y")
  return %y : tensor<256x64xbf16> loc("y")
}}
"""


@pytest.mark.parametrize("wide", [False, True], ids=["exact", "inexact"])
def test_relayout(tools, tmp_path, wide):
    names = ["%e", "%e2", "%e4", "%e8"] if wide else ["%e"]
    powers = "\n".join(f'  {new} = arith.mulf {old}, {old} : tensor<256x200xbf16> loc("{new[1:]}")'
                       for old, new in zip(names, names[1:]))
    program = tmp_path / "linear.mlir"
    program.write_text(LINEAR.format(powers=powers, g=names[-1]))
    value = names[-1][1:]

    def run_as(lossy, name):
        artifact = tmp_path / f"{name}.fp8"
        options = f"--compile=policy=auto{lossy}"
        subprocess.run([tools / "fp8-opt", program, options, "--emit=artifact", "-o", artifact], check=True)
        done = subprocess.run([tools / "fp8-run", artifact, "--seed=1", f"--dump-outputs={tmp_path / name}",
                               f"--json={tmp_path / name}.json"], check=True, capture_output=True, text=True)
        return read_outputs(tmp_path / name), json.loads((tmp_path / f"{name}.json").read_text()), done.stdout

    exact, plain, _ = run_as("", "plain")
    outputs, report, text = run_as(f",lossy={value}:relayout", "relayout")
    assert "inexact" not in plain

    g = make_input("x", (256, 200), "bf16", 1).astype(np.float32)
    # exp is the compiler's; what follows from the rows of e4m3 is NumPy's.
    dy = make_input("d_y", (256, 64), "bf16", 1).astype(np.float32)
    g = bf16(np.exp(g.astype(np.float64)))
    for _ in names[1:]:
        g = bf16(g * g)
    rows = quantise(g, (1, 128), E4M3, scale_te_pow2)
    kept = bf16(rows.values * (np.float32(1) / rows.scale))
    columns = quantise(kept, (128, 1), E4M3, scale_te_pow2)
    count = int((bf16(columns.values * (np.float32(1) / columns.scale)) != kept).sum())
    assert (count > 0) == wide
    assert report["inexact"] == [{"value": value, "elements": count}]
    assert f"{value}: {count} elements of the last step are not exact" in text
    assert float(outputs[f"{value}.inexact"].item()) == count
    weight = scaled_matmul(quantise(dy, (128, 1), E4M3, scale_te_pow2).T, columns, "bf16")
    assert np.linalg.norm(outputs["d_w"].astype(np.float64) - weight) <= 1e-3 * np.linalg.norm(weight)
    if not wide:  # the gradient of the plan that casts both ways from the exact value
        assert np.array_equal(outputs["d_w"], exact["d_w"])

    # The interpreter counts the same, and a check wants 0.
    reference = tmp_path / "reference"
    subprocess.run([tools / "fp8-opt", program, f"--compile=lossy={value}:relayout", "--emit=reference", "--seed=1", "-o",
                    reference], check=True)
    checked = subprocess.run([tools / "fp8-run", tmp_path / "relayout.fp8", "--seed=1", f"--check={reference}"],
                             capture_output=True, text=True)
    assert "equal to the reference bit for bit" in checked.stdout
    assert (checked.returncode == 0) != wide
    assert not wide or f"the new layout of '{value}' is not exact in {count}" in checked.stderr
