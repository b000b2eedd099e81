# ===- test_oracles.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The oracles themselves: inputs against the runtime's header, gradients against differences, scales and groups against
# loops, random graphs by seed.
#
# ===----------------------------------=== #

import subprocess

import numpy as np
import pytest

from fp8opt.testing import ffn, graph, numerics, random_graphs
from fp8opt.testing.inputs import DTYPES, make_input

INPUT_PROGRAM = """
#include "fp8rt/Inputs.h"
#include <cstdio>
int main() {
  using namespace fp8rt;
  float f[300];
  fillInput(f, DType::F32, 300, Init::Normal, 0.125f, "layers.0.w1", Role::Input, 7, 2, 1);
  fwrite(f, 4, 300, stdout);
  uint16_t b[300];
  fillInput(b, DType::BF16, 300, Init::Normal, 1.0f, "x", Role::Parameter, 7, 2, 1);
  fwrite(b, 2, 300, stdout);
}
"""


def test_inputs_are_those_of_the_runtime(root, tmp_path):
    source, program = tmp_path / "inputs.cpp", tmp_path / "inputs"
    source.write_text(INPUT_PROGRAM)
    subprocess.run(["g++", "-std=c++20", "-I", root / "runtime" / "include", source, "-o", program], check=True)
    data = subprocess.run([program], capture_output=True, check=True).stdout
    expected = make_input("layers.0.w1", (300,), "f32", 7, 0.125, step=2, microbatch=1)
    assert np.array_equal(np.frombuffer(data[:1200], np.float32), expected)
    expected = make_input("x", (300,), "bf16", 7)
    assert np.array_equal(np.frombuffer(data[1200:], DTYPES["bf16"]).astype(np.float32), expected)
    assert abs(expected.std() - 1) < 0.1


@pytest.mark.parametrize("group", [(0, 0), (1, 0), (0, 1), (1, 4), (4, 1), (4, 4)])
def test_group_max(group):
    x = np.random.default_rng(0).standard_normal((6, 10)).astype(np.float32)
    rows, columns = (size or dim for size, dim in zip(group, x.shape))
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            r, c = i // rows * rows, j // columns * columns
            assert numerics.group_max(x, group)[i, j] == np.abs(x[r:r + rows, c:c + columns]).max()


def test_scale_rules():
    amax = np.array([0, 1, 3, 448, 2e-20, 1e-38], np.float32)
    assert numerics.scale_torchao(amax, numerics.E4M3)[1:4].tolist() == [448, np.float32(448 / 3), 1]
    assert numerics.scale_torchao(amax, numerics.E4M3)[0] == np.float32(448e12)
    assert numerics.scale_te(amax, numerics.E5M2)[:2].tolist() == [1, 57344]
    assert numerics.scale_te(amax, numerics.E4M3)[5] == np.finfo(np.float32).max
    assert numerics.scale_te_pow2(amax, numerics.E4M3)[:4].tolist() == [1, 256, 128, 1]


def test_cast_saturates():
    one = np.ones(1, np.float32)
    x = np.array([449, 464, 1e30, -1e30, 17, 18.5], np.float32)
    assert numerics.cast(x, one, numerics.E4M3).tolist() == [448, 448, 448, -448, 16, 18]


def test_gradients_of_the_step_are_derivatives():
    """Of the step without FP8, in f64, along random directions: the gradient times the direction is the difference."""
    step = ffn.FfnStep(2, 8, 16, 24, None, seed=3)
    names = list(step.weights)
    gradients = step.run()[2:]
    tangent = make_input("d_layers.1.out", (8, 16), "bf16", 3).astype(np.float64)
    rng = np.random.default_rng(1)
    for name, gradient in zip(names, gradients):
        weight = step.weights[name].astype(np.float64)
        direction, size = rng.standard_normal(weight.shape), 1e-4
        values = []
        for sign in (1, -1):
            step.weights[name] = weight + sign * size * direction
            values.append((step.run()[0] * tangent).sum())
        step.weights[name] = weight
        assert (values[0] - values[1]) / (2 * size) == pytest.approx((gradient * direction).sum(), rel=1e-5)


@pytest.mark.parametrize("op", sorted(graph.UNARY) + sorted(graph.BINARY))
def test_adjoints_are_derivatives(op):
    rng = np.random.default_rng(0)
    size = 1e-3
    x = rng.uniform(0.5, 2.0, (2, 50))
    if op in graph.UNARY:
        function, adjoint = graph.UNARY[op]
        operands = x[:1]
        factors = [adjoint(np.float64(1), operands[0], function(operands[0]))]
    else:
        function, adjoint = graph.BINARY[op]
        operands = x
        factors = adjoint(np.float64(1), *operands, function(*operands))
    for number, factor in enumerate(factors):
        moved = [[operand + sign * size * (index == number) for index, operand in enumerate(operands)]
                 for sign in (1, -1)]
        difference = (function(*moved[0]).astype(np.float64) - function(*moved[1])) / (2 * size)
        ties = np.abs(x[0] - x[1]) <= size
        assert np.allclose(np.broadcast_to(factor, difference.shape)[~ties], difference[~ties], rtol=2e-3, atol=2e-3)


def test_random_graphs_depend_on_the_seed_only(tmp_path):
    random_graphs.write_graphs(tmp_path / "a", 3)
    random_graphs.write_graphs(tmp_path / "b", 2, first=1)
    assert (tmp_path / "a" / "graph-001.mlir").read_bytes() == (tmp_path / "b" / "graph-001.mlir").read_bytes()
    a, b = (np.load(tmp_path / folder / "graph-002.npz") for folder in "ab")
    assert a.files == b.files and all(np.array_equal(a[name], b[name]) for name in a.files)


def test_random_graphs_cover_every_kind(random_graphs_100):
    kinds = set()
    for graph_of_seed, _ in random_graphs_100:
        nodes = graph_of_seed.nodes
        kinds |= {f"linear {node.attribute}" if node.kind == "linear" else node.kind for node in nodes}
        assert 5 <= sum(node.kind not in ("argument", "constant") for node in nodes) <= 40
    expected = set(graph.UNARY) | set(graph.BINARY) | {
        "argument", "constant", "sum", "max", "broadcast", "permute", "transpose", "slice", "reshape", "extf", "truncf",
        "matmul", "linear rowwise", "linear tensorwise", "linear delayed", "linear block128"}
    assert expected <= kinds
