# ===- __init__.py - models as configurations ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What a model is to memory: its sizes. Each model that comes with the package is a small TOML file beside this one, which a
# user copies and changes.
#
# ===--------------------------------------------------------===#
"""Models as configurations, and how many parameters they have."""

import dataclasses
import pathlib
from typing import List, Optional

from ..command import InputError
from ..config import build, read_table

__all__ = ["MLA", "MoE", "Model", "Weight", "load_model", "known_models"]


@dataclasses.dataclass(frozen=True)
class MLA:
    """Multi-head latent attention: ranks of the two latents, and the parts of a head."""

    q_lora: int
    kv_lora: int
    qk_nope: int
    qk_rope: int
    v_head: int


@dataclasses.dataclass(frozen=True)
class MoE:
    """Experts: how many there are, how many a token goes to, their ffn size, that of the shared expert (0: none), and how
    many layers at the start are dense."""

    experts: int
    top_k: int
    ffn: int
    shared_ffn: int = 0
    dense_layers: int = 0

    def __post_init__(self):
        if not 1 <= self.top_k <= self.experts:
            raise InputError(f"expected 'top_k' between 1 and 'experts' = {self.experts}, but got {self.top_k}")


@dataclasses.dataclass(frozen=True)
class Model:
    """A transformer with RMSNorm, SwiGLU and no biases."""

    name: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    vocab: int
    kv_heads: int = 0
    head_dim: int = 0
    tied_embeddings: bool = False
    source: str = ""
    mla: Optional[MLA] = None
    moe: Optional[MoE] = None
    mtp_layers: int = 0

    def __post_init__(self):
        for name in ("layers", "hidden", "ffn", "heads", "vocab"):
            if not getattr(self, name):
                raise InputError(f"expected '{name}' of at least 1, but got 0")
        for name in ("layers", "mtp_layers"):
            if getattr(self, name) > 10000:
                raise InputError(f"expected '{name}' of at most 10000, but got {getattr(self, name)}")
        if not self.kv_heads:
            object.__setattr__(self, "kv_heads", self.heads)
        if not self.head_dim:
            object.__setattr__(self, "head_dim", self.hidden // self.heads)
        if not self.head_dim:
            raise InputError(
                f"expected 'hidden' of at least 'heads' = {self.heads}, or 'head_dim', but got {self.hidden}"
            )
        if self.heads % self.kv_heads:
            raise InputError(f"expected 'heads' as a multiple of 'kv_heads', but got {self.heads} and {self.kv_heads}")
        if self.moe and self.moe.dense_layers > self.layers:
            raise InputError(f"expected 'dense_layers' of at most {self.layers}, but got {self.moe.dense_layers}")

    def is_moe(self, layer: int) -> bool:
        """Whether a layer (from 0; the MTP layers follow the last) has experts."""
        return self.moe is not None and layer >= self.moe.dense_layers

    def layer_weights(self, layer: int) -> List["Weight"]:
        """The weights of one layer."""
        return [*self._attention(), *self._mlp(layer), Weight("norms", 2 * self.hidden, linear=False)]

    def embedding(self) -> "Weight":
        """The table of the embedding."""
        return Weight("embedding", self.vocab * self.hidden, split="tensor", linear=False)

    def head(self) -> "Weight":
        """The output matrix; with tied embeddings a copy of the table on the last pipeline rank."""
        return Weight("head", self.vocab * self.hidden, split="tensor", linear=False)

    def mtp_weights(self) -> List["Weight"]:
        """What an MTP layer has beside an ordinary layer: the projection of two hidden states to one, and three norms."""
        return [
            Weight("mtp.eh_proj", 2 * self.hidden * self.hidden, split="tensor"),
            Weight("mtp.norms", 3 * self.hidden, linear=False),
        ]

    def _attention(self) -> List["Weight"]:
        hidden, heads = self.hidden, self.heads
        if self.mla:
            mla = self.mla
            head = mla.qk_nope + mla.qk_rope
            return [
                Weight("q_down", hidden * mla.q_lora),
                Weight("kv_down", hidden * (mla.kv_lora + mla.qk_rope)),
                Weight("latent_norms", mla.q_lora + mla.kv_lora, linear=False),
                Weight("q_up", mla.q_lora * heads * head, split="tensor"),
                Weight("kv_up", mla.kv_lora * heads * (mla.qk_nope + mla.v_head), split="tensor"),
                Weight("o_proj", heads * mla.v_head * hidden, split="tensor"),
            ]
        return [
            Weight("qkv", hidden * (heads + 2 * self.kv_heads) * self.head_dim, split="tensor"),
            Weight("o_proj", heads * self.head_dim * hidden, split="tensor"),
        ]

    def _mlp(self, layer: int) -> List["Weight"]:
        if not self.is_moe(layer):
            return [
                Weight("fc1", 2 * self.hidden * self.ffn, split="tensor"),
                Weight("fc2", self.ffn * self.hidden, split="tensor"),
            ]
        moe = self.moe
        weights = [
            Weight("router", self.hidden * moe.experts, linear=False),
            Weight("experts.fc1", moe.experts * 2 * self.hidden * moe.ffn, split="expert"),
            Weight("experts.fc2", moe.experts * moe.ffn * self.hidden, split="expert"),
        ]
        if moe.shared_ffn:
            weights += [
                Weight("shared.fc1", 2 * self.hidden * moe.shared_ffn, split="tensor"),
                Weight("shared.fc2", moe.shared_ffn * self.hidden, split="tensor"),
            ]
        return weights

    def parameters(self) -> int:
        """All parameters of the model, without the MTP layers."""
        count = sum(weight.count for layer in range(self.layers) for weight in self.layer_weights(layer))
        count += self.hidden + self.embedding().count
        return count if self.tied_embeddings else count + self.head().count


@dataclasses.dataclass(frozen=True)
class Weight:
    """A weight of the whole model: how many elements, what splits it over ranks (`tensor`, `expert`, or `` for none), and
    whether it is the operand of a linear that runs in FP8."""

    name: str
    count: int
    split: str = ""
    linear: bool = True

    def on_rank(self, tensor: int, expert: int, expert_tensor: int) -> int:
        """Elements on one rank, rounded up."""
        parts = {"": 1, "tensor": tensor, "expert": expert * expert_tensor}[self.split]
        return -(-self.count // parts)


FOLDER = pathlib.Path(__file__).parent


def known_models() -> List[str]:
    """The names of the models that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_model(name: str, folder: Optional[pathlib.Path] = None) -> Model:
    """A model by its name, or from a file whose path is relative to `folder` (default: the current one)."""
    if name in known_models():
        path = FOLDER / f"{name}.toml"
    elif "." in name:
        path = (folder or pathlib.Path()) / name
    else:
        raise InputError(f"expected a model of {', '.join(known_models())}, or a file, but got '{name}'")
    return build(Model, read_table(path), f"'{path.name}'")
