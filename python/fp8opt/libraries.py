# ===- libraries.py - where shared libraries and tools are ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A wheel holds them in this package; in a source tree they are in the build folder.
#
# ===-----------------------------------------------------------------=== #
"""Finds the compiler, the runtime and the tools."""

from __future__ import annotations

import os
import pathlib

__all__ = ["find_library", "find_tool"]

_HERE = pathlib.Path(__file__).resolve()


def find_library(name: str, variable: str) -> str:
    """A shared library of the project: the environment's `variable`, else in this package, else in the build folder."""
    return _find(name, "lib", os.environ.get(variable), f"set {variable} to it, or build it (./dev build)")


def find_tool(name: str) -> str:
    """A tool of the project, such as fp8-opt: in this package, else in the build folder."""
    return _find(name, "bin", None, "build it (./dev build)")


def _find(name: str, kind: str, given: "str | None", advice: str) -> str:
    build = pathlib.Path(os.environ.get("FP8_BUILD_DIR") or _HERE.parents[2] / "build")
    for candidate in (given, _HERE.parent / kind / name, build / kind / name):
        if candidate and pathlib.Path(candidate).exists():
            return str(candidate)
    raise OSError(f"{name} not found: {advice}")
