# ===- abs_fault.py - a save list with abs, explained and measured ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Float8 rowwise feed-forward layers of Llama-3-8B, each under a selective checkpoint whose list names aten.abs, as torchtitan's
# did. One command says what to change and what that saves (fp8opt.explain), then the step is run with the list as it is and
# with abs taken off it, in eager mode and under torch.compile, and the peaks are compared with what was said. Several ranks
# shard weights with FSDP2.
#
# usage: python abs_fault.py [--layers 4 --tokens 16384 --dim 4096 --ffn 14336] [--out FILE.json] [--explain-only]
#        torchrun --nproc-per-node=2 abs_fault.py ...
#
# Needs torch and a GPU; with --explain-only no GPU.
#
# ===---------------------------------------------------------------=== #
"""Prints the explanation, then measured peaks beside what it said."""

import argparse
import gc
import json
import os
import pathlib
import sys
from functools import partial

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

import llama_torch
import fp8opt
from fp8opt.graphs.sharded import gathered_bytes

MIB = 2**20
ATEN = torch.ops.aten
LIST = [ATEN.mm.default, ATEN._scaled_mm.default, ATEN.amax.default, ATEN.max.default]


class Checkpointed(nn.Module):
    """A layer under a selective checkpoint that keeps what the operations of `ops` give."""

    def __init__(self, layer, ops):
        super().__init__()
        self.layer, self.ops = layer, ops

    def forward(self, x, cos, sin):
        context = partial(create_selective_checkpoint_contexts, self.ops)
        return checkpoint(self.layer, x, cos, sin, use_reentrant=False, context_fn=context)


def build(options, with_abs):
    ops = LIST + [ATEN.abs.default] if with_abs else LIST
    stack = llama_torch.Stack("ffn", options.layers, options.dim, options.ffn, options.heads, options.groups)
    stack.layers = nn.ModuleList(Checkpointed(layer, ops) for layer in stack.layers)
    return stack


def shard(model, compiled=False):
    """FSDP2 as torchtitan uses it: each layer a group of its own."""
    from torch.distributed.fsdp import fully_shard

    for layer in model.layers:
        if compiled:
            layer.compile()
        fully_shard(layer)
    return fully_shard(model)


def explain(options, ranks, show):
    """What eager mode keeps and what each change of the list would do, by one command, on the meta device."""
    with torch.device("meta"):
        model = build(options, True)
        inputs = llama_torch.inputs(options.tokens, options.dim, options.heads, "meta")
    if ranks > 1:
        shard(model)
    found = fp8opt.explain(model, *inputs, compiled=True)
    if show:
        print(found, flush=True)
    kept, compiled = found.graph.kept
    change = next(change for change in kept.changes if change.op == "aten.abs.default")
    return {"said_peak_bytes": kept.peak_bytes, "said_gathered_bytes": gathered_bytes(model),
            "said_peak_without_abs_bytes": change.peak_bytes, "said_less_bytes": kept.peak_bytes - change.peak_bytes,
            "findings": found.findings, "notes": compiled.notes}


def measure(options, with_abs, compiled, rank, ranks):
    """The peak of the third step over what was allocated before it, largest over the ranks."""
    torch._dynamo.reset()
    gc.collect()
    torch.cuda.empty_cache()
    torch.manual_seed(0)
    model = build(options, with_abs).to("cuda")
    if ranks > 1:
        shard(model, compiled)
    elif compiled:
        for layer in model.layers:
            layer.compile()
    torch.manual_seed(rank)
    x, cos, sin = llama_torch.inputs(options.tokens, options.dim, options.heads, "cuda")
    gradient = torch.randn_like(x)

    def step():
        for parameter in model.parameters():
            parameter.grad = None
        x.grad = None
        model(x, cos, sin).backward(gradient)

    step()
    step()
    for parameter in model.parameters():
        parameter.grad = None
    x.grad = None
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    base = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    peak = torch.tensor(torch.cuda.max_memory_allocated() - base, device="cuda")
    if ranks > 1:
        torch.distributed.all_reduce(peak, torch.distributed.ReduceOp.MAX)
    del model
    return int(peak)


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    for name, value in (("layers", 4), ("tokens", 16384), ("dim", 4096), ("ffn", 14336), ("heads", 32), ("groups", 8)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--explain-only", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    cuda = not options.explain_only
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    if ranks > 1:
        torch.distributed.init_process_group("nccl" if cuda else "gloo")
    result = {"schema": "fp8opt-abs-fault-1", "torch": torch.__version__, "ranks": ranks,
              **explain(options, ranks, rank == 0)}
    if cuda:
        compare(result, options, rank, ranks)
    if ranks > 1:
        torch.distributed.destroy_process_group()
    if options.out and rank == 0:
        pathlib.Path(options.out).write_text(json.dumps(result, indent=1) + "\n")
    return 0


def compare(result, options, rank, ranks):
    """Measures, and prints what was said beside it."""
    rows = []
    for compiled in (False, True):
        mode = "compile" if compiled else "eager"
        peaks = [measure(options, with_abs, compiled, rank, ranks) for with_abs in (True, False)]
        result[mode] = {"peak_bytes": peaks[0], "peak_without_abs_bytes": peaks[1], "less_bytes": peaks[0] - peaks[1]}
        rows.append((f"{mode}, measured", *peaks))
    gathered = result["said_gathered_bytes"]
    rows.insert(0, ("eager, said", result["said_peak_bytes"] + gathered, result["said_peak_without_abs_bytes"] + gathered))
    result["off_pct"] = 100 * abs(result["eager"]["less_bytes"] / result["said_less_bytes"] - 1)
    if rank == 0:
        print(f"{'peak in MiB':<20}{'with abs':>10}{'without':>10}{'less':>10}")
        for name, peak, other in rows:
            print(f"{name:<20}{peak / MIB:>10,.1f}{other / MIB:>10,.1f}{(peak - other) / MIB:>10,.1f}")
        print(f"the measured fall is off by {result['off_pct']:.2f} % from what was said", flush=True)


if __name__ == "__main__":
    sys.exit(main())
