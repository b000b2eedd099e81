# ===- test_split.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Steps split in forward and backward, or dgrad and wgrad apart, with several microbatches in flight: the bits of the whole
# step, and the bytes that the plan says.
#
# ===--------------------------------=== #

import json
import subprocess

import ml_dtypes
import numpy as np
import pytest

import fp8opt
from fp8opt import Block128, Module, Rowwise, Tensorwise, tensor
from fp8opt.modules import dropout, rms_norm, silu

TYPES = {"bf16": ml_dtypes.bfloat16, "f32": np.float32, "f8E4M3FN": ml_dtypes.float8_e4m3fn,
         "f8E5M2": ml_dtypes.float8_e5m2, "i32": np.int32, "i8": np.int8}

# What each microbatch runs, in an order that has two or three of them in flight.
SCHEDULES = {
    "backward": [(0, "forward"), (1, "forward"), (0, "backward"), (2, "forward"), (2, "backward"), (1, "backward")],
    "wgrad": [(0, "forward"), (1, "forward"), (1, "dgrad"), (2, "forward"), (0, "dgrad"), (1, "wgrad"), (2, "dgrad"),
              (2, "wgrad"), (0, "wgrad")],
}


@pytest.fixture(autouse=True)
def installation(tools, monkeypatch, tmp_path):
    monkeypatch.setenv("FP8RT_LIBRARY", str(tools.parent / "lib" / "libfp8rt.so"))
    monkeypatch.setenv("FP8OPT_LIBRARY", str(tools.parent / "lib" / "libfp8opt.so"))
    monkeypatch.setenv("FP8OPT_CACHE_DIR", str(tmp_path / "cache"))


def feed_forward(recipe):
    """norm, w1, w3, silu, w2 with residual; `h`, a result that backward reads, is returned too."""
    module = Module()
    f = module.function("ffn")
    x = f.argument("x", tensor("bf16", 128, 256))
    gain = f.parameter("gain", tensor("bf16", 1, 256))
    weights, states = {}, {}
    for name, shape in (("w1", (384, 256)), ("w3", (384, 256)), ("w2", (256, 384))):
        weights[name] = f.parameter(name, tensor("bf16", *shape))
        states[name] = f.delayed_state(name, recipe.history) if recipe.history else []

    def linear(value, key, name):
        return f.linear(value, weights[key], recipe, states[key], name=name)

    n = rms_norm(x, gain, 2.0**-17, "n")
    h = f.elementwise("arith.mulf", silu(linear(n, "w1", "gate"), "silu"), linear(n, "w3", "up"), name="h")
    f.returns(f.elementwise("arith.addf", x, linear(h, "w2", "down"), name="y"), h)
    return module


def make_array(argument, seed):
    random = np.random.default_rng([seed, sum(argument.name.encode())])
    scale = 1.0 if argument.role != fp8opt.runtime.Role.parameter else argument.shape[-1] ** -0.5
    return (random.standard_normal(argument.shape) * scale).astype(TYPES[argument.dtype.name])


class Rank:
    """Buffers of a rank: parameters and state once, the rest a microbatch each."""

    def __init__(self, artifact):
        self.artifact, self.shared, self.own = artifact, {}, {}

    def argument(self, argument, microbatch):
        if argument.role == fp8opt.runtime.Role.state:
            initial = np.zeros if argument.name.endswith("history") else np.ones
            return self.shared.setdefault(argument.name, initial(argument.shape, np.float32))
        if argument.role == fp8opt.runtime.Role.parameter:
            return self.shared.setdefault(argument.name, make_array(argument, 100))
        buffers = self.own.setdefault(microbatch, {})
        return buffers.setdefault(argument.name, make_array(argument, microbatch))

    def run(self, microbatch, name):
        """Runs one function; its results lie in buffers of this microbatch."""
        function = self.artifact.functions[name]
        arguments = {a.name: self.argument(a, microbatch) for a in function.arguments}
        memory = {r.name: np.empty(r.caller_bytes, np.uint8) for r in function.results if r.caller_bytes}
        results = self.artifact.run(arguments, name, memory)
        self.own[microbatch].update(results)
        return results


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


@pytest.mark.parametrize("apart", ["backward", "wgrad"])
@pytest.mark.parametrize("policy", ["save-all", "recompute-all", "auto"])
@pytest.mark.parametrize("recipe", [Rowwise(), Tensorwise(), Tensorwise(delayed=4), Block128()],
                         ids=["rowwise", "tensorwise", "delayed", "block128"])
def test_the_bits_of_the_whole_step(recipe, policy, apart):
    module = feed_forward(recipe)
    whole, split = Rank(fp8opt.compile(module, policy=policy)), Rank(fp8opt.compile(module, policy=policy, split=apart))
    found = {}
    for microbatch, part in SCHEDULES[apart]:
        found.setdefault(microbatch, {}).update(split.run(microbatch, f"ffn.{part}"))
    names = [result.name for result in whole.artifact.functions["ffn"].results]
    assert names == ["y", "h", "d_x", "d_gain", "d_w1", "d_w3", "d_w2"]
    for microbatch in range(3):
        expected = whole.run(microbatch, "ffn")
        for name in names:
            assert np.array_equal(bits(found[microbatch][name]), bits(expected[name])), (microbatch, name)
    # Amaxes of all microbatches, by a maximum.
    for name, state in whole.shared.items():
        assert np.array_equal(bits(state), bits(split.shared[name])), name


@pytest.mark.parametrize("apart", ["backward", "wgrad"])
def test_random_graphs(apart, random_graphs_100):
    """With views, several results, donated arguments and shared weights; two microbatches in flight."""
    split_ones = 0
    for seed, (graph, _) in enumerate(random_graphs_100[:10]):
        module, policy = graph.emit(), ("auto", "save-all", "recompute-all", "min-cut")[seed % 4]
        try:
            parts = Rank(fp8opt.compile(module, policy=policy, split=apart))
        except fp8opt.CompileError as error:
            assert "expected the gradient of a parameter" in str(error), seed
            continue
        whole, found = Rank(fp8opt.compile(module, policy=policy)), {}
        for microbatch, part in SCHEDULES[apart]:
            found.setdefault(microbatch, {}).update(parts.run(microbatch, f"graph.{part}"))
        for microbatch in range(3):
            for name, expected in whole.run(microbatch, "graph").items():
                assert np.array_equal(bits(found[microbatch][name]), bits(expected)), (seed, microbatch, name)
        split_ones += 1
    assert split_ones >= 5


@pytest.mark.parametrize("apart", ["backward", "wgrad"])
def test_segments_are_what_the_caller_holds(apart):
    module = feed_forward(Rowwise())
    whole, artifact = fp8opt.compile(module, policy="save-all"), fp8opt.compile(module, policy="save-all", split=apart)
    plans = {plan["function"]: plan for plan in artifact.plan["functions"]}
    parts = ["forward", "backward"] if apart == "backward" else ["forward", "dgrad", "wgrad"]
    assert list(plans) == [f"ffn.{part}" for part in parts]
    made = {}
    for name, plan in plans.items():
        assert plan["part_of"] == "ffn" and plan["min_feasible_peak_bytes"] is None
        function = artifact.functions[name]
        segments = {segment["name"]: segment["bytes"] for segment in plan["segments"]}
        returned = sum(result.caller_bytes for result in function.results)
        # Everything that a part returns lies with the caller, and in none of the arenas.
        assert all(result.caller_bytes for result in function.results)
        assert segments["saved"] + segments["deferred"] + segments["io"] == returned
        assert plan["peak_bytes"] >= returned
        made[name.split(".")[1]] = segments
    assert made["forward"]["saved"] == whole.plan["saved_bytes"] == sum(e["bytes"] for e in plans["ffn.forward"]["saved"])
    assert [entry["value"] for entry in plans["ffn.forward"]["saved"]] == [e["value"] for e in whole.plan["saved"]]
    assert (made.get("dgrad", {"deferred": 0})["deferred"] > 0) == (apart == "wgrad")


@pytest.mark.parametrize("apart", ["backward", "wgrad"])
def test_planned_is_measured_for_each_part(apart, tools, tmp_path):
    artifact = fp8opt.compile(feed_forward(Rowwise()), split=apart)
    artifact.save(tmp_path / "split.fp8")
    for plan in artifact.plan["functions"]:
        subprocess.run([tools / "fp8-run", tmp_path / "split.fp8", f"--function={plan['function']}",
                        f"--json={tmp_path / 'run.json'}"], check=True, capture_output=True)
        run = json.loads((tmp_path / "run.json").read_text())
        assert run["measured_peak_bytes"] == run["planned_peak_bytes"] == plan["peak_bytes"]
        assert run["arena_bytes"] == plan["arena_bytes"]


@pytest.mark.parametrize("apart", ["backward", "wgrad"])
def test_results_that_share_storage_are_copied(apart):
    """A view of what crosses, and two views of one value: each is a buffer of its own."""
    module = Module()
    f = module.function("views")
    x, w = f.argument("x", tensor("f32", 8, 4)), f.parameter("w", tensor("f32", 8, 4))
    r = f.elementwise("math.exp", x * w)
    s = r + 1.0
    f.returns(r.T, s.T, f.reshape(s, [32]), s, names=["r_t", "s_t", "flat", "s"])
    whole = Rank(fp8opt.compile(module, policy="save-all"))
    split, found = Rank(fp8opt.compile(module, policy="save-all", split=apart)), {}
    for part in ["forward", "backward"] if apart == "backward" else ["forward", "dgrad", "wgrad"]:
        found.update(split.run(0, f"views.{part}"))
    for name, expected in whole.run(0, "views").items():
        assert np.array_equal(bits(found[name]), bits(expected)), name


@pytest.mark.parametrize("apart", ["backward", "wgrad"])
def test_results_that_another_part_makes(apart):
    """One value is the gradient of an argument and of a parameter; backward returns what forward made."""
    module = Module()
    f = module.function("sum")
    f.returns(f.elementwise("math.exp", f.argument("x", tensor("f32", 8, 4)) + f.parameter("w", tensor("f32", 8, 4)), name="y"))
    g = module.function("joint")
    v, u = g.argument("v", tensor("f32", 8, 4)), g.parameter("u", tensor("f32", 8, 4))
    d_y = g.argument("d_y", tensor("f32", 8, 4), "fp8.tangent")
    step = g.step()
    with step.forward():
        e = g.elementwise("math.exp", v, name="e")
        step.yields(e * u)
    with step.backward():
        step.yields(e, e.T, d_y * e)
    g.returns(*step.results, names=["y", "kept", "kept_t", "d_u"])
    whole = Rank(fp8opt.compile(module, policy="save-all"))
    split = Rank(fp8opt.compile(module, policy="save-all", split=apart))
    for name in ("sum", "joint"):
        found = {}
        for part in ["forward", "backward"] if apart == "backward" else ["forward", "dgrad", "wgrad"]:
            found.update(split.run(0, f"{name}.{part}"))
        for result, expected in whole.run(0, name).items():
            assert np.array_equal(bits(found[result]), bits(expected)), (name, result)


def masked():
    """The mask of a dropout, a byte an element, is kept for backward."""
    module = Module()
    f = module.function("step")
    x, word = f.argument("x", tensor("bf16", 64, 128)), tensor("i32", 1, 1)
    f.returns(dropout(x, 0.25, f.constant(3, word), f.constant(5, word), name="dropped"))
    return module, {}, {"dropped.mask": 64 * 128}


def squared():
    """Its base is kept in 12 bits an element."""
    module = Module()
    f = module.function("step")
    x = f.argument("x", tensor("bf16", 64, 200))
    h = f.elementwise("math.exp", x, name="h")
    f.returns(f.elementwise("arith.mulf", h, h, name="y"))
    return module, {"lossy": "h:e5m6"}, {"h.e5m6": 64 * 200 * 3 // 2, "h.e5m6.scale": 64 * 2 * 4}


@pytest.mark.parametrize("make", [masked, squared])
def test_bytes_that_only_kernels_read_cross(make):
    module, options, kept = make()
    whole = Rank(fp8opt.compile(module, policy="save-all", **options))
    split = Rank(fp8opt.compile(module, policy="save-all", split="backward", **options))
    assert {entry["value"]: entry["bytes"] for entry in split.artifact.plan["saved"]} == kept
    sizes = {a.name: a.bytes for a in split.artifact.functions["step.backward"].arguments}
    assert kept.items() <= sizes.items()
    found = {**split.run(0, "step.forward"), **split.run(0, "step.backward")}
    for name, expected in whole.run(0, "step").items():
        assert np.array_equal(bits(found[name]), bits(expected)), name


def test_what_cannot_be_split_is_refused():
    module = Module()
    f = module.function("frozen")
    x = f.argument("x", tensor("bf16", 64, 32))
    f.returns(f.linear(x, f.parameter("w", tensor("bf16", 48, 32), "fp8.frozen"), Rowwise()))
    with pytest.raises(fp8opt.CompileError, match="expected the gradient of a parameter to split off"):
        fp8opt.compile(module, split="wgrad")
    with pytest.raises(fp8opt.CompileError, match="expected 'apart' to be"):
        fp8opt.compile(module, split="dgrad")
