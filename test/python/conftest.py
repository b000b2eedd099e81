# ===- conftest.py - fixtures of the Python tests ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Finds the source tree and the tools that were built.
#
# ===-------------------------------------------------------------=== #

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))


@pytest.fixture(scope="session")
def root():
    """The source tree."""
    return ROOT


@pytest.fixture(scope="session")
def tools():
    """The folder of the built tools: FP8_BUILD_DIR/bin, by default build/bin."""
    folder = pathlib.Path(os.environ.get("FP8_BUILD_DIR", ROOT / "build")) / "bin"
    if not (folder / "fp8-opt").exists():
        pytest.fail(f"no fp8-opt in {folder}: run ./dev build, or set FP8_BUILD_DIR")
    return folder


@pytest.fixture(scope="session")
def fp8_opt(tools):
    """Runs fp8-opt with the given arguments on a program text and gives its output."""

    def call(arguments, text):
        result = subprocess.run([tools / "fp8-opt", "-", *arguments], input=text, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return call


@pytest.fixture(scope="session")
def random_graphs_100():
    """The random graphs of seeds 0 to 99, each with its expected outputs."""
    from fp8opt.testing.random_graphs import random_graph

    return [random_graph(seed) for seed in range(100)]


@pytest.fixture
def one_rank():
    """A process group of this process alone."""
    distributed = pytest.importorskip("torch.distributed")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield distributed.device_mesh.init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()
