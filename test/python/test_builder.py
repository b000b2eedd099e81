# ===- test_builder.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The builder's text parses and verifies, its names are unique, its locations are the user's lines, and what it cannot
# infer it refuses.
#
# ===----------------------------------=== #

import inspect
import re
import subprocess

import pytest

from fp8opt import Attribute, Block128, Module, Rowwise, Tensorwise, tensor
from fp8opt.syntax import float_literal


def line_here():
    return inspect.currentframe().f_back.f_lineno


def test_every_op_of_the_builder_verifies(fp8_opt):
    module = Module(grid={"tp": 4})
    f = module.function("all")
    x = f.argument("x", tensor("bf16", 64, 32))
    w = f.parameter("w", tensor("bf16", 48, 32))
    y = f.linear(x, w, "rowwise", name="y")
    delayed = f.linear(x, w, Tensorwise(delayed=16), f.delayed_state("w", 16))
    product = f.matmul(y, f.permute(delayed, [1, 0]))
    moved = f.transpose(product, [1, 0])
    flat = f.reshape(f.slice(moved, [16, 0], [32, 64]), [2048])
    wide = f.extf(flat)
    shifted = f.elementwise("arith.addf", f.elementwise("math.exp", wide), f.constant(1.0, wide.type), checkpoint=True)
    total = f.reduce("sum", shifted, [0])
    scale = f.scale(f.amax(x, [1, 0]), "f8E4M3FN", eps=1e-12, division="double", pow2="floor", margin=1,
                    nonfinite="saturate")
    q = f.cast(x, scale, "f8E4M3FN", [1, 0], saturate=False)
    weight_scale = f.scale(f.amax(w, [1, 0]), "f8E4M3FN")
    v = f.cast(w, weight_scale, "f8E4M3FN", [1, 0])
    scaled = f.matmul(q, v.T, scales=(scale, weight_scale.T), acc=y, fast_accum=True)
    gathered = f.all_to_all(f.all_gather(x, "tp", 4), "tp", 4, 0, 1)
    halves = f.update_slice(x, [64, 0], (128, 32), into=f.update_slice(x, [0, 0], (128, 32)))
    word = tensor("i32", 1, 1)
    drawn = f.random(f.argument("seed", word), f.argument("offset", word), (64, 32), 7,
                     {1: ("tp", f.argument("rank", word, coordinate="tp"))})
    kept = f.select(f.compare("oge", drawn, f.constant(0.5, drawn.type)), drawn, f.constant(0.0, drawn.type))
    o, _ = f.opaque("unknown", [gathered], [gathered.type, tensor("i64", 3)], scratch_bytes=4096, recompute="never",
                    stateful=True, aliases=[[0, 0]], adjoint={"name": "unknown_backward", "operands": [0], "results": []})
    f.returns(f.truncf(f.broadcast(total, [2048])), f.reduce("max", x, [0, 1], element="f32"), scaled,
              f.dequantize(q, scale), o, kept, halves, f.pad(x, [0, 16], [64, 48]), placement="caller")
    text = fp8_opt([], str(module))
    assert 'fp8.placement = "caller"' in text
    assert text.count("fp8.linear") == 2


def test_any_op_by_name(fp8_opt):
    module = Module()
    f = module.function("generic")
    x = f.argument("x", tensor("f32", 8, 4))
    (tanh,) = f.op("math.tanh", [x], [x.type], {"fp8.policy": "save"})
    (less,) = f.op("arith.cmpf", [tanh, x], [tensor("i1", 8, 4)], {"predicate": Attribute("4 : i64")}, "less")
    (chosen,) = f.op("arith.select", [less, x, tanh], [x.type])
    (maxima,) = f.op("fp8.amax", [chosen], [tensor("f32", 8, 1)], {"group": [1, 0]})
    f.returns(maxima)
    text = fp8_opt(["--mlir-print-debuginfo"], str(module))
    assert 'math.tanh' in text and 'fp8.policy = "save"' in text and "group = [1, 0]" in text and '"less"' in text


def test_operators(fp8_opt):
    module = Module()
    f = module.function("operators")
    x = f.argument("x", tensor("f32", 64, 32))
    row = f.argument("row", tensor("f32", 64, 1))
    y = (1.0 - x) / (2.0 + abs(x)) * row
    y = 3.0 * y - -x @ x.T @ x
    f.returns(0.5 / (y + 1.0))
    text = fp8_opt([], str(module))
    for op, count in (("arith.subf", 2), ("arith.divf", 2), ("arith.addf", 2), ("arith.mulf", 2), ("arith.negf", 1),
                      ("math.absf", 1), ("fp8.matmul", 2), ("fp8.broadcast", 1), ("fp8.permute", 1)):
        assert text.count(op) == count, op


def test_recipes_are_what_the_dialect_reads(fp8_opt):
    module = Module()
    f = module.function("recipes")
    x = f.argument("x", tensor("bf16", 128, 128))
    w = f.parameter("w", tensor("bf16", 128, 128))
    recipes = [Rowwise(), Rowwise(pow2="floor", fast=["fprop"]), Tensorwise(dy="f8E4M3FN", fast=()), Block128(pow2="none")]
    f.returns(*[f.linear(x, w, recipe) for recipe in recipes])
    text = fp8_opt([], str(module))
    found = re.findall(r"recipe ?<([^>]*)>", text)
    assert found == [str(recipe) for recipe in recipes]


def test_names_are_unique_even_when_numbered_by_hand():
    module = Module()
    f = module.function("names")
    x = f.argument("x", tensor("f32", 8))
    names = [f.elementwise("arith.negf", x, name=name).name for name in ("a", "a_1", "a")]
    assert names == ["a", "a_1", "a_2"]


def test_any_printable_name_reaches_the_plan(fp8_opt):
    module = Module()
    f = module.function("names")
    x = f.argument("0.in put", tensor("f32", 8))
    with f.scope("layers.0"):
        y = f.elementwise("math.exp", x, name='say "ü"\\')
    f.returns(y, names=["a result"])
    text = fp8_opt(["--mlir-print-debuginfo"], str(module))
    assert '"0.in put"' in text and '"layers.0.say \\22\\C3\\BC\\22\\\\"' in text and 'fp8.name = "a result"' in text


def test_locations_are_the_lines_of_the_user(fp8_opt):
    module = Module()
    f = module.function("lines")
    x = f.argument("x", tensor("f32", 8))
    y = x * x; line = line_here()  # noqa: E702
    with f.location("model.py", 7):
        z = f.elementwise("math.exp", y, name="z")
    f.returns(z)
    text = fp8_opt(["--mlir-print-debuginfo", "--mlir-print-local-scope"], str(module))
    assert f'loc("mulf"("{__file__}":{line}:9))' in text
    assert 'loc("z"("model.py":7:1))' in text


def test_an_error_of_the_compiler_points_at_the_line_of_the_user(tools):
    module = Module()
    f = module.function("wrong")
    x = f.argument("x", tensor("bf16", 64, 32))
    y = f.op("fp8.amax", [x], [tensor("f32", 64, 2)], {"group": [1, 0]}); line = line_here()  # noqa: E702
    f.returns(*y)
    result = subprocess.run([tools / "fp8-opt", "-"], input=str(module), capture_output=True, text=True)
    assert result.returncode == 1
    assert re.search(rf"{re.escape(__file__)}:{line}:\d+: error: 'fp8.amax' op expected", result.stderr), result.stderr


def test_values_of_forward_become_residuals(fp8_opt):
    module = Module()
    f = module.function("joint")
    x = f.argument("x", tensor("f32", 8, 8))
    g = f.argument("g", tensor("f32", 8, 8), "fp8.tangent")
    step = f.step()
    with step.forward():
        e = f.elementwise("math.exp", x, name="e")
        step.yields(e * x)
    with step.backward():
        step.yields(g * e * x + g * e)
    f.returns(*step.results, names=["y", "d_x"])
    text = fp8_opt(["--mlir-print-debuginfo", "--mlir-print-local-scope"], str(module))
    assert len(re.findall(r"residuals\(%\w+\)", text)) == 1
    plan = fp8_opt(["--compile=policy=save-all", "--emit=plan"], str(module))
    assert '"value": "e"' in plan


def build_two(build):
    module = Module()
    f = module.function("bad")
    return build(f, f.argument("x", tensor("bf16", 8, 4)), module)


def value_of_a_closed_region(f, x, module):
    step = f.step()
    with step.forward():
        inner = x + x
        step.yields(inner)
    return x + inner


@pytest.mark.parametrize("build", [
    lambda f, x, m: f.elementwise("arith.addf", x, f.extf(x)),
    lambda f, x, m: f.argument("", x.type),
    lambda f, x, m: f.argument("a\nb", x.type),
    lambda f, x, m: tensor("bf16", 0),
    lambda f, x, m: tensor("f80", 8),
    lambda f, x, m: tensor("bf16", 8, group=[1]),
    lambda f, x, m: tensor("f8E4M3FN", 8, group=[1, 1]),
    lambda f, x, m: f.linear(x, x, "colwise"),
    lambda f, x, m: f.linear(x, x, Tensorwise(delayed=4)),
    lambda f, x, m: f.linear(x, x, Rowwise(), f.delayed_state("w")),
    lambda f, x, m: Rowwise(x="bf16"),
    lambda f, x, m: Tensorwise(delayed=0),
    lambda f, x, m: Block128(fast=["backward"]),
    lambda f, x, m: f.permute(x, [0, 0]),
    lambda f, x, m: f.reduce("sum", x, [2]),
    lambda f, x, m: f.reshape(x, [31]),
    lambda f, x, m: f.constant(0.5, tensor("i32", 1)),
    lambda f, x, m: m.function("other").elementwise("math.absf", x),
    lambda f, x, m: f.elementwise("math.absf", 3),
    lambda f, x, m: f.mark(x, policy="save"),
    lambda f, x, m: f.returns(),
    value_of_a_closed_region,
])
def test_what_has_no_type_is_refused(build):
    with pytest.raises(ValueError, match="expected"):
        build_two(build)


@pytest.mark.parametrize("value, element, text", [
    (1.0, "f32", "1.000000e+00"), (1 / 3, "f32", "3.33333333333333315e-01"), (float("inf"), "f32", "0x7F800000"),
    (float("-inf"), "bf16", "0xFF80"), (float("nan"), "bf16", "0x7FC0"), (float("inf"), "f16", "0x7C00"),
    (float("nan"), "f64", "0x7FF8000000000000"),
])
def test_float_literals(value, element, text, fp8_opt):
    assert float_literal(value, element) == text
    module = Module()
    f = module.function("constant")
    f.returns(f.constant(value, tensor(element, 2)))
    fp8_opt([], str(module))
