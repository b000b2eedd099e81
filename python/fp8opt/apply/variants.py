# ===- variants.py - ways to split a joint graph for Inductor ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A joint graph can be split into forward and backward in many ways: torch's min-cut at its memory budgets and the plans of
# fp8-opt each choose what is kept, and the fusion of backward can be limited. Each way is scheduled by Inductor, so that what
# it takes is known before one is chosen. Needs torch.
#
#===----------------------------------------------------------------------===//
"""Ways to split a joint graph, with what each takes under Inductor."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from ..explanations.planning import GraphPlan, PlanError, plan_graph
from ..graphs.graph import GraphError
from ..graphs.partitioner import targets_of
from ..graphs.trace import CaptureError, from_joint
from .marks import partition_by
from .inductor import ALONE, RATES, SAME_READS, UNLIMITED, Rates, Schedule, limit_fusion, schedule

__all__ = ["Choice", "Variant", "exactly", "pareto", "planner", "split", "variants_of"]

# Of the memory of activations that torch keeps by default: what its min-cut is asked for.
_SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)
# Buffers of this part of a backward pass's peak are large.
_LARGE = 32


@dataclass(frozen=True)
class Choice:
    """How a graph is split: by torch's min-cut with a share of its memory (`share`), or by a plan of fp8-opt (`plan`: its
    budget, or "fastest"); and how far backward's kernels are fused, with what bytes a buffer is large from."""

    share: Optional[float] = None
    plan: str = ""
    fusion: int = UNLIMITED
    large: int = 0

    def __str__(self) -> str:
        source = f"plan {self.plan}" if self.plan else f"min-cut {self.share:g}"
        return source + ("", ", kernels of equal reads", ", a kernel a product")[self.fusion]


@dataclass(frozen=True)
class Variant:
    """A split with what it takes, in bytes. `kept` lies between forward and backward, `kept_inputs` are inputs of the graph
    that are kept beside it; `results` are those of forward, `gradients` those of parameters."""

    choice: Choice
    forward: Schedule
    backward: Schedule
    kept: int
    kept_inputs: int
    results: int
    gradients: int

    @property
    def peak_bytes(self) -> int:
        """The peak of the step where inputs and the gradients of results are given, and results stay."""
        return max(self.forward.peak_bytes, self.results + self.backward.peak_bytes)

    @property
    def seconds(self) -> float:
        return self.forward.seconds + self.backward.seconds


Pair = Tuple[torch.fx.GraphModule, torch.fx.GraphModule]


def split(choice: Choice, joint: torch.fx.GraphModule, inputs: Any, options: Dict[str, Any],
          plan: Optional[Callable[[torch.fx.GraphModule, Optional[str]], Any]] = None) -> Pair:
    """The forward and the backward graph of a choice; `joint` is used up. `options` are those of a partitioner, `plan`
    gives the plan of a graph at a budget."""
    from torch._functorch import config
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    if choice.plan:
        assert plan is not None
        found = plan(joint, None if choice.plan == "fastest" else choice.plan)
        pair = partition_by(found, joint, inputs, **options)
    else:
        with config.patch(activation_memory_budget=choice.share):
            pair = min_cut_rematerialization_partition(joint, inputs, compiler="inductor", **options)
    limit_fusion(pair[1], choice.fusion, choice.large)
    return pair


def variants_of(joint: torch.fx.GraphModule, inputs: Any, options: Dict[str, Any], target: str,
                plan: Optional[Callable[[torch.fx.GraphModule, Optional[str]], Any]] = None) -> List[Variant]:
    """The ways to split a joint graph, each with what it takes by Inductor's scheduler; equal ones once. `joint` is left as it
    is."""
    rates = RATES.get(target, RATES["h200"])
    sources = [Choice(share) for share in _SHARES]
    if plan is not None:
        sources += _plans(joint, plan)
    found: List[Variant] = []
    seen = set()
    problem: Exception = GraphError("there is no way to split it")
    for source in sources:
        try:
            forward, backward = split(source, copy.deepcopy(joint), inputs, options, plan)
            kept = tuple(sorted(node.name for node in backward.graph.nodes if node.op == "placeholder"))
            if kept in seen:
                continue
            seen.add(kept)
            first = _measured(source, forward, backward, options, rates)
            found.append(first)
            large = max(first.backward.peak_bytes // _LARGE, 1)
            for level in (SAME_READS, ALONE):
                limit_fusion(backward, level, large)
                limited = Choice(source.share, source.plan, level, large)
                found.append(_measured(limited, forward, backward, options, rates, first.forward))
        except Exception as error:  # torch's, for its own reasons; what another source gives can still be taken
            problem = error
    if not found:
        raise problem
    return found


def exactly(variant: Variant, joint: torch.fx.GraphModule, inputs: Any, options: Dict[str, Any], target: str,
            plan: Optional[Callable[[torch.fx.GraphModule, Optional[str]], Any]] = None) -> Variant:
    """A variant with its exact peaks. `joint` is left as it is."""
    forward, backward = split(variant.choice, copy.deepcopy(joint), inputs, options, plan)
    return _measured(variant.choice, forward, backward, options, RATES.get(target, RATES["h200"]), exact=True)


def _plans(joint: torch.fx.GraphModule, plan: Callable[[torch.fx.GraphModule, Optional[str]], Any]) -> List[Choice]:
    """The fastest plan of fp8-opt and that of the smallest peak; none where there is no plan."""
    try:
        fastest = plan(copy.deepcopy(joint), None)
    except (PlanError, GraphError, CaptureError):
        return []
    return [Choice(plan="fastest"), Choice(plan=str(fastest.plan["min_feasible_peak_bytes"]))]


def _measured(choice: Choice, forward: torch.fx.GraphModule, backward: torch.fx.GraphModule, options: Dict[str, Any],
              rates: Rates, known: Optional[Schedule] = None, exact: bool = False) -> Variant:
    """The variant of a pair of graphs; `known` is the schedule of forward, where it is known."""
    count = options["num_fwd_outputs"]
    outputs = _outputs(forward)
    static = set(options.get("static_lifetime_input_indices") or ())
    primals = [node for node in forward.graph.nodes if node.op == "placeholder"]
    gradients = _outputs(backward)
    # Inputs without a gradient (tables, tokens) are there for all; so are parameters.
    own = {node.name for index, node in enumerate(primals)
           if index not in static and index < len(gradients) and gradients[index] is not None}
    saved = list({node.name: node for node in outputs[count:] if isinstance(node, torch.fx.Node)}.values())
    return Variant(
        choice, known or schedule(forward, False, rates, exact), schedule(backward, True, rates, exact),
        kept=sum(_bytes(node) for node in saved if node.op != "placeholder"),
        kept_inputs=sum(_bytes(node) for node in saved if node.name in own),
        results=sum(_bytes(node) for node in outputs[:count] if isinstance(node, torch.fx.Node)
                    and node.op != "placeholder"),
        gradients=sum(_bytes(gradient) for index, gradient in enumerate(gradients)
                      if index in static and gradient is not None))


def _outputs(graph: torch.fx.GraphModule) -> Sequence[Any]:
    return next(node for node in reversed(graph.graph.nodes) if node.op == "output").args[0]


def _bytes(node: torch.fx.Node) -> int:
    value = node.meta.get("val")
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


def pareto(variants: Sequence[Variant]) -> List[Variant]:
    """Those that no other is at least as good as in everything, fastest first."""
    def cost(variant: Variant) -> Tuple[float, ...]:
        return (variant.seconds, variant.backward.peak_bytes, variant.forward.peak_bytes,
                variant.kept + variant.kept_inputs)

    ordered = sorted(variants, key=lambda variant: (*cost(variant), str(variant.choice)))
    result: List[Variant] = []
    for variant in ordered:
        if not any(all(one <= other for one, other in zip(cost(better), cost(variant))) for better in result):
            result.append(variant)
    return result


def planner(forward_outputs: int, static: Any, target: str, compiler: Optional[str]) -> Callable[..., GraphPlan]:
    """What gives the plan of fp8-opt of a joint graph, or of a copy, at a budget; equal operations of it become one."""
    known: Dict[Optional[str], GraphPlan] = {}

    def plan(joint: torch.fx.GraphModule, budget: Optional[str]) -> GraphPlan:
        _merge_equal(joint)
        if budget not in known:
            graph = from_joint(joint, forward_outputs, "graph", targets_of(joint, static or ()))
            if not any(item.region == "backward" and item.value for item in graph.outputs):
                raise GraphError("it has no gradients")
            known[budget] = plan_graph(graph, target, budget=budget, compiler=compiler)
        return known[budget]

    return plan


def _merge_equal(joint: torch.fx.GraphModule) -> None:
    """Removes dead operations and makes one of equal ones, as torch's partitioner does before it looks at a graph."""
    from torch._functorch.compile_utils import fx_graph_cse

    joint.graph.eliminate_dead_code()
    joint.graph = fx_graph_cse(joint.graph)
    joint.recompile()
