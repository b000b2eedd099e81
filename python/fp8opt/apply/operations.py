# ===- operations.py - operations that PyTorch runs ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What the dialect has no op for runs in PyTorch, which may allocate while it does: cuDNN's attention takes a workspace. How much
# is nowhere written, so it is measured on a GPU the first time. Needs torch.
#
#===----------------------------------------------------------------------===//
"""Operations of a graph that PyTorch runs, and the bytes that they allocate for themselves."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import torch

__all__ = ["Operation"]

# Temporaries by operation and operands, so that a graph that is compiled later knows them before it runs.
_KNOWN: Dict[Tuple[Any, ...], int] = {}


def freed_bytes(device: torch.device) -> Optional[int]:
    """What torch's allocator was given back so far, of the bytes that it was asked for; None where it does not count."""
    if device.type != "cuda":
        return None
    return int(torch.cuda.memory_stats(device)["requested_bytes.all.freed"])


def _signature(target: Any, args: Any, keywords: Any) -> Tuple[Any, ...]:
    """What the bytes that an operation allocates depend on."""
    leaves = torch.utils._pytree.tree_leaves((args, keywords))
    return (str(target), *((leaf.dtype, tuple(leaf.shape), leaf.stride(), leaf.device.type)
                           if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in leaves))


class Operation(torch.nn.Module):
    """A call of an operation of PyTorch. What it allocates and gives back within its first call on a GPU are its temporaries; they
    are taken to be there all at once, together with its results. `node` is the call in the graph that it stands in."""

    def __init__(self, node: torch.fx.Node):
        super().__init__()
        self.target: Callable[..., Any] = node.target  # type: ignore[assignment]
        operands = torch.fx.map_arg((node.args, node.kwargs), lambda operand: operand.meta.get("val"))
        self.signature = _signature(self.target, *operands)

    @property
    def temporary_bytes(self) -> Optional[int]:
        """None before any call like it has run on a GPU."""
        return _KNOWN.get(self.signature)

    def forward(self, *args: Any, **keywords: Any) -> Any:
        device = next((leaf.device for leaf in torch.utils._pytree.tree_leaves((args, keywords))
                       if isinstance(leaf, torch.Tensor)), None) if self.temporary_bytes is None else None
        before = freed_bytes(device) if device is not None else None
        if before is None:
            return self.target(*args, **keywords)
        result = self.target(*args, **keywords)
        _KNOWN[self.signature] = (freed_bytes(device) or 0) - before  # type: ignore[arg-type]
        return result
