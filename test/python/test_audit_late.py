# ===- test_audit_late.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The audit of a pipeline rank whose gathered tensors live too long: the history of the job of TransformerEngine pull request
# 2125, allocation by allocation, as PyTorch would record it, with late frees and without.
#
# ===----------------------------------=== #

import dataclasses
import json
import pathlib
import pickle

import pytest

from fp8opt.audit.main import main
from fp8opt.job import load_job
from fp8opt.rank.allocator import Allocator
from fp8opt.rank.replay import Replay

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = ROOT / "examples/jobs/deepseek-v3-64k-512.toml"


class Recorded(Allocator):
    """An allocator that writes a history; `line` is where the next allocation comes from."""

    def __init__(self):
        super().__init__()
        self.history, self.sizes, self.known, self.line = [], {}, {}, ("parameters.py", "build")

    def frames(self):
        file, function = self.line
        return self.known.setdefault(self.line, [{"filename": file, "line": 1, "name": function}])

    def event(self, action, address, size):
        self.history.append(
            {"action": action, "addr": address, "size": size, "stream": 0, "frames": self.frames()},
        )

    def allocate(self, size):
        before = len(self.segments)
        address = super().allocate(size)
        for grown in self.segments[before:]:
            self.event("segment_alloc", address, grown)
        self.event("alloc", address, size)
        self.sizes[address] = size
        return address

    def free(self, address):
        super().free(address)
        for action in ("free_requested", "free_completed"):
            self.event(action, address, self.sizes[address])


class Recording(Replay):
    """A step with a line for each tensor: the module and the tensor's name."""

    def make(self, walked, index, number):
        name = walked.lives[number].name
        point = walked.points[index]
        turn = "backward" if point.backward and not point.again else "forward"
        self.allocator.line = name.split(".")[0] + ".py", f"{name.replace('.', '_')}_{turn}"
        return super().make(walked, index, number)


def record(monkeypatch, job, path):
    monkeypatch.setattr("fp8opt.rank.replay.Allocator", lambda expandable: Recorded())
    step = Recording(job, 0)
    step.run()
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [step.allocator.history]}))


def found(capsys, snapshot, config):
    assert main([str(snapshot), f"--config={config}", "--json", "--smallest=64MiB"]) == 0
    return json.loads(capsys.readouterr().out)["findings"]


@pytest.mark.parametrize("held", [False, True])
def test_tensors_held_by_coalesced_gathers(monkeypatch, tmp_path, capsys, held):
    text = FILE.read_text().replace("microbatches = 240", "microbatches = 16").replace('"expandable"', '"segments"')
    (tmp_path / "job.toml").write_text(text)
    (tmp_path / "late.toml").write_text('frees = "late"\nahead = 1\n' + text)
    job = load_job(str(tmp_path / "late.toml"))
    record(
        monkeypatch,
        job if held else dataclasses.replace(job, frees="prompt", ahead=0),
        tmp_path / "snapshot.pickle",
    )
    # A plan that knows of them finds nothing, nor is there anything where they are freed at once.
    assert found(capsys, tmp_path / "snapshot.pickle", tmp_path / "late.toml") == []
    findings = found(capsys, tmp_path / "snapshot.pickle", tmp_path / "job.toml")
    if not held:
        assert findings == []
        return
    wide = [finding for finding in findings if finding["each"] == 65536 * 7168 * 33 // 32]
    # Two steps' worth of the three dense layers' six, of which four are the plan's own at the fullest moment.
    assert sum(finding["count"] for finding in wide) == 2 * 18 - 4
    assert {finding["kind"] for finding in findings} == {"outlived"}
    assert all(finding["tensor"].endswith("gathered") for finding in wide)
    assert {finding["lines"][0]["file"] for finding in wide} == {"fc1.py", "fc2.py", "o_proj.py"}
