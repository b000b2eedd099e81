#!/usr/bin/env python3
# ===- brute_force.py - the least height of small instances -----------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# brute_force.py SCRATCH.csv: finds the least height of small instances by
# trying every order of the buffers, each placed above all that came before and
# are live with it. Then fp8-pack has to succeed at that height and to prove
# that one byte less is infeasible.
#
# ===------------------------------------------------------------------------=== #

import random
import subprocess
import sys

# (lower, upper, size). About one random instance in 400,000 has a least height
# above its largest load; these were found among four million.
ABOVE_LOAD = [
    [(6, 8, 2), (1, 4, 2), (2, 4, 1), (5, 9, 3), (2, 5, 2), (0, 1, 4), (3, 5, 2), (0, 3, 3), (4, 6, 4)],
    [(1, 5, 1), (2, 3, 2), (6, 10, 3), (5, 9, 4), (0, 4, 3), (0, 1, 4), (3, 5, 1), (4, 6, 2), (2, 6, 2)],
    [(0, 4, 1), (0, 1, 4), (2, 6, 2), (6, 8, 4), (1, 5, 2), (0, 2, 4), (4, 8, 4), (1, 4, 2), (5, 9, 1)],
    [(6, 9, 4), (0, 3, 4), (5, 9, 4), (3, 4, 2), (2, 6, 2), (4, 6, 1), (0, 1, 4), (3, 6, 2), (2, 4, 2)],
    [(5, 8, 4), (2, 4, 3), (1, 2, 4), (1, 3, 3), (3, 5, 2), (1, 5, 4), (2, 5, 3), (5, 7, 4), (4, 6, 4), (5, 6, 1)],
]


def random_instance(seed):
    rng = random.Random(seed)
    items = []
    for _ in range(rng.randint(5, 9)):
        lower = rng.randint(0, 6)
        items.append((lower, lower + rng.randint(1, 4), rng.randint(1, 6)))
    return items


def get_load(items):
    return max(sum(s for l, u, s in items if l <= t < u) for t in range(12))


def least_height(items):
    load, best = get_load(items), [sum(size for _, _, size in items)]

    def extend(placed, left, height):
        if height >= best[0] or best[0] == load:
            return
        if not left:
            best[0] = height
        for k, (lower, upper, size) in enumerate(left):
            offset = max((top for low, up, top in placed if low < upper and lower < up), default=0)
            top = offset + size
            extend(placed + [(lower, upper, top)], left[:k] + left[k + 1 :], max(height, top))

    extend([], items, 0)
    return best[0]


def main():
    scratch = sys.argv[1]
    for number, items in enumerate(ABOVE_LOAD + [random_instance(seed) for seed in range(20)]):
        with open(scratch, "w") as file:
            file.write("id,lower,upper,size\n")
            for name, (lower, upper, size) in enumerate(items):
                file.write(f"{name},{lower},{upper},{size}\n")
        height = least_height(items)
        if number < len(ABOVE_LOAD) and height <= get_load(items):
            sys.exit(f"instance {number}: expected a least height above the load, but got {height}")
        for capacity, want in ((height, ""), (height - 1, "error: infeasible")):
            run = subprocess.run(
                ["fp8-pack", scratch, f"--capacity={capacity}", "-o", scratch + ".out"], capture_output=True, text=True
            )
            if not run.stderr.startswith(want) or bool(run.returncode) != bool(want):
                sys.exit(f"instance {number}: least height {height}, at {capacity} got '{run.stderr.strip()}'")


main()
