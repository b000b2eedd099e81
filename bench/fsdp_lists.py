# ===- fsdp_lists.py - what save lists keep of a sharded stack ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Plans the Llama-3-8B feed-forward stack under FSDP with the casts written through abs and max, as an eager framework runs
# them, by a list of ops to keep with and without abs and by fp8-opt's own choice, and prints what each keeps. docs/ranks.md
# shows the output; needs fp8-opt and no GPU.
#
# usage: python bench/fsdp_lists.py [--layers 32] [--ranks 8]
#
# ===---------------------------------------------------------------------=== #
"""Prints what is kept of a stack with sharded weights, by policy."""

import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

from eager_fsdp import eager_fsdp_stack  # noqa: E402
from fp8opt.libraries import find_tool  # noqa: E402

MIB = 2**20
TOKENS, DIM, FFN = 16384, 4096, 14336
# What is as large as an unsharded weight: the gathered tensor, its absolute values and its FP8 copies.
WHOLE = re.compile(r"layers\.\d+\.(w[123]_all|(gate|up|down)\.w\.(abs|(row|col)\.e4m3(\.t)?))(~|$)")


def plan(program, **options):
    joined = ",".join(f"{key}={value}" for key, value in dict(target="h200", **options).items())
    done = subprocess.run([find_tool("fp8-opt"), "-", f"--compile={joined}", "--emit=plan"], input=program,
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def gathered_at_once(plan):
    """The most gathered weights that are in memory together."""
    first = {}
    for index, entry in enumerate(plan["timeline"]):
        first.setdefault(entry["op"], index)
    last = {entry["value"]: first[entry["after"]] for entry in plan["frees"]}
    gathers = [(first[entry["value"]], last[entry["value"]]) for entry in plan["transfers"]
               if entry["result_bytes"] > entry["own_bytes"]]
    return max(sum(begin <= index <= end for begin, end in gathers) for index in range(len(plan["timeline"])))


def row(what, plan, layers):
    kept = {entry["value"]: entry for entry in plan["saved"]}
    absolute = sum(entry["bytes"] for entry in kept.values() if entry["op"] == "math.absf")
    whole = [entry for name, entry in kept.items() if WHOLE.match(name)]
    unsaid = [entry["value"] for entry in whole if f"{entry['bytes']:,} B" not in entry["why"]]
    assert not unsaid, f"kept without a reason: {unsaid}"
    cells = [plan["saved_bytes"] // MIB, absolute // layers // MIB, sum(entry["bytes"] for entry in whole) // MIB,
             gathered_at_once(plan), plan["peak_bytes"] // MIB, round(plan["step_us"] / 1000)]
    print(f"{what:<26}" + "".join(f"{cell:>10,}" for cell in cells))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--ranks", type=int, default=8)
    options = parser.parse_args()
    layers = options.layers
    for written in ("weights", "all"):
        program = str(eager_fsdp_stack(options.ranks, layers, TOKENS * options.ranks, DIM, FFN, written))
        what = "weights" if written == "weights" else "weights and activations"
        if written == "all":
            print()
        print(f"{layers} layers, {options.ranks} ranks, {TOKENS:,} tokens a rank, casts of {what} through abs and max")
        print(f"{'MiB':<26}{'kept':>10}{'abs/layer':>10}{'whole':>10}{'gathered':>10}{'peak':>10}{'step ms':>10}")
        listed = plan(program, policy="op-list")
        without = plan(program, policy="op-list", ops="default-abs")
        row("op-list", listed, layers)
        row("op-list, ops=default-abs", without, layers)
        if written == "weights":
            fastest = plan(program)
            smallest = fastest["min_feasible_peak_bytes"]
            least = plan(program, budget=smallest)
            # Of the last layers backward soon reads what forward has gathered.
            late = tuple(f"layers.{layer}." for layer in range(layers - 2, layers))
            assert all(entry["value"].startswith(late) for entry in least["saved"]
                       if WHOLE.match(entry["value"])), least["saved"]
            row("auto, smallest budget", least, layers)
            row("auto, half the budget", plan(program, budget=(smallest + fastest["peak_bytes"]) // 2), layers)
            row("auto, no budget", fastest, layers)
        print(f"abs on the list keeps {listed['saved_bytes'] - without['saved_bytes']:,} B more")


if __name__ == "__main__":
    main()
