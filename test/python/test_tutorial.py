# ===- test_tutorial.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# docs/python.md, run as it stands; `./dev wheel` runs it on an installed package, too.
#
# ===-----------------------------------=== #

import importlib.util

import pytest


@pytest.fixture(autouse=True)
def installation(tools, monkeypatch, tmp_path):
    monkeypatch.setenv("FP8RT_LIBRARY", str(tools.parent / "lib" / "libfp8rt.so"))
    monkeypatch.setenv("FP8OPT_LIBRARY", str(tools.parent / "lib" / "libfp8opt.so"))
    monkeypatch.setenv("FP8OPT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def run_page(root):
    spec = importlib.util.spec_from_file_location("python_page", root / "utils" / "python_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.run_page


def test_the_tutorial_runs(root, run_page):
    run, compared = run_page(root / "docs" / "python.md", "docs/python.md")
    assert run >= 9 and compared >= 8


def test_another_output_is_seen(run_page, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint('one', 2)\n```\n\n```text\none ...\n```\n")
    assert run_page(page, "page.md") == (1, 1)
    page.write_text("```python\nprint('one')\n```\n\n```text\ntwo\n```\n")
    with pytest.raises(AssertionError, match="page.md:6: expected\ntwo\n"):
        run_page(page, "page.md")
