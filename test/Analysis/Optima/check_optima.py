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
# `fp8-optimum solve order` print. Of Checkmate's chains the optima were proved
# by an integer program (docs/rationale/planning.md).
#
# ===-------------------------------------------------------------=== #

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

EVERY = 20
# Layers, units of memory, ops that run; an op takes 2 us, a unit is 256 bytes.
CHAINS = [(6, 6, 13), (8, 6, 19), (10, 7, 24), (12, 8, 29), (20, 10, 51), (30, 12, 79)]


def read(name):
    """The lines of a table, by the seed of their graph."""
    lines = collections.OrderedDict()
    for line in (pathlib.Path(__file__).parent / name).read_text().splitlines():
        if not line.startswith("#"):
            lines.setdefault(int(re.match(r"[a-z]+(\d+),", line).group(1)), []).append(line)
    return lines


def optimum(*arguments):
    return subprocess.run(["fp8-optimum", *map(str, arguments)], capture_output=True, check=True, text=True).stdout


def compare(kind, table, step):
    """Plans every `step`-th graph and compares them with the stored optima."""
    with tempfile.TemporaryDirectory() as folder:
        graphs, optima = pathlib.Path(folder) / "graphs.mlir", pathlib.Path(folder) / "optima.csv"
        graphs.write_text(optimum("mlir", kind, 1, len(table), step))
        optima.write_text("".join(line + "\n" for lines in table.values() for line in lines))
        subprocess.run(["fp8-plan-gap", graphs, optima], check=True)


def compare_chains():
    with tempfile.TemporaryDirectory() as folder:
        graphs, optima = pathlib.Path(folder) / "graphs.mlir", pathlib.Path(folder) / "optima.csv"
        graphs.write_text("".join(optimum("chain", layers) for layers, _, _ in CHAINS))
        optima.write_text("".join(f"chain{layers},{256 * units},{2 * (ops - 2 * layers)}\n"
                                  for layers, units, ops in CHAINS))
        subprocess.run(["fp8-plan-gap", graphs, optima], check=True)


def main():
    step = 1 if "--all" in sys.argv else EVERY
    for kind, name in (("joint", "steps.csv"), ("order", "orders.csv")):
        table = read(name)
        assert list(table) == list(range(1, len(table) + 1)), f"{name} does not hold seeds in a row"
        stored = [line for seed in list(table)[::step] for line in table[seed]]
        for found, line in zip(optimum("solve", kind, 1, len(table), step).splitlines(), stored, strict=True):
            assert found == line, f"{found}, stored {line}"
        compare(kind, table, step if kind == "joint" else 1)
    compare_chains()


main()
