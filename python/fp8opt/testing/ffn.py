# ===- ffn.py - the step of the feed-forward examples ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Forward and backward of what examples/gen.py writes, derived by hand.
#
# ===------------------------------------------------------------------=== #
"""h = x + w2(silu(w1(x)) * w3(x)), layer after layer, and its gradients."""

from typing import Dict, List, Optional, Tuple

import numpy as np

from .inputs import make_input
from .numerics import RECIPES, DelayedState, Linear, bf16

ONE = np.float32(1)


class FfnStep:
    """One training step of the stack, in NumPy.

    `recipe` None computes without FP8 and without rounding, in f64: what the FP8 step approximates. With `random`
    every matmul is perturbed, see `numerics.perturb`.
    """

    def __init__(self, layers: int, tokens: int, dim: int, ffn: int, recipe: str, seed: int, history: int = 16,
                 random: Optional[np.random.Generator] = None):
        self.random = random
        self.layers, self.tokens, self.dim, self.recipe, self.seed = layers, tokens, dim, recipe, seed
        self.weights: Dict[str, np.ndarray] = {}
        self.states: Dict[str, DelayedState] = {}
        for layer in range(layers):
            for name, shape in (("w1", (ffn, dim)), ("w3", (ffn, dim)), ("w2", (dim, ffn))):
                key = f"layers.{layer}.{name}"
                self.weights[key] = make_input(key, shape, "bf16", seed, 1 / np.sqrt(shape[-1]))
                if recipe == "delayed":
                    self.states[key] = DelayedState.fresh(history)

    def run(self, step: int = 0, microbatch: int = 0) -> List[np.ndarray]:
        """One microbatch: the result, then the gradients of x and of the weights in the order of the arguments."""
        shape = (self.tokens, self.dim)
        x = make_input("x", shape, "bf16", self.seed, 1.0, step, microbatch)
        d_out = make_input(f"d_layers.{self.layers - 1}.out", shape, "bf16", self.seed, 1.0, step, microbatch)
        saved = []
        for layer in range(self.layers):
            x, residuals = self._forward(f"layers.{layer}", x)
            saved.append(residuals)
        gradients = {}
        for layer in reversed(range(self.layers)):
            d_out = self._backward(f"layers.{layer}", d_out, saved.pop(), gradients)
        return [x, d_out] + [gradients[key] for key in self.weights]

    def end_of_step(self) -> None:
        for state in self.states.values():
            state.end_of_step(RECIPES["delayed"])

    def state_outputs(self) -> List[Tuple[str, np.ndarray]]:
        """Every state argument by name, in the order of the arguments."""
        outputs = []
        for key, state in self.states.items():
            for role in ("x", "w", "dy"):
                outputs.append((f"{key}.{role}_history", state.history[role]))
                outputs.append((f"{key}.{role}_scale", np.full((1, 1), state.scale[role], np.float32)))
        return outputs

    def _linear(self, key: str, x: np.ndarray) -> "Linear":
        if self.recipe is None:
            return ExactLinear(x, self.weights[key])
        return Linear(self.recipe, x, self.weights[key], "bf16", self.states.get(key), self.random)

    def _round(self, x: np.ndarray) -> np.ndarray:
        return x if self.recipe is None else bf16(x)

    def _forward(self, prefix: str, x: np.ndarray):
        w1, w3 = self._linear(f"{prefix}.w1", x), self._linear(f"{prefix}.w3", x)
        gate, up = w1.forward(), w3.forward()
        silu = self._round(gate / (ONE + np.exp(-gate)))
        w2 = self._linear(f"{prefix}.w2", self._round(silu * up))
        return self._round(x + w2.forward()), (w1, w3, w2, gate, up, silu)

    def _backward(self, prefix: str, d_out: np.ndarray, residuals, gradients) -> np.ndarray:
        w1, w3, w2, gate, up, silu = residuals
        d_act, gradients[f"{prefix}.w2"] = w2.backward(d_out)
        d_silu, d_up = self._round(d_act * up), self._round(d_act * silu)
        # d silu / d gate = sigmoid + gate * sigmoid * (1 - sigmoid), all in f32.
        sigmoid = ONE / (ONE + np.exp(-gate))
        d_gate = self._round(d_silu * (sigmoid + gate * sigmoid * (ONE - sigmoid)))
        d_x3, gradients[f"{prefix}.w3"] = w3.backward(d_up)
        d_x1, gradients[f"{prefix}.w1"] = w1.backward(d_gate)
        # The uses of x in the order of the program: w1, w3, the residual.
        return self._round(self._round(d_x1 + d_x3) + d_out)


class ExactLinear:
    """A linear in f64."""

    def __init__(self, x: np.ndarray, w: np.ndarray):
        self.x, self.w = x.astype(np.float64), w.astype(np.float64)

    def forward(self) -> np.ndarray:
        return self.x @ self.w.T

    def backward(self, dy: np.ndarray):
        return dy @ self.w, dy.T @ self.x
