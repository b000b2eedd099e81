# ===- inductor.py - Inductor's kernels of a graph, before it is compiled ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What a forward or backward graph takes under Inductor is decided by Inductor: which operations become buffers, which of them
# one kernel writes, in which order kernels run and which buffer is used again. So Inductor itself is asked, and nothing is
# compiled: the peak is that of its buffers, the time that of its kernels' bytes and its products. One thing is decided here:
# which kernels may be one, since a kernel that writes the operands of several products needs all of them at once. Needs torch.
#
#===----------------------------------------------------------------------===//
"""The memory and time of a graph under Inductor, and limits on its fusion."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Dict, FrozenSet, List, Optional, Tuple

import torch

try:
    from torch._inductor.custom_graph_pass import CustomSchedulerPass as _PassBase
except ImportError:  # torch before 2.15 takes this class for the passes of the scheduler too
    from torch._inductor.custom_graph_pass import CustomGraphPass as _PassBase

__all__ = ["FUSION_LIMIT", "Rates", "Schedule", "UNLIMITED", "SAME_READS", "ALONE", "limit_fusion", "schedule"]

# How far kernels may be one, for those that write large buffers: Inductor decides; only kernels that read the same large
# buffers; only kernels whose results are for the same products.
UNLIMITED, SAME_READS, ALONE = 0, 1, 2
_KEY = "fp8opt_fusion"


@dataclass(frozen=True)
class Rates:
    """What a device does under Inductor: flop/s of matrix products in FP8 and in 16 bits and of attention, bytes/s of
    generated kernels, seconds that any kernel takes at least."""

    fp8: float
    half: float
    attention: float
    bytes: float
    launch: float = 2e-6


# H200: measured with PyTorch 2.11 on four float8 layers of Llama-3-8B. A CPU: so that choices can be made there.
RATES = {"h200": Rates(1.28e15, 0.74e15, 1.16e15, 2.0e12), "cpu": Rates(1e11, 1e11, 1e11, 2e10)}


@dataclass(frozen=True)
class Schedule:
    """What a graph takes. `peak_bytes` is the largest sum of what it has allocated and of the inputs that it frees;
    `peak_at` names the buffer or the kernel that reaches it; `seconds` is an estimate. Where the peak is not `exact`, it may be
    too high."""

    peak_bytes: int
    peak_at: str
    seconds: float
    kernels: int
    exact: bool = False


def limit_fusion(graph: torch.fx.GraphModule, level: int, large: int) -> None:
    """Has `FUSION_LIMIT` limit the fusion of a graph; kernels that write buffers of at least `large` bytes are meant."""
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            node.meta[_KEY] = (level, large)


class FusionLimit(_PassBase):
    """A pass for `torch._inductor.config._pre_fusion_custom_pass` that limits fusion where `limit_fusion` says so, and
    nowhere else."""

    def __call__(self, nodes: List[Any]) -> List[Any]:  # type: ignore[override]
        from torch._inductor.virtualized import V

        asked = [node.meta[_KEY] for node in V.graph.module.graph.nodes if node.op == "placeholder" and _KEY in node.meta]
        if nodes and asked and asked[0][0] != UNLIMITED:
            scheduler = nodes[0].scheduler
            rule, allowed = _Rule(*asked[0]), scheduler.can_fuse

            def can_fuse(first: Any, second: Any, *args: Any, **kwargs: Any) -> bool:
                return rule(first, second) and allowed(first, second, *args, **kwargs)

            scheduler.can_fuse = can_fuse
        return nodes

    def uuid(self) -> str:
        return "fp8opt fusion limit 1"


# One for all: torch.compile knows equal settings by equal objects, and compiles again for others.
FUSION_LIMIT = FusionLimit()


class _Rule:
    """Whether two of the scheduler's nodes may be one kernel."""

    def __init__(self, level: int, large: int):
        self.level, self.large = level, large
        self._products: Dict[str, FrozenSet[str]] = {}

    def __call__(self, first: Any, second: Any) -> bool:
        writers = [self._writers(node) for node in (first, second)]
        if not all(writers):
            return True
        ends = [frozenset().union(*(self._ends(node) for node in side)) for side in writers]
        if ends[0] == ends[1]:
            return True
        written = {dep.name for dep in first.read_writes.writes if _size(dep) >= self.large}
        feeds = bool(written & self._reads(second))
        if self.level == SAME_READS:
            reads = {self._reads(node) for side in writers for node in side}
            return feeds or len(reads) == 1
        return feeds and ends[1] <= ends[0]

    def _writers(self, node: Any) -> List[Any]:
        """The nodes in a kernel that write large buffers."""
        return [part for part in node.get_nodes() if any(_size(dep) >= self.large for dep in part.read_writes.writes)]

    def _reads(self, node: Any) -> FrozenSet[str]:
        return frozenset(dep.name for dep in node.read_writes.reads if _size(dep) >= self.large)

    def _ends(self, node: Any) -> FrozenSet[str]:
        """The products and results of the graph that read what a node gives, through other kernels."""
        name = node.get_name()
        if name not in self._products:
            self._products[name] = frozenset()  # no node is its own reader
            found = set()
            for buffer in node.get_outputs():
                for user in buffer.users:
                    if not hasattr(user.node, "is_extern"):
                        found.add(buffer.get_name())
                    elif user.node.is_extern():
                        found.add(user.node.get_name())
                    else:
                        found |= self._ends(user.node)
            self._products[name] = frozenset(found)
        return self._products[name]


def _size(dependence: Any) -> int:
    try:
        return int(dependence.numbytes_hint())
    except (KeyError, NotImplementedError, AttributeError):  # a dependence without a buffer of its own
        return 0


def schedule(graph: torch.fx.GraphModule, backward: bool, rates: Rates, exact: bool = False) -> Schedule:
    """What a forward or backward graph, as a partitioner gives it, takes under Inductor. Without `exact`, its scheduler is
    asked, which does not know of buffers that a kernel writes in the place of others, so that the peak may be too high; with it,
    Inductor generates its code, which takes several times as long, and the allocations in it are added up. Nothing is compiled,
    and the graph is left as it is."""
    from torch._guards import TracingContext, detect_fake_mode, tracing
    from torch._inductor import compile_fx, config
    from torch._inductor.debug import DebugContext
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V

    graph = copy.deepcopy(graph)
    given = [node for node in graph.graph.nodes if node.op == "placeholder"]
    inputs = [node.meta["val"] for node in given]
    # What is kept from forward to backward is let go as soon as backward is done with it; parameters, inputs and the
    # gradients of results are somebody else's.
    kept = [index for index, node in enumerate(given) if backward and isinstance(inputs[index], torch.Tensor)
            and not node.name.startswith(("primals", "tangents"))]
    context = TracingContext(detect_fake_mode(inputs))
    context.fw_metadata = SimpleNamespace(bw_donated_idxs=kept) if backward else None
    compile_fx.view_to_reshape(graph)
    with torch.no_grad(), config.patch(_pre_fusion_custom_pass=FUSION_LIMIT), tracing(context):
        mode = compile_fx.fake_tensor_prop(graph, inputs)
        compile_fx._recursive_record_original_output_strides(graph)
        with V.set_fake_mode(mode):
            compile_fx._recursive_post_grad_passes(graph, is_inference=False)
            lowered = GraphLowering(graph, example_inputs=inputs, shape_env=compile_fx.shape_env_from_inputs(inputs),
                                    graph_id=0, is_backward=backward, is_inference=False)
            with V.set_graph_handler(lowered), V.set_extern_kernel_nodes([]), V.set_debug_handler(DebugContext()):
                lowered.run(*inputs)
                if exact:
                    lowered.codegen()
                    lives = _Storages(lowered)
                    for index in kept:
                        lives.add(given[index].name, inputs[index].numel() * inputs[index].element_size())
                    for line in lowered.wrapper_code.lines:
                        lives.run(line)
                    peak, at = lives.peak, lives.peak_at
                else:
                    lowered._update_scheduler()
                    peak, at = _peak(lowered)
                nodes = lowered.scheduler.nodes
                return Schedule(peak, at, _seconds(nodes, rates), len(nodes), exact)


def _peak(graph: Any) -> Tuple[int, str]:
    """The largest sum of buffers by the scheduler's account of their lives, and the kernel at which it is."""
    from torch._inductor import memory
    from torch.utils._ordered_set import OrderedSet

    scheduler = graph.scheduler
    nodes, results = scheduler.nodes, OrderedSet(graph.get_output_names())
    _, freed = memory.prepare_planning_info(nodes, scheduler.name_to_buf, scheduler.name_to_fused_node,
                                            OrderedSet(graph.graph_inputs.keys()), results)
    change = [0] * (len(nodes) + 2)
    for life in memory.compute_memory_timeline(nodes, freed, results)[0]:
        # A result that nothing reads is freed before it is made, by this account; it stays to the end.
        stays = life.end_step < life.start_step
        change[life.start_step] += life.size_alloc
        change[len(nodes) + 1 if stays else life.end_step + 1] -= life.size_alloc if stays else life.size_free
    live, best, at = 0, 0, ""
    for step, node in enumerate(nodes):
        live += change[step]
        if live > best:
            best, at = live, node.get_name()
    return best, at


class _Storages:
    """The storages that live while generated code runs. Several names may go for one."""

    def __init__(self, graph: Any):
        self.graph = graph
        self.storage: Dict[str, int] = {}  # by the name of a buffer: the number of its storage
        self.sizes: List[int] = []
        self.names: List[int] = []  # how many there are of each storage
        self.live = self.peak = 0
        self.peak_at = ""

    def add(self, name: str, size: int) -> None:
        self.storage[name] = len(self.sizes)
        self.sizes.append(size)
        self.names.append(1)
        self.live += size
        if self.live > self.peak:
            self.peak, self.peak_at = self.live, name

    def allocate(self, node: Any) -> None:
        try:
            size = int(self.graph.get_allocation_storage_size(node)) * node.get_dtype().itemsize
        except NotImplementedError:  # no tensor
            return
        self.add(node.get_name(), size)

    def again(self, node: Any, name: str) -> None:
        """`name` goes for the storage of `node` too."""
        number = self.storage.get(node.get_name())
        if number is not None:
            self.storage[name] = number
            self.names[number] += 1

    def drop(self, node: Any) -> None:
        number = self.storage.pop(node.get_name(), None)
        if number is not None:
            self.names[number] -= 1
            if self.names[number] == 0:
                self.live -= self.sizes[number]

    def run(self, line: Any) -> None:
        """A line of the generated code; those that touch no storage are passed over."""
        kind = type(line).__name__
        if kind == "AllocateLine":
            self.allocate(line.node)
        elif kind == "ReuseLine":
            self.again(line.node, line.reused_as.get_name())
            if line.delete_old:
                self.drop(line.node)
        elif kind == "ReinterpretLine":
            self.again(line.node, line.reused_as.get_name())
        elif kind == "ExternKernelAllocLine":
            for result in getattr(line.node, "outputs", None) or [line.node]:
                alias = getattr(result, "get_inputs_that_alias_output", None)  # a number or None has none
                if alias is not None and not alias():
                    self.allocate(result)
        elif kind == "FreeLine" or (kind == "FreeIfNotReusedLine" and not line.is_reused):
            self.drop(line.node)


def _seconds(nodes: List[Any], rates: Rates) -> float:
    total, seen = 0.0, set()
    for node in nodes:
        spent = 0.0
        if node.is_extern():
            for origin in node.node.origins:
                if origin not in seen:
                    seen.add(origin)
                    spent += _product_seconds(origin, rates)
        if not spent:
            spent = node.get_read_write_buffers_sizes() / rates.bytes
        total += max(spent, rates.launch)
    return total


def _product_seconds(node: torch.fx.Node, rates: Rates) -> float:
    """What the matrix products of an operation take; 0 where it has none."""
    from torch.utils import _pytree as pytree
    from torch.utils.flop_counter import flop_registry

    packet: Optional[Any] = getattr(node.target, "overloadpacket", None)
    if packet not in flop_registry:
        return 0.0
    args, kwargs = pytree.tree_map_only(torch.fx.Node, lambda operand: operand.meta["val"], (node.args, node.kwargs))
    flops = flop_registry[packet](*args, **kwargs, out_val=node.meta["val"])
    first = next((item for item in args if isinstance(item, torch.Tensor)), None)
    if "attention" in str(packet):
        rate = rates.attention
    else:
        rate = rates.fp8 if first is not None and "float8" in str(first.dtype) else rates.half
    return flops / rate
