# ===- loop_programs.py - Programs without matmuls ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: loop_programs.py OUT_DIR
#
# Writes loops_ROWSxCOLUMNS.mlir: one function with every kind of cast, both ways, of an input and of silu(g) * u, also
# through 12 bits, a norm, a dropout and a sum down the columns, at sizes that fill tiles and sizes that do not, one with rows enough to be copied
# ahead.
# Without matmuls a GPU must give the bits of the reference.
#
# ===-------------------------------------------------=== #
"""Writes the programs that artifacts.sh compiles beside the examples."""

import pathlib
import sys

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


def main():
    if len(sys.argv) != 2:
        sys.exit("error: expected one argument, the folder to write to")
    for rows, columns in SIZES:
        (pathlib.Path(sys.argv[1]) / f"loops_{rows}x{columns}.mlir").write_text(make(rows, columns))


if __name__ == "__main__":
    main()
