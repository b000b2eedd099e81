# ===- graph.py - forward graphs and their gradients in NumPy ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A forward graph as a list of records, which can be written as IR with the builder and evaluated here, forward and in
# reverse mode, by rules of our own.
#
# ===-------------------------------------------------------------------------=== #
"""Forward graphs that are emitted for the compiler and evaluated, with gradients, in NumPy.

The rounding points are those of the IR: a bf16 value is rounded where it is produced, gradients as well, and the
contributions to a gradient are added in the order of the uses in the program, a returned value's last.
"""

import math
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..builder import Module
from ..tensor_types import TensorType, tensor
from ..values import Value
from .inputs import make_input
from .numerics import RECIPES, DelayedState, Linear, perturb, rounded

HISTORY = 4


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(np.float32)


# Seed and offset of what a dropout draws, and the probability of zero: exact in f32.
DRAW = (("seed", 11), ("offset", 6))
DROPPED = 0.375


def _kept(node: "Node") -> np.ndarray:
    """Where a dropout keeps its operand: Philox4x32-10 at each place (docs/numerics.md, "Random numbers")."""
    place = np.arange(math.prod(node.type.shape), dtype=np.uint64)
    (_, seed), (_, offset) = DRAW
    low = np.uint64(2**32 - 1)
    a, b, c, d = place & low, place >> np.uint64(32), np.full_like(place, offset), np.zeros_like(place)
    for number in range(10):
        first, second = np.uint64(0xD2511F53) * a, np.uint64(0xCD9E8D57) * c
        key = [np.uint64((value + number * step) % 2**32) for value, step in ((seed, 0x9E3779B9),
                                                                              (node.attribute, 0xBB67AE85))]
        a, b, c, d = (second >> np.uint64(32)) ^ b ^ key[0], second & low, (first >> np.uint64(32)) ^ d ^ key[1], first & low
    return ((a >> np.uint64(8)).astype(np.float64) / 2**24 >= DROPPED).reshape(node.type.shape)


# Result of each elementwise op in f32, and the factor of the gradient for each operand from (operands, result).
UNARY = {
    "arith.negf": (lambda x: -x, lambda g, x, y: -g),
    "math.absf": (np.abs, lambda g, x, y: g * np.sign(x)),
    "math.exp": (np.exp, lambda g, x, y: g * y),
    "math.log": (np.log, lambda g, x, y: g / x),
    "math.sqrt": (np.sqrt, lambda g, x, y: g / (y + y)),
    "math.rsqrt": (lambda x: np.float32(1) / np.sqrt(x), lambda g, x, y: g * (np.float32(-0.5) * y * y * y)),
    "math.tanh": (np.tanh, lambda g, x, y: g * (np.float32(1) - y * y)),
    "math.erf": (_erf, lambda g, x, y: g * (np.float32(2 / math.sqrt(math.pi)) * np.exp(-x * x))),
}
BINARY = {
    "arith.addf": (np.add, lambda g, a, b, y: (g, g)),
    "arith.subf": (np.subtract, lambda g, a, b, y: (g, -g)),
    "arith.mulf": (np.multiply, lambda g, a, b, y: (g * b, g * a)),
    "arith.divf": (np.divide, lambda g, a, b, y: (g / b, -(g / b) * y)),
    # Ties go to the first operand.
    "arith.maximumf": (np.maximum, lambda g, a, b, y: (np.where(a >= b, g, 0), np.where(a >= b, 0, g))),
    "arith.minimumf": (np.minimum, lambda g, a, b, y: (np.where(a <= b, g, 0), np.where(a <= b, 0, g))),
}

# Ops whose result in compiled code may differ from NumPy's in the last bits: polynomials of their own, or sums in
# another order. Everything else is correctly rounded on both sides.
INEXACT = {"math.exp", "math.log", "math.rsqrt", "math.tanh", "math.erf", "sum", "matmul", "linear"}


@dataclass
class Node:
    """One value: `kind` is `argument`, `constant`, an elementwise op, `sum`, `max`, `broadcast`, `permute`,
    `transpose`, `slice`, `reshape`, `extf`, `truncf`, `matmul`, `linear` or `dropout`."""

    name: str
    kind: str
    type: TensorType
    operands: Tuple[int, ...] = ()
    attribute: object = None  # marks, value, axes, permutation, offsets, recipe, or the stream of a dropout


class Graph:
    """A forward graph. Nodes are in program order; `results` are indices of nodes."""

    def __init__(self):
        self.nodes: List[Node] = []
        self.results: List[int] = []

    def append(self, kind: str, type: TensorType, operands: Sequence[int] = (), attribute=None) -> int:
        prefix = "a" if kind == "argument" else "v"
        self.nodes.append(Node(f"{prefix}{len(self.nodes)}", kind, type, tuple(operands), attribute))
        return len(self.nodes) - 1

    def emit(self) -> Module:
        """The graph as a module with one function `@graph`."""
        module = Module(locations=False)
        f = module.function("graph")
        values: Dict[int, Value] = {}
        states: Dict[int, List[Value]] = {}
        for index, node in enumerate(self.nodes):
            if node.kind == "argument":
                values[index] = f.argument(node.name, node.type, *node.attribute)
        for index, node in enumerate(self.nodes):
            if node.kind == "linear" and node.attribute == "delayed":
                states[index] = f.delayed_state(node.name, HISTORY)
        for index, node in enumerate(self.nodes):
            operands = [values[operand] for operand in node.operands]
            kind, name, attribute = node.kind, node.name, node.attribute
            if kind == "argument":
                continue
            if kind == "constant":
                values[index] = f.constant(attribute, node.type, name=name)
            elif kind in UNARY or kind in BINARY:
                values[index] = f.elementwise(kind, *operands, name=name)
            elif kind in ("sum", "max"):
                values[index] = f.reduce(kind, operands[0], attribute, node.type.element, name=name)
            elif kind == "broadcast":
                values[index] = f.broadcast(operands[0], node.type.shape, name=name)
            elif kind in ("permute", "transpose"):
                values[index] = getattr(f, kind)(operands[0], attribute, name=name)
            elif kind == "slice":
                values[index] = f.slice(operands[0], attribute, node.type.shape, name=name)
            elif kind == "reshape":
                values[index] = f.reshape(operands[0], node.type.shape, name=name)
            elif kind in ("extf", "truncf"):
                values[index] = getattr(f, kind)(operands[0], name=name)
            elif kind == "matmul":
                values[index] = f.matmul(*operands, node.type.element, name=name)
            elif kind == "linear":
                values[index] = f.linear(*operands, attribute, states.get(index, ()), name=name,
                                         element=node.type.element)
            elif kind == "dropout":
                word = tensor("i32", 1, 1)
                seed, offset = (f.constant(value, word, name=f"{name}_{what}") for what, value in DRAW)
                drawn = f.random(seed, offset, node.type.shape, attribute, name=f"{name}_drawn")
                kept = f.compare("oge", drawn, f.constant(DROPPED, drawn.type, name=f"{name}_p"), name=f"{name}_kept")
                values[index] = f.select(kept, operands[0], f.constant(0.0, node.type, name=f"{name}_zero"), name=name)
            else:
                raise ValueError(f"unknown kind '{kind}'")
        f.returns(*[values[index] for index in self.results])
        return module

    def evaluate(self, seed: int, perturbation: Optional[np.random.Generator] = None,
                 gradients: bool = True) -> Dict[str, np.ndarray]:
        """The outputs of a run of one step by name, in its order: results, gradients of the arguments that are not
        frozen, state after the end of the step. With a `perturbation` every result that is not correctly rounded is
        moved by about the error that an f32 sum may have, to see how much the outputs depend on it."""
        run = Run(self, seed, perturbation)
        for index in range(len(self.nodes)):
            run.values.append(run.forward(index))
        return run.outputs(gradients)


class Run:
    """The evaluation of one graph. `values` holds one array a node, as far as the forward pass has come."""

    def __init__(self, graph: Graph, seed: int, perturbation: Optional[np.random.Generator] = None):
        self.graph, self.seed, self.perturbation = graph, seed, perturbation
        self.values: List[np.ndarray] = []
        self.linears: Dict[int, Linear] = {}
        self.states: Dict[int, DelayedState] = {}

    def outputs(self, gradients: bool) -> Dict[str, np.ndarray]:
        """The outputs, once every value is there."""
        graph = self.graph
        outputs = {graph.nodes[index].name: self.values[index] for index in graph.results}
        if not gradients:
            return outputs
        for name, gradient in self._backward().items():
            outputs[f"d_{name}"] = gradient
        for index, state in self.states.items():
            state.end_of_step(RECIPES["delayed"])
            for role in ("x", "w", "dy"):
                name = f"state:{graph.nodes[index].name}.{role}"
                outputs[f"{name}_history"] = state.history[role]
                outputs[f"{name}_scale"] = np.full((1, 1), state.scale[role], np.float32)
        return outputs

    def _inexact(self, x: np.ndarray) -> np.ndarray:
        return perturb(x, self.perturbation)

    def forward(self, index: int) -> np.ndarray:
        """The value of node `index`; those before it are in `values`."""
        node = self.graph.nodes[index]
        x = [self.values[operand] for operand in node.operands]
        kind, attribute, element = node.kind, node.attribute, node.type.element
        if kind == "argument":
            parameter = "fp8.parameter" in attribute
            scale = 1 / math.sqrt(node.type.shape[-1]) if parameter else 1.0
            return make_input(node.name, node.type.shape, element, self.seed, scale)
        if kind == "constant":
            return np.full(node.type.shape, attribute, np.float32)
        if kind in UNARY:
            result = UNARY[kind][0](x[0])
        elif kind in BINARY:
            result = BINARY[kind][0](*x)
        elif kind == "sum":
            result = x[0].sum(axis=tuple(attribute), keepdims=True, dtype=np.float64)
        elif kind == "max":
            result = x[0].max(axis=tuple(attribute), keepdims=True)
        elif kind == "broadcast":
            result = np.broadcast_to(x[0], node.type.shape)
        elif kind in ("permute", "transpose"):
            result = x[0].transpose(attribute)
        elif kind == "slice":
            result = x[0][tuple(slice(o, o + size) for o, size in zip(attribute, node.type.shape))]
        elif kind == "reshape":
            result = x[0].reshape(node.type.shape)
        elif kind in ("extf", "truncf"):
            result = x[0]
        elif kind == "matmul":
            result = x[0].astype(np.float64) @ x[1].astype(np.float64)
        elif kind == "dropout":
            result = np.where(_kept(node), x[0], np.float32(0))
        elif kind == "linear":
            if attribute == "delayed":
                self.states[index] = DelayedState.fresh(HISTORY)
            self.linears[index] = Linear(attribute, *x, "f32", self.states.get(index))
            result = self.linears[index].forward()
        else:
            raise ValueError(f"unknown kind '{kind}'")
        return rounded(self._inexact(result) if kind in INEXACT else result, element)

    def _active(self) -> List[bool]:
        """Which values depend on an argument that has a gradient."""
        active = []
        for node in self.graph.nodes:
            wanted = node.kind == "argument" and "fp8.frozen" not in node.attribute
            active.append(wanted or any(active[operand] for operand in node.operands))
        return active

    def _backward(self) -> Dict[str, np.ndarray]:
        nodes, active = self.graph.nodes, self._active()
        contributions: List[List[Tuple[Tuple[int, int], np.ndarray]]] = [[] for _ in nodes]
        for position, index in enumerate(self.graph.results):
            node = nodes[index]
            tangent = make_input(f"d_{node.name}", node.type.shape, node.type.element, self.seed)
            contributions[index].append(((len(nodes), position), tangent))
        totals: Dict[int, np.ndarray] = {}
        for index in reversed(range(len(nodes))):
            node = nodes[index]
            total = None
            for _, part in sorted(contributions[index], key=lambda entry: entry[0]):
                total = part if total is None else rounded(total + part, node.type.element)
            if total is None or not active[index]:
                continue
            totals[index] = total
            wanted = [active[operand] for operand in node.operands]
            if not any(wanted):
                continue
            for number, part in enumerate(self._adjoint(index, node, total, wanted)):
                operand = node.operands[number]
                if wanted[number]:
                    part = rounded(part, nodes[operand].type.element)
                    contributions[operand].append(((index, number), part))
        return {node.name: totals.get(index, np.zeros(node.type.shape, np.float32))
                for index, node in enumerate(nodes) if node.kind == "argument" and "fp8.frozen" not in node.attribute}

    def _adjoint(self, index: int, node: Node, g: np.ndarray, wanted: List[bool]):
        x, y = [self.values[operand] for operand in node.operands], self.values[index]
        kind, attribute = node.kind, node.attribute
        if kind in UNARY:
            gradient = UNARY[kind][1](g, x[0], y)
            return [self._inexact(gradient) if kind in INEXACT else gradient]
        if kind in BINARY:
            return BINARY[kind][1](g, *x, y)
        if kind == "sum":
            return [np.broadcast_to(rounded(g, self.graph.nodes[node.operands[0]].type.element), x[0].shape)]
        if kind == "max":
            return [np.where(x[0] == x[0].max(axis=tuple(attribute), keepdims=True), g, np.float32(0))]
        if kind == "broadcast":
            axes = tuple(axis for axis, (a, b) in enumerate(zip(x[0].shape, y.shape)) if a != b)
            return [self._inexact(g.sum(axis=axes, keepdims=True, dtype=np.float64))]
        if kind in ("permute", "transpose"):
            return [g.transpose(np.argsort(attribute))]
        if kind == "slice":
            gradient = np.zeros_like(x[0])
            gradient[tuple(slice(o, o + size) for o, size in zip(attribute, g.shape))] = g
            return [gradient]
        if kind == "reshape":
            return [g.reshape(x[0].shape)]
        if kind in ("extf", "truncf"):
            return [g]
        if kind == "matmul":
            g = rounded(g, self.graph.nodes[node.operands[0]].type.element).astype(np.float64)
            return [self._inexact(g @ x[1].T.astype(np.float64)), self._inexact(x[0].T.astype(np.float64) @ g)]
        if kind == "dropout":
            return [np.where(_kept(node), g, np.float32(0))]
        if kind == "linear":
            return [self._inexact(part) for part in self.linears[index].backward(g)]
        raise ValueError(f"unknown kind '{kind}'")
