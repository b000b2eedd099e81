# ===- buffers.py - buffers of communication libraries ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What DeepEP and NCCL allocate beside PyTorch, by their own formulas: DeepEP's Config::get_nvl_buffer_size_hint and
# get_rdma_buffer_size_hint (csrc/config.hpp) with the configurations it recommends (deep_ep/buffer.py), and the buffers of a ring
# connection of NCCL (NCCL_BUFFSIZE, and those of its LL and LL128 protocols, src/include/device.h).
#
# ===--------------------------------------------------------===#
"""Buffers of DeepEP and NCCL on one rank."""

import math
from typing import List

from ..job import DEEPEP_TOKENS, Job

__all__ = ["deepep_bytes", "nccl_bytes", "nccl_groups"]

# DeepEP: half of 20 multiprocessors are channels; GPUs of a node; entries of the largest top-k and of the scales of a token.
_CHANNELS, _NODE, _TOP_K, _SCALES = 10, 8, 128, 128
# Bytes of a token's source, and of the word that goes with it between nodes.
_META, _INT4 = 8, 16
# Memory for other nodes is taken from the device in pieces of this size (NVSHMEM_CUMEM_GRANULARITY, as DeepEP sets it).
_PIECE = 2**29
# A receiving connection of NCCL: 4 MiB (Simple), 8 lines x 512 threads x 8 steps x 16 B (LL), 120 x 640 x 8 x 8 B (LL128).
_CONNECTION = 2**22 + 8 * 512 * 8 * 16 + 120 * 640 * 8 * 8


def deepep_bytes(job: Job) -> int:
    """Bytes of DeepEP's buffers for NVLink and RDMA, as Megatron-LM asks for them (fused_a2a.py, get_buffer): bf16 tokens."""
    if not job.buffers.deepep:
        return 0
    ranks = job.sizes.expert * job.sizes.expert_tensor
    local, remote = DEEPEP_TOKENS[ranks]
    nodes = max(ranks // _NODE, 1)
    extra = _TOP_K * (8 + 4) + 4 * _SCALES
    hidden = 2 * job.model.hidden
    peers = min(ranks, _NODE)
    nvlink = _CHANNELS * peers * ((2 * nodes + 3) * 4 + local * (hidden + _META + extra))
    rdma = 0
    if ranks > _NODE:
        rdma = 2 * _CHANNELS * nodes * ((2 * _NODE + 2) * 4 + remote * (hidden + _META + extra + _INT4)) + 2**20
    return math.ceil(nvlink / 128) * 128 + math.ceil(rdma / _PIECE) * _PIECE


def nccl_groups(job: Job) -> List[str]:
    """The groups of more than one rank among which Megatron-LM reduces or gathers."""
    s = job.sizes
    ranks = {
        "tensor": s.tensor,
        "context": s.context,
        "data": s.dense_copies,
        "expert data": s.expert_copies if job.model.moe else 1,
        "expert": 1 if job.buffers.deepep else s.expert,
        "model": s.tensor * s.pipeline if s.pipeline > 1 else 1,
        "world": s.world,
    }
    return [name for name, count in ranks.items() if count > 1]


def nccl_bytes(job: Job) -> int:
    """Bytes of NCCL's rings: in each group one receiving connection on each of `nccl_channels` channels."""
    return len(nccl_groups(job)) * job.buffers.nccl_channels * _CONNECTION
