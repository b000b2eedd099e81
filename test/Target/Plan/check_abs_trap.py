# ===- check_abs_trap.py - the abs that a save list keeps -------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A save list by op name keeps abs(w), a bf16 tensor of the weight's size, for
# each of the two weights; `auto` does not, and gathers again where memory is
# short. In the tensorwise control backward reads only the maximum.
#
# usage: check_abs_trap.py EXAMPLES-FOLDER TARGETS-SOURCE
#
# ===------------------------------------------------------------------------=== #

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import plan_runs
from check_plan import expect, expect_close, expect_equal

WEIGHT = 4096 * 16384  # elements
POLICIES = ("save-all", "recompute-all", "op-list", "min-cut", "auto")


def kept(plan):
    return {part["value"]: part["bytes"] for part in plan["saved"]}


def check_trap(path, rates):
    def plan(**options):
        return plan_runs.make_plan(path, target="h200", **options)

    listed = plan(policy="op-list")
    expect_equal("abs kept by op-list", {part["value"]: part["bytes"] for part in listed["saved"]
                                         if part["op"] == "math.absf"},
                 {"w1_abs": 134217728, "w2_abs": 134217728})
    without = plan(policy="op-list", ops="default-abs")
    expect_equal("kept by op-list without abs", kept(without), {"h": 8388608})

    auto = plan(policy="auto")
    expect(auto["step_us"] <= listed["step_us"] and auto["peak_bytes"] <= listed["peak_bytes"], "auto is worse")
    expect(not [part for part in auto["saved"] if part["op"] == "math.absf"], "auto keeps an abs")
    reasons = {part["value"]: part for part in auto["recomputed"]}
    # One pass over a weight and its abs, 4 * 4096 * 16384 bytes, and a launch.
    cost = (4 * WEIGHT / rates["copy_bytes_per_second"] + rates["launch_seconds"]) * 1e6
    for name in ("w1_abs", "w2_abs"):
        expect_close(f"cost of {name}", reasons[name]["cost_us"], cost, 1e-6)
        expect_equal(f"reason for {name}", reasons[name]["why"], f"recompute costs {cost:.3f} us by itself "
                     "(268,435,456 B moved) and frees 134,217,728 B between forward and backward")

    small = plan(policy="auto", budget=auto["min_feasible_peak_bytes"])
    expect_equal("peak at the smallest budget", small["peak_bytes"], auto["min_feasible_peak_bytes"])
    for part in small["saved"]:
        expect(part["bytes"] < WEIGHT, f"a tensor of the weight's size is kept: {part}")
    # Three of four shards come over the link; the shard is read, the weight written.
    sent = 2 * WEIGHT * 3 // 4
    cost = (sent / rates["link_bytes_per_second"] + rates["link_latency_seconds"] + rates["launch_seconds"]
            + 2 * WEIGHT * 5 / 4 / rates["copy_bytes_per_second"]) * 1e6
    gathers = {part["value"]: part for part in small["recomputed"] if part["op"] == "fp8.all_gather"}
    expect_equal("gathered again", sorted(gathers), ["w1", "w2"])
    for part in gathers.values():
        expect_close(f"cost of {part['value']}", part["cost_us"], cost, 1e-6)
    expect(small["recompute_us"] >= 2 * cost, "the gathers are not in recompute_us")
    expect(small["step_us"] > auto["step_us"] + cost, "gathering again costs nothing")


def check_control(path):
    for policy in POLICIES:
        plan = plan_runs.make_plan(path, target="h200", policy=policy)
        expect(not [part for part in plan["saved"] if part["op"] == "math.absf"], f"{policy} keeps an abs")
        for name in ("w1_max", "w2_max"):
            expect_equal(f"bytes that {policy} keeps of {name}", kept(plan).get(name), 4)


def main():
    folder, targets_source = sys.argv[1:]
    check_trap(os.path.join(folder, "abs_trap.mlir"), plan_runs.read_target(targets_source, "h200"))
    check_control(os.path.join(folder, "abs_trap_tensorwise.mlir"))


if __name__ == "__main__":
    main()
