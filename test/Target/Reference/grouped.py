# RUN: %python %s
# REQUIRES: numpy, ml_dtypes
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of groups of rows in the reference against NumPy, bit by bit, and the offsets that it refuses."""

import os
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
sys.path.insert(0, os.path.join(ROOT, "python"))
from fp8opt.testing.grouped import Operand, grouped_rows, grouped_sum  # noqa: E402
from interpret import check, finish, run, tensor  # noqa: E402

F32, BF16, E4M3, E5M2 = np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
OFFSETS = {
    "even": [0, 128, 256, 384],
    "one is empty": [0, 0, 256, 512],
    "all in one": [0, 0, 512, 512],
    "none": [0, 0, 0, 0],
    "full and uneven": [0, 384, 384, 512],
}
rng = np.random.default_rng(29)


def operand(shape, dtype, group):
    data = rng.standard_normal(shape).astype(F32).astype(dtype)
    if group is None:
        return Operand(data)
    extent = [-(-dim // size) if size else 1 for dim, size in zip(shape, group)]
    return Operand(data, np.exp2(rng.uniform(-3, 3, extent)).astype(F32), group)


def program(a, b, groups, result, shape, align):
    o = f"tensor<{groups + 1}xi32>"
    types = [tensor(x.data.dtype, x.data.shape, x.group) for x in (a, b)]
    arguments, arrays, scales = [f"%a: {types[0]}", f"%b: {types[1]}", f"%o: {o}"], [a.data, b.data], ""
    if a.scale is not None:
        scale_types = [tensor(F32, x.scale.shape) for x in (a, b)]
        arguments += [f"%sa: {scale_types[0]}", f"%sb: {scale_types[1]}"]
        scales = f"scales(%sa, %sb : {', '.join(scale_types)})"
    y = tensor(result, shape)
    return (f"func.func @f({', '.join(arguments)}) -> {y} {{\n"
            f"  %y = fp8.grouped_matmul %a, %b offsets(%o : {o}) {scales} align = {align} : {', '.join(types)} -> {y}\n"
            f"  return %y : {y}\n}}"), arrays


def test(title, a, b, result, align):
    ofsum = b.data.ndim == 2
    for name, offsets in OFFSETS.items():
        shape = (a.data.shape[0], b.data.shape[-1])
        shape = (len(offsets) - 1, *shape) if ofsum else shape
        text, arrays = program(a, b, len(offsets) - 1, result, shape, align)
        scales = [] if a.scale is None else [a.scale, b.scale]
        (y,) = run(text, [*arrays, np.array(offsets, np.int32), *scales], [(result, shape)])
        check(f"{title}, {name}", y, (grouped_sum if ofsum else grouped_rows)(a, b, offsets).astype(result))


def test_refused(offsets, message):
    """Wrong offsets are an error that names the group and the rows."""
    a, b = operand((512, 4), BF16, None), operand((3, 4, 5), BF16, None)
    text, arrays = program(a, b, 3, BF16, (512, 5), 16)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "in.mlir")
        with open(path, "w") as file:
            file.write(text)
        inputs = []
        for index, array in enumerate([*arrays, np.array(offsets, np.int32)]):
            inputs.append(os.path.join(folder, f"in{index}.bin"))
            array.tofile(inputs[-1])
        done = subprocess.run(["fp8-interpret", path, "--inputs=" + ",".join(inputs), "--output-folder=" + folder],
                              capture_output=True, text=True)
    if done.returncode != 1 or message not in done.stderr:
        sys.exit(f"error: expected exit code 1 and '{message}', but got {done.returncode} and {done.stderr}")
    print(f"refused: {message}")


def main():
    test("bf16 rows", operand((512, 33), BF16, None), operand((3, 33, 19), BF16, None), BF16, 128)
    test("f32 sum", operand((9, 512), F32, None), operand((512, 7), F32, None), F32, 128)
    test("per tensor", operand((512, 48), E5M2, (0, 0)), operand((3, 48, 20), E4M3, (1, 0, 0)), BF16, 16)
    test("one scale for all", operand((512, 48), E4M3, (0, 0)), operand((3, 48, 20), E4M3, (0, 0, 0)), BF16, 16)
    test("rows by columns", operand((512, 64), E4M3, (1, 0)), operand((3, 64, 20), E4M3, (1, 0, 1)), F32, 16)
    test("sum, rows by columns", operand((12, 512), E4M3, (1, 0)), operand((512, 20), E4M3, (0, 1)), BF16, 16)
    test("1x128 by 128x128", operand((512, 300), E4M3, (1, 128)), operand((3, 300, 130), E4M3, (1, 128, 128)), BF16, 128)
    test("sum, 1x128 by 128x1", operand((12, 512), E4M3, (1, 128)), operand((512, 20), E4M3, (128, 1)), F32, 128)
    test("sum, 128x128 by 128x1", operand((130, 512), E4M3, (128, 128)), operand((512, 20), E4M3, (128, 1)), BF16, 128)
    test_refused([16, 32, 48, 64], "expected group 0 of 3 to begin at row 0, but got 16")
    test_refused([0, 128, 64, 256], "expected group 1 of 3 to end at row 128, where it begins, or behind, but got 64")
    test_refused([0, 128, 256, 528], "expected group 2 of 3 to end within the capacity of 512 rows, but got 528")
    test_refused([0, 128, 200, 256], "expected group 1 of 3 to end at a multiple of 16 rows, but got 200")
    finish()


main()
