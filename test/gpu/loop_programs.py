# ===- loop_programs.py - Programs without matmuls ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: loop_programs.py OUT_DIR
#
# Writes loops_ROWSxCOLUMNS.mlir: one function with every kind of cast, both ways, of an input and of silu(g) * u, also
# through 12 bits, a norm, a dropout and a sum down the columns, at sizes that fill tiles and sizes that do not, one with rows enough to be copied
# ahead. And heads_TOKENSxHEADSxWIDTH.mlir: what a captured block computes around attention, heads rotated and put in another order,
# sums of a few heads, casts of all heads of a token, and the backward pass of a norm, which sums rows and columns.
# Without matmuls a GPU must give the bits of the reference.
#
# ===-------------------------------------------------=== #
"""Writes the programs that artifacts.sh compiles beside the examples."""

import pathlib
import sys

HEADS = [(128, 4, 128), (60, 5, 24), (700, 1, 40)]
SIZES = [(8, 64), (24, 136), (130, 200), (256, 1024), (130, 4096), (1060, 776)]


class Program:
    """The lines of a function over [rows, columns] tensors, and what it returns."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.lines, self.results = [], []
        self.bf16 = f"tensor<{rows}x{columns}xbf16>"
        self.f32 = f"tensor<{rows}x{columns}xf32>"

    def add(self, name, text):
        self.lines.append(f"  %{name} = {text}")

    def returns(self, name, type):
        self.results.append((name, type))

    def cast(self, x, name, group, element="f8E4M3FN", transpose=False):
        """`x` cast with one scale a `group`; as it lies, or transposed."""
        shape = (self.rows, self.columns)
        parts = [1 if g == 0 else -(-size // g) for size, g in zip(shape, group)]
        scale = f"tensor<{parts[0]}x{parts[1]}xf32>"

        def data(order):
            words = ["all" if group[i] == 0 else str(group[i]) for i in order]
            return f"tensor<{shape[order[0]]}x{shape[order[1]]}x{element}, #fp8.tensor<scale = [{', '.join(words)}]>>"

        self.add(f"{name}_a", f"fp8.amax %{x} group = [{group[0]}, {group[1]}] : {self.bf16} -> {scale}")
        self.add(f"{name}_s", f"fp8.scale %{name}_a format = {element} {{eps = 1.0e-12 : f64, division = "
                              f"#fp8.division<double>}} : {scale}")
        self.add(f"{name}_q", f"fp8.cast %{x}, %{name}_s : {self.bf16}, {scale} -> {data((0, 1))}")
        self.returns(f"{name}_s", scale)
        if transpose:
            self.add(f"{name}_t", f"fp8.transpose %{name}_q [1, 0] : {data((0, 1))} -> {data((1, 0))}")
            self.returns(f"{name}_t", data((1, 0)))
        else:
            self.returns(f"{name}_q", data((0, 1)))

    def __str__(self):
        types = ", ".join(type for _, type in self.results)
        names = ", ".join(f"%{name}" for name, _ in self.results)
        arguments = ", ".join(f'%{name}: {self.bf16} loc("{name}")' for name in "xgu")
        body = "\n".join(self.lines)
        return f"func.func @loops({arguments}) -> ({types}) {{\n{body}\n  return {names} : {types}\n}}\n"


def make(rows, columns):
    p = Program(rows, columns)
    p.add("one", f"arith.constant dense<1.0> : {p.f32}")
    p.add("wide", f"arith.extf %g : {p.bf16} to {p.f32}")
    p.add("negative", f"arith.negf %wide : {p.f32}")
    p.add("power", f"math.exp %negative : {p.f32}")
    p.add("sum", f"arith.addf %power, %one : {p.f32}")
    p.add("sigmoid", f"arith.divf %one, %sum : {p.f32}")
    p.add("product", f"arith.mulf %wide, %sigmoid : {p.f32}")
    p.add("silu", f"arith.truncf %product : {p.f32} to {p.bf16}")
    p.add("act", f"arith.mulf %silu, %u : {p.bf16}")
    for value in ("x", "act"):
        p.cast(value, f"{value}_rows", (1, 0))
        p.cast(value, f"{value}_columns", (0, 1), transpose=True)
    p.cast("act", "whole", (0, 0), "f8E5M2", transpose=True)
    if columns % 128 == 0:
        p.cast("x", "row128", (1, 128))
    p.cast("x", "square", (128, 128), transpose=True)
    p.cast("act", "column128", (128, 1), transpose=True)
    # E5M6, as codes and read back.
    scale, codes = f"tensor<{rows}x{-(-columns // 128)}xf32>", f"tensor<{rows}x{columns}x!fp8.e5m6, #fp8.tensor<scale = [1, 128]>>"
    p.add("e5m6_a", f"fp8.amax %act group = [1, 128] : {p.bf16} -> {scale}")
    p.add("e5m6_s", f"fp8.scale %e5m6_a format = !fp8.e5m6 {{pow2 = #fp8.pow2<floor>}} : {scale}")
    p.add("e5m6_q", f"fp8.cast %act, %e5m6_s : {p.bf16}, {scale} -> {codes}")
    p.add("e5m6_x", f"fp8.dequantize %e5m6_q, %e5m6_s : {codes}, {scale} -> {p.bf16}")
    p.cast("e5m6_x", "e5m6_columns", (128, 1), transpose=True)
    p.returns("e5m6_q", codes)
    p.returns("e5m6_x", p.bf16)
    rows1, columns1 = f"tensor<{rows}x1xf32>", f"tensor<1x{columns}xf32>"
    p.add("xw", f"arith.extf %x : {p.bf16} to {p.f32}")
    p.add("squares", f"arith.mulf %xw, %xw : {p.f32}")
    p.add("energy", f"fp8.reduce sum %squares [1] : {p.f32} -> {rows1}")
    p.add("count", f"arith.constant dense<{float(columns):e}> : {rows1}")
    p.add("mean", f"arith.divf %energy, %count : {rows1}")
    p.add("factor", f"math.rsqrt %mean : {rows1}")
    p.add("factors", f"fp8.broadcast %factor : {rows1} -> {p.f32}")
    p.add("scaled", f"arith.mulf %xw, %factors : {p.f32}")
    p.add("norm", f"arith.truncf %scaled : {p.f32} to {p.bf16}")
    p.cast("norm", "norm_rows", (1, 0))
    # Dropout: numbers by place, whichever thread computes them.
    word, mask = "tensor<1x1xi32>", f"tensor<{rows}x{columns}xi1>"
    p.add("seed", f"arith.constant dense<-9> : {word}")
    p.add("offset", f"arith.constant dense<4> : {word}")
    p.add("uniform", f"fp8.random %seed, %offset {{stream = 5 : i64}} : {word} -> {p.f32}")
    p.add("p", f"arith.constant dense<0.25> : {p.f32}")
    p.add("zero", f"arith.constant dense<0.0> : {p.f32}")
    p.add("kept", f"arith.cmpf oge, %uniform, %p : {p.f32}")
    p.add("dropped", f"arith.select %kept, %xw, %zero : {mask}, {p.f32}")
    p.returns("dropped", p.f32)
    p.add("total", f"fp8.reduce sum %xw [0] : {p.f32} -> {columns1}")
    p.returns("total", columns1)
    p.returns("act", p.bf16)
    return str(p)


def make_heads(tokens, heads, width):
    half, columns, repeats = width // 2, heads * width, 4
    by_token, by_head = f"tensor<{tokens}x{heads}x{width}xbf16>", f"tensor<{heads}x{tokens}x{width}xbf16>"
    half_token, half_head = f"tensor<{tokens}x{heads}x{half}xbf16>", f"tensor<{heads}x{tokens}x{half}xbf16>"
    p = Program(tokens, columns)
    p.add("heads", f"fp8.reshape %x : {p.bf16} -> {by_token}")
    for name, start, to in (("low", half, 0), ("high", 0, half)):
        p.add(f"{name}_s", f"fp8.slice %heads [0, 0, {start}] : {by_token} -> {half_token}")
        p.add(f"{name}_p", f"fp8.permute %{name}_s [1, 0, 2] : {half_token} -> {half_head}")
        p.add(f"{name}_n", f"arith.negf %{name}_p : {half_head}")
        p.add(f"{name}_w", f"fp8.pad %{name}_{'n' if start else 'p'} [0, 0, {to}] : {half_head} -> {by_head}")
    p.add("turned", f"arith.addf %low_w, %high_w : {by_head}")
    p.returns("turned", by_head)
    p.add("back_p", f"fp8.permute %turned [1, 0, 2] : {by_head} -> {by_token}")
    p.add("back", f"fp8.transpose %back_p [0, 1, 2] : {by_token} -> {by_token}")
    p.add("matrix", f"fp8.reshape %back : {by_token} -> {p.bf16}")
    p.add("rotated", f"arith.addf %matrix, %u : {p.bf16}")
    p.cast("rotated", "token", (1, 0))
    p.cast("rotated", "column", (0, 1), transpose=True)
    one, many = f"tensor<{heads}x1x{tokens}x{width}xbf16>", f"tensor<{heads}x{repeats}x{tokens}x{width}xbf16>"
    p.add("single", f"fp8.reshape %turned : {by_head} -> {one}")
    p.add("many", f"fp8.broadcast %single : {one} -> {many}")
    p.add("copies", f"math.absf %many : {many}")
    p.add("few", f"fp8.reduce sum %copies [1] : {many} -> {one}")
    p.returns("few", one)
    row, column = f"tensor<{tokens}x1xf32>", f"tensor<1x{columns}xbf16>"
    p.add("xw", f"arith.extf %g : {p.bf16} to {p.f32}")
    p.add("squares", f"arith.mulf %xw, %xw : {p.f32}")
    p.add("energy", f"fp8.reduce sum %squares [1] : {p.f32} -> {row}")
    p.add("factor", f"math.rsqrt %energy : {row}")
    p.add("factors", f"fp8.broadcast %factor : {row} -> {p.f32}")
    p.add("scaled", f"arith.mulf %xw, %factors : {p.f32}")
    p.add("normed", f"arith.truncf %scaled : {p.f32} to {p.bf16}")
    p.add("product", f"arith.mulf %normed, %u : {p.bf16}")
    p.add("dw", f"fp8.reduce sum %product [0] : {p.bf16} -> {column}")
    p.returns("dw", column)
    p.add("pw", f"arith.extf %product : {p.bf16} to {p.f32}")
    p.add("inner", f"arith.mulf %pw, %factors : {p.f32}")
    p.add("along", f"fp8.reduce sum %inner [1] : {p.f32} -> {row}")
    p.add("spread", f"fp8.broadcast %along : {row} -> {p.f32}")
    p.add("dx", f"arith.mulf %spread, %xw : {p.f32}")
    p.returns("dx", p.f32)
    return str(p)


def main():
    if len(sys.argv) != 2:
        sys.exit("error: expected one argument, the folder to write to")
    for rows, columns in SIZES:
        (pathlib.Path(sys.argv[1]) / f"loops_{rows}x{columns}.mlir").write_text(make(rows, columns))
    for sizes in HEADS:
        name = "x".join(str(size) for size in sizes)
        (pathlib.Path(sys.argv[1]) / f"heads_{name}.mlir").write_text(make_heads(*sizes))


if __name__ == "__main__":
    main()
