# ===- test_calibrate.py - rates from given measurements ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# bench/calibrate.py with measurements that are made up: the rates it writes are those that the times were made with, and
# kernels that are too small to say anything are an error.
#
# ===-------------------------------------------------------------------=== #

import argparse
import importlib.util
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEMORY, MATMUL, LAUNCH = 2e12, 8e14, 4e-6


@pytest.fixture
def calibrate(tmp_path, monkeypatch):
    """The script, and its options for a GPU whose loop kernels move `moved` bytes."""
    spec = importlib.util.spec_from_file_location("calibrate", ROOT / "bench" / "calibrate.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    target = json.loads((ROOT / "lib" / "Target" / "Target" / "targets" / "h100.json").read_text())
    (tmp_path / "target.json").write_text(json.dumps(target))

    def run(moved):
        commands = [{"op": "gemm", "flops": 8e11, "bytes": 1000, "ms": 8e11 / MATMUL * 1e3},
                    {"op": "launch", "flops": 10, "bytes": moved, "ms": moved / MEMORY * 1e3},
                    {"op": "launch", "flops": 10, "bytes": 1024, "ms": LAUNCH * 1e3}]
        step = sum(command["ms"] for command in commands)
        monkeypatch.setattr(script, "measure", lambda *_, **__: ({"step_ms": [step], "device_overhead_bytes": 5}, commands))
        options = argparse.Namespace(folder=tmp_path, fp8_run=None, machine="none", repeats=1, out=tmp_path / "out.json")
        script.calibrate(options)
        return json.loads(options.out.read_text())

    return run


def test_rates(calibrate):
    target = calibrate(2**30)
    assert target["copy_bytes_per_second"] == pytest.approx(MEMORY, rel=1e-3)
    assert [target[f"flops_f8_{recipe}"] for recipe in ("row", "tensor", "block")] == pytest.approx([MATMUL] * 3)
    assert target["launch_seconds"] == pytest.approx(LAUNCH)
    assert (target["status"], target["device_overhead_bytes"]) == ("measured", 5)
    assert 0 <= target["model_error_pct"] < 1


def test_too_small(calibrate):
    with pytest.raises(SystemExit, match="error: expected loop kernels that move more than 4,194,304 B"):
        calibrate(2**20)
