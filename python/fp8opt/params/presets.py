# ===- presets.py - the settings that the field documents ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Settings by name, with what is published about each: the table of `fp8opt params --presets`.
#
# ===--------------------------------------------------------===#
"""Documented settings and the bytes per parameter that are published for them."""

from typing import Dict, NamedTuple

from . import Precision

__all__ = ["PRESETS", "Preset"]


class Preset(NamedTuple):
    """A setting, what it is in the options of the frameworks, the bytes per parameter that its source gives, and the source."""

    precision: Precision
    options: str
    published: str
    source: str


_DOCS = "Megatron-LM, docs/source/api-guide/dist_optimizer.md (table)"
_TE1261 = "TransformerEngine issue 1261: bf16 parameters, fp8 row and transposed copies on Hopper"
_TE1880 = "TransformerEngine issue 1880: fp8 parameters 2 B on Hopper, 1 B on Blackwell, 2 B with MXFP8"
_ADAM = "TransformerEngine FusedAdam; Megatron-LM --use-precision-aware-optimizer"

PRESETS: Dict[str, Preset] = {
    "bf16": Preset(Precision(), "bf16, every rank has all of the optimizer", "18", _DOCS),
    "bf16-distributed": Preset(Precision(optimizer="distributed"), "--use-distributed-optimizer", "6 + 12/d", _DOCS),
    "f16": Preset(Precision(parameters="f16", gradients="f16"), "f16 parameters and gradients", "20", _DOCS),
    "f16-distributed": Preset(
        Precision(parameters="f16", gradients="f16", optimizer="distributed"),
        "the same, --use-distributed-optimizer",
        "4 + 16/d",
        _DOCS,
    ),
    "f32": Preset(Precision(parameters="f32", master="none"), "f32 throughout", "16", _DOCS),
    "f32-distributed": Preset(
        Precision(parameters="f32", master="none", optimizer="distributed"),
        "f32, --use-distributed-optimizer",
        "8 + 8/d",
        _DOCS,
    ),
    "fp8-compute": Preset(
        Precision(compute="fp8", optimizer="distributed"), "bf16 parameters, fp8 matmuls, Hopper", "8 + 12/d", _TE1261
    ),
    "fp8-compute-blackwell": Preset(
        Precision(compute="fp8", gpu="blackwell", optimizer="distributed"),
        "bf16 parameters, fp8 matmuls, Blackwell",
        "7 + 12/d",
        _TE1880,
    ),
    "fp8-param-gather": Preset(
        Precision(parameters="fp8", compute="fp8", optimizer="distributed"),
        "--fp8-param-gather, Hopper",
        "6 + 12/d",
        _TE1880,
    ),
    "fp8-param-gather-transient": Preset(
        Precision(parameters="fp8", compute="fp8", optimizer="distributed", transposed="transient"),
        "--fp8-param-gather, Hopper, transposed copy made when needed",
        "5 + 12/d",
        "ROCm/TransformerEngine, keep_fp8_weight_transpose_cache=False",
    ),
    "fp8-param-gather-blackwell": Preset(
        Precision(parameters="fp8", compute="fp8", gpu="blackwell", optimizer="distributed"),
        "--fp8-param-gather, Blackwell",
        "5 + 12/d",
        _TE1880,
    ),
    "mxfp8-param-gather": Preset(
        Precision(parameters="fp8", compute="fp8", recipe="mxfp8", gpu="blackwell", optimizer="distributed"),
        "--fp8-param-gather --fp8-recipe mxfp8",
        "8.06 + 12/d",
        "Megatron-LM issues 2063 and 3461",
    ),
    "mxfp8-param-gather-reuse": Preset(
        Precision(
            parameters="fp8",
            compute="fp8",
            recipe="mxfp8",
            gpu="blackwell",
            optimizer="distributed",
            reuse_gradient_buffer=True,
        ),
        "the same, --reuse-grad-buf-for-mxfp8-param-ag",
        "6.06 + 12/d",
        "Megatron-LM, --reuse-grad-buf-for-mxfp8-param-ag",
    ),
    "precision-aware": Preset(
        Precision(gradients="bf16", moments="bf16", precision_aware=True, optimizer="distributed"),
        "--use-precision-aware-optimizer, bf16 gradients and moments, f32 master",
        "4 + 8/d",
        _ADAM,
    ),
    "precision-aware-remainder": Preset(
        Precision(gradients="bf16", moments="bf16", master="remainder", precision_aware=True, optimizer="distributed"),
        "the same with store_param_remainders",
        "4 + 6/d",
        _ADAM,
    ),
    "deepseek-v3": Preset(
        Precision(moments="bf16", precision_aware=True, optimizer="distributed"),
        "f32 gradients and master, bf16 moments",
        "6 + 8/d",
        "arXiv 2412.19437, section 3.3.3",
    ),
}
