# ===- errors.py - what the compiler says, as exceptions ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Diagnostics with their places, and the exception that carries them.
#
# ===---------------------------------------------------------------=== #
"""Diagnostics of the compiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence, Tuple

__all__ = ["CompileError", "Diagnostic"]


@dataclass(frozen=True)
class Diagnostic:
    """One message. `severity` is "error", "warning" or "remark"; `file`, `line` and `column` (from 1) are the place in the
    user's program that the op came from, or in the text, "" and 0 where there is none; `value` is the name of the value
    that it is about, or "". `notes` belong to it."""

    severity: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    value: str = ""
    notes: Tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.file else ""
        name = f" (value '{self.value}')" if self.value else ""
        return "\n".join([f"{place}{self.severity}: {self.message}{name}", *(str(note) for note in self.notes)])


class CompileError(Exception):
    """The compiler refused a program; `diagnostics` says why, the errors among them first in the message."""

    def __init__(self, diagnostics: Sequence[Diagnostic]):
        self.diagnostics = tuple(diagnostics)
        errors = [diagnostic for diagnostic in self.diagnostics if diagnostic.severity == "error"]
        super().__init__("\n".join(str(diagnostic) for diagnostic in errors or self.diagnostics))
