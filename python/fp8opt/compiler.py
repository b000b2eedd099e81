# ===- compiler.py - compile and run from Python ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# From a program to an artifact that can be looked at, saved and called.
#
# ===--------------------------------------------------------=== #
"""Compile programs and run them.

    step = fp8opt.compile(module, target="h200", budget="40GiB")
    print(step.report())
    step.save("step.fp8")
    results = step.run({"x": x, "w": w, "d_y": d_y})
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import tempfile
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

from . import cache as _cache
from .builder import Module
from .errors import Diagnostic
from .libfp8opt import compile_text, library_hash
from .runtime import Function, Program

__all__ = ["Artifact", "compile", "verify"]

# The functions of a module that run beside those of microbatches.
_ONCE_A_STEP = ("start_of_step", "end_of_step")

_OUTPUTS = ("artifact", "plan", "report")


def compile(program: Union[Module, str], *, target: str = "cpu", policy: str = "auto",  # noqa: A001
            budget: Union[int, str, None] = None, cache: bool = True, **options: Any) -> Artifact:
    """Plans a program and compiles it to an artifact.

    `program` is a module of the builder, or text. `budget`, a limit on the peak, is a number of bytes or a text such as
    "40GiB"; further `options` are those of `fp8-opt --compile` with '_' for '-' (`microbatches=4`, `device_memory="80GiB"`,
    `ops="mm+abs"`, `fuse="none"`). What was compiled before comes from the cache (`fp8opt.cache`), unless `cache` is
    false. Raises CompileError, which carries the diagnostics."""
    text = str(program)
    settings: Dict[str, Any] = {"target": target, "policy": policy, "budget": budget, **options}
    joined = ",".join(f"{key.replace('_', '-')}={_option(key, value)}" for key, value in settings.items()
                      if value is not None)
    key = _cache.key_of([library_hash(), joined, *_surroundings(target), text]) if cache else ""
    files = _cache.read(key) if cache else None
    diagnostics: Tuple[Diagnostic, ...] = ()
    if files is None or set(files) != set(_OUTPUTS):
        made = compile_text(text, _OUTPUTS, joined)
        files, diagnostics = made.bytes, made.diagnostics
        if cache:
            _cache.write(key, files)
    return Artifact(files["artifact"], files["plan"].decode(), files["report"].decode(), diagnostics)


def verify(program: Union[Module, str]) -> str:
    """The program as the compiler reads it, with every op verified; raises CompileError where it is none."""
    return compile_text(str(program), ["program"]).bytes["program"].decode()


class Artifact:
    """A compiled program: its plan and report, its bytes, and its functions to call."""

    def __init__(self, data: bytes, plan: str, report: str, diagnostics: Sequence[Diagnostic] = ()):
        self._data, self._report = data, report
        #: The plan (docs/plan.md).
        self.plan: Dict[str, Any] = json.loads(plan)
        #: The warnings and remarks of the compiler; none where the artifact came from the cache.
        self.diagnostics = tuple(diagnostics)
        self._program: Optional[Program] = None

    @property
    def backend(self) -> str:
        """Where it runs: "cpu" or "cuda"."""
        return "cpu" if self.plan["target"] == "cpu" else "cuda"

    def report(self) -> str:
        """What is kept, computed again and freed, and why, for a terminal."""
        return self._report

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the artifact to a file that `fp8-run` and `fp8opt.runtime.Program` load: whole, or not at all."""
        target = pathlib.Path(path)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(self._data)
            os.chmod(temporary, 0o644)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise

    def __bytes__(self) -> bytes:
        return self._data

    @property
    def functions(self) -> Dict[str, Function]:
        """The functions by name, with their arguments, results and sizes. Loads the artifact."""
        if self._program is None:
            self._program = Program(self._data, self.backend)
        return self._program.functions

    def run(self, arguments: Mapping[str, Any], function: Optional[str] = None,
            placed: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
        """Runs one function once: the one called `function`, by default the step (of several, the first).

        Arguments are NumPy arrays (CPU), torch tensors (on a GPU, on torch's current stream), or anything that speaks
        DLPack (on a GPU, results are CuPy's). Results have the arguments' kind; `placed` may name memory for results that
        the caller places. State arguments are updated in place. Results of torch and CuPy that lie in the arena are valid
        until the next run of the function."""
        from .arrays import run_any

        return run_any(self._function(function), arguments, placed)

    def __call__(self, *arguments: Any, function: Optional[str] = None, **named: Any) -> Dict[str, Any]:
        """`run` with arguments in the order of the signature, or by name."""
        names = [argument.name for argument in self._function(function).arguments]
        if len(arguments) > len(names):
            raise TypeError(f"expected at most {len(names)} arguments, but got {len(arguments)}")
        given = dict(zip(names, arguments))
        twice = sorted(given.keys() & named.keys())
        if twice:
            raise TypeError(f"expected one value for '{twice[0]}', but got two")
        return self.run({**given, **named}, function)

    def _function(self, name: Optional[str]) -> Function:
        functions = self.functions
        if name is None:
            steps = [function for key, function in functions.items() if key not in _ONCE_A_STEP]
            return (steps or list(functions.values()))[0]
        if name not in functions:
            raise ValueError(f"expected a function of {', '.join(functions)}, but got '{name}'")
        return functions[name]


def _option(key: str, value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not text or any(character in text for character in ", '\"{}\0"):
        raise ValueError(f"expected '{key}' without commas, spaces, quotes and braces, but got {text!r}")
    return text


def _surroundings(target: str) -> Sequence[str]:
    """What besides program and options decides the bytes of an artifact: a target's file, and the assembler of the CUDA
    toolkit."""
    if target.endswith(".json"):
        return [pathlib.Path(target).read_text()] if os.path.exists(target) else []
    if target == "cpu":
        return []
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return [f"{home} {os.path.exists(f'{home}/bin/ptxas')} {shutil.which('ptxas')}"]
