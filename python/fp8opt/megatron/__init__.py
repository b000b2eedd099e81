# ===- __init__.py - jobs from Megatron's arguments ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Turns the arguments of a Megatron-LM run, as a launch script or a log has them, into a job.
#
# ===--------------------------------------------------------===#
"""Jobs from the arguments of Megatron-LM."""

import re
import shlex
from typing import Any, Dict, List, Optional, Tuple

from ..command import InputError
from ..job import MODULES, expand_layout

__all__ = ["job_of_arguments", "read_arguments"]

# A line of the table that Megatron prints at its start: `  num_layers ............... 61`.
_LOGGED = re.compile(r"^(?:\[[^\]]*\]:?\s*)?\s*([a-z][a-z0-9_]*) \.{2,} ?(.*)$")

# Arguments that take several words.
_LISTS = ("recompute-modules",)

# Switches that change what a rank holds in ways that are not counted.
_NOT_COUNTED = ("cpu-offloading", "fine-grained-activation-offloading", "moe-shared-expert-overlap", "tp-comm-overlap")


def read_arguments(text: str) -> Dict[str, str]:
    """The arguments in a launch script (`--num-layers 61`, `--bf16`) or in a log (`num_layers .... 61`), by name with dashes.
    Values are text; of a switch it is `true`. Variables of the script are replaced where the script sets them."""
    found: Dict[str, str] = {}
    for line in text.splitlines():
        match = _LOGGED.match(line)
        if match:
            found[match.group(1).replace("_", "-")] = match.group(2).strip()
    if found:
        return found
    variables = dict(re.findall(r"^\s*(?:export\s+)?([A-Za-z_]\w*)=([\"']?[^\s\"'()]*[\"']?)\s*$", text, re.MULTILINE))
    lines = [line.split(" #")[0] for line in text.splitlines() if not line.lstrip().startswith("#")]
    try:
        lexer = shlex.shlex("\n".join(lines).replace("\\\n", " "), posix=True, punctuation_chars="()")
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
    except ValueError as error:
        raise InputError(f"expected a launch script or a log of Megatron-LM: {error}") from None
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        if not equals:
            values = []
            several = name.replace("_", "-") in _LISTS
            while (
                index < len(words)
                and not words[index].startswith("--")
                and words[index] not in ("(", ")")
                and (several or not values)
            ):
                values.append(words[index])
                index += 1
            value = " ".join(values) if values else "true"
        found[name.replace("_", "-")] = re.sub(
            r"\$\{?(\w+)\}?", lambda m: variables.get(m.group(1), m.group(0)).strip("\"'"), value
        )
    if not found:
        raise InputError("expected arguments of Megatron-LM such as --num-layers 32, but found none")
    return found


class _Arguments:
    """Arguments by name, with the types that they have. `assumed` collects what was not given."""

    def __init__(self, found: Dict[str, str]):
        self.found = found

    def number(self, name: str, default: Optional[int] = None) -> int:
        """An integer; without a default, or with one above 0, it must be above 0 where it is given."""
        value = self.found.get(name)
        if value in (None, "None", "none", ""):
            if default is None:
                raise InputError(f"expected an argument --{name}")
            return default
        least = 0 if default == 0 else 1
        if not re.fullmatch(r"[+-]?\d{1,18}", value):
            raise InputError(f"expected --{name} as a number, but got '{value[:80]}'")
        if int(value) < least:
            raise InputError(f"expected --{name} of at least {least}, but got {value}")
        return int(value)

    def switch(self, name: str) -> bool:
        """Whether a switch is on; in a log it is True or False."""
        return self.found.get(name, "False") not in ("False", "false", "None", "0", "")

    def text(self, name: str, default: str = "") -> str:
        """A text."""
        value = self.found.get(name, default)
        return default if value in ("None", "none") else value.strip("'\"")


def job_of_arguments(
    found: Dict[str, str], world: Optional[int] = None, gpu: str = "hopper"
) -> Tuple[Dict[str, Any], List[str]]:
    """A job file's table from the arguments, and notes on what it could not take from them.

    `world`: GPUs of the run (`--nproc-per-node` times `--nnodes`, or what the log says, where not given).
    """
    a = _Arguments(found)
    notes: List[str] = []
    tensor, pipeline = a.number("tensor-model-parallel-size", 1), a.number("pipeline-model-parallel-size", 1)
    context = a.number("context-parallel-size", 1)
    if world is None:
        world = a.number("world-size", 0) or a.number("nproc-per-node", 0) * a.number("nnodes", 1)
    if not world:
        world = tensor * pipeline * context
        notes.append(
            f"the number of GPUs is not in the arguments: {world}, one data-parallel rank, is assumed (--gpus)"
        )
    if world % (tensor * pipeline * context):
        raise InputError(
            f"expected GPUs as a multiple of tensor x pipeline x context = {tensor * pipeline * context}, but got {world}"
        )
    data = world // (tensor * pipeline * context)
    layers, heads = a.number("num-layers"), a.number("num-attention-heads")
    model: Dict[str, Any] = {
        "name": a.text("model", "megatron"),
        "layers": layers,
        "hidden": a.number("hidden-size"),
        "heads": heads,
    }
    model["ffn"] = a.number("ffn-hidden-size", 4 * model["hidden"])
    if not a.switch("swiglu"):
        notes.append("no --swiglu: layers are counted as with a gated activation, whose first matmul is twice as wide")
    model["vocab"] = a.number("padded-vocab-size", 0)
    if not model["vocab"]:
        vocab = a.number("vocab-size", 0)
        if not vocab:
            vocab = 128256
            notes.append("the vocabulary comes from the tokenizer: 128,256 is assumed (edit 'vocab')")
        multiple = max(1, a.number("make-vocab-size-divisible-by", 128) * tensor)
        model["vocab"] = -(-vocab // multiple) * multiple
    model["tied_embeddings"] = not a.switch("untie-embeddings-and-output-weights")
    if a.switch("group-query-attention"):
        model["kv_heads"] = a.number("num-query-groups", 1)
    if a.number("kv-channels", 0):
        model["head_dim"] = a.number("kv-channels")
    if a.switch("multi-latent-attention"):
        model.pop("head_dim", None)
        names = {
            "q_lora": "q-lora-rank",
            "kv_lora": "kv-lora-rank",
            "qk_nope": "qk-head-dim",
            "qk_rope": "qk-pos-emb-head-dim",
            "v_head": "v-head-dim",
        }
        model["mla"] = {key: a.number(name) for key, name in names.items()}
    if a.number("num-experts", 0):
        model["moe"] = {
            "experts": a.number("num-experts"),
            "top_k": a.number("moe-router-topk", 2),
            "ffn": a.number("moe-ffn-hidden-size", model["ffn"]),
        }
        model["moe"]["shared_ffn"] = a.number("moe-shared-expert-intermediate-size", 0)
        model["moe"]["dense_layers"] = _dense_layers(a.text("moe-layer-freq", "1"), layers)
    model["mtp_layers"] = a.number("mtp-num-layers", 0)
    sizes = {"tensor": tensor, "pipeline": pipeline, "context": context, "data": data}
    sizes["sequence"] = a.switch("sequence-parallel")
    sizes["expert"] = a.number("expert-model-parallel-size", 1)
    sizes["expert_tensor"] = a.number("expert-tensor-parallel-size", tensor if sizes["expert"] > 1 else 1)
    job: Dict[str, Any] = {}
    layout = a.text("pipeline-model-parallel-layout")
    virtual = a.number("num-virtual-stages-per-pipeline-rank", 0) or a.number("virtual-pipeline-model-parallel-size", 0)
    if not virtual and a.number("num-layers-per-virtual-pipeline-stage", 0):
        virtual = layers // pipeline // a.number("num-layers-per-virtual-pipeline-stage")
    if layout:
        job["layout"] = layout
        virtual = virtual or max(1, round(len(expand_layout(layout)) / pipeline))
    if virtual > 1:
        sizes["virtual"] = virtual
        job["schedule"] = "interleaved"
    micro, batch = a.number("micro-batch-size", 1), a.number("global-batch-size", 0)
    microbatches = max(1, batch // (micro * data)) if batch else 4 * pipeline
    if not batch:
        notes.append(f"no --global-batch-size: {microbatches} microbatches are assumed")
    precision = _precision(a, gpu)
    recompute: Dict[str, Any] = {"granularity": a.text("recompute-granularity", "none") or "none"}
    if recompute["granularity"] == "selective":
        given = re.findall(r"\w+", a.text("recompute-modules", "core_attn"))
        recompute["modules"] = [name for name in given if name in MODULES]
        if len(recompute["modules"]) < len(given):
            notes.append(
                f"recomputation of {', '.join(n for n in given if n not in MODULES)} is not known here and left out"
            )
    if recompute["granularity"] == "full" and (
        a.text("recompute-method", "uniform") != "uniform" or a.number("recompute-num-layers", 1) > 1
    ):
        notes.append("full recomputation is counted as of each layer by itself (--recompute-method uniform, one layer)")
    notes += [f"--{name} is not counted" for name in _NOT_COUNTED if a.switch(name)]
    if a.switch("moe-enable-deepep") or a.text("moe-flex-dispatcher-backend") == "deepep":
        job["buffers"] = {"deepep": True}
    job.update(
        model=model,
        sizes=sizes,
        batch={"sequence": a.number("seq-length"), "micro": micro, "microbatches": microbatches},
    )
    job.update(precision=precision, recompute=recompute)
    return job, notes


def _precision(a: _Arguments, gpu: str) -> Dict[str, Any]:
    """The table `precision`."""
    precision: Dict[str, Any] = {
        "gpu": gpu,
        "parameters": "bf16" if a.switch("bf16") else "f16" if a.switch("fp16") else "f32",
    }
    if a.text("fp8-format") or a.text("fp8"):
        precision["compute"] = "fp8"
        recipe = a.text("fp8-recipe", "delayed")
        precision["recipe"] = {"blockwise": "block", "mxfp8": "mxfp8"}.get(recipe, "tensorwise")
        if a.switch("fp8-param-gather"):
            precision["parameters"] = "fp8"
    if precision["parameters"] == "f32":
        precision["master"] = "none"
    if a.switch("use-precision-aware-optimizer"):
        precision["precision_aware"] = True
        precision["gradients"] = _type(a.text("main-grads-dtype", "fp32"))
        precision["moments"] = _type(a.text("exp-avg-dtype", "fp32"))
        if precision["parameters"] == "bf16":
            precision["master"] = "remainder" if _optimizer_has_master(a) else "f32"
    elif precision["parameters"] == "f16" and not a.switch("accumulate-allreduce-grads-in-fp32"):
        precision["gradients"] = "f16"
    if a.switch("use-distributed-optimizer"):
        precision["optimizer"] = "distributed"
    if a.switch("use-torch-fsdp2") or a.switch("use-megatron-fsdp"):
        precision["optimizer"] = "fsdp"
    if a.switch("reuse-grad-buf-for-mxfp8-param-ag"):
        precision["reuse_gradient_buffer"] = True
    if a.switch("optimizer-cpu-offload"):
        precision["offload"] = True
    return precision


def _type(text: str) -> str:
    """A type as Megatron's arguments or its log name it: fp32, torch.bfloat16."""
    names = {"fp32": "f32", "float32": "f32", "fp16": "f16", "float16": "f16", "bf16": "bf16", "bfloat16": "bf16"}
    name = text.replace("torch.", "")
    if name not in {**names, "fp8": "fp8", "uint8": "fp8"}:
        raise InputError(f"expected a type such as fp32 or bf16, but got '{text}'")
    return names.get(name, "fp8")


def _optimizer_has_master(a: _Arguments) -> bool:
    """Whether TransformerEngine's optimizer keeps the master weights, of bf16 parameters as their low 16 bits (Megatron-LM,
    optimizer/__init__.py, store_param_remainders); Megatron keeps them in f32 where FP8 has other recipes than delayed scaling.
    f16 ones take as many bytes as the low 16 bits."""
    if a.found.get("store-param-remainders") == "False":
        return False
    fp8 = bool(a.text("fp8-format") or a.text("fp8"))
    return (
        _type(a.text("main-params-dtype", "fp32")) != "f32" or not fp8 or a.text("fp8-recipe", "delayed") == "delayed"
    )


def _dense_layers(pattern: str, layers: int) -> int:
    """How many layers at the start are dense, from --moe-layer-freq: a number (every n-th has experts) or a list."""
    text = pattern.replace(" ", "")
    if text in ("", "1"):
        return 0
    match = re.fullmatch(r"\(?\[0\]\*(\d+)\+\[1\]\*(\d+)\)?", text)
    if match:
        return int(match.group(1))
    match = re.fullmatch(r"\[([01](?:,[01])*)\]", text)
    if match:
        kinds = match.group(1).split(",")
        dense = kinds.index("1") if "1" in kinds else layers
        if all(kind == "1" for kind in kinds[dense:]):
            return dense
    raise InputError(f"expected --moe-layer-freq with dense layers first, such as ([0]*3+[1]*58), but got '{pattern}'")
