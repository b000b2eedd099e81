# ===- test_rank.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What layers keep, against tables made by hand from the sources of TransformerEngine and Megatron-LM; what a rank holds, against
# sums by hand; and the published figures that come out of them.
#
# ===----------------------------------=== #

import dataclasses
import itertools
import json
import pathlib

import pytest

from fp8opt.command import InputError
from fp8opt.job import Batch, Job, Recompute, Sizes, load_job
from fp8opt.models import load_model
from fp8opt.params import Precision
from fp8opt.rank import rates
from fp8opt.rank.fit import choices, lightest, lightest_of_all
from fp8opt.rank.graph import Graph, Op, Policy, walk
from fp8opt.rank.layers import layer_graph, loss_graph
from fp8opt.rank.main import main
from fp8opt.rank.memory import joint_peak, rank_memory, stage_cost
from fp8opt.rank.oplist import kept_abs

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 2**20
BF16, BLOCK = Precision(), Precision(compute="fp8", recipe="block")


def deepseek(precision, recompute=Recompute()):
    sizes = Sizes(tensor=16, pipeline=8, virtual=4, expert=32, data=2)
    return Job(
        load_model("deepseek-v3"),
        sizes,
        Batch(65536, 1, 480),
        precision,
        recompute,
        "interleaved",
        "Et*2|(tt|)*22t|(tt|)*7mL",
    )


# MiB that a layer of DeepSeek-V3 keeps at TP16, 65,536 tokens (4,096 on a shard, 32,768 routed to a rank), summed by hand:
# residual 56, its norm 56 (28.875 in fp8), latents 12 and 4.5, q and k 192, v and o 128, lse 2, dense fc1 288 and activation
# 144 (74.25), routed tokens 448 (231), fc1 256, activation 128 (66), shared fc1 32 and activation 16 (8.25).
MLA_BF16 = 56 + 56 + 12 + 4.5 + 12 + 4 + 192 + 192 + 128 + 128 + 2
MLA_FP8 = 56 + 2 * 28.875 + 12 + 4.5 + 6.1875 + 2.0625 + 192 + 192 + 128 + 128 + 66 + 2
ROUTER = 4096 * 8 * 4 / MIB
TABLE = [
    (BF16, False, 0, MLA_BF16 + 56 + 56 + 288 + 144),
    (BF16, False, 3, MLA_BF16 + 56 + 56 + 448 + 256 + 128 + 32 + 16 + ROUTER),
    (BLOCK, False, 0, MLA_FP8 + 56 + 28.875 + 288 + 74.25),
    (BLOCK, False, 3, MLA_FP8 + 56 + 56 + 231 + 256 + 66 + 28.875 + 32 + 8.25 + ROUTER),
    (BLOCK, True, 0, MLA_FP8 - 2 * 28.875 + 56 - 66 + 56 + 28.875 + 288 + 74.25),
    (BLOCK, True, 3, MLA_FP8 - 2 * 28.875 + 56 - 66 + 56 + 56 + 231 + 256 + 66 + 28.875 + 32 + 8.25 + ROUTER),
]


@pytest.mark.parametrize("precision, originals, layer, expected", TABLE)
def test_what_a_deepseek_layer_keeps(precision, originals, layer, expected):
    job = deepseek(precision, Recompute(originals=originals))
    assert walk(layer_graph(job, layer)).saved == expected * MIB


def test_the_table_is_the_published_one():
    assert [int(row[3] + 0.5) for row in TABLE] == [1331, 1779, 1294, 1581, 1226, 1513]


def test_a_checkpoint_runs_again_before_its_backward():
    """Megatron's checkpoints run a module again when the gradient of its result arrives; the others where they are read."""
    graph = layer_graph(deepseek(BLOCK), 3)
    ops = [(point.op, point.again) for point in walk(graph, Policy(everything=True)).points if point.backward]
    assert [again for _, again in ops] == [True] * len(graph.forward) + [False] * len(graph.backward)
    ops = [(point.op, point.again) for point in walk(graph, Policy(frozenset({"moe", "mla_up_proj"}))).points]
    assert ops.index(("add.experts", True)) + 1 == ops.index(("combine.backward", False))
    assert ops.index(("rope", True)) + 1 == ops.index(("core_attn.backward", False))


@pytest.mark.parametrize("layer", [0, 3])
def test_full_recomputation_keeps_the_input(layer):
    assert walk(layer_graph(deepseek(BLOCK), layer), Policy(everything=True)).saved == 56 * MIB


# What each module's recomputation frees in an MoE layer (block recipe), by hand; the module's inputs stay.
@pytest.mark.parametrize(
    "modules, freed",
    [
        (("core_attn",), 128 + 2),
        (("mla_up_proj",), 192 + 192 + 128 + 6.1875 + 2.0625),
        (("moe_act",), 66),
        (("shared_experts",), 28.875 + 32 + 8.25),
        (("moe",), 231 + 256 + 66 + 28.875 + 32 + 8.25 + ROUTER),
        (("layernorm",), 2 * 28.875 + 28.875 + 56),
    ],
)
def test_what_modules_free(modules, freed):
    graph = layer_graph(deepseek(BLOCK), 3)
    assert walk(graph).saved - walk(graph, Policy(frozenset(modules))).saved == freed * MIB


def test_linears_at_their_peak():
    """A column-parallel linear holds gathered and swapped copies of its input at once, a row-parallel one three copies of its
    gradient (TransformerEngine's schedule), and frees them after the weight's gradient."""
    steps = walk(layer_graph(deepseek(BLOCK), 0))
    alive = {
        op.op: {life.name for life in steps.lives if life.born <= i <= life.dies} for i, op in enumerate(steps.points)
    }
    assert {"fc1.regathered", "fc1.swapped"} <= alive["fc1.swap"]
    assert {"fc2.dy_gathered", "fc2.dyt_gathered", "fc2.dyt_swapped"} <= alive["fc2.swap_gradient"]
    assert "fc2.dyt_gathered" not in alive["fc2.wgrad"] and "fc1.gathered" not in alive["swiglu"]


def test_walk_by_reference_counts():
    """The lives against a plain run that counts who still reads what."""
    for policy in (Policy(), Policy(everything=True), Policy(frozenset({"mla_up_proj", "moe", "layernorm"}))):
        graph = layer_graph(deepseek(BLOCK), 3)
        steps = walk(graph, policy)
        ops = {op.name: op for op in graph.forward + graph.backward}
        order = [ops[point.op] for point in steps.points]
        border = next(i for i, point in enumerate(steps.points) if point.backward)
        kept = {life.name for life in steps.lives if life.saved}
        live = {graph.input}
        for index, (op, point) in enumerate(zip(order, steps.points)):
            live |= set(op.reads) | set(op.makes) | ({"d.output"} if index == border else set())
            assert point.live == sum(graph.bytes[name] for name in live | set(op.work)), point.op
            phase = order[index + 1 : border] if index < border else order[index + 1 :]
            needed = {name for later in phase for name in later.reads}
            # What is made again before it is read does not stay; what forward keeps stays until backward.
            for name in list(live):
                again = next(
                    (later for later in order[index + 1 :] if name in later.reads or name in later.makes), None
                )
                stays = name in needed and not (again is not None and name in again.makes and name not in again.reads)
                if not stays and not (index < border and name in kept):
                    live.discard(name)


def test_abs_in_the_list():
    """torchtitan pull request 820: 58.55 GiB to 47.77 GiB on 8 GPUs."""
    job = load_job(str(ROOT / "examples/jobs/llama3-8b-fsdp.toml"))
    difference = 32 * sum(kept.bytes for kept in kept_abs(job)) / 2**30
    assert abs(difference - (58.55 - 47.77)) <= 0.05 * (58.55 - 47.77)


def test_abs_of_the_thread_to_the_byte():
    """Pull request 808: an FFN of 4096 x 16384 with 16 tokens returns 134,873,152 B: |input|, |W3|, W1's result and a scale."""
    model = dataclasses.replace(load_model("llama3-8b"), ffn=16384)
    kept = {k.name: k.bytes for k in kept_abs(Job(model, Sizes(data=8), Batch(16)))}
    assert kept["|ffn input|"] + kept["|w3|"] + 16 * 16384 * 2 + 16 * 4 == 134873152


def test_rank_by_hand():
    """The first rank of the 70B example: 23 chunks of four layers in flight, one of them in backward."""
    job = load_job(str(ROOT / "examples/jobs/llama3-70b.toml"))
    memory = rank_memory(job, 0)
    n, N, H = 1024, 8192, 8192
    layer = 2 * n * H + n * H + 2 * N * 1024 + 2 * 2 * N * 128 + 2 * N * 1024 + 4 * N * 8 + N * 1024
    layer += 2 * n * H + n * H + 2 * N * 2 * 3584 + N * 3584
    assert stage_cost(job, 4).saved == 4 * layer
    assert memory.peak.in_flight == 2 * 3 + 4 * 4 + 1
    # Chunk 0 keeps its tokens' numbers for the embedding too; eight of its microbatches are in flight.
    assert memory.peak.others == 22 * 4 * layer + 8 * 8 * N
    linear = 20 * (H * (64 + 16) * 128 + 8192 * 8192 + 3 * 8192 * 28672) // 8
    other = 20 * 2 * H + 128256 * H // 8
    assert sum(memory.parameters.values()) == (8 + 6) * linear + (6 + 6) * other


def test_deferred_weight_gradients_are_counted():
    job = Job(
        load_model("llama3-8b"),
        Sizes(tensor=2, pipeline=4),
        Batch(8192, 1, 8),
        Precision(compute="fp8"),
        schedule="zero-bubble",
    )
    last = rank_memory(job, 3)
    assert max(moment.deferred for moment in last.moments) > 0
    # Operands of the weight gradients of fc1: its whole input and the gradient of its result, one byte each.
    graph = layer_graph(job, 0)
    assert sum(graph.bytes[name] for name in graph.weight_operands if "fc1" in name) == 8192 * 4096 + 8192 * 14336


def test_steps_of_a_users_own(tmp_path):
    job = {
        "model": "llama3-8b",
        "sizes": {"tensor": 2, "pipeline": 2},
        "batch": {"sequence": 8192},
        "steps": "steps.json",
    }
    (tmp_path / "job.json").write_text(json.dumps(job))
    steps = tmp_path / "steps.json"
    steps.write_text('[["F0", "F1", "F2", "B0", "B1", "B2"], ["F0", "B0", "F1", "F2", "B1", "B2"]]')
    made = load_job(str(tmp_path / "job.json"))
    assert [max(m.in_flight for m in rank_memory(made, rank).moments) for rank in (0, 1)] == [3, 2]
    for text, message in (
        ('[["F0", "B0"]]', "steps of 2 pipeline ranks"),
        ('[["F0.0", "F1.0", "B1.0", "B0.0"], ["F0", "B0"]]', "one of chunk 1"),
        ('[["F0", "B0"], ["F1", "B1"]]', "waits for ever"),
        ("[", "steps.json"),
    ):
        steps.write_text(text)
        with pytest.raises(InputError, match=message):
            load_job(str(tmp_path / "job.json"))


def test_joint_peak_is_the_best_interleaving():
    forward, backward = (3, 9, 1, 4), (8, 2, 7)
    best = None
    for picks in itertools.product((0, 1, 2), repeat=7):  # advance forward, backward, or both
        i = j = 0
        peak = forward[0] + backward[0]
        for pick in picks:
            i, j = min(i + (pick != 1), 3), min(j + (pick != 0), 2)
            peak = max(peak, forward[i] + backward[j])
        if (i, j) == (3, 2):
            best = peak if best is None else min(best, peak)
    assert joint_peak(forward, backward) == best
    assert joint_peak((), backward) == 8


def test_dualpipe_runs_two_chunks_in_one_arena():
    job = Job(
        load_model("llama3-8b"),
        Sizes(tensor=2, pipeline=4),
        Batch(8192, 1, 16),
        Precision(compute="fp8"),
        schedule="dualpipe",
    )
    memory = rank_memory(job, 0)
    costs = [stage_cost(job, stage) for stage in job.stages_of(0)]
    together = [moment for moment in memory.moments if "&" in moment.step]
    assert together and all(
        m.running <= max(costs[0].forward.live) + max(costs[1].backward.live)
        or m.running <= max(costs[1].forward.live) + max(costs[0].backward.live)
        for m in together
    )
    assert max(m.in_flight for m in memory.moments) == 5
    # Parameters twice: both directions' stages.
    once = rank_memory(dataclasses.replace(job, schedule="1f1b"), 1).parameters["bf16 parameter"]
    assert rank_memory(job, 1).parameters["bf16 parameter"] == 2 * once


def test_the_lightest_that_fits():
    job = load_job(str(ROOT / "examples/jobs/llama3-70b.toml"))
    every = choices(job, 0)
    assert lightest(every, job.device).recompute.granularity == "none"
    best = lightest(every, 40 * 2**30)
    assert best.bytes <= 40 * 2**30
    assert all(c.bytes > 40 * 2**30 for c in every if c.again_us < best.again_us)
    assert lightest(every, 2**30).bytes == min(c.bytes for c in every)


def test_one_policy_for_all_ranks():
    job = load_job(str(ROOT / "examples/jobs/llama3-70b.toml"))
    every = [choices(job, rank) for rank in range(4)]
    common = lightest_of_all(every, 40 * 2**30)
    assert len({c.recompute for c in common}) == 1 and all(c.bytes <= 40 * 2**30 for c in common)
    assert lightest_of_all(every, 2**30) is None


def test_rates_are_those_of_the_target_file():
    target = json.loads((ROOT / "lib/Target/Target/targets/h200.json").read_text())
    assert rates.COPY_BYTES_PER_SECOND == target["copy_bytes_per_second"]
    assert rates.FLOPS["tensorwise"] == target["flops_f8_tensor"] and rates.FLOPS["bf16"] == target["flops_bf16"]
    assert rates.FLOPS["block"] == target["flops_f8_block"]


def test_overhead_of_the_examples_is_the_measured_one():
    target = json.loads((ROOT / "lib/Target/Target/targets/h200.json").read_text())
    for path in (ROOT / "examples/jobs").glob("*.toml"):
        overhead = load_job(str(path)).overhead
        assert overhead in (0, round(target["device_overhead_bytes"] / MIB) * MIB), path.name


def test_capacity_scales_the_experts_only():
    job = deepseek(BLOCK)
    double = dataclasses.replace(job, capacity=2.0)
    grown = walk(layer_graph(double, 3)).saved - walk(layer_graph(job, 3)).saved
    assert grown == (231 + 256 + 66) * MIB
    assert walk(layer_graph(double, 0)).saved == walk(layer_graph(job, 0)).saved


def test_context_parallel_ranks_hold_a_part_and_a_ring():
    model = load_model("llama3-8b")
    one, two = (Job(model, Sizes(context=c, data=2), Batch(8192)) for c in (1, 2))
    assert walk(layer_graph(one, 0)).saved == 2 * walk(layer_graph(two, 0)).saved
    assert layer_graph(two, 0).bytes["ring"] == 2 * 2 * 4096 * 8 * 2 * 128


def test_loss_keeps_the_softmax():
    steps = walk(loss_graph(deepseek(BLOCK)))
    assert {life.name: life.bytes for life in steps.lives if life.saved}["softmax"] == 65536 * 8080 * 4


def test_walk_refuses_nothing_it_is_given():
    graph = Graph(
        "x", "y", {"x": 1, "y": 2, "d.y": 2, "d.x": 1}, [Op("f", ("x",), ("y",))], [Op("b", ("x", "d.y"), ("d.x",))]
    )
    assert walk(graph).saved == 1


@pytest.mark.parametrize(
    "options, message",
    [
        (["--timeline=9"], "between 0 and 3"),
        (["--layer=80"], "between 0 and 79"),
        (["--recompute=everything"], "'modules' of"),
        (["--frees=soon"], "prompt, emptied or late"),
        (["--device=lots"], "a size"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        main([f"--config={ROOT / 'examples/jobs/llama3-70b.toml'}", *options])


def test_json_has_the_timeline(capsys):
    assert main([f"--config={ROOT / 'examples/jobs/llama3-70b.toml'}", "--timeline=1", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert len(table["ranks"][1]["timeline"]) == 2 * 32 * 5 and "timeline" not in table["ranks"][0]
