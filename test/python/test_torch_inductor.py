# ===- test_torch_inductor.py - what is said of Inductor against what it does ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Models compiled by Inductor for the CPU, in the ways that a budget chooses: the peak that was said against that of the buffers
# that the compiled code allocates, and gradients against eager's. Skipped where torch or a C++ compiler is not there.
#
# ===----------------------------------------------------------------=== #

import contextlib
import shutil
import weakref

import pytest

torch = pytest.importorskip("torch")
if shutil.which("g++") is None and shutil.which("clang++") is None:
    pytest.skip("Inductor needs a C++ compiler", allow_module_level=True)

from test_torch_partition import BOUND, compare, make, step
from torch_models import Stack

from fp8opt.apply import Partitioner, compile_blocks, partitioned
from fp8opt.apply.inductor import FUSION_LIMIT
from fp8opt.apply.variants import Choice, Variant, exactly, split
from fp8opt.command import InputError


class Buffers:
    """The bytes that compiled code allocates and has not let go, and their maximum."""

    def __init__(self):
        self.live = self.peak = 0

    def __enter__(self):
        self.original = torch._C._dynamo.guards._empty_strided_cpu
        torch._C._dynamo.guards._empty_strided_cpu = self.allocate
        return self

    def __exit__(self, *_):
        torch._C._dynamo.guards._empty_strided_cpu = self.original

    def allocate(self, shape, stride, dtype):
        tensor = self.original(shape, stride, dtype)
        storage = tensor.untyped_storage()
        size = tensor.numel() * tensor.element_size()  # what the allocator is asked for, and not what it rounds up
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self.free, size)
        return tensor

    def free(self, size):
        self.live -= size


def inputs_of(tokens=512, dim=32):
    torch.manual_seed(3)
    return torch.randn(tokens, dim).bfloat16().requires_grad_()


def measured(call, module, x):
    """The peak of the second step, over what was there before it, results held."""
    for _ in range(2):
        for tensor in [*module.parameters(), x]:
            tensor.grad = None
        buffers.live = buffers.peak = 0
        result = call(x)
        result.backward(torch.ones_like(result))
        del result
    return buffers.peak


buffers = Buffers()


@pytest.fixture(autouse=True)
def counted():
    torch._dynamo.reset()
    with buffers, torch._inductor.config.patch({"fx_graph_cache": False, "cpp.simdlen": 1}):
        yield


class Fixed(Partitioner):
    """Takes one way, and says what it takes."""

    def __init__(self, choice):
        super().__init__(None, "cpu")
        self.fixed = choice

    def __call__(self, joint, inputs, **options):
        options.pop("compiler", None)
        self.chosen.append(exactly(Variant(self.fixed, None, None, 0, 0, 0, 0), joint, inputs, options, "cpu"))
        return split(self.fixed, joint, inputs, options)

    def uuid(self):
        return None


@contextlib.contextmanager
def fixed(share, fusion):
    partitioner = Fixed(Choice(share, fusion=fusion, large=16384))
    with torch._inductor.config.patch(custom_partitioner_fn=partitioner, _pre_fusion_custom_pass=FUSION_LIMIT):
        yield partitioner


@pytest.mark.parametrize("share, fusion", [(1.0, 0), (1.0, 1), (0.0, 2)])
def test_peak_as_said(share, fusion):
    """Two layers in one graph."""
    module, x = Stack(2, 32, 128).bfloat16(), inputs_of()
    expected = step(module, module, (x,), {})
    with fixed(share, fusion) as partitioner:
        compiled = torch.compile(module, dynamic=False)
        compare(step(compiled, module, (x,), {}), expected, BOUND)
        peak = measured(compiled, module, x)
    chosen, = partitioner.chosen
    assert peak == chosen.peak_bytes


class Gated(torch.nn.Module):
    """(x w1) * (x w3): one kernel of backward can write the operands of four products."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.w1, self.w3 = (torch.nn.Linear(dim, hidden, bias=False) for _ in range(2))

    def forward(self, x):
        return self.w1(x) * self.w3(x)


def test_limits_are_kept_to():
    """A kernel for each product has no higher peak than Inductor's own fusion, and more kernels, and so has what is generated."""
    from torch._inductor import metrics

    module, x = Gated(32, 256).bfloat16(), inputs_of()
    found, ran = {}, {}
    for fusion in (0, 1, 2):
        torch._dynamo.reset()
        with fixed(1.0, fusion) as partitioner:
            metrics.reset()
            step(torch.compile(module, dynamic=False), module, (x,), {})
            ran[fusion] = metrics.generated_kernel_count
        found[fusion] = partitioner.chosen[0].backward
    assert found[1] == found[2]
    assert found[2].kernels == found[0].kernels + 1 and found[2].peak_bytes <= found[0].peak_bytes
    assert ran[2] == ran[0] + 2  # generated once to say, once to run


def test_budget(tools):
    """The fastest way within a budget; the way of the lowest peak, with a warning, where none fits."""
    module, x = Stack(2, 32, 128).bfloat16(), inputs_of()
    peaks = []
    for budget in (None, "1"):
        torch._dynamo.reset()
        with partitioned(budget, "cpu", str(tools / "fp8-opt")) as partitioner:
            compiled = torch.compile(module, dynamic=False)
            if budget is None:
                step(compiled, module, (x,), {})
            else:
                with pytest.warns(UserWarning, match="no way to split this graph has a peak within 1 B"):
                    step(compiled, module, (x,), {})
        peaks.append(partitioner.chosen[0].peak_bytes)
    assert peaks[1] < peaks[0]
    torch._dynamo.reset()
    with partitioned((peaks[0] + peaks[1]) // 2, "cpu", str(tools / "fp8-opt")) as partitioner:
        step(torch.compile(module, dynamic=False), module, (x,), {})
    assert partitioner.chosen[0].peak_bytes <= (peaks[0] + peaks[1]) // 2


def test_blocks_under_one_budget(tools):
    """Four layers that are compiled apart: within each budget, as said, and with eager's gradients; the last layers keep
    more than the first."""
    module, x = Stack(4, 32, 128).bfloat16(), inputs_of()
    expected = step(module, module, (x,), {})
    options = {"target": "cpu", "compiler": str(tools / "fp8-opt")}
    fastest = compile_blocks(module.layers, x, **options)
    assert len(set(item.choice for item in fastest.chosen)) == 1
    peak = fastest.expected_peak_bytes
    seconds = fastest.expected_seconds
    for part in (1.0, 0.8):
        for layer in module.layers:
            layer._compiled_call_impl = None
        torch._dynamo.reset()
        plan = compile_blocks(module.layers, x, budget=int(peak * part), ways=fastest.ways, **options)
        assert plan.expected_peak_bytes <= peak * part and plan.expected_seconds >= seconds
        compare(step(module, module, (x,), {}), expected, BOUND)
        assert measured(module, module, x) == plan.expected_peak_bytes
    assert plan.chosen[-1].kept >= plan.chosen[0].kept
    with pytest.raises(InputError, match="expected a budget of at least [0-9,]+ B for 4 blocks"):
        compile_blocks(module.layers, x, budget="1KiB", ways=fastest.ways, **options)


def test_sharded_blocks(tools, one_rank):
    """Blocks under `fully_shard`: the same ways, and the gathered weights beside them; the gradients are those without either."""
    from torch.distributed.fsdp import fully_shard

    module, x = Stack(3, 32, 128).bfloat16(), inputs_of()
    expected = step(module, module, (x,), {})
    options = {"target": "cpu", "compiler": str(tools / "fp8-opt")}
    plain = compile_blocks(module.layers, x, **options)
    for layer in module.layers:
        layer._compiled_call_impl = None
        fully_shard(layer, mesh=one_rank)
    fully_shard(module, mesh=one_rank)
    sharded = compile_blocks(module.layers, x, **options)
    assert [way.choice for way in sharded.chosen] == [way.choice for way in plain.chosen]
    weights = sum(parameter.numel() * 2 for parameter in module.layers[0].parameters())
    assert sharded.expected_peak_bytes == plain.expected_peak_bytes + 2 * weights
    results, gradients = step(module, module, (x,), {})
    whole = [gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient for gradient in gradients]
    compare((results, whole), expected, BOUND)


def test_what_inductor_cannot_say(monkeypatch):
    """Where Inductor's scheduler fails ahead of its time, torch's min-cut partitions the graph."""
    from fp8opt.apply import variants

    monkeypatch.setattr(variants, "schedule", lambda *_: 1 / 0)
    module, x = Stack(1, 32, 64).bfloat16(), inputs_of()
    expected = step(module, module, (x,), {})
    with pytest.warns(UserWarning, match="Inductor does not say what this graph takes"), partitioned(None, "cpu"):
        compare(step(torch.compile(module, dynamic=False), module, (x,), {}), expected, BOUND)
