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


JOB = """
model = "{model}"
layout = "{layout}"
capacity = {capacity}
device = {device}
[sizes]
tensor = {tensor}
pipeline = {pipeline}
[batch]
sequence = 8192
microbatches = {microbatches}
"""
FITS = dict(model="llama3-8b", layout="", capacity=1.0, device='"80GiB"', tensor=2, pipeline=2, microbatches=4)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["rank", "--config=none.toml"], "cannot read 'none.toml'"),
        (["rank", "--config=."], "cannot read '.'"),
        (["params", "--preset=bf16", "-d", "0"], "-d of at least 1"),
        (["params", "--preset=bf16", "--count=nan"], "--count of at least 0"),
        (["params", "--preset=bf16", "--count=inf"], "--count of at least 0"),
        (["pipeline", "--schedule=1f1b", "--pp=100000", "--microbatches=100000"], "at most 2,097,152"),
        (["pipeline", "--schedule=1f1b", "--pp=4", "--microbatches=0"], "microbatches of at least 1"),
        (["audit", "/dev/null"], "is not a memory snapshot"),
        (["job", "/dev/null"], "found none"),
        (["explain", "dump.json", "--budget=nan"], "expected a size such as"),
        (["explain", "dump.json", "--budget="], "expected a size such as"),
        (dict(pipeline=7), "32 layers as a multiple of 7 stages"),
        (dict(pipeline=0), "'pipeline' of at least 1"),
        (dict(tensor=-1), "0 or more"),
        (dict(tensor=64), "'tensor' to divide 'heads' = 32"),
        (dict(tensor=5), "to divide 8192 tokens"),
        (dict(microbatches=10**9), "at most 2,097,152"),
        (dict(capacity="nan"), "'capacity' between 1.0"),
        (dict(capacity="inf"), "'capacity' between 1.0"),
        (dict(capacity=2.0), "'capacity' between 1.0"),
        (dict(device="[]"), "a size such as 80GiB"),
        (dict(device=-1), "0 or more"),
        (dict(layout="Et*99999999|L"), "at most 100000 letters"),
        (dict(layout="(((t*9999)*9999)*9999)"), "at most 100000 letters"),
        (dict(layout="E" + "(" * 1000), "a layout of E, t, m, L"),
        (dict(layout='"\nschedule = "interleaved'), "'virtual' of at least 2"),
        (dict(model="nothing"), "a model of deepseek-v3"),
        (dict(model="../x.toml"), "cannot read"),
    ],
)
def test_what_does_not_do_is_said(root, tmp_path, monkeypatch, capsys, arguments, message):
    """Exit code 1 and one line `error: ...`, whatever is wrong."""
    monkeypatch.chdir(tmp_path)
    if isinstance(arguments, dict):
        (tmp_path / "job.toml").write_text(JOB.format(**{**FITS, **arguments}))
        arguments = ["rank", "--config=job.toml"]
    assert __main__.main(arguments) == 1
    written = capsys.readouterr()
    assert written.err.startswith("error: ") and message in written.err and len(written.err) < 1000
    assert written.out == "" and "Traceback" not in written.err


def test_a_job_that_does(tmp_path, capsys):
    (tmp_path / "job.toml").write_text(JOB.format(**{**FITS, "device": 85899345920}))
    assert __main__.main(["rank", f"--config={tmp_path / 'job.toml'}"]) == 0
    assert "rank 0 is the fullest" in capsys.readouterr().out


def test_full_disk(root):
    with open("/dev/full", "w") as full:
        result = subprocess.run([sys.executable, "-m", "fp8opt", "params", "--presets"], stdout=full,
                                stderr=subprocess.PIPE, text=True, env={"PYTHONPATH": str(root / "python")})
    assert (result.returncode, result.stderr) == (1, "error: cannot write the output: No space left on device\n")


def test_version(root):
    result = run(root, "--version")
    assert result.returncode == 0 and result.stdout.startswith("fp8opt ")


def test_listing_imports_no_library(root):
    code = "import sys, fp8opt.__main__ as m; m.main([]); print([n for n in ('numpy', 'torch', 'ml_dtypes') if n in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(root / "python")}
    )
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "text, size", [("80GiB", 80 * 2**30), ("1.5 MiB", 1572864), ("141GB", 141 * 10**9), ("12", 12), (f"{2**60 + 1}", 2**60 + 1), ("2 TB", 2 * 10**12)]
)
def test_sizes(text, size):
    assert command.parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "3 gib", "1e3", "nan"])
def test_bad_sizes(text):
    with pytest.raises(command.InputError, match="expected a size"):
        command.parse_bytes(text)
