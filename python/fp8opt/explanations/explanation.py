# ===- explanation.py - the comparison and its text ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Puts what PyTorch keeps beside what a plan keeps, by the user's modules and lines, and says which single change helps
# most. Works on a captured graph; only `explain` needs torch.
#
#===----------------------------------------------------------------------===//
"""Explanations of what a training step keeps."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from ..graphs.graph import Graph, Kept, Location
from ..command import format_bytes
from .planning import GraphPlan, PlanError, plan_graph

__all__ = ["Explanation", "explain", "explain_graph"]

# So many groups of values a list shows; the rest are one line.
_SHOWN = 12


@dataclass
class _Group:
    """Values of one operation at one line of modules that differ only in the number of their layer."""

    module: str
    op: str
    line: str
    why: str
    bytes: int = 0
    count: int = 0


@dataclass
class Explanation:
    """What is kept now, by each way PyTorch runs, and by the plans. `str()` gives the text."""

    graph: Graph
    plans: List[Tuple[str, GraphPlan]] = field(default_factory=list)
    problems: List[str] = field(default_factory=list)

    @property
    def findings(self) -> List[str]:
        """Single changes that keep less, those that help most first; a sentence each."""
        return [sentence for kept in self.graph.kept for sentence in _findings(kept)]

    def summary(self) -> Dict[str, Any]:
        """The numbers as what `json.dump` takes."""
        return {
            "schema": "fp8opt-explanation-1", "graph": self.graph.name, "torch": self.graph.torch,
            "kept": [{"how": kept.how, "kept_bytes": kept.bytes, "peak_bytes": kept.peak_bytes,
                      "changes": [{"op": change.op, "kept_bytes": change.kept_bytes, "peak_bytes": change.peak_bytes}
                                  for change in kept.changes], "notes": kept.notes} for kept in self.graph.kept],
            "plans": [{"name": name, "kept_bytes": plan.plan["saved_bytes"], "peak_bytes": plan.plan["peak_bytes"],
                       "min_feasible_peak_bytes": plan.plan["min_feasible_peak_bytes"],
                       "recompute_us": plan.plan["recompute_us"], "step_us": plan.plan["step_us"]}
                      for name, plan in self.plans],
            "opaque": self.plans[0][1].program.opaque if self.plans else {},
            "findings": self.findings, "problems": self.problems,
        }

    def __str__(self) -> str:
        lines = [f"{self.graph.name}: kept from forward to backward (torch {self.graph.torch or 'unknown'})", "",
                 f"  {'':<34}{'kept':>14}{'peak of the step':>20}   where the peak is"]
        for kept in self.graph.kept:
            peak = format_bytes(kept.peak_bytes) if kept.peak_bytes is not None else "not measured"
            at = _place(kept.peak_at or "", kept.peak_location) if kept.peak_at else ""
            lines.append(f"  {kept.how:<34}{format_bytes(kept.bytes):>14}{peak:>20}   {at}".rstrip())
        for name, plan in self.plans:
            at = plan.plan["peak_at"]["op"] or ""
            lines.append(f"  {'fp8-opt, ' + name:<34}{format_bytes(plan.plan['saved_bytes']):>14}"
                         f"{format_bytes(plan.plan['peak_bytes']):>20}   {_place(plan.op(at), plan.location(at))}".rstrip())
        lines += ["", "  Parameters and inputs are in no number; gradients of parameters are in the peaks. Peaks of fp8-opt are",
                  "  those of its own kernels, workspaces included; eager peaks leave workspaces out."]
        for sentence in self.findings:
            lines += ["", *_wrap(f"CHANGE: {sentence}")]
        for kept in self.graph.kept:
            for note in kept.notes:
                lines += ["", *_wrap(f"NOTE ({kept.how}): {note}")]
        for kept in self.graph.kept:
            lines += ["", f"Kept by {kept.how}, largest first", *_listing(_groups_of_kept(self.graph, kept))]
        for name, plan in self.plans:
            lines += ["", f"Kept by the plan ({name})", *_listing(_groups_of_plan(plan))]
            again = _groups_of_recomputed(plan)
            if again:
                lines += ["", f"Computed again in backward ({name}): {plan.plan['recompute_us'] / 1000:,.3f} ms of "
                              f"{plan.plan['step_us'] / 1000:,.3f} ms", *_listing(again)]
        if self.plans and self.plans[0][1].program.opaque:
            program = self.plans[0][1].program
            listed = ", ".join(f"{op} ({count})" for op, count in program.opaque.items())
            lines += ["", *_wrap(f"Operations that the dialect has no op for, planned by their bytes: {listed}")]
        for problem in self.problems:
            lines += ["", *_wrap(f"NO PLAN: {problem}")]
        return "\n".join(lines) + "\n"


def _findings(kept: Kept) -> List[str]:
    result = []
    for change in sorted(kept.changes, key=lambda change: (change.kept_bytes, change.op)):
        values = [value for value in kept.values if value.op == change.op]
        modules = sorted({_layers(value.location.module) for value in values})
        lines = sorted({value.location.line for value in values if value.location.line})
        peak = ""
        if kept.peak_bytes is not None:
            less = kept.peak_bytes - change.peak_bytes
            peak = (f", and the peak of the step falls by {format_bytes(less)}, from {format_bytes(kept.peak_bytes)} to "
                    f"{format_bytes(change.peak_bytes)}")
        result.append(f"take torch.ops.{change.op} off the list of the selective checkpoint. It is cheap to run again, and "
                      f"the list keeps {change.times} results of it, in {', '.join(modules) or 'the module'} "
                      f"({', '.join(lines)}): {format_bytes(kept.bytes - change.kept_bytes)} less are kept{peak}.")
    return result


def _layers(module: str) -> str:
    """A module's path with `*` for numbers, so that equal layers are one group."""
    return re.sub(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.|$)", "*", module)


def _place(op: str, location: Location) -> str:
    where = ", ".join(part for part in (location.module, location.line) if part)
    return f"{op} ({where})" if where else op


def _grouped(entries: Iterable[Tuple[Location, str, str, int]]) -> List[_Group]:
    groups: Dict[tuple, _Group] = {}
    for location, op, why, size in entries:
        key = (_layers(location.module), op, location.line, _layers(re.sub(r"[\d,.]+", "", why)))
        group = groups.setdefault(key, _Group(key[0], op, location.line, why))
        group.bytes += size
        group.count += 1
    return sorted(groups.values(), key=lambda group: -group.bytes)


def _groups_of_kept(graph: Graph, kept: Kept) -> List[_Group]:
    made = graph.producers()
    return _grouped((value.location, made[value.value].op_of(value.value) if value.value in made else value.op, value.why,
                     value.bytes) for value in kept.values)


def _groups_of_plan(plan: GraphPlan) -> List[_Group]:
    return _grouped((plan.location(entry["value"]), plan.op(entry["value"], entry["bytes"]) or entry["op"], entry["why"],
                     entry["bytes"]) for entry in plan.plan["saved"])


def _groups_of_recomputed(plan: GraphPlan) -> List[_Group]:
    return _grouped((plan.location(entry["value"]), plan.op(entry["value"]) or entry["op"], entry["why"],
                     _freed(entry["why"])) for entry in plan.plan["recomputed"])


def _freed(why: str) -> int:
    """The bytes that a recomputation frees, as its sentence says them."""
    found = re.search(r"frees ([\d,]+) B", why)
    return int(found.group(1).replace(",", "")) if found else 0


def _listing(groups: Sequence[_Group]) -> List[str]:
    if not groups:
        return ["  nothing"]
    lines = []
    for group in groups[:_SHOWN]:
        count = f"{group.count} x " if group.count > 1 else ""
        where = ", ".join(part for part in (group.module or "the module itself", group.line) if part)
        lines.append(f"  {format_bytes(group.bytes):>14}  {count}{group.op} in {where}")
        lines.append(f"  {'':>14}  {group.why}")
    rest = groups[_SHOWN:]
    if rest:
        lines.append(f"  {format_bytes(sum(group.bytes for group in rest)):>14}  {sum(group.count for group in rest)} "
                     "values more")
    return lines


def _wrap(text: str, width: int = 118) -> List[str]:
    import textwrap

    return textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def explain_graph(graph: Graph, budget: Union[str, Sequence[str], None] = None, target: str = "h200",
                  compiler: Optional[str] = None) -> Explanation:
    """The explanation of a captured graph: what it says PyTorch keeps, and the fastest plan; for each budget (a limit on
    the step's peak, such as `40GiB`) also the fastest plan within it."""
    result = Explanation(graph)
    budgets = [budget] if isinstance(budget, str) else list(budget or ())
    for name, limit in [("fastest", None)] + [(f"within {item}", item) for item in budgets]:
        try:
            result.plans.append((name, plan_graph(result.plans[0][1].program if result.plans else graph, target,
                                                  budget=limit, compiler=compiler)))
        except PlanError as error:
            result.problems.append(f"{name}: {error}")
    return result


def explain(module: Any, *inputs: Any, kwargs: Optional[Dict[str, Any]] = None,
            budget: Union[str, Sequence[str], None] = None, target: str = "h200", compiled: bool = False,
            regathered: Iterable[str] = (), compiler: Optional[str] = None) -> Explanation:
    """Says what PyTorch keeps of a step of `module(*inputs, **kwargs)` from forward to backward, what a plan would keep,
    and which change helps; print it. Nothing is computed; parameters and inputs may lie on any device.

    What is in force now is measured: eager autograd, with selective checkpoints where the module has them, and the
    partitioner of torch.compile. With `compiled`, the module goes through torch.compile itself, so that checkpoints in
    it are seen as it sees them (of a model with graph breaks, the graph that keeps most)."""
    from ..graphs.measure import capture, capture_compiled, eager

    if compiled:
        graphs = capture_compiled(module, *inputs, kwargs=kwargs)
        graph = max(graphs, key=lambda item: item.kept[-1].bytes)
        graph.kept.insert(0, eager(module, *inputs, kwargs=kwargs))
    else:
        graph = capture(module, *inputs, kwargs=kwargs, regathered=regathered)
    return explain_graph(graph, budget, target, compiler)
