# RUN: %python %s
# REQUIRES: numpy, ml_dtypes
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Single ops of the reference against NumPy, bit by bit, in the order of operations of docs/architecture.md."""

import os
import sys

import ml_dtypes
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from interpret import check, finish, run, tensor  # noqa: E402

F32, BF16, E4M3, E5M2 = np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
rng = np.random.default_rng(17)


def scale_shape(shape, group):
    return [-(-dim // size) if size else 1 for dim, size in zip(shape, group)]


def spread(scale, shape, group):
    """The scale of each element."""
    index = np.ix_(*[np.arange(dim) // size if size else np.zeros(dim, int) for dim, size in zip(shape, group)])
    return scale[index]


def factors(scale, shape, group):
    return spread(F32(1) / scale, shape, group)


def ordered_matmul(a, b, k_group, da, db, c=None):
    """k ascending, product and sum rounded apart; blocks summed, scaled and added."""
    m, k, n = a.shape[0], a.shape[1], b.shape[1]
    total = np.zeros((m, n), F32)
    for start in range(0, k, k_group or k):
        acc = np.zeros((m, n), F32)
        for i in range(start, min(start + (k_group or k), k)):
            acc = acc + a[:, i:i + 1] * b[i:i + 1, :]
        if da is not None:
            acc = acc * da[:, start:start + 1]
        if db is not None:
            acc = acc * db[start:start + 1, :]
        total = total + acc if k_group else acc
    return total if c is None else total + c.astype(F32)


def test_matmul(title, m, n, k, a_type, b_type, a_group=None, b_group=None, result=BF16, acc=None):
    a = rng.standard_normal((m, k)).astype(F32).astype(a_type)
    b = rng.standard_normal((k, n)).astype(F32).astype(b_type)
    arrays, arguments = [a, b], [f"%a: {tensor(a_type, a.shape, a_group)}", f"%b: {tensor(b_type, b.shape, b_group)}"]
    scales = accumulate = ""
    da = db = c = None
    if a_group is not None:
        sa = np.exp2(rng.uniform(-3, 3, scale_shape(a.shape, a_group))).astype(F32)
        sb = np.exp2(rng.uniform(-3, 3, scale_shape(b.shape, b_group))).astype(F32)
        arrays += [sa, sb]
        arguments += [f"%sa: {tensor(F32, sa.shape)}", f"%sb: {tensor(F32, sb.shape)}"]
        scales = f"scales(%sa, %sb : {tensor(F32, sa.shape)}, {tensor(F32, sb.shape)})"
        da, db = factors(sa, a.shape, a_group), factors(sb, b.shape, b_group)
    if acc is not None:
        c = rng.standard_normal((m, n)).astype(acc)
        arrays.append(c)
        arguments.append(f"%c: {tensor(acc, c.shape)}")
        accumulate = f"acc(%c : {tensor(acc, c.shape)})"
    types = f"{tensor(a_type, a.shape, a_group)}, {tensor(b_type, b.shape, b_group)} -> {tensor(result, (m, n))}"
    (y,) = run(f"func.func @f({', '.join(arguments)}) -> {tensor(result, (m, n))} {{\n"
               f"  %y = fp8.matmul %a, %b {scales} {accumulate} : {types}\n"
               f"  return %y : {tensor(result, (m, n))}\n}}", arrays, [(result, (m, n))])
    k_group = (a_group[1] or b_group[0]) if a_group else 0
    expected = ordered_matmul(a.astype(F32), b.astype(F32), k_group, da, db, c).astype(result)
    check(f"matmul {title} {m}x{n}x{k}", y, expected)


def ordered_sum(x):
    """256 partial sums, then halving, over the last axis."""
    partial = np.zeros(x.shape[:-1] + (256,), F32)
    for i in range(x.shape[-1]):
        partial[..., i % 256] = partial[..., i % 256] + x[..., i]
    half = 128
    while half:
        partial = partial[..., :half] + partial[..., half:2 * half]
        half //= 2
    return partial[..., 0]


def test_reduce(shape, axes, dtype, result):
    x = rng.standard_normal(shape).astype(F32).astype(dtype)
    kept = [1 if d in axes else size for d, size in enumerate(shape)]
    source, target = tensor(dtype, shape), tensor(result, kept)
    total, largest = run(
        f"func.func @f(%x: {source}) -> ({target}, {target}) {{\n"
        f"  %s = fp8.reduce sum %x {list(axes)} : {source} -> {target}\n"
        f"  %m = fp8.reduce max %x {list(axes)} : {source} -> {target}\n"
        f"  return %s, %m : {target}, {target}\n}}", [x], [(result, kept)] * 2)
    rest = [d for d in range(len(shape)) if d not in axes]
    flat = x.astype(F32).transpose(rest + list(axes)).reshape([shape[d] for d in rest] + [-1])
    check(f"reduce sum {shape} {axes}", total, ordered_sum(flat).reshape(kept).astype(result))
    check(f"reduce max {shape} {axes}", largest, flat.max(-1).reshape(kept).astype(result))


def test_amax(shape, group):
    x = rng.standard_normal(shape).astype(BF16)
    x[0, 0] = -9
    x[-1, -1] = np.nan
    target = scale_shape(shape, group)
    (y,) = run(f"func.func @f(%x: {tensor(BF16, shape)}) -> {tensor(F32, target)} {{\n"
               f"  %y = fp8.amax %x group = {list(group)} : {tensor(BF16, shape)} -> {tensor(F32, target)}\n"
               f"  return %y : {tensor(F32, target)}\n}}", [x], [(F32, target)])
    expected = np.zeros(target, F32)
    for i in range(shape[0]):
        for j in range(shape[1]):
            at = (i // group[0] if group[0] else 0, j // group[1] if group[1] else 0)
            expected[at] = np.maximum(expected[at], np.abs(F32(x[i, j])))
    check(f"amax {shape} {group}", y, expected)


def test_scaled(shape, group):
    """cast and dequantize with groups."""
    x = (3 * rng.standard_normal(shape)).astype(BF16)
    s = np.exp2(rng.uniform(-4, 8, scale_shape(shape, group))).astype(F32)
    q_type = tensor(E4M3, shape, group)
    q, d = run(f"func.func @f(%x: {tensor(BF16, shape)}, %s: {tensor(F32, s.shape)}) -> ({q_type}, {tensor(BF16, shape)}) {{\n"
               f"  %q = fp8.cast %x, %s : {tensor(BF16, shape)}, {tensor(F32, s.shape)} -> {q_type}\n"
               f"  %d = fp8.dequantize %q, %s : {q_type}, {tensor(F32, s.shape)} -> {tensor(BF16, shape)}\n"
               f"  return %q, %d : {q_type}, {tensor(BF16, shape)}\n}}", [x, s], [(E4M3, shape), (BF16, shape)])
    expected = np.clip(x.astype(F32) * spread(s, shape, group), -448, 448).astype(E4M3)
    check(f"cast {shape} {group}", q, expected)
    check(f"dequantize {shape} {group}", d, (expected.astype(F32) * factors(s, shape, group)).astype(BF16))


def test_elementwise():
    a, b = (rng.standard_normal(2000).astype(BF16) for _ in range(2))
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 3e38], F32).astype(BF16)
    a[:64], b[:64] = np.repeat(special, 8), np.tile(special, 8)
    t, count = tensor(BF16, [2000]), [2000]
    names = ["addf", "subf", "mulf", "divf", "maximumf", "minimumf"]
    body = "".join(f"  %{name} = arith.{name} %a, %b : {t}\n" for name in names)
    body += f"  %c = arith.cmpf ogt, %a, %b : {t}\n  %s = arith.select %c, %a, %b : tensor<2000xi1>, {t}\n"
    body += f"  %n = arith.negf %a : {t}\n  %abs = math.absf %a : {t}\n"
    results = [f"%{name}" for name in names] + ["%s", "%n", "%abs"]
    y = run(f"func.func @f(%a: {t}, %b: {t}) -> ({', '.join([t] * 9)}) {{\n{body}"
            f"  return {', '.join(results)} : {', '.join([t] * 9)}\n}}", [a, b], [(BF16, count)] * 9)
    x, z = a.astype(F32), b.astype(F32)

    def extremum(function, zero):
        """NumPy's maximum and minimum propagate NaN; of two zeros they may give either."""
        both_zero = (x == 0) & (z == 0)
        zeros = np.where(zero(np.signbit(x), np.signbit(z)), F32(-0.0), F32(0.0))
        return np.where(both_zero, zeros, function(x, z))

    with np.errstate(all="ignore"):
        expected = [x + z, x - z, x * z, x / z, extremum(np.maximum, np.logical_and),
                    extremum(np.minimum, np.logical_or), np.where(x > z, x, z), -x, np.abs(x)]
    for name, value, right in zip(results, y, expected):
        check(f"bf16 {name}", value, right.astype(F32).astype(BF16))


def test_views():
    x = rng.standard_normal((4, 6, 10)).astype(F32)
    t = tensor(F32, x.shape)
    shapes = [(10, 4, 6), (10, 4, 6), (2, 6, 3), (5, 9, 12), (24, 10), (4, 6, 10)]
    types = [tensor(F32, shape) for shape in shapes]
    y = run(f"func.func @f(%x: {t}, %r: tensor<4x1x10xf32>) -> ({', '.join(types)}) {{\n"
            f"  %p = fp8.permute %x [2, 0, 1] : {t} -> {types[0]}\n"
            f"  %t = fp8.transpose %x [2, 0, 1] : {t} -> {types[1]}\n"
            f"  %s = fp8.slice %x [1, 0, 7] : {t} -> {types[2]}\n"
            f"  %d = fp8.pad %x [0, 2, 1] : {t} -> {types[3]}\n"
            f"  %h = fp8.reshape %x : {t} -> {types[4]}\n"
            f"  %b = fp8.broadcast %r : tensor<4x1x10xf32> -> {types[5]}\n"
            f"  return %p, %t, %s, %d, %h, %b : {', '.join(types)}\n}}", [x, x[:, :1]],
            [(F32, shape) for shape in shapes])
    padded = np.zeros((5, 9, 12), F32)
    padded[:4, 2:8, 1:11] = x
    expected = [x.transpose(2, 0, 1), x.transpose(2, 0, 1), x[1:3, :, 7:], padded, x.reshape(24, 10),
                np.broadcast_to(x[:, :1], x.shape)]
    for name, value, right in zip(["permute", "transpose", "slice", "pad", "reshape", "broadcast"], y, expected):
        check(name, value, right)


def test_state():
    """A step pushes twice, the end of it updates the scale and rolls the history; with an amax of 0 the scale stays."""
    text = ("func.func @f(%a: tensor<1x1xf32>, %h: tensor<4xf32> {fp8.state}, %s: tensor<1x1xf32> {fp8.state},\n"
            "    %z: tensor<4xf32> {fp8.state}, %t: tensor<1x1xf32> {fp8.state}) {\n"
            "  fp8.push_amax %a, %h : tensor<1x1xf32>, tensor<4xf32>\n"
            "  fp8.update_scale %h, %s format = f8E5M2 {margin = 1 : i64} : tensor<4xf32>, tensor<1x1xf32>\n"
            "  fp8.update_scale %z, %t format = f8E4M3FN : tensor<4xf32>, tensor<1x1xf32>\n"
            "  return\n}")
    one = np.full((1, 1), 5, F32)
    for amax, history, slots, scale in [
            (2.5, [1, 3, 0, 0.5], [0, 2.5, 3, 0], 57344 / 3 / 2),
            (4.0, [1, 3, 0, 0.5], [0, 4, 3, 0], 57344 / 4 / 2),
            (0.5, [1, 0, 0, 9], [0, 1, 0, 0], 57344 / 9 / 2),
            (np.nan, [1, 0, 0, 9], [0, np.nan, 0, 0], np.nan),
            (np.inf, [1, 0, 0, 9], [0, np.inf, 0, 0], np.nan)]:
        h, s, z, t = run(text, [np.full((1, 1), amax, F32), np.array(history, F32), one, np.zeros(4, F32), one], [],
                         states=(1, 2, 3, 4))
        check(f"history after {amax}", h, np.array(slots, F32))
        check(f"scale after {amax}", s, np.full((1, 1), scale, F32))
        check("scale without an amax", t, one)


def main():
    test_matmul("bf16", 5, 19, 33, BF16, BF16)
    test_matmul("bf16 to f32 with accumulator", 8, 16, 64, BF16, BF16, result=F32, acc=F32)
    test_matmul("f32 with bf16 accumulator", 3, 7, 40, F32, F32, acc=BF16)
    test_matmul("per tensor", 17, 35, 48, E4M3, E5M2, (0, 0), (0, 0))
    test_matmul("rows by columns", 16, 48, 96, E4M3, E4M3, (1, 0), (0, 1), result=F32)
    test_matmul("1x128 by 128x128", 6, 130, 300, E4M3, E4M3, (1, 128), (128, 128))
    test_matmul("1x128 by 128x1", 6, 20, 256, E5M2, E4M3, (1, 128), (128, 1), acc=BF16)
    test_matmul("128x128 by 128x1", 140, 20, 256, E4M3, E4M3, (128, 128), (128, 1))
    test_reduce((3, 1000), (1,), F32, F32)
    test_reduce((700, 5), (0,), BF16, F32)
    test_reduce((6, 5, 70), (0, 2), BF16, BF16)
    for group in [(0, 0), (1, 0), (0, 1), (1, 128), (128, 1), (128, 128), (2, 3)]:
        test_amax((150, 260), group)
        test_scaled((150, 260), group)
    test_elementwise()
    test_views()
    test_state()
    finish()


main()
