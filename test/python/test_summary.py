# ===- test_summary.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The count that ends a test run: nothing skipped silently, nothing missing counted as passed.
#
# ===----------------------------------=== #

import json
import subprocess
import sys

JUNIT = """<testsuites><testsuite>
<testcase classname="a" name="one"/>
<testcase classname="a" name="two"><failure message="no">trace</failure></testcase>
<testcase classname="a" name="three"><skipped message="no device"/></testcase>
<testcase name="four" status="notrun"/>
</testsuite></testsuites>"""


def summarise(root, *arguments):
    command = [sys.executable, root / "utils" / "test_summary.py", *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.returncode, result.stdout.splitlines()


def test_counts_of_both_reports_are_added(root, tmp_path):
    codes = ["PASS", "PASS", "XFAIL", "FAIL", "XPASS", "TIMEOUT", "UNSUPPORTED"]
    lit = {"tests": [{"name": f"t{i}", "code": code} for i, code in enumerate(codes)]}
    (tmp_path / "lit.json").write_text(json.dumps(lit))
    (tmp_path / "junit.xml").write_text(JUNIT)
    code, lines = summarise(root, "--lit", tmp_path / "lit.json", "--junit", tmp_path / "junit.xml")
    assert (code, lines[-1]) == (1, "4 passed, 4 failed, 3 skipped")
    assert "skipped: a.three (no device)" in lines
    assert "failed: t5 (TIMEOUT)" in lines


def test_a_missing_report_is_a_failure(root, tmp_path):
    (tmp_path / "lit.json").write_text(json.dumps({"tests": [{"name": "t", "code": "PASS"}]}))
    code, lines = summarise(root, "--lit", tmp_path / "lit.json", "--junit", tmp_path / "absent.xml")
    assert (code, lines[-1]) == (1, "1 passed, 1 failed, 0 skipped")


def test_no_tests_at_all_is_a_failure(root):
    assert summarise(root) == (1, ["0 passed, 0 failed, 0 skipped"])
