# ===- arrays.py - NumPy and torch arrays of results ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What runtime.py leaves open: arrays of a library, made and read. Each library is imported only when its function is
# called.
#
# ===-----------------------------------------------------------=== #
"""Run functions of artifacts on NumPy arrays (CPU) or torch tensors (CPU or CUDA)."""

from typing import Any, Dict, Mapping, Optional

from .runtime import DType, Function, ResultArray

__all__ = ["run_numpy", "run_torch"]


def run_numpy(function: Function, arguments: Mapping[str, Any]) -> Dict[str, Any]:
    """Runs on NumPy arrays; gives copies of the results. bf16 and FP8 arrays have the types of ml_dtypes."""
    import ml_dtypes
    import numpy as np

    types = {DType.bf16: ml_dtypes.bfloat16, DType.f32: np.float32, DType.f8E4M3FN: ml_dtypes.float8_e4m3fn,
             DType.f8E5M2: ml_dtypes.float8_e5m2, DType.i32: np.int32}

    def read(found: ResultArray) -> Any:
        dtype = np.dtype(types[found.result.dtype])
        return np.ndarray(found.result.shape, dtype, found.base.reshape(-1).view(np.uint8).data, found.offset,
                          [stride * dtype.itemsize for stride in found.result.strides]).copy()

    found = function.run(arguments, lambda size: np.empty(size, np.uint8))
    return {name: read(result) for name, result in found.items()}


def run_torch(function: Function, arguments: Mapping[str, Any], device: Any = None,
              placed: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
    """Runs on torch tensors, on torch's current stream where they are on a GPU. Gives views of where the results lie:
    those in the arena are valid until the next run of the function."""
    import torch

    types = {DType.bf16: torch.bfloat16, DType.f32: torch.float32, DType.f8E4M3FN: torch.float8_e4m3fn,
             DType.f8E5M2: torch.float8_e5m2, DType.i32: torch.int32}
    device = torch.device(device if device is not None else "cuda" if function.backend == "cuda" else "cpu")
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0

    def read(found: ResultArray) -> Any:
        result = found.result
        data = found.base.detach().reshape(-1).view(torch.uint8)[found.offset:]
        elements = data[:data.numel() // result.dtype.itemsize * result.dtype.itemsize].view(types[result.dtype])
        return elements.as_strided(result.shape, result.strides)

    found = function.run(arguments, lambda size: torch.empty(size, dtype=torch.uint8, device=device), placed, stream)
    return {name: read(result) for name, result in found.items()}
