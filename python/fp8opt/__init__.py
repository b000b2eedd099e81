# ===- __init__.py - the fp8opt package ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The Python side of fp8-opt. Importing it needs nothing but the standard library; arrays are NumPy's (with ml_dtypes) or
# torch's where they are used. `fp8opt.testing` holds the oracles of the test suite.
#
# ===--------------------------------------------------=== #
"""Build programs for FP8 training steps, compile them, look at their plans, and run them."""

from . import apply, cache, runtime
from .builder import Function, Module, Step
from .compiler import Artifact, compile, verify
from .errors import CompileError, Diagnostic
from .explanations import explain
from .graphs import capture
from .graphs import load as load_graph
from .modules import GroupedLinear, LayerNormLinear, Linear
from .recipes import Block128, Recipe, Rowwise, Tensorwise
from .syntax import Attribute, Location
from .tensor_types import TensorType, tensor
from .values import Value

__all__ = ["Artifact", "Attribute", "Block128", "CompileError", "Diagnostic", "Function", "GroupedLinear",
           "LayerNormLinear", "Linear", "Location", "Module", "Recipe", "Rowwise", "Step", "TensorType", "Tensorwise",
           "Value", "apply", "cache", "capture", "compile", "explain", "load_graph", "runtime", "tensor", "verify"]
