# ===- train.py - a small language model, trained with each recipe ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Trains a model of bytes whose body is a stack of Llama-style feed-forward layers: by our artifacts, one a recipe, and by
# PyTorch in bf16 and in float8, from the same initial values on the same batches. Embedding, norm, head, loss and
# optimizer are PyTorch's in all of them.
#
# usage: train.py --artifacts DIR --text FILE... [--steps 300] [--seeds 3] [--out FILE.json]
#
# DIR holds RECIPE.fp8 for rowwise, tensorwise, delayed and block128, each
#   gen.py --layers=4 --tokens=2048 --dim=256 --ffn=768 --recipe=RECIPE | fp8-opt --compile=target=h200 --emit=artifact
# Needs torch and a GPU, no compiler.
#
# ===--------------------------------------------------------------------=== #
"""Writes loss curves and a table of final losses."""

import argparse
import datetime
import json
import pathlib
import statistics
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

from fp8opt.arrays import run_torch  # noqa: E402
from fp8opt.runtime import Program  # noqa: E402
from torch_ffn import LARGEST, Rowwise, E4M3  # noqa: E402

LAYERS, TOKENS, DIM, FFN, CONTEXT = 4, 2048, 256, 768, 8
SHAPES = {"w1": (FFN, DIM), "w3": (FFN, DIM), "w2": (DIM, FFN)}
RECIPES = ("rowwise", "tensorwise", "delayed", "block128")


def cast_tensor(x):
    scale = LARGEST / torch.clamp(torch.amax(torch.abs(x)).to(torch.float32), min=1e-12)
    return torch.clamp(x.to(torch.float32) * scale, -LARGEST, LARGEST).to(E4M3), 1.0 / scale


class Tensorwise(torch.autograd.Function):
    """x times the transpose of w in float8 with one scale a tensor, and the gradients of both."""

    @staticmethod
    def product(a, b):
        (qa, sa), (qb, sb) = cast_tensor(a), cast_tensor(b)
        return torch._scaled_mm(qa.contiguous(), qb.t().contiguous().t(), scale_a=sa, scale_b=sb,
                                out_dtype=torch.bfloat16, use_fast_accum=True)

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return Tensorwise.product(x, w.t())

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return Tensorwise.product(g, w), Tensorwise.product(g.t(), x)


LINEARS = {"torch bf16": F.linear, "torch fp8 rowwise": Rowwise.apply, "torch fp8 tensorwise": Tensorwise.apply}


def torch_body(linear):
    def body(h, weights):
        for layer in range(LAYERS):
            w1, w3, w2 = (weights[f"layers.{layer}.{name}"] for name in ("w1", "w3", "w2"))
            h = h + linear(F.silu(linear(h, w1)) * linear(h, w3), w2)
        return h

    return body


class Artifact:
    """Our step as an autograd function. An artifact is a whole step, so the forward result comes from a run with zero
    gradients, and the gradients from a second one; state is what it was for the first."""

    def __init__(self, path):
        self.program = Program(path, "cuda")
        self.function = self.program.functions["ffn"]
        self.end = self.program.functions.get("end_of_step")
        self.names = [f"layers.{layer}.{name}" for layer in range(LAYERS) for name in SHAPES]
        self.state = {}
        for argument in self.function.arguments:
            if argument.role.name == "state":
                make = torch.zeros if len(argument.shape) == 1 else torch.ones
                self.state[argument.name] = make(argument.shape, device="cuda", dtype=torch.float32)

    def run(self, h, gradient, weights):
        arguments = {"x": h, f"d_layers.{LAYERS - 1}.out": gradient, **dict(zip(self.names, weights)), **self.state}
        return run_torch(self.function, arguments)

    def end_of_step(self):
        if self.end:
            run_torch(self.end, self.state)

    def body(self, h, weights):
        artifact = self

        class Step(torch.autograd.Function):
            @staticmethod
            def forward(ctx, h, *values):
                ctx.save_for_backward(h, *values)
                history = {name: value.clone() for name, value in artifact.state.items()}
                out = artifact.run(h, torch.zeros_like(h), values)[f"layers.{LAYERS - 1}.out"].clone()
                for name, value in history.items():
                    artifact.state[name].copy_(value)
                return out

            @staticmethod
            def backward(ctx, gradient):
                h, *values = ctx.saved_tensors
                results = artifact.run(h, gradient.contiguous(), values)
                return (results["d_x"].clone(), *(results[f"d_{name}"].clone() for name in artifact.names))

        return Step.apply(h, *(weights[name] for name in self.names))


def train(body, text, steps, seed, end_of_step=None):
    """The loss of each step."""
    torch.manual_seed(seed)
    master = {"embedding": torch.randn(CONTEXT, 256, DIM // CONTEXT, device="cuda") * 0.5,
              "norm": torch.ones(DIM, device="cuda"), "head": torch.randn(256, DIM, device="cuda") * DIM**-0.5}
    for layer in range(LAYERS):
        for name, shape in SHAPES.items():
            master[f"layers.{layer}.{name}"] = torch.randn(shape, device="cuda") * shape[1]**-0.5 * 0.5
    master = {name: value.requires_grad_(True) for name, value in master.items()}
    optimizer = torch.optim.AdamW(master.values(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.01, foreach=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: min(1, (t + 1) / 20) * max(0.1, 1 - t / steps))
    batches = torch.Generator().manual_seed(seed)
    places = torch.arange(CONTEXT, device="cuda")
    losses = []
    for _ in range(steps):
        start = torch.randint(len(text) - CONTEXT - 1, (TOKENS,), generator=batches).cuda()
        window = text[start[:, None] + torch.arange(CONTEXT + 1, device="cuda")]
        context, target = window[:, :CONTEXT].long(), window[:, CONTEXT].long()
        weights = {name: value.to(torch.bfloat16) for name, value in master.items()}
        h = weights["embedding"][places, context].reshape(TOKENS, DIM)
        h = body(h.contiguous(), weights)
        h = F.rms_norm(h, (DIM,), weights["norm"])
        loss = F.cross_entropy((h @ weights["head"].t()).float(), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if end_of_step:
            end_of_step()
        torch.nn.utils.clip_grad_norm_(master.values(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--artifacts", required=True, type=pathlib.Path)
    parser.add_argument("--text", required=True, nargs="+", type=pathlib.Path, help="what the model learns")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    data = b"".join(path.read_bytes() for path in options.text)
    text = torch.frombuffer(bytearray(data), dtype=torch.uint8).cuda()
    rows = []
    for name in (*LINEARS, *RECIPES):
        for seed in range(options.seeds):
            if name in LINEARS:
                losses = train(torch_body(LINEARS[name]), text, options.steps, seed)
            else:
                artifact = Artifact(options.artifacts / f"{name}.fp8")
                losses = train(artifact.body, text, options.steps, seed, artifact.end_of_step)
            rows.append({"name": name if name in LINEARS else f"fp8-opt {name}", "seed": seed,
                         "losses": [round(loss, 5) for loss in losses],
                         "final": statistics.fmean(losses[-20:])})
            print(f"{rows[-1]['name']:24} seed {seed}: first {losses[0]:.4f}, mean of the last 20 {rows[-1]['final']:.4f}",
                  flush=True)
    result = {"schema": "fp8opt-training-1", "date": datetime.date.today().isoformat(),
              "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "bytes": len(data),
              "layers": LAYERS, "tokens": TOKENS, "dim": DIM, "ffn": FFN, "steps": options.steps, "rows": rows}
    if options.out:
        options.out.write_text(json.dumps(result) + "\n")
    finals = {}
    for row in rows:
        finals.setdefault(row["name"], []).append(row["final"])
    base = finals["torch bf16"]
    spread = max(base) - min(base)
    print(f"\nmean of the last 20 losses over {options.seeds} seeds; bf16's own spread over seeds is {spread:.4f}")
    for name, values in finals.items():
        difference = statistics.fmean(v - b for v, b in zip(values, base))
        print(f"{name:24} {statistics.fmean(values):.4f}  same seed less bf16: {difference:+.4f}")


if __name__ == "__main__":
    main()
