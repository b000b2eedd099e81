# ===- test_builder.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The builder's text parses and verifies, its names are unique, and what it cannot infer it refuses.
#
# ===----------------------------------=== #

import pytest

from fp8opt import Module, tensor


def test_every_op_of_the_builder_verifies(fp8_opt):
    module = Module()
    f = module.function("all")
    x = f.argument("x", tensor("bf16", 64, 32))
    w = f.argument("w", tensor("bf16", 48, 32), "fp8.parameter")
    y = f.linear(x, w, "rowwise", name="y")
    delayed = f.linear(x, w, "delayed", f.delayed_state("w", 16))
    product = f.matmul(y, f.permute(delayed, [1, 0]))
    moved = f.transpose(product, [1, 0])
    flat = f.reshape(f.slice(moved, [16, 0], [32, 64]), [2048])
    wide = f.extf(flat)
    shifted = f.elementwise("arith.addf", f.elementwise("math.exp", wide), f.constant(1.0, wide.type), checkpoint=True)
    total = f.reduce("sum", shifted, [0])
    f.returns(f.truncf(f.broadcast(total, [2048])), f.reduce("max", x, [0, 1], element="f32"), placement="caller")
    text = fp8_opt([], str(module))
    assert 'fp8.placement = "caller"' in text
    assert text.count("fp8.linear") == 2


def test_names_are_unique_even_when_numbered_by_hand():
    module = Module()
    f = module.function("names")
    x = f.argument("x", tensor("f32", 8))
    names = [f.elementwise("arith.negf", x, name=name).name for name in ("a", "a_1", "a")]
    assert names == ["a", "a_1", "a_2"]


@pytest.mark.parametrize("build", [
    lambda f, x: f.elementwise("arith.addf", x, f.extf(x)),
    lambda f, x: f.argument("no spaces", x.type),
    lambda f, x: tensor("bf16", 0),
    lambda f, x: tensor("f16", 8),
])
def test_what_has_no_type_is_refused(build):
    module = Module()
    f = module.function("bad")
    x = f.argument("x", tensor("bf16", 8))
    with pytest.raises(ValueError, match="expected"):
        build(f, x)
