# ===- test_runtime.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Artifacts run from Python, against fp8-run.
#
# ===----------------------------------=== #

import json
import subprocess

import ml_dtypes
import numpy as np
import pytest

from fp8opt import runtime
from fp8opt.arrays import run_numpy
from fp8opt.testing.inputs import make_input, read_outputs

TYPES = {"bf16": ml_dtypes.bfloat16, "f32": np.float32}


@pytest.fixture(scope="module")
def artifact(root, tools, tmp_path_factory):
    path = tmp_path_factory.mktemp("artifact") / "step.fp8"
    subprocess.run([tools / "fp8-opt", root / "examples" / "ffn_tensorwise.mlir", "--compile=microbatches=2",
                    "--emit=artifact", "-o", path], check=True)
    return path


@pytest.fixture(autouse=True)
def library(tools, monkeypatch):
    monkeypatch.setenv("FP8RT_LIBRARY", str(tools.parent / "lib" / "libfp8rt.so"))


def make_arguments(function, known=()):
    random = np.random.default_rng(0)
    return {a.name: known[a.name] if a.name in known
            else (random.standard_normal(a.shape) / 16).astype(TYPES[a.dtype.name]) for a in function.arguments}


def test_results_are_those_of_the_tool(root, tools, tmp_path):
    path = tmp_path / "negate.mlir"
    path.write_text("""func.func @negate(%x: tensor<16x24xbf16> {fp8.tangent} loc("x")) -> (tensor<16x24xf32>, tensor<24x16xbf16>) {
  %w = arith.extf %x : tensor<16x24xbf16> to tensor<16x24xf32>
  %n = arith.negf %w : tensor<16x24xf32>
  %t = fp8.permute %x [1, 0] : tensor<16x24xbf16> -> tensor<24x16xbf16>
  return %n, %t : tensor<16x24xf32>, tensor<24x16xbf16>
}
""")
    subprocess.run([tools / "fp8-opt", path, "--compile", "--emit=artifact", "-o", tmp_path / "a.fp8"], check=True)
    with runtime.Program(tmp_path / "a.fp8") as program:
        (function,) = program.functions.values()
        x = make_arguments(function)["x"]
        results = list(run_numpy(function, {"x": x}).values())
    assert np.array_equal(results[0], -x.astype(np.float32))
    # A view of an argument: its strides are the argument's.
    assert np.array_equal(results[1].astype(np.float32), x.T.astype(np.float32))


def test_microbatches(artifact, tools, tmp_path):
    """start_of_step, the first microbatch, the second one over the gradients of the first."""
    with runtime.Program(artifact) as program:
        start, first, later = (program.functions[name] for name in ("start_of_step", "ffn", "ffn.accumulate"))
        weights = make_arguments(start)
        casts = run_numpy(start, weights)
        known = {**weights, **casts}
        once = run_numpy(first, make_arguments(first, known))
        gradients = {name: value for name, value in once.items() if name.endswith(".main_grad")}
        twice = run_numpy(later, make_arguments(later, {**known, **{k: v.copy() for k, v in gradients.items()}}))
        assert gradients
        for name, value in gradients.items():
            # The same inputs again: the same gradient again. Doubling is exact.
            assert np.array_equal(twice[name], 2 * value), name
        plan = json.loads(program.plan)
        assert [f["peak_bytes"] for f in plan["functions"]] == [
            program.functions[f["function"]].peak_bytes for f in plan["functions"]]


def test_a_step_has_the_bits_of_fp8_run(root, tools, tmp_path):
    artifact = tmp_path / "step.fp8"
    subprocess.run([tools / "fp8-opt", root / "examples" / "ffn_block128.mlir", "--compile", "--emit=artifact", "-o",
                    artifact], check=True)
    subprocess.run([tools / "fp8-run", artifact, "--seed=3", f"--dump-outputs={tmp_path}"], check=True,
                   capture_output=True)
    with runtime.Program(artifact) as program:
        (function,) = program.functions.values()
        arguments = {}
        for a in function.arguments:
            scale = a.shape[-1] ** -0.5 if a.role == runtime.Role.parameter else 1.0
            arguments[a.name] = make_input(a.name, a.shape, a.dtype.name, 3, scale).astype(TYPES[a.dtype.name])
        results = run_numpy(function, arguments)
    expected = read_outputs(tmp_path)
    assert list(results) == list(expected)
    for name, value in expected.items():
        assert np.array_equal(results[name].astype(np.float32), value.astype(np.float32)), name


@pytest.mark.parametrize("change, message", [
    (lambda a: a.pop("x"), "expected an argument 'x'"),
    (lambda a: a.update(x=a["x"][:-1]), "expected .x. of shape"),
    (lambda a: a.update(x=a["x"].tolist()), "to be an array, but got a list"),
    (lambda a: a.update(x=np.asfortranarray(a["x"])), "dense and row-major"),
])
def test_wrong_arguments_are_refused(artifact, change, message):
    with runtime.Program(artifact) as program:
        function = program.functions["ffn"]
        arguments = make_arguments(function, run_numpy(program.functions["start_of_step"],
                                                       make_arguments(program.functions["start_of_step"])))
        change(arguments)
        with pytest.raises(runtime.Error, match=message):
            run_numpy(function, arguments)


def test_what_is_no_artifact_is_refused(tmp_path):
    (tmp_path / "a.fp8").write_bytes(b"nothing")
    with pytest.raises(runtime.Error):
        runtime.Program(tmp_path / "a.fp8")
    with pytest.raises(runtime.Error, match="No such file"):
        runtime.Program(tmp_path / "b.fp8")
