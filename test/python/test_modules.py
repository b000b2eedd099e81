# ===- test_modules.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The twins of layers, run on the CPU against NumPy.
#
# ===----------------------------------=== #

import re

import ml_dtypes
import numpy as np
import pytest

import fp8opt
from fp8opt import Block128, GroupedLinear, LayerNormLinear, Linear, Module, Rowwise, Tensorwise, tensor
from fp8opt.modules import concatenate, dropout, layer_norm, rms_norm, silu

BF16 = ml_dtypes.bfloat16
# Half a unit in the last place of bf16: what the one rounding at the end may move.
ROUNDING = 2.0**-8


@pytest.fixture(autouse=True)
def installation(tools, monkeypatch, tmp_path):
    monkeypatch.setenv("FP8RT_LIBRARY", str(tools.parent / "lib" / "libfp8rt.so"))
    monkeypatch.setenv("FP8OPT_LIBRARY", str(tools.parent / "lib" / "libfp8opt.so"))
    monkeypatch.setenv("FP8OPT_CACHE_DIR", str(tmp_path / "cache"))


def run(module, scale=0.5):
    """Arguments by name, from a fixed seed, and the results."""
    artifact = fp8opt.compile(module)
    (function,) = [f for name, f in artifact.functions.items() if name != "end_of_step"]
    random = np.random.default_rng(1)
    types = {"bf16": BF16, "f32": np.float32}
    arguments = {a.name: np.ones(a.shape, np.float32) if a.name.endswith("_scale") else
                 np.zeros(a.shape, np.float32) if a.name.endswith("_history") else
                 (random.standard_normal(a.shape) * scale).astype(types[a.dtype.name]) for a in function.arguments}
    kept = {name: array.copy() for name, array in arguments.items()}
    return kept, artifact.run(arguments, function.name)


def close(actual, expected):
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    assert np.abs(actual - expected).max() <= ROUNDING * np.abs(expected).max() * 1.01


def test_functions():
    module = Module()
    f = module.function("norms")
    x = f.argument("x", tensor("bf16", 32, 64))
    w = f.parameter("w", tensor("bf16", 1, 64))
    b = f.parameter("b", tensor("bf16", 1, 64))
    f.returns(rms_norm(x, w, 1e-5), layer_norm(x, w, b, 1e-5), layer_norm(x, w, None, 1e-5), silu(x),
              silu(f.extf(x)), names=["rms", "layer", "plain", "silu", "silu_f32"])
    a, results = run(module)
    x, w, b = (a[name].astype(np.float64) for name in ("x", "w", "b"))
    centered = x - x.mean(1, keepdims=True)
    normal = centered / np.sqrt((centered**2).mean(1, keepdims=True) + 1e-5)
    close(results["rms"], x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * w)
    close(results["layer"], normal * w + b)
    close(results["plain"], normal * w)
    close(results["silu"], x / (1 + np.exp(-x)))
    assert np.abs(results["silu_f32"] - x / (1 + np.exp(-x))).max() < 1e-6


def test_dropout_keeps_what_it_should_and_has_its_gradient():
    module = Module()
    f = module.function("dropped")
    x, word = f.argument("x", tensor("bf16", 64, 128)), tensor("i32", 1, 1)
    seed, offset = (f.constant(value, word) for value in (3, 5))
    f.returns(dropout(x, 0.25, seed, offset, 1, name="one"), dropout(f.extf(x), 0.25, seed, offset, 2, name="two"))
    a, results = run(module, scale=2.0)
    x = a["x"].astype(np.float64)
    masks = []
    for name in ("one", "two"):
        y = results[name].astype(np.float64)
        masks.append(y != 0)
        assert 0.72 < masks[-1][x != 0].mean() < 0.78
        close(y, np.where(masks[-1], x / 0.75, 0))
    # Streams have nothing to do with each other.
    assert 0.55 < (masks[0] == masks[1]).mean() < 0.70
    gradient = sum(np.where(mask, a[f"d_{name}"].astype(np.float64) / 0.75, 0) for mask, name in zip(masks, ("one", "two")))
    assert np.abs(results["d_x"].astype(np.float64) - gradient).max() <= 3 * ROUNDING * np.abs(gradient).max()


def test_linear_adds_its_bias():
    module = Module()
    f = module.function("linear")
    x = f.argument("x", tensor("bf16", 32, 64))
    y = Linear(f, "fc", 64, 48, Rowwise(), bias=True)(x)
    product = f.linear(x, f.arguments[1], Rowwise())
    f.returns(y, product, names=["y", "product"])
    a, results = run(module)
    assert list(a)[:3] == ["x", "fc.weight", "fc.bias"]
    expected = results["product"].astype(np.float32) + a["fc.bias"].astype(np.float32)
    assert np.array_equal(results["y"], expected.astype(BF16))
    # The linear itself: rowwise FP8 of both operands is off by a few parts in a hundred.
    exact = a["x"].astype(np.float64) @ a["fc.weight"].astype(np.float64).T
    error = np.linalg.norm(results["product"].astype(np.float64) - exact) / np.linalg.norm(exact)
    assert 0 < error < 0.06


@pytest.mark.parametrize("normalization", ["LayerNorm", "RMSNorm"])
def test_layer_norm_linear_is_a_norm_and_a_linear(normalization):
    module = Module()
    f = module.function("both")
    x = f.argument("x", tensor("bf16", 32, 64))
    layer = LayerNormLinear(f, "qkv", 64, 48, Rowwise(), normalization=normalization, eps=1e-6)
    y = layer(x)
    norm = (rms_norm(x, layer.norm_weight, 1e-6) if normalization == "RMSNorm"
            else layer_norm(x, layer.norm_weight, layer.norm_bias, 1e-6))
    f.returns(y, f.linear(norm, layer.linear.weight.value, Rowwise()), names=["y", "again"])
    _, results = run(module)
    assert np.array_equal(results["y"], results["again"])


def test_delayed_scaling_brings_its_state():
    module = Module()
    f = module.function("delayed")
    x = f.argument("x", tensor("bf16", 32, 64))
    f.returns(Linear(f, "fc", 64, 48, Tensorwise(delayed=4))(x))
    a, _ = run(module)
    assert [name for name in a if name.endswith("history")] == [f"fc.weight.{role}_history" for role in ("x", "w", "dy")]
    assert a["fc.weight.x_history"].shape == (4,)


@pytest.mark.parametrize("splits", [(16, 32, 16), (64, 0, 0)])
def test_grouped_linear_is_one_linear_a_group(splits):
    module = Module()
    f = module.function("grouped")
    x = f.argument("x", tensor("bf16", 64, 32))
    layer = GroupedLinear(f, "experts", 3, 32, 48, Rowwise())
    y = layer(x, splits)
    parts, start = [], 0
    for rows, weight in zip(splits, layer.weights):
        if rows:
            parts.append(f.linear(f.slice(x, [start, 0], [rows, 32]), weight.value, Rowwise()))
        start += rows
    f.returns(y, *parts, names=["y", *(f"part{index}" for index in range(len(parts)))])
    _, results = run(module)
    # -0 and +0 are equal here.
    together = np.concatenate([results[f"part{index}"] for index in range(len(parts))])
    assert np.array_equal(results["y"].astype(np.float32), together.astype(np.float32))


def test_concatenate_along_columns():
    module = Module()
    f = module.function("columns")
    x, y = f.argument("x", tensor("f32", 4, 3)), f.argument("y", tensor("f32", 4, 5))
    f.returns(concatenate([x, y], 1, "z"))
    a, results = run(module)
    assert np.array_equal(results["z"], np.concatenate([a["x"], a["y"]], 1))


def test_a_column_parallel_linear_gathers_its_tokens(fp8_opt):
    module = Module(grid={"tp": 4})
    f = module.function("column")
    x = f.argument("x", tensor("bf16", 64, 32))
    layer = Linear(f, "fc", 32, 256, Rowwise(), parallel_mode="column", sequence_parallel=True, tp_size=4)
    y = layer(x)
    assert layer.weight.value.shape == (64, 32) and y.shape == (256, 64)
    f.returns(y)
    assert 'fp8.all_gather %arg0 axis = "tp" dim = 0' in fp8_opt([], str(module))


def test_a_row_parallel_linear_scatters_its_sum(fp8_opt):
    module = Module(grid={"tp": 4})
    f = module.function("row")
    x = f.argument("x", tensor("bf16", 256, 64))
    layer = Linear(f, "fc", 256, 32, Rowwise(), bias=True, parallel_mode="row", sequence_parallel=True, tp_size=4)
    y = layer(x)
    assert layer.weight.value.shape == (32, 64) and y.shape == (64, 32)
    f.returns(y)
    assert re.search(r'fp8.reduce_scatter\W+sum\W+0 axis = "tp" dim = 0', fp8_opt([], str(module)))
    assert "fp8.all_gather" in fp8_opt(["--fp8-build-backward"], str(module))


def test_grouped_linears_of_one_rank():
    """Column- and row-parallel experts between a gather and a scatter of the tokens, which are the caller's."""
    module = Module(grid={"tp": 2})
    f = module.function("experts")
    x = f.all_gather(f.argument("x", tensor("bf16", 64, 32)), "tp", 2, name="tokens")
    up = GroupedLinear(f, "fc1", 2, 32, 96, Rowwise(), parallel_mode="column", tp_size=2)
    down = GroupedLinear(f, "fc2", 2, 96, 32, Rowwise(), parallel_mode="row", tp_size=2)
    y = down(silu(up(x, [48, 80]), "act"), [48, 80])
    assert [weight.value.shape for weight in up.weights + down.weights] == [(48, 32), (48, 32), (32, 48), (32, 48)]
    assert y.shape == (128, 32)
    f.returns(f.reduce_scatter(y, "tp", 2, name="y"), names=["y"])
    gradients = {result.name: result.shape for result in fp8opt.compile(module).functions["experts"].results}
    assert gradients["d_x"] == (64, 32) and gradients["d_fc1.weight1"] == (48, 32) and gradients["d_fc2.weight0"] == (32, 48)
    whole = GroupedLinear(Module().function("f"), "fc", 2, 32, 96, Rowwise(), single_weight=True, parallel_mode="column",
                          tp_size=2)
    assert whole.weight.shape == (2, 48, 32)


@pytest.mark.parametrize("grouped", [False, True])
def test_save_original_input_keeps_it_as_it_is(grouped):
    def plan(save):
        module = Module()
        f = module.function("kept")
        x = f.argument("x", tensor("bf16", 64, 128))
        h = f.elementwise("arith.mulf", x, x, name="h")
        f.returns(GroupedLinear(f, "fc", 2, 128, 48, Tensorwise(), save_original_input=save)(h, [16, 48]) if grouped else
                  Linear(f, "fc", 128, 48, Tensorwise(), save_original_input=save)(h))
        return {entry["value"]: entry for entry in fp8opt.compile(module, policy="save-all" if not save else "min-cut")
                .plan["saved"]}

    kept = plan(True)
    assert "h" in kept and "fp8.policy" in kept["h"]["why"]


@pytest.mark.parametrize("build", [
    lambda f, x: Linear(f, "fc", 32, 48, Rowwise(), parallel_mode="diagonal"),
    lambda f, x: Linear(f, "fc", 32, 48, Rowwise(), sequence_parallel=True),
    lambda f, x: Linear(f, "fc", 32, 48, Rowwise(), parallel_mode="column", sequence_parallel=True, tp_size=5),
    lambda f, x: Linear(f, "fc", 32, 48, Rowwise(), parallel_mode="row", sequence_parallel=True, tp_size=3),
    lambda f, x: Linear(f, "fc", 32, 48, Rowwise(), parallel_mode="column", tp_size=4),
    lambda f, x: LayerNormLinear(f, "fc", 32, 48, Rowwise(), normalization="BatchNorm"),
    lambda f, x: GroupedLinear(f, "fc", 2, 32, 48, Rowwise())(x, [64]),
    lambda f, x: GroupedLinear(f, "fc", 2, 32, 48, Rowwise())(x, [8, 56]),
    lambda f, x: GroupedLinear(f, "fc", 2, 32, 48, Block128())(x, [16, 48]),
    lambda f, x: GroupedLinear(f, "fc", 2, 32, 48, Rowwise(), tp_size=2),
    lambda f, x: GroupedLinear(f, "fc", 2, 32, 48, Rowwise(), parallel_mode="column", tp_size=5),
    lambda f, x: concatenate([]),
])
def test_what_does_not_fit_is_refused(build):
    f = Module().function("bad")
    with pytest.raises(ValueError, match="expected"):
        build(f, f.argument("x", tensor("bf16", 64, 32)))
