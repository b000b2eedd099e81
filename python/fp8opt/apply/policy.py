# ===- policy.py - selective checkpoints by a plan ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The smallest step to a plan: eager PyTorch, torch.utils.checkpoint around a block, and a policy that saves what the plan
# of that block keeps. Needs torch.
#
#===----------------------------------------------------------------------===//
"""A policy for selective activation checkpointing from a plan."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import torch
from torch.utils import _pytree as pytree
from torch.utils import checkpoint as torch_checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

from ..explanations.planning import GraphPlan, plan_graph
from ..graphs.eager import _fake, _fake_parameters
from ..graphs.trace import _Function, capture_joint

__all__ = ["CheckpointPolicy", "checkpoint_context"]

_SAVE = torch_checkpoint.CheckpointPolicy.MUST_SAVE
_RECOMPUTE = torch_checkpoint.CheckpointPolicy.PREFER_RECOMPUTE


@dataclass
class CheckpointPolicy:
    """Which results a selective checkpoint of a block saves: for each operation the numbers of those of its runs in the
    block whose result is kept. `plan` is where they come from; `undecided` names operations that run otherwise in eager
    mode than in the captured graph, and are recomputed.

    A call gives a fresh pair of contexts, for `torch.utils.checkpoint.checkpoint(..., context_fn=policy)`."""

    saved: Dict[str, Tuple[int, ...]]
    plan: GraphPlan
    undecided: List[str]

    def __call__(self) -> Any:
        counts = {False: Counter(), True: Counter()}

        def decide(context: Any, function: Any, *_args: Any, **_kwargs: Any) -> Any:
            seen = counts[bool(context.is_recompute)]
            name = str(function)
            number = seen[name]
            seen[name] += 1
            return _SAVE if number in self.saved.get(name, ()) else _RECOMPUTE

        return torch_checkpoint.create_selective_checkpoint_contexts(decide)


class _Count(TorchDispatchMode):
    """Counts the operations that run, as a selective checkpoint sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: Optional[dict] = None) -> Any:
        if function not in torch_checkpoint.SAC_IGNORED_OPS:
            self.counts[str(function)] += 1
        return function(*args, **(kwargs or {}))


def checkpoint_context(block: Callable[..., Any], *inputs: Any, kwargs: Optional[Dict[str, Any]] = None,
                       budget: Union[None, str, int] = None, target: str = "h200",
                       compiler: Optional[str] = None) -> CheckpointPolicy:
    """The policy of a block's plan:

        policy = fp8opt.apply.checkpoint_context(model.layers[0], x, budget="2GiB")
        for layer in model.layers:
            x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False, context_fn=policy)

    The block is a module or a function, `inputs` are tensors as it gets them; nothing is computed. `budget` limits the peak of the block's own forward
    and backward. The result serves every block that runs the same operations.

    A checkpoint recomputes, where backward begins, all that is not saved up to the last value that backward reads, at once;
    so a plan's order is not followed, only its choice."""
    if not isinstance(block, torch.nn.Module):
        block = _Function(block)
    # As they are: a checkpoint sees operations before any is decomposed.
    graph, _, _ = capture_joint(block, *inputs, kwargs=kwargs, decompositions={})
    updated = sorted(item.target or item.name for item in graph.inputs
                     if item.name in {output.of for output in graph.outputs if output.kind == "mutation"})
    if updated:
        warnings.warn(f"{', '.join(updated)} will be updated twice a step: a checkpoint runs its block's forward again, and this "
                      "one updates what it is given", stacklevel=2)
    plan = plan_graph(graph, target, budget=None if budget is None else str(budget), compiler=compiler)
    kept = {*plan.kept, *plan.returned}
    numbers: Dict[str, List[int]] = {}
    counts: Counter = Counter()
    for node in graph.nodes:
        if node.region != "forward":
            continue
        if any(name in kept for name, _ in node.outputs if name):
            numbers.setdefault(node.op, []).append(counts[node.op])
        counts[node.op] += 1
    eager = _eager_counts(block, inputs, kwargs or {})
    undecided = sorted(op for op in numbers if eager[op] != counts[op])
    return CheckpointPolicy({op: tuple(found) for op, found in numbers.items() if op not in undecided}, plan, undecided)


def _eager_counts(block: torch.nn.Module, inputs: tuple, kwargs: Dict[str, Any]) -> Counter:
    """How often each operation runs in the block's eager forward, on fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with _fake_parameters(block, mode):
        fakes, keywords = pytree.tree_map_only(torch.Tensor, lambda tensor: _fake(tensor, mode), (inputs, kwargs))
        with mode, _Count() as counted:
            block(*fakes, **keywords)
    return counted.counts
