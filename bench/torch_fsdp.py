# ===- torch_fsdp.py - the feed-forward step under FSDP in PyTorch ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The layers of torch_ffn.py with weights sharded over the processes that torchrun starts: FSDP2 as torchtitan uses it
# (fully_shard on each compiled block, its hooks eager, gathers of the next block ahead), and weights gathered by functional
# collectives inside the compiled graph. Needs torch and a GPU for each process.
#
# usage: torchrun --nproc-per-node=2 bench/torch_fsdp.py [--out FILE] [--layers 4] [--tokens 16384] [--repeats 15] [--only "fp8 rowwise"]
#
# ===---------------------------------------------------------------------=== #
"""The peer of two_gpus.py: step time and peak of PyTorch on the same step; tokens are those of a rank."""

import argparse
import json
import os

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch import nn
from torch.distributed.fsdp import fully_shard

from torch_ffn import FeedForward, measure_step, start_afresh


class Gathered(FeedForward):
    """Weights are the shard of this rank; each is gathered where it is used."""

    def __init__(self, dim, ffn, fp8, group):
        super().__init__(dim, ffn, fp8)
        self.group = group
        for name in ("w1", "w3", "w2"):
            whole = getattr(self, name)
            setattr(self, name, nn.Parameter(whole.detach().chunk(group.size())[group.rank()].clone()))

    def linear(self, x, w):
        return super().linear(x, collectives.all_gather_tensor_autograd(w, gather_dim=0, group=self.group))


def stacks(layers, dim, ffn):
    """Name, a function that makes the stack, and one that makes its layers callable, of each variant."""
    def hooks(fp8):
        model = nn.Sequential(*(FeedForward(dim, ffn, fp8) for _ in range(layers)))
        for layer in model:
            layer.compile()
            fully_shard(layer)
        for index, layer in enumerate(model):
            layer.set_modules_to_forward_prefetch(list(model[index + 1:index + 2]))
            layer.set_modules_to_backward_prefetch(list(model[max(0, index - 1):index]))
        return model, [fully_shard(model)]

    def in_graph(fp8):
        stack = nn.ModuleList([Gathered(dim, ffn, fp8, dist.group.WORLD) for _ in range(layers)])
        return stack, [torch.compile(layer) for layer in stack]

    return [("bf16, FSDP2", lambda: hooks(False)), ("fp8 rowwise, FSDP2", lambda: hooks(True)),
            ("fp8 rowwise, gathers in the graph", lambda: in_graph(True))]


def run_variant(name, make, tokens, dim, repeats):
    start_afresh()
    return measure_step(name, *make(), tokens, dim, repeats)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--dim", type=int, default=4096)
    parser.add_argument("--ffn", type=int, default=14336)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--only", default="", help="of the variants those whose name has this")
    options = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    rows = []
    for name, make in stacks(options.layers, options.dim, options.ffn):
        if options.only not in name:
            continue
        try:
            row = run_variant(name, make, options.tokens, options.dim, options.repeats)
        except Exception as error:  # noqa: BLE001 (one variant that a version of torch lacks)
            row = {"name": name, "error": repr(error)[:300]}
        rows.append(row)
        if dist.get_rank() == 0:
            print(json.dumps(row), flush=True)
            if options.out:
                with open(options.out, "w") as file:
                    json.dump({"torch": torch.__version__, "rows": rows}, file, indent=1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
