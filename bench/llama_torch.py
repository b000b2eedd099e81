# ===- llama_torch.py - Llama-3-8B's layers in PyTorch ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The layers that the benchmarks of captured graphs run: feed-forward and whole block (torch_layers.py), with float8
# linears of one scale a row as torchao's recipe of that name has them. Any device, the meta device too. Needs torch.
#
# ===------------------------------------------------------=== #
"""Feed-forward layers and blocks of Llama with float8 rowwise linears."""

import torch
from torch import nn

from torch_layers import Block, Residual, rotary

E4M3 = torch.float8_e4m3fn
LARGEST = 448.0


def cast(x, dim):
    """`x` in e4m3 with one scale for each slice along `dim`, and the factors that undo it."""
    amax = torch.amax(torch.abs(x), dim=dim, keepdim=True).to(torch.float32)
    scale = LARGEST / torch.clamp(amax, min=1e-12)
    data = torch.clamp(x.to(torch.float32) * scale, -LARGEST, LARGEST).to(E4M3)
    return data, 1.0 / scale


def product(a, b):
    """[M, K] times [K, N] in float8, one scale a row of `a` and a column of `b`."""
    qa, sa = cast(a, -1)
    qb, sb = cast(b, 0)
    if qb.stride(0) != 1:
        qb = qb.t().contiguous().t()
    if qa.stride(1) != 1:
        qa = qa.contiguous()
    return torch._scaled_mm(qa, qb, scale_a=sa, scale_b=sb, out_dtype=torch.bfloat16, use_fast_accum=True)


class Rowwise(torch.autograd.Function):
    """x times the transpose of w, with the gradients of both; operands are saved in bf16 and cast again in backward."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return product(x, w.t())

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return product(g, w), product(g.t(), x)


class Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, dtype=torch.bfloat16) * inputs ** -0.5)

    def forward(self, x):
        return Rowwise.apply(x, self.weight)


class FeedForwardLayer(Residual):
    def __init__(self, dim, ffn, heads, groups):
        super().__init__(dim, ffn, Linear)

    def forward(self, x, cos, sin):
        return super().forward(x)


class Layer(Block):
    def __init__(self, dim, ffn, heads, groups):
        super().__init__(dim, ffn, heads, groups, Linear)
        self.to(torch.bfloat16)


LAYERS = {"ffn": FeedForwardLayer, "block": Layer}


class Stack(nn.Module):
    """Layers one after the other. `wrap(layer, x, cos, sin)` runs one, by default by calling it."""

    def __init__(self, kind, layers, dim, ffn, heads, groups, wrap=None):
        super().__init__()
        self.layers = nn.ModuleList(LAYERS[kind](dim, ffn, heads, groups) for _ in range(layers))
        self.wrap = wrap or (lambda layer, *inputs: layer(*inputs))

    def forward(self, x, cos, sin):
        for layer in self.layers:
            x = self.wrap(layer, x, cos, sin)
        return x


def inputs(tokens, dim, heads, device):
    """x, which requires its gradient, and the tables of rotary positions."""
    x = torch.randn(tokens, dim, device=device, dtype=torch.bfloat16).requires_grad_()
    cos, sin = rotary(tokens, dim // heads, device)
    return x, cos.bfloat16(), sin.bfloat16()
