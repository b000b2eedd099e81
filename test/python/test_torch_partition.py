# ===- test_torch_partition.py - gradients under a plan's partition ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Each model runs eagerly and through torch.compile with the partitioner, at the fastest plan and at the smallest peak; results
# and gradients are compared. The graphs run as they are (backend aot_eager's way), so that no compiler of kernels rounds
# otherwise: both sides run the same kernels, but for decomposed ones. Skipped where torch is not installed.
#
# ===---------------------------------------------------------------------=== #

import copy

import pytest

torch = pytest.importorskip("torch")

from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch_models import MODELS, Stack

from fp8opt.apply import PlanPartitioner
from fp8opt.graphs.trace import default_decompositions

# Of |a - b| / |b| in the 2-norm. Decomposed operations round bf16 at other places.
BOUND = 2e-2
LIBRARIES = {"transformers_llama": "transformers", "float8": "torchao"}


def make(name):
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name])
    torch.manual_seed(0)
    return MODELS[name]()


class Recorder:
    """A compiler that runs graphs as they are, and keeps them."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, _inputs):
        self.graphs.append(graph_module)
        return make_boxed_func(graph_module.forward)


def backend(partitioner, recorder=None, decompositions=None):
    recorder = recorder or Recorder()
    return aot_autograd(fw_compiler=recorder, bw_compiler=recorder, partition_fn=partitioner,
                        decompositions=decompositions)


def step(call, module, inputs, keywords):
    """Results and gradients of one step with a fixed seed."""
    for tensor in [*module.parameters(), *inputs]:
        tensor.grad = None
    torch.manual_seed(7)
    result = call(*inputs, **keywords)
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    torch.manual_seed(8)
    torch.autograd.backward(wanted, [torch.ones_like(leaf) for leaf in wanted])
    gradients = [tensor.grad for tensor in [*module.parameters(), *inputs] if tensor.requires_grad]
    return [leaf.detach() for leaf in leaves], [gradient.clone() for gradient in gradients]


def error(found, expected):
    found, expected = found.double(), expected.double()
    return ((found - expected).norm() / expected.norm().clamp(min=1e-30)).item()


def compare(found, expected, bound):
    for mine, theirs in zip(found, expected):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs):
            assert one.shape == other.shape and one.dtype == other.dtype
            assert error(one, other) <= bound


@pytest.mark.parametrize("name", list(MODELS))
def test_gradients(name, tools):
    """At the fastest plan, and at the smallest peak."""
    module, inputs, keywords = make(name)
    expected = step(module, module, inputs, keywords)
    budget = None
    for _ in range(2):
        partitioner, recorder = PlanPartitioner(budget, "cpu", str(tools / "fp8-opt")), Recorder()
        torch._dynamo.reset()
        compiled = torch.compile(module, backend=backend(partitioner, recorder), dynamic=False)
        compare(step(compiled, module, inputs, keywords), expected, BOUND)
        plan, = partitioner.plans
        _check_kept(plan, recorder.graphs)
        assert budget is None or plan.plan["peak_bytes"] <= budget
        budget = plan.plan["min_feasible_peak_bytes"]


def _check_kept(plan, graphs):
    """The backward graph gets what the plan keeps, and what is there anyway, and nothing else."""
    forward, backward = graphs
    given = {node.name for node in backward.graph.nodes if node.op == "placeholder"}
    inputs = {item.name for item in plan.graph.inputs}
    results = {item.value for item in plan.graph.outputs if item.region == "forward"}
    roots = plan.graph.roots()
    results |= {roots[value] for value in results if value}
    assert {name for name in given if name not in inputs | results} <= set(plan.kept)


class Updates(torch.nn.Module):
    """Changes a buffer and an input in forward; backward reads what they become."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 32, bias=False)
        self.norm = torch.nn.BatchNorm1d(32)
        self.register_buffer("mean", torch.ones(32))

    def forward(self, x, factor):
        factor.mul_(2)
        y = self.norm(self.linear(x)) * factor
        self.mean.mul_(0.5).add_(y.detach().mean(0))
        return torch.tanh(y * self.mean)


@pytest.mark.parametrize("tight", [False, True], ids=["fastest", "smallest"])
@pytest.mark.parametrize("decompositions", [None, default_decompositions()], ids=["whole", "decomposed"])
def test_inputs_that_are_updated(tight, decompositions, tools):
    """What forward makes of an input that it updates is not computed again of what the input is by then, and a result that
    backward reads is not either."""
    torch.manual_seed(0)
    first, given = Updates(), torch.randn(8, 16)

    def run(wrap):
        module, x, factor = copy.deepcopy(first), given.clone().requires_grad_(), torch.ones(32)
        return [*step(wrap(module), module, (x, factor), {}), [*module.buffers(), factor]]

    def planned(budget):
        partitioner, recorder = PlanPartitioner(budget, "cpu", str(tools / "fp8-opt")), Recorder()
        torch._dynamo.reset()
        found = run(lambda module: torch.compile(module, backend=backend(partitioner, recorder, decompositions), dynamic=False))
        return found, partitioner.plans[0].plan["min_feasible_peak_bytes"], recorder.graphs[1]

    found, least, backward = planned(None)
    if tight:
        found, _, backward = planned(least)
    compare(found, run(lambda module: module), 1e-5)
    assert not any(str(node.target) == "aten.tanh.default" for node in backward.graph.nodes)


def test_some_results_of_an_operation_are_kept(tools):
    """Group norm runs again in backward for its first result; its means and factors are kept."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.GroupNorm(2, 8), torch.nn.SiLU())
                                   for _ in range(3)))
    inputs = (torch.randn(2, 8, 16, 16, requires_grad=True),)
    expected = step(module, module, inputs, {})
    budget = None
    for _ in range(2):
        partitioner, recorder = PlanPartitioner(budget, "cpu", str(tools / "fp8-opt")), Recorder()
        torch._dynamo.reset()
        compare(step(torch.compile(module, backend=backend(partitioner, recorder), dynamic=False), module, inputs, {}), expected, 1e-5)
        budget = partitioner.plans[0].plan["min_feasible_peak_bytes"]
    backward = recorder.graphs[1]
    assert any(str(node.target) == "aten.native_group_norm.default" for node in backward.graph.nodes)
    kept = {node.name for node in backward.graph.nodes if node.op == "placeholder"}
    assert kept & {name for node in partitioner.plans[0].graph.nodes if node.op == "aten.native_group_norm.default"
                   for name, _ in node.outputs[1:]}


def test_fewer_bytes_at_a_smaller_budget(tools):
    module, inputs, keywords = Stack(4, 16, 64).bfloat16(), (torch.randn(1024, 16).bfloat16().requires_grad_(),), {}
    least, kept = None, []
    for _ in range(2):
        partitioner = PlanPartitioner(least, "cpu", str(tools / "fp8-opt"))
        torch._dynamo.reset()
        step(torch.compile(module, backend=backend(partitioner), dynamic=False), module, inputs, keywords)
        least = partitioner.plans[0].plan["min_feasible_peak_bytes"]
        kept.append(partitioner.plans[0].plan["saved_bytes"])
    assert kept[1] < kept[0]


def test_dropout_draws_the_same_mask(tools):
    """The mask is the same in forward and backward: where a result is 0, so is the gradient behind it."""

    def dropped(x):
        return torch.nn.functional.dropout(x * 1.5, 0.5)

    for budget in (None, 1 << 40):
        partitioner = PlanPartitioner(budget, compiler=str(tools / "fp8-opt"))
        torch._dynamo.reset()
        compiled = torch.compile(dropped, backend=backend(partitioner), dynamic=False)
        x = torch.randn(64, 64, requires_grad=True)
        torch.manual_seed(3)
        y = compiled(x)
        y.sum().backward()
        torch.manual_seed(3)
        expected = dropped(x.detach())
        assert torch.equal(y.detach(), expected)
        assert torch.equal(x.grad == 0, y == 0) and 0.3 < (y == 0).float().mean() < 0.7


def test_no_plan_falls_back(tools):
    module, inputs, keywords = make("mlp")
    expected = step(module, module, inputs, keywords)
    torch._dynamo.reset()
    compiled = torch.compile(module, backend=backend(PlanPartitioner("1KiB", compiler=str(tools / "fp8-opt"))), dynamic=False)
    with pytest.warns(UserWarning, match="fp8-opt has no plan for this graph"):
        found = step(compiled, module, inputs, keywords)
    compare(found, expected, BOUND)


def test_decomposed_as_inductor_does(tools):
    """The graph that Inductor partitions holds its decompositions."""
    module, inputs, keywords = make("llama_block")
    expected = step(module, module, inputs, keywords)
    torch._dynamo.reset()
    partitioner = PlanPartitioner(compiler=str(tools / "fp8-opt"))
    compiled = torch.compile(module, backend=backend(partitioner, decompositions=default_decompositions()), dynamic=False)
    compare(step(compiled, module, inputs, keywords), expected, BOUND)
    assert partitioner.plans
