# ===- test_params.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Bytes of a parameter against the documented ones, written here by hand; parameters of models against published counts; the
# parameters of the ranks of a job against the counts of its layout.
#
# ===----------------------------------=== #

import dataclasses
import json
from fractions import Fraction

import pytest

from fp8opt.command import InputError
from fp8opt.job import Batch, Job, Sizes, load_job, parse_layout
from fp8opt.models import load_model
from fp8opt.params import Precision, bytes_per_parameter, items, one_line
from fp8opt.params.cast import cast_steps, transient_bytes
from fp8opt.params.main import main
from fp8opt.params.presets import PRESETS
from fp8opt.params.ranks import rank_parameters

# What is documented: (own bytes, bytes spread over d ranks). Megatron-LM's table of the distributed optimizer, the threads of
# TransformerEngine, DeepSeek-V3's report.
DOCUMENTED = {
    "bf16": (18, 0),
    "bf16-distributed": (6, 12),
    "f16": (20, 0),
    "f16-distributed": (4, 16),
    "f32": (16, 0),
    "f32-distributed": (8, 8),
    "fp8-compute": (8, 12),
    "fp8-compute-blackwell": (7, 12),
    "fp8-param-gather": (6, 12),
    "fp8-param-gather-transient": (5, 12),
    "fp8-param-gather-blackwell": (5, 12),
    "mxfp8-param-gather": (Fraction("8.0625"), 12),
    "mxfp8-param-gather-reuse": (Fraction("6.0625"), 12),
    "precision-aware": (4, 8),
    "precision-aware-remainder": (4, 6),
    "deepseek-v3": (6, 8),
}


def test_every_documented_setting_is_there():
    assert set(PRESETS) == set(DOCUMENTED)


@pytest.mark.parametrize("name", DOCUMENTED)
@pytest.mark.parametrize("d", [1, 2, 8, 64, 3])
def test_documented_bytes(name, d):
    own, spread = DOCUMENTED[name]
    assert bytes_per_parameter(PRESETS[name].precision, d) == own + Fraction(spread, d)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_published_text_is_the_formula(name):
    published = PRESETS[name].published
    rounded = one_line(PRESETS[name].precision).replace(".0625", ".06")
    assert rounded == published


def test_every_item_has_its_reason_and_source():
    for preset in PRESETS.values():
        for item in items(preset.precision):
            assert item.why and item.source and item.bytes >= 0


def test_fp8_model_init_without_a_distributed_optimizer():
    hopper = Precision(parameters="fp8", compute="fp8")
    assert bytes_per_parameter(hopper) == 1 + 1 + 4 + 12
    blackwell = Precision(parameters="fp8", compute="fp8", gpu="blackwell")
    assert bytes_per_parameter(blackwell) == 1 + 4 + 12


def test_other_parameters_stay_bf16():
    precision = PRESETS["fp8-param-gather"].precision
    assert bytes_per_parameter(precision, 4, linear=False) == 6 + 3


def test_fsdp_spreads_everything_and_gathers_a_layer():
    precision = Precision(optimizer="fsdp")
    assert bytes_per_parameter(precision, 8) == Fraction(18, 8)
    assert [item.name for item in items(precision) if item.transient] == ["gathered layer"]
    fp8 = items(Precision(optimizer="fsdp", compute="fp8"))
    assert sum(item.bytes for item in fp8 if item.transient) == 4  # gathered bf16, rows, transposed
    job = Job(load_model("llama3-8b"), Sizes(data=8), Batch(8192), Precision(optimizer="fsdp"))
    # Two of the largest: the embedding and the output matrix, in bf16.
    assert rank_parameters(job, 0).gathered == 2 * 2 * 128256 * 4096


def test_optimizer_on_the_host():
    precision = Precision(optimizer="distributed", offload=True)
    assert bytes_per_parameter(precision, 1) == 6
    assert sum(item.bytes for item in items(precision) if item.host) == 12


@pytest.mark.parametrize(
    "options, message",
    [
        ({"recipe": "mxfp8"}, "no MX matmul"),
        ({"parameters": "fp8"}, "'compute' = 'fp8'"),
        ({"parameters": "fp8", "compute": "fp8", "master": "remainder"}, "bf16 parameters"),
        ({"parameters": "f16", "master": "remainder"}, "bf16 parameters"),
        ({"compute": "fp8", "recipe": "mxfp8", "gpu": "blackwell", "transposed": "transient"}, "without loss"),
        ({"reuse_gradient_buffer": True}, "bf16 buffer"),
        ({"gradients": "fp8"}, "'gradients'"),
    ],
)
def test_combinations_that_do_not_exist(options, message):
    with pytest.raises(InputError, match=message):
        Precision(**options)


def test_cast_of_master_weights():
    count, d, weights = 1 << 30, 8, 100
    tensorwise = Precision(parameters="fp8", compute="fp8", optimizer="distributed")
    assert transient_bytes(cast_steps(tensorwise, count, d, 1 << 24, weights)) == 400
    transient = dataclasses.replace(tensorwise, transposed="transient")
    assert transient_bytes(cast_steps(transient, count, d, 1 << 24, weights)) == 1 << 24
    block = dataclasses.replace(tensorwise, recipe="block")
    assert transient_bytes(cast_steps(block, count, d, 1 << 24, weights)) == 4 * (1 << 30) // 16384
    mx = Precision(
        parameters="fp8",
        compute="fp8",
        recipe="mxfp8",
        gpu="blackwell",
        optimizer="distributed",
        reuse_gradient_buffer=True,
    )
    assert transient_bytes(cast_steps(mx, count, d, 1 << 24, weights)) == 0


# Published counts: model cards of Llama 3; "671B total" of DeepSeek-V3's report, exact in its checkpoint without MTP.
@pytest.mark.parametrize(
    "name, count",
    [
        ("llama3-8b", 8030261248),
        ("llama3-70b", 70553706496),
        ("llama3-405b", 405853388800),
        ("deepseek-v3", 671026404352),
    ],
)
def test_parameters_of_models(name, count):
    assert load_model(name).parameters() == count


def test_ranks_hold_the_whole_model_once():
    model = load_model("llama3-8b")
    job = Job(model, Sizes(tensor=2, pipeline=4, data=2), Batch(8192, 1, 8))
    held = [rank_parameters(job, rank) for rank in range(4)]
    split = sum(w.count for rank in held for w in rank.weights if "norm" not in w.name)
    norms = sum(w.count for rank in held for w in rank.weights if "norm" in w.name)
    assert 2 * split + norms == model.parameters()
    # Exactly 18 B where state is replicated and not a linear in fp8.
    assert held[1].bytes == 18 * held[1].count


def test_deepseek_layout():
    """Stages of the layout that Megatron's DeepSeek-V3 recipe for 256 GPUs has."""
    model = load_model("deepseek-v3")
    stages = parse_layout("Et*2|(tt|)*22t|(tt|)*7mL", model)
    assert len(stages) == 32
    kinds = [[part.kind for part in stage] for stage in stages]
    assert kinds[0] == ["embedding", "layer", "layer"] and kinds[23] == ["layer"] and kinds[31] == ["mtp", "loss"]
    job = Job(
        model,
        Sizes(16, 8, 4, 32, 1, 1, 2),
        Batch(65536, 1, 480),
        schedule="interleaved",
        layout="Et*2|(tt|)*22t|(tt|)*7mL",
    )
    assert job.sizes.world == 256 and job.sizes.expert_copies == 1
    assert job.stages_of(0) == [0, 8, 16, 24]
    # Rank 2 has eight MoE layers: the report's sizes by hand, in elements a rank at tensor 16, expert 32.
    mla = 7168 * 1536 + 7168 * 576 + 1536 + 512 + (1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168) // 16
    moe = 256 // 32 * 3 * 7168 * 2048 + 3 * 7168 * 2048 // 16 + 7168 * 256
    assert rank_parameters(job, 2).count == 8 * (mla + moe + 2 * 7168)


@pytest.mark.parametrize(
    "layout, message",
    [
        ("Et*3|tL", "expected 32 layers"),
        ("t*32L", "one E"),
        ("Et*32", "one L"),
        ("Ex*32L", "expected a layout"),
        ("E(t*99999)*99999L", "at most 10000"),
    ],
)
def test_bad_layouts(layout, message):
    with pytest.raises(InputError, match=message):
        parse_layout(layout, load_model("llama3-8b"))


JOB = """
model = "llama3-8b"
[sizes]
tensor = 2
pipeline = 2
data = 4
[batch]
sequence = 8192
microbatches = 8
[precision]
compute = "fp8"
optimizer = "distributed"
"""


def test_job_file_and_command(tmp_path, capsys):
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    job = load_job(str(path))
    assert job.sizes.world == 16 and job.precision.compute == "fp8"
    assert main(["--config", str(path), "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    weight = sum(w.count for w in rank_parameters(job, 0).weights if w.linear)
    other = sum(w.count for w in rank_parameters(job, 0).weights if not w.linear)
    assert table["ranks"][0]["bytes"] == 11 * weight + 9 * other  # 8 + 12/4 and 6 + 12/4


def test_job_file_with_a_model_of_its_own(tmp_path):
    (tmp_path / "mine.toml").write_text('name = "mine"\nlayers = 2\nhidden = 64\nffn = 128\nheads = 4\nvocab = 100\n')
    (tmp_path / "job.json").write_text(json.dumps({"model": "mine.toml", "sizes": {}, "batch": {"sequence": 16}}))
    job = load_job(str(tmp_path / "job.json"))
    assert job.model.parameters() == 2 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) + 64 + 2 * 100 * 64


def test_job_file_in_yaml(tmp_path):
    yaml = pytest.importorskip("yaml")
    path = tmp_path / "job.yaml"
    path.write_text(
        "model: llama3-8b\nsizes: {tensor: 2, data: 4}\nbatch:\n  sequence: 8192\nprecision:\n  compute: fp8\n"
    )
    assert load_job(str(path)).sizes.world == 8
    for text, message in (
        ("a: [", "is not YAML"),
        ("- 1", "a table of keys"),
        ("!!python/object/apply:os.system [ls]", "is not YAML"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            load_job(str(path))
    assert yaml


@pytest.mark.parametrize(
    "change, message",
    [
        ("tensor = 2=2", "is not TOML"),
        ("tensr = 2", "unknown key 'tensr'"),
        ('tensor = "2"', "'tensor': expected a whole number"),
        ("tensor = -1", "expected 0 or more"),
        ("tensor = 0", "'tensor' of at least 1"),
        ("tensor = 3", "to divide 8192 tokens"),
        ("expert = 2", "has no experts"),
        ("virtual = 2", "'schedule' = 'interleaved' with 'virtual' = 2"),
        ("pipeline = 5", "as a multiple of 5 stages"),
    ],
)
def test_bad_job_files(tmp_path, change, message):
    path = tmp_path / "job.toml"
    key = change.split(" = ")[0]
    old = next((line for line in JOB.splitlines() if line.startswith(key + " =")), "tensor = 2")
    path.write_text(JOB.replace(old + "\n", change + "\n", 1))
    with pytest.raises(InputError, match=message):
        load_job(str(path))


def test_presets_command_prints_every_source(capsys):
    assert main(["--presets"]) == 0
    text = capsys.readouterr().out
    for name, preset in PRESETS.items():
        assert name in text and preset.source in text
