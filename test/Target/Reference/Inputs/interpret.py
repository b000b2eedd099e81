# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the reference interpreter on NumPy arrays, for the tests of this folder; or, with FP8_TEST_RUNNER set to
fp8-kernel-test, compiled code."""

import os
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np

NAMES = {
    np.dtype(np.float32): "f32",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(ml_dtypes.float8_e4m3fn): "f8E4M3FN",
    np.dtype(ml_dtypes.float8_e5m2): "f8E5M2",
    np.dtype(np.bool_): "i1",
}
DTYPES = {name: dtype for dtype, name in NAMES.items()}
failures = 0


def tensor(dtype, shape, scale=None):
    """The MLIR type, with a scaled encoding where `scale` gives its group (0: all)."""
    encoding = ""
    if scale is not None:
        encoding = f", #fp8.tensor<scale = [{', '.join(str(g) if g else 'all' for g in scale)}]>"
    dims = "".join(f"{d}x" for d in shape)
    return f"tensor<{dims}{NAMES[np.dtype(dtype)]}{encoding}>"


def run(text, arrays, results, states=()):
    """Runs the first function of `text` on `arrays` and returns arrays of the given (dtype, shape) pairs, then the
    arguments whose numbers are in `states` as the run left them."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "in.mlir")
        with open(path, "w") as file:
            file.write(text)
        inputs = []
        for index, array in enumerate(arrays):
            inputs.append(os.path.join(folder, f"in{index}.bin"))
            np.ascontiguousarray(array).tofile(inputs[-1])
        command = [os.environ.get("FP8_TEST_RUNNER", "fp8-interpret"), path, "--inputs=" + ",".join(inputs), "--output-folder=" + folder]
        if subprocess.run(command).returncode != 0:
            sys.exit(f"error: the interpreter failed on\n{text}")
        outputs = [
            np.fromfile(os.path.join(folder, f"result{index}.bin"), dtype=dtype).reshape(shape)
            for index, (dtype, shape) in enumerate(results)
        ]
        for number in states:
            array = arrays[number]
            outputs.append(np.fromfile(os.path.join(folder, f"argument{number}.bin"), array.dtype).reshape(array.shape))
        return outputs


def bits(array):
    return np.ascontiguousarray(array).view({1: np.uint8, 2: np.uint16, 4: np.uint32}[array.dtype.itemsize])


def check(name, actual, expected, nan_bits=False):
    """Compares bit by bit; NaN counts as equal to NaN unless `nan_bits`."""
    global failures
    different = bits(actual) != bits(expected)
    if not nan_bits and actual.dtype != np.bool_:
        both = np.isnan(actual.astype(np.float32)) & np.isnan(expected.astype(np.float32))
        different &= ~both
    if different.any():
        failures += 1
        first = np.argwhere(different)[0]
        where = tuple(int(i) for i in first)
        print(f"error: {name}: {int(different.sum())} of {different.size} differ, first at {where}: "
              f"{actual[where]} ({bits(actual)[where]:#x}) instead of {expected[where]} ({bits(expected)[where]:#x})")
    else:
        print(f"{name}: {different.size} equal")


def finish():
    sys.exit(1 if failures else 0)
