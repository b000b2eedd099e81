# ===- test_audit.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The audit of memory snapshots: histories with one known thing in them, plans of fp8-opt, snapshots recorded on a GPU with
# planted faults, and pickles that are hostile, damaged or something else.
#
# ===----------------------------------=== #

import json
import lzma
import os
import pathlib
import pickle
import random
import time

import pytest
from recorder import Recorder

from fp8opt.audit import reading
from fp8opt.audit.main import main
from fp8opt.audit.snapshot import read_snapshot
from fp8opt.command import InputError

MIB = 1 << 20
FOLDER = pathlib.Path(__file__).parent / "snapshots"


def run(capsys, *arguments):
    """The audit as JSON."""
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def step(recorder, layers=4, extra=None, backward=None):
    """One forward and backward of a made-up model: 8 MiB kept a layer, temporaries of 3 MiB. `extra(layer)` runs in each layer
    of forward, `backward(layer)` in each of backward."""
    saved = []
    for layer in range(layers):
        saved.append(recorder.alloc(8 * MIB, ("model.py", 10, "forward"), ("train.py", 5, "main")))
        if extra:
            extra(layer)
        recorder.free(recorder.alloc(3 * MIB, ("model.py", 12, "forward"), ("train.py", 5, "main")))
    for layer in reversed(range(layers)):
        recorder.free(recorder.alloc(3 * MIB, ("model.py", 20, "backward")))
        if backward:
            backward(layer)
        recorder.free(saved[layer])


def test_growing_cache(tmp_path, capsys):
    recorder = Recorder()
    for _ in range(3):
        step(
            recorder,
            extra=lambda layer: recorder.alloc(2 * MIB + 100, ("cache.py", 7, "put"), ("model.py", 11, "forward")),
        )
    table = run(capsys, recorder.write(tmp_path / "s.pickle"))
    (finding,) = table["findings"]
    assert finding["kind"] == "grows" and finding["count"] == 12 and finding["bytes"] == 12 * (2 * MIB + 100)
    assert finding["lines"][0] == {"file": "cache.py", "line": 7, "function": "put"}
    assert table["rounds"] == 3


def test_a_round_begins_before_its_first_layer(tmp_path, capsys):
    recorder = Recorder()
    for _ in range(3):
        for _ in range(2):
            recorder.alloc(2 * MIB, ("cache.py", 7, "put"))
        step(recorder)
    (finding,) = run(capsys, recorder.write(tmp_path / "s.pickle"))["findings"]
    assert finding["why"].startswith("2 made in a round and never freed, in 3 of 3 rounds")


def test_state_made_once_does_not_grow(tmp_path, capsys):
    recorder = Recorder()
    for number in range(4):
        step(recorder)
        if number == 0:
            for _ in range(4):
                recorder.alloc(5 * MIB, ("adam.py", 3, "step"))
    assert run(capsys, recorder.write(tmp_path / "s.pickle"))["findings"] == []


def test_a_cache_that_is_emptied_does_not_grow(tmp_path, capsys):
    recorder = Recorder()
    held = []
    for _ in range(4):
        step(recorder, extra=lambda layer: held.append(recorder.alloc(2 * MIB, ("cache.py", 7, "put"))))
        while held:
            recorder.free(held.pop())
    assert run(capsys, recorder.write(tmp_path / "s.pickle"))["findings"] == []


def test_peak_and_what_is_reserved(tmp_path, capsys):
    recorder = Recorder()
    old = recorder.alloc(10 * MIB, ("model.py", 1, "__init__"))
    start = len(recorder.events)
    a = recorder.alloc(30 * MIB, ("a.py", 1, "a"))
    b = recorder.alloc(50 * MIB, ("b.py", 2, "b"))
    recorder.free(a, completed=False)
    c = recorder.alloc(40 * MIB, ("c.py", 3, "c"))
    recorder.free(b)
    recorder.free(c)
    recorder.free(old)
    table = run(capsys, recorder.write(tmp_path / "s.pickle", start))
    peak = table["peak"]
    # Segments of 64 MiB: 10 + 30, then 50, then 40.
    assert (
        peak["live_bytes"] == 100 * MIB
        and peak["reserved_bytes"] == 192 * MIB
        and peak["reserved_unused_bytes"] == 92 * MIB
    )
    assert peak["waiting_bytes"] == 30 * MIB
    assert peak["by_line"][0] == {"line": "b.py:2 b", "bytes": 50 * MIB, "allocations": 1}
    assert sum(row["bytes"] for row in table["unused_segments"]) == 92 * MIB


def small_job(tmp_path, **changes):
    """A job whose layer keeps its input (8 MiB), attention's tensors and so on, with no recomputation."""
    model = {"name": "m", "layers": 4, "hidden": 1024, "ffn": 2048, "heads": 8, "vocab": 4096}
    job = {"model": model, "sizes": {}, "batch": {"sequence": 4096}, **changes}
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job))
    return path


def bf16_step(recorder, layers, held=None, kept_gradients=None):
    """A step of `small_job` in bf16: every tensor that it keeps from forward to backward, in its order."""
    N, H, F = 4096, 1024, 2048
    kept = []

    def keep(size, line, function):
        kept.append(recorder.alloc(size, ("model.py", line, function), ("train.py", 5, "main")))

    for _ in range(layers):
        keep(2 * N * H, 1, "block")
        keep(2 * N * H, 2, "norm")
        for line in (3, 4, 5):
            keep(2 * N * H, line, "attention")
        keep(2 * N * H, 6, "attention")
        keep(2 * N * H, 7, "block")
        keep(2 * N * H, 8, "norm")
        keep(4 * N * F, 9, "mlp")
        if held is not None:
            held.append(recorder.alloc(2 * N * F + 2 * N * 512, ("model.py", 30, "stray")))
        keep(2 * N * F, 10, "mlp")
    for _ in range(layers):
        gradient = recorder.alloc(4 * N * F, ("model.py", 21, "backward"))
        if kept_gradients is None:
            recorder.free(gradient)
        else:
            kept_gradients.append(gradient)
        for _ in range(10):
            recorder.free(kept.pop())
    for pile in (held, kept_gradients):
        while pile:
            recorder.free(pile.pop(0))


def test_nothing_is_invented(tmp_path, capsys):
    recorder = Recorder()
    for _ in range(3):
        bf16_step(recorder, 4)
    table = run(capsys, recorder.write(tmp_path / "s.pickle"), "--config", small_job(tmp_path))
    assert table["findings"] == [] and table["rounds"] == 3


def test_something_the_plan_does_not_have(tmp_path, capsys):
    recorder, held = Recorder(), []
    for _ in range(3):
        bf16_step(recorder, 4, held=held)
    table = run(capsys, recorder.write(tmp_path / "s.pickle"), "--config", small_job(tmp_path))
    (finding,) = table["findings"]
    assert finding["kind"] == "unplanned" and finding["count"] == 4 and finding["each"] == 2 * 4096 * 2560
    assert finding["lines"][0]["function"] == "stray"


def test_gradients_kept_to_the_end(tmp_path, capsys):
    recorder, gradients = Recorder(), []
    for _ in range(3):
        bf16_step(recorder, 4, kept_gradients=gradients)
    table = run(capsys, recorder.write(tmp_path / "s.pickle"), "--config", small_job(tmp_path))
    (finding,) = table["findings"]
    assert (finding["kind"], finding["tensor"]) == ("outlived", "d.fc1.out")
    assert finding["bytes"] == 4 * 4 * 4096 * 2048


def test_one_more_than_the_plan_is_no_finding(tmp_path, capsys):
    recorder = Recorder()
    for _ in range(3):
        other = recorder.alloc(4 * 4096 * 2048, ("embedding.py", 1, "forward"))
        bf16_step(recorder, 4)
        recorder.free(other)
    assert run(capsys, recorder.write(tmp_path / "s.pickle"), "--config", small_job(tmp_path))["findings"] == []


def test_fewer_layers_than_the_job_says_is_no_finding(tmp_path, capsys):
    recorder = Recorder()
    for _ in range(3):
        bf16_step(recorder, 3)
    assert run(capsys, recorder.write(tmp_path / "s.pickle"), "--config", small_job(tmp_path))["findings"] == []


@pytest.fixture(scope="module")
def plan(fp8_opt, root):
    """The plan of the small feed-forward example, keeping everything."""
    return json.loads(
        fp8_opt(["--compile=policy=save-all", "--emit=plan"], (root / "examples/llama3_ffn_small.mlir").read_text())
    )


def play(recorder, plan, held=""):
    """Allocates and frees as a plan says; values of layers named like `held` are freed at the end of backward instead. A plan
    does not say when the second result of a kernel is made: here just before it is read last."""
    freed = {entry["value"]: entry for entry in plan["frees"]}
    sizes = {entry["value"]: entry["bytes"] for entry in plan["frees"] + plan["saved"]}
    saved = {entry["value"] for entry in plan["saved"]}
    timeline = [entry["op"] for entry in plan["timeline"]]
    made, ends = {}, {}
    for value in sizes:
        layer = ".".join(value.split(".")[:2])
        own = value if value in timeline else f"{layer}.down" if value in saved else freed[value]["after"]
        made.setdefault(own, []).append(value)
    for value, entry in freed.items():
        ends.setdefault(entry["after"], []).append(value)
    live, late = {}, []
    border = min(timeline.index(entry["naive_after"]) for entry in plan["frees"])
    for index, op in enumerate(timeline):
        for value in made.get(op, []):
            function = "".join(c for c in value.replace(".", "_") if not c.isdigit())
            caller = ("train.py", 1, "main") if index <= border else ("train.py", 2, "backward")
            live[value] = recorder.alloc(sizes[value], ("model.py", 1, function), caller)
        for value in ends.get(op, []):
            handle = live.pop(value)
            if held and value.startswith("layers.") and value.endswith(held):
                late.append(handle)
            else:
                recorder.free(handle)
    for handle in [*reversed(live.values()), *late]:
        recorder.free(handle)


def test_plan_of_the_compiler(plan, tmp_path, capsys):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    recorder = Recorder()
    for _ in range(3):
        play(recorder, plan)
    table = run(capsys, recorder.write(tmp_path / "s.pickle"), "--plan", path, "--smallest=64KiB")
    assert table["findings"] == [] and table["rounds"] == 3
    recorder = Recorder()
    for _ in range(3):
        play(recorder, plan, held="down")
    size = next(entry["bytes"] for entry in plan["frees"] if entry["value"] == "layers.0.down")
    table = run(capsys, recorder.write(tmp_path / "s.pickle"), "--plan", path, "--smallest=64KiB")
    assert [(f["tensor"], f["each"]) for f in table["findings"]] == [("layers.*.down", size)]


@pytest.mark.parametrize(
    "text, message", [("{}", "'schema'"), ("[", "is not JSON"), ('{"schema": "fp8opt-plan-1"}', "keys of a plan")]
)
def test_bad_plans(tmp_path, text, message):
    recorder = Recorder()
    step(recorder)
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        main([str(recorder.write(tmp_path / "s.pickle")), "--plan", str(path)])


# Snapshots that bench/snapshots.py recorded on an H200, with what each must give.
INDEX = json.loads((FOLDER / "index.json").read_text()) if (FOLDER / "index.json").exists() else {}


@pytest.mark.parametrize("name", INDEX)
def test_recorded_snapshots(name, capsys):
    table = run(capsys, FOLDER / f"{name}.pickle.xz", "--config", FOLDER / f"{name}.json")
    found = [(f["kind"], f["tensor"], f["each"], f["count"]) for f in table["findings"]]
    steps = INDEX[name]["steps"]
    expected = [
        (e["kind"], e["tensor"], e["each"], e["count"] * (steps if e["kind"] == "grows" else 1))
        for e in INDEX[name]["expected"]
    ]
    assert found == expected
    for finding, entry in zip(table["findings"], INDEX[name]["expected"]):
        assert (
            finding["lines"][0]["file"] == "bench/snapshots.py" and finding["lines"][0]["function"] == entry["function"]
        )


@pytest.mark.parametrize("name", INDEX)
def test_recorded_peaks(name, capsys):
    """The history adds up to what the allocator itself counted: bytes asked for exactly, its blocks a little more."""
    table = run(capsys, FOLDER / f"{name}.pickle.xz")
    live = table["peak"]["live_bytes"]
    assert INDEX[name].get("requested_peak_bytes", live) == live
    assert 0 <= INDEX[name]["peak_bytes"] - live < 0.05 * live
    assert table["peak"]["reserved_bytes"] >= INDEX[name]["peak_bytes"]


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/fp8opt-audit-was-here",)


def opcodes(*parts):
    return b"\x80\x04" + b"".join(parts) + b"."


HOSTILE = {
    "reduce": pickle.dumps(Evil()),
    "reduce in a snapshot": pickle.dumps({"segments": [], "device_traces": [[Evil()]]}),
    "old reduce": pickle.dumps(Evil(), protocol=0),
    "global": b"cos\nsystem\n(S'true'\ntR.",
    "stack global": opcodes(b"\x8c\x08builtins\x8c\x04eval\x93"),
    "inst": b"(S'true'\nios\nsystem\n.",
    "harmless class": pickle.dumps(pathlib.PurePosixPath("x")),
    "extension": opcodes(b"\x82\x01"),
    "persistent": b"Pname\n.",
    "binary persistent": opcodes(b"N\x51"),
    "memo bomb": opcodes(b"]r\xff\xff\xff\x7f"),
    "bytes bomb": opcodes(b"\x8e" + (1 << 40).to_bytes(8, "little")),
    "bytearray bomb": b"\x80\x05\x96" + (1 << 62).to_bytes(8, "little") + b".",
    "frame bomb": opcodes(b"\x95" + (1 << 60).to_bytes(8, "little")),
    "build": opcodes(b"}}b"),
    "call a list": opcodes(b"])R"),
    "make a list": opcodes(b"])\x81"),
    "deep": b"(" * 100000 + b"t" * 100000 + b".",
    "nothing": b"",
    "text": b"hello",
    "no end": pickle.dumps({"segments": []})[:-1],
    "underflow": b"t.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles(name, tmp_path):
    path, mark = tmp_path / "s.pickle", pathlib.Path("/tmp/fp8opt-audit-was-here")
    mark.unlink(missing_ok=True)
    path.write_bytes(HOSTILE[name])
    with pytest.raises(InputError):
        read_snapshot(path)
    assert not mark.exists()


def test_memory_is_limited_while_reading(tmp_path):
    """An index into the memo that asks for 2.4 GB."""
    path = tmp_path / "s.pickle"
    path.write_bytes(opcodes(b"]r" + (150_000_000).to_bytes(4, "little")))
    with pytest.raises(InputError, match="asks for more memory"):
        read_snapshot(path)


def snapshots_of_other_shapes():
    recorder = Recorder()
    step(recorder)
    good = recorder.snapshot()
    itself = []
    itself.append(itself)
    event = good["device_traces"][0][0]
    wrong = [None, 3, [], {}, itself, "x", -1, 1 << 4000, 2.5, b"x" * 1000]
    yield from ({**good, "device_traces": value} for value in wrong)
    yield from ({**good, "segments": value} for value in wrong)
    for key in ("action", "addr", "size", "frames"):
        yield from ({**good, "device_traces": [[{**event, key: value}]]} for value in wrong)
    yield from ({**good, "device_traces": [[value]]} for value in wrong)
    yield from ({**good, "segments": [value]} for value in wrong)
    for key in ("blocks", "total_size", "address", "frames"):
        yield from ({**good, "segments": [{**good["segments"][0], key: value}]} for value in wrong)
    yield from ({**good, "segments": [{**good["segments"][0], "blocks": [value]}]} for value in wrong)
    block = {"size": 512, "address": 1, "state": "active_allocated", "frames": []}
    for key in block:
        yield from (
            {**good, "segments": [{**good["segments"][0], "blocks": [{**block, key: value}]}]} for value in wrong
        )
    alloc = good["device_traces"][0][1]
    yield from ({**good, "device_traces": [[{**alloc, "frames": [value]}]]} for value in wrong)
    for key in ("filename", "line", "name"):
        frame = {"filename": "f", "line": 1, "name": "n"}
        yield from ({**good, "device_traces": [[{**alloc, "frames": [{**frame, key: value}]}]]} for value in wrong)


def test_snapshots_of_other_shapes(tmp_path, capsys):
    """Whatever plain containers hold, there is an answer or an error that a user can read."""
    path = tmp_path / "s.pickle"
    refused = 0
    for data in snapshots_of_other_shapes():
        path.write_bytes(pickle.dumps(data))
        try:
            main([str(path)])
        except InputError as error:
            assert len(str(error)) < 600
            refused += 1
    capsys.readouterr()
    assert refused > 80


def test_damaged_snapshots(tmp_path, capsys):
    recorder = Recorder()
    for _ in range(2):
        step(recorder)
    data = pickle.dumps(recorder.snapshot())
    path, generator = tmp_path / "s.pickle", random.Random(1)
    for _ in range(400):
        broken = bytearray(data)
        for _ in range(generator.randint(1, 4)):
            broken[generator.randrange(len(broken))] = generator.randrange(256)
        path.write_bytes(bytes(broken[: generator.choice([len(broken), generator.randrange(len(broken))])]))
        try:
            main([str(path)])
        except InputError:
            pass
    capsys.readouterr()


def test_compressed_files(tmp_path, capsys, monkeypatch):
    recorder = Recorder()
    step(recorder)
    data = lzma.compress(pickle.dumps(recorder.snapshot()))
    path = tmp_path / "s.pickle.xz"
    path.write_bytes(data)
    assert run(capsys, path)["rounds"] == 1
    path.write_bytes(data[:-10])
    with pytest.raises(InputError, match="is damaged"):
        read_snapshot(path)
    monkeypatch.setattr(reading, "LARGEST", 1000)
    path.write_bytes(data)
    with pytest.raises(InputError, match="expands to more"):
        read_snapshot(path)


def test_no_history(tmp_path):
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [[]]}))
    with pytest.raises(InputError, match="_record_memory_history"):
        read_snapshot(path)
    with pytest.raises(InputError, match="cannot read"):
        read_snapshot(tmp_path / "none.pickle")


def test_speed(tmp_path, capsys):
    """A tenth of 200 MB, whose frames are shared objects as PyTorch writes them, in a tenth of 20 s of processor time."""
    recorder = Recorder()
    frames = [
        [
            {"filename": f"megatron/core/file{j % 40}.py", "line": (k * 7 + j) % 900, "name": f"f{j % 60}"}
            for j in range(30)
        ]
        for k in range(20)
    ]
    while len(recorder.events) < 110000:
        step(recorder, layers=60)
    for index, event in enumerate(recorder.events):
        event["frames"], event["time_us"] = list(frames[index % 20]), index
    path = recorder.write(tmp_path / "s.pickle")
    assert path.stat().st_size > 18e6
    start = time.process_time()
    run(capsys, path)
    assert time.process_time() - start < 2


def pipelined(recorder, ranks, microbatches, layers, held=0):
    """1F1B on the first rank: as many microbatches in flight as ranks, freed first in, first out. `held` of 20 MiB a layer."""
    N, H, F = 4096, 1024, 2048
    flying = []

    def forward():
        kept = []
        for layer in range(layers):
            for line in range(8):
                kept.append(recorder.alloc(2 * N * H, ("model.py", line, "forward")))
            kept.append(recorder.alloc(4 * N * F, ("model.py", 9, "mlp")))
            kept.append(recorder.alloc(2 * N * F, ("model.py", 10, "mlp")))
            if held:
                kept.append(recorder.alloc(20 * MIB, ("model.py", 30, "stray")))
        flying.append(kept)

    def backward():
        for handle in reversed(flying.pop(0)):
            recorder.free(handle)

    for _ in range(ranks - 1):
        forward()
    for _ in range(microbatches - ranks + 1):
        forward()
        backward()
    while flying:
        backward()


def test_microbatches_in_flight(tmp_path, capsys):
    job = small_job(tmp_path, sizes={"pipeline": 4}, schedule="1f1b", batch={"sequence": 4096, "microbatches": 8})
    recorder = Recorder()
    for _ in range(3):
        pipelined(recorder, 4, 8, 1)
    table = run(capsys, recorder.write(tmp_path / "s.pickle"), "--config", job)
    assert table["findings"] == [] and table["rounds"] == 3
    recorder = Recorder()
    for _ in range(3):
        pipelined(recorder, 4, 8, 1, held=1)
    table = run(capsys, recorder.write(tmp_path / "s.pickle"), "--config", job)
    (finding,) = table["findings"]
    assert (
        finding["kind"] == "unplanned"
        and finding["bytes"] == 4 * 20 * MIB
        and finding["lines"][0]["function"] == "stray"
    )


def test_a_cache_grows_in_a_pipeline(tmp_path, capsys):
    recorder = Recorder()
    for _ in range(3):
        pipelined(recorder, 4, 8, 1)
        for _ in range(2):
            recorder.alloc(3 * MIB, ("cache.py", 7, "put"))
    (finding,) = run(capsys, recorder.write(tmp_path / "s.pickle"))["findings"]
    assert finding["kind"] == "grows" and finding["bytes"] == 6 * 3 * MIB
