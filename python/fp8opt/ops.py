# ===- ops.py - the ops of programs as methods ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# One method an op of the dialect that a program may hold before it is planned, with the result's type inferred. What
# has no method here is appended by name, with `Function.op`.
#
# ===------------------------------------------------------=== #
"""The ops of fp8-opt programs, mixed into `fp8opt.Function`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from .recipes import Recipe
from .syntax import Attribute, dictionary, float_literal, quoted
from .tensor_types import TensorType, grouped_shape
from .values import Value

__all__ = ["Ops"]

_FLOATS = ("bf16", "f32", "f16", "f64")


class Ops(ABC):
    """Methods that append ops, in the order of the dialect's reference. `name` is the name of the result."""

    @abstractmethod
    def _append(self, name: str, types: Sequence[TensorType], head: str, tail: str,
                attributes: Optional[Mapping[str, Any]] = None) -> List[Value]: ...

    @abstractmethod
    def _use(self, value: Value) -> Value: ...

    @abstractmethod
    def _linear_recipe(self, recipe: Union[Recipe, str], state: Sequence[Value]) -> Recipe: ...

    def _one(self, name: str, type: TensorType, head: str, tail: str,
             attributes: Optional[Mapping[str, Any]] = None) -> Value:
        return self._append(name, [type], head, tail, attributes)[0]

    # Of the fp8 dialect.

    def all_gather(self, x: Value, axis: str, size: int, dim: int = 0, name: str = "all_gather") -> Value:
        """The shards of the `size` ranks along grid axis `axis`, concatenated along `dim`."""
        x = self._use(x)
        _check_axes(x, [dim])
        shape = [extent * size if index == dim else extent for index, extent in enumerate(x.shape)]
        type = x.type.with_shape(shape)
        return self._one(name, type, f"fp8.all_gather {x} axis = {quoted(axis)} dim = {dim}", f": {x.type} -> {type}")

    def reduce_scatter(self, x: Value, axis: str, size: int, dim: int = 0, kind: str = "sum",
                       name: str = "reduce_scatter") -> Value:
        """The sum (or `max`) over the `size` ranks along grid axis `axis`, of which each keeps its part along `dim`."""
        x = self._use(x)
        _check_axes(x, [dim])
        if x.shape[dim] % size:
            raise ValueError(f"expected dimension {dim} to be a multiple of {size}, but got {x.shape[dim]}")
        type = x.type.with_shape([extent // size if index == dim else extent for index, extent in enumerate(x.shape)])
        return self._one(name, type, f"fp8.reduce_scatter {kind} {x} axis = {quoted(axis)} dim = {dim}",
                         f": {x.type} -> {type}")

    def all_reduce(self, x: Value, axis: str, kind: str = "sum", name: str = "all_reduce") -> Value:
        """The sum (or `max`) over the ranks along grid axis `axis`, for all of them."""
        x = self._use(x)
        return self._one(name, x.type, f"fp8.all_reduce {kind} {x} axis = {quoted(axis)}", f": {x.type} -> {x.type}")

    def all_to_all(self, x: Value, axis: str, size: int, split: int = 0, concat: int = 0, name: str = "all_to_all") -> Value:
        """Piece j of `size`, cut along `split`, goes to rank j of grid axis `axis`; what comes lies along `concat`."""
        x = self._use(x)
        _check_axes(x, [split, concat])
        if x.shape[split] % size:
            raise ValueError(f"expected dimension {split} to be a multiple of {size}, but got {x.shape[split]}")
        shape = list(x.shape)
        shape[split] //= size
        shape[concat] *= size
        type = x.type.with_shape(shape)
        return self._one(name, type, f"fp8.all_to_all {x} axis = {quoted(axis)} split = {split} concat = {concat}",
                         f": {x.type} -> {type}")

    def amax(self, x: Value, group: Sequence[int], name: str = "amax") -> Value:
        """The largest |x| of each group, f32; a group entry of 0 is the whole dimension."""
        x = self._use(x)
        type = TensorType("f32", grouped_shape(x.shape, group))
        return self._one(name, type, f"fp8.amax {x} group = {_list(group)}", f": {x.type} -> {type}")

    def scale(self, amax: Value, format: str, name: str = "scale", eps: float = 0.0, division: str = "single",
              pow2: str = "none", margin: int = 0, nonfinite: str = "propagate") -> Value:
        """The multiplier of a cast to `format`, from maxima."""
        amax = self._use(amax)
        attributes: Dict[str, Any] = {}
        if division != "single":
            attributes["division"] = Attribute(f"#fp8.division<{division}>")
        if eps:
            attributes["eps"] = float(eps)
        if margin:
            attributes["margin"] = margin
        if nonfinite != "propagate":
            attributes["nonfinite"] = Attribute(f"#fp8.nonfinite<{nonfinite}>")
        if pow2 != "none":
            attributes["pow2"] = Attribute(f"#fp8.pow2<{pow2}>")
        return self._one(name, amax.type, f"fp8.scale {amax} format = {format}", f": {amax.type}", attributes)

    def cast(self, x: Value, scale: Value, format: str, group: Sequence[int], saturate: bool = True, pow2: bool = False,
             name: str = "cast") -> Value:
        """x * scale rounded to the FP8 `format`; `group` says which elements share a scale."""
        x, scale = self._use(x), self._use(scale)
        type = TensorType(format, x.shape, tuple(group), pow2)
        return self._one(name, type, f"fp8.cast {x}, {scale}", f": {x.type}, {scale.type} -> {type}",
                         {} if saturate else {"saturate": False})

    def dequantize(self, q: Value, scale: Value, element: str = "bf16", name: str = "dequantize") -> Value:
        """The value that an FP8 tensor stands for."""
        q, scale = self._use(q), self._use(scale)
        type = q.type.with_element(element)
        return self._one(name, type, f"fp8.dequantize {q}, {scale}", f": {q.type}, {scale.type} -> {type}")

    def linear(self, x: Value, w: Value, recipe: Union[Recipe, str], state: Sequence[Value] = (), name: str = "linear",
               element: Optional[str] = None) -> Value:
        """`x` [N, K] times the transpose of `w` [M, K], by `recipe`. A recipe with delayed scaling needs the six values of
        `Function.delayed_state`."""
        x, w = self._use(x), self._use(w)
        recipe = self._linear_recipe(recipe, state)
        _check_rank(x, 2)
        _check_rank(w, 2)
        state = [self._use(value) for value in state]
        type = TensorType(element or x.type.element, (x.shape[0], w.shape[0]))
        states = f" state({_join(state)} : {', '.join(str(s.type) for s in state)})" if state else ""
        return self._one(name, type, f"fp8.linear {x}, {w}{states} recipe<{recipe}>", f": {x.type}, {w.type} -> {type}")

    def grouped_linear(self, x: Value, w: Value, offsets: Value, recipe: Union[Recipe, str], balanced: Optional[int] = None,
                       name: str = "grouped_linear", element: Optional[str] = None) -> Value:
        """The rows of group g of `x` [capacity, K] times the transpose of `w[g]`, of `w` [G, N, K], by `recipe`. `offsets`,
        i32 [G + 1], holds where groups begin and where the last one ends, in multiples of the recipe's alignment; rows
        behind it are 0. `balanced`: how many rows there are where routing is balanced, for plans."""
        x, w, offsets = self._use(x), self._use(w), self._use(offsets)
        recipe = self._linear_recipe(recipe, ())
        _check_rank(x, 2)
        _check_rank(w, 3)
        type = TensorType(element or x.type.element, (x.shape[0], w.shape[1]))
        rows = "" if balanced is None else f" balanced = {balanced}"
        return self._one(name, type, f"fp8.grouped_linear {x}, {w} offsets({offsets} : {offsets.type}) recipe<{recipe}>{rows}",
                         f": {x.type}, {w.type} -> {type}")

    def grouped_matmul(self, a: Value, b: Value, offsets: Value, align: int = 1, element: Optional[str] = None,
                       scales: Optional[Sequence[Value]] = None, balanced: Optional[int] = None,
                       name: str = "grouped_matmul") -> Value:
        """One product a group of rows, which begin at `offsets` in multiples of `align`: of rows of `a` [capacity, K] with
        `b[g]` of `b` [G, K, N]; or, with `b` [capacity, N], of the columns of `a` [M, capacity] in the group with the rows of
        `b`, [G, M, N]. `scales` as in `matmul`, `balanced` as in `grouped_linear`."""
        a, b, offsets = self._use(a), self._use(b), self._use(offsets)
        _check_rank(a, 2)
        if element is None:
            element = a.type.element if a.type.group is None else "bf16"
        shape = (a.shape[0], b.shape[-1])
        if b.type.rank == 2:
            shape = (offsets.shape[0] - 1, *shape)
        type = TensorType(element, shape)
        head = f"fp8.grouped_matmul {a}, {b} offsets({offsets} : {offsets.type})"
        if scales is not None:
            scale_a, scale_b = (self._use(scale) for scale in scales)
            head += f" scales({scale_a}, {scale_b} : {scale_a.type}, {scale_b.type})"
        head += f" align = {align}"
        if balanced is not None:
            head += f" balanced = {balanced}"
        return self._one(name, type, head, f": {a.type}, {b.type} -> {type}")

    def matmul(self, a: Value, b: Value, element: Optional[str] = None, scales: Optional[Sequence[Value]] = None,
               acc: Optional[Value] = None, fast_accum: bool = False, name: str = "matmul") -> Value:
        """The product of two matrices (bf16, f32, or FP8 with the two `scales` they were cast with), plus `acc`."""
        a, b = self._use(a), self._use(b)
        _check_rank(a, 2)
        _check_rank(b, 2)
        if element is None:
            element = a.type.element if a.type.group is None else "bf16"
        type = TensorType(element, (a.shape[0], b.shape[1]))
        head = f"fp8.matmul {a}, {b}"
        if scales is not None:
            scale_a, scale_b = (self._use(scale) for scale in scales)
            head += f" scales({scale_a}, {scale_b} : {scale_a.type}, {scale_b.type})"
        if acc is not None:
            acc = self._use(acc)
            head += f" acc({acc} : {acc.type})"
        return self._one(name, type, head, f": {a.type}, {b.type} -> {type}", {"fast_accum": True} if fast_accum else {})

    def opaque(self, op: str, operands: Sequence[Value], types: Sequence[TensorType], scratch_bytes: int = 0,
               flops: int = 0, bytes: int = 0, recompute: Optional[str] = None, stateful: bool = False,
               aliases: Sequence[Sequence[int]] = (), adjoint: Optional[Mapping[str, Any]] = None,
               name: Optional[str] = None) -> List[Value]:
        """An operation known by its shapes and cost only. `aliases` holds pairs of a result and the operand whose storage
        it has; `recompute` is "yes" or "never". `adjoint` declares its backward: `name`, `operands`, `results` (indices
        of what of this op it reads) and optionally `scratch_bytes`, `flops` and `bytes`."""
        used = [self._use(value) for value in operands]
        attributes: Dict[str, Any] = {key: value for key, value in (("flops", flops), ("scratch_bytes", scratch_bytes),
                                                                    ("bytes", bytes), ("recompute", recompute)) if value}
        if stateful:
            attributes["stateful"] = None
        if aliases:
            attributes["aliases"] = Attribute(_list([_list(pair) for pair in aliases]))
        if adjoint:
            entries = {key: Attribute(_list(value)) if isinstance(value, (list, tuple)) else value
                       for key, value in adjoint.items()}
            attributes["adjoint"] = Attribute(dictionary(entries))
        inputs = ", ".join(str(value.type) for value in used)
        outputs = ", ".join(map(str, types))
        return self._append(name or op, types, f"fp8.opaque {quoted(op)}({_join(used)})",
                            f": ({inputs}) -> {outputs if len(types) == 1 else f'({outputs})'}", attributes)

    def pad(self, x: Value, offsets: Sequence[int], shape: Sequence[int], name: str = "pad") -> Value:
        """A tensor of zeros of `shape` in which the elements from `offsets` on are those of `x`."""
        x = self._use(x)
        type = x.type.with_shape(shape)
        return self._one(name, type, f"fp8.pad {x} {_list(offsets)}", f": {x.type} -> {type}")

    def permute(self, x: Value, perm: Sequence[int], name: str = "permute") -> Value:
        """Dimensions in another order, as a view: result dimension i is operand dimension `perm[i]`."""
        x = self._use(x)
        type = x.type.permuted(perm)
        return self._one(name, type, f"fp8.permute {x} {_list(perm)}", f": {x.type} -> {type}")

    def transpose(self, x: Value, perm: Sequence[int], name: str = "transpose") -> Value:
        """Dimensions in another order, bytes moved."""
        x = self._use(x)
        type = x.type.permuted(perm)
        return self._one(name, type, f"fp8.transpose {x} {_list(perm)}", f": {x.type} -> {type}")

    def slice(self, x: Value, offsets: Sequence[int], shape: Sequence[int], name: str = "slice") -> Value:
        """The part of `shape` from `offsets` on, as a view."""
        x = self._use(x)
        type = x.type.with_shape(shape)
        return self._one(name, type, f"fp8.slice {x} {_list(offsets)}", f": {x.type} -> {type}")

    def update_slice(self, piece: Value, offsets: Sequence[int], shape: Sequence[int], into: Optional[Value] = None,
                     name: str = "update_slice") -> Value:
        """A tensor of `shape` with `piece` at `offsets`: `into`, which is gone then, with those elements replaced, or, without
        it, the first piece of one that is made in pieces."""
        piece = self._use(piece)
        type = piece.type.with_shape(shape)
        dest = ""
        if into is not None:
            into = self._use(into)
            dest = f" into({into} : {into.type})"
        return self._one(name, type, f"fp8.update_slice {piece} {_list(offsets)}{dest}", f": {piece.type} -> {type}")

    def reshape(self, x: Value, shape: Sequence[int], name: str = "reshape") -> Value:
        """The same elements in row-major order, as a view of an operand that is contiguous."""
        x = self._use(x)
        group = None if x.type.group is None else (0,) * len(shape)
        type = TensorType(x.type.element, tuple(shape), group, x.type.pow2)
        if type.bytes != x.type.bytes:
            raise ValueError(f"expected a shape of as many elements as {list(x.shape)}, but got {list(shape)}")
        return self._one(name, type, f"fp8.reshape {x}", f": {x.type} -> {type}")

    def random(self, seed: Value, offset: Value, shape: Sequence[int], stream: int = 0,
               coordinates: Optional[Mapping[int, "tuple[str, Value]"]] = None, name: str = "random") -> Value:
        """f32 numbers in [0, 1) of `shape`, from i32 tensors of one element. `coordinates` says for each dimension that the
        ranks hold parts of the axis of the grid and where along it this rank is, an argument with `coordinate`."""
        parts = dict(sorted((coordinates or {}).items()))
        seed, offset = self._use(seed), self._use(offset)
        places = [self._use(value) for _, value in parts.values()]
        type = TensorType("f32", tuple(shape))
        head = f"fp8.random {seed}, {offset}"
        if parts:
            axes = [quoted(parts[dim][0] if dim in parts else "") for dim in range(len(shape))]
            head += f" coordinates({_join(places)} : {', '.join(str(value.type) for value in places)}) shard = {_list(axes)}"
        return self._one(name, type, head, f": {seed.type} -> {type}", {"stream": stream} if stream else {})

    def compare(self, predicate: str, a: Value, b: Value, name: str = "compare") -> Value:
        """An i1 tensor: whether `a` is `predicate` (arith.cmpf's: "oge", "olt", ...) `b`."""
        a, b = self._use(a), self._use(b)
        return self._one(name, a.type.with_element("i1"), f"arith.cmpf {predicate}, {a}, {b}", f": {a.type}")

    def select(self, condition: Value, a: Value, b: Value, name: str = "select") -> Value:
        """`a` where the i1 `condition` holds, else `b`."""
        condition, a, b = self._use(condition), self._use(a), self._use(b)
        return self._one(name, a.type, f"arith.select {condition}, {a}, {b}", f": {condition.type}, {a.type}")

    def reduce(self, kind: str, x: Value, axes: Sequence[int], element: Optional[str] = None,
               name: str = "reduce") -> Value:
        """"sum" or "max" over `axes`, which become 1."""
        x = self._use(x)
        _check_axes(x, axes)
        shape = tuple(1 if axis in axes else dim for axis, dim in enumerate(x.shape))
        type = TensorType(element or x.type.element, shape)
        return self._one(name, type, f"fp8.reduce {kind} {x} {_list(axes)}", f": {x.type} -> {type}")

    def broadcast(self, x: Value, shape: Sequence[int], name: str = "broadcast") -> Value:
        """Dimensions of size 1 repeated."""
        x = self._use(x)
        type = x.type.with_shape(shape)
        return self._one(name, type, f"fp8.broadcast {x}", f": {x.type} -> {type}")

    # Of arith and math.

    def constant(self, value: float, type: TensorType, name: str = "constant") -> Value:
        """A tensor whose elements are all `value`, rounded once to the element type."""
        if type.element in _FLOATS:
            text = float_literal(float(value), type.element)
        elif isinstance(value, (bool, int)) or float(value).is_integer():
            text = str(int(value)) if type.element != "i1" else str(bool(value)).lower()
        else:
            raise ValueError(f"expected a whole number for a constant of type {type}, but got {value}")
        return self._one(name, type, f"arith.constant dense<{text}>", f": {type}")

    def extf(self, x: Value, name: str = "extf") -> Value:
        """bf16 as f32."""
        x = self._use(x)
        type = x.type.with_element("f32")
        return self._one(name, type, f"arith.extf {x}", f": {x.type} to {type}")

    def truncf(self, x: Value, name: str = "truncf") -> Value:
        """f32 rounded to bf16."""
        x = self._use(x)
        type = x.type.with_element("bf16")
        return self._one(name, type, f"arith.truncf {x}", f": {x.type} to {type}")

    def elementwise(self, op: str, *operands: Value, name: Optional[str] = None, checkpoint: bool = False) -> Value:
        """An arith or math op whose operands and result share one type, such as `arith.addf` or `math.exp`.
        `checkpoint` marks the result as what `recompute-all` keeps."""
        used = [self._use(operand) for operand in operands]
        type = used[0].type
        if any(operand.type != type for operand in used):
            raise ValueError(f"{op}: expected operands of type {type}, but got "
                             f"{', '.join(str(operand.type) for operand in used)}")
        return self._one(name or op.split(".")[1], type, f"{op} {_join(used)}", f": {type}",
                         {"fp8.checkpoint": None} if checkpoint else {})

    def binary(self, op: str, a: Union[Value, float], b: Union[Value, float], name: Optional[str] = None) -> Value:
        """An elementwise op of two values of one element type; a number becomes a constant, and dimensions of size 1 are
        repeated."""
        model = a if isinstance(a, Value) else b
        if not isinstance(model, Value):
            raise ValueError(f"{op}: expected at least one value, but got two numbers")
        left, right = (side if isinstance(side, Value) else self.constant(side, model.type) for side in (a, b))
        if left.type.rank == right.type.rank:
            shape = tuple(max(pair) for pair in zip(left.shape, right.shape))
            left, right = (side if side.shape == shape else self.broadcast(side, shape)
                           if all(dim in (1, extent) for dim, extent in zip(side.shape, shape)) else side
                           for side in (left, right))
        return self.elementwise(op, left, right, name=name)


def _check_rank(value: Value, rank: int) -> None:
    if value.type.rank != rank:
        raise ValueError(f"expected '{value.name}' to have {rank} dimensions, but got {value.type}")


def _check_axes(value: Value, axes: Sequence[int]) -> None:
    wrong = [axis for axis in axes if not 0 <= axis < value.type.rank]
    if wrong:
        raise ValueError(f"expected axes of '{value.name}' from 0 to {value.type.rank - 1}, but got {wrong[0]}")


def _join(values: Sequence[Value]) -> str:
    return ", ".join(str(value) for value in values)


def _list(numbers: Sequence[Any]) -> str:
    return f"[{', '.join(str(number) for number in numbers)}]"
