# ===- test_torch_tutorial.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# docs/tutorial.md, run as it stands, as test_tutorial.py runs docs/python.md. Skipped where torch is not installed.
#
# ===---------------------------------------=== #

import pytest

pytest.importorskip("torch")

from test_tutorial import installation, run_page  # noqa: F401


def test_the_page_runs(root, run_page, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    run, compared = run_page(root / "docs" / "tutorial.md", "docs/tutorial.md")
    assert run >= 8 and compared >= 6
