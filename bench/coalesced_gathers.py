# ===- coalesced_gathers.py - how long a gather holds its tensors ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What PyTorch still holds of gathered tensors that the program has dropped, while the GPU has not come to them yet: after a plain
# gather, and after one in a coalescing manager, as TransformerEngine's block and MXFP8 recipes gather (docs/rank.md). One GPU is
# enough: a group of one rank takes the same path through PyTorch.
#
#   python bench/coalesced_gathers.py
#
# ===----------------------------------------------------------------------=== #

import os
import time

import torch
import torch.distributed as dist

MIB = 2**20
ROWS, COLUMNS, GATHERS = 65536, 1024, 6


def gather(shards, device, coalesced, asynchronous):
    """Gathers tensors and waits for them, as a linear does before its matmul."""
    wholes = [torch.empty_like(shard) for shard in shards]
    if coalesced:
        with dist._coalescing_manager(device=device, async_ops=asynchronous) as work:
            for whole, shard in zip(wholes, shards):
                dist.all_gather_into_tensor(whole, shard)
        if asynchronous:
            work.wait()
    else:
        for whole, shard in zip(wholes, shards):
            work = dist.all_gather_into_tensor(whole, shard, async_op=asynchronous)
            if asynchronous:
                work.wait()
    return wholes


def measure(device, coalesced, asynchronous, emptied):
    """MiB beyond those before: with the GPU busy after each gather was dropped, and after the GPU has done all of it."""
    shards = [torch.zeros(ROWS, COLUMNS, dtype=torch.uint8, device=device) for _ in range(2)]
    gather(shards, device, coalesced, asynchronous)
    settle(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda._sleep(1_000_000_000)
    held = []
    for _ in range(GATHERS):
        wholes = gather(shards, device, coalesced, asynchronous)
        wholes[0].view(torch.int32).add_(1)  # what reads it
        if emptied:
            for whole in wholes:
                whole.data = torch.empty(0, dtype=torch.uint8, device=device)
        del wholes
        if emptied:
            del whole
        held.append((torch.cuda.memory_allocated(device) - before) // MIB)
    settle(device)
    return held, (torch.cuda.memory_allocated(device) - before) // MIB


def settle(device):
    """Lets the GPU finish, the watchdog see it, and the next collective clean up."""
    torch.cuda.synchronize(device)
    time.sleep(0.5)
    dist.all_reduce(torch.zeros(1, device=device))
    torch.cuda.synchronize(device)
    time.sleep(0.5)
    dist.all_reduce(torch.zeros(1, device=device))
    torch.cuda.synchronize(device)


def main():
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29571")
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", rank=0, world_size=1)
    print(
        f"PyTorch {torch.__version__}, {torch.cuda.get_device_name(device)}; each gather makes 2 x {ROWS * COLUMNS // MIB} MiB"
    )
    for name, *how in (
        ("plain, waited for at once", False, False, False),
        ("plain, asynchronous", False, True, False),
        ("coalesced, waited for at once", True, False, False),
        ("coalesced, asynchronous", True, True, False),
        ("coalesced, emptied by hand", True, False, True),
    ):
        held, after = measure(device, *how)
        print(
            f"{name:32} held with the GPU behind: {' '.join(f'{size:5}' for size in held)} MiB; in the end {after} MiB"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
