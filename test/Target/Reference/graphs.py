# RUN: %python %s %fp8_src_root
# REQUIRES: numpy, ml_dtypes
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random graphs (python/fp8opt/testing/random_graphs.py, which says what they hold and why the tolerance is what it
is), differentiated, expanded and interpreted, against their evaluation in NumPy: results, gradients and state."""

import os
import sys

ROOT = sys.argv[1]
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs")]
import reference  # noqa: E402
from fp8opt.testing.random_graphs import INPUT_SEED, TOLERANCE, random_graph  # noqa: E402

SEEDS = range(12)


def main():
    bad = False
    for seed in SEEDS:
        graph, expected = random_graph(seed)
        actual = reference.outputs(str(graph.emit()), seed=INPUT_SEED)
        bad |= not reference.equal(f"graph {seed}", actual, expected, TOLERANCE)
    sys.exit(bad)


main()
