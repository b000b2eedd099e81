# ===- test_megatron.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Jobs from the arguments of Megatron-LM: a launch script and a log give the job that was written by hand.
#
# ===----------------------------------=== #

import dataclasses
import pathlib

import pytest

from fp8opt.command import InputError
from fp8opt.job import load_job
from fp8opt.megatron import job_of_arguments, read_arguments
from fp8opt.megatron.main import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples/jobs/megatron-deepseek-v3.sh"


def test_launch_script(tmp_path, capsys):
    path = tmp_path / "job.toml"
    assert main([str(SCRIPT), "-o", str(path)]) == 0
    made, hand = load_job(str(path)), load_job(str(ROOT / "examples/jobs/deepseek-v3-64k.toml"))
    assert capsys.readouterr().err == ""
    # Megatron pads the vocabulary to a multiple of 3232 times the tensor-parallel size.
    assert made.model == dataclasses.replace(hand.model, name="megatron", source="", vocab=155136)
    for field in dataclasses.fields(made):
        if field.name not in ("model", "overhead"):
            assert getattr(made, field.name) == getattr(hand, field.name), field.name


LOG = """
using world size: 64, data-parallel size: 2, context-parallel size: 1
------------------------ arguments ------------------------
  bf16 ............................................ True
  ffn_hidden_size ................................. 28672
  fp8 ............................................. hybrid
  fp8_recipe ...................................... delayed
  global_batch_size ............................... 128
  group_query_attention ........................... True
  hidden_size ..................................... 8192
  micro_batch_size ................................ 1
  num_attention_heads ............................. 64
  num_layers ...................................... 80
  num_layers_per_virtual_pipeline_stage ........... 5
  num_query_groups ................................ 8
  padded_vocab_size ............................... 128256
  pipeline_model_parallel_size .................... 4
  recompute_granularity ........................... selective
  recompute_modules ............................... ['core_attn']
  seq_length ...................................... 8192
  sequence_parallel ............................... True
  swiglu .......................................... True
  tensor_model_parallel_size ...................... 8
  untie_embeddings_and_output_weights ............. True
  use_distributed_optimizer ....................... True
  world_size ...................................... 64
-------------------- end of arguments ---------------------
"""


def test_log(tmp_path):
    path = tmp_path / "train.log"
    path.write_text(LOG)
    assert main([str(path), "-o", str(tmp_path / "job.toml")]) == 0
    job = load_job(str(tmp_path / "job.toml"))
    assert (job.sizes.data, job.sizes.virtual, job.schedule, job.batch.microbatches) == (2, 4, "interleaved", 64)
    assert job.model.kv_heads == 8 and job.model.vocab == 128256
    assert job.precision.recipe == "tensorwise" and job.precision.optimizer == "distributed"
    assert job.recompute.modules == ("core_attn",)


def test_log_lines_of_ranks():
    assert read_arguments("[rank0]:   num_layers ........ 4\n") == {"num-layers": "4"}


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "found none"),
        ("python x.py --lr 3", "--num-attention-heads|--num-layers"),
        ("x --num-layers many --num-attention-heads 1", "as a number"),
        ("x --num-layers 'open", "launch script"),
        (
            "x --num-layers 4 --num-attention-heads 4 --hidden-size 64 --seq-length 8 --num-experts 4 --moe-layer-freq [1,0,1,0]",
            "dense layers first",
        ),
        ("x --num-layers 4 --tensor-model-parallel-size 0", "--tensor-model-parallel-size of at least 1, but got 0"),
        ("x --num-layers -4 --num-attention-heads 4", "--num-layers of at least 1, but got -4"),
        (
            "x --num-layers 4 --num-attention-heads 4 --hidden-size 64 --micro-batch-size 0",
            "--micro-batch-size of at least 1",
        ),
        (
            "x --num-layers 4 --num-attention-heads 4 --hidden-size 64 --seq-length 8 --use-precision-aware-optimizer "
            "--exp-avg-dtype int4",
            "a type such as fp32",
        ),
        (
            "x --num-layers 4 --num-attention-heads 4 --tensor-model-parallel-size 3 --nproc-per-node 8",
            "multiple of tensor",
        ),
    ],
)
def test_arguments_that_do_not_do(text, message):
    with pytest.raises(InputError, match=message):
        job_of_arguments(read_arguments(text))


@pytest.mark.parametrize(
    "arguments, master",
    [
        ("", "f32"),
        ("--use-precision-aware-optimizer", "remainder"),
        ("--use-precision-aware-optimizer --fp8-format hybrid", "remainder"),
        ("--use-precision-aware-optimizer --fp8-format e4m3 --fp8-recipe blockwise", "f32"),
        (
            "--use-precision-aware-optimizer --fp8-format e4m3 --fp8-recipe blockwise --main-params-dtype fp16",
            "remainder",
        ),
    ],
)
def test_who_keeps_the_master_weights(arguments, master):
    """Megatron-LM, optimizer/__init__.py: with main parameters in f32 and a recipe other than delayed, Megatron in f32."""
    text = "x --bf16 --num-layers 4 --num-attention-heads 4 --hidden-size 64 --seq-length 8 "
    assert job_of_arguments(read_arguments(text + arguments))[0]["precision"].get("master", "f32") == master


def test_what_is_beside_the_tensors(tmp_path, capsys):
    text = "x --num-layers 4 --num-attention-heads 4 --hidden-size 64 --seq-length 8 --swiglu --vocab-size 512 --nproc-per-node 8"
    text += " --global-batch-size 8 --num-experts 8 --expert-model-parallel-size 8 --expert-tensor-parallel-size 1 --moe-ffn-hidden-size 64"
    text += " --moe-token-dispatcher-type flex --moe-enable-deepep --tp-comm-overlap"
    text += " --recompute-granularity full --recompute-method block --recompute-num-layers 2"
    script = tmp_path / "x.sh"
    script.write_text("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n" + text)
    assert main([str(script), "-o", str(tmp_path / "job.toml")]) == 0
    job = load_job(str(tmp_path / "job.toml"))
    assert job.buffers.deepep and job.allocator == "expandable"
    notes = capsys.readouterr().err.splitlines()
    assert len(notes) == 2 and "each layer by itself" in notes[0] and "--tp-comm-overlap is not counted" in notes[1]


def test_what_does_not_fit_together_is_not_written(tmp_path, capsys):
    script = tmp_path / "x.sh"
    script.write_text(
        "x --num-layers 5 --num-attention-heads 4 --hidden-size 64 --seq-length 8 --pipeline-model-parallel-size 2"
    )
    for output in ([], ["-o", str(tmp_path / "job.toml")]):
        with pytest.raises(InputError, match="5 layers as a multiple of 2 stages"):
            main([str(script), *output])
    assert not (tmp_path / "job.toml").exists() and capsys.readouterr().out == ""


def test_what_is_assumed_is_said():
    _, notes = job_of_arguments(
        read_arguments("x --num-layers 4 --num-attention-heads 4 --hidden-size 64 --seq-length 8")
    )
    assert len(notes) == 4 and any("--gpus" in note for note in notes)
