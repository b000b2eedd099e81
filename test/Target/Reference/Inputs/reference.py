# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes and reads references, for the tests of this folder: programs go through fp8-opt, then fp8-interpret."""

import json
import os
import struct
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
from fp8opt.testing.numerics import relative_error

DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f8E4M3FN": ml_dtypes.float8_e4m3fn,
          "f8E5M2": ml_dtypes.float8_e5m2, "i32": np.int32}
PASSES = ["-fp8-build-backward", "-fp8-expand-recipes"]


def sections(path):
    """The sections of a container (docs/artifact.md)."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"FP8REF\0\1", data[:8]
    (count,) = struct.unpack_from("<I", data, 12)
    result = {}
    for index in range(count):
        name, offset, size = struct.unpack_from("<16sQQ", data, 16 + 64 * index)
        result[name.rstrip(b"\0").decode()] = data[offset:offset + size]
    return result


def outputs(text, passes=PASSES, **options):
    """The outputs of a program by name, in order."""
    with tempfile.TemporaryDirectory() as folder:
        source, joint, reference = (os.path.join(folder, name) for name in ("in.mlir", "joint.mlir", "out.ref"))
        with open(source, "w") as file:
            file.write(text)
        commands = [["fp8-opt", source, *passes, "-mlir-print-debuginfo", "-o", joint],
                    ["fp8-interpret", joint, "--reference=" + reference,
                     *(f"--{name}={value}" for name, value in options.items())]]
        for command in commands:
            if subprocess.run(command).returncode != 0:
                sys.exit(f"error: {' '.join(command)} failed on\n{text}")
        parts = sections(reference)
    manifest = json.loads(parts["manifest"])
    result = {}
    for output in manifest["outputs"]:
        data = parts["data"][output["offset"]:output["offset"] + output["bytes"]]
        result[output["name"]] = np.frombuffer(data, DTYPES[output["dtype"]]).reshape(output["shape"])
    return result


def equal(name, actual, expected, tolerance):
    """Whether both hold the same outputs in the same order, none further apart than `tolerance`; says how far."""
    if list(actual) != list(expected):
        print(f"error: {name}: the outputs are {list(actual)} instead of {list(expected)}")
        return False
    errors = {output: relative_error(actual[output].astype(np.float32), value) for output, value in expected.items()}
    worst = max(errors, key=errors.get)
    good = errors[worst] <= tolerance
    print(f"{'' if good else 'error: '}{name}: {len(errors)} outputs, largest relative error {errors[worst]:.2e} ({worst})")
    return bool(good)
