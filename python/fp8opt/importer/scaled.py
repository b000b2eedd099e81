# ===- scaled.py - FP8 casts and scaled products of ATen ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# In a graph of ATen a scale is a chain of operations on a maximum, a cast to FP8 a multiplication, a clamp to the largest
# finite value and a change of type, and a scaled product gets the reciprocals of the scales. `find_scaling` puts one
# operation in the place of each such chain, before anything is emitted; what does not look like that stays opaque.
#
#===----------------------------------------------------------------------===//
"""FP8 scales, casts and products."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..graphs.graph import Graph, Node, Ref, Tensor
from ..values import Value
from .program import ARITHMETIC, ELEMENTS, Importer

LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
AMAX, SCALE, CAST, MATMUL = "fp8opt.amax", "fp8opt.scale", "fp8opt.cast", "fp8opt.scaled_mm"
_CONVERTS = ("aten._to_copy.default", "prims.convert_element_type.default")


class _Chains:
    """Looks at the operations that made a value."""

    def __init__(self, graph: Graph):
        self.tensors = graph.tensors()
        self.producers = graph.producers()
        self.readers = Counter(name for node in graph.nodes for name in set(node.reads()))
        self.readers.update(item.value for item in graph.outputs if item.value)

    def made_by(self, name: Any, *ops: str) -> Optional[Node]:
        """The node that made a value, where it is one of `ops` with a tensor as its first argument."""
        node = self.producers.get(name.name if isinstance(name, Ref) else name)
        return node if node is not None and node.op in ops and node.args and isinstance(node.args[0], Ref) else None

    def through_views(self, ref: Ref) -> str:
        """The value that `ref` is a view of, at the end of the chain."""
        name = ref.name
        while True:
            node = self.producers.get(name)
            if node is None or not node.alias or not node.alias[0]:
                return name
            name = node.alias[0]

    def narrow(self, ref: Ref) -> Ref:
        """`ref`, or the bf16 value that it is an exact copy of in a wider type."""
        while True:
            node = self.made_by(ref, *_CONVERTS)
            if node is None or self.tensors[ref.name].dtype not in ("float32", "float64"):
                return ref
            if self.tensors[node.args[0].name].dtype not in ("bfloat16", "float32"):
                return ref
            ref = node.args[0]


def find_scaling(graph: Graph) -> Graph:
    """The graph with one operation for each FP8 scale, cast and product that was recognised. What they replace is dead
    unless something else reads it."""
    chains = _Chains(graph)
    nodes: List[Node] = []
    for node in graph.nodes:
        found = (_amax(chains, node) or _scale(chains, node) or _cast(chains, node) or _matmul(chains, node)
                 or _rescaled_matmul(chains, node))
        nodes.append(found or node)
    return replace(graph, nodes=nodes)


def _replaced(node: Node, op: str, args: list, **kwargs: Any) -> Node:
    return replace(node, op=op, args=args, kwargs=kwargs, alias=[])


def _amax(chains: _Chains, node: Node) -> Optional[Node]:
    """`amax(abs(x))` over whole dimensions that are kept as 1."""
    if node.op != "aten.amax.default" or len(node.args) != 3 or node.args[2] is not True:
        return None
    inner = chains.made_by(node.args[0], "aten.abs.default")
    if inner is None or chains.tensors[inner.args[0].name].dtype not in ARITHMETIC or not node.args[1]:
        return None
    return _replaced(node, AMAX, [inner.args[0], node.args[1]])


def _scale(chains: _Chains, node: Node) -> Optional[Node]:
    """`largest / max(amax, eps)`, computed in f32, or in f64 and rounded to f32; and the power of two below it where
    `exp2(floor(log2()))` follows."""
    (name, tensor), = node.outputs if len(node.outputs) == 1 else (("", None),)
    if tensor is None or tensor.dtype != "float32":
        return None
    pow2, last = False, node
    if node.op == "aten.exp2.default":
        floor = chains.made_by(node.args[0], "aten.floor.default")
        log = floor and chains.made_by(floor.args[0], "aten.log2.default")
        last = log and chains.producers.get(log.args[0].name)
        pow2 = True
    double = last is not None and last.op in _CONVERTS and isinstance(last.args[0], Ref) and (
        chains.tensors[last.args[0].name].dtype == "float64")
    product = last if not double else chains.producers.get(last.args[0].name)
    if product is None or product.op not in ("aten.mul.Tensor", "aten.mul.Scalar") or not isinstance(product.args[0], Ref):
        return None
    inverse = chains.made_by(product.args[0], "aten.reciprocal.default")
    bounded = inverse and chains.made_by(inverse.args[0], "aten.clamp_min.default", "aten.clamp.default")
    if not bounded or product.args[1] not in LARGEST.values() or len(bounded.args) != 2 or bounded.kwargs:
        return None
    amax = chains.narrow(bounded.args[0])
    if chains.tensors[amax.name].dtype not in ARITHMETIC or not isinstance(bounded.args[1], (int, float)):
        return None
    return _replaced(node, SCALE, [amax], largest=product.args[1], eps=float(bounded.args[1]), pow2=pow2, double=double)


def _clamped(chains: _Chains, ref: Ref, largest: float) -> Optional[Ref]:
    """What is clamped to [-largest, largest] to give `ref`; None where it is not."""
    node = chains.made_by(ref, "aten.clamp.default")
    if node is not None:
        low, high = (list(node.args[1:]) + [None, None])[:2]
        low, high = node.kwargs.get("min", low), node.kwargs.get("max", high)
        return node.args[0] if (low, high) == (-largest, largest) else None
    upper = chains.made_by(ref, "aten.clamp_max.default")
    lower = upper and chains.made_by(upper.args[0], "aten.clamp_min.default")
    if not lower or upper.args[1] != largest or lower.args[1] != -largest:
        return None
    return lower.args[0]


def _cast(chains: _Chains, node: Node) -> Optional[Node]:
    """`fp8(clamp(f32(x) * scale))` of a matrix, with one scale, or one a row or column."""
    if node.op not in _CONVERTS or not isinstance(node.args[0], Ref):
        return None
    (name, tensor), = node.outputs
    if tensor is None or tensor.dtype not in LARGEST or len(tensor.shape) != 2:
        return None
    clamped = _clamped(chains, node.args[0], LARGEST[tensor.dtype])
    product = clamped and chains.made_by(clamped, "aten.mul.Tensor")
    if not product or not isinstance(product.args[1], Ref):
        return None
    source, scale = product.args
    if chains.tensors[source.name].shape != tensor.shape:
        source, scale = scale, source
    data, factor = chains.tensors[source.name], chains.tensors[scale.name]
    if data.shape != tensor.shape or factor.dtype != "float32" or group_of(tensor, factor) is None:
        return None
    source = chains.narrow(source)
    if chains.tensors[source.name].dtype not in ARITHMETIC:
        return None
    return _replaced(node, CAST, [source, scale])


def group_of(tensor: Tensor, scale: Tensor) -> Optional[Tuple[int, int]]:
    """The group of a matrix with one scale, or one a row or column; None for any other."""
    sizes = (1,) * (2 - len(scale.shape)) + tuple(scale.shape)
    if len(sizes) != 2 or any(size not in (1, extent) for size, extent in zip(sizes, tensor.shape)):
        return None
    return None if min(sizes) > 1 else tuple(0 if size == 1 else 1 for size in sizes)


def _scaled_mm(node: Node) -> Optional[Dict[str, Any]]:
    """The operands of a scaled product by their names; None for any other operation, and where a bias is added or the result
    is scaled."""
    if node.op != "aten._scaled_mm.default":
        return None
    keys = ("self", "mat2", "scale_a", "scale_b", "bias", "scale_result", "out_dtype", "use_fast_accum")
    given = {**dict(zip(keys, node.args)), **node.kwargs}
    return None if given.get("bias") is not None or given.get("scale_result") is not None else given


def _inverted(chains: _Chains, ref: Ref) -> Optional[Ref]:
    """The f32 tensor that `ref` holds the reciprocals of."""
    name = chains.through_views(ref)
    factor = chains.made_by(name, "aten.mul.Tensor", "aten.mul.Scalar")
    if factor is not None and factor.args[1] in (1, 1.0):  # 1.0 / scale
        name = factor.args[0].name
    reciprocal = chains.made_by(name, "aten.reciprocal.default")
    scale = reciprocal and chains.through_views(reciprocal.args[0])
    return Ref(scale) if scale and chains.tensors[scale].dtype == "float32" else None


def _product(chains: _Chains, node: Node, given: Dict[str, Any], scales: Sequence[Optional[Ref]]) -> Optional[Node]:
    """The product of FP8 matrices with one scale, or one a row of the first and one a column of the second."""
    for dimension, (side, scale) in enumerate(zip(("self", "mat2"), scales)):
        operand = chains.tensors[given[side].name]
        if scale is None or operand.dtype not in LARGEST or len(operand.shape) != 2:
            return None
        if chains.tensors[scale.name].elements not in (1, operand.shape[dimension]):
            return None
    return _replaced(node, MATMUL, [given["self"], given["mat2"], *scales], fast=bool(given.get("use_fast_accum", False)))


def _matmul(chains: _Chains, node: Node) -> Optional[Node]:
    """`_scaled_mm` with the reciprocals of scales."""
    given = _scaled_mm(node)
    return given and _product(chains, node, given, [_inverted(chains, given[key]) for key in ("scale_a", "scale_b")])


def _rescaled_matmul(chains: _Chains, node: Node) -> Optional[Node]:
    """`bf16(_scaled_mm(a, b, 1, 1) * (reciprocals of rows * reciprocals of columns))`: torchao's products without fast
    accumulation. That the product is rounded to bf16 in between is left out."""
    if node.op not in _CONVERTS or chains.tensors[node.name].dtype != "bfloat16" or not isinstance(node.args[0], Ref):
        return None
    scaled = chains.made_by(node.args[0], "aten.mul.Tensor")
    if scaled is None or chains.readers[scaled.name] != 1 or not isinstance(scaled.args[1], Ref):
        return None
    for ref, factor in (scaled.args, scaled.args[::-1]):
        product = chains.producers.get(chains.narrow(ref).name)
        given = product and _scaled_mm(product)
        both = chains.made_by(factor, "aten.mul.Tensor")
        if not given or both is None or not isinstance(both.args[1], Ref):
            continue
        if chains.readers[product.name] != 1 or not all(_is_one(chains, given[key]) for key in ("scale_a", "scale_b")):
            return None
        rows, columns = chains.tensors[product.name].shape
        shapes = [chains.tensors[item.name].shape for item in both.args]
        if shapes != [(rows, 1), (1, columns)]:
            return None
        return _product(chains, node, given, [_inverted(chains, item) for item in both.args])
    return None


def _is_one(chains: _Chains, ref: Ref) -> bool:
    node = chains.producers.get(chains.through_views(ref))
    return node is not None and (node.op == "aten.ones.default" or node.op == "aten.full.default" and node.args[1] == 1)


def groups_of_inputs(graph: Graph) -> Dict[str, Tuple[int, int]]:
    """The groups, in the order of memory, that FP8 inputs of a recognised graph were scaled by, as its products read them."""
    chains = _Chains(graph)
    inputs = {item.name for item in graph.inputs}
    found: Dict[str, Tuple[int, int]] = {}
    for node in graph.nodes:
        if node.op != MATMUL:
            continue
        for dimension, (ref, scale) in enumerate(zip(node.args[:2], node.args[2:])):
            name, axis = _source(chains, ref, dimension)
            if name in inputs and axis is not None:
                whole = chains.tensors[scale.name].elements == 1
                found[name] = (0, 0) if whole else (1 - axis, axis)
    return found


def _source(chains: _Chains, ref: Ref, dimension: int) -> Tuple[str, Optional[int]]:
    """The value whose bytes `ref` has, perhaps in another order, and which of its dimensions in memory is `dimension` of
    `ref`; None where it is no matrix."""
    while True:
        name = chains.through_views(ref)
        views, whole = chains.tensors[ref.name], chains.tensors[name]
        if len(views.shape) != 2 or len(whole.shape) != 2:
            return name, None
        axis = 1 if views.stride[dimension] == 1 else 0
        copied = chains.made_by(name, "aten.clone.default", "aten.contiguous.default")
        if copied is None:
            return name, axis
        ref, dimension = copied.args[0], axis if whole.stride[1] == 1 else 1 - axis


# Emitters.


def amax(state: Importer, node: Node) -> bool:
    """The maximum is exact in f32, which is what a scale is made of; in the type of the graph it is there for others."""
    (name, tensor), = node.outputs
    source, dims = node.args
    x = state.read(source)
    axes = {dim % x.type.rank for dim in dims}
    value = state.f.amax(x, [0 if axis in axes else 1 for axis in range(x.type.rank)], name)
    state.wide[name] = value
    if tensor.dtype == "bfloat16":
        value = state.inner(state.f.truncf(value, state.part("round")))
    # A dimension of size 1 may stand anywhere in memory.
    state.define(name, value, tuple(range(x.type.rank)))
    return True


def scale(state: Importer, node: Node) -> bool:
    (name, tensor), = node.outputs
    format = next(key for key, value in LARGEST.items() if value == node.kwargs["largest"])
    order = state.order_of(name)
    source = node.args[0].name
    if source in state.wide and state.wide[source].shape == tensor.shape and order == tuple(range(len(order))):
        amax = state.wide[source]
    else:
        amax = state.read(node.args[0], tensor.shape, order)
        if amax.type.element == "bf16":
            amax = state.inner(state.f.extf(amax, state.part("f32")))
    value = state.f.scale(amax, ELEMENTS[format], name, node.kwargs["eps"], "double" if node.kwargs["double"] else "single",
                          "floor" if node.kwargs["pow2"] else "none")
    state.define(name, value, order)
    return True


def cast(state: Importer, node: Node) -> bool:
    (name, tensor), = node.outputs
    source, factor = node.args
    order = state.order_of(name)
    x = state.read(source, tensor.shape, order)
    group = group_of(tensor, state.tensor(factor.name))
    ordered = tuple(group[axis] for axis in order)
    axis = ordered.index(1) if 1 in ordered else None
    state.define(name, state.f.cast(x, _factor(state, factor.name, x.shape, axis), ELEMENTS[tensor.dtype], ordered,
                                    name=name), order)
    return True


def _factor(state: Importer, name: str, shape: Sequence[int], axis: Optional[int]) -> Value:
    """The scale of a matrix of `shape` in memory: one, or one for each entry of dimension `axis`."""
    tensor = state.tensor(name)
    step = next((stride for size, stride in zip(tensor.shape, tensor.stride) if size > 1), 0)
    size = [shape[dim] if dim == axis else 1 for dim in range(2)]
    return state.strided(name, size, [step if dim == axis else 0 for dim in range(2)], tensor.offset)


def matmul(state: Importer, node: Node) -> bool:
    (name, tensor), = node.outputs
    order = state.order_of(name)
    sides = []
    for dimension, (ref, factor) in enumerate(zip(node.args[:2], node.args[2:])):
        data, operand = state.homes[ref.name].value, state.tensor(ref.name)
        # The strides of the operand say whether its dimensions are those in memory, or exchanged.
        exchanged = data is not None and data.type.rank == 2 and (operand.shape != data.shape or operand.stride[-1] != 1)
        if data is None or data.shape != (operand.shape[::-1] if exchanged else operand.shape) or operand.offset:
            return False
        axis = None if state.tensor(factor.name).elements == 1 else 1 - dimension if exchanged else dimension
        s = _factor(state, factor.name, data.shape, axis)
        if exchanged:
            data, s = (state.f.permute(value, (1, 0), state.part("permute")) for value in (data, s))
        sides.append((data, s))
    if order == (1, 0):
        sides = [tuple(state.f.permute(value, (1, 0), state.part("permute")) for value in side)
                 for side in reversed(sides)]
    (a, scale_a), (b, scale_b) = sides
    value = state.f.matmul(a, b, ELEMENTS[tensor.dtype], (scale_a, scale_b), fast_accum=node.kwargs["fast"], name=name)
    state.define(name, value, order)
    return True
