# ===- experts.py - a layer of experts with groups of rows ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Expert parallelism: tokens go to the ranks of their experts, which multiply the rows of each expert by its weights, however
# many a run brings, and come back. Needs only Python's standard library.
#
# ===-----------------------------------------------------------------------=== #
"""Print the forward function of a layer of experts on one rank to standard output.

The place of a token chooses its rank, so that every op runs; which of a rank's rows belong to which expert is the argument
`offsets`. A rank has room for `--capacity` times as many rows as it gets if all get as many (docs/experts.md)."""

import argparse
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

from fp8opt import GroupedLinear, Module, tensor  # noqa: E402
from fp8opt.modules import silu  # noqa: E402

__all__ = ["experts_layer"]

ALIGNMENT = {"block128": 128, "rowwise": 16, "tensorwise": 16}


def experts_layer(ranks: int, experts: int, tokens: int, hidden: int, ffn: int, capacity: int, recipe: str) -> Module:
    """`@experts` of one of `ranks` ranks with `experts` experts each and `tokens` tokens each: x plus what the experts make
    of it. Room for `capacity` rows of the `tokens` that a rank gets if routing is balanced."""
    module = Module(grid={"ep": ranks} if ranks > 1 else None, locations=False)
    f = module.function("experts")
    x = f.argument("x", tensor("bf16", tokens, hidden), shard=["ep", ""] if ranks > 1 else None)
    rows = tokens // experts // ALIGNMENT[recipe] * ALIGNMENT[recipe]
    offsets = f.argument("offsets", tensor("i32", experts + 1), rows_per_group=rows)
    fc1 = GroupedLinear(f, "fc1", experts, hidden, 2 * ffn, recipe, single_weight=True, balanced=tokens)
    fc2 = GroupedLinear(f, "fc2", experts, ffn, hidden, recipe, single_weight=True, balanced=tokens)
    received = f.all_to_all(x, "ep", ranks, 0, 0, name="received") if ranks > 1 else x
    routed = received if capacity == tokens else f.pad(received, [0, 0], [capacity, hidden], name="routed")
    h = fc1(routed, offsets)
    gate = silu(f.slice(h, [0, 0], [capacity, ffn], name="gate"), "silu")
    act = f.elementwise("arith.mulf", gate, f.slice(h, [0, ffn], [capacity, ffn], name="up"), name="act")
    y = fc2(act, offsets)
    kept = y if capacity == tokens else f.slice(y, [0, 0], [tokens, hidden], name="kept")
    back = f.all_to_all(kept, "ep", ranks, 0, 0, name="combined") if ranks > 1 else kept
    f.returns(f.elementwise("arith.addf", x, back, name="out"), shard=["ep", ""] if ranks > 1 else None)
    return module


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", choices=sorted(ALIGNMENT), default="block128", help="of the linears (block128)")
    parser.add_argument("--ranks", type=int, default=4, help="expert-parallel ranks (4)")
    parser.add_argument("--experts", type=int, default=2, help="experts of a rank (2)")
    parser.add_argument("--tokens", type=int, default=256, help="tokens of a rank (256)")
    parser.add_argument("--dim", type=int, default=128, help="width of a token (128)")
    parser.add_argument("--ffn", type=int, default=128, help="width of an expert (128)")
    parser.add_argument("--capacity", type=float, default=2.0, help="room for rows, in multiples of the tokens (2)")
    options = parser.parse_args()
    align = ALIGNMENT[options.recipe]
    capacity = int(options.tokens * options.capacity)
    for name, value, multiple in (("--ranks", options.ranks, 1), ("--experts", options.experts, 1),
                                  ("--tokens", options.tokens, math.lcm(options.ranks, align)), ("--dim", options.dim, align),
                                  ("--ffn", options.ffn, align), ("rows of --capacity", capacity, align)):
        if value < 1 or value % multiple:
            print(f"error: expected {name} to be a multiple of {multiple}, but got {value}", file=sys.stderr)
            return 1
    if options.capacity < 1:
        print(f"error: expected --capacity of at least 1, but got {options.capacity}", file=sys.stderr)
        return 1
    arguments = " ".join(f"--{name}={getattr(options, name)}"
                         for name in ("recipe", "ranks", "experts", "tokens", "dim", "ffn", "capacity"))
    print(f"// python3 examples/experts.py {arguments}")
    print(f"// Experts on {options.ranks} ranks, {options.experts} each, forward only.\n")
    print(experts_layer(options.ranks, options.experts, options.tokens, options.dim, options.ffn, capacity, options.recipe),
          end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
