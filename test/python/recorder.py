# ===- recorder.py - histories of an allocator, made up ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes memory snapshots as PyTorch does, from calls of `alloc` and `free`: for tests that need a history with one known thing in
# it. The allocator grows in segments of 64 MiB and never gives them back.
#
# ===----------------------------------=== #

import pickle


class Recorder:
    """A history. Stacks are lists of (file, line, function), innermost first."""

    SEGMENT = 64 << 20

    def __init__(self):
        self.events, self.live, self.segments = [], {}, []
        self.address = 0x7F0000000000
        self.frames = {}

    def alloc(self, size, *stack):
        """Makes an allocation and gives its handle."""
        rounded = -(-size // 512) * 512
        if not self.segments or self.address + rounded > self.segments[-1][0] + self.segments[-1][1]:
            length = max(self.SEGMENT, rounded)
            start = self.segments[-1][0] + self.segments[-1][1] if self.segments else self.address
            self.segments.append((start, length, self.list(stack)))
            self.events.append(
                {"action": "segment_alloc", "addr": start, "size": length, "stream": 0, "frames": self.list(stack)}
            )
            self.address = start
        handle = self.address
        self.address += rounded
        self.live[handle] = (size, self.list(stack))
        self.events.append({"action": "alloc", "addr": handle, "size": size, "stream": 0, "frames": self.list(stack)})
        return handle

    def free(self, handle, completed=True):
        """Frees it; `completed`: no other stream still reads it."""
        size, _ = self.live.pop(handle)
        for action in ("free_requested", "free_completed")[: 1 + completed]:
            self.events.append({"action": action, "addr": handle, "size": size, "stream": 0, "frames": []})

    def list(self, stack):
        """The frames of a stack; equal ones are one object, as in a real snapshot."""
        if stack not in self.frames:
            self.frames[stack] = [{"filename": file, "line": line, "name": name} for file, line, name in stack]
        return self.frames[stack]

    def snapshot(self, history=0):
        """The containers of a snapshot; of the history only what comes after the first `history` events."""
        segments = []
        for start, length, frames in self.segments:
            blocks = []
            for handle, (size, stack) in sorted(self.live.items()):
                if start <= handle < start + length:
                    block = {
                        "address": handle,
                        "size": -(-size // 512) * 512,
                        "requested_size": size,
                        "state": "active_allocated",
                    }
                    blocks.append({**block, "frames": stack})
            segments.append(
                {"device": 0, "address": start, "total_size": length, "stream": 0, "blocks": blocks, "frames": frames}
            )
        return {"segments": segments, "device_traces": [self.events[history:]]}

    def write(self, path, history=0):
        """Writes the snapshot."""
        path.write_bytes(pickle.dumps(self.snapshot(history)))
        return path
