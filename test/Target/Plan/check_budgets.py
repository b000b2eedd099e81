# ===- check_budgets.py - plans under falling budgets -----------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Budgets from below the peak of `auto` down to min_feasible_peak_bytes: every plan
# stays within its budget, peaks never rise and times never fall as the budget
# falls, the plans differ; a budget of exactly min_feasible_peak_bytes is met
# and one byte less is refused by an error that names it. No policy's plan
# beats `auto` in both peak and time.
#
# usage: check_budgets.py FILE TARGET [NUMBER-OF-BUDGETS]
#
# ===------------------------------------------------------------------------=== #

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import plan_runs
from check_plan import expect, expect_equal


def check_smallest(path, target, smallest):
    """The smallest budget is met exactly, for every policy that says so, and a byte less is not."""
    plan = plan_runs.make_plan(path, target=target, policy="auto", budget=smallest)
    expect_equal("peak_bytes at the smallest budget", plan["peak_bytes"], smallest)
    expect_equal("min_feasible_peak_bytes at the smallest budget", plan["min_feasible_peak_bytes"], smallest)
    errors = plan_runs.fail_plan(path, target=target, policy="auto", budget=smallest - 1)
    expect(f"error: no plan with policy 'auto' fits in {smallest - 1:,} B" in errors, errors)
    expect(f"expected a budget of at least {smallest:,} B" in errors, errors)
    expect(f"min_feasible_peak_bytes (policy auto) is {smallest}" in errors, errors)
    contributors = [int(size.replace(",", "")) for size in re.findall(r"at that plan's peak: .*?, ([\d,]+) B", errors)]
    largest = sorted((part["bytes"] for part in plan["peak_at"]["live"]), reverse=True)
    expect_equal("the five largest contributors", contributors, largest[:5])
    return plan


def main():
    path, target = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    unlimited = plan_runs.make_plan(path, target=target, policy="auto")
    smallest = unlimited["min_feasible_peak_bytes"]
    for policy in ("save-all", "recompute-all", "op-list", "min-cut"):
        other = plan_runs.make_plan(path, target=target, policy=policy)
        expect_equal(f"min_feasible_peak_bytes of {policy}", other["min_feasible_peak_bytes"], smallest)
        expect(unlimited["step_us"] <= other["step_us"], f"'{policy}' is faster than 'auto' without a budget")
        # Within the peak of another policy `auto` is at least as fast, so it is never worse in both.
        bounded = plan_runs.make_plan(path, target=target, policy="auto", budget=other["peak_bytes"])
        expect(bounded["peak_bytes"] <= other["peak_bytes"], f"over the peak of '{policy}'")
        expect(bounded["step_us"] <= other["step_us"], f"slower than '{policy}' within its peak")
    least = check_smallest(path, target, smallest)

    if count:
        expect(smallest < unlimited["peak_bytes"], "no room between the smallest peak and that of 'auto'")
        room = unlimited["peak_bytes"] - smallest
        budgets = [smallest + room * step // count for step in reversed(range(count))]
        last, seen = unlimited, set()
        for budget in budgets:
            plan = plan_runs.make_plan(path, target=target, policy="auto", budget=budget)
            expect(plan["peak_bytes"] <= budget, f"a peak of {plan['peak_bytes']} is over the budget {budget}")
            expect(plan["peak_bytes"] <= last["peak_bytes"], f"the peak rises at budget {budget}")
            expect(plan["step_us"] >= last["step_us"], f"the time falls at budget {budget}")
            expect(plan["step_lower_bound_us"] <= plan["step_us"] * (1 + 1e-9), f"below the bound at budget {budget}")
            seen.add((tuple((part["value"], part["bytes"]) for part in plan["saved"]),
                      tuple((part["value"], part["pieces"]) for part in plan["pieces"])))
            print(f"{budget}: peak {plan['peak_bytes']}, saved {plan['saved_bytes']}, step {plan['step_us']} us")
            last = plan
        expect_equal("the plan at the smallest budget", last, least)
        expect_equal("number of different plans", len(seen), count)
    print("ok")


if __name__ == "__main__":
    main()
