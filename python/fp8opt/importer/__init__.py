# ===- __init__.py - captured graphs as fp8-opt programs ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Turns a captured joint graph into one function with an `fp8.step`. Needs no torch.
#
#===----------------------------------------------------------------------===//
"""Import of captured graphs."""

from .program import Program, import_graph

__all__ = ["Program", "import_graph"]
