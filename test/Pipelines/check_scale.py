#!/usr/bin/env python3
# ===- check_scale.py - planning of large programs ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_scale.py GEN   plans stacks of layers that GEN (examples/gen.py) prints,
#                      and programs in which nothing repeats
#
# Times are processor seconds, which a busy machine makes longer as well: the
# limits are several times what an idle one takes, and so far below what a
# planner takes whose time grows with the square of the program.
#
# ===-------------------------------------------------------------=== #

import json
import random
import resource
import subprocess
import sys

GIB = 1 << 30


def plan(text):
    """The plan of a program, and the processor seconds it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["fp8-opt", "-", "--compile=target=h200", "--emit=plan"], input=text, capture_output=True,
                          text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr[-1000:]
    return json.loads(done.stdout), after.ru_utime - before.ru_utime


def layers(gen, kind, count):
    return subprocess.run([sys.executable, gen, f"--kind={kind}", f"--layers={count}"], capture_output=True, check=True,
                          text=True).stdout


def chain(count):
    """A chain of `count` elementwise ops, whose recomputation is as deep."""
    kind = "tensor<64x64xf32>"
    body = "".join(f"  %x{i + 1} = math.tanh %x{i} : {kind}\n" for i in range(count))
    return f"func.func @chain(%x0: {kind}) -> {kind} {{\n{body}  return %x{count} : {kind}\n}}\n"


def tangle(count, seed):
    """`count` ops in random order on values of 39 widths: no layers, no narrow points."""
    choice = random.Random(seed)
    kinds = {width: f"tensor<64x{width}xbf16>" for width in range(16, 640, 16)}
    last = {width: f"%a{width}" for width in kinds}
    arguments = [f"%a{width}: {kind}" for width, kind in kinds.items()]
    body = []
    for i in range(count):
        width = choice.choice(list(kinds))
        kind, op = kinds[width], choice.choice(["tanh", "mulf", "matmul"])
        if op == "tanh":
            body.append(f"%v{i} = math.tanh {last[width]} : {kind}")
        elif op == "mulf":
            body.append(f"%v{i} = arith.mulf {last[width]}, %a{width} : {kind}")
        else:
            source = choice.choice(list(kinds))
            weight = f"tensor<{source}x{width}xbf16>"
            arguments.append(f"%w{i}: {weight} {{fp8.parameter}}")
            body.append(f"%m{i} = fp8.matmul {last[source]}, %w{i} : {kinds[source]}, {weight} -> {kind}")
            body.append(f"%v{i} = arith.addf %m{i}, {last[width]} : {kind}")
        last[width] = f"%v{i}"
    results = [width for width in kinds if last[width].startswith("%v")]
    types = ", ".join(kinds[width] for width in results)
    return (f"func.func @tangle({', '.join(arguments)}) -> ({types}) {{\n  " + "\n  ".join(body)
            + f"\n  return {', '.join(last[width] for width in results)} : {types}\n}}\n")


def main():
    gen = sys.argv[1]
    for kind in ("ffn", "block"):
        seconds = {}
        for count in (8, 32, 126):
            found, seconds[count] = plan(layers(gen, kind, count))
            assert found["arena_bytes"] <= 1.01 * found["peak_bytes"] + 256 * len(found["frees"]), f"{kind} {count}: arena"
            assert found["gap_pct"] >= 0
        assert seconds[126] < 60, f"{kind}: {seconds} s"
        assert seconds[126] < 3 * 126 / 32 * max(seconds[32], 1), f"{kind}: {seconds} s"
    _, seconds = plan(chain(5000))
    assert seconds < 30, f"chain: {seconds} s"
    first, seconds = plan(tangle(4000, 1))
    assert seconds < 60, f"tangle: {seconds} s"
    assert first == plan(tangle(4000, 1))[0], "two plans of one program differ"
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert peak < 2 * GIB, f"{peak} bytes of memory"
    print("ok")


main()
