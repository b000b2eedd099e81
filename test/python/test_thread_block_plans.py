# ===- test_thread_block_plans.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Planned IR of a target of thread blocks computes values again inside of kernels and moves operands. The reference
# interpreter, which knows nothing of plans, must find the same bits in it as in the function that it was made from.
#
# ===----------------------------------------=== #

import json
import struct
import subprocess

import pytest

from fp8opt.testing.random_graphs import random_graph


def read_outputs(path):
    """Name and hash of each output in a reference file."""
    data = path.read_bytes()
    count = struct.unpack_from("<I", data, 12)[0]
    for index in range(count):
        name, offset, size = struct.unpack_from("<16sQQ", data, 16 + 64 * index)
        if name.rstrip(b"\0") == b"manifest":
            outputs = json.loads(data[offset:offset + size])["outputs"]
            return [(output["name"], output["sha256"]) for output in outputs]
    raise ValueError(f"{path} has no manifest")


@pytest.mark.parametrize("policy", ["auto", "recompute-all"])
@pytest.mark.parametrize("seed", range(0, 100, 8))
def test_planned_ir_computes_the_same(tools, tmp_path, seed, policy):
    source, planned = tmp_path / "graph.mlir", tmp_path / "planned.mlir"
    source.write_text(str(random_graph(seed)[0].emit()))

    def run(*arguments):
        done = subprocess.run([tools / "fp8-opt", *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:2000]

    run(source, f"--compile=target=h200,policy={policy}", "--compile-to=placed", "--emit=mlir",
        "--mlir-print-debuginfo", "-o", planned)
    run(source, "--compile=target=h200", "--emit=reference", "-o", tmp_path / "before")
    run(planned, "--emit=reference", "-o", tmp_path / "after")
    assert "fp8.kernel" in planned.read_text()
    assert read_outputs(tmp_path / "after") == read_outputs(tmp_path / "before")
