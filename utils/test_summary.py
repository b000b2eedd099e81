#!/usr/bin/env python3
# ===- test_summary.py - one count of all suites ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Adds the reports of lit, ctest and pytest up. A report that is missing or cannot be read is a failure, not a zero.
#
# ===----------------------------------------------------------=== #
"""Print every failed and every skipped test by name, then `N passed, N failed, N skipped`.

Exit code 1 if anything failed or if nothing passed.
"""

import argparse
import json
import sys
import xml.etree.ElementTree as ElementTree
from collections import namedtuple

Result = namedtuple("Result", "name outcome reason")

# lit's result codes that are not failures. A test that passes though marked XFAIL is a failure, as in lit itself.
LIT_PASSED = {"PASS", "XFAIL", "FLAKYPASS"}
LIT_SKIPPED = {"UNSUPPORTED": "a feature that it requires is not there", "SKIPPED": "skipped", "EXCLUDED": "excluded"}


def read_lit(path):
    with open(path, encoding="utf-8") as file:
        tests = json.load(file)["tests"]
    for test in tests:
        code = test["code"]
        if code in LIT_PASSED:
            yield Result(test["name"], "passed", "")
        elif code in LIT_SKIPPED:
            yield Result(test["name"], "skipped", LIT_SKIPPED[code])
        else:
            yield Result(test["name"], "failed", code)


def read_junit(path):
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            yield Result(name, "failed", "")
        elif skipped is not None or case.get("status") in ("notrun", "disabled"):
            yield Result(name, "skipped", skipped.get("message", "") if skipped is not None else case.get("status"))
        else:
            yield Result(name, "passed", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lit", action="append", default=[], help="report of lit --output")
    parser.add_argument("--junit", action="append", default=[], help="report of ctest or pytest in JUnit's form")
    options = parser.parse_args()
    results = []
    for reader, paths in ((read_lit, options.lit), (read_junit, options.junit)):
        for path in paths:
            try:
                results += list(reader(path))
            except (OSError, ValueError, KeyError, ElementTree.ParseError) as error:
                results.append(Result(path, "failed", f"no readable report: {error}"))
    counts = {outcome: [r for r in results if r.outcome == outcome] for outcome in ("passed", "failed", "skipped")}
    for outcome in ("skipped", "failed"):
        for result in counts[outcome]:
            print(f"{outcome}: {result.name}{f' ({result.reason})' if result.reason else ''}")
    print(", ".join(f"{len(counts[outcome])} {outcome}" for outcome in ("passed", "failed", "skipped")))
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
