#!/usr/bin/env python3
# ===- gen.py - example programs of any size ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Prints the forward function of a stack of transformer layers, ready for fp8-opt. Needs only Python's standard
# library. The files of this folder whose first comment names this script are its output.
#
# ===----------------------------------------------------------------------=== #
"""Print the forward function of a stack of layers to standard output.

The defaults are Llama-3-8B's feed-forward layers at 16,384 tokens. A layer is

    h = x + w2(silu(w1(x)) * w3(x))

with bf16 parameters in PyTorch's layout [out, in], silu computed in f32 and rounded to bf16 (as torch does for bf16
tensors), and every other result rounded to bf16. The input of each layer but the first, which is an argument, is
marked as a checkpoint. With --kind=block a layer is a whole transformer block: norm, attention as an opaque operation
with its sizes, cost and adjoint, norm and feed-forward, between an embedding and a head.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

from fp8opt import Function, Module, Value, tensor  # noqa: E402
from fp8opt.modules import rms_norm  # noqa: E402

# Length of an amax history, as in TransformerEngine's tests; its default of 1024 would only make the file's state
# longer.
HISTORY = 16

# Of kind block, Llama 3's.
HEAD_DIM = 128
VOCABULARY = 128256
# Close to Llama 3's 1e-5, and exact in f32.
EPS = 2.0**-17

# What every dimension must be a multiple of: cuBLASLt's FP8 alignment, or a whole block of 128.
ALIGNMENT = {"rowwise": 16, "tensorwise": 16, "delayed": 16, "block128": 128}


def silu(f: Function, x: Value, one: Value, prefix: str) -> Value:
    """x * sigmoid(x) with sigmoid(x) = 1 / (1 + exp(-x)) in f32, rounded to bf16."""
    wide = f.extf(x, name=f"{prefix}.gate_f32")
    negative = f.elementwise("arith.negf", wide, name=f"{prefix}.silu_neg")
    exponential = f.elementwise("math.exp", negative, name=f"{prefix}.silu_exp")
    denominator = f.elementwise("arith.addf", exponential, one, name=f"{prefix}.silu_den")
    sigmoid = f.elementwise("arith.divf", one, denominator, name=f"{prefix}.sigmoid")
    product = f.elementwise("arith.mulf", wide, sigmoid, name=f"{prefix}.silu_f32")
    return f.truncf(product, name=f"{prefix}.silu")


class Stack:
    """The function of a stack of layers as it is written: its arguments first, then layer by layer."""

    def __init__(self, name: str, options: argparse.Namespace):
        self.module = Module(locations=False)
        self.f = self.module.function(name)
        self.options = options
        self.weights, self.states = {}, {}
        # Layers with another hidden dimension, spread over the stack.
        odd = options.odd_layers
        self.odd = {(2 * index + 1) * options.layers // (2 * odd) for index in range(odd)} if odd else set()

    def ffn(self, layer: int) -> int:
        alignment = ALIGNMENT[self.options.recipe]
        return self.options.ffn // 2 // alignment * alignment if layer in self.odd else self.options.ffn

    def weight(self, key: str, *shape: int) -> None:
        self.weights[key] = self.f.argument(key, tensor("bf16", *shape), "fp8.parameter")

    def linear_weight(self, key: str, *shape: int) -> None:
        self.weight(key, *shape)
        self.states[key] = self.f.delayed_state(key, HISTORY) if self.options.recipe == "delayed" else []

    def linear(self, value: Value, key: str, name: str) -> Value:
        return self.f.linear(value, self.weights[key], self.options.recipe, self.states[key], name=name)

    def ffn_weights(self, layer: int) -> None:
        dim, ffn = self.options.dim, self.ffn(layer)
        for name, shape in (("w1", (ffn, dim)), ("w3", (ffn, dim)), ("w2", (dim, ffn))):
            self.linear_weight(f"layers.{layer}.{name}", *shape)

    def ones(self) -> None:
        """The constants of silu, one for each hidden dimension."""
        self.one = {}
        for layer in sorted(self.odd) + [layer for layer in range(self.options.layers) if layer not in self.odd]:
            ffn = self.ffn(layer)
            if ffn not in self.one:
                self.one[ffn] = self.f.constant(1.0, tensor("f32", self.options.tokens, ffn), name="one")

    def feed_forward(self, value: Value, layer: int) -> Value:
        """w2(silu(w1(x)) * w3(x))"""
        prefix = f"layers.{layer}"
        gate = self.linear(value, f"{prefix}.w1", f"{prefix}.gate")
        up = self.linear(value, f"{prefix}.w3", f"{prefix}.up")
        act = self.f.elementwise("arith.mulf", silu(self.f, gate, self.one[self.ffn(layer)], prefix), up,
                                 name=f"{prefix}.act")
        return self.linear(act, f"{prefix}.w2", f"{prefix}.down")

    def add(self, x: Value, y: Value, layer: int) -> Value:
        """The residual stream after `layer`; the input of the next one is what recompute-all keeps."""
        return self.f.elementwise("arith.addf", x, y, name=f"layers.{layer}.out",
                                  checkpoint=layer + 1 < self.options.layers)


def ffn_stack(options: argparse.Namespace) -> Module:
    """Feed-forward layers with residual, in one function `@ffn`."""
    stack = Stack("ffn", options)
    x = stack.f.argument("x", tensor("bf16", options.tokens, options.dim))
    for layer in range(options.layers):
        stack.ffn_weights(layer)
    stack.ones()
    for layer in range(options.layers):
        x = stack.add(x, stack.feed_forward(x, layer), layer)
    stack.f.returns(x)
    return stack.module


def block_stack(options: argparse.Namespace) -> Module:
    """A whole transformer in one function `@block`: embedding, layers of attention and feed-forward, norm, head."""
    stack = Stack("block", options)
    f, tokens, dim = stack.f, options.tokens, options.dim
    key_dim = dim // 4 if dim % (4 * HEAD_DIM) == 0 else dim
    ids = f.argument("tokens", tensor("i32", tokens))
    stack.weight("embedding", VOCABULARY, dim)
    for layer in range(options.layers):
        prefix = f"layers.{layer}"
        stack.weight(f"{prefix}.attention_norm", 1, dim)
        for name, shape in (("wq", (dim, dim)), ("wk", (key_dim, dim)), ("wv", (key_dim, dim)), ("wo", (dim, dim))):
            stack.linear_weight(f"{prefix}.{name}", *shape)
        stack.weight(f"{prefix}.ffn_norm", 1, dim)
        stack.ffn_weights(layer)
    stack.weight("norm", 1, dim)
    if not options.tied:
        stack.weight("head", VOCABULARY, dim)
    stack.ones()

    bf16 = tensor("bf16", tokens, dim)
    (x,) = f.opaque("embedding", [ids, stack.weights["embedding"]], [bf16],
                    adjoint={"name": "embedding_backward", "operands": [0], "results": []}, name="x")
    # Causal attention does half of two products of tokens x tokens x dim, and its backward five; the maxima and sums
    # of the rows are kept as their logarithm.
    flops = 2 * tokens * tokens * dim
    heads = max(dim // HEAD_DIM, 1)
    for layer in range(options.layers):
        prefix = f"layers.{layer}"
        a = rms_norm(x, stack.weights[f"{prefix}.attention_norm"], EPS, f"{prefix}.attention_in")
        q, k, v = (stack.linear(a, f"{prefix}.w{name}", f"{prefix}.{name}") for name in "qkv")
        o, _ = f.opaque("attention", [q, k, v], [bf16, tensor("f32", heads, tokens)], flops=flops,
                        adjoint={"name": "attention_backward", "operands": [0, 1, 2], "results": [0, 1],
                                 "flops": 5 * flops // 2, "scratch_bytes": 4 * tokens * dim},
                        name=f"{prefix}.attention")
        h = f.elementwise("arith.addf", x, stack.linear(o, f"{prefix}.wo", f"{prefix}.projection"), name=f"{prefix}.h")
        n = rms_norm(h, stack.weights[f"{prefix}.ffn_norm"], EPS, f"{prefix}.ffn_in")
        x = stack.add(h, stack.feed_forward(n, layer), layer)
    x = rms_norm(x, stack.weights["norm"], EPS, "final")
    head = stack.weights["embedding" if options.tied else "head"]
    f.returns(f.matmul(x, f.permute(head, [1, 0], name="head_t"), name="logits"))
    return stack.module


KINDS = {
    "block": (block_stack, "transformer blocks with embedding, norm and head; attention is opaque"),
    "ffn": (ffn_stack, "feed-forward layers with residual: h = x + w2(silu(w1(x)) * w3(x))"),
}


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, but got {text}")
    return value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=positive, default=4, help="number of layers (4)")
    parser.add_argument("--kind", choices=sorted(KINDS), default="ffn",
                        help="what a layer is: feed-forward only, or a transformer block with embedding and head (ffn)")
    parser.add_argument("--tokens", type=positive, default=16384, help="rows of the input (16384)")
    parser.add_argument("--dim", type=positive, default=4096, help="model dimension (4096)")
    parser.add_argument("--ffn", type=positive, default=14336, help="hidden dimension of the feed-forward (14336)")
    parser.add_argument("--recipe", choices=sorted(ALIGNMENT), default="rowwise", help="FP8 scaling recipe (rowwise)")
    parser.add_argument("--odd-layers", type=int, default=0, help="layers with half the hidden dimension (0)")
    parser.add_argument("--tied", action="store_true", help="the head of a block stack is the embedding's table")
    options = parser.parse_args()
    if not 0 <= options.odd_layers <= options.layers:
        print(f"error: expected --odd-layers to be from 0 to {options.layers}, but got {options.odd_layers}",
              file=sys.stderr)
        return 1
    if options.tied and options.kind != "block":
        print("error: expected --kind=block with --tied: feed-forward layers have no embedding", file=sys.stderr)
        return 1
    alignment = ALIGNMENT[options.recipe]
    for name in ("tokens", "dim", "ffn"):
        if getattr(options, name) % alignment:
            print(f"error: expected --{name} to be a multiple of {alignment} with the {options.recipe} recipe, "
                  f"but got {getattr(options, name)}", file=sys.stderr)
            return 1
    build, what = KINDS[options.kind]
    module = build(options)
    extra = f" --odd-layers={options.odd_layers}" if options.odd_layers else ""
    extra += " --tied" if options.tied else ""
    print(f"// python3 examples/gen.py --layers={options.layers} --kind={options.kind} --tokens={options.tokens} "
          f"--dim={options.dim} --ffn={options.ffn} --recipe={options.recipe}{extra}")
    print(f"// {options.layers} {what}, forward only.")
    print()
    print(module, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
