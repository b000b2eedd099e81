# ===- torch_models.py - models that the tests capture ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Small models of the kinds that people train, in plain torch and from the libraries. Needs torch; `transformers_llama` and
# the float8 models need those packages.
#
# ===----------------------------------------------------------------=== #
"""Each function gives a module, its inputs, and keyword arguments. `MODELS` has them by name."""

import pathlib
import sys
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

from torch_layers import Block, Norm, Residual, rotary

BF16 = torch.bfloat16


class Llama(nn.Module):
    """Llama: embedding, blocks, norm, head, and the loss."""

    def __init__(self, vocabulary, layers, dim, hidden, heads, groups, tied=False):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim)
        self.layers = nn.ModuleList(Block(dim, hidden, heads, groups) for _ in range(layers))
        self.norm = Norm(dim)
        self.head = nn.Linear(dim, vocabulary, bias=False)
        if tied:
            self.head.weight = self.embedding.weight
        self.size = dim // heads

    def forward(self, tokens, labels):
        x = self.embedding(tokens)
        cos, sin = (table.to(x.dtype) for table in rotary(tokens.shape[1], self.size, tokens.device))
        for layer in self.layers:
            x = layer(x, cos, sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), labels.flatten())


class Stack(nn.Module):
    """Residual blocks; with `save`, each under a selective checkpoint that keeps these operations."""

    def __init__(self, layers, dim, hidden, save=()):
        super().__init__()
        self.layers = nn.ModuleList(Residual(dim, hidden) for _ in range(layers))
        self.save = list(save)

    def forward(self, x):
        for layer in self.layers:
            if self.save:
                context = partial(create_selective_checkpoint_contexts, self.save)
                x = checkpoint(layer, x, use_reentrant=False, context_fn=context)
            else:
                x = layer(x)
        return x


class Dropout(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.first, self.second = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        return self.second(F.dropout(F.gelu(self.first(x)), 0.25))


class ViewOfView(nn.Module):
    """Saves a slice of a transposition of a reshape of a product."""

    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        y = self.linear(x).view(x.shape[0], 4, -1).transpose(0, 1)[1:3]
        return (y * torch.tanh(y)).sum(0)


@torch.library.custom_op("fp8opt_test::twist", mutates_args=())
def twist(x: torch.Tensor) -> torch.Tensor:
    """An operation that nobody but this test knows."""
    return x.flip(0) * 2.0


@twist.register_fake
def _(x):
    return torch.empty_like(x)


twist.register_autograd(lambda context, gradient: gradient.flip(0) * 2.0)


class Custom(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        y = torch.ops.fp8opt_test.twist(self.linear(x))
        return y * torch.sigmoid(y)


def _input(*shape):
    return torch.randn(*shape, dtype=BF16, requires_grad=True)


def mlp():
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).to(BF16), (_input(32, 64),), {}


def feed_forward():
    return Stack(2, 64, 128).to(BF16), (_input(32, 64),), {}


def llama_block():
    angle = torch.randn(16, 16)
    cos, sin = angle.cos().to(BF16), angle.sin().to(BF16)
    return Block(64, 128, 4, 2).to(BF16), (_input(2, 16, 64), cos, sin), {}


def transformers_llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=128, use_cache=False)
    tokens = torch.randint(0, 128, (2, 16))
    return LlamaForCausalLM(config).to(BF16), (tokens,), {"labels": tokens}


def tied():
    tokens = torch.randint(0, 96, (2, 16))
    return Llama(96, 1, 64, 128, 4, 2, tied=True).to(BF16), (tokens, tokens), {}


def dropout():
    return Dropout(64).to(BF16), (_input(32, 64),), {}


def view_of_view():
    return ViewOfView(64).to(BF16), (_input(32, 64),), {}


def custom():
    return Custom(64).to(BF16), (_input(32, 64),), {}


_LIBRARIES = []


def _scaled_mm_by_rows(a, b, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False):
    result = (a.float() @ b.float()) * scale_a * scale_b
    return (result if bias is None else result + bias).to(out_dtype or torch.bfloat16)


def _float8(stack):
    if not _LIBRARIES and tuple(map(int, torch.__version__.split(".")[:2])) < (2, 12):
        # That torch has no product with a scale a row on a CPU, so here is one.
        _LIBRARIES.append(torch.library.Library("aten", "IMPL"))
        _LIBRARIES[0].impl("_scaled_mm", _scaled_mm_by_rows, "CPU")

    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    return convert_to_float8_training(stack.to(BF16), config=Float8LinearConfig.from_recipe_name("rowwise"))


def float8(layers=2):
    return _float8(Stack(layers, 64, 128)), (_input(32, 64),), {}


def save_list(with_abs=True):
    """torchtitan's list as it was when the fault with abs was reported; and without it."""
    aten = torch.ops.aten
    ops = [aten.mm.default, aten._scaled_mm.default, aten.amax.default]
    return ops + [aten.abs.default] if with_abs else ops


def float8_checkpointed(with_abs=True, layers=4, dim=64, hidden=128, tokens=256):
    return _float8(Stack(layers, dim, hidden, save_list(with_abs))), (_input(tokens, dim),), {}


MODELS = {model.__name__: model for model in (mlp, feed_forward, llama_block, transformers_llama, tied, dropout,
                                              view_of_view, custom, float8)}
