# ===- torch_layers.py - Llama's layers in PyTorch ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The layers of Llama that tests and benchmarks capture, in plain torch. What a linear is, is the caller's to say. Needs torch.
#
# ===----------------------------------------------------=== #
"""Feed-forward layers and blocks of Llama."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

__all__ = ["Attention", "Block", "FeedForward", "Norm", "Residual", "linear", "rotary", "rotate"]

# The plain linear: `inputs` to `outputs`, without a bias.
linear = partial(nn.Linear, bias=False)


class FeedForward(nn.Module):
    """w2(silu(w1(x)) * w3(x))."""

    def __init__(self, dim, hidden, linear=linear):
        super().__init__()
        self.w1, self.w3, self.w2 = linear(dim, hidden), linear(dim, hidden), linear(hidden, dim)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Norm(nn.Module):
    """The root-mean-square norm, computed in f32."""

    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


class Attention(nn.Module):
    """Causal attention with rotary positions, over [tokens, dim] or [batch, tokens, dim]; `groups` heads of keys and values."""

    def __init__(self, dim, heads, groups, linear=linear):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, dim // heads
        self.wq, self.wk = linear(dim, dim), linear(dim, groups * self.size)
        self.wv, self.wo = linear(dim, groups * self.size), linear(dim, dim)

    def forward(self, x, cos, sin):
        batch = x.shape[0] if x.dim() == 3 else 1
        q, k, v = (w(x).view(batch, x.shape[-2], -1, self.size).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (y.repeat_interleave(self.heads // self.groups, dim=1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(x.shape))


def rotate(x, cos, sin):
    """`x` turned by the angles of its positions."""
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


def rotary(tokens, size, device=None):
    """The cosines and sines of `tokens` positions for heads of `size`, in f32."""
    position = torch.arange(tokens, device=device, dtype=torch.float32)
    frequency = 500000.0 ** (-torch.arange(0, size, 2, device=device, dtype=torch.float32) / size)
    angle = torch.outer(position, frequency).repeat(1, 2)
    return angle.cos(), angle.sin()


class Residual(nn.Module):
    """A feed-forward layer with its residual connection."""

    def __init__(self, dim, hidden, linear=linear):
        super().__init__()
        self.feed_forward = FeedForward(dim, hidden, linear)

    def forward(self, x):
        return x + self.feed_forward(x)


class Block(nn.Module):
    """A block of Llama: attention and a feed-forward layer, each behind a norm and with its residual connection."""

    def __init__(self, dim, hidden, heads, groups, linear=linear):
        super().__init__()
        self.attention_norm, self.attention = Norm(dim), Attention(dim, heads, groups, linear)
        self.ffn_norm, self.feed_forward = Norm(dim), FeedForward(dim, hidden, linear)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.feed_forward(self.ffn_norm(x))
