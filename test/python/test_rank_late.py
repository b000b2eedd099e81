# ===- test_rank_late.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Late frees: which tensors they hold and until when, against the counts and figures of TransformerEngine pull request 2125; and
# what lies beside the tensors: the allocator against histories recorded on an H200, buffers against sums by hand.
#
# ===----------------------------------=== #

import dataclasses
import pathlib
import re

import pytest

from fp8opt.audit.reading import load_plain_pickle
from fp8opt.command import InputError
from fp8opt.job import Batch, Buffers, Job, Recompute, Sizes, load_job
from fp8opt.models import load_model
from fp8opt.params import Precision
from fp8opt.rank.allocator import Allocator
from fp8opt.rank.buffers import deepep_bytes, nccl_bytes, nccl_groups
from fp8opt.rank.fit import choices, lightest
from fp8opt.rank.graph import Graph, Op, Policy, walk
from fp8opt.rank.layers import layer_graph
from fp8opt.rank.memory import Carried, PassCost, rank_memory, stage_cost
from fp8opt.rank.replay import replay

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 2**20
THREAD = load_job(str(ROOT / "examples/jobs/deepseek-v3-64k-512.toml"))
LATE = dataclasses.replace(THREAD, frees="late")
BEFORE, AFTER = (dataclasses.replace(THREAD, frees=frees, ahead=1) for frees in ("late", "emptied"))


def wide(lives):
    """Those of 65,536 x 7,168 bytes with a scale for 128 of them."""
    return [life.name for life in lives if life.bytes == 65536 * 7168 * 33 // 32]


@pytest.mark.parametrize("layer, mlp", [(0, ""), (3, "shared.")])
def test_each_layer_has_six_of_the_threads_tensors(layer, mlp):
    """The thread counts 6 in an MoE layer and 18 in the dense layers, of which there are three."""
    steps = walk(layer_graph(LATE, layer), Policy(everything=True, frees="late"))
    border = next(i for i, point in enumerate(steps.points) if point.backward)
    late = set(layer_graph(LATE, layer).gathered)
    gathered = [life for life in steps.lives if life.born >= border and life.name in late]
    assert sorted(wide(gathered)) == sorted(
        f"{mlp}{name}" if name.startswith("fc") else name
        for name in ("fc1.gathered", "fc1.regathered", "fc2.dy_gathered", "fc2.dyt_gathered")
        + ("o_proj.dy_gathered", "o_proj.dyt_gathered")
    )


def test_the_first_stage_holds_the_threads_eighteen():
    """18 x 65,536 x 7,168 B, 7.875 GiB, at the end of backward of the three dense layers, in which nothing waits."""
    parts = [part.layer for part in LATE.stages()[0] if part.kind == "layer"]
    assert parts == [0, 1, 2]
    held = [
        name
        for layer in parts
        for name in wide(
            life
            for life in walk(layer_graph(LATE, layer), Policy(everything=True, frees="late")).lives
            if life.held and life.dies > 30
        )
    ]
    assert len(held) == 18 and 18 * 65536 * 7168 / 2**30 == 7.875
    cost = stage_cost(LATE, 0)
    assert cost.backward.first_wait == len(cost.backward.live)
    assert 18 * 462 * MIB < cost.backward.held < 1.2 * 18 * 462 * MIB
    # An MoE layer ends the wait of the layer behind it, so that one layer's are held.
    assert stage_cost(LATE, 1).backward.held < 6 * 462 * MIB


def test_the_reported_figures():
    """59,187 and 40,777 MB and their difference, each within 10 %, on the rank with the dense layers."""
    before, after = rank_memory(BEFORE, 0).bytes, rank_memory(AFTER, 0).bytes
    page = (ROOT / "docs/rank.md").read_text()
    for reported, here in ((59187, before), (40777, after), (59187 - 40777, before - after)):
        for unit in (10**6, MIB):  # whichever of the two is meant
            assert abs(here / unit / reported - 1) <= 0.10
        shown = [f"{here / unit:,.0f} | {100 * (here / unit / reported - 1):+.1f} %" for unit in (10**6, MIB)]
        assert f"| {reported:,} | {shown[0]} | {shown[1]} |" in page
    for path, name in (("deepseek-v3-64k-512", "512 GPUs"), ("deepseek-v3-64k", "256 GPUs")):
        job = load_job(str(ROOT / f"examples/jobs/{path}.toml"))
        jobs = [dataclasses.replace(job, frees="emptied", ahead=1)]
        jobs += [dataclasses.replace(job, frees="late", ahead=ahead) for ahead in (0, 1, 2)]
        row = " | ".join(f"{rank_memory(job, 0).bytes / MIB:,.0f}" for job in jobs)
        assert any(line.startswith(f"| {name}") and row in line for line in page.splitlines())


def test_the_difference_item_by_item():
    """The rows of the table in docs/rank.md, each by its own sum."""
    before, after = rank_memory(BEFORE, 0), rank_memory(AFTER, 0)
    held = stage_cost(BEFORE, 0).backward.held - stage_cost(AFTER, 0).backward.held
    six = 18 * 65536 * 7168 * 33 // 32
    latents = 3 * 2 * 65536 * (1536 + 512) * 33 // 32
    assert held == six + latents
    tensors = before.peak.bytes - after.peak.bytes
    rows = [six, latents, held, tensors - 2 * held, before.unused - after.unused, before.bytes - after.bytes]
    assert sum(rows[:5]) == rows[5]
    page = (ROOT / "docs/rank.md").read_text()
    start = page.index("Item by item, what the difference is made of:")
    shown = re.findall(r"\| (-?[\d,]+) \|$", page[start : start + 900], re.MULTILINE)[:6]
    assert shown == [f"{row / MIB:,.0f}" for row in rows]


def test_what_fits_and_what_it_gains():
    """267 to 307 TFLOPS by a lighter recomputation that fits since; the gain in compute is more, as communication stays."""
    device = 75 * 2**30
    before, after = lightest(choices(BEFORE, 0), device), lightest(choices(AFTER, 0), device)
    assert before.bytes <= device and "core_attn" in before.recompute.modules
    assert after.recompute.modules == ("mla_up_proj", "mlp", "moe")
    recipe = Recompute("selective", ("mla_up_proj", "moe", "mlp", "layernorm"))
    times = []
    for policy in (Recompute("full"), recipe):
        costs = [stage_cost(dataclasses.replace(THREAD, recompute=policy), stage) for stage in range(32)]
        times.append(sum(cost.forward_us + cost.backward_us + cost.again_us for cost in costs))
    assert 307 / 267 < times[0] / times[1] < 1.25


def test_only_coalesced_gathers_are_late():
    """TransformerEngine coalesces the gathers of the block and the MXFP8 recipe only."""
    for precision in (Precision(), Precision(compute="fp8", recipe="tensorwise")):
        graph = layer_graph(dataclasses.replace(LATE, precision=precision), 3)
        assert not graph.sent and not graph.gathered


def test_a_wait_ends_what_is_held():
    graph = Graph(
        "x",
        "y",
        {"x": 1, "a": 10, "b": 100, "y": 1000, "d.y": 1000, "d.x": 1},
        [
            Op("gather", ("x",), ("a",)),
            Op("use", ("a",), ("b",)),
            Op("wait", ("b",), ("c",)),
            Op("last", ("c",), ("y",)),
        ],
        [Op("back", ("x", "d.y"), ("d.x",))],
        sent=["a"],
        gathered=["b"],
        waits=frozenset({"wait"}),
    )
    graph.bytes["c"] = 10000
    steps = walk(graph, Policy(frees="late"))
    lives = {life.name: life for life in steps.lives}
    assert (lives["a"].dies, lives["a"].held) == (1, False)  # read last before the wait
    assert (lives["b"].dies, lives["b"].held) == (3, True)  # read by what waits: to the end
    assert steps.held(backward=False) == 100 and steps.held(backward=True) == 0
    assert [point.live for point in steps.points] == [11, 111, 10101, 11101, 1002]


def test_what_earlier_steps_leave():
    holds, frees = PassCost((5, 7), ("a", "b"), 2, 3), PassCost((5, 7), ("a", "b"), 1, 4)
    carried = Carried(2)
    seen = []
    for cost in (holds, holds, holds, frees, holds, None):
        seen.append(carried.bytes)
        carried.after(cost)
    assert seen == [0, 3, 6, 6, 4, 7] and carried.bytes == 3
    assert Carried(0).bytes == 0
    assert PassCost((5, 7), ("a", "b"), 0, 4).peak(10) == (7, "b") and PassCost((), (), 0, 0).peak(10) == (10, "")
    assert holds.peak(10) == (17, "b") and frees.peak(10) == (15, "a") and frees.peak(1) == (7, "b")


@pytest.mark.parametrize("frees, ahead", [("prompt", 0), ("emptied", 1), ("late", 0), ("late", 1), ("late", 2)])
@pytest.mark.parametrize("rank", [0, 3, 7])
def test_step_by_step_the_peak_is_the_same(frees, ahead, rank):
    """The sums of rank_memory against every allocation of the step made and freed in order."""
    job = dataclasses.replace(
        THREAD, frees=frees, ahead=ahead, allocator="none", batch=Batch(65536, 1, 64), buffers=Buffers(), overhead=0
    )
    replayed = replay(dataclasses.replace(job, allocator="expandable"), rank)
    assert abs(replayed.allocated - rank_memory(job, rank).bytes) < MIB
    assert replayed.allocated <= replayed.reserved


def test_step_by_step_without_experts():
    job = load_job(str(ROOT / "examples/jobs/llama3-70b.toml"))
    for rank in range(4):
        memory = rank_memory(job, rank)
        replayed = replay(dataclasses.replace(job, allocator="expandable"), rank)
        assert abs(replayed.allocated - memory.bytes + job.overhead) < MIB
        more = rank_memory(dataclasses.replace(job, allocator="segments"), rank)
        assert memory.unused == 0 and 0 < more.unused == more.bytes - memory.bytes


class Recorded(Allocator):
    """The allocator with the addresses that the driver gave to segments."""

    def __init__(self, addresses):
        super().__init__()
        self.addresses = addresses

    def place(self, size):
        return self.addresses.pop(0)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "test/python/snapshots").glob("*.pickle.xz")), ids=lambda path: path.name
)
def test_the_allocator_is_pytorchs(path):
    """Every segment that PyTorch reserved on an H200, in order and to the byte, from the allocations and frees alone."""
    snapshot = load_plain_pickle(path)
    trace = max(snapshot["device_traces"], key=len)
    grown = [event["addr"] for event in trace if event["action"] == "segment_alloc"]
    made = {event["addr"] for event in trace if event["action"] == "alloc"}
    # What was there before the history: whole segments, cut into the blocks that were in use and those that were not.
    older = [segment for segment in snapshot["segments"] if segment["address"] not in grown]
    allocator, places = Recorded([segment["address"] for segment in older] + grown), {}
    unused = []
    for segment in older:
        if segment["segment_type"] == "large":
            allocator.free(allocator.allocate(segment["total_size"]))
        for block in segment["blocks"]:
            place = allocator.allocate(block["size"])
            if block["state"] != "active_allocated" or block["address"] in made:
                unused.append(place)
    for place in unused:
        allocator.free(place)
    before = len(allocator.segments)
    for event in trace:
        if event["action"] == "alloc":
            places[event["addr"]] = allocator.allocate(event["size"])
        elif event["action"] == "free_completed":
            allocator.free(places.pop(event["addr"]))
    assert allocator.segments[before:] == [event["size"] for event in trace if event["action"] == "segment_alloc"]
    assert allocator.reserved == sum(segment["total_size"] for segment in snapshot["segments"])


def test_expandable_segments_by_hand():
    """Large blocks lie in one range that grows by pages of 20 MiB at its end, small ones in one by 2 MiB."""
    allocator = Allocator(expandable=True)
    first = allocator.allocate(30 * MIB)
    second = allocator.allocate(5 * MIB)
    assert allocator.reserved == 40 * MIB and second == first + 30 * MIB
    allocator.allocate(1000)
    assert allocator.reserved == 42 * MIB and allocator.allocated == 35 * MIB + 1024
    allocator.free(second)  # 10 MiB are free at the end: 15 MiB need one page more
    assert allocator.allocate(15 * MIB) == second and allocator.reserved == 62 * MIB
    allocator.free(first)
    allocator.free(second)
    assert allocator.allocate(60 * MIB) == first and allocator.reserved == 62 * MIB
    assert allocator.segments == [40 * MIB, 2 * MIB, 20 * MIB]


def test_buffers_by_hand():
    job = dataclasses.replace(THREAD, buffers=Buffers(deepep=True, nccl_channels=16))
    token = 2 * 7168 + 8 + 128 * 8 + 128 * 4 + 128 * 4
    nvlink = 10 * 8 * 288 * token + 10 * 8 * (2 * 4 + 3) * 4
    rdma = 2 * 10 * 4 * 128 * (token + 16) + 2 * 10 * 4 * 18 * 4 + 2**20
    assert 0 < rdma < 2**29  # one piece of NVSHMEM's
    assert 0 <= deepep_bytes(job) - nvlink - 2**29 < 128
    assert nccl_groups(job) == ["tensor", "data", "expert data", "model", "world"]
    assert nccl_bytes(job) == 5 * 16 * (4194304 + 524288 + 4915200)
    assert rank_memory(job, 0).beside["NCCL"] == nccl_bytes(job)
    one = Job(load_model("llama3-8b"), Sizes(), Batch(8192), buffers=Buffers(nccl_channels=16))
    assert nccl_bytes(one) == deepep_bytes(one) == 0
    small = Job(load_model("deepseek-v3"), Sizes(expert=8, data=8), Batch(4096), buffers=Buffers(deepep=True))
    assert deepep_bytes(small) == -(-(10 * 8 * 256 * token + 10 * 8 * 5 * 4) // 128) * 128


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(ahead=1), "'frees' as emptied or late with 'ahead' = 1"),
        (dict(frees="late", ahead=-1), "'ahead' of at least 0"),
        (dict(allocator="best"), "none, expandable or segments"),
        (
            dict(
                model=load_model("llama3-8b"), layout="", schedule="1f1b", sizes=Sizes(), buffers=Buffers(deepep=True)
            ),
            "without experts",
        ),
        (dict(sizes=dataclasses.replace(THREAD.sizes, expert=4, data=1), buffers=Buffers(deepep=True)), None),
        (
            dict(sizes=dataclasses.replace(THREAD.sizes, expert=1, data=1)),
            "on 2, 4, 8, .* ranks with 'deepep', but got 1",
        ),
    ],
)
def test_bad_jobs(changes, message):
    if message is None:
        assert dataclasses.replace(THREAD, **changes)
        return
    with pytest.raises(InputError, match=message):
        dataclasses.replace(THREAD, **changes)


def test_the_allocator_needs_whole_steps():
    job = Job(
        load_model("llama3-8b"), Sizes(pipeline=4), Batch(8192, 1, 8), schedule="zero-bubble", allocator="segments"
    )
    with pytest.raises(InputError, match="whole forward and backward steps with 'allocator'"):
        rank_memory(job, 0)
    with pytest.raises(InputError, match="at most 64"):
        Buffers(nccl_channels=65)
