# ===- test_tutorial.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# docs/python.md, run as it stands: its Python blocks one after another, the text block after one against what it printed
# (`...` stands for anything).
#
# ===-----------------------------------=== #

import contextlib
import doctest
import io
import re

import pytest


@pytest.fixture(autouse=True)
def installation(tools, monkeypatch, tmp_path):
    monkeypatch.setenv("FP8RT_LIBRARY", str(tools.parent / "lib" / "libfp8rt.so"))
    monkeypatch.setenv("FP8OPT_LIBRARY", str(tools.parent / "lib" / "libfp8opt.so"))
    monkeypatch.setenv("FP8OPT_CACHE_DIR", str(tmp_path / "cache"))


def blocks_of(text):
    """(language, line of the first line inside, contents) of each fenced block."""
    return [(match[1], text.count("\n", 0, match.start(2)) + 1, match[2])
            for match in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)]


def test_the_tutorial_runs(root):
    name = "docs/python.md"
    blocks = blocks_of((root / name).read_text())
    assert sum(language == "python" for language, _, _ in blocks) >= 9
    names, printed, compared = {"__name__": "tutorial"}, "", 0
    for language, line, contents in blocks:
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile("\n" * (line - 1) + contents, name, "exec"), names)  # noqa: S102
            printed = output.getvalue()
        elif language == "text":
            found = doctest.OutputChecker().check_output(contents, printed, doctest.ELLIPSIS)
            assert found, f"{name}:{line}: expected\n{contents}\nbut got\n{printed}"
            compared += 1
    assert compared >= 7
