# ===- test_compile.py ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Programs compiled and run from Python: against fp8-opt and fp8-run, with errors at the user's lines, and with a cache
# that holds under damage and under many writers.
#
# ===----------------------------------=== #

import inspect
import json
import os
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest

import fp8opt
from fp8opt import Module, Rowwise, cache, tensor
from fp8opt.testing.inputs import make_input, read_outputs

TYPES = {"bf16": ml_dtypes.bfloat16, "f32": np.float32, "f8E4M3FN": ml_dtypes.float8_e4m3fn}


@pytest.fixture(autouse=True)
def installation(tools, monkeypatch, tmp_path):
    monkeypatch.setenv("FP8RT_LIBRARY", str(tools.parent / "lib" / "libfp8rt.so"))
    monkeypatch.setenv("FP8OPT_LIBRARY", str(tools.parent / "lib" / "libfp8opt.so"))
    monkeypatch.setenv("FP8OPT_CACHE_DIR", str(tmp_path / "cache"))


def small_step():
    module = Module()
    f = module.function("step")
    x = f.argument("x", tensor("bf16", 64, 32))
    w = f.parameter("w", tensor("bf16", 48, 32))
    y = f.linear(x, w, Rowwise(), name="y")
    f.returns(f.truncf(f.elementwise("math.tanh", f.extf(y)), name="z"))
    return module


def inputs_of(function, seed=0):
    arguments = {}
    for a in function.arguments:
        scale = a.shape[-1] ** -0.5 if a.role == fp8opt.runtime.Role.parameter else 1.0
        arguments[a.name] = make_input(a.name, a.shape, a.dtype.name, seed, scale).astype(TYPES[a.dtype.name])
    return arguments


def test_outputs_are_those_of_the_tool(tools, tmp_path):
    path = tmp_path / "step.mlir"
    path.write_text(str(small_step()))
    artifact = fp8opt.compile(small_step(), policy="min-cut")

    def tool(output):
        subprocess.run([tools / "fp8-opt", path, "--compile=policy=min-cut", f"--emit={output}", "-o", tmp_path / "out"],
                       check=True)
        return (tmp_path / "out").read_bytes()

    # The places of ops are lines of this file in both; of the rest, those of the text.
    assert artifact.plan == json.loads(tool("plan"))
    assert artifact.report() == tool("report").decode()
    artifact.save(tmp_path / "saved.fp8")
    assert (tmp_path / "saved.fp8").read_bytes() == bytes(artifact)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_results_are_those_of_fp8_run(tools, tmp_path):
    artifact = fp8opt.compile(small_step())
    artifact.save(tmp_path / "step.fp8")
    subprocess.run([tools / "fp8-run", tmp_path / "step.fp8", f"--dump-outputs={tmp_path}"], check=True,
                   capture_output=True)
    arguments = inputs_of(artifact.functions["step"])
    expected = read_outputs(tmp_path)
    for results in (artifact.run(arguments), artifact(*arguments.values()), artifact(**arguments)):
        assert list(results) == list(expected) == ["z", "d_x", "d_w"]
        for name, value in expected.items():
            assert np.array_equal(results[name].astype(np.float32), value.astype(np.float32)), name


def test_results_lie_where_the_caller_says(tmp_path):
    module = Module()
    f = module.function("double")
    x = f.argument("x", tensor("f32", 8, 4), "fp8.tangent")
    f.returns(x + x, placement="caller", names=["y"])
    artifact = fp8opt.compile(module)
    memory, x = np.zeros(8 * 4 * 4, np.uint8), np.arange(32, dtype=np.float32).reshape(8, 4)
    result = artifact.run({"x": x}, placed={"y": memory})["y"]
    assert np.shares_memory(result, memory)
    assert np.array_equal(memory.view(np.float32).reshape(8, 4), 2 * x)


class OnlyDLPack:
    """An array that can nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        assert stream is None
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_that_speak_dlpack():
    module = Module()
    f = module.function("double")
    x = f.argument("x", tensor("f32", 8, 4), "fp8.tangent")
    f.returns(x + x, names=["y"])
    artifact = fp8opt.compile(module)
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    assert np.array_equal(artifact.run({"x": OnlyDLPack(x)})["y"], 2 * x)
    with pytest.raises(fp8opt.runtime.Error, match="dense and row-major"):
        artifact.run({"x": OnlyDLPack(np.asfortranarray(x))})
    with pytest.raises(fp8opt.runtime.Error, match="expected 'x' of 128 bytes"):
        artifact.run({"x": OnlyDLPack(x[:4])})


def test_torch_tensors_and_arrays_of_numpy_in_turn():
    torch = pytest.importorskip("torch")
    module = Module()
    f = module.function("double")
    x = f.argument("x", tensor("f32", 8, 4), "fp8.tangent")
    f.returns(x + x, names=["y"])
    artifact = fp8opt.compile(module)
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    for _ in range(2):
        result = artifact.run({"x": torch.from_numpy(x)})["y"]
        assert isinstance(result, torch.Tensor) and np.array_equal(result.numpy(), 2 * x)
        assert np.array_equal(artifact.run({"x": x})["y"], 2 * x)


@pytest.mark.parametrize("change, message", [
    (lambda a: {**a, "x": a["x"].astype(np.float32)}, "expected 'x' of type bfloat16, but got float32"),
    (lambda a: {**a, "x": a["x"].reshape(32, 64)}, r"expected 'x' of shape \[64, 32\], but got \[32, 64\]"),
    (lambda a: {**a, "x": 3}, "expected 'x' to be an array, but got a int"),
])
def test_wrong_arrays_are_refused(change, message):
    artifact = fp8opt.compile(small_step())
    with pytest.raises(fp8opt.runtime.Error, match=message):
        artifact.run(change(inputs_of(artifact.functions["step"])))


def test_wrong_calls_are_refused():
    artifact = fp8opt.compile(small_step())
    with pytest.raises(TypeError, match="at most 3 arguments"):
        artifact(1, 2, 3, 4)
    with pytest.raises(TypeError, match="one value for 'x'"):
        artifact(1, x=2)
    with pytest.raises(ValueError, match="expected a function of step"):
        artifact.run({}, "other")


def test_an_error_points_at_the_line_of_the_user():
    module = Module()
    f = module.function("wrong")
    x = f.argument("x", tensor("bf16", 64, 32))
    (y,) = f.op("fp8.amax", [x], [tensor("f32", 64, 2)], {"group": [1, 0]}, "y"); line = here()  # noqa: E702
    f.returns(y)
    for refuse in (lambda: fp8opt.verify(module), lambda: fp8opt.compile(module)):
        with pytest.raises(fp8opt.CompileError) as caught:
            refuse()
        (diagnostic,) = caught.value.diagnostics
        assert (diagnostic.severity, diagnostic.file, diagnostic.line) == ("error", __file__, line)
        assert diagnostic.value == "y" and diagnostic.message.startswith("'fp8.amax' op expected")
        assert f"{__file__}:{line}:" in str(caught.value)


def here():
    return inspect.currentframe().f_back.f_lineno


def test_a_budget_that_cannot_be_met_says_what_can():
    with pytest.raises(fp8opt.CompileError, match="min_feasible_peak_bytes"):
        fp8opt.compile(small_step(), budget=1000)


@pytest.mark.parametrize("options, message", [
    ({"policy": "best"}, "expected 'policy' to be"), ({"speed": "high"}, "cannot read"), ({"target": "tpu"}, "tpu"),
])
def test_wrong_options_are_refused(options, message):
    with pytest.raises(fp8opt.CompileError, match=message):
        fp8opt.compile(small_step(), **options)


def test_options_that_would_hide_others_are_refused():
    with pytest.raises(ValueError, match="without commas"):
        fp8opt.compile(small_step(), ops="mm,policy=auto")


@pytest.mark.parametrize("text, message", [
    ("module {", "expected"), ("\0", "byte 0 is 0"), ("MLïR", "custom op|expected"),
    ("func.func private @f(" + "tuple<" * 100000, "brackets around each other"),
    ("func.func private @f() attributes {a = affine_map<() -> (" + "-" * 100000 + "1)>}", "signs in a row"),
    ("\udcff", "expected|unexpected|invalid"), ('"' * 3, "empty operation name"),
])
def test_hostile_text_is_refused(text, message):
    with pytest.raises(fp8opt.CompileError, match=message):
        fp8opt.compile(text)


def test_the_cache_gives_the_same_and_compiles_once(monkeypatch):
    first = fp8opt.compile(small_step())
    monkeypatch.setattr(fp8opt.compiler, "compile_text", None)
    again = fp8opt.compile(small_step())
    assert bytes(again) == bytes(first) and again.plan == first.plan and again.report() == first.report()
    for other in ({"policy": "save-all"}, {"cache": False}):
        with pytest.raises(TypeError):
            fp8opt.compile(small_step(), **other)
    cache.clear()
    with pytest.raises(TypeError):
        fp8opt.compile(small_step())


@pytest.mark.parametrize("damage", [
    lambda entry: (entry / "artifact").write_bytes(b"x"),
    lambda entry: (entry / "plan").unlink(),
    lambda entry: (entry / "index.json").write_text("{"),
    lambda entry: (entry / "index.json").write_text("[1]"),
    lambda entry: (entry / "index.json").write_text("{}"),
])
def test_a_damaged_entry_is_made_again(damage):
    first = bytes(fp8opt.compile(small_step()))
    (entry,) = cache.directory().iterdir()
    damage(entry)
    assert bytes(fp8opt.compile(small_step())) == first
    assert [path for path in cache.directory().iterdir()] == [entry]
    assert sorted(path.name for path in entry.iterdir()) == ["artifact", "index.json", "plan", "report"]


def test_a_cache_that_cannot_be_written_is_no_error(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FP8OPT_CACHE_DIR", str(tmp_path / "file" / "folder"))
    assert bytes(fp8opt.compile(small_step()))


def test_many_writers():
    program = ("import fp8opt, hashlib; from test_compile import small_step;"
               "print(hashlib.sha256(bytes(fp8opt.compile(small_step()))).hexdigest())")
    folders = os.pathsep.join([os.path.dirname(__file__), os.path.dirname(os.path.dirname(fp8opt.__file__))])
    running = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "PYTHONPATH": folders}) for _ in range(4)]
    hashes = {process.communicate(timeout=120)[0] for process in running}
    assert len(hashes) == 1 and all(process.returncode == 0 for process in running)
    assert len(list(cache.directory().iterdir())) == 1


def test_threads_compile_side_by_side():
    found, programs = [None] * 4, [small_step() for _ in range(4)]

    def work(index):
        found[index] = bytes(fp8opt.compile(programs[index], cache=False))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert None not in found and len(set(found)) == 1


OUT_OF_MEMORY = """
import fp8opt, resource
from test_compile import small_step
small = fp8opt.compile(small_step(), cache=False)
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (32 << 20), resource.RLIM_INFINITY))
try:
    fp8opt.compile(open({path!r}).read(), cache=False)
except fp8opt.CompileError as error:
    print(error.diagnostics[0].message)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(bytes(fp8opt.compile(small_step(), cache=False)) == bytes(small))
"""


def test_out_of_memory_is_an_error(root, tmp_path):
    """An exception, and the process goes on."""
    path = tmp_path / "stack.mlir"
    path.write_text(subprocess.run([sys.executable, root / "examples" / "gen.py", "--layers=32"], capture_output=True, text=True,
                                   check=True).stdout)
    folders = os.pathsep.join([os.path.dirname(__file__), os.path.dirname(os.path.dirname(fp8opt.__file__))])
    done = subprocess.run([sys.executable, "-c", OUT_OF_MEMORY.format(path=str(path))], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": folders})
    assert done.stdout == "the compiler ran out of memory\nTrue\n", done.stderr


def test_the_base_package_imports_nothing_optional():
    code = "import fp8opt, sys; print([m for m in ('torch', 'numpy', 'matplotlib', 'cupy') if m in sys.modules])"
    folder = os.path.dirname(os.path.dirname(fp8opt.__file__))
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                           env={**os.environ, "PYTHONPATH": folder}).stdout
    assert found == "[]\n"
