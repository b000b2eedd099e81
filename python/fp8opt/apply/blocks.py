# ===- blocks.py - blocks that are compiled apart, under one budget ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Captures one of equal blocks, has Inductor schedule the ways to split it, divides the budget of the step over all blocks
# and gives each to torch.compile with its way. Needs torch.
#
#===----------------------------------------------------------------------===//
"""torch.compile of equal blocks by one plan of their step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch

from ..command import parse_bytes
from ..graphs.sharded import gathered_bytes, shards_of
from ..graphs.trace import capture_joint
from .division import BlockCost, divide
from .inductor import FUSION_LIMIT
from .partition import Partitioner
from .variants import Variant, exactly, pareto, planner, variants_of

__all__ = ["CompiledBlocks", "compile_blocks"]


@dataclass
class Ways:
    """The ways to split one block: its joint graph as torch.compile hands it to a partitioner, and what each way takes."""

    joint: torch.fx.GraphModule
    options: Dict[str, Any]
    plan: Any
    target: str
    variants: List[Variant]

    def exact(self, variant: Variant) -> Variant:
        """The variant with its exact peaks, which are kept."""
        if not variant.backward.exact:
            found = exactly(variant, self.joint, None, self.options, self.target, self.plan)
            self.variants = [found if other.choice == variant.choice else other for other in self.variants]
        return next(other for other in self.variants if other.choice == variant.choice)


@dataclass
class CompiledBlocks:
    """How each of a row of equal blocks is computed: `chosen[k]` is block k's variant. `expected_peak_bytes` is the peak of
    the step through all of them, over what was there before it; `expected_seconds` is an estimate. `ways` are all that were
    looked at."""

    chosen: List[Variant]
    expected_peak_bytes: int
    expected_seconds: float
    ways: Ways


def compile_blocks(blocks: Sequence[torch.nn.Module], *inputs: Any, kwargs: Optional[Dict[str, Any]] = None,
                   budget: Union[None, str, int] = None, outside: Union[str, int] = 0, target: str = "h200",
                   compiler: Optional[str] = None, ways: Optional[Ways] = None) -> CompiledBlocks:
    """Gives each of equal blocks that run one after the other to torch.compile, so that the peak of the step through them is
    within `budget`:

        fp8opt.apply.compile_blocks(model.layers, x, cos, sin, budget="60GiB", outside="4GiB")
        model(batch).backward()                     # the first call compiles

    `inputs` are tensors as a block gets them; nothing is computed here. The peak is over what was there before the step
    (parameters, the first block's inputs); gradients of parameters are in it, and `outside` is what else lies there when
    blocks run: logits, embeddings, the loss. Of blocks under `fully_shard` the weights that FSDP2 gathers are counted beside that,
    and of each gradient the rank's shard. Without a budget, the fastest way is taken for all. At most three ways are used,
    since each is compiled once. `ways` are those of an earlier call for the same block.

    Raises `InputError` with the smallest peak where no way fits in the budget."""
    if ways is None:
        ways = _ways(blocks[0], inputs, kwargs, target, compiler)
    beside = parse_bytes(outside) + gathered_bytes(*blocks)
    limit, shards = None if budget is None else parse_bytes(budget) - beside, shards_of(blocks[0])
    while True:  # until all that are chosen are exact; an exact peak is no higher, so that this ends
        best = pareto(ways.variants)
        division = divide([_cost(way, shards) for way in best], len(blocks), limit)
        chosen = [ways.exact(best[index]) for index in division.chosen]
        if all(best[index].backward.exact for index in division.chosen):
            break
    partitioners = {way.choice: Partitioner(choice=way.choice, target=target, compiler=compiler) for way in chosen}
    for block, way in zip(blocks, chosen):
        block.compile(options={"custom_partitioner_fn": partitioners[way.choice], "_pre_fusion_custom_pass": FUSION_LIMIT})
    return CompiledBlocks(chosen, division.peak_bytes + beside, division.seconds, ways)


def _cost(way: Variant, shards: int) -> BlockCost:
    return BlockCost(way.kept, way.kept_inputs, way.forward.peak_bytes, way.backward.peak_bytes, way.gradients // shards,
                     way.results, way.seconds)


def _ways(block: torch.nn.Module, inputs: Tuple[Any, ...], kwargs: Optional[Dict[str, Any]], target: str,
          compiler: Optional[str]) -> Ways:
    from torch._inductor.compile_fx import _recursive_joint_graph_passes

    graph, joint, forward_outputs = capture_joint(block, *inputs, kwargs=kwargs, on_device=True)
    primals = [node for node in joint.graph.nodes if node.op == "placeholder" and "tangents" not in node.name]
    parameters = {item.name for item in graph.inputs if item.kind in ("parameter", "buffer")}
    static = [index for index, node in enumerate(primals) if node.name in parameters]
    device = next((leaf.device for leaf in torch.utils._pytree.tree_leaves((inputs, kwargs))
                   if isinstance(leaf, torch.Tensor)), None)
    _recursive_joint_graph_passes(joint, input_device=device)
    options = {"num_fwd_outputs": forward_outputs, "static_lifetime_input_indices": static}
    plan = planner(forward_outputs, static, target, compiler)
    return Ways(joint, options, plan, target, variants_of(joint, None, options, target, plan))
