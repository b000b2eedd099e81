# ===- torch_ffn.py - the feed-forward step in PyTorch ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Llama-3-8B's feed-forward layers, forward and backward, under torch.compile: in bf16 and in float8 with one scale a
# row, as torchao's recipe of that name has it (operands saved in bf16 and cast again in backward, fast accumulation
# in all three matmuls), with PyTorch's own memory budgets. Needs torch and a GPU.
#
# ===-----------------------------------------------------=== #
"""The peer of compare_torch.py: step time, peak and saved bytes of PyTorch on the same step."""

import gc
import statistics
import time

import torch
import torch._functorch.config as functorch_config
import torch.nn.functional as F
from torch import nn

from llama_torch import Rowwise, cast


class FeedForward(nn.Module):
    """x + w2(silu(w1(x)) * w3(x))."""

    def __init__(self, dim, ffn, fp8):
        super().__init__()
        self.fp8 = fp8
        for name, shape in (("w1", (ffn, dim)), ("w3", (ffn, dim)), ("w2", (dim, ffn))):
            setattr(self, name, nn.Parameter(torch.randn(shape, device="cuda", dtype=torch.bfloat16) * shape[1] ** -0.5))

    def linear(self, x, w):
        return Rowwise.apply(x, w) if self.fp8 else F.linear(x, w)

    def forward(self, x):
        return x + self.linear(F.silu(self.linear(x, self.w1)) * self.linear(x, self.w3), self.w2)


def median_ms(function, repeats, warmup=3):
    for _ in range(warmup):
        function()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times), min(times)


def start_afresh():
    """The state that each row of a table starts from."""
    torch._dynamo.reset()
    gc.collect()
    torch.cuda.empty_cache()
    torch.manual_seed(0)


def measure_step(name, stack, layers, tokens, dim, repeats):
    """One row of a table: a step through the callables `layers`, whose parameters `stack` has. Bytes are over what is there
    before a step."""
    x0 = torch.randn(tokens, dim, device="cuda", dtype=torch.bfloat16)
    gradient = torch.randn(tokens, dim, device="cuda", dtype=torch.bfloat16)
    parameters = list(stack.parameters())

    def step():
        for p in parameters:
            p.grad = None  # written, not accumulated
        x = x0.detach().requires_grad_(True)
        h = x
        for layer in layers:
            h = layer(h)
        saved = torch.cuda.memory_allocated()
        h.backward(gradient)
        return saved

    started = time.time()
    step()
    torch.cuda.synchronize()
    compile_seconds = time.time() - started
    step()
    for p in parameters:
        p.grad = None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    base = torch.cuda.memory_allocated()
    saved = step() - base
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - base
    median, best = median_ms(step, repeats)
    return {"name": name, "ms": median, "ms_min": best, "peak_bytes": peak, "saved_bytes": saved,
            "compile_s": compile_seconds}


def run_variant(name, fp8, budget, layers, tokens, dim, ffn, repeats):
    """One row of the table: `layers` layers, each compiled, under PyTorch's memory budget."""
    start_afresh()
    functorch_config.activation_memory_budget = budget
    stack = nn.ModuleList([FeedForward(dim, ffn, fp8) for _ in range(layers)])
    compiled = [torch.compile(layer) for layer in stack]
    return measure_step(name, stack, compiled, tokens, dim, repeats)


def run_microbatches(count, layers, tokens, dim, ffn, repeats):
    """`count` microbatches in fp8 under torch.compile, each gradient added to an f32 `main_grad` as soon as it is there
    and then let go, as Megatron does; the first one is copied. The peak is over what was there before the step, and the
    bytes of main_grad, which were, are given beside it."""
    start_afresh()
    functorch_config.activation_memory_budget = 1.0
    stack = nn.ModuleList([FeedForward(dim, ffn, True) for _ in range(layers)])
    compiled = [torch.compile(layer) for layer in stack]
    inputs = [torch.randn(tokens, dim, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
    gradients = [torch.randn(tokens, dim, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
    is_first = [True]

    def add(p):
        p.main_grad.copy_(p.grad) if is_first[0] else p.main_grad.add_(p.grad)
        p.grad = None

    main_grad_bytes = 0
    for p in stack.parameters():
        p.main_grad = torch.empty(p.shape, device="cuda", dtype=torch.float32)
        p.register_post_accumulate_grad_hook(add)
        main_grad_bytes += p.main_grad.nbytes

    def step():
        for number in range(count):
            is_first[0] = number == 0
            h = inputs[number].detach().requires_grad_(True)
            for layer in compiled:
                h = layer(h)
            h.backward(gradients[number])

    step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    base = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - base
    median, best = median_ms(step, repeats)
    return {"name": f"{count} microbatches, main_grad", "ms": median, "ms_min": best, "peak_bytes": peak,
            "saved_bytes": 0, "main_grad_bytes": main_grad_bytes}


def matmuls_alone(layers, tokens, dim, ffn, repeats):
    """The step's matmuls back to back, on random data cast as the step casts it."""
    shapes = [(tokens, ffn, dim), (tokens, ffn, dim), (tokens, dim, ffn),  # forward
              (tokens, ffn, dim), (dim, ffn, tokens),  # gradients of the activation and of w2
              (tokens, dim, ffn), (ffn, dim, tokens), (tokens, dim, ffn), (ffn, dim, tokens)]
    operands = []
    for m, n, k in shapes:
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
        (qa, sa), (qb, sb) = cast(a, -1), cast(b, -1)
        operands.append((qa, qb.t(), sa, sb.t()))
        del a, b

    def run():
        for _ in range(layers):
            for qa, qb, sa, sb in operands:
                torch._scaled_mm(qa, qb, scale_a=sa, scale_b=sb, out_dtype=torch.bfloat16, use_fast_accum=True)

    return median_ms(run, repeats)[0]


def copy_rate(repeats=20):
    """Bytes read and written a second of a copy of 2 GiB."""
    source = torch.empty(2**31, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    milliseconds = median_ms(lambda: target.copy_(source), repeats)[0]
    return 2 * 2**31 / milliseconds * 1e3
