# ===- test_torch_backend.py - the backend of torch.compile ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Models compiled with our kernels on the CPU, with PyTorch running what the dialect has no op for: results and gradients
# against eager's. Skipped where torch is not installed.
#
# ===------------------------------------------------------------------=== #

import pytest

torch = pytest.importorskip("torch")

from test_torch_partition import compare, make, step

from fp8opt.apply.backend import Backend

# Of |a - b| / |b| in the 2-norm: sums in another order, and bf16 rounded at other places.
BOUND = 2e-2
# What PyTorch has to run of each model.
LEFT = {"mlp": set(), "feed_forward": set(), "view_of_view": set(),
        "custom": {"fp8opt_test.twist.default", "prims.rev.default"}}


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("FP8OPT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", ["mlp", "feed_forward", "view_of_view", "custom", "llama_block", "dropout"])
def test_gradients(name, tools):
    module, inputs, keywords = make(name)
    expected = step(module, module, inputs, keywords)
    backend = Backend(target="cpu", compiler=str(tools / "fp8-opt"))
    torch._dynamo.reset()
    found = step(torch.compile(module, backend=backend, dynamic=False), module, inputs, keywords)
    assert backend.stretches
    assert set(backend.left) == LEFT.get(name, set(backend.left))
    compare(found, expected, BOUND)
    # One arena for all, as large as the largest needs.
    device, = backend.arenas.memory
    assert backend.arenas.memory[device].numel() == 256 + max(
        stretch.function.arena_bytes for stretch in backend.stretches)


def test_again_with_other_values(tools):
    """A second step with other inputs, and the first one's results still there."""
    module, inputs, keywords = make("feed_forward")
    torch._dynamo.reset()
    compiled = torch.compile(module, backend=Backend(target="cpu", compiler=str(tools / "fp8-opt")), dynamic=False)
    first = step(compiled, module, inputs, keywords)
    copies = [[tensor.clone() for tensor in side] for side in first]
    other = (torch.randn_like(inputs[0]).requires_grad_(),)
    second = step(compiled, module, other, keywords)
    compare(second, step(module, module, other, keywords), BOUND)
    assert all(torch.equal(one, copy) for side, kept in zip(first, copies) for one, copy in zip(side, kept))


def test_entry_point(root):
    """The name under which torch.compile finds the installed backend."""
    import importlib
    import tomllib

    project = tomllib.loads((root / "python" / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["torch_dynamo_backends"]["fp8opt"].partition(":")
    assert callable(getattr(importlib.import_module(module), name))
