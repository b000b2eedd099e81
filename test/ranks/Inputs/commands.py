# ===- commands.py - what the checks of this folder run ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Commands that must succeed, runs on several ranks that must be right, and what they wrote.
#
# ===------------------------------------------------------------------=== #
"""Runs tools and reads their outputs, with the standard library alone."""

import json
import struct
import subprocess
import sys


def call(*command):
    """What a command prints; ends this program where it fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def run_checked(*command, json_file, ranks):
    """The report of `command`, a run of fp8-run with a check: the bits of the interpreter, and on each of `ranks` ranks the
    planned peak."""
    call(*command, f"--json={json_file}")
    result = json.loads(json_file.read_text())
    assert len(result["ranks"]) == ranks and result["max_rel_error"] == 0, result
    for entry in result["ranks"]:
        assert entry["planned_peak_bytes"] == entry["measured_peak_bytes"], (command, entry)
    return result


def read_bytes(folder):
    """The bytes of each output in a folder of --dump-outputs, by name, with its entry."""
    return {entry["name"]: (entry, (folder / entry["file"]).read_bytes())
            for entry in json.loads((folder / "index.json").read_text())}


def floats(data, dtype="bf16"):
    """The elements of an output of bf16 or f32."""
    if dtype == "bf16":
        return [struct.unpack("<f", b"\0\0" + data[at:at + 2])[0] for at in range(0, len(data), 2)]
    return list(struct.unpack(f"<{len(data) // 4}f", data))
