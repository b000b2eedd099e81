# ===- test_torch_gradients.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compiled steps against PyTorch: its autograd, its FP8 casts, its bf16 ops. Skipped where torch is not installed.
#
# ===------------------------------------------=== #
"""Two comparisons of each runnable example, by |a - b| / |b| in the 2-norm for the worst output.

In f64 and without FP8, autograd derives the gradients of the function that the step approximates; FP8 itself moves the
outputs by 5 to 13 % from those (NOISE, as in test_gradients.py).

With FP8 linears as an autograd function of torch's own casts, and everything else torch's bf16 ops, both sides round at
the same places. Gradients of the uses of a value are summed in the order of the program, which an autograd function says
too: autograd's own order rounds otherwise, and a last bit of a bf16 gradient, cast to E5M2, is worth up to 5 % of the
outputs. What is left are sums in f64 instead of f32 and torch's exp, which now and then tip the rounding of a bf16 value
and with it a scale; BOUND is what was seen, times three, and below NOISE.
"""

import pytest

torch = pytest.importorskip("torch")

import numpy as np
from test_gradients import NOISE, SEED, run_example

from fp8opt.testing.inputs import make_input
from fp8opt.testing.numerics import relative_error

BOUND = {"llama3_ffn_small": 4e-2, "ffn_tensorwise": 3e-2, "ffn_delayed": 1e-5, "ffn_block128": 1e-2}
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
ALL = "all"


def group_max(x, group):
    """The largest |x| of each group of [rows, columns], repeated to the shape of `x`."""
    size = [dim if entry == ALL else entry for entry, dim in zip(group, x.shape)]
    tiles = x.abs().reshape(x.shape[0] // size[0], size[0], x.shape[1] // size[1], size[1])
    return tiles.amax((1, 3), keepdim=True).expand(tiles.shape).reshape(x.shape)


def scale_of(recipe, amax, dtype):
    largest = torch.finfo(dtype).max
    if recipe == "rowwise":
        return (largest / amax.double().clamp(min=1e-12)).float()
    scale = torch.where(amax == 0, torch.ones_like(amax), largest / amax)
    if recipe == "block128":
        mantissa, exponent = torch.frexp(scale)
        scale = torch.ldexp(torch.full_like(mantissa, 0.5), exponent)
    return scale


def quantised(recipe, x, group, dtype):
    """`x` through FP8 and back, in f64: exact values to multiply."""
    x = x.float()
    # A delayed scale is 1 before its first update.
    scale = torch.ones_like(x) if recipe == "delayed" else scale_of(recipe, group_max(x, group), dtype)
    largest = torch.finfo(dtype).max
    values = (x * scale).clamp(-largest, largest).to(dtype).float()
    return values.double() * (1 / scale).double()


# Groups of the operands of the three products, each of the tensor as it is stored.
TENSOR, ROW, COLUMN = (ALL, ALL), (1, ALL), (ALL, 1)
GROUPS = {
    "tensorwise": ((TENSOR, TENSOR), (TENSOR, TENSOR), (TENSOR, TENSOR)),
    "delayed": ((TENSOR, TENSOR), (TENSOR, TENSOR), (TENSOR, TENSOR)),
    "rowwise": ((ROW, ROW), (ROW, COLUMN), (COLUMN, COLUMN)),
    "block128": (((1, 128), (128, 128)), ((1, 128), (128, 128)), ((128, 1), (128, 1))),
}


class Fp8Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, recipe):
        ctx.save_for_backward(x, w)
        ctx.recipe = recipe
        (x_group, w_group), _, _ = GROUPS[recipe]
        product = quantised(recipe, x, x_group, E4M3) @ quantised(recipe, w, w_group, E4M3).T
        return product.float().to(x.dtype)

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        recipe = ctx.recipe
        _, dgrad, wgrad = GROUPS[recipe]
        dtype = E5M2 if recipe in ("tensorwise", "delayed") else E4M3
        dx = quantised(recipe, dy, dgrad[0], dtype) @ quantised(recipe, w, dgrad[1], E4M3)
        dw = quantised(recipe, dy, wgrad[0], dtype).T @ quantised(recipe, x, wgrad[1], E4M3)
        return dx.float().to(x.dtype), dw.float().to(w.dtype), None


class Uses(torch.autograd.Function):
    """A value with three uses, whose gradients are added in their order."""

    @staticmethod
    def forward(ctx, x):
        return x.clone(), x.clone(), x.clone()

    @staticmethod
    def backward(ctx, first, second, third):
        return (first + second) + third


def run_step(sizes, recipe):
    """The result and the gradients of x and of the weights, by autograd. `recipe` None: in f64, without FP8."""
    layers, tokens, dim, ffn = (int(sizes[key]) for key in ("layers", "tokens", "dim", "ffn"))
    dtype = torch.bfloat16 if recipe else torch.float64

    def read(name, shape, scale=1.0):
        return torch.from_numpy(make_input(name, shape, "bf16", SEED, scale)).to(dtype)

    def linear(x, w):
        return Fp8Linear.apply(x, w, recipe) if recipe else x @ w.T

    weights = []
    x = first = read("x", (tokens, dim)).requires_grad_()
    for layer in range(layers):
        w1, w3, w2 = (read(f"layers.{layer}.{name}", shape, 1 / np.sqrt(shape[1])).requires_grad_()
                      for name, shape in (("w1", (ffn, dim)), ("w3", (ffn, dim)), ("w2", (dim, ffn))))
        weights += [w1, w3, w2]
        gated, upward, kept = Uses.apply(x)
        x = kept + linear(torch.nn.functional.silu(linear(gated, w1)) * linear(upward, w3), w2)
    x.backward(read(f"d_layers.{layers - 1}.out", (tokens, dim)))
    return [tensor.detach().double().numpy() for tensor in (x, first.grad, *(w.grad for w in weights))]


@pytest.mark.parametrize("name", BOUND)
def test_example(root, tools, tmp_path, name):
    sizes, outputs = run_example(root, tools, tmp_path, name)
    outputs = {key: value for key, value in outputs.items() if not key.startswith("state:")}
    expected, exact = run_step(sizes, sizes["recipe"]), run_step(sizes, None)
    assert len(outputs) == len(expected)
    errors = {output: relative_error(actual, want) for (output, actual), want in zip(outputs.items(), expected)}
    worst = max(errors, key=errors.get)
    print(f"{name}: worst error {errors[worst]:.2e} in {worst}")
    assert errors[worst] < BOUND[name]
    for (output, actual), want in zip(outputs.items(), exact):
        assert relative_error(actual, want) < NOISE, output
