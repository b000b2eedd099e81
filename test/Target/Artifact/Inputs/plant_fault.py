# ===- plant_fault.py - a fault in a good artifact ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Rewrites the command list of an artifact, with right hashes, so that only the runtime's own measurement and checks can
# notice.
#
# ===-------------------------------------------------------------=== #
"""usage: plant_fault.py KIND IN OUT

KIND: none, larger-size, smaller-size, missing-free, late-free. A size is changed of the largest local buffer live at
the peak; a free is taken from the largest local buffer freed before the peak, so that it adds to it.
"""

import hashlib
import json
import struct
import sys


def read(path):
    data = open(path, "rb").read()
    count = struct.unpack_from("<I", data, 12)[0]
    sections = []
    for index in range(count):
        name, offset, size = struct.unpack_from("<16sQQ", data, 16 + 64 * index)
        sections.append((name, data[offset:offset + size]))
    return data[:8], sections


def write(path, magic, sections):
    header = magic + struct.pack("<II", 1, len(sections))
    offset = 16 + 64 * len(sections) + 32
    for name, body in sections:
        header += struct.pack("<16sQQ", name, offset, len(body)) + hashlib.sha256(body).digest()
        offset += len(body)
    with open(path, "wb") as out:
        out.write(header + hashlib.sha256(header).digest() + b"".join(body for _, body in sections))


def plant(kind, function):
    commands, buffers = function["commands"], function["buffers"]
    live, peak, at_peak, freed, before_peak = set(), 0, set(), set(), set()
    for command in commands:
        if command["op"] == "alloc":
            live.add(command["buffer"])
        elif command["op"] == "free":
            live.remove(command["buffer"])
            freed.add(command["buffer"])
        if sum(buffers[b]["bytes"] for b in live) > peak:
            peak, at_peak, before_peak = sum(buffers[b]["bytes"] for b in live), set(live), set(freed)
    candidates = before_peak if kind.endswith("free") else at_peak & freed
    victim = max((b for b in sorted(candidates) if buffers[b]["kind"] == "local"), key=lambda b: buffers[b]["bytes"])
    free = next(i for i, c in enumerate(commands) if c["op"] == "free" and c["buffer"] == victim)
    if kind == "larger-size":
        buffers[victim]["bytes"] += 4096
    elif kind == "smaller-size":
        buffers[victim]["bytes"] -= 4096
    elif kind == "missing-free":
        del commands[free]
    elif kind == "late-free":
        commands.append(commands.pop(free))
    elif kind != "none":
        sys.exit(f"unknown kind {kind}")


kind, source, target = sys.argv[1:]
magic, sections = read(source)
for index, (name, body) in enumerate(sections):
    if name.rstrip(b"\0") == b"manifest":
        manifest = json.loads(body)
        plant(kind, manifest["functions"][0])
        sections[index] = (name, json.dumps(manifest).encode())
write(target, magic, sections)
