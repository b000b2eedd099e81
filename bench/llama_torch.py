# ===- llama_torch.py - Llama-3-8B's layers in PyTorch ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The layers that the benchmarks of captured graphs run: feed-forward and whole block, with float8 linears of one scale a row
# as torchao's recipe of that name has them. Any device, the meta device too. Needs torch.
#
# ===------------------------------------------------------=== #
"""Feed-forward layers and blocks of Llama with float8 rowwise linears."""

import torch
import torch.nn.functional as F
from torch import nn

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


class FeedForward(nn.Module):
    """w2(silu(w1(x)) * w3(x))."""

    def __init__(self, dim, ffn):
        super().__init__()
        self.w1, self.w3, self.w2 = Linear(dim, ffn), Linear(dim, ffn), Linear(ffn, dim)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Norm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim, dtype=torch.bfloat16))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


class Attention(nn.Module):
    """Causal attention over one sequence, with rotary positions."""

    def __init__(self, dim, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, dim // heads
        self.wq, self.wk = Linear(dim, dim), Linear(dim, groups * self.size)
        self.wv, self.wo = Linear(dim, groups * self.size), Linear(dim, dim)

    def forward(self, x, cos, sin):
        tokens = x.shape[0]
        q, k, v = (w(x).view(1, tokens, -1, self.size).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        k, v = (y.repeat_interleave(self.heads // self.groups, dim=1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(tokens, -1))


def rotated(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class FeedForwardLayer(nn.Module):
    def __init__(self, dim, ffn, heads, groups):
        super().__init__()
        self.feed_forward = FeedForward(dim, ffn)

    def forward(self, x, cos, sin):
        return x + self.feed_forward(x)


class Block(nn.Module):
    def __init__(self, dim, ffn, heads, groups):
        super().__init__()
        self.attention_norm, self.attention = Norm(dim), Attention(dim, heads, groups)
        self.ffn_norm, self.feed_forward = Norm(dim), FeedForward(dim, ffn)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.feed_forward(self.ffn_norm(x))


LAYERS = {"ffn": FeedForwardLayer, "block": Block}


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
    size = dim // heads
    x = torch.randn(tokens, dim, device=device, dtype=torch.bfloat16).requires_grad_()
    position = torch.arange(tokens, device=device, dtype=torch.float32)
    frequency = 500000.0 ** (-torch.arange(0, size, 2, device=device, dtype=torch.float32) / size)
    angle = torch.outer(position, frequency).repeat(1, 2)
    return x, angle.cos().bfloat16(), angle.sin().bfloat16()
