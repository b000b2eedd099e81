#!/usr/bin/env python3
# ===- check_scale.py - planning of large programs ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_scale.py GEN   plans stacks of layers that GEN (examples/gen.py) prints,
#                      and programs in which nothing repeats
#
# Times are processor seconds, which a busy machine makes twice as long as well:
# the limits are two to three times what an idle one takes or more (0.1 to 0.2 s
# for a layer, 2 to 5 s for 126), and so far below what a planner takes whose
# time grows with the square of the program.
#
# ===-------------------------------------------------------------=== #

import json
import resource
import subprocess
import sys

GIB = 1 << 30
# What plans reach without a budget, with some room (docs/performance.md).
LARGEST_GAP = 2
# Processor seconds for one layer, of which an idle machine takes less than half.
LONGEST_LAYER = 0.5
# Of eight blocks; with the gradient of the head at every peak of backward it is 11.1e9.
SMALLEST_PEAK = 10.3e9


def plan(text):
    """The plan of a program, and the processor seconds it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["fp8-opt", "-", "--compile=target=h200", "--emit=plan"], input=text, capture_output=True,
                          text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr[-1000:]
    return json.loads(done.stdout), after.ru_utime - before.ru_utime


def generate(gen, *arguments):
    return subprocess.run([sys.executable, gen, *arguments], capture_output=True, check=True, text=True).stdout


def chain(count, location=""):
    """A chain of `count` elementwise ops, whose recomputation is as deep."""
    kind = "tensor<64x64xf32>"
    body = "".join(f"  %x{i + 1} = math.tanh %x{i} : {kind}{location}\n" for i in range(count))
    return f"func.func @chain(%x0: {kind}) -> {kind} {{\n{body}  return %x{count} : {kind}\n}}\n"


def plan_layers(gen, kind, count, *arguments):
    """The plan of a stack, checked for what holds of every stack, and its processor seconds."""
    found, seconds = plan(generate(gen, f"--kind={kind}", f"--layers={count}", *arguments))
    name = f"{kind} {count} {' '.join(arguments)}"
    assert found["arena_bytes"] <= 1.01 * found["peak_bytes"] + 256 * len(found["frees"]), f"{name}: arena"
    assert 0 <= found["gap_pct"] <= LARGEST_GAP, f"{name}: gap of {found['gap_pct']} %"
    print(f"{name}: {seconds:.1f} s, gap {found['gap_pct']} %", file=sys.stderr)
    return found, seconds


def main():
    gen = sys.argv[1]
    for kind in ("ffn", "block"):
        plans = {count: plan_layers(gen, kind, count) for count in (1, 8, 32, 126)}
        seconds = {count: found[1] for count, found in plans.items()}
        # The best of three: the machine may be busy with other things.
        layer = min(seconds[1], *(plan_layers(gen, kind, 1)[1] for _ in range(2)))
        assert layer < LONGEST_LAYER, f"{kind}: a layer took {layer} s"
        assert seconds[126] < 30, f"{kind}: {seconds} s"
        for fewer, more in ((1, 8), (8, 32), (32, 126)):
            assert seconds[more] < 3 * more / fewer * max(seconds[fewer], 0.5), f"{kind}: {seconds} s"
    smallest = plans[8][0]["min_feasible_peak_bytes"]
    assert smallest < SMALLEST_PEAK, f"eight blocks: smallest peak of {smallest} bytes"
    # A few layers of another shape, or a parameter that the first and the last op share, change neither the time nor
    # what a plan promises by much.
    for kind, *arguments in (("ffn", "--odd-layers=3"), ("block", "--odd-layers=3"), ("block", "--tied"),
                             ("block", "--odd-layers=3", "--tied")):
        whole, seconds = plan_layers(gen, kind, 32)
        other, longer = plan_layers(gen, kind, 32, *arguments)
        assert longer < 3 * max(seconds, 1), f"{kind} {arguments}: {longer} s instead of {seconds} s"
        for key, most in (("step_us", 1.02), ("min_feasible_peak_bytes", 1.02), ("peak_bytes", 1.1)):
            assert other[key] <= most * whole[key], f"{kind} {arguments}: {key} {other[key]}, else {whole[key]}"
    _, seconds = plan(chain(5000))
    assert seconds < 30, f"chain: {seconds} s"
    # All of one name: plans number them.
    _, seconds = plan(chain(20_000, ' loc("same")'))
    assert seconds < 30, f"chain of one name: {seconds} s"
    # A step of 50,000 ops, in which nothing repeats; and a smaller one twice.
    _, seconds = plan(generate(gen, "--kind=tangle", "--ops=11400"))
    print(f"tangle: {seconds:.1f} s", file=sys.stderr)
    assert seconds < 60, f"tangle: {seconds} s"
    text = generate(gen, "--kind=tangle", "--ops=2000")
    assert plan(text)[0] == plan(text)[0], "two plans of one program differ"
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert peak < 2 * GIB, f"{peak} bytes of memory"
    print("ok")


main()
