# ===- test_torch_collectives.py - functional collectives in captured graphs ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A sequence-parallel feed-forward layer: gathered, multiplied, summed and scattered. Captured without a second rank, and run by
# two, with the plan's partition, against the whole layer of one. Skipped where torch is not installed.
#
# ===------------------------------------------------------------------------------=== #

import pytest

torch = pytest.importorskip("torch")
distributed = pytest.importorskip("torch.distributed")

import fp8opt
from fp8opt.explanations.planning import plan_graph

DIM, HIDDEN, TOKENS, RANKS = 32, 64, 64, 2


class Parallel(torch.nn.Module):
    """Rows of `x` on each rank; w1 holds the rank's rows of the whole weight, w2 its columns."""

    def __init__(self, ranks):
        super().__init__()
        self.w1 = torch.nn.Linear(DIM, HIDDEN // ranks, bias=False)
        self.w2 = torch.nn.Linear(HIDDEN // ranks, DIM, bias=False)

    def forward(self, x):
        from torch.distributed import _functional_collectives as functional

        group = distributed.group.WORLD
        gathered = functional.all_gather_tensor_autograd(x, 0, group)
        partial = self.w2(torch.nn.functional.silu(self.w1(gathered)))
        return functional.reduce_scatter_tensor_autograd(partial, "sum", 0, group)


@pytest.fixture
def four_ranks():
    """Rank 0 of four; nothing is sent."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    yield
    distributed.destroy_process_group()


def test_capture(four_ranks, tools):
    module = Parallel(4).bfloat16()
    x = torch.randn(TOKENS // 4, DIM).bfloat16().requires_grad_()
    graph = fp8opt.capture(module, x)
    plan = plan_graph(graph, compiler=str(tools / "fp8-opt"))
    text = plan.program.text
    assert not plan.program.opaque and "fp8.grid = {group_0 = 4 : i64}" in text
    # One each way, and the gradient of the gather, and the gather of the gradient.
    assert text.count("fp8.all_gather") == 2 and text.count("fp8.reduce_scatter sum") == 2
    # The gathered rows are kept where that is fastest, and gathered again for the smallest peak.
    gathered = graph.tensors()["all_gather_into_tensor"].bytes
    assert ("all_gather_into_tensor", gathered) in [(entry["value"], entry["bytes"]) for entry in plan.plan["saved"]]
    least = plan_graph(graph, budget=str(plan.plan["min_feasible_peak_bytes"]), compiler=str(tools / "fp8-opt"))
    assert "all_gather_into_tensor" in least.recomputed and "all_gather_into_tensor" not in least.kept


def rank(number, store, compiler, path, budget):
    """One rank's step with the plan's partition."""
    from functorch.compile import nop
    from torch._dynamo.backends.common import aot_autograd

    from fp8opt.apply import PlanPartitioner

    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=RANKS)
    given = torch.load(path)
    module = Parallel(RANKS)
    with torch.no_grad():
        module.w1.weight.copy_(given["w1"].chunk(RANKS, 0)[number])
        module.w2.weight.copy_(given["w2"].chunk(RANKS, 1)[number])
    x = given["x"].chunk(RANKS)[number].clone().requires_grad_()
    found = {}
    for name in ("fastest", "smallest"):
        partitioner = PlanPartitioner(budget.get(name), "cpu", compiler)
        torch._dynamo.reset()
        module.zero_grad()
        x.grad = None
        y = torch.compile(module, backend=aot_autograd(fw_compiler=nop, bw_compiler=nop, partition_fn=partitioner))(x)
        y.backward(given["dy"].chunk(RANKS)[number])
        found[name] = [y.detach(), x.grad, module.w1.weight.grad.clone(), module.w2.weight.grad.clone()]
        budget["smallest"] = partitioner.plans[0].plan["min_feasible_peak_bytes"]
    torch.save(found, f"{path}.{number}")
    distributed.destroy_process_group()


def test_two_ranks_by_the_plan(tools, tmp_path):
    torch.manual_seed(1)
    given = {"x": torch.randn(TOKENS, DIM), "w1": torch.randn(HIDDEN, DIM) / 8, "w2": torch.randn(DIM, HIDDEN) / 8,
             "dy": torch.randn(TOKENS, DIM)}
    leaves = [given[name].clone().requires_grad_() for name in ("x", "w1", "w2")]
    x, w1, w2 = leaves
    y = torch.nn.functional.silu(x @ w1.t()) @ w2.t()
    y.backward(given["dy"])
    path = str(tmp_path / "given.pt")
    torch.save(given, path)
    torch.multiprocessing.spawn(rank, (str(tmp_path / "store"), str(tools / "fp8-opt"), path, {}), RANKS)
    parts = [torch.load(f"{path}.{number}") for number in range(RANKS)]
    for name in ("fastest", "smallest"):
        for index, (whole, dim) in enumerate(((y.detach(), 0), (x.grad, 0), (w1.grad, 0), (w2.grad, 1))):
            torch.testing.assert_close(torch.cat([part[name][index] for part in parts], dim), whole, rtol=1e-4, atol=1e-5)
