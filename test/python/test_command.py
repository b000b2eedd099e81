# ===- test_command.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The command fp8opt itself: its list of subcommands, its errors, and that it imports nothing it does not need.
#
# ===----------------------------------=== #

import importlib.util
import subprocess
import sys

import pytest

from fp8opt import __main__, command


def run(root, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "fp8opt", *arguments],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(root / "python")},
    )


def test_list_of_commands(root):
    result = run(root)
    assert result.returncode == 0
    for name, (module, summary) in __main__.COMMANDS.items():
        assert f"  {name} " in result.stdout and summary in result.stdout
        assert importlib.util.find_spec(module, "fp8opt"), f"{name}: no module {module}"


def test_unknown_command(root):
    result = run(root, "parms")
    assert result.returncode == 1
    assert result.stderr.startswith("error: expected a command of ") and "'parms'" in result.stderr


def test_listing_imports_no_library(root):
    code = "import sys, fp8opt.__main__ as m; m.main([]); print([n for n in ('numpy', 'torch', 'ml_dtypes') if n in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(root / "python")}
    )
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "text, size", [("80GiB", 80 * 2**30), ("1.5 MiB", 1572864), ("141GB", 141 * 10**9), ("12", 12)]
)
def test_sizes(text, size):
    assert command.parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "3 gib", "1e3", "nan"])
def test_bad_sizes(text):
    with pytest.raises(command.InputError, match="expected a size"):
        command.parse_bytes(text)
