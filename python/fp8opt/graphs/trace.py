# ===- trace.py - the joint graph of a module through AOTAutograd ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Traces a module with torch's AOTAutograd on fake tensors, so that nothing is computed and nothing is allocated, and
# turns the FX graph into plain data. Works with torch 2.11 and later; needs torch.
#
#===----------------------------------------------------------------------===//
"""Capture of joint graphs."""

from __future__ import annotations

import contextlib
import operator
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.overrides import TorchFunctionMode

from .graph import Graph, Input, Location, Node, Output, Ref, Special, Tensor
from .location import ModuleStack, line_of, watch
from .sharded import sharded_prefixes, unsharded

# Operations whose schema does not say that their result lies in their operand's storage, though it does.
_VIEWS = {"aten._unsafe_view.default", "_c10d_functional.wait_tensor.default", "aten.split.Tensor",
          "aten.split_with_sizes.default", "aten.unbind.int", "aten.chunk.default"}
# Operations that draw random numbers: run again, they draw others.
_RANDOM_TAG = torch.Tag.nondeterministic_seeded
_LOCATION = "fp8opt"


class CaptureError(RuntimeError):
    """A module that could not be captured; the text says why and what to do."""


def refusal(what: str, error: Exception) -> CaptureError:
    """The error of a module that torch does not trace, `what` in words: torch's reason, the user's line, and what to do."""
    line = line_of(error.__traceback__)
    at = f" (at {line})" if line else ""
    reason = str(error).strip() or type_name(error)
    if isinstance(error, (DynamicOutputShapeException, DataDependentOutputException, GuardOnDataDependentSymNode)):
        return CaptureError(f"{what}: {reason} depends on values{at}; what branches on values has to be captured as its own "
                            "module")
    return CaptureError(f"{what}: {reason}{at}")


class _Annotate(TorchFunctionMode):
    """Marks each node with the module and the lines that run when it is made.

    Where the module lies on the meta device, attention is traced as the fused kernel that a GPU would run: torch's choice
    for meta tensors is the one that writes all scores out."""

    def __init__(self, stack: ModuleStack):
        self.stack = stack

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.nn.functional.scaled_dot_product_attention:
            function = _attention
        with fx_traceback.annotate({_LOCATION: self.stack.here()}):
            return function(*args, **(kwargs or {}))


def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """`torch.nn.functional.scaled_dot_product_attention`, by a fused kernel where one is known to fit."""
    fits = (query.device.type == "meta" and query.dtype in (torch.bfloat16, torch.float16)
            and query.shape[-1] % 8 == 0 and query.dim() == 4)
    if fits and attn_mask is None:
        return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False,
                                                                  scale=scale)[0]
    if fits and key.shape[1] == query.shape[1]:
        if attn_mask.dtype == torch.bool:
            attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, float("-inf"))
        mask = attn_mask.expand(*query.shape[:3], key.shape[2])
        return torch.ops.aten._scaled_dot_product_efficient_attention(query, key, value, mask, True, dropout_p,
                                                                      is_causal, scale=scale)[0]
    return torch._C._nn.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale,
                                                     enable_gqa=enable_gqa)


def tensor_of(value: Any) -> Optional[Tensor]:
    """The description of a fake or real tensor; None for what is none."""
    if not isinstance(value, torch.Tensor):
        return None
    if any(not isinstance(size, int) for size in (*value.shape, *value.stride())):
        raise CaptureError(f"expected static shapes, but got {tuple(value.shape)}; capture with fixed sizes "
                           "(torch.compile(..., dynamic=False))")
    try:
        storage_bytes = int(value.untyped_storage().nbytes())
    except (NotImplementedError, RuntimeError):  # a subclass without a storage of its own
        storage_bytes = value.numel() * value.element_size()
    return Tensor(str(value.dtype).removeprefix("torch."), tuple(value.shape), tuple(value.stride()),
                  int(value.storage_offset()), storage_bytes)


def _special(argument: Any) -> Any:
    """An argument of an FX node as a dump holds it."""
    if isinstance(argument, torch.fx.Node):
        return Ref(argument.name)
    if isinstance(argument, (list, tuple)):
        return [_special(item) for item in argument]
    if argument is None or isinstance(argument, (bool, int, float, str)):
        return argument
    for type, kind in ((torch.dtype, "dtype"), (torch.device, "device"), (torch.layout, "layout"),
                       (torch.memory_format, "memory_format")):
        if isinstance(argument, type):
            return Special(kind, str(argument).removeprefix("torch."))
    return Special("other", type_name(argument))


def type_name(value: Any) -> str:
    """The name of a value's type, or of the function that it stands for."""
    if isinstance(value, _Function):
        return f"{value.function.__module__}.{getattr(value.function, '__qualname__', 'function')}"
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _op_name(target: Any) -> str:
    return str(target) if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", str(target))


def _aliases(node: torch.fx.Node) -> List[str]:
    """For each result of an operation the operand whose storage it shares, by the operation's schema."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return []
    first = node.args[0].name if node.args and isinstance(node.args[0], torch.fx.Node) else ""
    if str(target) in _VIEWS:
        return [first]
    operands = dict(zip((argument.name for argument in target._schema.arguments), node.args))
    operands.update(node.kwargs)
    result = []
    for returned in target._schema.returns:
        found = ""
        if returned.alias_info is not None:
            for argument in target._schema.arguments:
                operand = operands.get(argument.name)
                shared = argument.alias_info is not None and (
                    argument.alias_info.before_set & returned.alias_info.before_set)
                if shared and isinstance(operand, torch.fx.Node):
                    found = operand.name
                    break
        result.append(found)
    return result


def _location(node: torch.fx.Node, forward: Dict[int, Location]) -> Location:
    found = node.meta.get("custom", {}).get(_LOCATION)
    if isinstance(found, Location):
        return found
    if node.meta.get("seq_nr") in forward:
        return forward[node.meta["seq_nr"]]
    # A graph of torch.compile: the modules' paths and a formatted trace.
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    paths = [_clean_path(path) for path, _ in stack.values()]
    return Location(paths[-1] if paths else "", _lines_of_trace(node.meta.get("stack_trace") or ""))


def _clean_path(path: str) -> str:
    """`L['self'].layers.0` or `L['self']._modules['layers']...` as `layers.0`."""
    for quote in ("['", '["'):
        path = path.replace("._modules" + quote, ".").replace(quote, ".")
    path = path.replace("']", "").replace('"]', "").replace("slf.", "self.").replace("[", ".").replace("]", "")
    parts = [part for part in path.split(".") if part not in ("L", "self", "fn", "_modules", "_orig_mod", "")]
    return ".".join(parts)


def _lines_of_trace(trace: str) -> Tuple[str, ...]:
    """The lines of a formatted stack trace, innermost first, without torch's own."""
    from .location import _SKIPPED, _shown

    result = []
    for line in trace.splitlines():
        line = line.strip()
        if line.startswith('File "') and ", line " in line:
            path, rest = line[len('File "'):].split('", line ', 1)
            number, _, function = rest.partition(", in ")
            if not path.startswith(_SKIPPED):
                result.append(f"{_shown(path)}:{number} {function}".rstrip())
    return tuple(reversed(result))


def from_joint(joint: torch.fx.GraphModule, forward_outputs: int, name: str = "step",
               targets: Optional[Dict[str, Tuple[str, str]]] = None) -> Graph:
    """The graph of AOTAutograd's joint FX graph.

    `forward_outputs` is how many of its outputs belong to the forward pass. `targets` says for a placeholder its kind
    and its name in the module; without it, and without descriptors on the node, an input is none."""
    return _from_fx(joint, forward_outputs, name, targets, _backward_nodes(joint, forward_outputs))


def _from_fx(joint: torch.fx.GraphModule, forward_outputs: int, name: str, targets: Optional[Dict[str, Tuple[str, str]]],
             backward: set) -> Graph:
    graph = Graph(name, torch=torch.__version__)
    nodes = list(joint.graph.nodes)
    locations: Dict[int, Location] = {}
    for node in nodes:
        number = node.meta.get("seq_nr")
        if number is not None and node.meta.get("partitioner_tag") != "is_backward":
            found = node.meta.get("custom", {}).get(_LOCATION)
            if isinstance(found, Location):
                locations.setdefault(number, found)
    made: Dict[str, Tuple[Node, int]] = {}
    for node in nodes:
        if node.op == "placeholder":
            kind, target = (targets or {}).get(node.name) or _kind(node)
            graph.inputs.append(Input(node.name, kind, tensor_of(node.meta.get("val")), target))
        elif node.op == "call_function" and node.target is operator.getitem and node.args[0].name in made:
            parent, _ = made[node.args[0].name]
            parent.outputs[node.args[1]] = (node.name, tensor_of(node.meta.get("val")))
        elif node.op in ("call_function", "get_attr"):
            item = _node(node, node in backward, _location(node, locations))
            if isinstance(node.meta.get("val"), (tuple, list)):
                made[node.name] = (item, 0)
            graph.nodes.append(item)
    _add_outputs(graph, nodes[-1], forward_outputs)
    # What only unread results of an operation name is dropped; an operation with none of its results read stays if it
    # has an effect.
    graph.nodes = [node for node in graph.nodes if node.name or node.effect]
    return graph


def from_function(module: torch.fx.GraphModule, name: str = "function") -> Graph:
    """The graph of an FX graph without a backward pass: a forward or a backward graph after partitioning, or a part."""
    return _from_fx(module, len(list(module.graph.nodes)[-1].args[0]), name, None, set())


def _node(node: torch.fx.Node, backward: bool, location: Location) -> Node:
    value = node.meta.get("val")
    outputs = ([("", None)] * len(value) if isinstance(value, (tuple, list)) else [(node.name, tensor_of(value))])
    item = Node("get_attr" if node.op == "get_attr" else _op_name(node.target), outputs,
                [] if node.op == "get_attr" else _special(node.args),
                {key: _special(argument) for key, argument in node.kwargs.items()},
                "backward" if backward else "forward", location=location)
    aliases = _aliases(node)
    if len(aliases) == 1:  # one tensor, or a list of views of one
        aliases *= len(outputs)
    aliases = (aliases + [""] * len(outputs))[:len(outputs)]
    item.alias = aliases if any(aliases) else []
    if isinstance(node.target, torch._ops.OpOverload):
        drawn = _RANDOM_TAG in node.target.tags or item.op.startswith("prims.inductor_seed")
        item.random = drawn and not _attention_without_dropout(node)
        item.effect = node.target._schema.is_mutable
    policy = node.meta.get("recompute")
    if policy is not None and not backward:
        item.recompute = "save" if "SAVE" in policy.name else "recompute"
    return item


def _attention_without_dropout(node: torch.fx.Node) -> bool:
    """Whether an operation is an attention that draws no random numbers, though its tag says that it may."""
    if "scaled_dot_product" not in str(node.target):
        return False
    operands = dict(zip((argument.name for argument in node.target._schema.arguments), node.args))
    operands.update(node.kwargs)
    return operands.get("dropout_p", 0.0) == 0.0


def _backward_nodes(joint: torch.fx.GraphModule, forward_outputs: int) -> set:
    """The nodes that run after forward: those that read a tangent, and those that only backward results need."""
    nodes = list(joint.graph.nodes)
    outputs = nodes[-1].args[0]
    needed = set()
    work = [node for node in outputs[:forward_outputs] if isinstance(node, torch.fx.Node)]
    while work:
        node = work.pop()
        if node not in needed:
            needed.add(node)
            work.extend(node.all_input_nodes)
    late = set()
    for node in nodes:
        tangent = node.op == "placeholder" and "tangents" in node.name
        if tangent or any(operand in late for operand in node.all_input_nodes):
            late.add(node)
    # A forward value that no forward result needs (a view that only backward reads) stays forward where the trace made
    # it, as PyTorch's own partitioners see it.
    tagged = {node for node in nodes if node.meta.get("partitioner_tag") in ("is_backward", "must_be_in_backward")
              and node not in needed}
    return late | tagged


def _kind(node: torch.fx.Node) -> Tuple[str, str]:
    """What a placeholder is, by AOTAutograd's descriptor or else its name."""
    description = node.meta.get("desc")
    kind = type(description).__name__
    if kind == "ParamAOTInput":
        return "parameter", description.target
    if kind == "BufferAOTInput":
        return "buffer", description.target
    if kind == "TangentAOTInput" or "tangents" in node.name:
        return "tangent", ""
    if isinstance(node.meta.get("val"), torch.Tensor):
        return "input", ""
    return "other", ""


def _add_outputs(graph: Graph, output: torch.fx.Node, forward_outputs: int) -> None:
    """Results, new values of mutated inputs and gradients, as the descriptors on the output node say."""
    descriptions = output.meta.get("desc") or [None] * len(output.args[0])
    inputs = [item for item in graph.inputs if item.kind != "tangent"]
    described = [(node.meta.get("desc"), node.name) for node in output.graph.nodes if node.op == "placeholder"]
    for index, (value, description) in enumerate(zip(output.args[0], descriptions)):
        forward = index < forward_outputs
        kind, of = "output" if forward else "gradient", ""
        name = type(description).__name__
        if name == "InputMutationAOTOutput":
            kind = "mutation"
            of = next((name for given, name in described if given == description.mutated_input), "")
        if not forward and index - forward_outputs < len(inputs):
            of = inputs[index - forward_outputs].name
        graph.outputs.append(Output(kind, "forward" if forward else "backward",
                                    value.name if isinstance(value, torch.fx.Node) else None, of))


@contextlib.contextmanager
def _replaced_forward(module: torch.nn.Module, wrap: Callable):
    """`module.forward` replaced for the time of the context, without a wrapper module that would change the names."""
    original = module.forward
    own = "forward" in module.__dict__
    module.forward = wrap(original)
    try:
        yield
    finally:
        if own:
            module.forward = original
        else:
            del module.forward


def capture_joint(module: Any, *args: Any, name: str = "", kwargs: Optional[Dict[str, Any]] = None,
                  decompositions: Optional[dict] = None,
                  regathered: Iterable[str] = (), on_device: bool = False) -> Tuple[Graph, torch.fx.GraphModule, int]:
    """The joint forward and backward graph of `module(*args, **kwargs)`: as plain data, as torch's own, and how many of
    its outputs are the forward pass's.

    `module` is a module, or a function of tensors. Parameters and inputs may lie on any device, the meta device too:
    only shapes are used, nothing is computed. `decompositions` maps operators to functions that say them in others; by
    default Inductor's table. `regathered` lists names (or prefixes ending in a dot) of parameters that something
    outside the graph gathers for the pass and frees, as FSDP2 does; those of a module that `fully_shard` wrapped are
    found by themselves, and such a module is captured as one rank computes it, with whole weights: on the meta device, or,
    `on_device`, as if on its own.

    Raises `CaptureError` where the module cannot be traced."""
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors

    if not isinstance(module, torch.nn.Module):
        module = _Function(module)
    if decompositions is None:
        decompositions = default_decompositions()
    with contextlib.ExitStack() as stack:
        args, kwargs = stack.enter_context(unsharded(module, args, kwargs, on_device))
        modules = stack.enter_context(watch(module))

        def wrap(forward):
            def annotated(*inputs, **keywords):
                with _Annotate(modules):
                    return forward(*inputs, **keywords)

            return annotated

        stack.enter_context(_replaced_forward(module, wrap))
        stack.enter_context(compiling())
        stack.enter_context(fx_traceback.preserve_node_meta())
        try:
            joint = aot_export_joint_with_descriptors(stack, module, args, kwargs, decompositions=decompositions)
        except Exception as error:  # whatever torch raises, for whatever reason
            raise refusal(f"torch {torch.__version__} could not trace {type_name(module)}", error) from error
        forward_outputs = _forward_outputs(joint)
        graph = from_joint(joint.graph_module, forward_outputs, name or type_name(module).rsplit(".", 1)[-1])
    _merge_tied(graph, module)
    marked = tuple(regathered) + sharded_prefixes(module)
    for item in graph.inputs:
        if item.kind == "parameter":
            item.regathered = any(item.target == entry or (entry.endswith(".") and item.target.startswith(entry))
                                  or entry == "" for entry in marked)
    return graph, joint.graph_module, forward_outputs


def _merge_tied(graph: Graph, module: torch.nn.Module) -> None:
    """Makes one input of each weight that goes by several names, with the sum of their gradients, as autograd does. The
    trace gives each name an input of its own."""
    first: Dict[int, str] = {}
    by_target = {item.target: item for item in graph.inputs if item.target}
    renamed: Dict[str, str] = {}
    for target, tensor in [*module.named_parameters(remove_duplicate=False),
                           *module.named_buffers(remove_duplicate=False)]:
        if target in by_target:
            kept = first.setdefault(id(tensor), by_target[target].name)
            if kept != by_target[target].name:
                renamed[by_target[target].name] = kept
    if not renamed:
        return

    def merged(argument):
        if isinstance(argument, Ref):
            return Ref(renamed.get(argument.name, argument.name))
        return [merged(item) for item in argument] if isinstance(argument, list) else argument

    for node in graph.nodes:
        node.args = merged(node.args)
        node.kwargs = {key: merged(value) for key, value in node.kwargs.items()}
        node.alias = [renamed.get(alias, alias) for alias in node.alias]
    gradients = {item.of: item for item in graph.outputs if item.kind == "gradient"}
    tensors = graph.tensors()
    for second, kept in renamed.items():
        one, other = gradients[kept], gradients[second]
        if other.value is not None and one.value is not None:
            name = f"{one.value}_tied_{second}"
            graph.nodes.append(Node("aten.add.Tensor", [(name, tensors[one.value])], [Ref(one.value), Ref(other.value)],
                                    region="backward"))
            tensors[name] = tensors[one.value]
            one.value = name
        else:
            one.value = one.value or other.value
        other.value = None
    graph.inputs = [item for item in graph.inputs if item.name not in renamed]
    for item in graph.outputs:
        item.value = renamed.get(item.value, item.value) if item.value else None
    graph.outputs = [item for item in graph.outputs if item.of not in renamed]


@contextlib.contextmanager
def compiling():
    """Tells models that ask `torch.compiler.is_compiling()` not to branch on values."""
    before = getattr(torch.compiler, "_is_compiling_flag", False)
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


class _Function(torch.nn.Module):
    """A function as a module, so that there is one way to trace."""

    def __init__(self, function: Callable):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def _forward_outputs(joint: Any) -> int:
    """How many outputs of the joint graph are the forward pass's: all but one for each input that is no tangent; all where
    nothing requires a gradient."""
    nodes = list(joint.graph_module.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder" and "tangents" not in node.name]
    if not joint._aot_state.needs_autograd:
        return len(nodes[-1].args[0])
    return len(nodes[-1].args[0]) - len(inputs)


def default_decompositions() -> dict:
    """Inductor's table, so that a graph captured here is the one that torch.compile partitions; attention stays whole."""
    from torch._inductor.decomposition import select_decomp_table

    return {op: function for op, function in select_decomp_table().items()
            if "scaled_dot_product" not in str(op)}
