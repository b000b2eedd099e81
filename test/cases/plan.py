#!/usr/bin/env python3
# ===- plan.py - claims about a plan ----------------------------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# plan.py PLAN.json CLAIM...: each claim is a Python expression that has to be
# true. Names in it: every key of the plan, and
#
#   saved[value]        bytes of a value kept for backward
#   recomputed[value]   how often a value is computed again
#   freed[value]        the list of ops after which a value of the name is freed
#   live[op]            live bytes while the first kernel of the name runs
#   order               the names of the kernels in the order in which they run
#
# ===------------------------------------------------------------------------=== #

import json
import sys


def main():
    with open(sys.argv[1]) as file:
        plan = json.load(file)
    names = dict(plan)
    names["saved"] = {entry["value"]: entry["bytes"] for entry in plan["saved"]}
    names["recomputed"] = {entry["value"]: entry["times"] for entry in plan["recomputed"]}
    names["freed"] = {}
    for entry in plan["frees"]:
        names["freed"].setdefault(entry["value"], []).append(entry["after"])
    names["live"] = {entry["op"]: entry["live_bytes"] for entry in reversed(plan["timeline"])}
    names["order"] = [entry["op"] for entry in plan["timeline"]]
    failed = False
    for claim in sys.argv[2:]:
        if not eval(claim, names):
            failed = True
            used = {name: value for name, value in names.items() if name in claim}
            print(f"error: expected {claim}, but got {used}", file=sys.stderr)
    sys.exit(failed)


main()
