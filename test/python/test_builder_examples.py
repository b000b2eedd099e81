# ===- test_builder_examples.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Each file of examples/, written with the builder, is the same IR: ops, attributes, types and names, compared as fp8-opt
# prints both.
#
# ===-------------------------------------------=== #

import re
import subprocess
import sys

import pytest

from fp8opt import Module, tensor

ROWS, COLUMNS, TENSOR = (1, 0), (0, 1), (0, 0)


def printed(fp8_opt, text):
    """What fp8-opt makes of `text`: names kept, places in files not."""
    found = fp8_opt(["--mlir-print-debuginfo", "--mlir-print-local-scope"], text)
    found = re.sub(r'loc\("([^"]*)"\("[^"]*":\d+:\d+\)\)', r'loc("\1")', found)
    return re.sub(r' loc\("[^"]*":\d+:\d+\)', "", found)


class Trap:
    """What abs_trap.mlir and abs_trap_tensorwise.mlir have in common."""

    def __init__(self, name):
        self.module = Module(grid={"fsdp": 4})
        self.f = self.module.function(name)

    def scale(self, amax, name, format="f8E4M3FN"):
        return self.f.scale(amax, format, eps=1e-12, division="double", name=name)

    def quantised(self, x, name, group, kind, format="f8E4M3FN"):
        """Maximum, scale and cast of `x`, named as the files name them."""
        scale = self.scale(self.f.amax(x, group, name=f"{name}_{kind}max"), f"{name}_{kind}scale", format)
        return self.f.cast(x, scale, format, group, name=f"{name}_{kind or 'f8'}"), scale

    def matmul(self, a, b, name, fast=True):
        return self.f.matmul(a[0], b[0], scales=(a[1], b[1]), fast_accum=fast, name=name)

    def gathered(self, shard, name, axes, kind, group, checkpoint=False):
        """A weight, its abs, its maximum, and the cast weight with its scale."""
        f = self.f
        w = f.all_gather(shard, "fsdp", 4, name=name)
        absolute = f.elementwise("math.absf", w, name=f"{name}_abs")
        amax = f.reduce("max", absolute, axes, element="f32", name=f"{name}_{kind}max")
        if checkpoint:
            f.mark(amax, checkpoint=None)
        scale = self.scale(amax, f"{name}_{kind}scale")
        return w, absolute, amax, (f.cast(w, scale, "f8E4M3FN", group, name=f"{name}_{kind or 'f8'}"), scale)

    def program(self):
        f = self.f
        x = f.argument("x", tensor("bf16", 1024, 16384))
        w1_shard = f.parameter("w1_shard", tensor("bf16", 1024, 16384))
        w2_shard = f.parameter("w2_shard", tensor("bf16", 4096, 4096))
        d_z = f.argument("d_z", tensor("bf16", 1024, 16384), "fp8.tangent")
        step = f.step()
        with step.forward():
            y, kept = self.forward(x, w1_shard, w2_shard)
            (z,) = f.opaque("layers_behind", [y], [y.type], scratch_bytes=536870912, name="z")
            step.yields(z)
        with step.backward():
            step.keep(*kept)
            (d_y,) = f.opaque("layers_behind_backward", [d_z], [d_z.type], scratch_bytes=536870912, name="d_y")
            step.yields(*self.backward(d_y))
        f.returns(*step.results)
        return self.module


class Rows(Trap):
    """abs_trap.mlir: scales of rows and of columns, and backward reads the abs of forward."""

    def linear(self, shard, x, x_name, w_name, name):
        w, absolute, _, (w_q, w_scale) = self.gathered(shard, w_name, [1], "row", ROWS)
        x_q = self.quantised(x, x_name, ROWS, "row")
        return self.matmul(x_q, self.transposed((w_q, w_scale)), name), w, absolute

    def transposed(self, pair):
        return tuple(self.f.permute(part, [1, 0], name=f"{part.name}_t") for part in pair)

    def forward(self, x, w1_shard, w2_shard):
        self.x = x
        self.h, self.w1, self.w1_abs = self.linear(w1_shard, x, "x", "w1", "h")
        y, self.w2, self.w2_abs = self.linear(w2_shard, self.h, "h", "w2", "y")
        return y, (self.h, self.w1, self.w1_abs, self.w2, self.w2_abs)

    def backward(self, d_y):
        d_h, d_w2 = self.gradients(d_y, "d_y", self.w2, self.w2_abs, "w2", self.h, "h", ("d_h", "d_w2"))
        d_x, d_w1 = self.gradients(d_h, "d_h", self.w1, self.w1_abs, "w1", self.x, "x", ("d_x", "d_w1"))
        return d_x, d_w1, d_w2

    def gradients(self, dy, dy_name, w, w_abs, w_name, x, x_name, names):
        dy_row = self.quantised(dy, dy_name, ROWS, "row")
        amax = self.f.reduce("max", w_abs, [0], element="f32", name=f"{w_name}_colmax")
        scale = self.scale(amax, f"{w_name}_colscale")
        w_col = self.f.cast(w, scale, "f8E4M3FN", COLUMNS, name=f"{w_name}_col")
        dx = self.matmul(dy_row, (w_col, scale), names[0])
        dy_col = self.quantised(dy, dy_name, COLUMNS, "col")
        x_col = self.quantised(x, x_name, COLUMNS, "col")
        return dx, self.matmul(self.transposed(dy_col), x_col, names[1])


class Tensors(Trap):
    """abs_trap_tensorwise.mlir: one scale a tensor, and backward reads maxima only."""

    def forward(self, x, w1_shard, w2_shard):
        f = self.f
        self.w1, _, self.w1_max, w1_f8 = self.gathered(w1_shard, "w1", [0, 1], "", TENSOR, checkpoint=True)
        self.x_f8 = self.quantised(x, "x", TENSOR, "")
        h = self.matmul(self.x_f8, (f.permute(w1_f8[0], [1, 0], name="w1_f8_t"), w1_f8[1]), "h")
        self.w2, _, self.w2_max, w2_f8 = self.gathered(w2_shard, "w2", [0, 1], "", TENSOR, checkpoint=True)
        self.h_f8 = self.quantised(h, "h", TENSOR, "")
        y = self.matmul(self.h_f8, (f.permute(w2_f8[0], [1, 0], name="w2_f8_t"), w2_f8[1]), "y")
        return y, (*self.x_f8, *self.h_f8, self.w1, self.w1_max, self.w2, self.w2_max)

    def backward(self, d_y):
        d_h, d_w2 = self.gradients(d_y, "d_y", self.w2, self.w2_max, "w2", self.h_f8, ("d_h", "d_w2"))
        d_x, d_w1 = self.gradients(d_h, "d_h", self.w1, self.w1_max, "w1", self.x_f8, ("d_x", "d_w1"))
        return d_x, d_w1, d_w2

    def gradients(self, dy, dy_name, w, w_max, w_name, x_f8, names):
        f = self.f
        dy_f8 = self.quantised(dy, dy_name, TENSOR, "", "f8E5M2")
        scale = self.scale(w_max, f"{w_name}_scale_b")
        w_f8 = f.cast(w, scale, "f8E4M3FN", TENSOR, name=f"{w_name}_f8_b")
        dx = self.matmul(dy_f8, (w_f8, scale), names[0], fast=False)
        dy_t = f.permute(dy_f8[0], [1, 0], name=f"{dy_name}_f8_t")
        return dx, self.matmul((dy_t, dy_f8[1]), x_f8, names[1], fast=False)


@pytest.mark.parametrize("name, kind", [("abs_trap", Rows), ("abs_trap_tensorwise", Tensors)])
def test_abs_trap(name, kind, fp8_opt, root):
    written = (root / "examples" / f"{name}.mlir").read_text()
    assert printed(fp8_opt, str(kind(name).program())) == printed(fp8_opt, written)


@pytest.mark.parametrize("name", ["ffn_block128", "ffn_delayed", "ffn_tensorwise", "llama3_ffn", "llama3_ffn_small"])
def test_examples_of_the_generator(fp8_opt, root, name):
    """examples/gen.py writes them with the builder."""
    written = (root / "examples" / f"{name}.mlir").read_text()
    command = re.match(r"// python3 (\S+) (.*)\n", written)
    text = subprocess.run([sys.executable, root / command[1], *command[2].split()], capture_output=True, text=True,
                          check=True).stdout
    assert printed(fp8_opt, text) == printed(fp8_opt, written)
