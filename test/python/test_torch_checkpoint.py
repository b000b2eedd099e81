# ===- test_torch_checkpoint.py - selective checkpoints by a plan ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A block under a checkpoint with the plan's policy: the same results and gradients as without, to the bit, and no more kept
# than the plan says. Skipped where torch is not installed.
#
# ===----------------------------------------------------------------------=== #

import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint
from torch_models import MODELS, Stack

from fp8opt.apply import checkpoint_context
from fp8opt.graphs.eager import kept_by_eager

LIBRARIES = {"float8": "torchao"}


class Checkpointed(torch.nn.Module):
    def __init__(self, block, policy, keywords):
        super().__init__()
        self.block, self.policy, self.keywords = block, policy, keywords

    def forward(self, *inputs):
        return checkpoint(self.block, *inputs, use_reentrant=False, context_fn=self.policy, **self.keywords)


def step(call, module, inputs):
    for tensor in [*module.parameters(), *inputs]:
        tensor.grad = None
    torch.manual_seed(5)
    result = call(*inputs)
    result.backward(torch.ones_like(result))
    return [result.detach()] + [tensor.grad.clone() for tensor in [*module.parameters(), *inputs] if tensor.requires_grad]


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("transformers_llama", "float8")])
def test_equal_bits(name, tools):
    torch.manual_seed(0)
    module, inputs, keywords = MODELS[name]()
    expected = step(module, module, inputs)
    compiler = str(tools / "fp8-opt")
    fastest = checkpoint_context(module, *inputs, kwargs=keywords, target="cpu", compiler=compiler)
    least = fastest.plan.plan["min_feasible_peak_bytes"]
    for policy in (fastest, checkpoint_context(module, *inputs, kwargs=keywords, budget=least, target="cpu",
                                               compiler=compiler)):
        # Eager dropout on the CPU is other operations than the captured one; it is recomputed, with the same seed.
        assert policy.undecided == (["aten.native_dropout.default"] if name == "dropout" else [])
        wrapped = Checkpointed(module, policy, keywords)
        found = step(wrapped, module, inputs)
        assert all(torch.equal(one, other) for one, other in zip(found, expected))
        # What a checkpoint keeps: what the policy saves, nothing else (inputs are there anyway).
        kept = kept_by_eager(wrapped, *inputs)
        assert kept.bytes <= policy.plan.plan["saved_bytes"]


def test_a_layers_policy_serves_all(tools):
    """Four equal layers under one policy keep four times what the plan of one says, and the budget moves it."""
    layers = Stack(4, 16, 64).bfloat16().layers
    x = torch.randn(1024, 16).bfloat16().requires_grad_()
    compiler = str(tools / "fp8-opt")
    fastest = checkpoint_context(layers[0], x, target="cpu", compiler=compiler)
    least = checkpoint_context(layers[0], x, budget=fastest.plan.plan["min_feasible_peak_bytes"], target="cpu",
                               compiler=compiler)

    def kept(policy):
        model = torch.nn.Sequential(*(Checkpointed(layer, policy, {}) for layer in layers))
        return kept_by_eager(model, x).bytes - 3 * x.numel() * 2  # the inputs of the later layers

    assert kept(fastest) == 4 * fastest.plan.plan["saved_bytes"]
    assert kept(least) == 4 * least.plan.plan["saved_bytes"] < kept(fastest)


def test_a_block_that_updates_a_buffer(tools):
    """A checkpoint runs forward twice, and so a buffer is updated twice: the user is told."""
    block = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))
    with pytest.warns(UserWarning, match=r"1\.num_batches_tracked, 1\.running_mean, 1\.running_var will be updated twice"):
        checkpoint_context(block, torch.randn(4, 8, requires_grad=True), target="cpu", compiler=str(tools / "fp8-opt"))


def test_a_function(tools):
    """What has no parameters may be a function."""
    x = torch.randn(4, 8, requires_grad=True)

    def block(x):
        return torch.sin(x) * x

    policy = checkpoint_context(block, x, target="cpu", compiler=str(tools / "fp8-opt"))
    checkpoint(block, x, use_reentrant=False, context_fn=policy).sum().backward()
    assert torch.allclose(x.grad, torch.cos(x) * x + torch.sin(x))
