# ===- modules.py - twins of the layers people use ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Layers under the names and options of TransformerEngine's modules, written with the builder. Each appends its parameters
# to a function when it is made, and its ops when it is called.
#
# ===-----------------------------------------------------------=== #
"""Layers: `Linear`, `LayerNormLinear`, `GroupedLinear`, and the functions they are made of.

    layer = LayerNormLinear(f, "layers.0.qkv", 4096, 6144, Rowwise(), normalization="RMSNorm")
    y = layer(x)                     # x [tokens, 4096] -> y [tokens, 6144], values named layers.0.qkv.*
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Mapping, Optional, Sequence, Tuple, Union

from .builder import DEFAULT_HISTORY, Function
from .recipes import Recipe, parse_recipe
from .tensor_types import tensor
from .values import Value

__all__ = ["GroupedLinear", "LayerNormLinear", "Linear", "concatenate", "dropout", "layer_norm", "rms_norm", "silu"]


def silu(x: Value, name: str = "silu") -> Value:
    """x * sigmoid(x) in f32, rounded to the type of `x`."""
    f = x.function
    wide = f.extf(x, name=f"{name}_in") if x.type.element == "bf16" else x
    one = f.constant(1.0, wide.type, name=f"{name}_one")
    exponential = f.elementwise("math.exp", f.elementwise("arith.negf", wide, name=f"{name}_neg"), name=f"{name}_exp")
    denominator = f.elementwise("arith.addf", exponential, one, name=f"{name}_den")
    sigmoid = f.elementwise("arith.divf", one, denominator, name=f"{name}_sigmoid")
    if wide is x:
        return f.elementwise("arith.mulf", wide, sigmoid, name=name)
    return f.truncf(f.elementwise("arith.mulf", wide, sigmoid, name=f"{name}_f32"), name=name)


def rms_norm(x: Value, weight: Value, eps: float, name: str = "norm") -> Value:
    """x / sqrt(mean(x^2) + eps) * weight over the rows of x [tokens, dim] in f32, rounded to bf16; weight is [1, dim]."""
    f = x.function
    wide = f.extf(x, name=f"{name}_f32")
    square = f.elementwise("arith.mulf", wide, wide, name=f"{name}_square")
    return _scaled_rows(wide, square, weight, None, eps, name)


def layer_norm(x: Value, weight: Value, bias: Optional[Value], eps: float, name: str = "norm") -> Value:
    """(x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias over the rows of x in f32, rounded to bf16."""
    f = x.function
    wide = f.extf(x, name=f"{name}_f32")
    total = f.reduce("sum", wide, [1], name=f"{name}_total")
    count = f.constant(float(x.shape[1]), total.type, name=f"{name}_count")
    mean = f.elementwise("arith.divf", total, count, name=f"{name}_center")
    centered = f.elementwise("arith.subf", wide, f.broadcast(mean, x.shape, name=f"{name}_centers"),
                             name=f"{name}_centered")
    square = f.elementwise("arith.mulf", centered, centered, name=f"{name}_square")
    return _scaled_rows(centered, square, weight, bias, eps, name)


def _scaled_rows(wide: Value, square: Value, weight: Value, bias: Optional[Value], eps: float, name: str) -> Value:
    """`wide` by the reciprocal root of the rows' mean of `square`, by `weight`, plus `bias`."""
    f, shape = wide.function, wide.shape
    total = f.reduce("sum", square, [1], name=f"{name}_sum")
    row = total.type
    mean = f.elementwise("arith.divf", total, f.constant(float(shape[1]), row, name=f"{name}_dim"), name=f"{name}_mean")
    biased = f.elementwise("arith.addf", mean, f.constant(eps, row, name=f"{name}_eps"), name=f"{name}_var")
    factor = f.broadcast(f.elementwise("math.rsqrt", biased, name=f"{name}_rsqrt"), shape, name=f"{name}_factor")
    scaled = f.elementwise("arith.mulf", wide, factor, name=f"{name}_scaled")
    gain = f.broadcast(f.extf(weight, name=f"{name}_gain_f32"), shape, name=f"{name}_gain")
    result = f.elementwise("arith.mulf", scaled, gain, name=f"{name}_wide")
    if bias is not None:
        shift = f.broadcast(f.extf(bias, name=f"{name}_bias_f32"), shape, name=f"{name}_bias")
        result = f.elementwise("arith.addf", result, shift, name=f"{name}_biased")
    return f.truncf(result, name=name)


def dropout(x: Value, p: float, seed: Value, offset: Value, stream: int = 0,
            coordinates: Optional[Mapping[int, Tuple[str, Value]]] = None, name: str = "dropout") -> Value:
    """Zero with the probability `p`, else x / (1 - p), rounded to the type of `x`; `Ops.random` says what the others are.
    Whatever is kept for backward, or drawn again there, the mask is the same."""
    f = x.function
    drawn = f.random(seed, offset, x.shape, stream, coordinates, name=f"{name}.uniform")
    mask = f.compare("oge", drawn, f.constant(p, drawn.type, name=f"{name}.p"), name=f"{name}.mask")
    wide = f.extf(x, name=f"{name}.in") if x.type.element == "bf16" else x
    scaled = f.elementwise("arith.mulf", wide, f.constant(1.0 / (1.0 - p), wide.type, name=f"{name}.factor"),
                           name=f"{name}.scaled")
    kept = f.select(mask, scaled, f.constant(0.0, wide.type, name=f"{name}.zero"), name=name if wide is x else f"{name}.out")
    return kept if wide is x else f.truncf(kept, name=name)


def concatenate(parts: Sequence[Value], dim: int = 0, name: str = "concatenated") -> Value:
    """The parts along `dim`: each padded with zeros to the whole, and added, which changes no bit but that of -0."""
    if not parts:
        raise ValueError("expected at least one part to concatenate")
    f, total = parts[0].function, sum(part.shape[dim] for part in parts)
    shape = [total if axis == dim else extent for axis, extent in enumerate(parts[0].shape)]
    result, start = None, 0
    for index, part in enumerate(parts):
        offsets = [start if axis == dim else 0 for axis in range(len(shape))]
        start += part.shape[dim]
        whole = part if part.shape[dim] == total else f.pad(part, offsets, shape, name=f"{name}_part{index}")
        result = whole if result is None else f.elementwise("arith.addf", result, whole, name=name)
    assert result is not None
    return result


@dataclass
class _Weight:
    """A weight [out, in] and, with delayed scaling, its state."""

    value: Value
    state: List[Value]


class _Layer:
    """What the layers share: a function, a name, a recipe."""

    def __init__(self, function: Function, name: str, recipe: Union[Recipe, str]):
        self.function, self.name = function, name
        self.recipe = parse_recipe(recipe, DEFAULT_HISTORY)

    def _weight(self, name: str, out_features: int, in_features: int) -> _Weight:
        f, full = self.function, f"{self.name}.{name}"
        value = f.parameter(full, tensor("bf16", out_features, in_features))
        return _Weight(value, f.delayed_state(full, self.recipe.history) if self.recipe.history else [])

    def _vector(self, name: str, size: int) -> Value:
        return self.function.parameter(f"{self.name}.{name}", tensor("bf16", 1, size))


def _check_mode(parallel_mode: Optional[str]) -> None:
    if parallel_mode not in (None, "column", "row"):
        raise ValueError(f"expected 'parallel_mode' to be \"column\", \"row\" or None, but got '{parallel_mode}'")


def _of_one_rank(in_features: int, out_features: int, parallel_mode: Optional[str], tp_size: int) -> Tuple[int, int]:
    """The features in and out of one of `tp_size` ranks."""
    shared = in_features if parallel_mode == "row" else out_features
    if tp_size < 1 or shared % tp_size:
        raise ValueError(f"expected 'tp_size' to divide {shared}, but got {tp_size}")
    return (in_features // tp_size, out_features) if parallel_mode == "row" else (in_features, out_features // tp_size)


class Linear(_Layer):
    """y = x * weight^T (+ bias), x [tokens, in_features].

    `parallel_mode="column"` holds the out_features of one of `tp_size` ranks along the grid axis `tp_axis`, "row" its
    in_features; with `sequence_parallel`, which more than one rank needs, the tokens outside are those of one rank: a
    column-parallel linear gathers its input, a row-parallel one adds the ranks' results up and scatters the sum.
    `save_original_input` keeps the input as it is for backward, so that whatever else needs it shares the copy, and casts
    it again there."""

    def __init__(self, function: Function, name: str, in_features: int, out_features: int, recipe: Union[Recipe, str], *,
                 bias: bool = False, parallel_mode: Optional[str] = None, sequence_parallel: bool = False,
                 tp_axis: str = "tp", tp_size: int = 1, save_original_input: bool = False):
        super().__init__(function, name, recipe)
        _check_mode(parallel_mode)
        if sequence_parallel and parallel_mode is None:
            raise ValueError("expected 'parallel_mode' with 'sequence_parallel'")
        if tp_size > 1 and not sequence_parallel:
            raise ValueError(f"expected 'sequence_parallel' with {tp_size} ranks: without it each gradient would be of one "
                             "rank only")
        in_features, out_features = _of_one_rank(in_features, out_features, parallel_mode, tp_size)
        self.parallel_mode = parallel_mode
        self.sequence_parallel, self.tp_axis, self.tp_size = sequence_parallel, tp_axis, tp_size
        self.save_original_input = save_original_input
        self.weight = self._weight("weight", out_features, in_features)
        self.bias = self._vector("bias", out_features) if bias else None

    def __call__(self, x: Value) -> Value:
        f = self.function
        if self.save_original_input and x.op is not None:
            f.mark(x, policy="save")
        if self.parallel_mode == "column" and self.tp_size > 1:
            x = f.all_gather(x, self.tp_axis, self.tp_size, name=f"{self.name}.gathered")
        scatters = self.parallel_mode == "row" and self.tp_size > 1
        product = self.name if self.bias is None else f"{self.name}.product"
        y = f.linear(x, self.weight.value, self.recipe, self.weight.state,
                     name=f"{self.name}.partial" if scatters else product)
        if scatters:
            y = f.reduce_scatter(y, self.tp_axis, self.tp_size, name=product)
        if self.bias is None:
            return y
        return f.elementwise("arith.addf", y, f.broadcast(self.bias, y.shape, name=f"{self.name}.biases"),
                             name=self.name)


class LayerNormLinear(_Layer):
    """A norm of the rows, then a `Linear` with the remaining options. `normalization` is "LayerNorm" or "RMSNorm"."""

    def __init__(self, function: Function, name: str, in_features: int, out_features: int, recipe: Union[Recipe, str], *,
                 normalization: str = "LayerNorm", eps: float = 1e-5, **options: object):
        super().__init__(function, name, recipe)
        if normalization not in ("LayerNorm", "RMSNorm"):
            raise ValueError(f"expected 'normalization' to be LayerNorm or RMSNorm, but got '{normalization}'")
        self.eps = eps
        self.norm_weight = self._vector("layer_norm_weight", in_features)
        self.norm_bias = self._vector("layer_norm_bias", in_features) if normalization == "LayerNorm" else None
        self.linear = Linear(function, name, in_features, out_features, recipe, **options)  # type: ignore[arg-type]

    def __call__(self, x: Value) -> Value:
        name = f"{self.name}.ln_out"
        if self.norm_bias is None:
            return self.linear(rms_norm(x, self.norm_weight, self.eps, name))
        return self.linear(layer_norm(x, self.norm_weight, self.norm_bias, self.eps, name))


class GroupedLinear(_Layer):
    """Several linears of one size, each on its own rows: x [rows, in_features].

    With a list of integers as `m_splits`, which add up to the rows, each linear is one op on its part. With `single_weight`
    the weights are one parameter [num_gemms, out_features, in_features] and `m_splits` is an i32 value [num_gemms + 1] that
    only a run knows: where the rows of each linear begin, in multiples of the recipe's alignment, and where those of the
    last one end. `x` has room for as many rows as there may be, and what lies behind the last is 0 in the result; `balanced`
    says how many there are where routing is balanced.

    `parallel_mode` and `tp_size` divide the weights as in `Linear`, and nothing is sent here, as in TransformerEngine: whoever
    dispatches the tokens gathers them before a column-parallel one and scatters the sum of a row-parallel one (`all_gather`,
    `reduce_scatter`), so that there is no `sequence_parallel`. `save_original_input` is that of `Linear`."""

    def __init__(self, function: Function, name: str, num_gemms: int, in_features: int, out_features: int,
                 recipe: Union[Recipe, str], *, single_weight: bool = False, balanced: Optional[int] = None,
                 parallel_mode: Optional[str] = None, tp_size: int = 1, save_original_input: bool = False):
        super().__init__(function, name, recipe)
        _check_mode(parallel_mode)
        if tp_size > 1 and parallel_mode is None:
            raise ValueError(f"expected 'parallel_mode' with {tp_size} ranks")
        in_features, out_features = _of_one_rank(in_features, out_features, parallel_mode, tp_size)
        self.save_original_input = save_original_input
        if single_weight and self.recipe.history:
            raise ValueError("expected a recipe without delayed scaling with 'single_weight', but got delayed")
        if balanced is not None and not single_weight:
            raise ValueError("expected 'single_weight' with 'balanced'")
        self.balanced = balanced
        self.weight: Optional[Value] = None
        self.weights: List[_Weight] = []
        if single_weight:
            self.weight = function.parameter(f"{name}.weight", tensor("bf16", num_gemms, out_features, in_features))
        else:
            self.weights = [self._weight(f"weight{index}", out_features, in_features) for index in range(num_gemms)]

    def __call__(self, x: Value, m_splits: Union[Sequence[int], Value]) -> Value:
        f, alignment = self.function, self.recipe.alignment
        if (self.weight is not None) != isinstance(m_splits, Value):
            raise ValueError("expected a value as 'm_splits' with 'single_weight', and integers without")
        if self.save_original_input and x.op is not None:
            f.mark(x, policy="save")
        if isinstance(m_splits, Value):
            assert self.weight is not None
            return f.grouped_linear(x, self.weight, m_splits, self.recipe, self.balanced, name=self.name)
        if len(m_splits) != len(self.weights) or sum(m_splits) != x.shape[0]:
            raise ValueError(f"expected {len(self.weights)} splits of {x.shape[0]} rows, but got {list(m_splits)}")
        if any(rows % alignment for rows in m_splits):
            raise ValueError(f"expected splits that are multiples of {alignment} with the {self.recipe.kind} recipe, "
                             f"but got {list(m_splits)}")
        parts, start = [], 0
        for index, (rows, weight) in enumerate(zip(m_splits, self.weights)):
            if rows == 0:
                continue
            part = f.slice(x, [start, 0], [rows, x.shape[1]], name=f"{self.name}.in{index}")
            parts.append(f.linear(part, weight.value, self.recipe, weight.state, name=f"{self.name}.out{index}"))
            start += rows
        return concatenate(parts, 0, name=self.name)
