# ===- __init__.py - the fp8opt package ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The Python side of fp8-opt. The base package needs nothing but the standard library; `fp8opt.testing`, the oracles
# of the test suite, needs NumPy and ml_dtypes.
#
#===----------------------------------------------------------------------===//
"""Build forward functions for the fp8-opt compiler as textual IR."""

from .builder import Function, Module, TensorType, Value, tensor

__all__ = ["Function", "Module", "TensorType", "Value", "tensor"]
