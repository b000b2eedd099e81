#!/usr/bin/env python3
# ===- python_page.py - pages whose Python is run ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The Python blocks of a page run one after another in one program; the text block after one is what it prints, `...`
# standing for anything. Needs the standard library only, so that it checks an installed package as well.
#
# ===---------------------------------------------------------=== #
"""Run the Python blocks of a page: python_page.py PAGE."""

import contextlib
import doctest
import io
import pathlib
import re
import sys


def run_page(path, name):
    """Runs the page at `path`, called `name` in tracebacks; gives the numbers of blocks run and compared. Raises
    AssertionError where a block prints something else."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    names, printed, run, compared = {"__name__": "page"}, "", 0, 0
    for match in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S):
        language, contents = match.groups()
        line = text.count("\n", 0, match.start(2)) + 1
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile("\n" * (line - 1) + contents, name, "exec"), names)  # noqa: S102
            printed, run = output.getvalue(), run + 1
        elif language == "text":
            same = doctest.OutputChecker().check_output(contents, printed, doctest.ELLIPSIS)
            assert same, f"{name}:{line}: expected\n{contents}\nbut got\n{printed}"
            compared += 1
    return run, compared


def main():
    run, compared = run_page(sys.argv[1], "docs/" + pathlib.Path(sys.argv[1]).name)
    print(f"{sys.argv[1]}: {run} blocks run, {compared} outputs compared")


if __name__ == "__main__":
    main()
