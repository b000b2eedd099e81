# ===- recipes.py - scaling recipes of linears ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What a linear's recipe attribute says, as objects. docs/reference/attributes.md (RecipeAttr) has the rules and their
# sources.
#
# ===-------------------------------------------------------=== #
"""Recipes: how a linear and its two gradients are computed in FP8.

    Rowwise()                        # torchao's rowwise recipe
    Tensorwise()                     # current scaling, TransformerEngine's
    Tensorwise(delayed=16)           # scales from the maxima of the last 16 steps
    Block128()                       # 1x128 by 128x128, TransformerEngine's and DeepSeek-V3's
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence, Union

__all__ = ["Block128", "Recipe", "Rowwise", "Tensorwise", "parse_recipe"]

_FORMATS = ("f8E4M3FN", "f8E5M2")
_POW2 = ("none", "floor", "ceil")
_MATMULS = ("fprop", "dgrad", "wgrad")


@dataclass(frozen=True)
class Recipe:
    """What every recipe may change: the formats of x, w and dy, the rounding of scales to powers of two ("none", "floor",
    "ceil") and which of "fprop", "dgrad", "wgrad" accumulate fast. None leaves the recipe's own choice."""

    x: Optional[str] = None
    w: Optional[str] = None
    dy: Optional[str] = None
    pow2: Optional[str] = None
    fast: Optional[Sequence[str]] = None

    def __post_init__(self) -> None:
        for name in ("x", "w", "dy"):
            found = getattr(self, name)
            if found is not None and found not in _FORMATS:
                raise ValueError(f"expected '{name}' to be {' or '.join(_FORMATS)}, but got '{found}'")
        if self.pow2 is not None and self.pow2 not in _POW2:
            raise ValueError(f"expected 'pow2' to be one of {', '.join(_POW2)}, but got '{self.pow2}'")
        if self.fast is not None:
            object.__setattr__(self, "fast", tuple(self.fast))
            unknown = [name for name in self.fast if name not in _MATMULS]
            if unknown:
                raise ValueError(f"expected 'fast' to hold {', '.join(_MATMULS)}, but got '{unknown[0]}'")

    @property
    def kind(self) -> str:
        """The recipe's name in the IR."""
        raise NotImplementedError

    @property
    def history(self) -> int:
        """The length of the amax histories of a recipe with state, else 0."""
        return 0

    @property
    def alignment(self) -> int:
        """What every dimension of a linear must be a multiple of."""
        return 16

    def __str__(self) -> str:
        """The text between the brackets of `recipe<...>`."""
        fields = [f"{name} = {getattr(self, name)}" for name in ("x", "w", "dy", "pow2") if getattr(self, name)]
        if self.fast is not None:
            fields.append(f"fast = [{', '.join(self.fast)}]")
        return ", ".join([self.kind, *fields])


@dataclass(frozen=True)
class Rowwise(Recipe):
    """One amax along the contraction; torchao's rowwise recipe with free f32 scales."""

    @property
    def kind(self) -> str:
        return "rowwise"


@dataclass(frozen=True)
class Tensorwise(Recipe):
    """One scale a tensor: from its own amax, or, with `delayed`, from the history of that many steps."""

    delayed: Optional[int] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delayed is not None and self.delayed < 1:
            raise ValueError(f"expected 'delayed' to be a history of at least 1 step, but got {self.delayed}")

    @property
    def kind(self) -> str:
        return "delayed" if self.delayed else "tensorwise"

    @property
    def history(self) -> int:
        return self.delayed or 0


@dataclass(frozen=True)
class Block128(Recipe):
    """1x128 blocks of x and dy, 128x128 blocks of w, scales of powers of two."""

    @property
    def kind(self) -> str:
        return "block128"

    @property
    def alignment(self) -> int:
        return 128


def parse_recipe(recipe: Union[Recipe, str], history: int = 16) -> Recipe:
    """The recipe of a name: rowwise, tensorwise, delayed (with histories of `history` steps) or block128."""
    if isinstance(recipe, Recipe):
        return recipe
    named = {"rowwise": Rowwise(), "tensorwise": Tensorwise(), "delayed": Tensorwise(delayed=history),
             "block128": Block128()}
    if recipe not in named:
        raise ValueError(f"expected a recipe or one of {', '.join(named)}, but got '{recipe}'")
    return named[recipe]
