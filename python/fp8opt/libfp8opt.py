# ===- libfp8opt.py - the compiler's C interface ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# libfp8opt.so (include/fp8/CAPI/fp8opt.h) through ctypes. The calls release Python's lock, so threads compile side by
# side.
#
# ===-------------------------------------------------------=== #
"""The compiler's shared library: text in, outputs and diagnostics out."""

from __future__ import annotations

import ctypes
import functools
import hashlib
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from .errors import CompileError, Diagnostic
from .libraries import find_library

__all__ = ["Outputs", "compile_text", "library_hash", "version"]

ABI_VERSION = 1

_BITS = {"program": 1, "mlir": 2, "plan": 4, "report": 8, "ptx": 16, "artifact": 32}
_SEVERITIES = ("error", "warning", "remark", "note")


class _Request(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("options", ctypes.c_char_p),
                ("phase", ctypes.c_char_p), ("outputs", ctypes.c_uint32)]


class _Diagnostic(ctypes.Structure):
    _fields_ = [("severity", ctypes.c_int), ("message", ctypes.c_char_p), ("file", ctypes.c_char_p),
                ("line", ctypes.c_uint), ("column", ctypes.c_uint), ("value", ctypes.c_char_p)]


@dataclass(frozen=True)
class Outputs:
    """What a call made, by the names of outputs, and what was said besides."""

    bytes: Dict[str, bytes]
    diagnostics: Tuple[Diagnostic, ...]


@functools.lru_cache(maxsize=None)
def _load() -> ctypes.CDLL:
    path = find_library("libfp8opt.so", "FP8OPT_LIBRARY")
    library = ctypes.CDLL(path)
    found = library.fp8opt_abi_version()
    if found != ABI_VERSION:
        raise OSError(f"{path}: expected a compiler of ABI version {ABI_VERSION}, but got {found}")
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, result, arguments in (
            ("fp8opt_version", ctypes.c_char_p, []),
            ("fp8opt_compile", ctypes.c_int, [ctypes.c_char_p, size, pointer, pointer]),
            ("fp8opt_get_output", pointer, [pointer, ctypes.c_int, pointer]),
            ("fp8opt_diagnostic_count", size, [pointer]),
            ("fp8opt_get_diagnostic", ctypes.c_int, [pointer, size, pointer]),
            ("fp8opt_free_result", None, [pointer])):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


@functools.lru_cache(maxsize=None)
def library_hash() -> str:
    """A hash of the compiler, so that what another one made is not taken for its own."""
    with open(find_library("libfp8opt.so", "FP8OPT_LIBRARY"), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def version() -> str:
    """The version of the compiler."""
    return _load().fp8opt_version().decode()


def compile_text(text: str, outputs: Sequence[str], options: str = "", phase: Optional[str] = None,
                 name: Optional[str] = None) -> Outputs:
    """Compiles MLIR text. `outputs` are of program, mlir, plan, report, ptx and artifact; `options` are name=value pairs
    joined by commas. Raises CompileError where the compiler refuses."""
    library = _load()
    encoded = text.encode("utf-8", "surrogateescape")
    bits = 0
    for output in outputs:
        if output not in _BITS:
            raise ValueError(f"expected outputs of {', '.join(_BITS)}, but got '{output}'")
        bits |= _BITS[output]
    for what, value in (("options", options), ("phase", phase), ("name", name)):
        if value is not None and "\0" in value:
            raise ValueError(f"expected '{what}' without a zero byte")
    request = _Request(ctypes.sizeof(_Request), _encode(name), _encode(options), _encode(phase), bits)
    result = ctypes.c_void_p()
    failed = library.fp8opt_compile(encoded, len(encoded), ctypes.byref(request), ctypes.byref(result))
    try:
        diagnostics = _diagnostics(library, result)
        if failed:
            raise CompileError(diagnostics)
        made = {}
        for output in outputs:
            size = ctypes.c_size_t()
            data = library.fp8opt_get_output(result, _BITS[output], ctypes.byref(size))
            made[output] = ctypes.string_at(data, size.value)
        return Outputs(made, tuple(diagnostics))
    finally:
        library.fp8opt_free_result(result)


def _encode(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _diagnostics(library: ctypes.CDLL, result: ctypes.c_void_p) -> List[Diagnostic]:
    """The diagnostics, each with the notes that follow it."""
    found: List[Diagnostic] = []
    for index in range(library.fp8opt_diagnostic_count(result)):
        entry = _Diagnostic()
        library.fp8opt_get_diagnostic(result, index, ctypes.byref(entry))
        message, file, value = (part.decode("utf-8", "replace") for part in (entry.message, entry.file, entry.value))
        diagnostic = Diagnostic(_SEVERITIES[entry.severity], message, file, entry.line, entry.column, value)
        if diagnostic.severity == "note" and found:
            last = found[-1]
            found[-1] = Diagnostic(last.severity, last.message, last.file, last.line, last.column, last.value,
                                   last.notes + (diagnostic,))
        else:
            found.append(diagnostic)
    return found
