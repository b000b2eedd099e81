# ===- __init__.py - graphs captured from PyTorch ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `load` and the data model need no torch; `capture` imports it when it is called.
#
#===----------------------------------------------------------------------===//
"""Capture the joint graph of a PyTorch module, save it, read it back without torch."""

from .graph import Change, Graph, GraphError, Input, Kept, KeptValue, Location, Node, Output, Ref, Special, Tensor, load

__all__ = ["Change", "Graph", "GraphError", "Input", "Kept", "KeptValue", "Location", "Node", "Output", "Ref", "Special",
           "Tensor", "capture", "load"]


def capture(module, *args, **kwargs):
    """The joint forward and backward graph of `module(*args)`, with what PyTorch keeps of it now; see
    `fp8opt.graphs.measure.capture`."""
    from .measure import capture as capture_with_torch

    return capture_with_torch(module, *args, **kwargs)
