# ===- oplist.py - what a list of ops to keep costs ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# torchtitan's selective activation checkpointing keeps the results of the ops in a list, and every second matmul. With float8
# rowwise scaling and `abs` in the list it keeps |x| and |w| of each matmul that it computes again, since that matmul's casts
# read them (pytorch/torchtitan pull requests 808 and 820).
#
# ===--------------------------------------------------------===#
"""Bytes that `abs` in the list of ops to keep costs a Llama layer."""

from typing import List, NamedTuple

from ..command import InputError
from ..job import Job

__all__ = ["Kept", "kept_abs"]


class Kept(NamedTuple):
    """A tensor that the list keeps: what it is, its bytes (bf16), and the matmul whose recomputation reads it."""

    name: str
    bytes: int
    reader: str


def kept_abs(job: Job) -> List[Kept]:
    """What is kept of `abs` in one layer on one GPU. The matmuls in their order: wq, wk, wv, wo, w1, w3, w2; results of the
    first, third, ... are kept, the others are computed again and read the absolute values of both operands. Weights are whole
    (gathered) ones."""
    model = job.model
    if model.mla or model.moe:
        raise InputError(f"expected a dense model without MLA for the list of ops, but got '{model.name}'")
    tokens = job.batch.sequence * job.batch.micro // job.sizes.context
    H, heads, kv = model.hidden, model.heads * model.head_dim, model.kv_heads * model.head_dim
    matmuls = [
        ("wq", "attention input", H, heads),
        ("wk", "attention input", H, kv),
        ("wv", "attention input", H, kv),
        ("wo", "attention output", heads, H),
        ("w1", "ffn input", H, model.ffn),
        ("w3", "ffn input", H, model.ffn),
        ("w2", "activation", model.ffn, H),
    ]
    kept = {}
    for index, (weight, source, columns, rows) in enumerate(matmuls):
        if index % 2:
            kept[source] = Kept(f"|{source}|", 2 * tokens * columns, weight)
            kept[weight] = Kept(f"|{weight}|", 2 * rows * columns, weight)
    return list(kept.values())
