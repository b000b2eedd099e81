# ===- deepseek.py - DeepSeek-V3's layers on one rank ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# One layer of DeepSeek-V3 under tensor and sequence parallelism: latent attention, then a dense feed-forward or experts
# (arXiv 2412.19437; which linear is split how: Megatron-LM, multi_latent_attention.py and moe). Needs only Python's standard
# library. The files of this folder whose first comment names this script are its output.
#
# ===---------------------------------------------------------------------=== #
"""Print the forward function of a layer of DeepSeek-V3 on one rank to standard output.

Full size it is for planning: attention and routing are opaque operations with their sizes, cost and scratch. With --small
every op is one that runs, of the same linears, gathers and exchanges."""

import argparse
import contextlib
import os
import sys
from dataclasses import dataclass, replace
from typing import Callable, List, Tuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

from fp8opt import Module, Value, tensor  # noqa: E402
from fp8opt.modules import concatenate, rms_norm, silu  # noqa: E402

__all__ = ["FULL", "Sizes", "deepseek_layer", "small_sizes"]

# DeepSeek-V3's, and exact in f32.
EPS = 2.0**-20


@dataclass(frozen=True)
class Sizes:
    """Of a layer. `experts` are those of one rank; a token goes to `top_k` experts, and each has room for `capacity` times as
    many tokens as it gets if all get as many as each other, or, `grouped`, all of a rank share that room. `opaque`: attention
    and routing are known by sizes and cost only. `parts`: how many ranks' parts one rank has."""

    tokens: int
    hidden: int
    heads: int
    q_lora: int
    kv_lora: int
    qk_nope: int
    qk_rope: int
    v_head: int
    ffn: int
    expert_ffn: int
    shared_ffn: int
    experts: int
    top_k: int
    opaque: bool
    capacity: float = 1.0
    parts: int = 1
    grouped: bool = False


# config.json of deepseek-ai/DeepSeek-V3; 256 experts over 32 ranks.
FULL = Sizes(tokens=65536, hidden=7168, heads=128, q_lora=1536, kv_lora=512, qk_nope=128, qk_rope=64, v_head=128, ffn=18432,
             expert_ffn=2048, shared_ffn=2048, experts=8, top_k=8, opaque=True)


def small_sizes(ranks: int, parts: int) -> Sizes:
    """Of `ranks` parts, all of them or one of each rank's. One head and two experts a part, 128 tokens, blocks of 128 whole.
    Attention is without mask and position, and the place of a token chooses its expert, so that every op runs. On one rank
    the parts share two experts: what the ranks' parts have is the same in test runs."""
    return Sizes(tokens=128 * ranks, hidden=128, heads=ranks, q_lora=128, kv_lora=128, qk_nope=64, qk_rope=64, v_head=128,
                 ffn=128 * ranks, expert_ffn=128, shared_ffn=128 * ranks, experts=2, top_k=1, opaque=False,
                 parts=parts)


class Layer:
    """The function `@layer` of one rank of `ranks`, as it is written. `recipe` is that of its linears, or "bf16"."""

    def __init__(self, sizes: Sizes, ranks: int, recipe: str):
        self.sizes, self.ranks, self.recipe = sizes, ranks, recipe
        self.module = Module(grid={"tp": ranks} if ranks > 1 else None, locations=False)
        self.f = self.module.function("layer")
        self.rows = sizes.tokens // ranks
        self.x = self.f.argument("x", tensor("bf16", self.rows, sizes.hidden), shard=self.shard(0))

    # Parameters and linears.

    def shard(self, split: int) -> "List[str] | None":
        """The mark of what the ranks hold parts of along dimension `split`; nothing on one rank."""
        return ["tp" if dim == split else "" for dim in range(2)] if split >= 0 and self.ranks > 1 else None

    def vector(self, name: str, size: int) -> Value:
        return self.f.argument(name, tensor("bf16", 1, size), "fp8.parameter")

    def weight(self, name: str, rows: int, columns: int, split: int = -1) -> Value:
        """A rank's part of a weight [rows, columns] that is split along dimension `split`; -1: each has all of it."""
        shape = [extent // self.ranks if dim == split else extent for dim, extent in enumerate((rows, columns))]
        return self.f.argument(name, tensor("bf16", *shape), "fp8.parameter", shard=self.shard(split))

    def plain(self, x: Value, w: Value, name: str) -> Value:
        if w.type.rank == 3:
            balanced = self.expert_rows(1.0) * self.sizes.experts
            if self.recipe == "bf16":
                return self.f.grouped_matmul(x, self.f.permute(w, [0, 2, 1], name=f"{name}.w_t"), self.offsets, 128,
                                             balanced=balanced, name=name)
            return self.f.grouped_linear(x, w, self.offsets, self.recipe, balanced, name=name)
        if self.recipe == "bf16":
            return self.f.matmul(x, self.f.permute(w, [1, 0], name=f"{name}.w_t"), name=name)
        return self.f.linear(x, w, self.recipe, name=name)

    def gather(self, x: Value, name: str) -> Value:
        return x if self.ranks == 1 else self.f.all_gather(x, "tp", self.ranks, name=name)

    def column(self, x: Value, w: Value, name: str) -> Value:
        return self.plain(self.gather(x, f"{x.name}_all"), w, name)

    def row(self, x: Value, w: Value, name: str) -> Value:
        if self.ranks == 1:
            return self.plain(x, w, name)
        return self.f.reduce_scatter(self.plain(x, w, f"{name}.part"), "tp", self.ranks, name=name)

    def columns(self, x: Value, start: int, count: int, name: str) -> Value:
        return self.f.slice(x, [0, start], [x.shape[0], count], name=name)

    def parts(self, x: Value, parts: int, name: str, make: Callable[[Value, str], Value]) -> Value:
        """What `make` makes of each of the equal parts that the columns of `x` have, one behind the other."""
        if parts == 1:
            return make(x, name)
        width = x.shape[1] // parts
        made = [make(self.columns(x, index * width, width, f"{name}.in{index}"), f"{name}.{index}") for index in range(parts)]
        return concatenate(made, 1, name=name)

    def swiglu(self, x: Value, name: str, weights: "Value | None" = None) -> Value:
        """silu(left half) * right half; times the weight of each token, f32 [tokens, 1], where given."""
        f, half = self.f, x.shape[1] // 2
        gate = silu(self.columns(x, 0, half, f"{name}.gate"), f"{name}.silu")
        up = self.columns(x, half, half, f"{name}.up")
        if weights is None:
            return f.elementwise("arith.mulf", gate, up, name=name)
        wide = f.extf(f.elementwise("arith.mulf", gate, up, name=f"{name}.unweighted"), name=f"{name}.f32")
        return f.truncf(f.elementwise("arith.mulf", wide, f.broadcast(weights, wide.shape, name=f"{name}.weights"),
                                      name=f"{name}.weighted"), name=name)

    # Attention.

    def attention_weights(self) -> None:
        s = self.sizes
        self.norm1 = self.vector("norm1.gain", s.hidden)
        self.w_q_down = self.weight("q_down.w", s.q_lora, s.hidden)
        self.w_kv_down = self.weight("kv_down.w", s.kv_lora + s.qk_rope, s.hidden)
        self.q_norm, self.kv_norm = self.vector("q_norm.gain", s.q_lora), self.vector("kv_norm.gain", s.kv_lora)
        self.w_q_up = self.weight("q_up.w", s.heads * (s.qk_nope + s.qk_rope), s.q_lora, 0)
        self.w_kv_up = self.weight("kv_up.w", s.heads * (s.qk_nope + s.v_head), s.kv_lora, 0)
        self.w_o = self.weight("o_proj.w", s.hidden, s.heads * s.v_head, 1)

    def attention(self) -> Value:
        """x plus the attention over all tokens of this rank's heads."""
        s = self.sizes
        normed = rms_norm(self.x, self.norm1, EPS, "norm1")
        q_latent = rms_norm(self.plain(normed, self.w_q_down, "q_down"), self.q_norm, EPS, "q_norm")
        kv_down = self.plain(normed, self.w_kv_down, "kv_down")
        kv_latent = rms_norm(self.columns(kv_down, 0, s.kv_lora, "kv_down.latent"), self.kv_norm, EPS, "kv_norm")
        k_rope = self.gather(self.columns(kv_down, s.kv_lora, s.qk_rope, "kv_down.rope"), "k_rope_all")
        q, kv = self.column(q_latent, self.w_q_up, "q"), self.column(kv_latent, self.w_kv_up, "kv")
        o = self.opaque_attention(q, kv, k_rope) if s.opaque else self.small_attention(q, kv, k_rope, s.parts)
        return self.f.elementwise("arith.addf", self.x, self.row(o, self.w_o, "o_proj"), name="middle")

    def opaque_attention(self, q: Value, kv: Value, k_rope: Value) -> Value:
        """Rotation of the keys, then causal attention as FlashAttention has it."""
        s, f = self.sizes, self.f
        heads, head = s.heads // self.ranks, s.qk_nope + s.qk_rope
        k, v = f.opaque("rope", [kv, k_rope], [tensor("bf16", s.tokens, heads * head),
                                               tensor("bf16", s.tokens, heads * s.v_head)],
                        adjoint={"name": "rope_backward", "operands": [], "results": []}, name="k_v")
        # Half of the scores; backward has five products for two, sums the gradient of q in f32, and needs a number a row.
        flops = heads * s.tokens * s.tokens * (head + s.v_head)
        o, _ = f.opaque("attention", [q, k, v], [tensor("bf16", s.tokens, heads * s.v_head), tensor("f32", heads, s.tokens)],
                        flops=flops, adjoint={"name": "attention_backward", "operands": [0, 1, 2], "results": [0, 1],
                                              "flops": 5 * flops // 2,
                                              "scratch_bytes": 4 * s.tokens * heads * (head + 1)}, name="o")
        return o

    def small_attention(self, q: Value, kv: Value, k_rope: Value, heads: int) -> Value:
        if heads == 1:
            return self.small_head(q, kv, k_rope, "")
        widths, results = (q.shape[1] // heads, kv.shape[1] // heads), []
        for head in range(heads):
            own = [self.columns(x, head * width, width, f"head{head}.{x.name}") for x, width in zip((q, kv), widths)]
            results.append(self.small_head(*own, k_rope, f"head{head}."))
        return concatenate(results, 1, name="o")

    def small_head(self, q: Value, kv: Value, k_rope: Value, prefix: str) -> Value:
        s, f = self.sizes, self.f
        with f.scope(prefix[:-1]) if prefix else contextlib.nullcontext():
            k = concatenate([self.columns(kv, 0, s.qk_nope, "k_nope"), k_rope], 1, name="k")
            scores = f.matmul(q, f.permute(k, [1, 0], name="k_t"), element="f32", name="scores")
            scaled = f.elementwise("arith.mulf", scores,
                                   f.constant((s.qk_nope + s.qk_rope) ** -0.5, scores.type, name="factor"), name="scaled")
            powers = f.elementwise("math.exp", scaled, name="powers")
            total = f.broadcast(f.reduce("sum", powers, [1], name="row_sums"), powers.shape, name="row_sums_b")
            weights = f.truncf(f.elementwise("arith.divf", powers, total, name="weights_f32"), name="weights")
            return f.matmul(weights, self.columns(kv, s.qk_nope, s.v_head, "v"), name="o")

    # Feed-forward.

    def dense_weights(self, prefix: str, ffn: int) -> Tuple[Value, Value]:
        """Gate and up in one weight, as TransformerEngine has them: each part of a rank holds its part of both."""
        return (self.weight(f"{prefix}fc1.w", 2 * ffn, self.sizes.hidden, 0),
                self.weight(f"{prefix}fc2.w", self.sizes.hidden, ffn, 1))

    def dense(self, x: Value, weights: Tuple[Value, Value], prefix: str) -> Value:
        fc1, fc2 = weights
        act = self.parts(self.column(x, fc1, f"{prefix}fc1"), self.sizes.parts, f"{prefix}act", self.swiglu)
        return self.row(act, fc2, f"{prefix}fc2")

    def expert_weights(self) -> List[Tuple[Value, Value]]:
        s = self.sizes
        router = [self.weight("router.w", 256, s.hidden)] if s.opaque else [self.vector("router.w", s.hidden)]
        self.router = router[0]
        if s.grouped:
            shapes = (s.experts, 2 * s.expert_ffn, s.hidden), (s.experts, s.hidden, s.expert_ffn)
            return [tuple(self.f.parameter(f"experts.{name}.w", tensor("bf16", *shape))
                          for name, shape in zip(("fc1", "fc2"), shapes))]
        return [(self.weight(f"experts.{index}.fc1.w", 2 * s.expert_ffn, s.hidden),
                 self.weight(f"experts.{index}.fc2.w", s.hidden, s.expert_ffn)) for index in range(s.experts)]

    def experts(self, x: Value, weights: List[Tuple[Value, Value]]) -> Value:
        dispatch, combine = ((self.opaque_dispatch, self.opaque_combine) if self.sizes.opaque
                             else (self.small_dispatch, self.small_combine))
        tokens, shares, back = dispatch(x)
        results = []
        for index, (part, share, (fc1, fc2)) in enumerate(zip(tokens, shares, weights)):
            prefix = "experts." if self.sizes.grouped else f"experts.{index}."
            act = self.swiglu(self.plain(part, fc1, f"{prefix}fc1"), f"{prefix}act", share)
            results.append(self.plain(act, fc2, f"{prefix}fc2"))
        return combine(results, back)

    def expert_rows(self, capacity: float) -> int:
        """The tokens that an expert has room for: whole blocks of 128, which 1x128 scales along the tokens need."""
        s = self.sizes
        return -(-int(capacity * self.rows * s.top_k) // s.experts // 128) * 128

    def opaque_dispatch(self, x: Value):
        """Scores, the exchange of tokens between ranks, and their order by expert. What is received is whole beside its
        copy in order; only the order, a number a token, is needed later. All is planned at the experts' capacity."""
        s, f, rows = self.sizes, self.f, self.rows
        part = self.expert_rows(s.capacity)
        received = part * s.experts
        parts = [received] if s.grouped else [part] * s.experts
        share, order = f.opaque("router", [x, self.router], [tensor("f32", rows, s.top_k), tensor("i32", rows, s.top_k)],
                                flops=2 * rows * s.hidden * 256, scratch_bytes=2 * 4 * rows * 256,
                                adjoint={"name": "router_backward", "operands": [0, 1], "results": [0, 1],
                                         "scratch_bytes": 4 * rows * 256}, name="router")
        types = [tensor("bf16", rows, s.hidden) for rows in parts]
        if s.grouped:
            types.append(tensor("i32", s.experts + 1))
        tokens = f.opaque("dispatch", [x, order], types,
                          scratch_bytes=2 * received * s.hidden,
                          adjoint={"name": "dispatch_backward", "operands": [1], "results": [],
                                   "scratch_bytes": 2 * received * s.hidden}, name="routed")
        shares = f.opaque("dispatch_shares", [share, order], [tensor("f32", rows, 1) for rows in parts],
                          adjoint={"name": "dispatch_shares_backward", "operands": [1], "results": []}, name="shares")
        if s.grouped:
            self.offsets = tokens.pop()
        return tokens, shares, order

    def opaque_combine(self, results: List[Value], order: Value) -> Value:
        s = self.sizes
        scratch = 2 * self.expert_rows(s.capacity) * s.experts * s.hidden
        (y,) = self.f.opaque("combine", [*results, order], [tensor("bf16", self.rows, s.hidden)], scratch_bytes=scratch,
                             adjoint={"name": "combine_backward", "operands": [len(results)], "results": [],
                                      "scratch_bytes": scratch}, name="combined")
        return y

    def small_dispatch(self, x: Value):
        """Every rank sends an equal part of its tokens to each, which halves them between its experts."""
        s, f = self.sizes, self.f
        wide, router = f.extf(x, name="router_x"), f.extf(self.router, name="router_w")
        score = f.reduce("sum", f.elementwise("arith.mulf", wide, f.broadcast(router, wide.shape, name="router_b"),
                                              name="router_products"), [1], name="score")
        tokens, scores = self.exchange(x, "received"), self.exchange(f.elementwise("math.tanh", score, name="share"), "shares")
        part = self.rows // s.experts
        return ([f.slice(tokens, [index * part, 0], [part, s.hidden], name=f"routed.{index}") for index in range(s.experts)],
                [f.slice(scores, [index * part, 0], [part, 1], name=f"routed.{index}.share") for index in range(s.experts)],
                None)

    def small_combine(self, results: List[Value], _) -> Value:
        return self.exchange(concatenate(results, 0, name="in_order"), "combined")

    def exchange(self, x: Value, name: str) -> Value:
        return x if self.ranks == 1 else self.f.all_to_all(x, "tp", self.ranks, name=name)


def deepseek_layer(kind: str, sizes: Sizes, ranks: int, recipe: str) -> Module:
    """`@layer` of `kind` dense or moe: x plus attention, plus feed-forward or experts and the shared one."""
    layer = Layer(sizes, ranks, recipe)
    f = layer.f
    layer.attention_weights()
    norm2 = layer.vector("norm2.gain", sizes.hidden)
    dense = layer.dense_weights("" if kind == "dense" else "shared.", sizes.ffn if kind == "dense" else sizes.shared_ffn)
    experts = layer.expert_weights() if kind == "moe" else []
    middle = layer.attention()
    normed = rms_norm(middle, norm2, EPS, "norm2")
    y = layer.dense(normed, dense, "" if kind == "dense" else "shared.")
    if experts:
        y = f.elementwise("arith.addf", y, layer.experts(normed, experts), name="mlp")
    f.returns(f.elementwise("arith.addf", middle, y, name="out"), shard=layer.shard(0))
    return layer.module


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("dense", "moe"), default="dense", help="what follows attention (dense)")
    parser.add_argument("--recipe", choices=("block128", "bf16"), default="block128", help="of the linears (block128)")
    parser.add_argument("--ranks", type=int, help="tensor-parallel ranks (16; small: 4)")
    parser.add_argument("--capacity", type=float, default=1.0,
                        help="room of an expert, in multiples of what it gets if all get as many tokens (1)")
    parser.add_argument("--grouped", action="store_true",
                        help="the experts of a rank share their room: their linears are products of groups of rows")
    parser.add_argument("--small", action="store_true", help="small, and every op one that runs")
    parser.add_argument("--parts", type=int, help="with --small: the layer of so many ranks, on one")
    options = parser.parse_args()
    if options.parts is not None and (not options.small or options.ranks is not None or options.parts < 2):
        print(f"error: expected --parts from 2 on, with --small and without --ranks, but got {options.parts}", file=sys.stderr)
        return 1
    ranks = options.parts or options.ranks or (4 if options.small else 16)
    if ranks < 2 or (not options.small and FULL.heads % ranks):
        expected = "from 2 on" if options.small else f"from 2 on that divide {FULL.heads} heads"
        print(f"error: expected --ranks {expected}, but got {ranks}", file=sys.stderr)
        return 1
    if options.capacity < 1 or (options.small and options.capacity != 1):
        print(f"error: expected --capacity of at least 1, and without --small, but got {options.capacity}", file=sys.stderr)
        return 1
    if options.grouped and (options.small or options.kind != "moe"):
        print("error: expected --grouped with --kind=moe, and without --small", file=sys.stderr)
        return 1
    sizes = (small_sizes(ranks, options.parts or 1) if options.small
             else replace(FULL, capacity=options.capacity, grouped=options.grouped))
    small = " --small" if options.small else ""
    small += f" --capacity={options.capacity}" if options.capacity != 1 else ""
    small += " --grouped" if options.grouped else ""
    count = f"--parts={ranks}" if options.parts else f"--ranks={ranks}"
    print(f"// python3 examples/deepseek.py --kind={options.kind} --recipe={options.recipe} {count}{small}")
    what = "dense layer" if options.kind == "dense" else "layer of experts"
    where = f"{ranks} tensor-parallel ranks" if not options.parts else f"one rank that has the parts of {ranks}"
    size = "as a small model" if options.small else f"at {sizes.tokens:,} tokens"
    print(f"// A {what} of DeepSeek-V3 on {where} {size}, forward only.\n")
    print(deepseek_layer(options.kind, sizes, 1 if options.parts else ranks, options.recipe), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
