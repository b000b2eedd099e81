# ===- layers.py - the layers of a job on one rank ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the graph of a transformer layer as Megatron-LM and TransformerEngine run it on one rank: which copies a linear makes
# of its operands, what it gathers, what it keeps for backward (TransformerEngine, transformer_engine/pytorch/module/linear.py
# and layernorm_linear.py; Megatron-LM, megatron/core/transformer).
#
# ===--------------------------------------------------------===#
"""Graphs of layers: attention or MLA, dense MLP or experts, in bf16 or FP8."""

import math
from typing import FrozenSet, Tuple

from ..job import Job
from .graph import Graph, Op

__all__ = ["embedding_graph", "layer_graph", "loss_graph"]


class _Builder:
    """Builds one layer. `n` tokens on a sequence-parallel shard, `N` on the tensor-parallel rank."""

    def __init__(self, job: Job, input_name: str = "residual", output_name: str = "output"):
        sizes, model = job.sizes, job.model
        self.job, self.model = job, model
        self.N = job.batch.sequence * job.batch.micro // sizes.context
        self.T = sizes.tensor
        self.n = self.N // sizes.tensor if sizes.sequence else self.N
        self.gathers = sizes.sequence and sizes.tensor > 1
        p = job.precision
        self.fp8 = p.compute == "fp8"
        # Whether the columns of an activation can be made from its rows: one scale for the whole tensor.
        self.one_scale = p.recipe == "tensorwise"
        self.transposes = p.gpu == "hopper"
        self.scale_groups = {"tensorwise": 0, "block": 128, "mxfp8": 32}[p.recipe]
        self.scale_bytes = {"tensorwise": 0, "block": 4, "mxfp8": 1}[p.recipe]
        self.originals = job.recompute.originals
        # Rows and columns, and the scales, travel in one coalesced gather.
        self.coalesces = not self.one_scale
        self.graph = Graph(input_name, output_name)
        self.graph.bytes[input_name] = 2 * self.n * model.hidden
        self.gradients = []

    def size(self, rows: int, columns: int, kind: str) -> int:
        """Bytes of a tensor: bf16, f32, or fp8 with the recipe's scales."""
        count = rows * columns
        if kind != "fp8":
            return count * {"bf16": 2, "f32": 4}[kind]
        return count + (math.ceil(count / self.scale_groups) * self.scale_bytes if self.scale_groups else 0)

    def tensor(self, name: str, rows: int, columns: int, kind: str = "bf16") -> str:
        """Declares a tensor and gives its name."""
        self.graph.bytes[name] = self.size(rows, columns, kind)
        return name

    def forward(self, name: str, reads, makes, modules: FrozenSet[str] = frozenset(), work=()) -> None:
        """Adds a forward operation."""
        self.graph.forward.append(Op(name, tuple(reads), tuple(makes), tuple(work)))
        self.graph.modules[name] = modules

    def backward(self, name: str, reads, makes, work=()) -> None:
        """Adds a backward operation of the part being built; parts are put in reverse order by `finish`."""
        self.gradients[-1].append(Op(name, tuple(reads), tuple(makes), tuple(work)))

    def gathered(self, sent: Tuple[str, ...], made: Tuple[str, ...]) -> None:
        """Names what a gather reads and makes. Where gathers are coalesced, PyTorch holds it too long (`frees`)."""
        if self.coalesces:
            self.graph.sent += sent
            self.graph.gathered += made

    def part(self) -> None:
        """Starts a part: its backward operations run before those of the parts added earlier."""
        self.gradients.append([])

    def finish(self) -> Graph:
        """The graph."""
        self.graph.backward = [op for part in reversed(self.gradients) for op in part]
        return self.graph

    def norm(
        self,
        name: str,
        x: str,
        rows: int,
        columns: int,
        also: Tuple[str, ...] = (),
        modules=frozenset(),
        fused: bool = False,
    ) -> str:
        """RMSNorm of x; its backward adds to the gradients in `also`. `fused`: in FP8 the linear behind it quantises the
        result as it is made (LayerNormLinear), so that it is never whole in bf16; gives what that linear's cast reads.
        """
        y = self.tensor(f"{name}.out", rows, columns)
        self.part()
        self.backward(f"{name}.backward", [x, f"d.{y}", *also], [self.tensor(f"d.{x}", rows, columns)])
        if fused and self.fp8:
            return x
        self.forward(name, [x], [y], modules)
        return y

    def linear(
        self,
        name: str,
        x: str,
        n: int,
        K: int,
        M: int,
        kind: str,
        modules=frozenset(),
        casts=frozenset(),
        original=False,
        dx="",
    ) -> str:
        """A linear of this rank. `kind`: column (gathers its n rows along tokens), row (scatters its result), plain. K and M
        are sizes on the rank; `dx` names the gradient of its input; `casts`: modules whose recomputation drops the copies of
        its input. Gives the result's name."""
        N, graph = self.N, self.graph
        gathers = self.gathers and kind != "plain"
        rows_out = {"column": N if self.gathers else n, "row": self.n if self.gathers else n, "plain": n}[kind]
        y = self.tensor(f"{name}.out", rows_out, M)
        dy, dx = f"d.{y}", dx or f"d.{x}"
        self.tensor(dy, rows_out, M)
        graph.flops[f"{name}.matmul"] = 2.0 * (N if gathers else n) * K * M
        self.part()
        if not self.fp8:
            self._bf16_linear(name, x, dy, n, K, M, kind, gathers, modules, y, dx)
            return y
        # Forward: quantise, gather the rows, multiply. What is kept: the columns; where one scale covers the tensor and the
        # input is gathered, the rows, since columns are made after the gather of backward (facts of TransformerEngine).
        row = self.tensor(f"{name}.x8", n, K, "fp8")
        keep_row = self.one_scale and (gathers and kind == "column" or not self.transposes)
        kept = row
        made = [row]
        if not keep_row:
            kept = self.tensor(f"{name}.x8t", n, K, "fp8")
            made.append(kept)
        self.forward(f"{name}.cast", [x], made, modules | casts)
        operand = row
        if gathers and kind == "column":
            operand = self.tensor(f"{name}.gathered", N, K, "fp8")
            self.forward(f"{name}.gather", [row], [operand], modules)
            self.gathered((row,), (operand,))
        if gathers and kind == "row":
            whole = self.tensor(f"{name}.whole", N, M)
            self.forward(f"{name}.matmul", [operand], [whole], modules)
            self.forward(f"{name}.scatter", [whole], [y], modules)
        else:
            self.forward(f"{name}.matmul", [operand], [y], modules)
        # Backward.
        source = x if original and self.originals else kept
        if source == x:
            self.backward(f"{name}.cast_again", [x], [self.tensor(f"{name}.x8t~", n, K, "fp8")])
            source = f"{name}.x8t~"
        dy_rows = rows_out
        drow, dcol = self.tensor(f"{name}.dy8", dy_rows, M, "fp8"), ""
        casts = [drow]
        if not (self.one_scale and not self.transposes):
            dcol = self.tensor(f"{name}.dy8t", dy_rows, M, "fp8")
            casts.append(dcol)
        if self.one_scale and gathers and kind == "row":
            casts, dcol = [drow], ""  # columns after the gather
        self.backward(f"{name}.cast_gradient", [dy], casts)
        if gathers and kind == "row":
            grow = self.tensor(f"{name}.dy_gathered", N, M, "fp8")
            if self.one_scale:
                self.backward(f"{name}.gather_gradient", [drow], [grow])
                gcol = grow
                if self.transposes:
                    gcol = self.tensor(f"{name}.dy_transposed", N, M, "fp8")
                    self.backward(f"{name}.transpose_gradient", [grow], [gcol])
            else:
                gcol = mixed = self.tensor(f"{name}.dyt_gathered", N, M, "fp8")
                self.backward(f"{name}.gather_gradient", [drow, dcol], [grow, mixed])
                self.gathered((drow, dcol), (grow, mixed))
                if self.transposes:
                    gcol = self.tensor(f"{name}.dyt_swapped", N, M, "fp8")
                    self.backward(f"{name}.swap_gradient", [mixed], [gcol])
            self.tensor(dx, n, K)
            self.backward(f"{name}.dgrad", [grow], [dx])
            # Held to the end of the weight's matmul, as upstream does, though the rows are dead after dgrad.
            self.backward(f"{name}.wgrad", [source, gcol, grow], [])
            graph.weight_operands += [source, gcol]
            return y
        operand = source
        if gathers and kind == "column":
            operand = self.tensor(f"{name}.regathered", N, K, "fp8")
            self.backward(f"{name}.regather", [source], [operand])
            self.gathered((source,), (operand,))
            full = self.tensor(f"{dx}.whole", N, K)
            self.backward(f"{name}.dgrad", [drow], [full])
            self.backward(f"{name}.dgrad_scatter", [full], [self.tensor(dx, n, K)])
            if self.transposes:
                mixed, operand = operand, self.tensor(f"{name}.swapped", N, K, "fp8")
                self.backward(f"{name}.swap", [mixed], [operand])
        else:
            self.backward(f"{name}.dgrad", [drow], [self.tensor(dx, n, K)])
        self.backward(f"{name}.wgrad", [operand, dcol or drow, drow], [])
        graph.weight_operands += [operand, dcol or drow]
        return y

    def _bf16_linear(self, name, x, dy, n, K, M, kind, gathers, modules, y, dx) -> None:
        """The same in bf16: the input is kept, gathered again for the weight's gradient."""
        N, graph, operand = self.N, self.graph, x
        if gathers and kind == "column":
            operand = self.tensor(f"{name}.gathered", N, K)
            self.forward(f"{name}.gather", [x], [operand], modules)
        if gathers and kind == "row":
            whole = self.tensor(f"{name}.whole", N, M)
            self.forward(f"{name}.matmul", [operand], [whole], modules)
            self.forward(f"{name}.scatter", [whole], [y], modules)
            gathered = self.tensor(f"{name}.dy_gathered", N, M)
            self.backward(f"{name}.gather_gradient", [dy], [gathered])
            self.backward(f"{name}.dgrad", [gathered], [self.tensor(dx, n, K)])
            self.backward(f"{name}.wgrad", [x, gathered], [])
            graph.weight_operands += [x, gathered]
            return
        self.forward(f"{name}.matmul", [operand], [y], modules)
        if gathers and kind == "column":
            again = self.tensor(f"{name}.regathered", N, K)
            self.backward(f"{name}.regather", [x], [again])
            full = self.tensor(f"{dx}.whole", N, K)
            self.backward(f"{name}.dgrad", [dy], [full])
            self.backward(f"{name}.dgrad_scatter", [full], [self.tensor(dx, n, K)])
            self.backward(f"{name}.wgrad", [again, dy], [])
            graph.weight_operands += [again, dy]
            return
        self.backward(f"{name}.dgrad", [dy], [self.tensor(dx, n, K)])
        self.backward(f"{name}.wgrad", [x, dy], [])
        graph.weight_operands += [x, dy]


def layer_graph(job: Job, layer: int) -> Graph:
    """The graph of a layer of the job's model on one rank: what a pipeline stage runs for each of its layers. A number beyond
    the last layer is an MTP layer."""
    builder = _Builder(job)
    model, n, H = job.model, builder.n, job.model.hidden
    source = "residual"
    if layer >= model.layers:
        source = _mtp_input(builder)
    _attention(builder, source)
    builder.part()
    builder.forward("add.attention", [source, "o_proj.out"], [builder.tensor("middle", n, H)])
    builder.tensor("d.middle", n, H)
    # The gradient of the residual sum is that of the attention's result: one tensor.
    builder.graph.bytes["d.o_proj.out"] = 0
    builder.backward("add.attention.backward", ["d.middle"], ["d.o_proj.out"])
    if model.is_moe(min(layer, model.layers - 1)):
        _experts(builder)
    else:
        _mlp(builder)
    builder.part()
    builder.tensor("output", n, H)
    builder.forward("add.mlp", ["middle", "mlp.out"], ["output"])
    builder.tensor("d.output", n, H)
    builder.backward("add.mlp.backward", ["d.output"], [])
    return builder.finish()


def _attention(b: _Builder, source: str) -> None:
    """From the residual to `o_proj.out`."""
    model, T, n, N, H = b.model, b.T, b.n, b.N, b.model.hidden
    core, up = frozenset({"core_attn"}), frozenset({"mla_up_proj"})
    heads = max(1, model.heads // T)
    if model.mla:
        mla = model.mla
        norm = frozenset({"layernorm"})
        x = b.norm("norm1", source, n, H, ("d.middle",), norm)
        head, v_head = mla.qk_nope + mla.qk_rope, mla.v_head
        b.graph.bytes["d.norm1.out<q"] = b.graph.bytes["d.norm1.out<kv"] = 2 * n * H
        b.part()
        b.backward("norm1.add", ["d.norm1.out<q", "d.norm1.out<kv"], [b.tensor("d.norm1.out", n, H)])
        b.linear("q_down", x, n, H, mla.q_lora, "plain", casts=norm, original=True, dx="d.norm1.out<q")
        b.linear("kv_down", x, n, H, mla.kv_lora + mla.qk_rope, "plain", casts=norm, original=True, dx="d.norm1.out<kv")
        x = b.norm("q_norm", "q_down.out", n, mla.q_lora, modules=up, fused=True)
        b.linear("q_up", x, n, mla.q_lora, heads * head, "column", up, dx="d.q_norm.out")
        x = b.norm("kv_norm", "kv_down.out", n, mla.kv_lora, modules=up, fused=True)
        b.linear("kv_up", x, n, mla.kv_lora, heads * (mla.qk_nope + v_head), "column", up, dx="d.kv_norm.out")
        b.graph.bytes["d.q_down.out"] = 2 * n * mla.q_lora
        b.graph.bytes["d.kv_down.out"] = 2 * n * (mla.kv_lora + mla.qk_rope)
        b.part()
        k, v = b.tensor("k", N, heads * head), b.tensor("v", N, heads * v_head)
        b.forward("rope", ["kv_up.out"], [k, v], up)
        b.backward("rope.backward", ["d.k", "d.v"], ["d.kv_up.out"])
        q, kv_heads, k_head = "q_up.out", heads, head
    else:
        head = k_head = v_head = model.head_dim
        kv_heads = max(1, model.kv_heads // T)
        x = b.norm("norm1", source, n, H, ("d.middle",), fused=True)
        b.linear("qkv", x, n, H, (heads + 2 * kv_heads) * head, "column", dx="d.norm1.out")
        b.part()
        q = b.tensor("q", N, heads * head)
        k, v = b.tensor("k", N, kv_heads * head), b.tensor("v", N, kv_heads * head)
        b.forward("rope", ["qkv.out"], [q, k, v])
        b.backward("rope.backward", ["d.q", "d.k", "d.v"], ["d.qkv.out"])
    b.part()
    o, lse = b.tensor("o", N, heads * v_head), b.tensor("lse", N, heads, "f32")
    ring = []
    if b.job.sizes.context > 1:
        # Keys and values of the other ranks pass through two buffers (TransformerEngine, attention with context parallelism).
        ring = [b.tensor("ring", N, 2 * kv_heads * (k_head + v_head))]
    b.forward("core_attn", [q, k, v], [o, lse], core, ring)
    # Causal: half of the scores; two matmuls of the head sizes.
    b.graph.flops["core_attn"] = float(heads) * N * b.job.batch.sequence * (k_head + v_head)
    makes = [
        b.tensor(f"d.{q}", N, heads * head),
        b.tensor("d.k", N, kv_heads * k_head),
        b.tensor("d.v", N, kv_heads * v_head),
    ]
    # Gradients of q are added up in f32, and each row's product of o and its gradient is kept (FlashAttention, cuDNN).
    sums = [b.tensor("dq_sums", N, heads * k_head, "f32"), b.tensor("dp_sums", N, heads, "f32")]
    b.backward("core_attn.backward", [q, k, v, o, lse, "d.o"], makes, ring + sums)
    b.linear("o_proj", o, N if b.gathers else n, heads * v_head, H, "row", original=True)


def _mlp(b: _Builder) -> None:
    """A dense SwiGLU: `middle` to `mlp.out`."""
    model, n, N, H = b.model, b.n, b.N, b.model.hidden
    rows = N if b.gathers else n
    mlp, F = frozenset({"mlp"}), max(1, model.ffn // b.T)
    x = b.norm("norm2", "middle", n, H, ("d.output",), mlp, fused=True)
    b.linear("fc1", x, n, H, 2 * F, "column", mlp, dx="d.norm2.out")
    b.part()
    act = b.tensor("act", rows, F)
    b.forward("swiglu", ["fc1.out"], [act], mlp)
    b.backward("swiglu.backward", ["fc1.out", "d.act"], ["d.fc1.out"])
    y = b.linear("fc2", act, rows, F, H, "row", mlp)
    _rename(b, y, "mlp.out")


def _experts(b: _Builder) -> None:
    """Routed experts and a shared one: `middle` to `mlp.out`. Each rank gets `capacity` times the balanced number of tokens."""
    moe, n, N, H = b.model.moe, b.n, b.N, b.model.hidden
    everything, norm, act = frozenset({"moe"}), frozenset({"layernorm"}), frozenset({"moe", "moe_act"})
    R = math.ceil(n * moe.top_k * b.job.capacity / b.job.sizes.expert_tensor)
    F = max(1, moe.ffn // b.job.sizes.expert_tensor)
    x = b.norm("norm2", "middle", n, H, ("d.output",), norm)
    shared = bool(moe.shared_ffn)
    parts = ["d.norm2.out<routed"] + (["d.norm2.out<shared"] if shared else [])
    for name in parts:
        b.tensor(name, n, H)
    b.part()
    b.backward("norm2.add", parts, [b.tensor("d.norm2.out", n, H)])
    if shared:
        whole, S = frozenset({"moe", "shared_experts"}), max(1, moe.shared_ffn // b.T)
        rows = N if b.gathers else n
        b.linear("shared.fc1", x, n, H, 2 * S, "column", whole, norm, dx="d.norm2.out<shared")
        b.part()
        b.forward("shared.swiglu", ["shared.fc1.out"], [b.tensor("shared.act", rows, S)], whole)
        b.backward("shared.swiglu.backward", ["shared.fc1.out", "d.shared.act"], ["d.shared.fc1.out"])
        b.linear("shared.fc2", "shared.act", rows, S, H, "row", whole)
    b.part()
    probs = b.tensor("router.probs", n, moe.top_k, "f32")
    b.forward("router", [x], [probs], everything)
    b.backward("router.backward", [x, probs], [])
    b.part()
    tokens, ordered = b.tensor("dispatched", R, H), b.tensor("permuted", R, H)
    b.forward("dispatch", [x, probs], [tokens], everything)
    b.graph.waits = frozenset({"dispatch"})  # the CPU learns there how many tokens each expert gets
    b.forward("permute", [tokens], [ordered], everything)
    b.tensor("d.dispatched", R, H)
    b.backward("permute.backward", ["d.permuted"], ["d.dispatched"])
    b.backward("dispatch.backward", ["d.dispatched"], ["d.norm2.out<routed"])
    b.linear("experts.fc1", ordered, R, H, 2 * F, "plain", everything)
    b.part()
    b.forward("experts.swiglu", ["experts.fc1.out"], [b.tensor("experts.act", R, F)], act)
    b.backward("experts.swiglu.backward", ["experts.fc1.out", "d.experts.act"], ["d.experts.fc1.out"])
    b.linear("experts.fc2", "experts.act", R, F, H, "plain", everything, act)
    b.part()
    b.forward("unpermute", ["experts.fc2.out"], [b.tensor("unpermuted", R, H)], everything)
    b.forward("combine", ["unpermuted"], [b.tensor("routed.out", n, H)], everything)
    b.tensor("d.unpermuted", R, H)
    b.backward("combine.backward", ["d.mlp.out"], ["d.unpermuted"])
    b.backward("unpermute.backward", ["d.unpermuted"], ["d.experts.fc2.out"])
    b.part()
    b.tensor("mlp.out", n, H)
    b.graph.bytes["d.mlp.out"] = 0  # it is the gradient of the layer's output
    b.forward("add.experts", ["routed.out"] + (["shared.fc2.out"] if shared else []), ["mlp.out"], everything)
    b.backward("add.experts.backward", ["d.output"], ["d.mlp.out"])
    if shared:
        b.graph.bytes["d.shared.fc2.out"] = 0
        b.backward("shared.backward", ["d.output"], ["d.shared.fc2.out"])


def _rename(b: _Builder, old: str, new: str) -> None:
    """Gives the last result of a block the name that the layer adds to the residual; its gradient is the layer's."""
    graph = b.graph
    graph.bytes[new] = graph.bytes.pop(old)
    for index, op in enumerate(graph.forward):
        graph.forward[index] = Op(
            op.name, tuple(new if n == old else n for n in op.reads), tuple(new if n == old else n for n in op.makes)
        )
    graph.bytes[f"d.{old}"] = 0
    b.part()
    b.backward("mlp.backward", ["d.output"], [f"d.{old}"])


def _mtp_input(b: _Builder) -> str:
    """The input of an MTP layer: two hidden states, normed, side by side, projected to one (arXiv 2412.19437, section 2.2)."""
    n, H = b.n, b.model.hidden
    b.part()
    both = b.tensor("mtp.both", n, 2 * H)
    b.forward("mtp.concat", ["residual"], [both])
    b.backward("mtp.concat.backward", ["residual", "d.mtp.both"], [b.tensor("d.residual", n, H)])
    y = b.linear("mtp.eh_proj", both, n, 2 * H, max(1, H // b.T), "column")
    b.part()
    b.forward("mtp.scatter", [y], [b.tensor("mtp.input", n, H)])
    b.tensor("d.mtp.input", n, H)
    b.backward("mtp.scatter.backward", ["d.mtp.input"], [f"d.{y}"])
    return "mtp.input"


def loss_graph(job: Job) -> Graph:
    """The final norm, the output matrix (bf16, split by vocabulary) and the cross entropy, which makes an f32 copy of the
    logits and keeps their softmax (Megatron-LM, tensor_parallel/cross_entropy.py)."""
    b = _Builder(job, output_name="loss")
    n, N, H, V = b.n, b.N, job.model.hidden, -(-job.model.vocab // b.T)
    b.fp8 = False
    x = b.norm("final_norm", "residual", n, H)
    b.linear("head", x, n, H, V, "column", dx="d.final_norm.out")
    b.part()
    rows = N if b.gathers else n
    b.tensor("softmax", rows, V, "f32")
    b.tensor("loss", rows, 1, "f32")
    b.forward("cross_entropy", ["head.out"], ["softmax", "loss"])
    b.backward("cross_entropy.backward", ["softmax"], ["d.head.out"])
    return b.finish()


def embedding_graph(job: Job) -> Graph:
    """The lookup, whole on each tensor-parallel rank before it is summed and scattered along the tokens."""
    b = _Builder(job, input_name="tokens", output_name="residual")
    b.graph.bytes["tokens"] = 8 * b.N
    n, N, H = b.n, b.N, job.model.hidden
    b.part()
    whole = b.tensor("embedding.whole", N, H)
    b.forward("embedding", ["tokens"], [whole])
    b.forward("embedding.scatter", [whole], ["residual"])
    b.tensor("residual", n, H)
    b.tensor("d.residual", n, H)
    b.backward("embedding.gather_gradient", ["d.residual"], [b.tensor("d.embedding.whole", N, H)])
    b.backward("embedding.backward", ["tokens", "d.embedding.whole"], [])
    return b.finish()
