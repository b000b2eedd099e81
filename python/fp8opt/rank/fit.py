# ===- fit.py - the lightest recomputation that fits ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Tries every set of Megatron's recomputable modules on a pipeline rank, cheapest first.
#
# ===--------------------------------------------------------===#
"""The cheapest recomputation with which a rank fits its GPU."""

import dataclasses
import itertools
from typing import Dict, List, NamedTuple, Optional, Sequence

from ..job import MODULES, Job, Recompute
from .memory import rank_memory, stage_cost

__all__ = ["Choice", "choices", "lightest", "lightest_of_all"]


class Choice(NamedTuple):
    """A policy on a rank: its bytes, and the estimated microseconds that one microbatch recomputes and takes forward there."""

    recompute: Recompute
    bytes: int
    again_us: float
    forward_us: float

    @property
    def name(self) -> str:
        """The policy in Megatron's words."""
        r = self.recompute
        return r.granularity if r.granularity != "selective" else "selective: " + " ".join(r.modules)


def choices(job: Job, rank: int) -> List[Choice]:
    """All policies of a rank, cheapest first; of equally cheap ones that with the fewest bytes. What the allocator reserves is
    not in them."""
    model, job = job.model, dataclasses.replace(job, allocator="none")
    modules = [
        m
        for m in MODULES
        if (m in ("moe", "moe_act", "shared_experts", "layernorm") and model.moe)
        or (m == "mla_up_proj" and model.mla)
        or m in ("core_attn", "mlp")
    ]
    policies = [Recompute("none", (), job.recompute.originals), Recompute("full", (), job.recompute.originals)]
    for count in range(1, len(modules) + 1):
        for chosen in itertools.combinations(modules, count):
            if "moe" in chosen and ("moe_act" in chosen or "shared_experts" in chosen):
                continue  # parts of what is recomputed anyway
            policies.append(Recompute("selective", chosen, job.recompute.originals))
    found = []
    for policy in policies:
        changed = dataclasses.replace(job, recompute=policy)
        costs = [stage_cost(changed, stage) for stage in changed.stages_of(rank)]
        again, forward = sum(c.again_us for c in costs), sum(c.forward_us for c in costs)
        found.append(Choice(policy, rank_memory(changed, rank).bytes, again, forward))
    return sorted(found, key=lambda c: (c.again_us, c.bytes, len(c.recompute.modules)))


def lightest(every: Sequence[Choice], device: int) -> Choice:
    """The cheapest of a rank's choices that fits; the smallest one where none does."""
    return next((c for c in every if c.bytes <= device), min(every, key=lambda c: c.bytes))


def lightest_of_all(every: Sequence[List[Choice]], device: int) -> Optional[List[Choice]]:
    """The cheapest policy with which all ranks fit, as Megatron has one for all: its choice on each rank, or None. `every` has
    the choices of each rank."""
    by_policy: Dict[Recompute, List[Choice]] = {}
    for rank in every:
        for choice in rank:
            by_policy.setdefault(choice.recompute, []).append(choice)
    fitting = [chosen for chosen in by_policy.values() if all(c.bytes <= device for c in chosen)]
    return min(
        fitting, key=lambda chosen: (sum(c.again_us for c in chosen), max(c.bytes for c in chosen)), default=None
    )
