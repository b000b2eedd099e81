# ===- check_transfers.py - what a plan says of collectives that start early -=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Of a program of several ranks, as it is placed: where each collective starts and ends, what lies in memory for it alone at
# the peak, and the sentences, by plans in which one more value is computed again and collectives start early too.
#
# usage: check_transfers.py SOURCES_OF_TARGETS TARGET PROGRAM[:OPTION=VALUE,...] ...
# `device-memory=least` is what the smallest plan needs.
#
# ===------------------------------------------------------------------------=== #

import sys

import check_plan
import generic_ir
import plan_runs
from check_plan import Line, expect, expect_equal


class Run:
    """The kernels of a placed function with their collectives in halves."""

    def __init__(self, line):
        self.line, self.halves = line, []
        starts = {}
        self.kinds = []
        for index, op in enumerate(line.kernels):
            if op.name == "fp8.wait":
                self.kinds.append("wait")
                self.halves.append((starts[op.operands[1]], index))
            elif any("token" in kind for kind in op.result_types):
                self.kinds.append("start")
                starts[op.results[1]] = index
            else:
                self.kinds.append("kernel")
        self.halves.sort()

    def beside(self, start, wait):
        return [self.line.kernel_name(index) for index in range(start, wait) if self.kinds[index] == "kernel"]

    def alone(self, index):
        """What lies in memory at a kernel only for a collective under way, with the collective's name."""
        line, found = self.line, {}
        for start, wait in self.halves:
            if not start <= index <= wait:
                continue
            source, result = line.root(line.kernels[start].operands[0]), line.kernels[start].results[0]
            found[line.root(result)] = line.kernel_name(start)
            later = [op for op in line.kernels[index:] if op.name == "fp8.kernel"]
            if source not in line.results and not any(line.root(operand) == source for op in later
                                                      for operand in op.operands):
                found[source] = line.kernel_name(start)
        return {value: name for value, name in found.items() if value in line.made}


def check_transfers(plan, run):
    line = run.line
    expect_equal("timeline", [(entry["op"], entry["kind"]) for entry in plan["timeline"]],
                 [(line.kernel_name(index), kind) for index, kind in enumerate(run.kinds)])
    found = {}
    for entry in plan["transfers"]:
        found.setdefault(entry["value"], []).append((entry["beside_from"], entry["beside_until"]))
    for start, wait in run.halves:
        kernels = run.beside(start, wait)
        name = line.kernel_name(start)
        expected = (kernels[0], kernels[-1]) if kernels else (None, None)
        expect(expected in found[name], f"'{name}' runs beside {expected}, the plan says {found[name]}")
    expect_equal("collectives beside kernels", sum(bool(run.beside(*half)) for half in run.halves),
                 sum(entry["beside_from"] is not None for entry in plan["transfers"]))
    at = [entry["live_bytes"] for entry in plan["timeline"]].index(plan["peak_bytes"])
    expect_equal("op at the peak", plan["peak_at"]["op"], line.kernel_name(at))
    expect_equal("values for a transfer alone",
                 sorted((entry["value"], entry["transfer"]) for entry in plan["peak_at"]["live"] if "transfer" in entry),
                 sorted((line.names[value], name) for value, name in run.alone(at).items() if line.is_live(value, at)))
    return sum("transfer" in entry for entry in plan["peak_at"]["live"])


def check(targets, target, spec):
    path, _, extra = spec.partition(":")
    options = {"target": target, "pieces": 1} | dict(part.split("=") for part in extra.split(",") if part)
    if options.get("device-memory") == "least":
        largest = plan_runs.make_plan(path, target=target, pieces=1)
        options["device-memory"] = largest["resident_bytes"] + largest["min_feasible_peak_bytes"]
    plan = plan_runs.make_plan(path, **options)
    check_plan.check_keys(plan)
    if "device-memory" in options:
        expect(plan["resident_bytes"] + plan["peak_bytes"] <= options["device-memory"], "more than 'device-memory'")
    placed = plan_runs.placed_module(path, **options)
    line = Line(placed, placed.functions()[0])
    check_plan.check_memory(plan, line)
    late = check_transfers(plan, Run(line))
    compared = 0
    # What a plan within a limit is compared with may be above it, and is no plan that can be asked for.
    if not {"budget", "device-memory"} & options.keys():
        joint = generic_ir.Module(plan_runs.run_text([path, f"--compile=target={target}", "--compile-to=joint",
                                                      "--mlir-print-op-generic", "--mlir-print-debuginfo"]))
        rates = plan_runs.read_target(targets, target)
        check_plan.check_saved(plan, joint, joint.functions()[0], rates, overlap="default")
        compared = sum("again instead" in entry["why"] for entry in plan["saved"])
    beside = sum(entry["beside_from"] is not None for entry in plan["transfers"])
    print(f"{path}: {beside} of {len(plan['transfers'])} transfers beside kernels, {late} values for one alone at the peak, "
          f"{compared} sentences compared")


def main():
    targets, target, *specs = sys.argv[1:]
    for spec in specs:
        try:
            check(targets, target, spec)
        except AssertionError as error:
            print(f"{spec}: {error}")
            sys.exit(1)


if __name__ == "__main__":
    main()
