#!/usr/bin/env python3
# ===- check_arena.py - arenas of examples and generated models ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_arena.py EXAMPLES   plans every program in the folder EXAMPLES, and the
#                           stacks of layers that its gen.py prints, some of
#                           them at the smallest budget too, and checks
#                           that an arena is at most 1 % above the peak that it
#                           serves, and 256 bytes a buffer for its alignment
#
# ===-------------------------------------------------------------=== #

import json
import pathlib
import subprocess
import sys

KINDS = ["ffn", "block", "fsdp", "tp", "column", "row"]
LAYERS = [1, 8, 32]
RANKS = {"ffn": 1, "block": 1}
# Where many buffers of several sizes are live at the smallest peak.
SMALLEST = [["--kind=fsdp", "--casts=weights", "--layers=3", "--ranks=8"], ["--kind=ffn", "--layers=3"]]


def check(name, text, options="target=h200"):
    """Plans `text`; the smallest peak."""
    done = subprocess.run(["fp8-opt", "-", f"--compile={options}", "--emit=plan"], input=text, capture_output=True,
                          text=True)
    assert done.returncode == 0, f"{name}: {done.stderr[-1000:]}"
    plans = json.loads(done.stdout)["functions"]
    assert any(plan["peak_bytes"] for plan in plans), f"{name}: no plan has a buffer"
    for plan in plans:
        arena, peak, buffers = plan["arena_bytes"], plan["peak_bytes"], len(plan["frees"])
        assert arena <= 1.01 * peak + 256 * buffers, f"{name}: arena {arena}, peak {peak}, {buffers} buffers"
    return plans[0]["min_feasible_peak_bytes"]


def generate(examples, *arguments):
    return subprocess.run([sys.executable, examples / "gen.py", *arguments], capture_output=True, check=True, text=True).stdout


def main():
    examples = pathlib.Path(sys.argv[1])
    programs = sorted(examples.glob("*.mlir"))
    for path in programs:
        check(path.name, path.read_text())
    for kind in KINDS:
        for layers in LAYERS:
            check(f"{kind} {layers}",
                  generate(examples, f"--kind={kind}", f"--layers={layers}", f"--ranks={RANKS.get(kind, 8)}"))
    for arguments in SMALLEST:
        text = generate(examples, *arguments)
        smallest = check(" ".join(arguments), text, "target=h200")
        check(f"{' '.join(arguments)}, budget {smallest}", text, f"target=h200,budget={smallest}")
    print(f"{len(programs)} examples, {len(KINDS) * len(LAYERS)} generated models")


main()
