# ===- __init__.py - captured graphs as fp8-opt programs ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Turns a captured graph into one function with an `fp8.step`. Needs no torch.
#
#===----------------------------------------------------------------------===//
"""Import of captured graphs."""

from .program import Place, Program, import_function, import_graph

__all__ = ["Place", "Program", "import_function", "import_graph"]
