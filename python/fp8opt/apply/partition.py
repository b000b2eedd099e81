# ===- partition.py - a partitioner for torch.compile ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# torch.compile hands a partitioner the joint graph and gets a forward and a backward graph back. The first one here chooses by
# what Inductor will do; the second follows a plan of fp8-opt, for compilers that run what they are given. Needs torch.
#
#===----------------------------------------------------------------------===//
"""The partitioners."""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from typing import Any, Iterator, List, Optional, Tuple, Union

import torch

from ..command import parse_bytes
from ..explanations.planning import GraphPlan, PlanError
from ..graphs.graph import GraphError
from ..graphs.trace import CaptureError
from .inductor import FUSION_LIMIT
from .marks import partition_by
from .variants import Choice, Variant, exactly, planner, split, variants_of

__all__ = ["Partitioner", "PlanPartitioner", "partitioned"]

try:
    from torch._inductor.custom_graph_pass import CustomPartitionerFn
except ImportError:  # a torch without Inductor
    CustomPartitionerFn = object  # type: ignore[assignment,misc]

Budget = Union[None, str, int]


class Partitioner(CustomPartitionerFn):
    """A partitioner for torch.compile with Inductor's kernels: splits each joint graph in the fastest way whose peak is within
    `budget`, of those that `variants.variants_of` finds, by what each takes under Inductor. Use `partitioned` or
    `compile_blocks`; by hand it is for `torch._inductor.config.custom_partitioner_fn`, with `inductor.FUSION_LIMIT` as
    `_pre_fusion_custom_pass`.

    `budget` limits the peak of each compiled graph's step over what was there before it (`"40GiB"`, or bytes); None: the
    fastest way, and of equally fast ones that of the lowest peak. Where nothing fits, the way of the lowest peak is taken, with
    a warning. With `choice`, that way is taken. `chosen` has what was chosen for each graph, in the order of compilation, and
    what it takes."""

    def __init__(self, budget: Budget = None, target: str = "h200", compiler: Optional[str] = None,
                 choice: Optional[Choice] = None):
        self.budget = None if budget is None else parse_bytes(budget)
        self.target, self.compiler, self.choice = target, compiler, choice
        self.chosen: List[Variant] = []

    def __call__(self, gm: torch.fx.GraphModule, joint_inputs: Any, **options: Any) -> Tuple[Any, Any]:
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        options.pop("compiler", None)
        plan = planner(options["num_fwd_outputs"], options.get("static_lifetime_input_indices"), self.target, self.compiler)
        if self.choice is not None:
            return split(self.choice, gm, joint_inputs, options, plan)
        try:
            best = self._best(variants_of(gm, joint_inputs, options, self.target, plan))
            self.chosen.append(exactly(best, gm, joint_inputs, options, self.target, plan))
        except Exception as error:  # whatever Inductor raises on what it cannot lower ahead of its time
            warnings.warn(f"Inductor does not say what this graph takes, torch's min-cut partitions it: {error}", stacklevel=2)
            return min_cut_rematerialization_partition(gm, joint_inputs, compiler="inductor", **options)
        return split(best.choice, gm, joint_inputs, options, plan)

    def _best(self, found: List[Variant]) -> Variant:
        fitting = [item for item in found if self.budget is None or item.peak_bytes <= self.budget]
        if fitting:
            return min(fitting, key=lambda item: (item.seconds, item.peak_bytes))
        least = min(found, key=lambda item: (item.peak_bytes, item.seconds))
        warnings.warn(f"no way to split this graph has a peak within {self.budget:,} B; the lowest, "
                      f"{least.peak_bytes:,} B, is taken", stacklevel=3)
        return least

    def uuid(self) -> Any:
        """What Inductor's cache of compiled graphs knows this partitioner by."""
        return hashlib.sha256(f"fp8opt 2 {self.budget} {self.target} {self.choice}".encode()).hexdigest()


class PlanPartitioner:
    """A partitioner for `aot_autograd(partition_fn=...)` that keeps, recomputes and orders as the plan of fp8-opt says, for
    compilers that run a graph in its order: the backend of fp8-opt, or one of one's own.

    `budget` limits the peak of each graph's step, as planned. What no plan is found for is partitioned by torch's min-cut,
    with a warning. `plans` has the plan of each graph, in the order of compilation."""

    def __init__(self, budget: Budget = None, target: str = "h200", compiler: Optional[str] = None):
        self.budget, self.target, self.compiler = budget, target, compiler
        self.plans: List[GraphPlan] = []

    def __call__(self, gm: torch.fx.GraphModule, joint_inputs: Any, **options: Any) -> Tuple[Any, Any]:
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        options.pop("compiler", None)
        plan = planner(options["num_fwd_outputs"], options.get("static_lifetime_input_indices"), self.target, self.compiler)
        try:
            found = plan(gm, None if self.budget is None else str(self.budget))
        except (CaptureError, GraphError, PlanError) as error:
            warnings.warn(f"fp8-opt has no plan for this graph, torch's min-cut partitions it: {error}", stacklevel=2)
            return min_cut_rematerialization_partition(gm, joint_inputs, **options)
        self.plans.append(found)
        return partition_by(found, gm, joint_inputs, **options)


@contextlib.contextmanager
def partitioned(budget: Budget = None, target: str = "h200", compiler: Optional[str] = None) -> Iterator[Partitioner]:
    """What torch.compile compiles inside runs with Inductor's kernels within a budget; each graph by itself
    (`compile_blocks` divides one budget over blocks that are compiled apart):

        with fp8opt.apply.partitioned(budget="40GiB") as partitioner:
            step(torch.compile(model), batch)        # the first call compiles
        print(partitioner.chosen[0].peak_bytes)
    """
    from torch._inductor import config

    partitioner = Partitioner(budget, target, compiler)
    with config.patch(custom_partitioner_fn=partitioner, _pre_fusion_custom_pass=FUSION_LIMIT):
        yield partitioner
