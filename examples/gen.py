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

With --ranks=N a layer is split over N ranks, and all sizes are still those of the whole: --kind=fsdp is the feed-forward
stack with every weight sharded over the ranks and gathered before its use, each rank with its share of the tokens;
--kind=column, row and tensor-parallel feed-forward (tp) are sequence parallel as in TransformerEngine: activations
between layers are sharded over the tokens, gathered before a column-parallel linear and reduce-scattered behind a
row-parallel one. With one rank these are the same layers without collectives. --casts=weights writes the fsdp stack as
an eager framework runs it by the rowwise recipe: forward and backward op by op, with the weights' maxima taken through abs
and max; --casts=all does the same with the maxima of forward's activations.

--kind=tangle has no layers; it is for measuring the planner.
"""

import argparse
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

from fp8opt import Function, Module, Value, tensor  # noqa: E402
from fp8opt.modules import dropout, rms_norm  # noqa: E402

from eager_fsdp import eager_fsdp_stack  # noqa: E402

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


class Sharded:
    """A function on a line of ranks, whose axis is called `axis`."""

    def __init__(self, name: str, axis: str, options: argparse.Namespace):
        self.ranks, self.axis, self.options = options.ranks, axis, options
        self.module = Module(grid={axis: options.ranks} if options.ranks > 1 else None, locations=False)
        self.f = self.module.function(name)

    def argument(self, name: str, rows: int, columns: int, sharded: int, *marks: str) -> Value:
        """A bf16 matrix of which a rank has its part along dimension `sharded`."""
        shape = [rows, columns]
        shape[sharded] //= self.ranks
        return self.f.argument(name, tensor("bf16", *shape), *marks, shard=self.shard(sharded))

    def shard(self, sharded: int):
        return [self.axis if dim == sharded else "" for dim in range(2)] if self.ranks > 1 else None

    def gather(self, value: Value, name: str) -> Value:
        return self.f.all_gather(value, self.axis, self.ranks, name=name) if self.ranks > 1 else value

    def scatter(self, value: Value, name: str) -> Value:
        return self.f.reduce_scatter(value, self.axis, self.ranks, name=name) if self.ranks > 1 else value

    def linear(self, x: Value, w: Value, name: str) -> Value:
        return self.f.linear(x, w, self.options.recipe, name=name)

    def swiglu(self, gate: Value, up: Value, prefix: str) -> Value:
        one = self.f.constant(1.0, tensor("f32", *gate.type.shape), name=f"{prefix}.one")
        return self.f.elementwise("arith.mulf", silu(self.f, gate, one, prefix), up, name=f"{prefix}.act")


def layer_norm(f: Function, x: Value, gain: Value, bias: Value, name: str) -> Value:
    """(x - mean) / sqrt(var + eps) * gain + bias in f32, rounded to bf16."""
    tokens, dim = x.type.shape
    row = tensor("f32", tokens, 1)
    count = f.constant(float(dim), row, name=f"{name}_dim")
    wide = f.extf(x, name=f"{name}_f32")
    mean = f.elementwise("arith.divf", f.reduce("sum", wide, [1], name=f"{name}_sum"), count, name=f"{name}_mean")
    centred = f.elementwise("arith.subf", wide, f.broadcast(mean, (tokens, dim), name=f"{name}_mean_b"),
                            name=f"{name}_centred")
    square = f.elementwise("arith.mulf", centred, centred, name=f"{name}_square")
    variance = f.elementwise("arith.divf", f.reduce("sum", square, [1], name=f"{name}_squares"), count,
                             name=f"{name}_variance")
    biased = f.elementwise("arith.addf", variance, f.constant(2.0**-17, row, name=f"{name}_eps"), name=f"{name}_var")
    factor = f.broadcast(f.elementwise("math.rsqrt", biased, name=f"{name}_rsqrt"), (tokens, dim), name=f"{name}_factor")
    scaled = f.elementwise("arith.mulf", centred, factor, name=f"{name}_scaled")
    wide_gain = f.broadcast(f.extf(gain, name=f"{name}_gain_f32"), (tokens, dim), name=f"{name}_gain")
    wide_bias = f.broadcast(f.extf(bias, name=f"{name}_bias_f32"), (tokens, dim), name=f"{name}_bias")
    return f.truncf(f.elementwise("arith.addf", f.elementwise("arith.mulf", scaled, wide_gain, name=f"{name}_times"),
                                  wide_bias, name=f"{name}_wide"), name=name)


def norm_arguments(s: Sharded, prefix: str):
    """Gain and bias of a LayerNorm, the same on all ranks; each rank's gradient is that of its tokens."""
    row = tensor("bf16", 1, s.options.dim)
    return (s.f.argument(f"{prefix}gain", row, "fp8.parameter"), s.f.argument(f"{prefix}bias", row, "fp8.parameter"))


def column_stack(options: argparse.Namespace) -> Module:
    """`@column`: LayerNorm, then a column-parallel linear from dim to ffn, under sequence parallelism."""
    s = Sharded("column", "tp", options)
    x = s.argument("x", options.tokens, options.dim, 0)
    layers = [(norm_arguments(s, f"layers.{layer}."),
               s.argument(f"layers.{layer}.w", options.ffn, options.dim, 0, "fp8.parameter"))
              for layer in range(options.layers)]
    results = []
    for layer, ((gain, bias), w) in enumerate(layers):
        normed = layer_norm(s.f, x, gain, bias, f"layers.{layer}.ln")
        results.append(s.linear(s.gather(normed, f"layers.{layer}.ln_all"), w, f"layers.{layer}.y"))
    s.f.returns(*results, shard=s.shard(1))
    return s.module


def row_stack(options: argparse.Namespace) -> Module:
    """`@row`: a row-parallel linear from ffn to dim, whose sum is reduce-scattered over the tokens."""
    s = Sharded("row", "tp", options)
    x = s.argument("x", options.tokens, options.ffn, 1)
    weights = [s.argument(f"layers.{layer}.w", options.dim, options.ffn, 1, "fp8.parameter")
               for layer in range(options.layers)]
    # On one rank the parts of a sum are the sum, under its name.
    part = "part" if options.ranks > 1 else "y"
    results = [s.scatter(s.linear(x, w, f"layers.{layer}.{part}"), f"layers.{layer}.y")
               for layer, w in enumerate(weights)]
    s.f.returns(*results, shard=s.shard(0))
    return s.module


def tp_stack(options: argparse.Namespace) -> Module:
    """`@tp`: layers h = x + w2(silu(w1(n)) * w3(n)), n = LayerNorm(x), tensor and sequence parallel. With dropout of the
    activation, of which a rank has columns, and of the result, of which it has rows."""
    s = Sharded("tp", "tp", options)
    x = s.argument("x", options.tokens, options.dim, 0)
    one = tensor("i32", 1, 1)
    if options.dropout:
        seed, offset = s.f.argument("seed", one), s.f.argument("offset", one)
        rank = s.f.argument("rank", one, coordinate="tp") if options.ranks > 1 else None

    def drop(value: Value, layer: int, number: int, split: int, name: str) -> Value:
        """Dropout of a value of which the ranks have parts along dimension `split`."""
        if not options.dropout:
            return value
        return dropout(value, options.dropout, seed, offset, 2 * layer + number, {split: ("tp", rank)} if rank else None,
                       name=name)

    layers = []
    for layer in range(options.layers):
        prefix = f"layers.{layer}"
        layers.append((norm_arguments(s, f"{prefix}."),
                       s.argument(f"{prefix}.w1", options.ffn, options.dim, 0, "fp8.parameter"),
                       s.argument(f"{prefix}.w3", options.ffn, options.dim, 0, "fp8.parameter"),
                       s.argument(f"{prefix}.w2", options.dim, options.ffn, 1, "fp8.parameter")))
    for layer, ((gain, bias), w1, w3, w2) in enumerate(layers):
        prefix = f"layers.{layer}"
        n = s.gather(layer_norm(s.f, x, gain, bias, f"{prefix}.ln"), f"{prefix}.ln_all")
        act = s.swiglu(s.linear(n, w1, f"{prefix}.gate"), s.linear(n, w3, f"{prefix}.up"), prefix)
        act = drop(act, layer, 0, 1, f"{prefix}.act_dropped")
        down = s.scatter(s.linear(act, w2, f"{prefix}.part"), f"{prefix}.down")
        down = drop(down, layer, 1, 0, f"{prefix}.down_dropped")
        x = s.f.elementwise("arith.addf", x, down, name=f"{prefix}.out", checkpoint=layer + 1 < options.layers)
    s.f.returns(x, shard=s.shard(0))
    return s.module


def fsdp_stack(options: argparse.Namespace) -> Module:
    """`@fsdp`: the feed-forward stack with sharded weights; a rank has its share of the tokens."""
    if options.casts != "recipe":
        return eager_fsdp_stack(options.ranks, options.layers, options.tokens, options.dim, options.ffn, options.casts)
    s = Sharded("fsdp", "fsdp", options)
    x = s.argument("x", options.tokens, options.dim, 0)
    shapes = (("w1", options.ffn, options.dim), ("w3", options.ffn, options.dim), ("w2", options.dim, options.ffn))
    weights = {f"layers.{layer}.{name}": s.argument(f"layers.{layer}.{name}", rows, columns, 0, "fp8.parameter")
               for layer in range(options.layers) for name, rows, columns in shapes}
    for layer in range(options.layers):
        prefix = f"layers.{layer}"

        def linear(value: Value, key: str, name: str) -> Value:
            return s.linear(value, s.gather(weights[f"{prefix}.{key}"], f"{prefix}.{key}_all"), f"{prefix}.{name}")

        act = s.swiglu(linear(x, "w1", "gate"), linear(x, "w3", "up"), prefix)
        x = s.f.elementwise("arith.addf", x, linear(act, "w2", "down"), name=f"{prefix}.out",
                            checkpoint=layer + 1 < options.layers)
    s.f.returns(x, shard=s.shard(0))
    return s.module


# Kinds that --ranks splits.
SHARDED = ("column", "fsdp", "row", "tp")

def tangle(options: argparse.Namespace) -> Module:
    """Ops in random order on values of 39 widths, in one function `@tangle`: no layers and no narrow points, for the
    time that planning takes where nothing repeats."""
    choice = random.Random(options.ops)
    module = Module()
    f = module.function("tangle")
    widths = range(16, 640, 16)
    first = {width: f.argument(f"a{width}", tensor("bf16", 64, width)) for width in widths}
    last, drawn = dict(first), []
    for _ in range(options.ops):
        width, kind = choice.choice(widths), choice.choice(["tanh", "mul", "matmul", "add"])
        drawn.append((width, choice.choice(widths) if kind == "matmul" else kind))
    weights = {index: f.argument(f"w{index}", tensor("bf16", kind, width), "fp8.parameter")
               for index, (width, kind) in enumerate(drawn) if isinstance(kind, int)}
    for index, (width, kind) in enumerate(drawn):
        name = f"v{index}"
        if kind == "tanh":
            last[width] = f.elementwise("math.tanh", last[width], name=name)
        elif kind == "mul":
            last[width] = f.elementwise("arith.mulf", last[width], first[width], name=name)
        elif kind == "add":
            last[width] = f.elementwise("arith.addf", last[width], first[width], name=name)
        else:
            product = f.matmul(last[kind], weights[index], name=f"m{index}")
            last[width] = f.elementwise("arith.addf", product, last[width], name=name)
    f.returns(*(last[width] for width in widths if last[width] is not first[width]))
    return module


KINDS = {
    "block": (block_stack, "transformer blocks with embedding, norm and head; attention is opaque"),
    "column": (column_stack, "LayerNorms and column-parallel linears"),
    "ffn": (ffn_stack, "feed-forward layers with residual: h = x + w2(silu(w1(x)) * w3(x))"),
    "fsdp": (fsdp_stack, "feed-forward layers with residual, weights sharded (FSDP)"),
    "row": (row_stack, "row-parallel linears"),
    "tp": (tp_stack, "LayerNorm and feed-forward layers with residual, tensor and sequence parallel"),
    "tangle": (tangle, "ops in random order, with no layers"),
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
                        help="what a layer is: feed-forward only, a transformer block with embedding and head, or a "
                             "layer split over ranks (ffn)")
    parser.add_argument("--ranks", type=positive, default=1, help="ranks that a layer is split over (1)")
    parser.add_argument("--tokens", type=positive, default=16384, help="rows of the input (16384)")
    parser.add_argument("--dim", type=positive, default=4096, help="model dimension (4096)")
    parser.add_argument("--ffn", type=positive, default=14336, help="hidden dimension of the feed-forward (14336)")
    parser.add_argument("--recipe", choices=sorted(ALIGNMENT), default="rowwise", help="FP8 scaling recipe (rowwise)")
    parser.add_argument("--casts", choices=("recipe", "weights", "all"), default="recipe",
                        help="of fsdp: linears by a recipe, or forward and backward with the casts of weights, or of "
                             "activations too, through abs and max (recipe)")
    parser.add_argument("--dropout", type=float, default=0.0,
                        help="of tp: probability of dropping an element of the activation and of the result (0)")
    parser.add_argument("--odd-layers", type=int, default=0, help="layers with half the hidden dimension (0)")
    parser.add_argument("--ops", type=positive, help="forward ops of a tangle (4000), of which a step has 4.5 times as "
                        "many")
    parser.add_argument("--tied", action="store_true", help="the head of a block stack is the embedding's table")
    options = parser.parse_args()
    if not 0 <= options.odd_layers <= options.layers:
        print(f"error: expected --odd-layers to be from 0 to {options.layers}, but got {options.odd_layers}",
              file=sys.stderr)
        return 1
    if options.casts != "recipe" and (options.kind != "fsdp" or options.recipe != "rowwise" or options.ranks == 1):
        print(f"error: expected --kind=fsdp, several --ranks and the rowwise recipe with --casts={options.casts}",
              file=sys.stderr)
        return 1
    if options.dropout and (options.kind != "tp" or not 0 < options.dropout < 1):
        print(f"error: expected --kind=tp and a probability below 1 with --dropout={options.dropout}", file=sys.stderr)
        return 1
    if options.tied and options.kind != "block":
        print("error: expected --kind=block with --tied: feed-forward layers have no embedding", file=sys.stderr)
        return 1
    if options.kind in SHARDED:
        if options.recipe == "delayed" or options.odd_layers:
            print(f"error: expected neither the delayed recipe nor --odd-layers with --kind={options.kind}", file=sys.stderr)
            return 1
        for name in ("tokens", "dim", "ffn"):
            if getattr(options, name) % (16 * options.ranks):
                print(f"error: expected --{name} to be a multiple of 16 for each of {options.ranks} ranks, but got "
                      f"{getattr(options, name)}", file=sys.stderr)
                return 1
    elif options.ranks > 1:
        print(f"error: expected --kind to be one of {', '.join(SHARDED)} with --ranks, but got {options.kind}", file=sys.stderr)
        return 1
    if options.ops and options.kind != "tangle":
        print("error: expected --kind=tangle with --ops: the others have layers", file=sys.stderr)
        return 1
    alignment = ALIGNMENT[options.recipe]
    for name in ("tokens", "dim", "ffn"):
        if getattr(options, name) % alignment:
            print(f"error: expected --{name} to be a multiple of {alignment} with the {options.recipe} recipe, "
                  f"but got {getattr(options, name)}", file=sys.stderr)
            return 1
    build, what = KINDS[options.kind]
    if options.kind == "tangle":
        options.ops = options.ops or 4000
        print(f"// python3 examples/gen.py --kind=tangle --ops={options.ops}\n// {options.ops} {what}, forward only.\n")
        print(build(options), end="")
        return 0
    module = build(options)
    extra = f" --odd-layers={options.odd_layers}" if options.odd_layers else ""
    extra += " --tied" if options.tied else ""
    extra += f" --ranks={options.ranks}" if options.ranks > 1 else ""
    extra += f" --dropout={options.dropout}" if options.dropout else ""
    extra += f" --casts={options.casts}" if options.casts != "recipe" else ""
    print(f"// python3 examples/gen.py --layers={options.layers} --kind={options.kind} --tokens={options.tokens} "
          f"--dim={options.dim} --ffn={options.ffn} --recipe={options.recipe}{extra}")
    ranks = f" on {options.ranks} ranks" if options.ranks > 1 else ""
    direction = "forward only" if options.casts == "recipe" else "forward and backward"
    print(f"// {options.layers} {what}{ranks}, {direction}.")
    print()
    print(module, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
