# ===- ranks.py - the parameters of a rank ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Which weights lie on a pipeline rank of a job, and what they cost there in all their copies.
#
# ===--------------------------------------------------------===#
"""The weights of one rank and their bytes."""

import dataclasses
from functools import lru_cache
from typing import Dict, List, NamedTuple, Tuple

from ..job import Job, Part, Sizes
from ..models import Model
from . import Precision, items

__all__ = ["RankParameters", "RankWeight", "rank_parameters"]


class RankWeight(NamedTuple):
    """A weight on a rank: its name with the layer's number, its elements there, whether it is an operand of a linear, and
    over how many ranks its optimizer state is spread."""

    name: str
    count: int
    linear: bool
    copies: int


@dataclasses.dataclass
class RankParameters:
    """The weights of a rank, and the bytes of each item over all of them, rounded up per weight. `gathered`: of an FSDP, the
    whole weights and their fp8 copies of the layer that runs and of the next one, which is gathered ahead."""

    weights: List[RankWeight]
    items: Dict[str, int]
    host_bytes: int
    gathered: int

    @property
    def count(self) -> int:
        """Elements on the rank."""
        return sum(weight.count for weight in self.weights)

    @property
    def bytes(self) -> int:
        """Bytes on the GPU that stay from step to step."""
        return sum(self.items.values())


def rank_parameters(job: Job, rank: int) -> RankParameters:
    """What lies on one pipeline rank (on each of its tensor- and data-parallel ranks, the expert ranks alike)."""
    stages = job.stages()
    parts = tuple(part for stage in job.stages_of(rank) for part in stages[stage])
    return _parameters(job.model, job.sizes, job.precision, parts)


@lru_cache(maxsize=64)
def _parameters(model: Model, sizes: Sizes, precision: Precision, parts: Tuple[Part, ...]) -> RankParameters:
    """The same for the parts of the model that the rank has; comparing policies of recomputation asks for it often."""
    weights: List[RankWeight] = []

    def add(weight, prefix=""):
        copies = sizes.expert_copies if weight.split == "expert" else sizes.dense_copies
        count = weight.on_rank(sizes.tensor, sizes.expert, sizes.expert_tensor)
        weights.append(RankWeight(prefix + weight.name, count, weight.linear, copies))

    embedded = False
    for part in parts:
        prefix = f"layers.{part.layer}."
        if part.kind in ("layer", "mtp"):
            for weight in model.layer_weights(min(part.layer, model.layers - 1) if part.kind == "mtp" else part.layer):
                add(weight, prefix)
            if part.kind == "mtp":
                for weight in model.mtp_weights():
                    add(weight, prefix)
                if not embedded:  # the MTP layer embeds the next token: a copy of the table, unless it is here
                    add(model.embedding(), prefix)
                    embedded = True
        elif part.kind == "embedding":
            if not embedded:
                add(model.embedding())
                embedded = True
        else:
            add(dataclasses.replace(model.embedding(), name="final_norm", count=model.hidden, split=""))
            if not (model.tied_embeddings and embedded):
                add(model.head())
    sums: Dict[str, int] = {}
    host = 0
    whole: Dict[str, int] = {}
    for weight in weights:
        for item in items(precision, weight.linear):
            size = -(-item.on_rank(weight.copies) * weight.count // 1)
            if item.host:
                host += size
            elif not item.transient:
                sums[item.name] = sums.get(item.name, 0) + size
            elif precision.optimizer == "fsdp":
                layer = weight.name.rsplit(".", 1)[0] if weight.name.startswith("layers.") else weight.name
                layer = ".".join(layer.split(".")[:2])
                whole[layer] = whole.get(layer, 0) + size
    return RankParameters(weights, sums, host, sum(sorted(whole.values())[-2:]))
