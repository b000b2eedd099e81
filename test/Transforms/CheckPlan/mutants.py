#!/usr/bin/env python3
# ===- mutants.py - break a real plan in every place ------------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# mutants.py PLACED.mlir COUNT: makes mutants of a placed plan, each of which is
# wrong whatever the plan is, and expects fp8-check-plan to refuse each one with
# the message for its kind. COUNT is the number tried of each kind, spread
# evenly.
#
#   drop     a free is taken out              -> never freed
#   double   a free is written twice          -> a second time
#   early    a free moves above the last op that reads its first value
#                                             -> after it was freed
#   shift    a result moves onto an operand of its own kernel
#                                             -> is live, or stays elsewhere
#   arena    the arena loses a byte           -> beyond the end
#   apart    a result in place no longer is   -> never freed (what it was over)
#
# ===------------------------------------------------------------------------=== #

import re
import subprocess
import sys


def main():
    with open(sys.argv[1]) as file:
        lines = file.read().split("\n")
    count = int(sys.argv[2])
    frees = [i for i, line in enumerate(lines) if re.match(r"\s*fp8\.free ", line)]
    kernels = [i for i, line in enumerate(lines) if " fp8.kernel " in line and "offsets = array<i64: " in line]

    def offsets_before(i):
        """The offset of each value that a kernel made before line i, in the region of the line."""
        result = {}
        for line in lines[:i]:
            if re.search(r"} backward\b", line):
                result = {}
            name = re.match(r"\s*(%\w+)(:\d+)? = fp8\.kernel ", line)
            offsets = re.search(r"offsets = array<i64: ([-\d, ]+)>", line)
            if name and offsets:
                for number, offset in enumerate(offsets.group(1).split(", ")):
                    result[f"{name.group(1)}#{number}" if name.group(2) else name.group(1)] = offset
        return result

    def drop(i):
        return lines[:i] + lines[i + 1 :]

    def double(i):
        return lines[: i + 1] + lines[i:]

    def early(i):
        value = re.match(r"\s*fp8\.free (%[\w#]+)", lines[i]).group(1)
        pattern = re.compile(rf"= {re.escape(value)} :")
        reader = max((k for k in range(i) if " fp8.kernel " in lines[k] and pattern.search(lines[k])), default=None)
        if reader is None:
            return None
        return lines[:reader] + [lines[i]] + lines[reader:i] + lines[i + 1 :]

    def shift(i):
        operands = re.findall(r"%arg\d+ = (%[\w#]+) :", lines[i].split(" -> ")[0])
        offset_of = offsets_before(i)
        target = next((offset_of[o] for o in operands if offset_of.get(o, "-1") != "-1"), None)
        if target is None:
            return None
        line = re.sub(r"offsets = array<i64: -?\d+", f"offsets = array<i64: {target}", lines[i])
        if line == lines[i]:
            return None  # What is in place is there already.
        return lines[:i] + [line] + lines[i + 1 :]

    def arena(i):
        line = re.sub(r"fp8\.arena_bytes = (\d+)", lambda m: f"fp8.arena_bytes = {int(m.group(1)) - 1}", lines[i])
        return lines[:i] + [line] + lines[i + 1 :]

    def apart(i):
        return lines[:i] + [re.sub(r"in_place = array<i64: [-\d, ]+>, ", "", lines[i])] + lines[i + 1 :]

    kinds = [
        (drop, frees, "is never freed"),
        (double, frees, "a second time"),
        (early, frees, "after it was freed"),
        (shift, kernels, "is live|stays where an operand is"),
        (arena, [i for i, line in enumerate(lines) if re.search(r"fp8\.arena_bytes = [1-9]", line)], "beyond the end"),
        (apart, [i for i in kernels if "in_place = " in lines[i]], "is never freed"),
    ]
    for mutate, places, message in kinds:
        mutants = [(i, text) for i, text in ((i, mutate(i)) for i in places) if text is not None]
        if not mutants:
            sys.exit(f"no mutant of kind {mutate.__name__}")
        for i, text in mutants[:: max(1, len(mutants) // count)]:
            run = subprocess.run(
                ["fp8-opt", "--fp8-check-plan", "-o", "/dev/null"],
                input="\n".join(text), capture_output=True, text=True,
            )
            if run.returncode != 1 or "error:" not in run.stderr or not re.search(message, run.stderr):
                sys.exit(f"{mutate.__name__} at line {i + 1}: exit code {run.returncode}, {run.stderr[:400]}")
        print(f"{mutate.__name__}: {len(mutants)} places")


main()
