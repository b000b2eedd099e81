# ===- random_graphs.py - seeded random forward graphs ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Graphs of 5 to 40 ops in which every policy must give the same bits, and gradients must equal those of graph.py.
#
# ===------------------------------------------------------------------=== #
"""Write random forward graphs and their expected outputs.

    python3 -m fp8opt.testing.random_graphs --count=100 DIR

DIR/graph-SEED.mlir is a program, DIR/graph-SEED.npz its outputs in the order of a run with inputs of seed 0. A graph is
kept only if its outputs are finite, moderate, and well conditioned: moving each result that is not correctly rounded by
2^-21, more than an f32 sum of these lengths is off, moves no output by more than CONDITION in the 2-norm. So a gradient
that differs by more than TOLERANCE is wrong, not unlucky.
"""

import argparse
import pathlib
import random
from typing import Dict, List, Optional

import numpy as np

from ..tensor_types import TensorType, tensor
from .graph import BINARY, INEXACT, UNARY, Graph, Run
from .numerics import relative_error

INPUT_SEED = 0
LARGEST = 64.0
CONDITION = 2e-3
TOLERANCE = 1e-2

# Domains outside of which an elementwise op is not drawn, so that values and gradients stay moderate.
DOMAINS = {
    "math.exp": (-20.0, 3.0),
    "math.log": (0.1, LARGEST),
    "math.sqrt": (0.1, LARGEST),
    "math.rsqrt": (0.1, LARGEST),
}
BF16_UNARY = ("arith.negf", "math.absf")
BF16_BINARY = ("arith.addf", "arith.subf", "arith.mulf", "arith.maximumf", "arith.minimumf")


class Generator:
    """Draws one graph; values are evaluated as they are drawn, so that no op leaves its domain."""

    def __init__(self, seed: int, variant: int, drops: bool = False):
        self.random = random.Random(f"{seed}/{variant}")
        self.drops = drops
        self.graph = Graph()
        self.run = Run(self.graph, INPUT_SEED)
        self.values = self.run.values
        self.exact: List[bool] = []
        self.strided: List[bool] = []
        self.dims = self.random.choice([(128, 256), (128, 128), (16, 48, 80), (32, 112), (16, 64, 272)])

    def draw(self) -> Graph:
        for _ in range(self.random.randint(2, 3)):
            marks = self.random.choice([(), (), ("fp8.donated",)])
            self.add("argument", tensor(self.random.choice(["bf16", "bf16", "f32"]), *self.shape()), (), marks)
        target = self.random.randint(5, 40)
        makers = [self.elementwise] * 6 + [self.linear] * 3 + [self.view] * 2 + [self.reduction, self.broadcast,
                                                                               self.conversion, self.matmul]
        makers += [self.dropout] * 3 if self.drops else []
        attempts = 0
        while self.operations() < target and attempts < 400:
            attempts += 1
            self.random.choice(makers)()
        self.choose_results()
        return self.graph

    def operations(self) -> int:
        return sum(node.kind not in ("argument", "constant") for node in self.graph.nodes)

    def shape(self):
        return self.random.choice(self.dims), self.random.choice(self.dims)

    def pick(self, wanted=lambda index: True) -> Optional[int]:
        """An index that satisfies `wanted`: half the time one without a use, so that little is dead, else a late one
        more often, so that graphs grow deep and values are shared. Constants are drawn only as second operands."""
        indices = [i for i, node in enumerate(self.graph.nodes) if node.kind != "constant" and wanted(i)]
        if self.random.random() < 0.5:
            used = {operand for node in self.graph.nodes for operand in node.operands}
            indices = [i for i in indices if i not in used] or indices
        if not indices:
            return None
        return indices[-1 - min(int(self.random.expovariate(0.35)), len(indices) - 1)]

    def type(self, index: int) -> TensorType:
        return self.graph.nodes[index].type

    def add(self, kind: str, type: TensorType, operands=(), attribute=None) -> Optional[int]:
        """Appends a node if its value is finite and moderate."""
        index = self.graph.append(kind, type, operands, attribute)
        with np.errstate(all="ignore"):
            value = self.run.forward(index)
        if not np.isfinite(value).all() or np.abs(value).max() > LARGEST:
            self.graph.nodes.pop()
            return None
        self.values.append(value)
        self.exact.append(kind not in INEXACT and all(self.exact[operand] for operand in operands))
        moved = kind in ("permute", "slice")
        passes = kind == "reshape"
        self.strided.append(moved or (passes and self.strided[operands[0]]))
        return index

    def elementwise(self):
        if self.random.random() < 0.4:
            op = self.random.choice(sorted(UNARY))
            low, high = DOMAINS.get(op, (-LARGEST, LARGEST))
            # The gradient of abs jumps at 0, where an inexact value could fall on either side.
            x = self.pick(lambda i: (self.type(i).element == "f32" or op in BF16_UNARY)
                          and low <= self.values[i].min() and self.values[i].max() <= high
                          and (op != "math.absf" or self.exact[i]))
            if x is not None:
                self.add(op, self.type(x), (x,))
            return
        x = self.pick()
        narrow = self.type(x).element == "bf16"
        op = self.random.choice(BF16_BINARY if narrow else sorted(BINARY))
        needs_exact = op in ("arith.maximumf", "arith.minimumf")
        y = self.pick(lambda i: self.type(i) == self.type(x))
        if op == "arith.divf":
            y = self.pick(lambda i: self.type(i) == self.type(x) and np.abs(self.values[i]).min() > 0.25)
            if y is None:
                y = self.add("constant", self.type(x), (), self.random.choice([2.0, 0.5, 3.0]))
        elif self.random.random() < 0.15:
            y = self.add("constant", self.type(x), (), self.random.choice([1.0, 0.5, -0.25]))
        if y is None or (needs_exact and not (self.exact[x] and self.exact[y])):
            return
        self.add(op, self.type(x), (x, y))

    def conversion(self):
        x = self.pick()
        kind = "extf" if self.type(x).element == "bf16" else "truncf"
        self.add(kind, self.type(x).with_element("f32" if kind == "extf" else "bf16"), (x,))

    def view(self):
        x = self.pick(lambda i: len(self.type(i).shape) == 2)
        shape = self.type(x).shape
        kind = self.random.choice(["permute", "transpose", "slice", "reshape"])
        if kind in ("permute", "transpose"):
            self.add(kind, self.type(x).with_shape(shape[::-1]), (x,), [1, 0])
        elif kind == "slice":
            sizes = [self.random.choice([dim for dim in self.dims if dim <= size] or [size]) for size in shape]
            offsets = [self.random.randint(0, (size - part) // 16) * 16 for size, part in zip(shape, sizes)]
            self.add(kind, self.type(x).with_shape(sizes), (x,), offsets)
        elif not self.strided[x]:
            other = self.random.choice([dim for dim in self.dims if shape[0] * shape[1] % dim == 0] or [shape[0]])
            self.add(kind, self.type(x).with_shape((other, shape[0] * shape[1] // other)), (x,))

    def reduction(self):
        kind = self.random.choice(["sum", "sum", "max"])
        x = self.pick(lambda i: kind == "sum" or self.exact[i])
        if x is None:
            return
        axes = self.random.choice([[0], [1], [0, 1]])
        shape = [1 if axis in axes else dim for axis, dim in enumerate(self.type(x).shape)]
        element = self.random.choice(["f32", self.type(x).element])
        self.add(kind, tensor(element, *shape), (x,), axes)

    def broadcast(self):
        x = self.pick(lambda i: 1 in self.type(i).shape)
        if x is None:
            return
        shape = [self.random.choice(self.dims) if dim == 1 else dim for dim in self.type(x).shape]
        self.add("broadcast", self.type(x).with_shape(shape), (x,))

    def dropout(self):
        x = self.pick()
        # Streams of two draws at most: equal draws of one shape are one value.
        self.add("dropout", self.type(x), (x,), self.random.randint(0, 1))

    def linear(self):
        recipe = self.random.choice(["rowwise", "tensorwise", "block128", "delayed"])
        multiple = 128 if recipe == "block128" else 16
        x = self.pick(lambda i: self.type(i).element == "bf16" and all(d % multiple == 0 for d in self.type(i).shape))
        if x is None:
            return
        outputs = self.random.choice([dim for dim in self.dims if dim % multiple == 0] or [multiple])
        shape = (outputs, self.type(x).shape[1])
        w = self.pick(lambda i: self.type(i) == tensor("bf16", *shape)) if self.random.random() < 0.2 else None
        if w is None:
            marks = ("fp8.parameter", "fp8.frozen") if self.random.random() < 0.2 else ("fp8.parameter",)
            w = self.add("argument", tensor("bf16", *shape), (), marks)
        self.add("linear", tensor("bf16", self.type(x).shape[0], outputs), (x, w), recipe)

    def matmul(self):
        a = self.pick(lambda i: len(self.type(i).shape) == 2)
        b = self.pick(lambda i: self.type(i).element == self.type(a).element
                      and self.type(i).shape[0] == self.type(a).shape[1])
        if b is not None:
            element = self.random.choice(["f32", self.type(a).element])
            self.add("matmul", tensor(element, self.type(a).shape[0], self.type(b).shape[1]), (a, b))

    def choose_results(self):
        used = {operand for node in self.graph.nodes for operand in node.operands}
        ends = [i for i, node in enumerate(self.graph.nodes)
                if i not in used and node.kind not in ("argument", "constant")]
        inner = [i for i in sorted(used) if self.graph.nodes[i].kind not in ("argument", "constant")]
        self.random.shuffle(ends)
        self.graph.results = sorted(ends[:4] + self.random.sample(inner, min(len(inner), self.random.randint(0, 1))))


def well_conditioned(graph: Graph, seed: int, outputs: Dict[str, np.ndarray]) -> bool:
    """Whether all outputs are finite and moderate and barely move when inexact results do."""
    if not all(np.isfinite(value).all() and np.abs(value).max() < 1e4 for value in outputs.values()):
        return False
    moved = graph.evaluate(INPUT_SEED, np.random.default_rng(seed))
    return all(relative_error(moved[name], value) <= CONDITION for name, value in outputs.items())


def random_graph(seed: int, drops: bool = False):
    """The graph of `seed` and its expected outputs by name, in the order of a run. One that `drops` has dropouts."""
    for variant in range(200):
        graph = Generator(seed, variant, drops).draw()
        if drops and not any(node.kind == "dropout" for node in graph.nodes):
            continue
        operations = sum(node.kind not in ("argument", "constant") for node in graph.nodes)
        if not 5 <= operations <= 40 or not graph.results:
            continue
        with np.errstate(all="ignore"):
            outputs = graph.evaluate(INPUT_SEED)
            if well_conditioned(graph, seed, outputs):
                return graph, outputs
    raise RuntimeError(f"no well-conditioned graph in 200 drawn for seed {seed}")


def write_graphs(folder: pathlib.Path, count: int, first: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(first, first + count):
        graph, outputs = random_graph(seed)
        (folder / f"graph-{seed:03}.mlir").write_text(f"// random graph of seed {seed}\n{graph.emit()}")
        np.savez(folder / f"graph-{seed:03}.npz", **outputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where to write")
    parser.add_argument("--count", type=int, default=100, help="number of graphs (100)")
    parser.add_argument("--first", type=int, default=0, help="first seed (0)")
    options = parser.parse_args()
    write_graphs(options.folder, options.count, options.first)


if __name__ == "__main__":
    main()
