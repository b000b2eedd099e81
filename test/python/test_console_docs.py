# ===- test_console_docs.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The commands that pages under docs/ show print what the pages say.
#
# ===----------------------------------=== #

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("console_docs", ROOT / "utils" / "console_docs.py")
console_docs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(console_docs)


@pytest.mark.parametrize("page", console_docs.pages(), ids=lambda path: path.stem)
def test_page(page):
    text = page.read_text(encoding="utf-8")
    assert console_docs.run_page(text).splitlines() == text.splitlines()


def test_a_wrong_output_is_seen():
    page = "text\n```console\n$ echo one\ntwo\n```\nmore\n"
    assert console_docs.run_page(page) == page.replace("two", "one")
