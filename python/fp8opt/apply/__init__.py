# ===- __init__.py - plans applied to PyTorch ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Three ways to run by a plan, smallest step first: a policy for selective checkpoints, a partitioner for torch.compile, a
# backend of torch.compile. All need torch, which is imported when one is used.
#
#===----------------------------------------------------------------------===//
"""Apply plans of fp8-opt to PyTorch modules; docs/apply.md has the three ways and when to take which."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["Backend", "Partitioner", "PlanPartitioner", "checkpoint_context", "compile_blocks", "partitioned"]

_MODULES = {"Backend": ".backend", "Partitioner": ".partition", "PlanPartitioner": ".partition", "partitioned": ".partition",
            "checkpoint_context": ".policy", "compile_blocks": ".blocks"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(_MODULES[name], __name__), name)
