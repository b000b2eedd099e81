# ===- grouped.py - products of groups of rows in NumPy ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The order of operations of docs/architecture.md, "Numbers", a group at a time.
#
# ===----------------------------------------------------------------------=== #
"""Products of groups of rows in NumPy: `Operand`, `grouped_rows`, `grouped_sum`."""

from dataclasses import dataclass
from typing import Optional, Sequence, Tuple

import numpy as np

F32 = np.float32


@dataclass
class Operand:
    """Elements, and the multipliers they were cast with, one for each group of them (0: the whole dimension)."""

    data: np.ndarray
    scale: Optional[np.ndarray] = None
    group: Optional[Tuple[int, ...]] = None

    def factors(self) -> Optional[np.ndarray]:
        """What each element is multiplied by to get what it stands for."""
        if self.scale is None or self.group is None:
            return None
        index = np.ix_(*[np.arange(dim) // size if size else np.zeros(dim, int)
                         for dim, size in zip(self.data.shape, self.group)])
        return (F32(1) / self.scale)[index]


def _product(a: np.ndarray, b: np.ndarray, da: Optional[np.ndarray], db: Optional[np.ndarray], block: int) -> np.ndarray:
    """[m, k] times [k, n]: k ascending, product and sum rounded apart; blocks of k summed, scaled and added."""
    total = np.zeros((a.shape[0], b.shape[1]), F32)
    for start in range(0, a.shape[1], block or a.shape[1]):
        acc = np.zeros_like(total)
        for k in range(start, min(start + (block or a.shape[1]), a.shape[1])):
            acc = acc + a[:, k:k + 1] * b[k:k + 1, :]
        if da is not None:
            acc = acc * da[:, start:start + 1]
        if db is not None:
            acc = acc * db[start:start + 1, :]
        total = total + acc if block else acc
    return total


def _block(a: Operand, b: Operand) -> int:
    """How many elements of the sum share a scale; 0: all."""
    return 0 if a.group is None or b.group is None else max(a.group[-1], b.group[-2])


def grouped_rows(a: Operand, b: Operand, offsets: Sequence[int]) -> np.ndarray:
    """Rows of group g of `a` [capacity, K] times `b[g]`, in f32, of `b` [G, K, N]; 0 behind the last group."""
    result = np.zeros((a.data.shape[0], b.data.shape[2]), F32)
    da, db = a.factors(), b.factors()
    for g, (begin, end) in enumerate(zip(offsets, offsets[1:])):
        if begin != end:
            result[begin:end] = _product(a.data[begin:end].astype(F32), b.data[g].astype(F32),
                                         None if da is None else da[begin:end], None if db is None else db[g], _block(a, b))
    return result


def grouped_sum(a: Operand, b: Operand, offsets: Sequence[int]) -> np.ndarray:
    """Columns of `a` [M, capacity] in group g times the rows of `b` [capacity, N] in it, in f32 [G, M, N]."""
    result = np.zeros((len(offsets) - 1, a.data.shape[0], b.data.shape[1]), F32)
    da, db = a.factors(), b.factors()
    for g, (begin, end) in enumerate(zip(offsets, offsets[1:])):
        if begin != end:
            result[g] = _product(a.data[:, begin:end].astype(F32), b.data[begin:end].astype(F32),
                                 None if da is None else da[:, begin:end], None if db is None else db[begin:end],
                                 _block(a, b))
    return result
