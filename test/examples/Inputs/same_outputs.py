# ===- same_outputs.py - outputs of several runs ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compares the outputs of `fp8-run --json` files by their hashes.
#
# ===-----------------------------------------------------------=== #
"""usage: same_outputs.py FIRST.json OTHER.json..."""

import json
import sys

runs = [{o["name"]: (o["shape"], o["dtype"], o["sha256"]) for o in json.load(open(path))["outputs"]}
        for path in sys.argv[1:]]
for path, run in zip(sys.argv[2:], runs[1:]):
    for name in sorted(runs[0].keys() | run.keys()):
        if runs[0].get(name) != run.get(name):
            sys.exit(f"{path}: output {name} is {run.get(name)}, expected {runs[0].get(name)}")
states = sum(name.startswith("state:") for name in runs[0])
print(f"{len(runs[0])} outputs equal in {len(runs)} runs, {states} of them state")
