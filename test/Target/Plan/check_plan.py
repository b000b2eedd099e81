# ===- check_plan.py - plan.json against the placed IR ----------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Recomputes what plan.json says of a program: bytes from the types in the
# text, lifetimes from where buffers are made and freed, times from the rates
# of the target, and every number in a sentence. What would happen without a
# kept value is tried: fp8-opt plans the step again with overrides.
#
# usage: check_plan.py [--tolerance=T] FILE TARGETS-SOURCE TARGET POLICY[:OPTION=VALUE[,OPTION=VALUE]...]...
# FILE may be a folder: every .mlir file in it is checked.
#
# ===------------------------------------------------------------------------=== #

import math
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import generic_ir
import plan_runs

# Of step_us: kernels that only write a constant or nothing at all are priced here by their traffic alone.
TOLERANCE = 0

OPTIONAL = (int, type(None))
KEYS = {
    "function": str, "policy": str, "peak_bytes": int, "arena_bytes": int, "saved_bytes": int, "transient_bytes": int,
    "segments": list, "resident_bytes": int, "device_bytes": OPTIONAL, "min_feasible_peak_bytes": OPTIONAL,
    "lower_bound_bytes": OPTIONAL, "bound_kind": (str, type(None)), "saved": list, "recomputed": list, "pieces": list, "frees": list,
    "in_place": list, "timeline": list, "peak_at": dict, "step_us": (int, float), "recompute_us": (int, float),
    "communication_us": (int, float), "hidden_us": (int, float), "transfers": list,
    "gap_pct": (int, float, type(None)), "step_lower_bound_us": (int, float, type(None)),
    "step_bound_kind": (str, type(None)), "lossy": list, "offloaded": list, "host_bytes": int,
    "host_us": (int, float), "host_hidden_us": (int, float),
}
ROOT_KEYS = {"schema": str, "target": str, "functions": list}
ENTRY_KEYS = {
    "segments": {"name": str, "lifetime": str, "bytes": int, "arena_bytes": int},
    "saved": {"value": str, "op": str, "loc": str, "bytes": int, "form": str, "why": str},
    "recomputed": {"value": str, "op": str, "times": int, "cost_us": (int, float), "why": str},
    "pieces": {"value": str, "pieces": int, "rows": int, "why": str},
    "frees": {"value": str, "bytes": int, "after": str, "after_kind": str, "naive_after": str, "naive_after_kind": str},
    "in_place": {"value": str, "over": str, "bytes": int, "storage": str},
    "transfers": {"value": str, "axis": str, "own_bytes": int, "result_bytes": int, "link_bytes": int,
                  "us": (int, float), "hidden_us": (int, float), "beside_from": (str, type(None)),
                  "beside_until": (str, type(None))},
    "offloaded": {"value": str, "op": str, "loc": str, "bytes": int, "us": (int, float), "out_hidden_us": (int, float),
                  "back_hidden_us": (int, float), "out_until": str, "back_from": str, "why": str},
    "timeline": {"op": str, "kind": str, "live_bytes": int},
}


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def expect_equal(what, planned, recomputed):
    expect(planned == recomputed, f"{what}: the plan says {planned}, the program says {recomputed}")


def expect_close(what, planned, recomputed, tolerance):
    expect(abs(planned - recomputed) <= tolerance, f"{what}: the plan says {planned}, the program says {recomputed}")


def check_types(entry, keys, where):
    for key, kind in keys.items():
        expect(key in entry, f"{where}: no key '{key}'")
        value = entry[key]
        expect(isinstance(value, kind) and not isinstance(value, bool), f"{where}: '{key}' is {value!r}")


def check_keys(plan):
    check_types(plan, ROOT_KEYS, "plan")
    for entry in [plan, *plan["functions"]]:
        check_types(entry, KEYS, "plan")
        for key, keys in ENTRY_KEYS.items():
            for part in entry[key]:
                check_types(part, keys, key)
        check_types(entry["peak_at"], {"op": (str, type(None)), "live": list}, "peak_at")
        for null, reason in [("device_bytes", "device_bytes_reason"), ("gap_pct", "gap_reason")]:
            expect(entry[null] is not None or entry.get(reason), f"'{null}' is null without a reason")
        expect_equal("names of the segments", [part["name"] for part in entry["segments"]],
                     ["step", "saved", "deferred", "transient", "io"])
    for key, value in plan["functions"][0].items():
        expect(plan[key] == value, f"'{key}' at the top is not that of the first function")


class Line:
    """One function of placed IR as a line of kernels and waits, with the storage each one holds."""

    def __init__(self, module, function):
        self.module, self.function = module, function
        self.names = module.value_names(function)
        # What is written in place, and over what.
        self.over, self.overwritten, self.in_argument, self.writer = {}, {}, set(), {}
        self.kernels, self.roots, self.frees, self.made, self.types = [], {}, {}, {}, {}
        self.residuals, self.residual_types, self.results, self.first_backward = [], {}, [], 0
        step = next((op for op in function.walk() if op.name == "fp8.step"), None)
        if step:
            self._read(step.regions[0])
            self.first_backward = len(self.kernels)
            kept = self._split_yield(step.regions[0][-1])
            for argument, residual in zip(step.arguments[1], kept):
                self.roots[argument] = self.root(residual)
            self.residuals = kept
            kinds = step.regions[0][-1].operand_types
            self.residual_types = dict(zip(kept, kinds[len(kinds) - len(kept) :]))
            self._read(step.regions[1])
            self._split_yield(step.regions[1][-1])
        else:
            self._read(function.regions[0])
            self.first_backward = len(self.kernels)
            self.results = [self.root(value) for value in function.regions[0][-1].operands]
        self.results = [value for value in dict.fromkeys(self.results) if value in self.made]
        end = len(self.kernels) - 1
        self.last_use = {}
        for value in self.made:
            if value in self.overwritten:
                expect(value not in self.frees, f"'{value}' is freed, but something is written over it")
                self.last_use[value] = self.writer[self.overwritten[value]]
            elif value in self.results:
                self.last_use[value] = end
            else:
                self.last_use[value] = self.frees[value]
        # Each byte counts once: until the kernel that takes it over.
        self.last = {value: use - (value in self.overwritten) for value, use in self.last_use.items()}

    def _split_yield(self, op):
        found = re.search(r"operandSegmentSizes = array<i32: (\d+), (\d+)>", op.attributes)
        count = int(found.group(1))
        self.results += [self.root(value) for value in op.operands[:count]]
        return op.operands[count:]

    def root(self, value):
        return self.roots.get(value, value)

    def _read(self, ops):
        for op in ops:
            if op.name in plan_runs.ALIASES:
                self.roots[op.results[0]] = self.root(op.operands[0])
            if op.name in ("fp8.kernel", "fp8.wait"):
                self.kernels.append(op)
            if op.name == "fp8.kernel":
                places = op.integers("in_place") or [-1] * len(op.results)
                begun = begun_elsewhere(op)
                for value, kind, place in zip(op.results, op.result_types, places):
                    if not kind.startswith("tensor"):
                        continue
                    if value in begun:
                        self.roots[value] = self.root(begun[value])
                        continue
                    self.types[value], self.writer[value] = kind, len(self.kernels) - 1
                    if place >= 0:
                        self.over[value] = self.root(op.operands[place])
                        if op.regions[0][0].name in ("fp8.all_gather", "fp8.all_gather_start"):
                            # It is there from where its part of this rank is made.
                            self.made[value] = self.made.pop(self.over[value])
                            continue
                        expect(self.over[value] not in self.overwritten, f"'{value}' is not the only one over its place")
                        self.overwritten[self.over[value]] = value
                        # What no kernel has made is an argument.
                        if self.over[value] not in self.made:
                            self.in_argument.add(value)
                            continue
                    self.made[value] = len(self.kernels) - 1
            if op.name == "fp8.free":
                for value in op.operands:
                    value = self.root(value)
                    expect(value not in self.frees, f"'{value}' is freed twice")
                    self.frees[value] = len(self.kernels) - 1

    def bytes(self, value):
        return generic_ir.bytes_of(self.types[value])

    def is_live(self, value, index):
        return self.made[value] <= index <= self.last[value]

    def crosses(self, value):
        return self.made[value] < self.first_backward <= self.last_use[value] and value not in self.results

    def live_bytes(self, index, values=None):
        values = self.made if values is None else values
        own = self.kernels[index].integer("workspace") or 0
        return own + sum(self.bytes(value) for value in values if self.is_live(value, index))

    def kernel_name(self, index):
        return self.module.kernel_name(self.names, self.function, self.kernels[index])

    def kind(self, index):
        op = self.kernels[index]
        token = any("token" in kind for kind in op.result_types)
        return "wait" if op.name == "fp8.wait" else "start" if token else "kernel"


def updates(op):
    """The ops of a kernel that make a piece of a result, by the name that the kernel yields."""
    return {part.results[0]: part for part in op.regions[0] if part.name == "fp8.update_slice"}


def begun_elsewhere(op):
    """The results of a kernel that are pieces of what an operand holds, each with that operand."""
    pieces = updates(op)
    found = {}
    for value, inner in zip(op.results, op.regions[0][-1].operands):
        if inner in pieces and len(pieces[inner].operands) > 1:
            found[value] = op.operands[op.arguments[0].index(pieces[inner].operands[1])]
    return found


def align(size):
    return (size + 255) // 256 * 256


def check_names(plan):
    """No two values of a list and no two kernels have one name, so that what is freed early can be counted."""
    for key in ("saved", "offloaded", "recomputed", "frees", "in_place"):
        named = [part["value"] for part in plan[key]]
        expect_equal(f"names in {key}", len(set(named)), len(named))
    run = [(part["op"], part["kind"]) for part in plan["timeline"]]
    expect_equal("names in timeline", len(set(run)), len(run))


def check_memory(plan, line):
    """Everything that follows from where buffers are made and freed."""
    count = len(line.kernels)
    live = [line.live_bytes(index) for index in range(count)]
    timeline = [(line.kernel_name(index), line.kind(index), live[index]) for index in range(count)]
    expect_equal("timeline", [(part["op"], part["kind"], part["live_bytes"]) for part in plan["timeline"]], timeline)
    check_names(plan)
    expect_equal("peak_bytes", plan["peak_bytes"], max(live, default=0))
    if plan["peak_bytes"]:
        peak = live.index(max(live))
        expect_equal("peak_at", (plan["peak_at"]["op"], plan["peak_at"]["kind"]), timeline[peak][:2])
        there = [(line.names[value], line.bytes(value)) for value in line.made if line.is_live(value, peak)]
        if own := line.kernels[peak].integer("workspace"):
            there.append((line.kernel_name(peak), own))
        expect_equal("peak_at.live", sorted((part["value"], part["bytes"]) for part in plan["peak_at"]["live"]),
                     sorted(there))
    kept = [value for value in dict.fromkeys(line.root(value) for value in line.residuals)
            if value in line.made and value not in line.results]
    expect_equal("bytes of saved", [part["bytes"] for part in plan["saved"]], [line.bytes(value) for value in kept])
    expect_equal("values of saved", [part["value"] for part in plan["saved"]], [line.names[value] for value in kept])
    expect_equal("saved_bytes", plan["saved_bytes"], sum(line.bytes(value) for value in kept))
    local = [value for value in line.made if value not in line.results and not line.crosses(value)]
    expect_equal("transient_bytes", plan["transient_bytes"],
                 max((line.live_bytes(index, local) for index in range(count)), default=0))
    segments = {part["name"]: part for part in plan["segments"]}
    expect_equal("segments", [segments[name]["bytes"] for name in ("saved", "transient", "io")],
                 [plan["saved_bytes"], plan["transient_bytes"], sum(line.bytes(value) for value in line.results)])
    ends = [line.first_backward - 1, count - 1]
    freed = [(line.names[value], line.bytes(value), *timeline[index][:2], *timeline[ends[index >= line.first_backward]][:2])
             for value, index in line.frees.items()]
    expect_equal("frees", sorted((part["value"], part["bytes"], part["after"], part["after_kind"], part["naive_after"],
                                  part["naive_after_kind"]) for part in plan["frees"]), sorted(freed))
    # The text does not name arguments.
    expect_equal("in_place", [(part["value"], part["bytes"], part["storage"]) for part in plan["in_place"]],
                 [(line.names[value], line.bytes(value), "argument" if value in line.in_argument else "arena")
                  for value in line.over])
    for part, over in zip(plan["in_place"], line.over.values()):
        expect_equal(f"over of {part['value']}", part["over"], line.names.get(over, part["over"]))


def check_arena(plan, function, line):
    """Slots are aligned, apart from one another, and end at arena_bytes; the waste is small."""
    slots = []
    for index, op in enumerate(line.kernels):
        for value, offset in zip(op.results, op.integers("offsets") or []):
            if value in line.made and offset >= 0:
                slots.append((line.made[value], line.last[value], offset, line.bytes(value)))
        if own := op.integer("workspace"):
            slots.append((index, index, op.integer("workspace_offset"), own))
    slots = [slot for slot in slots if slot[3]]
    for slot in slots:
        expect(slot[2] % 256 == 0, f"the offset {slot[2]} is not a multiple of 256")
    for number, a in enumerate(slots):
        for b in slots[:number]:
            apart = a[1] < b[0] or b[1] < a[0] or a[2] + a[3] <= b[2] or b[2] + b[3] <= a[2]
            expect(apart, f"slots {a} and {b} overlap")
    expect_equal("arena_bytes", plan["arena_bytes"], max((align(slot[2] + slot[3]) for slot in slots), default=0))
    expect_equal("fp8.arena_bytes", function.integer("fp8.arena_bytes"), plan["arena_bytes"])
    limit = 1.05 * plan["peak_bytes"] + 256 * len(plan["peak_at"]["live"])
    expect(plan["arena_bytes"] <= limit, f"arena_bytes {plan['arena_bytes']} is over {limit}")


def matmul_rate(op, rates):
    groups = [re.search(r"scale = \[([^\]]*)\]", kind) for kind in op.operand_types[:2]]
    element = generic_ir.shape_of(op.operand_types[0])[1]
    if element in ("bf16", "f32"):
        return rates["flops_bf16" if element == "bf16" else "flops_f32"]
    entries = [entry.strip() for group in groups for entry in group.group(1).split(",")]
    if any(entry not in ("1", "all") for entry in entries):
        return rates["flops_f8_block"]
    return rates["flops_f8_tensor" if all(entry == "all" for entry in entries) else "flops_f8_row"]


# Steps of the f32 sequences in docs/numerics.md, and what else is not one operation an element.
FLOPS = {"math.rsqrt": 2, "math.exp": 21, "math.log": 23, "math.tanh": 37, "math.erf": 49, "fp8.scale": 3,
         "fp8.broadcast": 0, "fp8.transpose": 0, "fp8.pad": 0, "fp8.all_gather": 0, "fp8.all_gather_start": 0,
         "fp8.opaque": 0, "fp8.yield": 0, "fp8.update_slice": 0, "arith.constant": 0}
OF_OPERAND = ("fp8.amax", "fp8.cast", "fp8.dequantize", "fp8.reduce")


def compute_seconds(op, rates):
    """The time of the arithmetic of one op."""
    if op.name == "fp8.matmul":
        (m, k), _ = generic_ir.shape_of(op.operand_types[0])
        (_, n), _ = generic_ir.shape_of(op.operand_types[1])
        # An accumulator is one more addition an element.
        return m * n * (2 * k + has_accumulator(op)) / matmul_rate(op, rates)
    if op.name in plan_runs.ALIASES or FLOPS.get(op.name) == 0 or not op.result_types:
        return 0
    shape, _ = generic_ir.shape_of((op.operand_types if op.name in OF_OPERAND else op.result_types)[0])
    return FLOPS.get(op.name, 1) * math.prod(shape) / rates["flops_f32"]


def has_accumulator(op):
    return re.search(r"operandSegmentSizes = array<i32: ([\d, ]+)>", op.attributes).group(1).endswith("1")


def seconds_of(ops, moved, rates):
    """The time of ops that move so many bytes: the slower of arithmetic and memory, what a matmul moves after it, the link,
    and a launch."""
    link = after = 0
    if ops[0].name == "fp8.matmul" and has_accumulator(ops[0]):
        after = generic_ir.bytes_of(ops[0].operand_types[-1]) + generic_ir.bytes_of(ops[0].result_types[0])
    if ops[0].name in ("fp8.all_gather", "fp8.all_gather_start"):
        _, sent = moved_by(ops[0])
        link = rates["link_latency_seconds"] + sent / rates["link_bytes_per_second"]
    compute = sum(compute_seconds(op, rates) for op in ops)
    copy = rates["copy_bytes_per_second"]
    return max(compute, (moved - after) / copy) + after / copy + link + rates["launch_seconds"]


def moved_by(op):
    """Bytes read, written and, by a collective, sent."""
    moved = sum(map(generic_ir.bytes_of, op.operand_types + op.result_types))
    sent = 0
    if op.name in ("fp8.all_gather", "fp8.all_gather_start"):
        sent = sum(map(generic_ir.bytes_of, op.result_types)) - sum(map(generic_ir.bytes_of, op.operand_types))
    return moved, sent


def push_seconds(op, rates):
    """A maximum and the first entry of the history are read, the entry is written."""
    moved = generic_ir.bytes_of(op.operand_types[0]) + 8
    return max(1 / rates["flops_f32"], moved / rates["copy_bytes_per_second"]) + rates["launch_seconds"]


def update_seconds(op, rates):
    """The history and the scale are read and written."""
    moved = 2 * sum(map(generic_ir.bytes_of, op.operand_types))
    compute = (math.prod(generic_ir.shape_of(op.operand_types[0])[0]) + 3) / rates["flops_f32"]
    return max(compute, moved / rates["copy_bytes_per_second"]) + rates["launch_seconds"]


STATE_OPS = {"fp8.push_amax": push_seconds, "fp8.update_scale": update_seconds}


def bytes_read(value, size, ops):
    """Bytes that a kernel reads of a buffer: all of it, or the largest view where it reads views only."""
    read = 0
    for op in ops:
        # What gets a piece is not read.
        if value in (op.operands[:1] if op.name == "fp8.update_slice" else op.operands):
            view = op.name in plan_runs.ALIASES
            read = max(read, bytes_read(op.results[0], generic_ir.bytes_of(op.result_types[0]), ops) if view else size)
    return read


HOST = {"fp8.offload_start": "out", "fp8.prefetch_start": "back"}


def host_bytes_of(kind):
    """The bytes of what `!fp8.host<...>` holds."""
    return generic_ir.bytes_of(kind[len("!fp8.host<") : -1])


def check_host(plan, line, rates):
    """Everything about what waits in host memory; what the kernels wait for it, in seconds, is check_step_time's."""
    kept = [value for value in line.residuals if line.residual_types[value].startswith("!fp8.host")]
    sizes = [host_bytes_of(line.residual_types[value]) for value in kept]
    expect_equal("bytes of offloaded", [part["bytes"] for part in plan["offloaded"]], sizes)
    expect_equal("host_bytes", plan["host_bytes"], sum(sizes))
    for part, size in zip(plan["offloaded"], sizes):
        expect_close(f"us of {part['value']}", part["us"], host_seconds(size, rates) * 1e6, 1e-5)
    expect_close("host_us", plan["host_us"], sum(2 * part["us"] for part in plan["offloaded"]), 1e-3)
    expect_close("host_hidden_us", plan["host_hidden_us"],
                 sum(part["out_hidden_us"] + part["back_hidden_us"] for part in plan["offloaded"]), 1e-3)
    places = []
    for op in line.kernels:
        for kind, offset in zip(op.result_types, op.integers("offsets") or []):
            if kind.startswith("!fp8.host"):
                places.append((offset, offset + host_bytes_of(kind)))
    expect_equal("values with a place in host memory", len(places), len(kept))
    for a, b in zip(sorted(places), sorted(places)[1:]):
        expect(a[1] <= b[0] and b[0] % 256 == 0, f"{a} and {b} overlap in host memory")
    # Each goes there once and comes back once.
    starts = [op.regions[0][0].name for op in line.kernels if op.name == "fp8.kernel" and op.regions[0][0].name in HOST]
    expect_equal("copies", sorted(starts), sorted(list(HOST) * len(kept)))


def host_seconds(size, rates):
    return rates["host_latency_seconds"] + size / rates["host_bytes_per_second"]


def check_step_time(plan, line, rates):
    total, ends, free, hidden, last, until, back, following = 0, {}, {"out": 0, "back": 0}, 0, None, [], [], 0
    for index, op in enumerate(line.kernels):
        if op.name != "fp8.kernel":
            # Other waits than for copies are for collectives, which these plans do not have in halves.
            if op.operands[1] in ends:
                end, seconds, way = ends[op.operands[1]]
                hidden += max(0, seconds - max(0, end - total))
                total = max(total, end)
                until += [last] if way == "out" else []
            continue
        way = HOST.get(op.regions[0][0].name)
        if way:
            size = host_bytes_of((op.result_types if way == "out" else op.operand_types)[0])
            free[way] = max(total, free[way]) + host_seconds(size, rates)
            ends[op.results[1]] = free[way], host_seconds(size, rates), way
            following += way == "back"
            continue
        last = line.kernel_name(index)
        back += [last] * following
        following = 0
        inner = [part for part in op.regions[0] if part.name not in plan_runs.ALIASES + ("arith.constant",)]
        if inner[0].name in STATE_OPS:
            total += STATE_OPS[inner[0].name](inner[0], rates)
            continue
        pieces = updates(op)
        moved = sum(generic_ir.bytes_of(pieces[inner].operand_types[0] if inner in pieces else kind)
                    for inner, kind in zip(op.regions[0][-1].operands, op.result_types))
        for argument, kind in zip(op.arguments[0], op.operand_types):
            moved += bytes_read(argument, generic_ir.bytes_of(kind), op.regions[0])
        total += seconds_of(inner, moved, rates)
    expect_close("step_us", plan["step_us"], total * 1e6, 1e-3 + TOLERANCE * total * 1e6)
    expect_close("host_hidden_us", plan["host_hidden_us"], hidden * 1e6, 1e-3 + TOLERANCE * total * 1e6)
    expect_equal("out_until", sorted(part["out_until"] for part in plan["offloaded"]), sorted(until))
    expect_equal("back_from", sorted(part["back_from"] for part in plan["offloaded"]), sorted(back))


def to_int(text):
    return int(text.replace(",", ""))


SENTENCES = {
    "kept": r"([\d,]+) B kept; computing it again instead would make the step ([\d.]+) us (longer|shorter) and the "
            r"peak ([\d,]+) B (lower|higher)(; it is on the minimum cut)?",
    "equals": r"([\d,]+) B kept; computing it and its (\d+) equals again instead would make the step ([\d.]+) us "
              r"(longer|shorter) and the peak ([\d,]+) B (lower|higher)(; it is on the minimum cut)?",
    "alone": r"([\d,]+) B kept; computing it again takes ([\d.]+) us by itself(; it is on the minimum cut)?"
             r"(?:; from '(?:\S+)' on it is computed again)?",
    "never": r"'(\S+)' may not run twice, so its ([\d,]+) B are kept",
    "override": r"'fp8.policy' on it says save: ([\d,]+) B",
    "save-all": r"backward reads it, and save-all keeps all that backward reads: ([\d,]+) B",
    "recompute-all": r"marked 'fp8.checkpoint': ([\d,]+) B",
    "op-list": r"'(\S+)' is in the list of op-list and backward reads its result: ([\d,]+) B",
}
OFFLOADED = (r"([\d,]+) B wait in host memory; a copy takes ([\d.]+) us each way(?:; with it on the device the step would be "
             r"([\d.]+) us (shorter|longer) and the peak ([\d,]+) B (higher|lower))?")
PLACE = r"(?:between forward and backward|before '\S+')"
RECOMPUTED = (r"recompute costs ([\d.]+) us by itself \(([\d,]+) B moved\) and frees ([\d,]+) B "
              rf"({PLACE}(?:, {PLACE})*)(?:; in (\d+) pieces)?")
PIECES = (r"in (\d+) pieces of (\d+) rows(?: with .*)?: ([\d,]+) B of them at a time instead of ([\d,]+) B, and "
          r"([\d,]+) B that are read afterwards whole; the same plan without pieces has a peak of ([\d,]+) B")


def check_saved(plan, joint, function, rates, **others):
    """Every number of every sentence of `saved`, by plans with overrides and the options `others`."""
    names = joint.value_names(function)
    ops = {names[value]: op for op in function.walk() for value in op.results}
    kept = {entry["value"] for entry in plan["saved"]}
    # Regions in pieces are no part of these plans, and to look for them takes most of the time.
    options = {"target": plan["target"], "policy": "save-all", "overlap": "none", "pieces": 1, **others}
    planned_again = None
    checked = set()
    for entry in plan["saved"]:
        op = ops[entry["value"]]
        expect_equal(f"op of {entry['value']}", entry["op"], op.name)
        kind, found = next(((kind, match) for kind, pattern in SENTENCES.items()
                            if (match := re.fullmatch(pattern, entry["why"]))), (None, None))
        expect(kind, f"an unknown sentence: {entry['why']}")
        if kind in ("save-all", "recompute-all", "op-list"):
            expect_equal("policy in a sentence", kind, plan["policy"])
        if kind in ("never", "op-list"):
            expect_equal("op in a sentence", found.group(1), op.name)
        if kind not in ("kept", "equals", "alone"):
            expect_equal("bytes in a sentence", to_int(found.groups()[-1]), entry["bytes"])
            continue
        expect_equal("bytes in a sentence", to_int(found.group(1)), entry["bytes"])
        expect_equal("minimum cut in a sentence", found.groups()[-1] is not None, plan["policy"] == "min-cut")
        if kind == "alone":
            moved, _ = moved_by(op)
            expect_close(f"time of {entry['value']}", float(found.group(2)), seconds_of([op], moved, rates) * 1e6, 5.1e-4)
            continue

        def plan_with(values):
            text = plan_runs.override(joint, lambda _, result: names[result] in values)
            return plan_runs.make_plan("-", text, **options)

        if planned_again is None:
            planned_again = plan_with(kept)
            expect_equal("peak_bytes with all choices as overrides", plan["peak_bytes"], planned_again["peak_bytes"])
            expect_close("step_us with all choices as overrides", plan["step_us"], planned_again["step_us"], 1e-5)
        # Equal values have one sentence.
        equals = {other["value"] for other in plan["saved"] if other["why"] == entry["why"]}
        if kind == "equals":
            expect_equal("number of equals", int(found.group(2)), len(equals) - 1)
            if entry["why"] in checked:
                continue
            checked.add(entry["why"])
        without = plan_with(kept - (equals if kind == "equals" else {entry["value"]}))
        seconds, direction, bytes_text, change = found.groups()[-5:-1]
        longer = float(seconds) * (1 if direction == "longer" else -1)
        lower = to_int(bytes_text) * (1 if change == "lower" else -1)
        what = f"'{entry['value']}' computed again"
        expect_close(f"step_us with {what}", longer, without["step_us"] - plan["step_us"], 1e-3)
        expect_equal(f"peak_bytes with {what}", lower, plan["peak_bytes"] - without["peak_bytes"])


def check_offloaded(plan, joint, function, pieces):
    """Every number of every sentence of `offloaded`, by plans with overrides; `pieces` is what was asked for, or None."""
    names = joint.value_names(function)
    ops = {names[value]: op for op in function.walk() for value in op.results}
    kept, away = ({entry["value"] for entry in plan[key]} for key in ("saved", "offloaded"))
    # Without pieces, to look for them takes most of the time.
    options = {"target": plan["target"], "policy": "save-all", "overlap": "none", "pieces": pieces or 1}

    def plan_with(offloaded):
        def choose(_, result):
            return "offload" if names[result] in offloaded else names[result] in kept | away

        return plan_runs.make_plan("-", plan_runs.override(joint, choose), **options)

    for entry in plan["offloaded"]:
        expect_equal(f"op of {entry['value']}", entry["op"], ops[entry["value"]].name)
        found = re.fullmatch(OFFLOADED, entry["why"])
        expect(found, f"an unknown sentence: {entry['why']}")
        expect_equal("bytes in a sentence", to_int(found.group(1)), entry["bytes"])
        expect_close("time in a sentence", float(found.group(2)), entry["us"], 5.1e-4)
        # A plan that drops values within a region is none that overrides ask for, nor is one of which some runs in pieces.
        if (not found.group(3) or any("from '" in other["why"] for other in plan["saved"])
                or (plan["pieces"] and not pieces)):
            continue
        without = plan_with(away - {entry["value"]})
        what = f"'{entry['value']}' on the device"
        shorter = float(found.group(3)) * (1 if found.group(4) == "shorter" else -1)
        higher = to_int(found.group(5)) * (1 if found.group(6) == "higher" else -1)
        expect_close(f"step_us with {what}", shorter, plan["step_us"] - without["step_us"], 1e-3)
        expect_equal(f"peak_bytes with {what}", higher, without["peak_bytes"] - plan["peak_bytes"])


def check_recomputed(plan, joint, function, line, rates):
    names = joint.value_names(function)
    ops = {names[value]: op for op in function.walk() for value in op.results}
    clones = [op for kernel in line.kernels for op in kernel.walk()]
    for entry in plan["recomputed"]:
        op = ops[entry["value"]]
        expect_equal(f"op of {entry['value']}", entry["op"], op.name)
        moved, sent = moved_by(op)
        found = re.fullmatch(RECOMPUTED, entry["why"])
        expect(found, f"an unknown sentence: {entry['why']}")
        expect_close(f"cost_us of {entry['value']}", entry["cost_us"], seconds_of([op], moved, rates) * 1e6, 1e-5)
        expect_close(f"time in the sentence of {entry['value']}", float(found.group(1)), entry["cost_us"], 5.1e-4)
        expect_equal(f"moved by {entry['value']}", to_int(found.group(2)), moved + sent)
        expect_equal(f"freed by {entry['value']}", to_int(found.group(3)),
                     sum(map(generic_ir.bytes_of, op.result_types)))
        for place in re.findall(r"'(\S+?)'", found.group(4)):
            expect(place in ops or any(part.name == place for part in function.walk()), f"no op '{place}'")
        named = [part for part in clones if part.results and part.name == op.name
                 and re.fullmatch(re.escape(entry["value"]) + r"~recomputed(\.\d+)?", line.names[part.results[0]])]
        # Each piece is an op of its own.
        if not re.search(r"#\d+\.\d+$", entry["value"]) and not plan["pieces"]:
            expect_equal(f"times of {entry['value']}", entry["times"], len(named))


def check_pieces(plan, whole):
    """The numbers of the sentences about pieces."""
    for entry in plan["pieces"]:
        found = re.fullmatch(PIECES, entry["why"])
        expect(found, f"an unknown sentence: {entry['why']}")
        count = int(found.group(1))
        expect_equal("pieces in the sentence", count, entry["pieces"])
        expect_equal("rows in the sentence", int(found.group(2)), entry["rows"])
        expect_equal("peak without pieces", to_int(found.group(6)), whole["peak_bytes"])
        expect_close("bytes at a time", to_int(found.group(3)), to_int(found.group(4)) / count,
                     to_int(found.group(4)) / count / 2)
        expect(to_int(found.group(5)) < to_int(found.group(4)), "expected to hold less whole than without pieces")


def check(path, targets_source, target, spec):
    """`spec` is a policy, or POLICY:OPTION=VALUE."""
    policy, _, extra = spec.partition(":")
    # Collectives in halves are check_transfers.py's.
    options = {"target": target, "policy": policy, "overlap": "none"}
    whole = plan_runs.make_plan(path, **options)
    options |= dict(part.split("=") for part in extra.split(",")) if extra else {}
    plan = plan_runs.make_plan(path, **options) if extra else whole
    check_keys(plan)
    expect_equal("policy", plan["policy"], policy)
    expect_equal("target", plan["target"], target)
    rates = plan_runs.read_target(targets_source, target)
    placed = plan_runs.placed_module(path, **options)
    joint = plan_runs.joint_module(path, target)
    placed_functions = {generic_ir.symbol_name(op): op for op in placed.functions()}
    joint_functions = {generic_ir.symbol_name(op): op for op in joint.functions()}
    expect_equal("functions", sorted(entry["function"] for entry in plan["functions"]), sorted(placed_functions))
    for entry in plan["functions"]:
        entry = {**entry, "target": target}
        function = placed_functions[entry["function"]]
        line = Line(placed, function)
        check_memory(entry, line)
        check_arena(entry, function, line)
        signature = function.attributes[function.attributes.index("function_type = ") + len("function_type = ") :]
        arguments = generic_ir.split_top(signature[1 : generic_ir.match_bracket(signature, 0) - 1])
        expect_equal("resident_bytes", entry["resident_bytes"], sum(map(generic_ir.bytes_of, arguments)))
        expect(entry["lower_bound_bytes"] <= entry["min_feasible_peak_bytes"] <= entry["peak_bytes"],
               "expected lower_bound_bytes <= min_feasible_peak_bytes <= peak_bytes")
        check_step_time(entry, line, rates)
        check_host(entry, line, rates)
        check_offloaded(entry, joint, joint_functions[entry["function"]], options.get("pieces"))
        bound = entry["step_lower_bound_us"]
        expect(bound <= entry["step_us"] * (1 + 1e-9), f"step_us {entry['step_us']} is below its bound {bound}")
        if entry["gap_pct"] is not None:
            expect_close("gap_pct", entry["gap_pct"], (entry["step_us"] / bound - 1) * 100, 1e-3)
        expect(0 <= entry["recompute_us"] <= entry["step_us"], "expected 0 <= recompute_us <= step_us")
        expect(math.isfinite(entry["step_us"]), "step_us is not a number")
        without = next(other for other in whole["functions"] if other["function"] == entry["function"])
        check_pieces(entry, without)
        # Sentences compare with plans without pieces.
        of = entry if entry["offloaded"] else without
        check_saved({**of, "target": target}, joint, joint_functions[entry["function"]], rates)
        check_recomputed(entry, joint, joint_functions[entry["function"]], line, rates)


def main():
    global TOLERANCE
    arguments = sys.argv[1:]
    if arguments[0].startswith("--tolerance="):
        TOLERANCE = float(arguments.pop(0).partition("=")[2])
    path, targets_source, target, *policies = arguments
    paths = [path]
    if os.path.isdir(path):
        paths = sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(".mlir"))
    expect(paths, f"no .mlir file in '{path}'")
    failures = 0
    for path in paths:
        for policy in policies:
            try:
                check(path, targets_source, target, policy)
            except AssertionError as error:
                print(f"{path}, {policy}: {error}")
                failures += 1
    print(f"{len(paths) * len(policies)} plans, {failures} wrong")
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
