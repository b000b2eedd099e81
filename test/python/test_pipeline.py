# ===- test_pipeline.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Pipeline schedules: what the simulation counts against closed forms and published tables, a schedule of a published figure
# step by step, schedules of a user, and those that cannot run.
#
# ===----------------------------------=== #

import json
import re

import pytest

from fp8opt.command import InputError
from fp8opt.pipeline import (
    Durations,
    check_schedule,
    idle_fraction,
    in_flight,
    make_schedule,
    peak_in_flight,
    read_schedule,
    run,
)
from fp8opt.pipeline.main import main

NAMES = ("1f1b", "interleaved", "zero-bubble", "zero-bubble-h2", "zero-bubble-v", "dualpipe", "dualpipev")


@pytest.mark.parametrize("p", [1, 2, 4, 7, 8, 16])
@pytest.mark.parametrize("m", [1, 3, 16, 40])
def test_1f1b_closed_form(p, m):
    assert peak_in_flight(make_schedule("1f1b", p, m)) == [min(p - rank, m) for rank in range(p)]


@pytest.mark.parametrize("p, v", [(2, 2), (4, 3), (8, 4), (16, 2), (3, 5)])
def test_interleaved_closed_form(p, v):
    m = 4 * p
    expected = [2 * (p - 1 - rank) + (v - 1) * p + 1 for rank in range(p)]
    assert peak_in_flight(make_schedule("interleaved", p, m, v)) == expected


def test_interleaved_of_deepseek():
    assert peak_in_flight(make_schedule("interleaved", 8, 64, 4))[0] == 39


# README of sail-sg/zero-bubble-pipeline-parallelism and arXiv 2401.10241, table 1 and section 6: peak of activations in units
# of one microbatch of one device: ZB-H1 p, ZB-H2 2p - 1, ZB-V p, whose chunks are half a device's layers.
@pytest.mark.parametrize("p", [2, 4, 8, 12])
def test_zero_bubble_tables(p):
    m = 4 * p
    assert peak_in_flight(make_schedule("zero-bubble", p, m)) == [p] * p
    assert peak_in_flight(make_schedule("zero-bubble-h2", p, m)) == [2 * p - 1] * p
    assert peak_in_flight(make_schedule("zero-bubble-v", p, m)) == [2 * p] * p


# README of deepseek-ai/DualPipe: activations PP + 1; DualPipeV runs the same on half the devices, PP = 2p stages.
@pytest.mark.parametrize("p", [2, 4, 8, 12])
def test_dualpipe_tables(p):
    assert peak_in_flight(make_schedule("dualpipe", p, 4 * p)) == [p + 1] * p
    assert peak_in_flight(make_schedule("dualpipev", p, 4 * p)) == [2 * p + 1] * p


def bubble(name, p, m, times):
    """Time of the whole step in which the rank that idles most does nothing."""
    timed = run(make_schedule(name, p, m), times, name)
    end = max(steps[-1].end for steps in timed)
    idle = []
    for steps in timed:
        busy, last = 0.0, 0.0
        for step in steps:
            busy += max(0.0, step.end - max(step.start, last))
            last = max(last, step.end)
        idle.append(end - busy)
    return max(idle)


# The same tables: idle time of the device that idles most. F, B (whole backward) and W as there; two overlapped chunks take as long as the longer.
@pytest.mark.parametrize("p", [2, 4, 8])
def test_published_bubbles(p):
    m, times = 4 * p, Durations(1, 1, 1)
    f, b, w = 1, 2, 1
    assert bubble("1f1b", p, m, times) == (p - 1) * (f + b)
    assert bubble("zero-bubble", p, m, times) == (p - 1) * (f + b - 2 * w)
    assert bubble("dualpipe", p, m, times) == (p // 2 - 1) * (max(f, b) + b - 3 * w)


@pytest.mark.parametrize("name", ["zero-bubble-h2", "zero-bubble-v"])
def test_no_bubble(name):
    timed = run(make_schedule(name, 6, 24), name=name)
    assert idle_fraction(timed) == [0.0] * 6


# arXiv 2104.04473, figure 4 (lower half), device 1 of 4 with 2 chunks and 8 microbatches: the forward steps before the first
# backward, then one forward, one backward.
def test_interleaved_step_by_step():
    steps = [str(step) for step in make_schedule("interleaved", 4, 8, 2)[0]]
    first = (
        "F0.0 F0.1 F0.2 F0.3 F1.0 F1.1 F1.2 F1.3 F0.4 F0.5 F0.6 B1.0 F0.7 B1.1 F1.4 B1.2 F1.5 B1.3 F1.6 B0.0 F1.7 B0.1"
    )
    assert " ".join(steps).startswith(first)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("p, factor", [(2, 2), (4, 2), (4, 5), (8, 3)])
def test_every_schedule_runs_to_its_end(name, p, factor):
    m = factor * p
    schedule = make_schedule(name, p, m, 2 if name == "interleaved" else 1)
    timed = run(schedule, Durations(1.0, 1.3, 0.7), name)
    directions = 2 if name == "dualpipe" else 1
    chunks = 1 if name in ("1f1b", "zero-bubble", "zero-bubble-h2") else 2
    for steps in timed:
        assert sum(s.step.kind == "F" for s in steps) == m * chunks // directions
        assert all(a.start <= b.start for a, b in zip(steps, steps[1:]))
        points = in_flight([s.step for s in steps])
        assert points[-1].count == 1  # the last step frees what is left


def test_users_schedule():
    schedule = read_schedule([["F0", "F1", "D0", "W0", "B1"], ["F0", "B0", "F0.1", "B0.1"]])
    assert peak_in_flight(schedule) == [2, 1]
    timed = run(schedule)
    assert timed[0][2].start == 4  # D0 of rank 0 after B0 of rank 1: F 1, F 1, B 2


@pytest.mark.parametrize(
    "table, message",
    [
        ({}, "a list of ranks"),
        ([["G0"]], "a step such as F0.3"),
        ([["G" * 1000]], "a step such as F0.3"),
        ([[]], "rank 0: expected steps"),
        ([["F0", "B0"], []], "rank 1: expected steps"),
        ([["&F0", "B0"]], "expected a step before '&F0'"),
        ([["F0", "F0"]], "this is a second"),
        ([["B0"]], "expected F0.0 before it"),
        ([["F0", "B0", "W0"]], "and no B"),
        ([["F0", "D0"]], "found neither to the end"),
        ([["F0", "B0", "B0"]], "this is a second"),
        ([["F1", "B1", "F0", "B0"], ["F0", "B0", "F1", "B1"]], "waits for ever"),
        ([["F0", "B0"], ["F1", "B1"]], "waits for ever"),
    ],
)
def test_schedules_that_cannot_run(table, message):
    with pytest.raises(InputError, match=message):
        run(read_schedule(table))


@pytest.mark.parametrize(
    "name, p, m, message",
    [
        ("gpipe", 2, 2, "a schedule of"),
        ("interleaved", 4, 6, "as a multiple of 4"),
        ("dualpipe", 3, 8, "even number"),
        ("dualpipe", 4, 6, "at least 8"),
        ("dualpipev", 4, 6, "at least 8"),
        ("1f1b", 0, 1, "pipeline ranks"),
    ],
)
def test_sizes_that_a_schedule_does_not_take(name, p, m, message):
    with pytest.raises(InputError, match=message):
        make_schedule(name, p, m)


def test_command(tmp_path, capsys):
    assert main(["--schedule=interleaved", "--pp=8", "--vp=4", "--microbatches=32", "--saved=112MiB", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table[0]["in_flight"] == 39 and table[0]["bytes"] == 39 * 112 * 2**20
    assert (
        main(
            ["--schedule=zero-bubble", "--pp=4", "--microbatches=8", "--saved=10MiB", "--deferred=4MiB", "--timeline=3"]
        )
        == 0
    )
    text = capsys.readouterr().out
    # Four in flight on the last rank, three of them only wait for their weights' part.
    assert re.search(r"^F0\.4 .* 4 +3 +22$", text, re.MULTILINE)
    path = tmp_path / "mine.json"
    path.write_text('[["F0", "B0"]]')
    assert main(["--steps", str(path)]) == 0
    path.write_text("[[")
    with pytest.raises(InputError, match="mine.json"):
        main(["--steps", str(path)])


def test_weights_part_first_is_refused():
    with pytest.raises(InputError, match="expected D0.0 before it"):
        check_schedule(read_schedule([["F0", "W0", "D0"]]))
