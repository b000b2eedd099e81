# ===- location.py - which module and which line runs now ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Hooks on a module's children tell the path of the one whose forward runs; a walk over Python's frames tells the lines.
# Needs torch.
#
#===----------------------------------------------------------------------===//
"""The place in the user's code that runs at this moment."""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
from types import TracebackType
from typing import Iterator, List, Optional, Tuple

import torch

from .graph import Location

# Frames of these folders are not the user's code.
_SKIPPED = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)
# A line is shown relative to the first of these that it lies under.
_PREFIXES = tuple(sorted({path + os.sep for path in (os.getcwd(), *sysconfig.get_paths().values())},
                         key=lambda path: (-len(path), path)))
# So many frames, innermost first, are kept: enough to go from a library's line to the user's.
_DEPTH = 8


def _shown(path: str) -> str:
    marker = "site-packages" + os.sep
    if marker in path:
        return path.rsplit(marker, 1)[1]
    for prefix in _PREFIXES:
        if path.startswith(prefix):
            return path[len(prefix):]
    return path


def lines() -> Tuple[str, ...]:
    """`file:line function` of the running frames that are neither torch's nor this package's, innermost first."""
    result: List[str] = []
    frame = sys._getframe(1)
    while frame is not None and len(result) < _DEPTH:
        path = frame.f_code.co_filename
        if not path.startswith("<") and not path.startswith(_SKIPPED):
            result.append(f"{_shown(path)}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return tuple(result)


def line_of(trace: Optional[TracebackType]) -> str:
    """`file:line` of the innermost frame of an error that is neither torch's nor this package's; empty where there is none."""
    found = ""
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if not path.startswith("<") and not path.startswith(_SKIPPED):
            found = f"{_shown(path)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


class ModuleStack:
    """The paths of the modules whose forward is running, outermost first."""

    def __init__(self):
        self.paths: List[str] = []

    def here(self) -> Location:
        """The module and the lines that run now."""
        return Location(self.paths[-1] if self.paths else "", lines())


@contextlib.contextmanager
def watch(module: torch.nn.Module) -> Iterator[ModuleStack]:
    """Hooks that keep a `ModuleStack` while the context lasts. A module that is shared goes by its first path."""
    stack = ModuleStack()
    handles = []
    for path, child in module.named_modules():

        def enter(_module, _inputs, path=path):
            stack.paths.append(path)

        def leave(_module, _inputs, _output):
            stack.paths.pop()

        handles.append(child.register_forward_pre_hook(enter))
        handles.append(child.register_forward_hook(leave, always_call=True))
    try:
        yield stack
    finally:
        for handle in handles:
            handle.remove()
