# ===- __init__.py - what is kept, by PyTorch and by a plan ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `explain(module, inputs)` needs torch for the capture; an explanation of a dump needs none.
#
#===----------------------------------------------------------------------===//
"""Explain what PyTorch keeps from forward to backward, and what a plan of fp8-opt would keep."""

from .explanation import Explanation, explain, explain_graph

__all__ = ["Explanation", "explain", "explain_graph"]
