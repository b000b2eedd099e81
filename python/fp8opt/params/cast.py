# ===- cast.py - from master weights to what the model computes with ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The step that follows the optimizer's: master weights become the parameters of the next step. What it holds at each point
# beside what stays.
#
# ===--------------------------------------------------------===#
"""The cast of master weights as a step, with the bytes that live during it."""

import dataclasses
from fractions import Fraction
from typing import List

from . import Precision

__all__ = ["CastPoint", "cast_steps", "transient_bytes"]

SOURCE = "TransformerEngine, transformer_engine/pytorch/tensor/utils.py, cast_master_weights_to_fp8"


@dataclasses.dataclass(frozen=True)
class CastPoint:
    """One point of the cast: what happens, and bytes that live there beside what stays from step to step."""

    what: str
    bytes: Fraction
    why: str


def cast_steps(precision: Precision, parameters: int, d: int, largest: int, weights: int) -> List[CastPoint]:
    """The cast of one rank's linears.

    `parameters`: their number on this rank; d: ranks that the master is spread over; `largest`: elements of the largest
    weight; `weights`: number of weight tensors. Bytes are exact, scales and maxima included.
    """
    p, shard = precision, Fraction(parameters, d if precision.optimizer != "replicated" else 1)
    if p.compute == "bf16":
        return [CastPoint("master shard to parameter shard", Fraction(0), "written where it stays")]
    if p.parameters != "fp8":
        points = [
            CastPoint(
                "master shard to parameter shard", Fraction(0), "bf16, written where it stays, then gathered in place"
            )
        ]
        return points + [
            CastPoint(
                "fp8 copies of one weight", Fraction(0), "written to the copies that stay; first microbatch of a step"
            )
        ]
    if p.recipe == "tensorwise":
        maxima = Fraction(4 * weights)
        why = f"4 B for each of {weights} weights, all-reduced by max before the cast"
    elif p.recipe == "block":
        maxima = Fraction(4 * parameters, 16384)
        why = "4 B for each 128 x 128 block, all-reduced by max before the cast"
    else:
        maxima, why = Fraction(0), "none: quantised after the gather, each rank has whole blocks"
    points = [CastPoint("maxima of the master shard", maxima, why)]
    if p.recipe == "mxfp8":
        buffer = 0 if p.reuse_gradient_buffer else 2 * parameters
        why = (
            "2 B a parameter; aliases the idle gradient buffer"
            if not buffer
            else "2 B a parameter; counted as resident"
        )
        points.append(CastPoint("bf16 parameters gathered", Fraction(0), why))
        points.append(CastPoint("rows and columns quantised on arrival", Fraction(0), "written where they stay"))
        return points
    points.append(
        CastPoint(
            "master shard to fp8 shard",
            maxima,
            f"written into the parameter buffer: {float(shard):,.0f} B of it, no copy",
        )
    )
    points.append(CastPoint("fp8 shards gathered", Fraction(0), "in place: 1 B a parameter travels"))
    if p.gpu == "hopper":
        if p.transposed == "kept":
            points.append(CastPoint("transposed copies made on arrival", Fraction(0), "written where they stay"))
        else:
            points.append(
                CastPoint(
                    "transposed copy of one weight",
                    Fraction(largest),
                    "made before its matmul in backward, dropped after",
                )
            )
    return points


def transient_bytes(points: List[CastPoint]) -> Fraction:
    """The most that lives at one point of the cast beside what stays."""
    return max(point.bytes for point in points)
