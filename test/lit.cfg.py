# ===- lit.cfg.py - how the tests run ---------------------------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Suffixes, substitutions and features of every test below this folder. Paths
# come from lit.site.cfg.py, which CMake writes into the build folder.
#
# ===------------------------------------------------------------------------=== #

import os
import shutil
import subprocess

import lit.formats

config.name = "fp8-opt"
config.test_format = lit.formats.ShTest(execute_external=False)
# A folder of Python tests adds ".py" in a lit.local.cfg of its own.
config.suffixes = [".mlir", ".test"]
# gpu: what runs on a machine with a GPU, by scripts of its own.
config.excludes = ["Inputs", "gpu", "CMakeLists.txt", "lit.cfg.py", "lit.site.cfg.py"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.fp8_obj_root, "test")

# The tools of this build come first, then those of LLVM (FileCheck, not).
config.environment["PATH"] = os.pathsep.join(
    [config.fp8_tools_dir, config.llvm_tools_dir, config.environment.get("PATH", "")]
)
# A variable of FileCheck is forgotten at the next label unless its name starts with '$'.
config.environment["FILECHECK_OPTS"] = "-enable-var-scope"
for name in ["ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "CUDA_HOME", "XDG_CACHE_HOME"]:
    if name in os.environ:
        config.environment[name] = os.environ[name]

# FP8_VERIFY_ROUNDTRIP=1 runs the whole suite with every input also sent through text and bytecode and back.
opt = os.path.join(config.fp8_tools_dir, "fp8-opt")
if os.environ.get("FP8_VERIFY_ROUNDTRIP") == "1":
    opt += " --verify-roundtrip"
word = r"(?<![\w/.%-]){}(?![\w/.-])"
config.substitutions.append((word.format("fp8-opt"), opt))
config.substitutions.append((word.format("fp8-run"), os.path.join(config.fp8_tools_dir, "fp8-run")))
config.substitutions.append(("%python", config.fp8_python))
config.substitutions.append(("%fp8_src_root", config.fp8_src_root))
config.substitutions.append(("%fp8_obj_root", config.fp8_obj_root))
config.substitutions.append(("%llvm_tools_dir", config.llvm_tools_dir))


def has_module(name):
    """Whether the Python of the tests finds a module; importing it would cost seconds for torch."""
    check = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
    return subprocess.run([config.fp8_python, "-c", check, name]).returncode == 0


for module in ["numpy", "ml_dtypes", "torch"]:
    if has_module(module):
        config.available_features.add(module)
# Rates mean nothing under a sanitizer.
if not config.fp8_sanitizers:
    config.available_features.add("full-speed")
# Signals are seen by those who wait for a process; MLIR itself is not instrumented, so what it holds looks leaked,
# and what its allocators hand out poisoned.
elif "ASAN_OPTIONS" not in os.environ:
    config.environment["ASAN_OPTIONS"] = "handle_segv=0:handle_abort=0:detect_leaks=0:detect_container_overflow=0:allow_user_poisoning=0"
if os.path.exists(os.path.join(config.llvm_tools_dir, "clang-format")):
    config.available_features.add("clang-format")
# A source tree without its history cannot say which files are its own.
if shutil.which("git") and os.path.exists(os.path.join(config.fp8_src_root, ".git")):
    config.available_features.add("git")
# Several ranks: MPI's library is built where it was found.
if shutil.which("mpirun") and os.path.exists(os.path.join(config.fp8_obj_root, "lib", "libfp8rt_mpi.so")):
    config.available_features.add("mpi")
cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
if os.path.exists(os.path.join(cuda, "bin", "ptxas")):
    config.available_features.add("cuda-toolkit")
