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
marked as a checkpoint.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

from fp8opt.builder import Function, Module, Value, tensor  # noqa: E402

# Length of an amax history, as in TransformerEngine's tests; its default of 1024 would only make the file's state
# longer.
HISTORY = 16

# What every dimension must be a multiple of: cuBLASLt's FP8 alignment, or a whole block of 128.
ALIGNMENT = {"rowwise": 16, "tensorwise": 16, "delayed": 16, "block128": 128}


def silu(f: Function, x: Value, one: Value, prefix: str) -> Value:
    """x / (1 + exp(-x)) in f32, rounded to bf16."""
    wide = f.extf(x, name=f"{prefix}.gate_f32")
    negative = f.elementwise("arith.negf", wide, name=f"{prefix}.silu_neg")
    exponential = f.elementwise("math.exp", negative, name=f"{prefix}.silu_exp")
    denominator = f.elementwise("arith.addf", exponential, one, name=f"{prefix}.silu_den")
    quotient = f.elementwise("arith.divf", wide, denominator, name=f"{prefix}.silu_f32")
    return f.truncf(quotient, name=f"{prefix}.silu")


def ffn_stack(layers: int, tokens: int, dim: int, ffn: int, recipe: str) -> Module:
    """`layers` feed-forward layers with residual, in one function `@ffn`."""
    module = Module()
    f = module.function("ffn")
    x = f.argument("x", tensor("bf16", tokens, dim))
    weights, states = {}, {}
    for layer in range(layers):
        for name, shape in (("w1", (ffn, dim)), ("w3", (ffn, dim)), ("w2", (dim, ffn))):
            key = f"layers.{layer}.{name}"
            weights[key] = f.argument(key, tensor("bf16", *shape), "fp8.parameter")
            states[key] = f.delayed_state(key, HISTORY) if recipe == "delayed" else []
    one = f.constant(1.0, tensor("f32", tokens, ffn), name="one")
    for layer in range(layers):
        prefix = f"layers.{layer}"

        def linear(value: Value, weight: str, name: str) -> Value:
            key = f"{prefix}.{weight}"
            return f.linear(value, weights[key], recipe, states[key], name=f"{prefix}.{name}")

        gate = linear(x, "w1", "gate")
        up = linear(x, "w3", "up")
        act = f.elementwise("arith.mulf", silu(f, gate, one, prefix), up, name=f"{prefix}.act")
        down = linear(act, "w2", "down")
        x = f.elementwise("arith.addf", x, down, name=f"{prefix}.out", checkpoint=layer + 1 < layers)
    f.returns(x)
    return module


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, but got {text}")
    return value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=positive, default=4, help="number of layers (4)")
    parser.add_argument("--kind", choices=["ffn"], default="ffn", help="what a layer is (ffn)")
    parser.add_argument("--tokens", type=positive, default=16384, help="rows of the input (16384)")
    parser.add_argument("--dim", type=positive, default=4096, help="model dimension (4096)")
    parser.add_argument("--ffn", type=positive, default=14336, help="hidden dimension of the feed-forward (14336)")
    parser.add_argument("--recipe", choices=sorted(ALIGNMENT), default="rowwise", help="FP8 scaling recipe (rowwise)")
    options = parser.parse_args()
    alignment = ALIGNMENT[options.recipe]
    for name in ("tokens", "dim", "ffn"):
        if getattr(options, name) % alignment:
            print(f"error: expected --{name} to be a multiple of {alignment} with the {options.recipe} recipe, "
                  f"but got {getattr(options, name)}", file=sys.stderr)
            return 1
    module = ffn_stack(options.layers, options.tokens, options.dim, options.ffn, options.recipe)
    print(f"// python3 examples/gen.py --layers={options.layers} --kind={options.kind} --tokens={options.tokens} "
          f"--dim={options.dim} --ffn={options.ffn} --recipe={options.recipe}")
    print(f"// {options.layers} feed-forward layers with residual: h = x + w2(silu(w1(x)) * w3(x)), forward only.")
    print()
    print(module, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
