# ===- check_diff.py - fp8-opt --diff against the plans it compares ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: check_diff.py FP8_OPT A.json B.json
#
# Reads the differences of the two plans itself and expects each in the output, and nothing else.
#
# ===--------------------------------------------------------------------=== #
"""Compares the output of fp8-opt --diff with the plans."""

import json
import re
import subprocess
import sys


def main():
    tool, *paths = sys.argv[1:]
    text = subprocess.run([tool, "--diff", *paths], check=True, capture_output=True, text=True).stdout
    before, after = (json.load(open(path))["functions"][0] for path in paths)
    expected = set()
    kept = [{entry["value"]: entry for entry in plan["saved"]} for plan in (before, after)]
    for value in kept[1].keys() - kept[0].keys():
        expected.add((kept[1][value]["bytes"], value))
    for value in kept[0].keys() - kept[1].keys():
        expected.add((-kept[0][value]["bytes"], value))
    host = [{entry["value"]: entry["bytes"] for entry in plan["offloaded"]} for plan in (before, after)]
    expected |= {(host[1][value], value) for value in host[1].keys() - host[0].keys()}
    expected |= {(-host[0][value], value) for value in host[0].keys() - host[1].keys()}
    again = [{entry["value"]: entry for entry in plan["recomputed"]} for plan in (before, after)]
    for value in again[1].keys() - again[0].keys():
        expected.add((round(again[1][value]["cost_us"], 3), value))
    for value in again[0].keys() - again[1].keys():
        expected.add((-round(again[0][value]["cost_us"], 3), value))
    found = set()
    for number, unit, value in re.findall(r"^    ([-+][\d,.]+) (B|us)  (\S+)", text, re.M):
        number = float(number.replace(",", ""))
        found.add((int(number) if unit == "B" else number, value))
    assert found == expected, f"expected {sorted(expected, key=str)}, but got {sorted(found, key=str)}"
    for label, key in (("peak", "peak_bytes"), ("arena", "arena_bytes"), ("kept", "saved_bytes"), ("host", "host_bytes")):
        line = re.search(rf"^  {label} +([\d,]+) B -> +([\d,]+) B   ([-+][\d,]+) B", text, re.M)
        numbers = [int(part.replace(",", "")) for part in line.groups()] if line else [0, 0, 0]
        want = [before[key], after[key], after[key] - before[key]]
        assert numbers == want or not line and want[2] == 0, f"{key}: expected {want}, but got {numbers}"


if __name__ == "__main__":
    main()
