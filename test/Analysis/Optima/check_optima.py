#!/usr/bin/env python3
# ===- check_optima.py - plans of small graphs against optima ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_optima.py [--all]   computes every twentieth stored optimum again and
#                           compares the plans of those graphs, and the orders
#                           of all straight lines, with them; --all: all of them
#
# steps.csv and orders.csv hold what `fp8-optimum solve joint` and
# `fp8-optimum solve order` print.
#
# ===-------------------------------------------------------------=== #

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

EVERY = 20


def read(name):
    """The lines of a table, by the seed of their graph."""
    lines = collections.OrderedDict()
    for line in (pathlib.Path(__file__).parent / name).read_text().splitlines():
        if not line.startswith("#"):
            lines.setdefault(int(re.match(r"[a-z]+(\d+),", line).group(1)), []).append(line)
    return lines


def optimum(*arguments):
    return subprocess.run(["fp8-optimum", *map(str, arguments)], capture_output=True, check=True, text=True).stdout


def compare(kind, table, seeds):
    """Plans the graphs of `seeds` and compares them with the stored optima."""
    with tempfile.TemporaryDirectory() as folder:
        graphs, optima = pathlib.Path(folder) / "graphs.mlir", pathlib.Path(folder) / "optima.csv"
        graphs.write_text("".join(optimum("mlir", kind, seed, seed) for seed in seeds))
        optima.write_text("\n".join(line for seed in seeds for line in table[seed]) + "\n")
        subprocess.run(["fp8-plan-gap", graphs, optima], check=True)


def main():
    step = 1 if "--all" in sys.argv else EVERY
    for kind, name in (("joint", "steps.csv"), ("order", "orders.csv")):
        table = read(name)
        some = list(table)[::step]
        for seed in some:
            found = optimum("solve", kind, seed, seed).splitlines()
            assert found == table[seed], f"{kind} {seed}: {found}, stored {table[seed]}"
        compare(kind, table, some if kind == "joint" else list(table))


main()
