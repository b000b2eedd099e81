# ===- plan_keys.py - keys of plan.json that docs/plan.md leaves out --------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: plan_keys.py plan.md < plan.json
#
# ===------------------------------------------------------------------------=== #

import json
import re
import sys


def keys_of(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner)


with open(sys.argv[1]) as file:
    described = set(re.findall(r"`(\w+)`", file.read()))
missing = sorted(set(keys_of(json.load(sys.stdin))) - described)
print("missing:", ", ".join(missing) or "none")
