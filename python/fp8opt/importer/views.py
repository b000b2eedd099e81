# ===- views.py - strided views as reshape, slice, permute, broadcast ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# PyTorch says a view by strides over a storage; the dialect by a chain of view ops over a tensor in row-major order. The
# function here finds the chain for given strides. Pure arithmetic, no IR.
#
#===----------------------------------------------------------------------===//
"""From strides to chains of view ops."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional, Sequence, Tuple

Ints = Tuple[int, ...]


@dataclass(frozen=True)
class Chain:
    """A view of a row-major array: reshape it to `shape`, take `size` elements from `offset` on in each dimension,
    permute by `perm`, reshape to `dropped` (where a dimension of size 1 has to go), then repeat dimensions of size 1 to
    the shape `repeated`. None for a step that changes nothing."""

    shape: Ints
    offset: Optional[Ints]
    size: Optional[Ints]
    perm: Optional[Ints]
    dropped: Optional[Ints]
    repeated: Optional[Ints]


def find_chain(elements: int, shape: Sequence[int], stride: Sequence[int], offset: int) -> Optional[Chain]:
    """The chain that views a storage of `elements` elements with these strides (in elements); None where the elements
    overlap or the strides do not divide one another, so that no chain of these ops gives the view."""
    real = sorted((axis for axis, (size, step) in enumerate(zip(shape, stride)) if size > 1 and step > 0),
                  key=lambda axis: -stride[axis])
    single = [axis for axis in range(len(shape)) if axis not in real]
    extents, outer = [], elements
    for axis in real:
        if outer % stride[axis]:
            return None
        extents.append(outer // stride[axis])
        outer = stride[axis]
    if outer > 1:  # what lies within one step of the innermost dimension
        extents.append(outer)
    starts, rest, step = [], offset, elements
    for extent in extents:
        step //= extent
        starts.append(rest // step)
        rest %= step
    sizes = [shape[axis] for axis in real] + [1] * (len(extents) - len(real))
    if any(start + size > extent for start, size, extent in zip(starts, sizes, extents)):
        return None
    # Dimensions of the view of size 1, or repeated, become dimensions of size 1 of the reshape, so that none has to be
    # put in behind a slice; one that is left over has to be dropped behind it, which copies.
    spare = len(extents) - len(real)
    extents += [1] * (len(single) - spare)
    starts += [0] * (len(extents) - len(starts))
    sizes += [1] * (len(extents) - len(sizes))
    order = {axis: place for place, axis in enumerate(real + single)}
    perm = [order[axis] for axis in range(len(shape))]
    surplus = [place for place in range(len(extents)) if place not in perm]
    perm += surplus
    seen = [sizes[place] for place in perm]
    final = [1 if step == 0 else size for size, step in zip(shape, stride)]
    whole = all(start == 0 for start in starts) and sizes == extents
    # Dimensions of size 1 may stand in any order without a permutation that moves elements.
    moving = [place for place in perm if sizes[place] > 1]
    if whole and moving == sorted(moving):
        extents, perm = final, list(range(len(final)))
        surplus = []
    return Chain(tuple(extents), None if whole else tuple(starts), None if whole else tuple(sizes),
                 None if perm == sorted(perm) else tuple(perm),
                 tuple(final) if surplus and seen != final else None,
                 tuple(shape) if list(shape) != final else None)


def physical_order(shape: Sequence[int], stride: Sequence[int]) -> Optional[Ints]:
    """The dimensions from outermost to innermost in memory, where the tensor is dense: no gaps, nothing repeated; else
    None."""
    moved = sorted((axis for axis in range(len(shape)) if shape[axis] > 1), key=lambda axis: -stride[axis])
    step = 1
    for axis in reversed(moved):
        if stride[axis] != step:
            return None
        step *= shape[axis]
    # Dimensions of size 1 keep their place, so that a contiguous tensor keeps its shape.
    result, index = [], 0
    for axis in range(len(shape)):
        if shape[axis] > 1:
            result.append(moved[index])
            index += 1
        else:
            result.append(axis)
    return tuple(result)


def contiguous(shape: Sequence[int]) -> Ints:
    """The strides of a row-major tensor."""
    return tuple(math.prod(shape[axis + 1:]) for axis in range(len(shape)))
