# ===- findings.py - what a run held beyond its plan ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compares the lives of a history with planned roles. Of each size the plan says how many tensors are kept from forward to
# backward and how long others live; what there is beyond that is a finding, whatever reading of the rest is the most favourable.
# Which of several lines is to blame is then decided by order and by the names in stacks.
#
# ===--------------------------------------------------------===#
"""Findings of an audit."""

import bisect
import dataclasses
import re
from typing import Dict, Iterable, List, Optional, Set, Tuple

from .lives import Group, Round, group_allocations
from .planned import BACKWARD, FORWARD, RESULT, SAVED, Plan, Role
from .snapshot import Allocation, Frame, Snapshot

__all__ = ["Finding", "audit", "user_lines"]

# Frames in these are the framework's, not the user's.
_FRAMEWORK = re.compile(
    r"(^|/)(torch|torchgen|functorch|triton|runpy|threading|importlib|contextlib)(/|\.py)|^<|site-packages/torch/"
)


@dataclasses.dataclass
class Finding:
    """Something held beyond the plan. `bytes` = `count` x `each`, in the worst round (all rounds for `grows`); `at_peak`: the
    bytes of it that were live at the run's peak."""

    kind: str
    tensor: str
    each: int
    count: int
    at_peak: int
    lines: Tuple[Frame, ...]
    why: str

    @property
    def bytes(self) -> int:
        """All of it."""
        return self.each * self.count


def user_lines(stack: Tuple[Frame, ...], limit: int = 4) -> Tuple[Frame, ...]:
    """The innermost lines of a stack that are the user's, or the innermost ones where none is."""
    own = [frame for frame in stack if not _FRAMEWORK.search(frame.file)]
    return tuple((own or list(stack))[:limit])


def audit(snapshot: Snapshot, rounds: List[Round], plan: Optional[Plan], smallest: int = 1 << 20) -> List[Finding]:
    """What the run held that its plan does not have, largest first. Without a plan only what grows from round to round.

    `rounds`: those of `find_rounds`; `smallest`: allocations of fewer bytes are not looked at.
    """
    peak = snapshot.peak
    found, growing = _growing(snapshot, rounds, smallest, peak)
    if plan is not None:
        worst: Dict[Tuple[int, Tuple[Frame, ...]], Finding] = {}
        made = _by_round(
            rounds, (a for a in snapshot.allocations if a.size >= smallest and (a.size, a.stack) not in growing)
        )
        for number, (one, inside) in enumerate(zip(rounds, made)):
            last = number == len(rounds) - 1
            if not last:  # made once and kept: state that is made when it is first needed
                inside = [a for a in inside if a.died is not None]
            groups = group_allocations(inside, smallest)
            compare = _against_plan if one.turn is not None else _at_fullest
            for finding in compare(snapshot, one, groups, plan, peak, last):
                key = finding.each, finding.lines
                other = worst.get(key, finding)
                chosen = finding if finding.bytes > other.bytes else other
                worst[key] = dataclasses.replace(chosen, at_peak=max(finding.at_peak, other.at_peak))
        found += worst.values()
    return sorted(found, key=lambda f: (-f.bytes, f.kind, f.tensor, f.lines))


def _by_round(rounds: List[Round], allocations: Iterable[Allocation]) -> List[List[Allocation]]:
    """The allocations made in each round; those made before the first are left out."""
    starts = [one.start for one in rounds]
    made: List[List[Allocation]] = [[] for _ in rounds]
    for entry in allocations:
        number = bisect.bisect_right(starts, entry.born) - 1
        if number >= 0:
            made[number].append(entry)
    return made


def _live_at(members: List[Allocation], event: int) -> int:
    """Bytes of allocations that are live after an event."""
    return sum(m.size for m in members if m.born <= event and (m.died is None or m.died > event))


def _growing(snapshot: Snapshot, rounds: List[Round], smallest: int, peak: int):
    """Groups of which something is made in at least two rounds and never freed; of those before the last, most of it."""
    found, keys = [], set()
    never = [a for a in snapshot.allocations if a.born >= 0 and a.died is None and a.size >= smallest]
    freed: Dict[Tuple[int, int], int] = {}
    for entry in snapshot.allocations:
        if entry.died is not None and entry.size >= smallest:
            freed[entry.size, entry.stack] = freed.get((entry.size, entry.stack), 0) + 1
    for group in group_allocations(never, smallest):
        per_round = [len(made) for made in _by_round(rounds, group.members)]
        busy = [number for number in per_round if number]
        if len(busy) < 2 or freed.get((group.size, group.stack), 0) > sum(per_round[:-1]):
            continue
        keys.add((group.size, group.stack))
        each = max(busy)
        why = f"{each} made in a round and never freed, in {len(busy)} of {len(rounds)} rounds: {each * group.size:,} B more each time"
        found.append(
            Finding(
                "grows",
                "",
                group.size,
                len(group.members),
                _live_at(list(group.members), peak),
                user_lines(snapshot.stacks[group.stack]),
                why,
            )
        )
    return found, keys


def _lives(entry: Allocation, one: Round) -> str:
    """How long an allocation of a round lives."""
    if entry.died is None or entry.died >= one.end:
        return RESULT
    if one.turn is None:
        return FORWARD
    if entry.born <= one.turn:
        return SAVED if entry.died > one.turn else FORWARD
    return BACKWARD


def _late(group: Group, one: Round, lives: str, layers: int) -> List[Allocation]:
    """Members made and freed in one pass that outlive the layer after their own, and those freed in the same layer as these.
    A round's clock may tick several times a layer: a line that norms share keeps two tensors in each of `layers`."""
    if one.turn is None:
        return []
    ticks = max(1, round(len(one.clock) / 2 / layers))
    made = [m for m in group.members if _lives(m, one) == lives]
    late = [m for m in made if one.layer_at(m.died) - one.layer_at(m.born) >= 2 * ticks]
    if len(late) < 2:
        return []
    ends = {one.layer_at(m.died) for m in late}
    return [m for m in made if one.layer_at(m.died) in ends]


def _against_plan(
    snapshot: Snapshot, one: Round, groups: List[Group], plan: Plan, peak: int, last: bool
) -> List[Finding]:
    """What a round held beyond the plan."""
    found = []
    by_size: Dict[int, List[Group]] = {}
    for group in groups:
        by_size.setdefault(group.size, []).append(group)
    for size, same in by_size.items():
        kept = [(group, [m for m in group.members if _lives(m, one) == SAVED]) for group in same]
        kept = [(group, members) for group, members in kept if members]
        number = sum(len(members) for _, members in kept)
        excess = number - plan.saved(size)
        # One tensor more than planned is at most the difference of two models at their ends, two are a habit.
        if excess >= 2:
            found += _name_kept(snapshot, one, same, kept, excess, plan, peak)
        for group in same:
            for where in (BACKWARD, FORWARD):
                late = _late(group, one, where, plan.layers)
                if len(late) > plan.together.get((size, where), 0) and not (where == BACKWARD and size in plan.weights):
                    role = _role_of(snapshot, group, [g for g in same if _first(g, one) == where], plan, (where,))
                    until = "the end of backward" if where == BACKWARD else "the end of forward"
                    planned = (
                        f"the plan frees '{role.name}' within its layer"
                        if role
                        else "the plan has no tensor of this size there"
                    )
                    why = f"{len(late)} of {len(group.members)} live to {until}; {planned}"
                    found.append(_finding(snapshot, "outlived" if role else "unplanned", role, group, late, peak, why))
        if not last:
            # What outlives its round: neither freed in it nor growing, and no gradient or result of the plan.
            for group in same:
                over = [
                    m
                    for m in group.members
                    if m.died is not None and m.died >= one.end and one.turn is not None and m.born <= one.turn
                ]
                if len(over) >= 2 and not any(r.lives == RESULT for r in plan.of(size)):
                    found.append(_name_beyond(snapshot, one, same, group, over, plan, peak))
    return found


def _at_fullest(
    snapshot: Snapshot, one: Round, groups: List[Group], plan: Plan, peak: int, last: bool
) -> List[Finding]:
    """What a round without a turn held at its fullest moment beyond what microbatches in flight keep and one chunk needs."""
    found = []
    fullest = max(range(one.start, one.end), key=snapshot.live.__getitem__)
    by_size: Dict[int, List[Group]] = {}
    for group in groups:
        by_size.setdefault(group.size, []).append(group)
    for size, same in by_size.items():
        held = [
            (g, [m for m in g.members if m.born <= fullest and m.died is not None and m.died > fullest]) for g in same
        ]
        held = [(group, members) for group, members in held if members]
        planned = plan.saved(size) + plan.together.get((size, FORWARD), 0) + plan.together.get((size, BACKWARD), 0)
        number = sum(len(members) for _, members in held)
        excess = number - planned
        if excess < 2 or size in plan.weights:
            continue
        roles = plan.of(size)
        for group, members in sorted(held, key=lambda entry: -len(entry[1])):
            if excess <= 0:
                break
            taken = members[-excess:] if len(members) > excess else members
            excess -= len(taken)
            role = max(roles, key=lambda r: (_likeness(snapshot, r, group), r.lives != SAVED)) if roles else None
            why = f"{number} of {size:,} B live at the fullest moment, the microbatches in flight keep {plan.saved(size)} and a chunk needs {planned - plan.saved(size)} more"
            found.append(_finding(snapshot, "outlived" if role else "unplanned", role, group, taken, peak, why))
    return found


def _name_beyond(
    snapshot: Snapshot, one: Round, same: List[Group], group: Group, over: List[Allocation], plan: Plan, peak: int
) -> Finding:
    """Names what was made in forward and is freed only in the next round."""
    size = group.size
    forward = [g for g in same if _first(g, one) == FORWARD]
    matched = _align(snapshot, [r for r in plan.of(size) if r.lives in (FORWARD, SAVED)], forward, one)
    role = matched.get(id(group))
    kept = [(g, list(g.members)) for g in forward if any(_lives(m, one) != FORWARD for m in g.members)]
    other = _other_layout(role, plan, kept, matched, group) if role else None
    why = f"{len(over)} of {len(group.members)} live beyond the end of backward"
    if other:
        why = f"kept as '{role.name}' and as '{other.name}'; {why}"
    kind = "two-layouts" if other else "outlived" if role else "unplanned"
    return _finding(snapshot, kind, role, group, over, peak, why)


def _first(group: Group, one: Round) -> str:
    """The pass in which most members of a group are made."""
    forward = sum(one.turn is not None and m.born <= one.turn for m in group.members)
    return FORWARD if 2 * forward >= len(group.members) else BACKWARD


def _finding(
    snapshot: Snapshot, kind: str, role: Optional[Role], group: Group, members: List[Allocation], peak: int, why: str
) -> Finding:
    """A finding about members of a group."""
    lines = user_lines(snapshot.stacks[group.stack])
    return Finding(kind, role.name if role else "", group.size, len(members), _live_at(members, peak), lines, why)


def _name_kept(
    snapshot: Snapshot, one: Round, same: List[Group], kept, excess: int, plan: Plan, peak: int
) -> List[Finding]:
    """Names what is kept from forward to backward beyond the plan: of all groups of the size those that the plan has no kept
    tensor for, in the reading that fits best."""
    size = same[0].size
    roles = [role for role in plan.of(size) if role.lives in (FORWARD, SAVED)]
    matched = _align(snapshot, roles, [group for group in same if _first(group, one) == FORWARD], one)
    number = sum(len(members) for _, members in kept)
    blamed = []
    for group, members in kept:
        role = matched.get(id(group))
        blamed.append((role is not None and role.lives == SAVED, group, members, role))
    # First those whose role the plan frees in forward, then those without one, then whatever is left.
    blamed.sort(key=lambda entry: (entry[0], entry[3] is None, entry[1].members[0].born))
    found = []
    for _, group, members, role in blamed:
        if excess <= 0:
            break
        taken = members[-excess:] if len(members) > excess else members
        excess -= len(taken)
        other = _other_layout(role, plan, kept, matched, group) if role else None
        planned = plan.saved(size)
        why = f"{number} of {size:,} B live from forward to backward, the plan keeps {planned}"
        if other:
            why = f"kept as '{role.name}' and as '{other.name}', of which the plan keeps one; {why}"
        elif role and role.lives == FORWARD:
            why = f"the plan frees '{role.name}' within forward; {why}"
        kind = "two-layouts" if other else "outlived" if role and role.lives == FORWARD else "unplanned"
        found.append(_finding(snapshot, kind, role, group, taken, peak, why))
    return found


def _other_layout(role: Role, plan: Plan, kept, matched, group: Group) -> Optional[Role]:
    """The other layout of a tensor that is kept as well."""
    for other, _ in kept:
        candidate = matched.get(id(other))
        if (
            other is not group
            and candidate is not None
            and candidate.name != role.name
            and candidate.layout_of == role.layout_of
        ):
            return candidate
    return None


# Modules that a planned tensor's operation belongs to, as functions and files of models are named.
_MODULES = {
    "fc1": "mlp ffn feedforward",
    "fc2": "mlp ffn feedforward",
    "act": "mlp ffn feedforward swiglu",
    "qkv": "attention attn",
    "q_down": "attention attn mla",
    "kv_down": "attention attn mla",
    "q_up": "attention attn mla",
    "kv_up": "attention attn mla",
    "o_proj": "attention attn proj",
    "experts": "expert moe",
    "shared": "shared moe",
    "loss": "loss head",
}


def _words(text: str) -> Set[str]:
    """The words of a name without their endings, for comparing names of tensors with those of functions."""
    words = re.findall(r"[a-z]+[0-9]*", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower())
    return {re.sub(r"(.)\1$", r"\1", re.sub(r"(ed|ing|es|e|s)$", "", word)) for word in words if len(word) > 2} - {
        "forward",
        "backward",
    }


def _likeness(snapshot: Snapshot, role: Role, group: Group) -> int:
    """How many words of a role's name, and of its module, stand in the functions and files of a group's stack."""
    stack = snapshot.stacks[group.stack]
    code = _words(" ".join(f"{frame.function} {frame.file.rsplit('/', 1)[-1]}" for frame in stack))
    module = next((words for name, words in _MODULES.items() if re.search(rf"(^|\.){name}(\.|$)", role.name)), "")
    return 2 * len(_words(role.name) & code) + bool(_words(module) & code)


def _align(snapshot: Snapshot, roles: List[Role], groups: List[Group], one: Round) -> Dict[int, Role]:
    """Roles of a size to groups of that size, in one order: the best alignment of both, where equal lives and equal words
    count. A role may take several groups, where no other is left for them: a framework may make a tensor in several lines.
    """
    groups = sorted(groups, key=lambda group: group.members[0].born)
    score = [[0.0] * (len(groups) + 1) for _ in range(len(roles) + 1)]
    for i in range(len(roles) - 1, -1, -1):
        for j in range(len(groups) - 1, -1, -1):
            pair = _fit(snapshot, roles[i], groups[j], one)
            score[i][j] = max(score[i + 1][j], score[i][j + 1], pair + score[i + 1][j + 1], 0.25 + score[i][j + 1])
    matched: Dict[int, Role] = {}
    i = j = 0
    while i < len(roles) and j < len(groups):
        pair = _fit(snapshot, roles[i], groups[j], one)
        if score[i][j] == pair + score[i + 1][j + 1]:
            matched[id(groups[j])] = roles[i]
            i, j = i + 1, j + 1
        elif score[i][j] == score[i + 1][j]:
            i += 1
        elif score[i][j] == score[i][j + 1]:
            j += 1
        else:
            matched[id(groups[j])] = roles[i]
            j += 1
    return matched


def _fit(snapshot: Snapshot, role: Role, group: Group, one: Round) -> float:
    """How well a group fits a role: lives, number, words."""
    lives = [_lives(m, one) for m in group.members]
    share = lives.count(role.lives) / len(lives)
    number = 1.0 if len(group.members) == role.count else 0.0
    return 1.0 + share + number + _likeness(snapshot, role, group)


def _role_of(snapshot: Snapshot, group: Group, same: List[Group], plan: Plan, lives: Tuple[str, ...]) -> Optional[Role]:
    """The role of a group among those of its size with such lives: by order where there are as many, else by words."""
    roles = [role for role in plan.of(group.size) if role.lives in lives]
    if not roles:
        return None
    ordered = sorted(same, key=lambda g: g.members[0].born)
    if len(ordered) == len(roles) and any(g is group for g in ordered):
        return roles[next(i for i, g in enumerate(ordered) if g is group)]
    return max(roles, key=lambda role: _likeness(snapshot, role, group))
