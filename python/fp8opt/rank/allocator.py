# ===- allocator.py - PyTorch's caching allocator ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What PyTorch's caching allocator reserves for a sequence of allocations and frees on one stream, by its own rules (PyTorch,
# c10/cuda/CUDACachingAllocator.cpp): sizes rounded up, pools for small and large blocks, the best fit split, neighbours merged,
# nothing given back. With and without expandable segments (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True). A test replays
# histories that were recorded on an H200 and finds the same segments.
#
# ===--------------------------------------------------------===#
"""What PyTorch's caching allocator reserves."""

import bisect
from typing import Dict, List, Optional, Tuple

__all__ = ["Allocator"]

_MIB = 2**20
_SMALLEST, _SMALL = 512, _MIB  # granularity of blocks; the largest block of the small pool
_SMALL_SEGMENT, _LARGE_SEGMENT, _LARGE_BLOCK, _ROUND = 2 * _MIB, 20 * _MIB, 10 * _MIB, 2 * _MIB
_ADDRESSES = 2**50  # address space of an expandable segment: more than any device has


class _Block:
    """A piece of a segment. `mapped` is false for address space of an expandable segment without memory."""

    __slots__ = ("address", "size", "free", "mapped", "before", "after", "small")

    def __init__(self, address: int, size: int, small: bool, mapped: bool = True):
        self.address, self.size, self.small, self.mapped = address, size, small, mapped
        self.free = True
        self.before: Optional["_Block"] = None
        self.after: Optional["_Block"] = None


class Allocator:
    """One stream of one device. `reserved` is what it holds of the device, `allocated` what its blocks in use take, both in
    bytes, and `segments` every growth in bytes, in order."""

    def __init__(self, expandable: bool = False):
        self.expandable = expandable
        self.reserved = self.allocated = 0
        self.segments: List[int] = []
        self._next = 0
        self._free: Dict[bool, List[Tuple[int, int]]] = {True: [], False: []}
        self._at: Dict[int, _Block] = {}
        self._ends: Dict[bool, _Block] = {}

    def allocate(self, size: int) -> int:
        """Takes a block for `size` bytes and gives its address."""
        size = max(_SMALLEST, -(-size // _SMALLEST) * _SMALLEST)
        small = size <= _SMALL
        free = self._free[small]
        found = bisect.bisect_left(free, (size, 0))
        if found < len(free):
            block = self._at[free.pop(found)[1]]
        else:
            block = self._map(size, small) if self.expandable else self._segment(size, small)
        left = block.size - size
        if left >= _SMALLEST if small or self.expandable else left > _SMALL:
            rest = self._split(block, size)
            self._add(rest)
        block.free = False
        self.allocated += block.size
        return block.address

    def free(self, address: int) -> None:
        """Gives back the block at an address."""
        block = self._at[address]
        block.free = True
        self.allocated -= block.size
        self._add(self._merge(block))

    def place(self, size: int) -> int:
        """The address of a new segment, which decides between blocks of one size. Segments are no neighbours."""
        address = self._next
        self._next += size + _ROUND
        return address

    def _segment(self, size: int, small: bool) -> _Block:
        """A new segment with one block."""
        if small:
            size = _SMALL_SEGMENT
        else:
            size = _LARGE_SEGMENT if size < _LARGE_BLOCK else -(-size // _ROUND) * _ROUND
        block = _Block(self.place(size), size, small)
        self._at[block.address] = block
        self._grow(size)
        return block

    def _map(self, size: int, small: bool) -> _Block:
        """Memory at the end of the pool's expandable segment, together with the free block that may lie before it."""
        page = _SMALL_SEGMENT if small else _LARGE_SEGMENT
        end = self._ends.get(small)
        if end is None:
            end = _Block(self.place(_ADDRESSES), _ADDRESSES, small, mapped=False)
            self._at[end.address] = end
        last = end.before
        missing = size - (last.size if last is not None and last.free else 0)
        wanted = -(-missing // page) * page
        self._ends[small] = self._split(end, wanted)
        end.mapped = True
        self._grow(wanted)
        return self._merge(end)

    def _grow(self, size: int) -> None:
        self.reserved += size
        self.segments.append(size)

    def _split(self, block: _Block, size: int) -> _Block:
        """Cuts a block at `size` and gives the rest."""
        rest = _Block(block.address + size, block.size - size, block.small, block.mapped)
        rest.before, rest.after = block, block.after
        if rest.after is not None:
            rest.after.before = rest
        block.after, block.size = rest, size
        self._at[rest.address] = rest
        return rest

    def _merge(self, block: _Block) -> _Block:
        """A free block together with its free neighbours, which leave the pool."""
        for other in (block.before, block.after):
            if other is not None and other.free and other.mapped and block.mapped:
                self._free[block.small].remove((other.size, other.address))
                first, second = (other, block) if other is block.before else (block, other)
                del self._at[second.address]
                first.size, first.after = first.size + second.size, second.after
                if first.after is not None:
                    first.after.before = first
                block = first
        return block

    def _add(self, block: _Block) -> None:
        """Puts a free block into its pool."""
        bisect.insort(self._free[block.small], (block.size, block.address))
