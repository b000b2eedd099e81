# ===- job.py - a training job as a configuration ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What a job is to memory: its model, the sizes of its parallel groups, its microbatches, precision, schedule and
# recomputation; and which layers lie on which pipeline rank.
#
# ===--------------------------------------------------------===#
"""Jobs: a model, its parallel sizes, and everything else that decides the memory of a rank."""

import dataclasses
import json
import pathlib
import re
from typing import Any, List, Mapping, NamedTuple, Optional, Tuple

from .command import InputError, parse_bytes, read_text
from .config import build, read_table
from .models import Model, load_model
from .params import Precision
from .pipeline import SCHEDULES, Schedule, Step, check_sizes, make_schedule, read_schedule, run

__all__ = [
    "Batch",
    "Buffers",
    "DEEPEP_TOKENS",
    "Job",
    "MODULES",
    "Part",
    "Recompute",
    "SCHEDULES",
    "Sizes",
    "load_job",
    "parse_layout",
]


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of the parallel groups, as Megatron names them. `data` counts the ranks that see other samples, `context` those
    that share a sample; experts split over expert x expert_tensor ranks of a pipeline stage."""

    tensor: int = 1
    pipeline: int = 1
    virtual: int = 1
    expert: int = 1
    expert_tensor: int = 1
    context: int = 1
    data: int = 1
    sequence: bool = True

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if field.name != "sequence" and getattr(self, field.name) < 1:
                raise InputError(f"expected '{field.name}' of at least 1, but got {getattr(self, field.name)}")
        stage = self.tensor * self.context * self.data
        if stage % (self.expert * self.expert_tensor):
            raise InputError(
                f"expected tensor x context x data = {stage} as a multiple of expert x expert_tensor = "
                f"{self.expert * self.expert_tensor}"
            )

    @property
    def world(self) -> int:
        """All ranks."""
        return self.tensor * self.context * self.data * self.pipeline

    @property
    def dense_copies(self) -> int:
        """Ranks that hold the same part of a dense weight: what its optimizer state is spread over."""
        return self.data * self.context

    @property
    def expert_copies(self) -> int:
        """Ranks that hold the same part of the experts."""
        return self.tensor * self.context * self.data // (self.expert * self.expert_tensor)


@dataclasses.dataclass(frozen=True)
class Batch:
    """Tokens of one sequence, sequences of one microbatch, and microbatches of one step on each pipeline."""

    sequence: int
    micro: int = 1
    microbatches: int = 1

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) < 1:
                raise InputError(f"expected '{field.name}' of at least 1, but got {getattr(self, field.name)}")


MODULES = ("core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts")


@dataclasses.dataclass(frozen=True)
class Recompute:
    """Recomputation as Megatron names it: granularity none, selective (the modules in the list) or full (all layers, each
    kept as its input); `originals`: linears keep the bf16 input that another op keeps anyway (save_original_input)."""

    granularity: str = "none"
    modules: Tuple[str, ...] = ()
    originals: bool = False

    def __post_init__(self):
        if self.granularity not in ("none", "selective", "full"):
            raise InputError(f"expected 'granularity' as one of none, selective, full, but got '{self.granularity}'")
        for module in self.modules:
            if module not in MODULES:
                raise InputError(f"expected 'modules' of {', '.join(MODULES)}, but got '{module}'")
        if self.modules and self.granularity != "selective":
            raise InputError(f"expected 'granularity' = 'selective' with 'modules', but got '{self.granularity}'")
        if self.granularity == "selective" and not self.modules:
            object.__setattr__(self, "modules", ("core_attn",))


# DeepEP: tokens that a channel receives from a GPU of the node and from another node, for each size of the group.
DEEPEP_TOKENS = {2: (256, 0), 4: (256, 0), 8: (256, 0), 16: (288, 140), 24: (288, 128), 32: (288, 128), 64: (288, 140)}
DEEPEP_TOKENS.update({128: (560, 132), 144: (720, 132), 160: (720, 132)})


@dataclasses.dataclass(frozen=True)
class Buffers:
    """Buffers of communication libraries to count: DeepEP's, and those of NCCL's rings on so many channels."""

    deepep: bool = False
    nccl_channels: int = 0

    def __post_init__(self):
        if self.nccl_channels > 64:
            raise InputError(f"expected 'nccl_channels' of at most 64, but got {self.nccl_channels}")


@dataclasses.dataclass(frozen=True)
class Job:
    """A job. `frees`: `prompt`, or `late` where what a coalesced gather reads and makes lives until the CPU next waits for the GPU
    (TransformerEngine before 2.8), or `emptied` where that is so of what it reads (since 2.8); `ahead`: how many steps the CPU may be ahead of the GPU then. `allocator`: the mode of
    PyTorch's allocator whose unused memory is counted (`expandable` or `segments`), or `none`. `steps`: the steps of each
    pipeline rank, where they are a user's own; `schedule` then says where its chunks lie. `capacity`: for experts, how many
    times the balanced number of tokens a rank may get. `device`: bytes of one GPU; `overhead`: bytes of context and libraries
    on it."""

    model: Model
    sizes: Sizes
    batch: Batch
    precision: Precision = Precision()
    recompute: Recompute = Recompute()
    schedule: str = "1f1b"
    layout: str = ""
    frees: str = "prompt"
    ahead: int = 0
    allocator: str = "none"
    capacity: float = 1.0
    device: int = 80 * 2**30
    overhead: int = 0
    buffers: Buffers = Buffers()
    steps: Optional[Tuple[Tuple[Step, ...], ...]] = None

    def __post_init__(self):
        if self.schedule not in SCHEDULES:
            raise InputError(f"expected 'schedule' as one of {', '.join(SCHEDULES)}, but got '{self.schedule}'")
        if self.sizes.virtual > 1 and self.schedule != "interleaved" and self.steps is None:
            raise InputError(
                f"expected 'schedule' = 'interleaved' with 'virtual' = {self.sizes.virtual}, but got '{self.schedule}'"
            )
        if self.schedule == "interleaved" and self.sizes.virtual == 1 and self.steps is None:
            raise InputError(
                "expected 'virtual' of at least 2 with 'schedule' = 'interleaved', but got 1, which is the schedule 1f1b"
            )
        if self.frees not in ("prompt", "emptied", "late"):
            raise InputError(f"expected 'frees' as prompt, emptied or late, but got '{self.frees}'")
        if self.ahead < 0:
            raise InputError(f"expected 'ahead' of at least 0, but got {self.ahead}")
        if self.ahead and self.frees == "prompt":
            raise InputError(f"expected 'frees' as emptied or late with 'ahead' = {self.ahead}, but got 'prompt'")
        if self.allocator not in ("none", "expandable", "segments"):
            raise InputError(f"expected 'allocator' as none, expandable or segments, but got '{self.allocator}'")
        if not 1 <= self.capacity <= self.sizes.expert:
            raise InputError(
                f"expected 'capacity' between 1.0 (balanced) and 'expert' = {self.sizes.expert} (all tokens on one rank), but "
                f"got {self.capacity}"
            )
        if self.sizes.expert > 1 and not self.model.moe:
            raise InputError(
                f"expected 'expert' = 1 for '{self.model.name}', which has no experts, but got {self.sizes.expert}"
            )
        if self.model.moe and self.model.moe.experts % self.sizes.expert:
            raise InputError(
                f"expected 'expert' to divide {self.model.moe.experts} experts, but got {self.sizes.expert}"
            )
        ranks = self.sizes.expert * self.sizes.expert_tensor
        if self.buffers.deepep and (not self.model.moe or ranks not in DEEPEP_TOKENS):
            raise InputError(
                f"expected experts on {', '.join(map(str, DEEPEP_TOKENS))} ranks with 'deepep', but got "
                + (f"{ranks}" if self.model.moe else f"'{self.model.name}' without experts")
            )
        tokens, parts = self.batch.sequence * self.batch.micro, self.sizes.tensor * self.sizes.context
        if tokens % parts:
            raise InputError(f"expected tensor x context = {parts} to divide {tokens} tokens")
        for name in ("heads", "ffn"):
            if getattr(self.model, name) % self.sizes.tensor:
                raise InputError(
                    f"expected 'tensor' to divide '{name}' = {getattr(self.model, name)}, but got {self.sizes.tensor}"
                )
        if self.steps is None:
            check_sizes(self.schedule, self.sizes.pipeline, self.batch.microbatches, self.chunks)
        self.stages()
        if self.steps is not None:
            if len(self.steps) != self.sizes.pipeline:
                raise InputError(f"expected steps of {self.sizes.pipeline} pipeline ranks, but got {len(self.steps)}")
            used = max((step.chunk for steps in self.steps for step in steps), default=0)
            if used >= self.chunks:
                raise InputError(f"expected steps of {self.chunks} chunks a rank, but got one of chunk {used}")
            run(self.pipeline_steps(), name=self.schedule)

    def pipeline_steps(self) -> Schedule:
        """The steps of each pipeline rank."""
        if self.steps is not None:
            return [list(steps) for steps in self.steps]
        return make_schedule(self.schedule, self.sizes.pipeline, self.batch.microbatches, self.sizes.virtual)

    @property
    def chunks(self) -> int:
        """Stages on one pipeline rank."""
        if self.schedule in ("dualpipe", "dualpipev", "zero-bubble-v"):
            return 2
        return self.sizes.virtual

    def stages(self) -> List[List["Part"]]:
        """The parts of the model on each stage, in order."""
        ranks = self.sizes.pipeline
        count = ranks if self.schedule == "dualpipe" else ranks * self.chunks
        if self.layout:
            stages = parse_layout(self.layout, self.model)
            if len(stages) != count:
                raise InputError(f"expected {count} stages in 'layout', but got {len(stages)}")
            return stages
        layers = self.model.layers
        if layers % count:
            raise InputError(
                f"expected {layers} layers as a multiple of {count} stages, or a 'layout' as --pipeline-model-parallel-layout "
                "takes it (E embedding, t layer, m MTP layer, L loss, | next stage, x*3 repeats)"
            )
        per = layers // count
        stages = [[Part("layer", stage * per + i) for i in range(per)] for stage in range(count)]
        stages[0].insert(0, Part("embedding"))
        stages[-1] += [Part("mtp", layers + i) for i in range(self.model.mtp_layers)] + [Part("loss")]
        return stages

    def stages_of(self, rank: int) -> List[int]:
        """The stages that a pipeline rank holds, in the order of its chunks."""
        ranks = self.sizes.pipeline
        if self.schedule == "dualpipe":
            return [rank, ranks - 1 - rank]
        if self.schedule in ("dualpipev", "zero-bubble-v"):
            return [rank, 2 * ranks - 1 - rank]
        return [chunk * ranks + rank for chunk in range(self.chunks)]


class Part(NamedTuple):
    """A part of a stage: `embedding`, `layer`, `mtp` (with the number of the layer) or `loss`."""

    kind: str
    layer: int = -1


_LETTERS = {"E": "embedding", "t": "layer", "m": "mtp", "L": "loss"}


# Letters of the longest layout: far more than any model has layers.
_LONGEST = 100000


def expand_layout(text: str) -> List[str]:
    """The letters of each stage of a layout in Megatron's notation, for example `Et*2|(tt|)*22t|(tt|)*7mL`."""
    room = _LONGEST

    def repeated(match: re.Match) -> str:
        # Long ones are refused before they are written out.
        nonlocal room
        count = match.group(2)
        times = 1 if count is None else int(count) if len(count) < 10 else _LONGEST
        room -= times * len(match.group(1))
        if room < 0:
            raise InputError(f"expected a layout of at most {_LONGEST} letters, but got '{_short(text)}'")
        return match.group(1) * times

    expanded = "".join(text.replace(",", "").split())
    for _ in range(8):  # groups may be nested
        room = _LONGEST - len(expanded)
        shorter = re.sub(r"\(([^()]*)\)(?:\*(\d+))?", repeated, expanded)
        shorter = re.sub(r"([A-Za-z|])\*(\d+)", repeated, shorter)
        if shorter == expanded:
            break
        expanded = shorter
    if not re.fullmatch(r"[EtmL|]*", expanded):
        raise InputError(f"expected a layout of E, t, m, L, |, groups in parentheses and *N, but got '{_short(text)}'")
    return expanded.rstrip("|").split("|") if expanded else []


def _short(text: str) -> str:
    """The start of a text that may be long."""
    return text if len(text) <= 80 else text[:80] + "..."


def parse_layout(text: str, model: Model) -> List[List[Part]]:
    """The parts of each stage of a layout."""
    stages: List[List[Part]] = []
    layer, mtp = 0, model.layers
    for letters in expand_layout(text):
        stage = []
        for letter in letters:
            kind = _LETTERS[letter]
            if kind == "layer":
                stage.append(Part(kind, layer))
                layer += 1
            elif kind == "mtp":
                stage.append(Part(kind, mtp))
                mtp += 1
            else:
                stage.append(Part(kind))
        stages.append(stage)
    if layer != model.layers:
        raise InputError(f"expected {model.layers} layers (t) in layout '{_short(text)}', but got {layer}")
    kinds = [part.kind for stage in stages for part in stage]
    for kind, letter in (("embedding", "E"), ("loss", "L")):
        if kinds.count(kind) != 1:
            raise InputError(f"expected one {letter} in layout '{_short(text)}', but got {kinds.count(kind)}")
    return stages


def load_job(path: str) -> Job:
    """The job that a file describes. Its keys are the fields of Job; `model` names one that comes with the package, or a file
    beside the job's, or is a table with the model's own keys; `steps` names a JSON file beside it; sizes in bytes may have a
    unit (80GiB)."""
    file = pathlib.Path(path)
    return job_of_table(read_table(file), file.parent, f"'{file.name}'")


def job_of_table(table: Mapping[str, Any], folder: pathlib.Path, where: str) -> Job:
    """The same from what a file holds; `folder` is where the files lie that it names, and errors begin with `where`."""
    values = dict(table)
    try:
        if isinstance(values.get("model"), str):
            values["model"] = load_model(values["model"], folder)
        for key in ("device", "overhead"):
            if key in values:
                values[key] = parse_bytes(values[key])
        if "steps" in values:
            if not isinstance(values["steps"], str):
                raise InputError(f"expected 'steps' as the name of a JSON file, but got {values['steps']!r}")
            values["steps"] = _read_steps(folder / values["steps"])
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return build(Job, values, where)


def _read_steps(path: pathlib.Path) -> Tuple[Tuple[Step, ...], ...]:
    """The steps in a JSON file."""
    try:
        return tuple(tuple(steps) for steps in read_schedule(json.loads(read_text(path))))
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{path.name}': {error}") from None
