# ===- __init__.py - bytes of a parameter ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What one parameter costs on a rank: its copies, its gradient, the optimizer's state. Exact (fractions), item by item, each
# item with the formula and where it is documented.
#
# ===--------------------------------------------------------===#
"""Bytes per parameter: `Precision` says what is kept in which type, `items` says what that costs."""

import dataclasses
from fractions import Fraction
from typing import List

from ..command import InputError

__all__ = ["Item", "Precision", "bytes_per_parameter", "items", "one_line"]

_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "fp8": 1}


@dataclasses.dataclass(frozen=True)
class Precision:
    """What is kept of a parameter, in which type, and what is spread over the data-parallel ranks."""

    parameters: str = "bf16"  # what the model holds: f32, f16, bf16, or fp8 (fp8_model_init, fp8-param-gather)
    compute: str = "bf16"  # what linears multiply: bf16 or fp8
    recipe: str = "tensorwise"  # tensorwise (delayed or current), block (1x128 by 128x128), mxfp8
    gpu: str = "hopper"  # hopper or blackwell: whether FP8 matmuls need a transposed copy
    transposed: str = "kept"  # kept, or transient: made before the gradient's matmul and dropped after it
    gradients: str = "f32"  # f32, f16 or bf16
    master: str = "f32"  # f32; remainder (the low 16 bits beside a bf16 parameter); none (f32 parameters)
    moments: str = "f32"  # f32, f16, bf16 or fp8, of each of the two
    optimizer: str = "replicated"  # replicated; distributed (over d ranks); fsdp (everything over d ranks)
    precision_aware: bool = False  # the optimizer reads gradients of less than f32 as they are, without an f32 copy
    reuse_gradient_buffer: bool = False  # the bf16 buffer of a gather of MXFP8 parameters lies in the idle gradients
    offload: bool = False  # the optimizer's state lies in host memory

    def __post_init__(self):
        allowed = {
            "parameters": ("f32", "f16", "bf16", "fp8"),
            "compute": ("bf16", "fp8"),
            "recipe": ("tensorwise", "block", "mxfp8"),
            "gpu": ("hopper", "blackwell"),
            "transposed": ("kept", "transient"),
            "gradients": ("f32", "f16", "bf16"),
            "master": ("f32", "remainder", "none"),
            "moments": ("f32", "f16", "bf16", "fp8"),
            "optimizer": ("replicated", "distributed", "fsdp"),
        }
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise InputError(f"expected '{name}' as one of {', '.join(values)}, but got '{getattr(self, name)}'")
        if self.recipe == "mxfp8" and self.gpu == "hopper":
            raise InputError(
                "expected 'gpu' = 'blackwell' for the recipe mxfp8, but got 'hopper', which has no MX matmul"
            )
        if self.parameters == "fp8" and self.compute != "fp8":
            raise InputError("expected 'compute' = 'fp8' for fp8 parameters, but got 'bf16'")
        if self.parameters == "fp8" and self.master == "none":
            raise InputError("expected a master copy for fp8 parameters, but got 'master' = 'none'")
        if self.master == "remainder" and self.parameters != "bf16":
            raise InputError(
                f"expected bf16 parameters for 'master' = 'remainder', but got '{self.parameters}': the low 16 bits complete a "
                "bf16 parameter to f32 and have no effect with any other type"
            )
        if self.transposed == "transient" and self.recipe == "mxfp8":
            raise InputError(
                "expected 'transposed' = 'kept' for mxfp8: its columns cannot be made from its rows without loss"
            )
        if self.reuse_gradient_buffer and not (self.parameters == "fp8" and self.recipe == "mxfp8"):
            raise InputError(
                "expected fp8 parameters of the recipe mxfp8 for 'reuse_gradient_buffer': no other gather has a bf16 buffer"
            )

    @property
    def f32_master(self) -> bool:
        """Whether there is a whole f32 copy beside the parameters."""
        return self.master == "f32" and self.parameters != "f32"


@dataclasses.dataclass(frozen=True)
class Item:
    """One thing that is kept: bytes per parameter, whether they are spread over the d data-parallel ranks, in words why,
    and where that is documented. `transient` items live for a part of the step only; `host` ones not on the GPU."""

    name: str
    bytes: Fraction
    why: str
    source: str
    sharded: bool = False
    transient: bool = False
    host: bool = False

    def on_rank(self, d: int) -> Fraction:
        """Bytes per parameter on one of d data-parallel ranks."""
        return self.bytes / d if self.sharded else self.bytes


DIST_OPTIMIZER = "Megatron-LM, docs/source/api-guide/dist_optimizer.md"
TE_WEIGHTS = "TransformerEngine issues 1261 and 1880; transformer_engine/pytorch/module/base.py, get_weight_workspace"
TE_ADAM = (
    "TransformerEngine, transformer_engine/pytorch/optimizers/fused_adam.py (store_param_remainders, exp_avg_dtype)"
)
FP8_GATHER = "Megatron-LM, --fp8-param-gather; TransformerEngine issue 1764"
MX = "OCP Microscaling Formats 1.0, section 5: one scale byte for 32 elements"
BLOCK = "TransformerEngine, Float8BlockQuantizer: one f32 scale for 128 x 128 elements of a weight"
FSDP = (
    "PyTorch, torch.distributed.fsdp.fully_shard: parameters, gradients and optimizer state are spread over the ranks"
)


def items(precision: Precision, linear: bool = True) -> List[Item]:
    """What is kept of one parameter. `linear`: of a weight of a linear; other parameters (embeddings, norms, the router)
    are never fp8, they are bf16 where those are."""
    p = precision
    held = p.parameters if linear or p.parameters != "fp8" else "bf16"
    spread = p.optimizer == "fsdp"
    result = []
    # The copies that the model and its matmuls hold.
    if held == "fp8":
        result += _fp8_copies(p, "fp8 parameter", FP8_GATHER, spread)
        if p.recipe == "mxfp8" and p.optimizer == "distributed":
            alias = p.reuse_gradient_buffer
            why = "bf16 travels and is quantised on arrival, as columns cannot be made from rows"
            why += "; the buffer lies in the idle gradient buffer" if alias else ""
            result.append(
                Item(
                    "bf16 gather buffer",
                    Fraction(0 if alias else 2),
                    why,
                    "Megatron-LM, --reuse-grad-buf-for-mxfp8-param-ag",
                )
            )
    else:
        result.append(
            Item(
                f"{held} parameter",
                Fraction(_BYTES[held]),
                f"{_BYTES[held]} B",
                FSDP if spread else DIST_OPTIMIZER,
                spread,
            )
        )
        if linear and p.compute == "fp8":
            copies = _fp8_copies(p, "fp8 copy", TE_WEIGHTS, False)
            # Under FSDP the gathered weight and its casts live for one layer only (TransformerEngine pull request 2805).
            result += [dataclasses.replace(copy, transient=True) for copy in copies] if spread else copies
    if spread:
        size = 1 if held == "fp8" else 2
        result.append(
            Item(
                "gathered layer",
                Fraction(size),
                f"{size} B, the whole weight while its layer runs",
                FSDP,
                transient=True,
            )
        )
    # The gradient.
    size = _BYTES[p.gradients]
    result.append(
        Item(
            f"{p.gradients} gradient",
            Fraction(size),
            f"{size} B, accumulated over the microbatches",
            FSDP if spread else DIST_OPTIMIZER,
            spread,
        )
    )
    # The optimizer.
    sharded = p.optimizer != "replicated"
    state = []
    if size < 4 and not p.precision_aware:
        state.append(Item("f32 gradient of the optimizer", Fraction(4), "4 B: the optimizer reads f32", DIST_OPTIMIZER))
    if held != "f32":
        if p.master == "remainder" and held == "bf16":
            state.append(
                Item(
                    "low 16 bits of the master",
                    Fraction(2),
                    "2 B: bf16 parameter and these bits are the f32 master",
                    TE_ADAM,
                )
            )
        elif p.master != "none":
            state.append(Item("f32 master", Fraction(4), "4 B", DIST_OPTIMIZER))
    moment = _BYTES[p.moments]
    state.append(
        Item(
            f"{p.moments} moments", Fraction(2 * moment), f"2 x {moment} B", DIST_OPTIMIZER if moment == 4 else TE_ADAM
        )
    )
    return result + [dataclasses.replace(item, sharded=sharded, host=p.offload) for item in state]


def _fp8_copies(p: Precision, name: str, source: str, sharded: bool) -> List[Item]:
    """The fp8 copies of a weight: as rows, and as columns where a matmul of backward needs them."""
    one, why = Fraction(1), "1 B"
    if p.recipe == "mxfp8":
        one, why, source = one + Fraction(1, 32), "1 B and 1/32 B of scales", f"{source}; {MX}"
    elif p.recipe == "block":
        one, why, source = one + Fraction(4, 16384), "1 B and 4/16384 B of scales", f"{source}; {BLOCK}"
    copies = [Item(f"{name}, rows", one, why, source, sharded)]
    if p.recipe == "mxfp8":
        copies.append(Item(f"{name}, columns", one, f"{why}; scaled along the other axis", source, sharded))
    elif p.gpu == "hopper":
        transient = p.transposed == "transient"
        how = "; made before the matmul that reads it, dropped after" if transient else "; Hopper multiplies TN only"
        copies.append(Item(f"{name}, transposed", one, why + how, source, sharded and not transient, transient))
    return copies


def bytes_per_parameter(precision: Precision, d: int = 1, linear: bool = True) -> Fraction:
    """Bytes that stay on a GPU from step to step for one parameter, at d data-parallel ranks."""
    return sum((i.on_rank(d) for i in items(precision, linear) if not i.transient and not i.host), Fraction(0))


def one_line(precision: Precision, linear: bool = True) -> str:
    """The same as the field writes it: `6 + 12/d`."""
    kept = [i for i in items(precision, linear) if not i.transient and not i.host]
    own = sum((i.bytes for i in kept if not i.sharded), Fraction(0))
    spread = sum((i.bytes for i in kept if i.sharded), Fraction(0))
    parts = [f"{float(own):g}"] if own or not spread else []
    return " + ".join(parts + ([f"{float(spread):g}/d"] if spread else []))
