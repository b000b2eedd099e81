# ===- tools.py - the tools of a wheel as commands ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What the commands fp8-opt, fp8-run and fp8-pack of an installed package start: the programs in it.
#
# ===---------------------------------------------------------=== #
"""Entry points that become the tools of the package."""

import os
import pathlib
import sys

from .libraries import find_tool

__all__ = ["main"]


def main() -> None:
    """Becomes the tool that this process was started as."""
    try:
        path = find_tool(pathlib.Path(sys.argv[0]).name)
        os.execv(path, [path, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"error: {error}")
