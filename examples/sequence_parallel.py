#!/usr/bin/env python3
# ===- sequence_parallel.py - column-parallel linears one after another ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Prints column-parallel linears under sequence parallelism as a framework calls them: each gathers the tokens of all ranks
# and multiplies, and its result is dropped by its consumer; then, in reverse, each gathers again and adds the gradient of its
# weight to a buffer of the caller's. Shards of the input and gradients of the results are arguments. Nothing says when
# anything is freed.
#
# With --gather=fp8 a shard is cast before it is gathered, by rows for the product and by columns, transposed, for the
# gradient, which is then one accumulating product for each rank's block instead of a re-layout of the gathered tensor. With
# --pieces=N cast, gather and product are done for 1/N of the tokens at a time; the gradient of the weight then is a sum of N
# times as many products, in an order of its own.
#
# ===---------------------------------------------------------------------=== #
"""Print column-parallel linears under sequence parallelism, one after another, to standard output."""

import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

from fp8opt import Module, tensor  # noqa: E402

AXIS = "tp"
# torchao's rowwise recipe.
SCALE = {"format": "f8E4M3FN", "division": "double", "eps": 1e-12}


class Linears:
    """The function; `rows` are the tokens of a rank in a piece."""

    def __init__(self, options):
        self.ranks, self.pieces, self.fp8 = options.ranks, options.pieces, options.gather == "fp8"
        self.tokens, self.dim, self.out = options.tokens // options.ranks, options.dim, options.out // options.ranks
        self.rows = self.tokens // self.pieces
        self.module = Module(grid={AXIS: self.ranks}, locations=False)
        self.f = self.module.function("linears")

    def argument(self, name, rows, columns, *marks, shard):
        return self.f.argument(name, tensor("bf16", rows, columns), "fp8.frozen", *marks, shard=shard)

    def piece(self, value, number, name):
        """Tokens of a shard."""
        if self.pieces == 1:
            return value
        return self.f.slice(value, [number * self.rows, 0], [self.rows, value.shape[1]], name=name)

    def block(self, value, rank, name):
        """The part of a gathered tensor that is `rank`'s."""
        rows = value.shape[0] // self.ranks
        return self.f.slice(value, [rank * rows, 0], [rows, value.shape[1]], name=name)

    def gather(self, value, name):
        return self.f.all_gather(value, AXIS, self.ranks, name=name)

    def cast(self, x, group, name):
        scale = self.f.scale(self.f.amax(x, group, name=f"{name}.amax"), name=f"{name}.scale", **SCALE)
        return self.f.cast(x, scale, "f8E4M3FN", group, name=name), scale

    def columns(self, x, name):
        """x transposed, with a scale for each of its columns."""
        cast, scale = self.cast(x, [0, 1], f"{name}.col")
        return self.f.transpose(cast, [1, 0], name=f"{name}.t"), self.f.permute(scale, [1, 0], name=f"{name}.t.scale")

    def transposed(self, value):
        return self.f.permute(value, [1, 0], name="transposed")

    def forward(self, x, w, name):
        """The sums of the rows of y, which are what its consumer makes of it."""
        f, y = self.f, None
        if self.fp8:
            w, w_scale = self.cast(w, [1, 0], f"{name}.w.row")
        for number in range(self.pieces):
            part = self.piece(x, number, f"{name}.x.{number}")
            scales = None
            if self.fp8:
                part, scale = self.cast(part, [1, 0], f"{name}.x.{number}.row")
                scales = self.gather(scale, f"{name}.all.{number}.scale"), self.transposed(w_scale)
            every = self.gather(part, f"{name}.all.{number}")
            if self.pieces == 1:
                y = f.matmul(every, self.transposed(w), scales=scales, fast_accum=self.fp8, name=f"{name}.y")
                break
            for rank in range(self.ranks):
                product = f.matmul(self.block(every, rank, f"{name}.all.{number}.{rank}"), self.transposed(w),
                                   scales=scales and (self.block(scales[0], rank, "scale"), scales[1]), fast_accum=self.fp8,
                                   name=f"{name}.y.{number}.{rank}")
                y = f.update_slice(product, [rank * self.tokens + number * self.rows, 0], (self.ranks * self.tokens, self.out),
                                   into=y, name=f"{name}.y.{number}.{rank}.put")
        wide = f.extf(y, name=f"{name}.y_f32")
        return f.reduce("sum", wide, [1], name=f"{name}.sum")

    def gradient(self, x, dy, total, name):
        """`total` plus the gradient of the weight."""
        f = self.f
        for number in range(self.pieces):
            part = self.piece(x, number, f"{name}.x.{number}")
            if self.fp8:
                part, scale = self.columns(part, f"{name}.x.{number}")
                scales = self.gather(scale, f"{name}.d_all.{number}.scale")
            every = self.gather(part, f"{name}.d_all.{number}")
            if not self.fp8 and self.pieces == 1:
                return f.matmul(self.transposed(dy), every, acc=total, name=f"{name}.dw")
            for rank in range(self.ranks):
                block = self.block(every, rank, f"{name}.d_all.{number}.{rank}")
                is_last = number + 1 == self.pieces and rank + 1 == self.ranks
                sum_name = f"{name}.dw" if is_last else f"{name}.dw.{number}.{rank}"
                rows = f.slice(dy, [rank * self.tokens + number * self.rows, 0], [self.rows, self.out],
                               name=f"{name}.dy.{number}.{rank}")
                if self.fp8:
                    rows, rows_scale = self.columns(rows, f"{name}.dy.{number}.{rank}")
                    total = f.matmul(rows, self.transposed(block), scales=(rows_scale, self.transposed(
                        self.block(scales, rank, "scale"))), element="bf16", acc=total, name=sum_name)
                else:
                    total = f.matmul(self.transposed(rows), block, acc=total, name=sum_name)
        return total

    def write(self, count):
        arguments = []
        for number in range(count):
            name = f"linears.{number}"
            arguments.append((self.argument(f"{name}.x", self.tokens, self.dim, shard=[AXIS, ""]),
                              self.argument(f"{name}.w", self.out, self.dim, "fp8.parameter", shard=[AXIS, ""]),
                              self.argument(f"{name}.dy", self.ranks * self.tokens, self.out, shard=["", AXIS]),
                              self.argument(f"{name}.main_grad", self.out, self.dim, "fp8.donated", shard=[AXIS, ""])))
        sums = [self.forward(x, w, f"linears.{number}") for number, (x, w, _, _) in enumerate(arguments)]
        totals = [self.gradient(x, dy, total, f"linears.{number}")
                  for number, (x, _, dy, total) in reversed(list(enumerate(arguments)))]
        self.f.returns(*sums, *totals)
        return self.module


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--linears", type=int, default=6, help="how many (6)")
    parser.add_argument("--ranks", type=int, default=2, help="ranks (2)")
    parser.add_argument("--tokens", type=int, default=65536, help="of all ranks (65536)")
    parser.add_argument("--dim", type=int, default=7168, help="input features (7168)")
    parser.add_argument("--out", type=int, default=4096, help="output features of all ranks (4096)")
    parser.add_argument("--gather", choices=("bf16", "fp8"), default="bf16", help="what is gathered (bf16)")
    parser.add_argument("--pieces", type=int, default=1, help="pieces of the tokens (1)")
    options = parser.parse_args()
    for name, part in (("tokens", options.ranks * options.pieces), ("out", options.ranks), ("dim", 1)):
        if part < 1 or getattr(options, name) < 1 or getattr(options, name) % (16 * part):
            print(f"error: expected --{name} to be a multiple of 16 in each of {part} parts, but got {getattr(options, name)}",
                  file=sys.stderr)
            return 1
    print(Linears(options).write(options.linears), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
