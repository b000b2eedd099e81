# ===- test_torch_capture.py - capture from PyTorch ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Models captured on the CPU, and what PyTorch keeps of them. Skipped where torch is not installed; a model of a library is
# skipped where the library is not.
#
# ===--------------------------------------------------=== #

import json

import pytest

torch = pytest.importorskip("torch")

import torch_models
from torch_models import MODELS

import fp8opt
from fp8opt.explanations.planning import plan_graph
from fp8opt.graphs.graph import GraphError, from_json, to_json
from fp8opt.graphs.measure import capture_compiled
from fp8opt.graphs.trace import CaptureError

LIBRARIES = {"transformers_llama": "transformers", "float8": "torchao"}


def make(name):
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name])
    torch.manual_seed(0)
    return MODELS[name]()


def saved_by_hooks(module, inputs, keywords):
    """Bytes of the storages that autograd saves, by its own hooks: parameters, inputs and results left out."""
    saved = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        saved[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = module(*inputs, **keywords)
    leaves = [tensor for tensor in torch.utils._pytree.tree_leaves((result, inputs, keywords))
              if isinstance(tensor, torch.Tensor)]
    for tensor in [*module.parameters(), *module.buffers(), *leaves]:
        saved.pop(tensor.untyped_storage()._cdata, None)
    return sum(storage.nbytes() for storage in saved.values())


@pytest.mark.parametrize("name", list(MODELS))
def test_capture(name, tools):
    module, inputs, keywords = make(name)
    graph = fp8opt.capture(module, *inputs, kwargs=keywords)
    assert from_json(to_json(graph)) == graph
    eager, compiled = graph.kept
    plan = plan_graph(graph, compiler=str(tools / "fp8-opt"))
    print(f"{name}: kept by eager {eager.bytes}, by torch.compile {compiled.bytes}, by the plan {plan.plan['saved_bytes']}")
    assert 0 < plan.plan["saved_bytes"] <= eager.bytes
    assert 0 < compiled.bytes <= eager.bytes
    # Every trainable parameter has its gradient, by its name in the module.
    gradients = {item.of for item in graph.outputs if item.kind == "gradient" and item.value}
    named = {item.target for item in graph.inputs if item.name in gradients and item.kind == "parameter"}
    assert named == {path for path, _ in module.named_parameters()}
    modules = {path for path, _ in module.named_modules()}
    assert all(node.location.module in modules for node in graph.nodes)


@pytest.mark.parametrize("name", ["mlp", "dropout", "view_of_view", "custom"])
def test_stored_dumps(name, root):
    """What graphs/make.py wrote is what any torch captures, all but its version and the lines of who called."""
    stored = json.loads((root / "test" / "python" / "graphs" / f"{name}.json").read_text())
    module, inputs, keywords = make(name)
    found = json.loads(json.dumps(to_json(fp8opt.capture(module, *inputs, kwargs=keywords, name=name))))
    for graph in (stored, found):
        for value in (value for kept in graph["kept"] for value in kept["values"]):
            del value["why"]
        del graph["locations"], graph["torch"]
    assert found == stored


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("float8", "tied", "transformers_llama")])
def test_eager_as_autograds_hooks_say(name):
    """Two ways to see what autograd saves: storages that live on, and its hooks. They differ where a result is saved too,
    which is there anyway; in the models here none is."""
    module, inputs, keywords = make(name)
    assert fp8opt.capture(module, *inputs, kwargs=keywords).kept[0].bytes == saved_by_hooks(module, inputs, keywords)


def test_tied_weights_are_one_input():
    module, inputs, keywords = make("tied")
    graph = fp8opt.capture(module, *inputs, kwargs=keywords, measure=False)
    parameters = [item.target for item in graph.inputs if item.kind == "parameter"]
    assert "embedding.weight" in parameters and "head.weight" not in parameters


def test_random_operations_run_once(tools):
    module, inputs, keywords = make("dropout")
    plan = plan_graph(fp8opt.capture(module, *inputs, kwargs=keywords), compiler=str(tools / "fp8-opt"))
    assert [node.op for node in plan.graph.nodes if node.random]
    random = {node.name for node in plan.graph.nodes if node.random}
    assert not random & set(plan.recomputed)


def test_view_keeps_its_root(tools):
    """Case P6: what is saved is the product that the views lie in, all of it."""
    module, inputs, keywords = make("view_of_view")
    plan = plan_graph(fp8opt.capture(module, *inputs, kwargs=keywords), compiler=str(tools / "fp8-opt"))
    assert [(entry["value"], entry["bytes"]) for entry in plan.plan["saved"]] == [("mm", 32 * 64 * 2)]


def test_regathered_weights_are_not_resident(tools):
    module, inputs, keywords = make("feed_forward")
    compiler = str(tools / "fp8-opt")
    whole = plan_graph(fp8opt.capture(module, *inputs, kwargs=keywords), compiler=compiler).plan
    graph = fp8opt.capture(module, *inputs, kwargs=keywords, regathered=["layers."])
    sharded = plan_graph(graph, compiler=compiler).plan
    weights = sum(parameter.numel() * 2 for parameter in module.parameters())
    assert whole["resident_bytes"] - sharded["resident_bytes"] == weights - len(list(module.parameters()))
    assert not any("weight" in entry["value"] for entry in sharded["saved"])


def test_function(tools):
    x, y = (torch.randn(8, 8, requires_grad=True) for _ in range(2))
    graph = fp8opt.capture(lambda a, b: torch.tanh(a @ b), x, y)
    assert plan_graph(graph, compiler=str(tools / "fp8-opt")).plan["saved_bytes"] == 0


def test_branch_on_a_value_is_refused():
    with pytest.raises(CaptureError, match=r"depends on values \(at .*test_torch_capture.py:\d+\); what branches on values"):
        fp8opt.capture(lambda a: a * 2 if a.sum() > 0 else a * 3, torch.randn(4, requires_grad=True))


def test_other_errors_are_torchs_with_the_line():
    def broken(a):
        return a @ torch.ones(5, 3)

    with pytest.raises(CaptureError, match=r"could not trace .*broken: .+ \(at .*test_torch_capture.py:\d+\)$"):
        fp8opt.capture(broken, torch.randn(4, 4, requires_grad=True))


def test_no_gradient_is_refused():
    """Nothing is kept for a backward pass that there is not, and no plan is made."""
    graph = fp8opt.capture(lambda a: a * 2, torch.randn(4))
    assert [(item.kind, item.region) for item in graph.outputs] == [("output", "forward")]
    assert [kept.bytes for kept in graph.kept] == [0]
    with pytest.raises(GraphError, match="does a parameter or an input require a gradient"):
        fp8opt.explain(lambda a: a * 2, torch.randn(4))


def test_updated_inputs_are_known():
    """The new values of buffers and inputs that forward changes, and whose they are."""

    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x, y):
            self.seen.add_(1)
            y.mul_(2)
            return x * y * self.seen

    graph = fp8opt.capture(Counts(), torch.randn(4, requires_grad=True), torch.ones(4), measure=False)
    of = [item.of for item in graph.outputs if item.kind == "mutation"]
    assert [next(item.target or item.kind for item in graph.inputs if item.name == name) for name in of] == ["seen", "input"]


def test_meta_device_takes_the_fused_attention():
    with torch.device("meta"):
        module, inputs, _ = torch_models.llama_block()
    ops = {node.op for node in fp8opt.capture(module, *inputs).nodes}
    assert "aten._scaled_dot_product_flash_attention.default" in ops and "aten._softmax.default" not in ops


def test_abs_fault_in_eager_mode():
    """Case F5 as it was reported: the change that is named does what it says when the list is changed."""
    pytest.importorskip("torchao")
    found = fp8opt.capture(*_checkpointed(True)).kept[0]
    mended = fp8opt.capture(*_checkpointed(False)).kept[0]
    change, = (change for change in found.changes if change.op == "aten.abs.default")
    assert (change.kept_bytes, change.peak_bytes) == (mended.bytes, mended.peak_bytes)
    assert change.kept_bytes < found.bytes and change.peak_bytes < found.peak_bytes


def test_abs_under_torch_compile():
    """torch.compile keeps no result of abs: backward reads none. The explanation says so."""
    pytest.importorskip("torchao")
    module, *inputs = _checkpointed(True)
    graphs = capture_compiled(module, *inputs)
    assert graphs and all(not any(value.op == "aten.abs.default" for value in graph.kept[0].values) for graph in graphs)
    assert any("aten.abs.default, but backward reads none of its" in note for graph in graphs
               for note in graph.kept[0].notes)


def test_sharded_by_fsdp2(one_rank):
    """A module under fully_shard is seen as a rank computes it: as the same module without it, weights marked as gathered,
    in the type that they are gathered in; and it runs as before afterwards."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    module, inputs, _ = MODELS["feed_forward"]()
    plain = fp8opt.capture(module, *inputs)
    module = module.float()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    for layer in module.layers:
        fully_shard(layer, mesh=one_rank, mp_policy=policy)
    fully_shard(module, mesh=one_rank, mp_policy=policy)
    sharded = fp8opt.capture(module, *inputs)
    assert [node.op for node in sharded.nodes] == [node.op for node in plain.nodes]
    assert [item.tensor for item in sharded.inputs] == [item.tensor for item in plain.inputs]
    assert all(item.regathered for item in sharded.inputs if item.kind == "parameter")
    assert [(kept.bytes, kept.peak_bytes) for kept in sharded.kept] == [(kept.bytes, kept.peak_bytes) for kept in plain.kept]
    weights = sum(parameter.numel() * 2 for parameter in module.parameters())
    assert any(f"{weights / 2**20:,.1f} MiB" in note for note in sharded.kept[0].notes)
    assert all(item.regathered for graph in capture_compiled(module, *inputs) for item in graph.inputs
               if item.kind == "parameter")
    module(*inputs).sum().backward()
    assert all(type(parameter.grad).__name__ == "DTensor" for parameter in module.parameters())


def _checkpointed(with_abs):
    module, inputs, _ = torch_models.float8_checkpointed(with_abs, layers=2)
    return module, *inputs


def test_a_large_model_in_time(tools):
    """Llama-3-8B, 32 layers, 8,192 tokens, on the meta device: captured and planned in less than 60 s and 8 GB. The time is
    this process' own, so that other work on the machine does not count."""
    import resource

    spent = _seconds()
    with torch.device("meta"):
        module = torch_models.Llama(128256, 32, 4096, 14336, 32, 8).bfloat16()
        tokens = torch.empty(1, 8192, dtype=torch.long)
    graph = fp8opt.capture(module, tokens, tokens, measure=False)
    plan = plan_graph(graph, compiler=str(tools / "fp8-opt")).plan
    spent = _seconds() - spent
    memory = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"captured and planned in {spent:.1f} s and {memory / 2**20:.1f} GiB")
    assert spent < 60 and memory * 1024 < 8e9
    assert plan["resident_bytes"] > 8e9 * 2 - 1e9 and len(plan["saved"]) > 32


def _seconds():
    """Processor seconds of this process and those it has waited for."""
    import os

    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
