# ===- rates.py - how long an operation takes ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Rates to compare policies of recomputation by: those of the H200, as bench/calibrate.py measured them (the compiler's target
# file h200.json; a test holds these to it). They rank policies; they do not predict a job's step, whose communication is not
# in them.
#
# ===--------------------------------------------------------===#
"""Estimated times of the operations of a layer."""

from .graph import Graph, Op

__all__ = ["BACKWARD", "COPY_BYTES_PER_SECOND", "FLOPS", "op_us"]

# Floating-point operations a second of a matmul by recipe, and bytes a second read and written of everything else.
FLOPS = {"tensorwise": 1345e12, "block": 1078e12, "mxfp8": 1078e12, "bf16": 785e12}
COPY_BYTES_PER_SECOND = 3.46e12

# How many times as long backward takes: two matmuls for each of forward, in attention five for two (arXiv 2205.14135).
BACKWARD = {"core_attn": 2.5}


def op_us(graph: Graph, op: Op, kind: str) -> float:
    """Microseconds of an operation: a multiplying one by its operations (attention in bf16), any other by its bytes."""
    flops = graph.flops.get(op.name)
    if flops:
        return 1e6 * flops / FLOPS["bf16" if op.name == "core_attn" else kind]
    return 1e6 * sum(graph.bytes[name] for name in op.reads + op.makes) / COPY_BYTES_PER_SECOND
