# ===- snapshots.py - memory snapshots with known faults ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Trains a few transformer layers in FP8 as one tensor-parallel rank of Megatron-LM and TransformerEngine would (tensorwise
# scaling on Hopper, sequence parallel; the other ranks' shards are copies of its own), records PyTorch's memory history, and
# writes one snapshot for each planted fault and for three clean runs, each with the job file that describes it and what an
# audit must find. The snapshots in test/python/snapshots/ come from here.
#
#   python bench/snapshots.py --out DIR            (one GPU, PyTorch 2.11; a minute)
#   python bench/snapshots.py --out DIR --dry-run  (no GPU: the same arithmetic at small sizes, no snapshots)
#
# ===----------------------------------------------------------------------=== #

import argparse
import json
import lzma
import pathlib
import pickle
import subprocess
import sys

import torch

E4M3, E5M2, BF16, F32 = torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float32

SIZES = dict(layers=6, hidden=2048, ffn=5632, heads=12, head_dim=128, vocab=16384, tensor=4, tokens=8192)
SMALL = dict(layers=4, hidden=1024, ffn=4608, heads=12, head_dim=64, vocab=8192, tensor=4, tokens=6144)
DRY = dict(layers=2, hidden=64, ffn=128, heads=4, head_dim=16, vocab=64, tensor=4, tokens=128)

# Name: (sizes, microbatches, recomputation, fault).
RUNS = {
    "clean": (SIZES, 1, "none", ""),
    "clean-full": (SIZES, 1, "full", ""),
    "clean-small": (SMALL, 2, "none", ""),
    "gathered-held": (SIZES, 1, "none", "gathered"),
    "two-layouts": (SIZES, 1, "none", "layouts"),
    "gradient-kept": (SIZES, 1, "none", "gradient"),
    "growing-cache": (SIZES, 1, "none", "cache"),
}
STEPS = 4


class Held:
    """What the planted faults hold on to."""

    fault = ""
    gradients = []
    cache = {}


def matmul(a, b_rows, scale, out_dtype=BF16):
    """a [M, K] times the transpose of b_rows [N, K], both fp8; one scale for each."""
    if a.is_cuda:
        return torch._scaled_mm(a, b_rows.t(), scale_a=scale, scale_b=scale, out_dtype=out_dtype)
    return (a.to(F32) @ b_rows.to(F32).t()).to(out_dtype)


def gather(shard, parts):
    """The tensor of all ranks, along tokens."""
    whole = torch.empty((parts * shard.shape[0], shard.shape[1]), dtype=shard.dtype, device=shard.device)
    for part in whole.chunk(parts):
        part.copy_(shard)
    return whole


def scatter(whole, parts):
    """This rank's shard of the sum over all ranks."""
    shard = torch.empty((whole.shape[0] // parts, whole.shape[1]), dtype=whole.dtype, device=whole.device)
    return shard.copy_(whole[: shard.shape[0]])


def transpose(x):
    """The same elements with the axes swapped, in memory."""
    return x.t().contiguous()


class Weight:
    """A weight [out, in]: bf16, its fp8 copies as rows and transposed, f32 gradient and optimizer state."""

    def __init__(self, rows, columns, device, fp8=True):
        self.value = torch.randn(rows, columns, dtype=BF16, device=device) * 0.02
        self.rows = self.value.to(E4M3) if fp8 else None
        self.transposed = transpose(self.rows) if fp8 else None
        self.gradient = torch.zeros(rows, columns, dtype=F32, device=device)
        self.master = self.value.to(F32)

    def step(self):
        """Plain descent, then the copies again, all in place."""
        self.master.add_(self.gradient, alpha=-1e-3)
        self.value.copy_(self.master)
        if self.rows is not None:
            self.rows.copy_(self.value)
            self.transposed.copy_(self.rows.t())
        self.gradient.zero_()


class NormColumnLinear(torch.autograd.Function):
    """LayerNormLinear, column-parallel: keeps its input, the norm's factors and the fp8 shard of the norm's result."""

    @staticmethod
    def forward(ctx, x, weight, parts, one, name):
        factors = torch.rsqrt(x.to(F32).square().mean(1, keepdim=True) + 1e-5)
        shard = (x * factors).to(E4M3)
        gathered = gather(shard, parts)
        y = matmul(gathered, weight.rows, one)
        if Held.fault == "gathered" and name == "fc1":
            ctx.gathered = gathered  # planted: held to the end of this layer's backward
        ctx.save_for_backward(x, factors, shard)
        ctx.weight, ctx.parts, ctx.one, ctx.name = weight, parts, one, name
        return y

    @staticmethod
    def backward(ctx, dy):
        x, factors, shard = ctx.saved_tensors
        weight, parts, one = ctx.weight, ctx.parts, ctx.one
        if Held.fault == "gradient" and ctx.name == "fc1":
            Held.gradients.append(dy)  # planted: kept to the end of backward
        dy_rows = dy.to(E5M2)
        dy_columns = transpose(dy_rows)
        gathered = gather(shard, parts)
        whole = matmul(dy_rows, weight.transposed, one)
        dnorm = scatter(whole, parts)
        del whole
        swapped = transpose(gathered)
        del gathered
        weight.gradient.add_(matmul(dy_columns, swapped, one, F32))
        del swapped, dy_columns, dy_rows
        dot = (dnorm * x).to(F32).mean(1, keepdim=True)
        dx = (dnorm - x * (dot * factors.square()).to(BF16)) * factors.to(BF16)
        return dx, None, None, None, None


class RowLinear(torch.autograd.Function):
    """Row-parallel linear: keeps the transposed fp8 copy of its input."""

    @staticmethod
    def forward(ctx, x, weight, parts, one, name):
        rows = x.to(E4M3)
        columns = transpose(rows)
        whole = matmul(rows, weight.rows, one)
        y = scatter(whole, parts)
        if Held.fault == "layouts" and name == "fc2":
            ctx.rows = rows  # planted: both layouts to the end of this layer's backward
        ctx.save_for_backward(columns)
        ctx.weight, ctx.parts, ctx.one = weight, parts, one
        return y

    @staticmethod
    def backward(ctx, dy):
        (columns,) = ctx.saved_tensors
        weight, parts, one = ctx.weight, ctx.parts, ctx.one
        gathered = gather(dy.to(E5M2), parts)
        dy_columns = transpose(gathered)
        dx = matmul(gathered, weight.transposed, one)
        weight.gradient.add_(matmul(dy_columns, columns, one, F32))
        return dx, None, None, None, None


class Split(torch.autograd.Function):
    """Query, key and value as tensors of their own, as rotary embedding makes them."""

    @staticmethod
    def forward(ctx, qkv, width):
        ctx.width = width
        return tuple(qkv[:, i * width : (i + 1) * width].contiguous() for i in range(3))

    @staticmethod
    def backward(ctx, dq, dk, dv):
        return torch.cat([dq, dk, dv], 1), None


class SwiGLU(torch.autograd.Function):
    """Keeps its input only."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        gate, up = x.chunk(2, 1)
        return torch.nn.functional.silu(gate) * up

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        gate, up = x.chunk(2, 1)
        dx = torch.empty_like(x)
        sigmoid = torch.sigmoid(gate)
        torch.mul(dy * up, sigmoid * (1 + gate * (1 - sigmoid)), out=dx[:, : gate.shape[1]])
        torch.mul(dy, gate * sigmoid, out=dx[:, gate.shape[1] :])
        return dx


class HeadLoss(torch.autograd.Function):
    """Final norm, output matrix (bf16) and cross entropy, which keeps the softmax in f32."""

    @staticmethod
    def forward(ctx, x, weight, parts):
        factors = torch.rsqrt(x.to(F32).square().mean(1, keepdim=True) + 1e-5)
        normed = (x * factors).to(BF16)
        logits = gather(normed, parts) @ weight.value.t()
        softmax = logits.to(F32)
        del logits
        softmax.sub_(softmax.amax(1, keepdim=True)).exp_()
        softmax.div_(softmax.sum(1, keepdim=True))
        ctx.save_for_backward(x, factors, normed, softmax)
        ctx.weight, ctx.parts = weight, parts
        return -softmax[:, 0].log().mean()

    @staticmethod
    def backward(ctx, dloss):
        x, factors, normed, softmax = ctx.saved_tensors
        weight, parts = ctx.weight, ctx.parts
        softmax[:, 0] -= 1
        dlogits = softmax.to(BF16).mul_(1 / softmax.shape[0])
        dnorm = scatter(dlogits @ weight.value, parts)
        weight.gradient.add_(dlogits.t() @ gather(normed, parts))
        dot = (dnorm * x).to(F32).mean(1, keepdim=True)
        return (dnorm - x * (dot * factors.square()).to(BF16)) * factors.to(BF16), None, None


class Checkpoint(torch.autograd.Function):
    """Keeps a layer's input only and runs the layer again in backward, as Megatron-LM's full recomputation does."""

    @staticmethod
    def forward(ctx, x, layer):
        ctx.save_for_backward(x)
        ctx.layer = layer
        with torch.no_grad():
            return layer(x)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.layer(x)
        torch.autograd.backward(y, dy)
        return x.grad, None


class Layer:
    """Attention and a dense SwiGLU on one rank."""

    def __init__(self, number, sizes, device):
        self.number, self.sizes = number, sizes
        hidden, parts = sizes["hidden"], sizes["tensor"]
        self.width = sizes["heads"] // parts * sizes["head_dim"]
        ffn = sizes["ffn"] // parts
        self.one = torch.ones((), dtype=F32, device=device)
        self.qkv, self.o_proj = Weight(3 * self.width, hidden, device), Weight(hidden, self.width, device)
        self.fc1, self.fc2 = Weight(2 * ffn, hidden, device), Weight(hidden, ffn, device)
        self.weights = [self.qkv, self.o_proj, self.fc1, self.fc2]

    def attention(self, x):
        """From the residual to what is added to it."""
        parts, head = self.sizes["tensor"], self.sizes["head_dim"]
        qkv = NormColumnLinear.apply(x, self.qkv, parts, self.one, "qkv")
        q, k, v = Split.apply(qkv, self.width)
        del qkv
        q, k, v = (t.view(1, t.shape[0], -1, head).transpose(1, 2) for t in (q, k, v))
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        del q, k, v
        return RowLinear.apply(
            o.transpose(1, 2).reshape(o.shape[2], self.width), self.o_proj, parts, self.one, "o_proj"
        )

    def mlp(self, x):
        """The same of the feed-forward part."""
        parts = self.sizes["tensor"]
        fc1 = NormColumnLinear.apply(x, self.fc1, parts, self.one, "fc1")
        act = SwiGLU.apply(fc1)
        del fc1
        return RowLinear.apply(act, self.fc2, parts, self.one, "fc2")

    def __call__(self, x):
        middle = x + self.attention(x)
        return middle + self.mlp(middle)


def train(sizes, microbatches, recompute, device, steps, finish=lambda: None):
    """Some steps of training, then `finish()` while the model is there. The fault, if any, is in Held."""
    torch.manual_seed(0)
    layers = [Layer(number, sizes, device) for number in range(sizes["layers"])]
    head = Weight(sizes["vocab"] // sizes["tensor"], sizes["hidden"], device, fp8=False)
    shard = sizes["tokens"] // sizes["tensor"]
    for step in range(steps):
        for _ in range(microbatches):
            x = torch.randn(shard, sizes["hidden"], dtype=BF16, device=device, requires_grad=True)
            for layer in layers:
                if Held.fault == "cache":
                    Held.cache[step, layer.number] = layer.fc1.rows.clone()  # planted: a copy per layer and step
                x = Checkpoint.apply(x, layer) if recompute == "full" else layer(x)
            loss = HeadLoss.apply(x, head, sizes["tensor"])
            del x
            loss.backward()
            Held.gradients.clear()
        for layer in layers:
            for weight in layer.weights:
                weight.step()
        head.step()
    finish()
    return loss.item()


def job_file(sizes, microbatches, recompute):
    """The job as `fp8opt audit --config` reads it."""
    model = dict(name="snapshots", heads=sizes["heads"], kv_heads=sizes["heads"], head_dim=sizes["head_dim"])
    model.update({key: sizes[key] for key in ("layers", "hidden", "ffn", "vocab")})
    return {
        "model": model,
        "sizes": {"tensor": sizes["tensor"]},
        "batch": {"sequence": sizes["tokens"], "microbatches": microbatches},
        "precision": {"compute": "fp8", "recipe": "tensorwise", "gpu": "hopper"},
        "recompute": {"granularity": recompute},
    }


def expectation(fault, sizes, steps):
    """What an audit must say: the kind, the planned tensor it is about, and bytes."""
    layers, tokens, hidden, ffn = sizes["layers"], sizes["tokens"], sizes["hidden"], sizes["ffn"] // sizes["tensor"]
    if fault == "gathered":
        return [dict(kind="outlived", tensor="fc1.gathered", each=tokens * hidden, count=layers, function="gather")]
    if fault == "layouts":
        return [dict(kind="two-layouts", tensor="fc2.x8", each=tokens * ffn, count=layers, function="forward")]
    if fault == "gradient":
        return [dict(kind="outlived", tensor="d.fc1.out", each=tokens * 2 * ffn * 2, count=layers, function="backward")]
    if fault == "cache":
        return [dict(kind="grows", tensor="", each=2 * ffn * hidden, count=layers, function="train", steps=steps)]
    return []


def portable(snapshot, root):
    """The snapshot with file names relative to the repository or to the folder of packages, and no settings of the machine."""
    names, seen = {}, set()

    def short(name):
        if name not in names:
            text = name.replace(str(root) + "/", "")
            names[name] = text.split("/site-packages/")[-1].split("/dist-packages/")[-1].split("/lib/python3")[-1]
        return names[name]

    def visit(frames):
        for frame in frames or []:
            if id(frame) not in seen:
                seen.add(id(frame))
                frame["filename"] = short(frame["filename"])

    for segment in snapshot["segments"]:
        visit(segment.get("frames"))
        for block in segment["blocks"]:
            visit(block.get("frames"))
    for trace in snapshot["device_traces"]:
        for entry in trace:
            visit(entry.get("frames"))
    return {key: snapshot[key] for key in ("segments", "device_traces")}


def record(name, out):
    """One run on the GPU: a step to load kernels, then the steps that are recorded. Prints what the index says of it."""
    sizes, microbatches, recompute, fault = RUNS[name]
    Held.fault = fault
    train(sizes, microbatches, recompute, "cuda", 1)
    Held.gradients, Held.cache = [], {}
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.memory._record_memory_history(context="all", stacks="python", max_entries=200000)
    taken = []

    def finish():
        torch.cuda.synchronize()
        taken.append(torch.cuda.memory._snapshot())

    train(sizes, microbatches, recompute, "cuda", STEPS, finish)
    torch.cuda.memory._record_memory_history(enabled=None)
    data = lzma.compress(pickle.dumps(portable(taken[0], pathlib.Path(__file__).resolve().parents[1])), preset=9)
    (out / f"{name}.pickle.xz").write_bytes(data)
    requested = torch.cuda.memory_stats()["requested_bytes.all.peak"]
    facts = {
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "requested_peak_bytes": requested,
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name(),
    }
    print(json.dumps(facts))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the snapshots")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, without snapshots")
    parser.add_argument("--run", choices=RUNS, help="only this run, in this process")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.run:
        record(options.run, options.out)
        return
    index = {}
    for name, (sizes, microbatches, recompute, fault) in RUNS.items():
        (options.out / f"{name}.json").write_text(json.dumps(job_file(sizes, microbatches, recompute), indent=1) + "\n")
        index[name] = {"expected": expectation(fault, sizes, STEPS), "steps": STEPS}
        if options.dry_run:
            Held.fault, Held.gradients, Held.cache = fault, [], {}
            print(name, train(DRY, microbatches, recompute, "cpu", 2))
            continue
        # A process of its own: the history and the allocator start empty.
        command = [sys.executable, __file__, "--out", str(options.out), "--run", name]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{name} failed:\n{done.stdout}{done.stderr}", flush=True)
            del index[name]
            continue
        index[name].update(json.loads(done.stdout.splitlines()[-1]))
        print(
            name,
            index[name]["peak_bytes"],
            "B at the peak,",
            (options.out / f"{name}.pickle.xz").stat().st_size,
            "B compressed",
            flush=True,
        )
    (options.out / "index.json").write_text(json.dumps(index, indent=1) + "\n")


if __name__ == "__main__":
    main()
