# ===- snapshot.py - PyTorch's memory snapshots ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What torch.cuda.memory._dump_snapshot wrote (the format is described at torch.cuda.memory._snapshot): the history of the
# allocator as lives of allocations with their stacks, and what was reserved when. Needs no torch.
#
# ===--------------------------------------------------------===#
"""Memory snapshots of PyTorch as lives of allocations."""

import dataclasses
import pathlib
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..command import InputError
from .reading import load_plain_pickle

__all__ = ["Allocation", "Frame", "Snapshot", "read_snapshot"]


class Frame(NamedTuple):
    """A line of a stack."""

    file: str
    line: int
    function: str

    def __str__(self):
        return f"{self.file}:{self.line} {self.function}"


class Allocation(NamedTuple):
    """A life: the event that made it and that freed it (-1: before the history; None: never), bytes asked for, the number of
    its stack, and the event after which its memory could be used again (streams may hold it longer)."""

    born: int
    died: Optional[int]
    size: int
    stack: int
    address: int
    released: Optional[int]


@dataclasses.dataclass
class Snapshot:
    """The history of one device. `stacks`: innermost line first; `live`: bytes asked for and not freed after each event;
    `reserved`: bytes that the allocator held then; `waiting`: bytes freed that another stream still held."""

    device: int
    allocations: List[Allocation]
    stacks: List[Tuple[Frame, ...]]
    live: List[int]
    reserved: List[int]
    waiting: List[int]
    segments: List[Tuple[int, int, int, Optional[int], int]]  # address, bytes, born, died, stack

    @property
    def peak(self) -> int:
        """The event after which most was live."""
        return max(range(len(self.live)), key=self.live.__getitem__)


def read_snapshot(path: pathlib.Path, device: Optional[int] = None) -> Snapshot:
    """Reads a snapshot (a pickle, which may be compressed with gzip or xz). `device`: default the one with most events."""
    data = load_plain_pickle(path)
    name = f"'{path}'"
    if (
        not isinstance(data, dict)
        or not isinstance(data.get("device_traces"), list)
        or not isinstance(data.get("segments"), list)
    ):
        raise InputError(
            f"{name}: expected a snapshot of torch.cuda.memory._dump_snapshot, with 'segments' and 'device_traces'"
        )
    traces = data["device_traces"]
    if not all(isinstance(trace, list) for trace in traces) or not any(traces):
        raise InputError(
            f"{name}: expected a history of allocations, but found none; call torch.cuda.memory._record_memory_history() before "
            "the steps to look at"
        )
    if device is None:
        device = max(range(len(traces)), key=lambda index: len(traces[index]))
    if not 0 <= device < len(traces):
        raise InputError(f"{name}: expected a device below {len(traces)}, but got {device}")
    return _Reader(name).read(device, traces[device], data["segments"])


_ACTIONS = frozenset(
    ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap")
)


# States of a block that something holds.
_HELD = ("active_allocated", "active_pending_free", "active_awaiting_free")


class _Reader:
    """Turns the containers into lives, checking the type of whatever it uses."""

    def __init__(self, name: str):
        self.name = name
        self.stacks: List[Tuple[Frame, ...]] = []
        self.by_content: Dict[Tuple[Frame, ...], int] = {}
        self.by_identity: Dict[int, int] = {}
        self.by_frames: Dict[Tuple[int, ...], int] = {}
        self.frames: Dict[int, Frame] = {}

    def wrong(self, what: str, value: Any) -> InputError:
        """The error for a value of the wrong kind; the value is cut short, as it may be anything."""
        return InputError(f"{self.name}: expected {what}, but got {_short(value)}")

    def number(self, table: Dict[str, Any], key: str) -> int:
        """An address or a size."""
        value = table.get(key)
        if type(value) is not int or not 0 <= value < 1 << 60:
            raise self.wrong(f"'{key}' as a number", value)
        return value

    def stack(self, frames: Any) -> int:
        """The number of a stack. Frames, or whole lists of them, are shared objects in most snapshots and found by identity."""
        number = self.by_identity.get(id(frames))
        if number is not None:
            return number
        if frames is None:
            frames = []
        if not isinstance(frames, list):
            raise self.wrong("'frames' as a list", frames)
        identities = tuple(map(id, frames))
        number = self.by_frames.get(identities)
        if number is None:
            number = self._new_stack(frames)
            self.by_frames[identities] = number
        self.by_identity[id(frames)] = number
        return number

    def _new_stack(self, frames: List[Any]) -> int:
        """The number of a stack by its content."""
        content = []
        for frame in frames:
            known = self.frames.get(id(frame))
            if known is None:
                if not isinstance(frame, dict):
                    raise self.wrong("a frame with 'filename', 'line' and 'name'", frame)
                file, line, function = frame.get("filename"), frame.get("line"), frame.get("name")
                if not (isinstance(file, str) and isinstance(line, int) and isinstance(function, str)):
                    raise self.wrong("a frame with 'filename', 'line' and 'name'", frame)
                known = self.frames[id(frame)] = Frame(file, line, function)
            content.append(known)
        key = tuple(content)
        number = self.by_content.setdefault(key, len(self.stacks))
        if number == len(self.stacks):
            self.stacks.append(key)
        return number

    def read(self, device: int, trace: List[Any], segments: List[Any]) -> Snapshot:
        """All of one device. The containers outlive this call, so identities stay taken."""
        born: List[int] = []
        died: List[Optional[int]] = []
        released: List[Optional[int]] = []
        sizes: List[int] = []
        stacks: List[int] = []
        addresses: List[int] = []
        where: Dict[int, int] = {}  # address to the allocation there
        awaited: Dict[int, int] = {}
        live, waiting, steps = [], [], []
        now = held = 0
        pieces: Dict[int, List] = {}
        regions: List[List] = []
        before: List[Allocation] = []
        stack = self.stack
        for index, event in enumerate(trace):
            if type(event) is not dict:
                raise self.wrong("an event as a dictionary", event)
            action = event.get("action")
            step = 0
            if type(action) is not str:
                raise self.wrong("'action' of an event as text", action)
            if action in _ACTIONS:
                address, size = event.get("addr"), event.get("size")
                if type(address) is not int or type(size) is not int or not 0 <= size < 1 << 60:
                    raise self.wrong("'addr' and 'size' of an event as numbers", event)
                if action == "alloc":
                    where[address] = len(born)
                    born.append(index)
                    died.append(None)
                    released.append(None)
                    sizes.append(size)
                    stacks.append(stack(event.get("frames")))
                    addresses.append(address)
                    now += size
                elif action == "free_requested":
                    number = where.pop(address, None)
                    if number is None:  # made before the history
                        before.append(Allocation(-1, index, size, stack(None), address, index))
                    else:
                        died[number] = released[number] = index
                        awaited[address] = number
                        now -= sizes[number]
                        held += sizes[number]
                elif action == "free_completed":
                    number = awaited.pop(address, None)
                    if number is not None:
                        released[number] = index
                        held -= sizes[number]
                elif action in ("segment_alloc", "segment_map"):
                    step = size
                    pieces[address] = [address, size, index, None, stack(event.get("frames"))]
                    regions.append(pieces[address])
                else:
                    step = -size
                    region = pieces.pop(address, None)
                    if region is not None:
                        region[3] = index
            steps.append(step)
            live.append(now)
            waiting.append(held)
        allocations = list(map(Allocation, born, died, sizes, stacks, addresses, released))
        # What was there before: freed in the history, or still there in the segments and not made in it.
        known = set(where)
        total = 0
        for segment in segments:
            if not isinstance(segment, dict) or not isinstance(segment.get("blocks"), list):
                raise self.wrong("a segment with 'blocks'", segment)
            if segment.get("device", device) != device:
                continue
            size, address = self.number(segment, "total_size"), self.number(segment, "address")
            total += size
            if address not in pieces:
                regions.append([address, size, -1, None, stack(segment.get("frames"))])
            at = address
            for block in segment["blocks"]:
                if not isinstance(block, dict):
                    raise self.wrong("a block as a dictionary", block)
                held = self.number(block, "size")
                place = self.number(block, "address") if "address" in block else at
                if block.get("state") in _HELD and place not in known:
                    asked = self.number(block, "requested_size") if "requested_size" in block else held
                    before.append(Allocation(-1, None, asked, stack(block.get("frames")), place, None))
                at = place + held
        start = sum(entry.size for entry in before)
        freed = {entry.died: entry.size for entry in before if entry.died is not None}
        base, previous = start, 0
        for index in [*sorted(freed), len(live)]:
            live[previous:index] = [value + base for value in live[previous:index]]
            base, previous = base - freed.get(index, 0), index
        reserved = [0] * len(steps)
        for index in range(len(steps) - 1, -1, -1):
            reserved[index] = total
            total -= steps[index]
        if not live:
            raise InputError(f"{self.name}: expected a history of allocations, but found none on device {device}")
        return Snapshot(
            device, before + allocations, self.stacks, live, reserved, waiting, [tuple(region) for region in regions]
        )


def _short(value: Any) -> str:
    """A value as text of bounded length, without walking through large containers."""
    if isinstance(value, (dict, list, tuple, set, frozenset)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 100:
        return f"a number of {value.bit_length()} bits"
    text = repr(value[:100] if isinstance(value, (str, bytes, bytearray)) else value)
    return text if len(text) < 200 else text[:200] + "..."
