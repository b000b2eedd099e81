# ===- test_random_graphs.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A hundred random graphs: fp8-test-graphs compiles and runs each with every policy, in pieces of rows and with values in
# host memory, in one process, and holds bits and peaks to its rules; here the outputs and gradients it leaves are held to those that NumPy finds.
#
# ===----------------------------------------=== #

import json
import os
import pathlib
import re
import subprocess

import pytest

from fp8opt.testing.inputs import read_outputs
from fp8opt.testing.numerics import relative_error
from fp8opt.testing.random_graphs import TOLERANCE, random_graph

# Graphs with dropouts, of seeds of their own.
DROPPING = range(1000, 1004)



def linked_target(folder):
    """The CPU with a fast link to host memory beside its kernels, for plans only: nothing is timed here."""
    targets = pathlib.Path(__file__).resolve().parents[2] / "lib" / "Target" / "Target" / "targets"
    target = json.loads((targets / "cpu.json").read_text())
    path = folder / "linked.json"
    path.write_text(json.dumps({**target, "host_bytes_per_second": 1e11, "host_overlaps": True}))
    return path


@pytest.fixture(scope="module")
def folders(tools, tmp_path_factory, random_graphs_100):
    """The folder of each graph's outputs, after all of them ran; as many processes as cores."""
    processes = os.cpu_count() or 1
    target = linked_target(tmp_path_factory.mktemp("target"))
    parts = [tmp_path_factory.mktemp(f"graphs{part}") for part in range(processes)]
    places = []
    for seed, (graph, _) in enumerate(random_graphs_100):
        folder = parts[seed % processes]
        (folder / f"graph-{seed:03}.mlir").write_text(str(graph.emit()))
        places.append(folder / "out" / f"graph-{seed:03}")
    running = [subprocess.Popen([tools / "fp8-test-graphs", folder, "0", target], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                stdin=subprocess.DEVNULL, text=True) for folder in parts]
    texts = [process.communicate()[0] for process in running]
    for process, text in zip(running, texts):
        assert process.returncode == 0, text
        offloaded, both = map(int, re.search(r"(\d+) plans with host memory, (\d+) of them in pieces", text).groups())
        assert offloaded >= 10 and both >= 3, text
    return places


@pytest.mark.parametrize("seed", range(100))
def test_graph(folders, random_graphs_100, seed):
    outputs = read_outputs(folders[seed])
    expected = random_graphs_100[seed][1]
    assert list(outputs) == list(expected)
    errors = {name: relative_error(outputs[name], expected[name]) for name in expected}
    worst = max(errors, key=errors.get)
    assert errors[worst] <= TOLERANCE, f"{worst}: {errors[worst]:.2e}"


def test_graphs_that_drop(tools, tmp_path):
    expected = {}
    for seed in DROPPING:
        graph, expected[seed] = random_graph(seed, drops=True)
        (tmp_path / f"graph-{seed}.mlir").write_text(str(graph.emit()))
    done = subprocess.run([tools / "fp8-test-graphs", tmp_path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    for seed in DROPPING:
        outputs = read_outputs(tmp_path / "out" / f"graph-{seed}")
        errors = {name: relative_error(outputs[name], value) for name, value in expected[seed].items()}
        assert max(errors.values()) <= TOLERANCE, (seed, errors)
