# ===- planned.py - what a plan allocates ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The tensors of one forward and backward as a plan has them, from a job's configuration or from plan.json of fp8-opt, in a form
# that lives of allocations can be compared with: a role for each tensor of a layer, with its bytes and how long it may live.
#
# ===--------------------------------------------------------===#
"""Planned tensors by role."""

import dataclasses
import json
import pathlib
import re
from typing import Dict, List, Set, Tuple

from ..command import InputError, read_text
from ..job import Job
from ..pipeline import in_flight
from ..rank.graph import walk
from ..rank.layers import embedding_graph, layer_graph, loss_graph
from ..rank.stages import policy_of

__all__ = ["Plan", "Role", "plan_of_file", "plan_of_job"]

# How long a tensor lives: within forward, from forward to backward, within backward, to the end of the step.
FORWARD, SAVED, BACKWARD, RESULT = "forward", "saved", "backward", "result"


@dataclasses.dataclass
class Role:
    """A tensor of a layer: its name, bytes, how long it lives, its place in the order of the plan, and how many there are of it
    in one forward and backward (in flight, where a pipeline keeps several)."""

    name: str
    bytes: int
    lives: str
    order: int
    count: int = 1

    @property
    def layout_of(self) -> str:
        """The tensor of which this is one layout: `fc2.x8` and `fc2.x8t` are rows and columns of one."""
        return re.sub(r"(?<=8)t~?$|(_transposed|_swapped|\.transposed|\.columns|\.col|\.rows|\.row|~)$", "", self.name)


@dataclasses.dataclass
class Plan:
    """The roles of a plan, the sizes that weights may have (their gradients live to the optimizer), how many layers there are,
    and how many microbatches one step has."""

    roles: List[Role]
    weights: Set[int]
    layers: int
    source: str
    # (bytes, pass): how many tensors of a size, made and freed in that pass, the plan has live at once.
    together: Dict[Tuple[int, str], int] = dataclasses.field(default_factory=dict)

    def saved(self, size: int) -> int:
        """How many tensors of a size are kept from forward to backward."""
        return sum(role.count for role in self.roles if role.bytes == size and role.lives == SAVED)

    def of(self, size: int) -> List[Role]:
        """The roles of a size in their order."""
        return sorted((role for role in self.roles if role.bytes == size), key=lambda role: role.order)


def plan_of_job(job: Job, rank: int = 0) -> Plan:
    """The plan of one pipeline rank of a job. With several chunks in flight, those of the schedule's fullest moment are kept."""
    counts: Dict[int, int] = {}
    stages = job.stages_of(rank)
    if job.sizes.pipeline > 1:
        fullest = max(in_flight(job.pipeline_steps()[rank]), key=lambda point: point.count)
        counts = {stages[chunk]: number for chunk, number in fullest.live.items()}
    else:
        counts = {stage: 1 for stage in stages}
    roles: Dict[tuple, Role] = {}
    weights: Set[int] = set()
    together: Dict[Tuple[int, str], int] = {}
    layers = 0
    every = job.stages()
    late: Dict[Tuple[int, str], int] = {}
    for stage, number in counts.items():
        left: Dict[Tuple[int, str], int] = {}
        for part in every[stage]:
            if part.kind in ("layer", "mtp"):
                graph, policy = layer_graph(job, part.layer), policy_of(job)
                layers += 1
                for weight in job.model.layer_weights(min(part.layer, job.model.layers - 1)):
                    held = weight.on_rank(job.sizes.tensor, job.sizes.expert, job.sizes.expert_tensor)
                    weights |= {held, 2 * held, 4 * held}
            else:
                graph = loss_graph(job) if part.kind == "loss" else embedding_graph(job)
                policy = policy_of(dataclasses.replace(job, recompute=type(job.recompute)()))
            steps = walk(graph, policy)
            border = next(index for index, point in enumerate(steps.points) if point.backward)
            _count_together(
                together, [(life.bytes, life.born, life.dies, border) for life in steps.lives if not life.saved]
            )
            for life in steps.lives:
                if not life.bytes:
                    continue
                if life.held:
                    where = life.bytes, FORWARD if life.dies < border else BACKWARD
                    left[where] = left.get(where, 0) + 1
                lives = SAVED if life.saved else FORWARD if life.born < border else BACKWARD
                prefix = "" if part.kind in ("layer", "mtp") else f"{part.kind}."
                key = (prefix + life.name, lives)
                if key in roles:
                    roles[key].count += number
                else:
                    roles[key] = Role(
                        prefix + life.name,
                        life.bytes,
                        lives,
                        life.born + (1000000 if part.kind == "loss" else 0),
                        number,
                    )
        for where, count in left.items():
            late[where] = max(late.get(where, 0), count * (1 + job.ahead))
    # Late frees leave those of a chunk behind, and those of the steps that the GPU has not come to.
    for where, count in late.items():
        together[where] = together.get(where, 0) + count
    return Plan(list(roles.values()), weights, layers, f"the configuration of {job.model.name}", together)


def _count_together(together: Dict[Tuple[int, str], int], lives: List[Tuple[int, int, int, int]]) -> None:
    """Raises the counts to those of some lives (bytes, born, dies, where backward begins)."""
    for size in {life[0] for life in lives}:
        for lives_in in (FORWARD, BACKWARD):
            same = [
                (born, dies)
                for s, born, dies, border in lives
                if s == size and (born < border) == (lives_in == FORWARD)
            ]
            most = max((sum(born <= at <= dies for born, dies in same) for at, _ in same), default=0)
            together[size, lives_in] = max(together.get((size, lives_in), 0), most)


def plan_of_file(path: pathlib.Path) -> Plan:
    """The plan in a plan.json of fp8-opt. Values of layers (`layers.3.gate`) become one role (`layers.*.gate`)."""
    try:
        plan = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{path}' is not JSON: {error}") from None
    if not isinstance(plan, dict) or plan.get("schema") != "fp8opt-plan-1":
        raise InputError(f"'{path}': expected a plan with 'schema' = 'fp8opt-plan-1'")
    try:
        timeline = [entry["op"] for entry in plan["timeline"]]
        saved = {entry["value"]: entry["bytes"] for entry in plan["saved"]}
        freed = {entry["value"]: entry for entry in plan["frees"]}
        results = _results(plan, saved, freed)
        # Each free names the last kernel of its region: the smaller of the two is where forward ends.
        order = {name: index for index, name in reversed(list(enumerate(timeline)))}
        border = min((order[entry["naive_after"]] for entry in plan["frees"]), default=len(timeline))
        sizes = {**{name: entry["bytes"] for name, entry in freed.items()}, **results, **saved}
        ends = {name: order[entry["naive_after"]] for name, entry in freed.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"'{path}': expected the keys of a plan: {error}") from None
    roles: Dict[tuple, Role] = {}
    layers = set()
    for name, size in sizes.items():
        if type(size) is not int or not isinstance(name, str):
            raise InputError(f"'{path}': expected 'bytes' of '{name}' as a number, but got {size!r}")
        lives = SAVED if name in saved else RESULT if name in results else FORWARD if ends[name] <= border else BACKWARD
        layers |= set(re.findall(r"layers?\.(\d+)\.", name))
        key = re.sub(r"(layers?)\.\d+\.", r"\1.*.", name), lives, size
        if key in roles:
            roles[key].count += 1
        else:
            roles[key] = Role(key[0], size, lives, order.get(name, len(timeline)))
    together: Dict[Tuple[int, str], int] = {}
    # What is not the first result of its kernel has no time of birth in a plan: taken as early as its pass begins.
    lives = [
        (entry["bytes"], order.get(name, 0 if ends[name] <= border else border + 1), order[entry["after"]], border + 1)
        for name, entry in freed.items()
        if name not in saved
    ]
    _count_together(together, lives)
    weights = {role.bytes for role in roles.values() if role.lives == RESULT}
    return Plan(list(roles.values()), weights, max(1, len(layers)), f"the plan of {plan.get('function')}", together)


def _results(plan: dict, saved: dict, freed: dict) -> Dict[str, int]:
    """The results of a plan with their bytes: what the timeline makes and nothing frees, by how much is live before and after."""
    after: Dict[str, int] = {}
    for entry in plan["frees"]:
        after[entry["after"]] = after.get(entry["after"], 0) + entry["bytes"]
    results = {}
    live = 0
    for entry in plan["timeline"]:
        name = entry["op"]
        if name not in saved and name not in freed and entry["live_bytes"] > live:
            results[name] = entry["live_bytes"] - live
        live = entry["live_bytes"] - after.get(name, 0)
    return results
