# ===- test_grouped.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Products of groups of rows on the CPU: one compiled program, many offsets, against NumPy bit by bit.
#
# ===----------------------------------=== #

import re

import ml_dtypes
import numpy as np
import pytest

import fp8opt
from fp8opt import Block128, GroupedLinear, Module, Rowwise, Tensorwise, tensor
from fp8opt.testing.grouped import Operand, grouped_rows, grouped_sum

BF16 = ml_dtypes.bfloat16
CAPACITY, GROUPS = 384, 3
# Even, an empty group, all in one, one row block in all, none at all, no room left.
OFFSETS = [[0, 128, 256, 384], [0, 0, 128, 128], [0, 0, 384, 384], [0, 128, 128, 128], [0, 0, 0, 0], [0, 256, 256, 384]]


@pytest.fixture(autouse=True)
def installation(tools, monkeypatch, tmp_path):
    monkeypatch.setenv("FP8RT_LIBRARY", str(tools.parent / "lib" / "libfp8rt.so"))
    monkeypatch.setenv("FP8OPT_LIBRARY", str(tools.parent / "lib" / "libfp8opt.so"))
    monkeypatch.setenv("FP8OPT_CACHE_DIR", str(tmp_path / "cache"))


def normal(seed, shape, dtype=BF16):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(dtype)


def bits(array):
    return np.ascontiguousarray(array).view({2: np.uint16, 4: np.uint32}[array.dtype.itemsize])


def test_both_forms_of_bf16_have_the_bits_of_numpy_and_their_gradients():
    module = Module()
    f = module.function("products")
    a, b = f.argument("a", tensor("bf16", CAPACITY, 40)), f.argument("b", tensor("bf16", GROUPS, 40, 24))
    c, o = f.argument("c", tensor("bf16", CAPACITY, 24)), f.argument("o", tensor("i32", GROUPS + 1))
    f.returns(f.grouped_matmul(a, b, o, 16, name="rows"),
              f.grouped_matmul(f.permute(a, [1, 0]), c, o, 16, element="f32", name="sums"))
    artifact = fp8opt.compile(module)
    a, b, c = normal(1, (CAPACITY, 40)), normal(2, (GROUPS, 40, 24)), normal(3, (CAPACITY, 24))
    tangents = {"d_rows": normal(4, (CAPACITY, 24)), "d_sums": normal(5, (GROUPS, 40, 24), np.float32)}
    wide = {name: array.astype(np.float64) for name, array in {"a": a, "b": b, "c": c, **tangents}.items()}
    for offsets in [*OFFSETS, [0, 16, 48, 64]]:
        results = artifact.run({"a": a, "b": b, "c": c, "o": np.array(offsets, np.int32), **tangents}, "products")
        rows = grouped_rows(Operand(a), Operand(b), offsets).astype(BF16)
        assert np.array_equal(bits(results["rows"]), bits(rows)), offsets
        assert np.array_equal(bits(results["sums"]), bits(grouped_sum(Operand(a.T), Operand(c), offsets))), offsets
        gradients = {name: np.zeros(wide[name].shape) for name in "abc"}
        for g, (begin, end) in enumerate(zip(offsets, offsets[1:])):
            at = slice(begin, end)
            gradients["a"][at] = wide["d_rows"][at] @ wide["b"][g].T + wide["c"][at] @ wide["d_sums"][g].T
            gradients["b"][g] = wide["a"][at].T @ wide["d_rows"][at]
            gradients["c"][at] = wide["a"][at] @ wide["d_sums"][g]
        for name, value in gradients.items():
            error = np.linalg.norm(results[f"d_{name}"].astype(np.float64) - value)
            # Each is rounded to bf16, that of a in two parts, and d_sums before it is multiplied.
            assert error <= 2.0**-7 * np.linalg.norm(value), (name, offsets)


@pytest.mark.parametrize("recipe, align", [(Tensorwise(), 16), (Rowwise(), 16), (Block128(), 128)])
def test_a_layer_has_the_values_and_gradients_of_numpy(recipe, align):
    module = Module()
    f = module.function("layer")
    x, o = f.argument("x", tensor("bf16", CAPACITY, 128)), f.argument("o", tensor("i32", GROUPS + 1))
    f.returns(GroupedLinear(f, "fc", GROUPS, 128, 128, recipe, single_weight=True)(x, o), names=["y"])
    artifact = fp8opt.compile(module)
    x, w, dy = normal(1, (CAPACITY, 128)), normal(2, (GROUPS, 128, 128)), normal(3, (CAPACITY, 128))
    for offsets in OFFSETS:
        results = artifact.run({"x": x, "fc.weight": w, "d_y": dy, "o": np.array(offsets, np.int32)}, "layer")
        wide = [array.astype(np.float64) for array in (x, w, dy)]
        expected = {"y": np.zeros((CAPACITY, 128)), "d_x": np.zeros((CAPACITY, 128)), "d_fc.weight": np.zeros((GROUPS, 128, 128))}
        for g, (begin, end) in enumerate(zip(offsets, offsets[1:])):
            rows = slice(begin, end)
            expected["y"][rows] = wide[0][rows] @ wide[1][g].T
            expected["d_x"][rows] = wide[2][rows] @ wide[1][g]
            expected["d_fc.weight"][g] = wide[2][rows].T @ wide[0][rows]
        for name, value in expected.items():
            actual = results[name].astype(np.float64)
            # FP8 of both operands is off by a few parts in a hundred; where nothing is, +0 is.
            assert np.linalg.norm(actual - value) <= 0.06 * np.linalg.norm(value), (name, offsets)
            assert not bits(results[name])[value == 0].any(), (name, offsets)


@pytest.mark.parametrize("offsets", [[0, 128, 256, 384], [0, 0, 256, 384], [0, 384, 384, 384]])
def test_block128_has_the_bits_of_separate_linears(offsets):
    """No scale spans two groups."""
    module = Module()
    f = module.function("both")
    x, o = f.argument("x", tensor("bf16", CAPACITY, 128)), f.argument("o", tensor("i32", GROUPS + 1))
    f.returns(GroupedLinear(f, "fc", GROUPS, 128, 128, Block128(), single_weight=True)(x, o), names=["y"])
    apart = Module()
    g = apart.function("apart")
    part = g.argument("x", tensor("bf16", CAPACITY, 128))
    g.returns(GroupedLinear(g, "fc", GROUPS, 128, 128, Block128())(part, np.diff(offsets).tolist()), names=["y"])
    x, w, dy = normal(1, (CAPACITY, 128)), normal(2, (GROUPS, 128, 128)), normal(3, (CAPACITY, 128))
    together = fp8opt.compile(module).run({"x": x, "fc.weight": w, "d_y": dy, "o": np.array(offsets, np.int32)}, "both")
    arguments = {"x": x, "d_y": dy, **{f"fc.weight{i}": w[i] for i in range(GROUPS)}}
    separate = fp8opt.compile(apart).run(arguments, "apart")
    for name in ("y", "d_x"):
        # -0 and +0 are equal: parts are joined by adding them up.
        assert np.array_equal(together[name].astype(np.float32), separate[name].astype(np.float32)), name
    for group, (begin, end) in enumerate(zip(offsets, offsets[1:])):
        if begin != end:
            gradient = separate[f"d_fc.weight{group}"]
            assert np.array_equal(bits(together["d_fc.weight"][group]), bits(gradient)), group


@pytest.mark.parametrize("offsets, message", [
    ([16, 128, 256, 384], "expected group 0 of 3 to begin at row 0, but got 16"),
    ([0, 256, 128, 384], "expected group 1 of 3 to end at row 256, where it begins, or behind, but got 128"),
    ([0, 128, 256, 512], "expected group 2 of 3 to end within the capacity of 384 rows, but got 512"),
    ([0, 128, 200, 384], "expected group 1 of 3 to end at a multiple of 128 rows, but got 200"),
    ([0, -128, 0, 0], "expected group 0 of 3 to end at row 0, where it begins, or behind, but got -128"),
    ([0, 0, 0, 2**31 - 128], "expected group 2 of 3 to end within the capacity of 384 rows, but got 2147483520"),
])
def test_wrong_offsets_are_an_error_and_no_write(offsets, message):
    module = Module()
    f = module.function("layer")
    x, o = f.argument("x", tensor("bf16", CAPACITY, 128), "fp8.frozen"), f.argument("o", tensor("i32", GROUPS + 1))
    w = f.argument("w", tensor("bf16", GROUPS, 128, 128), "fp8.frozen")
    f.returns(f.grouped_linear(x, w, o, Block128(), name="experts.fc1"), placement="caller", names=["y"])
    artifact = fp8opt.compile(module)
    x, w = normal(1, (CAPACITY, 128)), normal(2, (GROUPS, 128, 128))
    place = np.full((CAPACITY, 128), 7, BF16)
    with pytest.raises(fp8opt.runtime.Error, match=message) as caught:
        artifact.run({"x": x, "w": w, "o": np.array(offsets, np.int32), "d_y": place}, "layer", placed={"y": place})
    assert "'experts.fc1'" in str(caught.value) and "test_grouped.py" in str(caught.value)
    assert (place == 7).all()


def test_what_does_not_fit_is_refused():
    f = Module().function("bad")
    x, o = f.argument("x", tensor("bf16", 64, 32)), f.argument("o", tensor("i32", 3))
    with pytest.raises(ValueError, match="without delayed scaling"):
        GroupedLinear(f, "a", 2, 32, 48, Tensorwise(delayed=4), single_weight=True)
    with pytest.raises(ValueError, match="'single_weight' with 'balanced'"):
        GroupedLinear(f, "b", 2, 32, 48, Rowwise(), balanced=16)
    with pytest.raises(ValueError, match="expected a value as 'm_splits'"):
        GroupedLinear(f, "c", 2, 32, 48, Rowwise(), single_weight=True)(x, [16, 48])
    with pytest.raises(ValueError, match="integers without"):
        GroupedLinear(f, "d", 2, 32, 48, Rowwise())(x, o)


def test_the_plan_says_what_is_balanced():
    module = Module()
    f = module.function("layer")
    x, o = f.argument("x", tensor("bf16", CAPACITY, 128)), f.argument("o", tensor("i32", GROUPS + 1))
    h = f.elementwise("math.tanh", x, name="h")
    layer = GroupedLinear(f, "fc", GROUPS, 128, 256, Rowwise(), single_weight=True, balanced=128)
    f.returns(f.elementwise("math.tanh", layer(h, o), name="y"))
    plan = fp8opt.compile(module).plan
    entries = plan["grouped"]
    assert [entry["value"] for entry in entries][0] == "fc" and len(entries) == 3
    for entry in entries:
        assert (entry["groups"], entry["align"], entry["capacity_rows"], entry["balanced_rows"]) == (GROUPS, 16, CAPACITY, 128)
        assert 0 < entry["balanced_us"] < entry["us"]
    assert 0 < plan["balanced_peak_bytes"] < plan["peak_bytes"]


def test_text_and_builder_give_the_same_program():
    module = Module(locations=False)
    f = module.function("expert")
    x = f.argument("x", tensor("bf16", 512, 128))
    layer = GroupedLinear(f, "fc", 2, 128, 256, Block128(), single_weight=True, balanced=256)
    offsets = f.argument("offsets", tensor("i32", 3), rows_per_group=128)
    f.returns(layer(x, offsets))
    text = """func.func @expert(%x: tensor<512x128xbf16> loc("x"), %w: tensor<2x256x128xbf16> {fp8.parameter} loc("fc.weight"),
    %offsets: tensor<3xi32> {fp8.rows_per_group = 128 : i64} loc("offsets")) -> tensor<512x256xbf16> {
  %y = fp8.grouped_linear %x, %w offsets(%offsets : tensor<3xi32>) recipe<block128> balanced = 256
      : tensor<512x128xbf16>, tensor<2x256x128xbf16> -> tensor<512x256xbf16> loc("fc")
  return %y : tensor<512x256xbf16>
}"""
    first, second = (re.sub(r'":\d+:\d+', '"', fp8opt.verify(program)) for program in (module, text))
    assert first == second and "fp8.grouped_linear" in first
    plans = [fp8opt.compile(program).plan for program in (module, text)]
    assert plans[0]["saved"] == plans[1]["saved"] and plans[0]["peak_bytes"] == plans[1]["peak_bytes"]
