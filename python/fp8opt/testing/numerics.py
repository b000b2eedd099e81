# ===- numerics.py - casts, scales and matmuls by the book ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What an FP8 linear computes, in NumPy: scales from maxima, casts by clamping and ml_dtypes, matmuls accumulated in
# f64. A compiled step differs from this only in the order of its f32 sums.
#
# ===-----------------------------------------------------------------------=== #
"""FP8 linears in NumPy, recipe by recipe.

Every array here is f32; a value of type bf16 is an f32 array whose elements bf16 can represent.
"""

from dataclasses import dataclass
from typing import Callable, Optional, Tuple

import ml_dtypes
import numpy as np

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
LARGEST = {E4M3: np.float32(448), E5M2: np.float32(57344)}
BLOCK = 128


def bf16(x) -> np.ndarray:
    """Rounded to f32 and then to bf16, each to nearest even."""
    return np.asarray(x, dtype=np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)


def rounded(x, element: str) -> np.ndarray:
    return bf16(x) if element == "bf16" else np.asarray(x, dtype=np.float32)


def cast(x: np.ndarray, scale: np.ndarray, format) -> np.ndarray:
    """`x * scale`, clamped, rounded to `format` and read back. `scale` broadcasts against `x`."""
    limit = LARGEST[format]
    return np.clip(x * scale, -limit, limit).astype(format).astype(np.float32)


def scale_torchao(amax: np.ndarray, format) -> np.ndarray:
    """torchao: the maximum clamped to 1e-12, the division in f64."""
    return (np.float64(LARGEST[format]) / np.maximum(amax.astype(np.float64), 1e-12)).astype(np.float32)


def scale_te(amax: np.ndarray, format) -> np.ndarray:
    """TransformerEngine: the division in f32, 1 where the maximum is 0, FLT_MAX where it overflows."""
    with np.errstate(divide="ignore", over="ignore"):
        scale = LARGEST[format] / amax
    scale = np.where(np.isinf(scale), np.finfo(np.float32).max, scale)
    return np.where(amax == 0, np.float32(1), scale).astype(np.float32)


def scale_te_pow2(amax: np.ndarray, format) -> np.ndarray:
    """TransformerEngine's block scales: the mantissa cleared."""
    mantissa, exponent = np.frexp(scale_te(amax, format))
    return np.where(mantissa == 0, np.float32(0), np.ldexp(np.float32(0.5), exponent)).astype(np.float32)


def group_max(x: np.ndarray, group: Tuple[int, int]) -> np.ndarray:
    """The largest |x| of each group (0 is the whole dimension), repeated to the shape of `x`."""
    result = np.abs(x)
    for axis, (size, dim) in enumerate(zip(group, x.shape)):
        size = size or dim
        if size > 1:
            maxima = np.maximum.reduceat(result, np.arange(0, dim, size), axis)
            result = np.repeat(maxima, size, axis).take(np.arange(dim), axis)
    return result


@dataclass(frozen=True)
class Quantised:
    """FP8 values read back as f32, and the multiplier of each element."""

    values: np.ndarray
    scale: np.ndarray

    @property
    def T(self) -> "Quantised":
        return Quantised(self.values.T, self.scale.T)


@dataclass(frozen=True)
class Recipe:
    """Groups are of [rows, columns] of the tensor as it is stored: x [N, K], w [M, K], dy [N, M]."""

    rule: Callable
    x_format: type
    w_format: type
    dy_format: type
    fprop: Tuple[Tuple[int, int], Tuple[int, int]]  # of x, of w
    dgrad: Tuple[Tuple[int, int], Tuple[int, int]]  # of dy, of w
    wgrad: Tuple[Tuple[int, int], Tuple[int, int]]  # of dy, of x


TENSOR, ROW, COLUMN = (0, 0), (1, 0), (0, 1)
RECIPES = {
    "tensorwise": Recipe(scale_te, E4M3, E4M3, E5M2, (TENSOR, TENSOR), (TENSOR, TENSOR), (TENSOR, TENSOR)),
    "delayed": Recipe(scale_te, E4M3, E4M3, E5M2, (TENSOR, TENSOR), (TENSOR, TENSOR), (TENSOR, TENSOR)),
    "rowwise": Recipe(scale_torchao, E4M3, E4M3, E4M3, (ROW, ROW), (ROW, COLUMN), (COLUMN, COLUMN)),
    "block128": Recipe(scale_te_pow2, E4M3, E4M3, E4M3, ((1, BLOCK), (BLOCK, BLOCK)), ((1, BLOCK), (BLOCK, BLOCK)),
                       ((BLOCK, 1), (BLOCK, 1))),
}


def quantise(x: np.ndarray, group, format, rule: Callable, scale: Optional[np.float32] = None) -> Quantised:
    """`x` in FP8; with a `scale` (delayed scaling) by that one, else by its own maxima."""
    scales = np.full_like(x, scale) if scale is not None else rule(group_max(x, group), format)
    return Quantised(cast(x, scales, format), scales)


def perturb(x: np.ndarray, random: Optional[np.random.Generator]) -> np.ndarray:
    """`x` with each element moved up or down by 2^-21 of itself, about what the order of an f32 sum is worth; unmoved
    without a generator. An oracle run with it shows how far an equally right implementation may be."""
    return x if random is None else x * (1 + random.choice([-1, 1], x.shape) * 2.0 ** -21)


def scaled_matmul(a: Quantised, b: Quantised, element: str,
                  random: Optional[np.random.Generator] = None) -> np.ndarray:
    """`a` [M, K] times `b` [K, N]; exact products, sums in f64, one rounding to f32 and one to the result type. The
    factor of an operand is rn(1 / s)."""
    left = a.values.astype(np.float64) * (np.float32(1) / a.scale)
    right = b.values.astype(np.float64) * (np.float32(1) / b.scale)
    return rounded(perturb(left @ right, random), element)


@dataclass
class DelayedState:
    """Scales of one linear and the maxima seen since they were set, for x, w and dy."""

    history: dict
    scale: dict

    @staticmethod
    def fresh(length: int) -> "DelayedState":
        roles = ("x", "w", "dy")
        return DelayedState({role: np.zeros(length, np.float32) for role in roles},
                            {role: np.float32(1) for role in roles})

    def push(self, role: str, x: np.ndarray) -> None:
        self.history[role][0] = max(self.history[role][0], np.abs(x).max())

    def end_of_step(self, recipe: Recipe) -> None:
        formats = {"x": recipe.x_format, "w": recipe.w_format, "dy": recipe.dy_format}
        for role, format in formats.items():
            amax = self.history[role].max()
            if amax > 0:
                self.scale[role] = scale_te(np.asarray(amax), format)[()]
            self.history[role] = np.concatenate(([np.float32(0)], self.history[role][:-1]))


class Linear:
    """One linear and its gradients. With a `state` it casts by the state's scales and pushes maxima."""

    def __init__(self, recipe: str, x: np.ndarray, w: np.ndarray, element: str = "bf16",
                 state: Optional[DelayedState] = None, random: Optional[np.random.Generator] = None):
        self.recipe, self.x, self.w, self.element, self.state = RECIPES[recipe], x, w, element, state
        self.random = random
        if state:
            state.push("x", x)
            state.push("w", w)

    def _quantise(self, role: str, x: np.ndarray, group) -> Quantised:
        format = getattr(self.recipe, f"{role}_format")
        return quantise(x, group, format, self.recipe.rule, self.state.scale[role] if self.state else None)

    def forward(self) -> np.ndarray:
        x_group, w_group = self.recipe.fprop
        return scaled_matmul(self._quantise("x", self.x, x_group), self._quantise("w", self.w, w_group).T,
                             self.element, self.random)

    def backward(self, dy: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """The gradients of x and of w."""
        if self.state:
            self.state.push("dy", dy)
        dy_group, w_group = self.recipe.dgrad
        dx = scaled_matmul(self._quantise("dy", dy, dy_group), self._quantise("w", self.w, w_group), self.element,
                           self.random)
        dy_group, x_group = self.recipe.wgrad
        dw = scaled_matmul(self._quantise("dy", dy, dy_group).T, self._quantise("x", self.x, x_group), self.element,
                           self.random)
        return dx, dw


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """|actual - expected| / |expected| in the 2-norm; 0 where both are 0; infinite where one is not finite."""
    if not (np.isfinite(actual).all() and np.isfinite(expected).all()):
        return float("inf")
    difference = np.linalg.norm(actual.astype(np.float64).ravel() - expected.astype(np.float64).ravel())
    size = np.linalg.norm(expected.astype(np.float64).ravel())
    return 0.0 if difference == 0 else float(difference / size) if size else float("inf")
