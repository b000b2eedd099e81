# ===- partitioner.py - what torch.compile keeps ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Asks torch's own min-cut partitioner what it would keep of a joint graph, and captures the joint graphs that torch.compile
# makes of a module. Needs torch.
#
#===----------------------------------------------------------------------===//
"""What the min-cut partitioner of torch.compile keeps from forward to backward."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch

from .graph import ELEMENT_BYTES, Graph, Kept, KeptValue, Node
from .sharded import sharded_prefixes, unsharded
from .trace import CaptureError, default_decompositions, from_joint, type_name

# Operations that are cheap to run again; a save list that names one keeps its bytes for little.
_DEAR = ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "convolution")


def is_cheap(op: str) -> bool:
    """Whether an operation is no matrix product, attention, convolution or collective."""
    space, _, rest = op.partition(".")
    base = rest.split(".")[0]
    return space in ("aten", "prims") and base not in _DEAR and "attention" not in base


def kept_by_min_cut(joint: torch.fx.GraphModule, forward_outputs: int, graph: Graph) -> Kept:
    """What torch's default partitioner keeps of a joint graph. `graph` is what `from_joint` made of it; `joint` is used
    up."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    placeholders = [node for node in joint.graph.nodes if node.op == "placeholder" and "tangents" not in node.name]
    parameters = {item.name for item in graph.inputs if item.kind in ("parameter", "buffer")}
    for node in joint.graph.nodes:
        if node.meta.get("ac_graph_id", 0) is None:  # a checkpoint that was traced without Dynamo has no number
            del node.meta["ac_graph_id"]
    static = [index for index, node in enumerate(placeholders) if node.name in parameters]
    _, backward = min_cut_rematerialization_partition(joint, None, num_fwd_outputs=forward_outputs,
                                                      static_lifetime_input_indices=static)
    return kept_values(graph, [node.name for node in backward.graph.nodes if node.op == "placeholder"])


def kept_values(graph: Graph, names: List[str]) -> Kept:
    """The storages behind the values that a backward graph is given, each once; inputs are left out, they are there
    anyway, and so are results of forward."""
    tensors, producers, roots = graph.tensors(), graph.producers(), graph.roots()
    given = {roots[item.value] for item in graph.outputs if item.region == "forward" and item.value}
    given |= {item.name for item in graph.inputs}
    readers: Dict[str, Node] = {}
    for node in graph.nodes:
        if node.region == "backward" and not node.alias:
            for name in node.reads():
                readers.setdefault(roots[name], node)
    values: List[KeptValue] = []
    for name in names:
        root = roots.get(name)
        if root is None or root in given or tensors[root] is None:
            continue
        given.add(root)
        node, tensor = producers[root], tensors[root]
        size = max(tensor.storage_bytes, tensor.elements * ELEMENT_BYTES[tensor.dtype])
        values.append(KeptValue(node.op, size, tensor.dtype, tensor.shape, node.location,
                                _why(readers, root, node.recompute), root))
    kept = Kept("torch.compile", values)
    kept.notes = _unread(graph, {value.value for value in values} | given)
    return kept


def _why(readers: Dict[str, Node], name: str, asked: str) -> str:
    reader = readers.get(name)
    what = f"{reader.op} of {reader.location.module or 'the module'}" if reader else "backward"
    if asked == "save":
        return f"the save list names its operation, and the backward pass reads it in {what}"
    return f"the min-cut keeps it for the backward pass, which reads it in {what}"


def _unread(graph: Graph, kept: set) -> List[str]:
    """A sentence for each cheap operation that a save list names though backward reads none of its results."""
    found: Dict[str, List[int]] = {}
    roots = graph.roots()
    for node in graph.nodes:
        if node.region == "forward" and node.recompute == "save" and is_cheap(node.op) and not node.alias:
            tensor = node.outputs[0][1]
            entry = found.setdefault(node.op, [0, 0, 0])
            entry[0] += 1
            if node.name and roots[node.name] in kept:
                entry[2] += 1
            elif tensor is not None:
                entry[1] += tensor.bytes
    return [f"the save list names {op}, but backward reads none of its {count} results, so torch.compile keeps none "
            f"({size / 2**20:,.1f} MiB that eager mode keeps)" for op, (count, size, used) in found.items() if not used]


def capture_compiled(module: torch.nn.Module, *args: Any, kwargs: Optional[Dict[str, Any]] = None,
                     name: str = "") -> List[Graph]:
    """The joint graphs that torch.compile makes of `module(*args, **kwargs)`, one a graph without a break, each with what
    the partitioner keeps of it. Nothing is computed, but results and kept values are allocated on the module's device
    (the meta device will do), and a module with graph breaks sees uninitialised tensors behind the first one.

    Raises `CaptureError` where torch.compile fails."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    graphs: List[Graph] = []
    # The graphs do not name their parameters, so all are marked or none.
    sharded = sharded_prefixes(module)
    gathered = bool(sharded) and all(name.startswith(sharded) for name, _ in module.named_parameters())

    def partition(joint, inputs, *, num_fwd_outputs, **options):
        graph = from_joint(joint, num_fwd_outputs, f"{name or type(module).__name__}_{len(graphs)}",
                           targets_of(joint, options.get("static_lifetime_input_indices") or ()))
        result = min_cut_rematerialization_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)
        names = [node.name for node in result[1].graph.nodes if node.op == "placeholder"]
        graph.kept.append(kept_values(graph, names))
        for item in graph.inputs:
            item.regathered = gathered and item.kind == "parameter"
        graphs.append(graph)
        return result

    def compiler(graph_module, _inputs):
        # Nothing is computed: the results are tensors of their shapes.
        output = list(graph_module.graph.nodes)[-1]
        shapes = [node.meta["val"] if isinstance(node, torch.fx.Node) else node for node in output.args[0]]

        def run(*_arguments):
            return [torch.empty_strided(shape.shape, shape.stride(), dtype=shape.dtype, device=shape.device)
                    if isinstance(shape, torch.Tensor) else shape for shape in shapes]

        return make_boxed_func(run)

    backend = aot_autograd(fw_compiler=compiler, bw_compiler=compiler, partition_fn=partition,
                           decompositions=default_decompositions())
    try:
        with unsharded(module, args, kwargs) as (inputs, keywords):
            torch.compile(module, backend=backend, dynamic=False)(*inputs, **keywords)
    except Exception as error:  # whatever torch raises
        raise CaptureError(f"torch.compile could not compile {type_name(module)}: {error}") from error
    return graphs


def targets_of(joint: torch.fx.GraphModule, static: Any) -> Dict[str, tuple]:
    """What each placeholder of a graph of torch.compile is: a static input is a parameter."""
    placeholders = [node for node in joint.graph.nodes if node.op == "placeholder"]
    primals = [node for node in placeholders if "tangents" not in node.name]
    result = {}
    for index, node in enumerate(primals):
        tensor = isinstance(node.meta.get("val"), torch.Tensor)
        kind = "other" if not tensor else "parameter" if index in set(static) else "input"
        result[node.name] = (kind, _target_of(node))
    return result


def _target_of(node: torch.fx.Node) -> str:
    """The parameter's name, where torch says it."""
    description = node.meta.get("desc")
    return getattr(description, "target", "") if description is not None else ""
