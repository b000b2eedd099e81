# ===- arrays.py - NumPy and torch arrays of results ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What runtime.py leaves open: arrays of a library, made and read. Each library is imported only when its function is
# called.
#
# ===-----------------------------------------------------------=== #
"""Run functions of artifacts on NumPy arrays (CPU), torch tensors (CPU or CUDA), or what speaks DLPack."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, Mapping, Optional

from .runtime import DType, Error, Function, ResultArray

__all__ = ["run_any", "run_numpy", "run_torch"]


def run_any(function: Function, arguments: Mapping[str, Any],
            placed: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
    """Runs on the kind of arrays that the arguments are: torch tensors where there is one, else NumPy's on the CPU and
    CuPy's on a GPU; arrays of other libraries are read by DLPack."""
    torch = sys.modules.get("torch")
    if torch is not None and any(isinstance(array, torch.Tensor) for array in arguments.values()):
        return run_torch(function, arguments, placed=placed)
    if function.backend == "cuda":
        return _run_cupy(function, arguments, placed)
    return run_numpy(function, arguments, placed)


def run_numpy(function: Function, arguments: Mapping[str, Any],
              placed: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
    """Runs on NumPy arrays; gives copies of the results, but those in `placed` as views. bf16 and FP8 arrays have the types
    of ml_dtypes."""
    import ml_dtypes
    import numpy as np

    types = {DType.bf16: ml_dtypes.bfloat16, DType.f32: np.float32, DType.f8E4M3FN: ml_dtypes.float8_e4m3fn,
             DType.f8E5M2: ml_dtypes.float8_e5m2, DType.i32: np.int32, DType.i8: np.int8}
    _check_types(function, arguments, lambda array: array.dtype if isinstance(array, np.ndarray) else None,
                 {key: np.dtype(value) for key, value in types.items()})

    def read(found: ResultArray) -> Any:
        dtype = np.dtype(types[found.result.dtype])
        view = np.ndarray(found.result.shape, dtype, found.buffer(), 0,
                          [stride * dtype.itemsize for stride in found.result.strides])
        return view if placed and found.result.name in placed else view.copy()

    found = function.run(arguments, lambda size: np.empty(size, np.uint8), placed)
    return {name: read(result) for name, result in found.items()}


def run_torch(function: Function, arguments: Mapping[str, Any], device: Any = None,
              placed: Optional[Mapping[str, Any]] = None, arena: Optional[Callable[[int], Any]] = None) -> Dict[str, Any]:
    """Runs on torch tensors, on torch's current stream where they are on a GPU. Gives views of where the results lie:
    those in the arena (`arena`, as `Function.run` has it) are valid until the next run in it."""
    import torch

    types = {DType.bf16: torch.bfloat16, DType.f32: torch.float32, DType.f8E4M3FN: torch.float8_e4m3fn,
             DType.f8E5M2: torch.float8_e5m2, DType.i32: torch.int32, DType.i8: torch.int8}
    _check_types(function, arguments, lambda array: array.dtype if isinstance(array, torch.Tensor) else None, types)
    device = torch.device(device if device is not None else "cuda" if function.backend == "cuda" else "cpu")
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0

    def read(found: ResultArray) -> Any:
        result = found.result
        if isinstance(found.base, torch.Tensor):
            data = found.base.detach().reshape(-1).view(torch.uint8)[found.offset:]
        elif device.type == "cpu":
            data = torch.frombuffer(found.buffer(), dtype=torch.uint8)
        else:
            raise Error(f"{function.name}: expected the result '{result.name}' in the memory of a torch tensor, but it is "
                        f"in that of a {type(found.base).__name__}")
        elements = data[:data.numel() // result.dtype.itemsize * result.dtype.itemsize].view(types[result.dtype])
        return elements.as_strided(result.shape, result.strides)

    found = function.run(arguments, lambda size: torch.empty(size, dtype=torch.uint8, device=device), placed, stream,
                         arena)
    return {name: read(result) for name, result in found.items()}


def _run_cupy(function: Function, arguments: Mapping[str, Any], placed: Optional[Mapping[str, Any]]) -> Dict[str, Any]:
    """Runs on arrays in the memory of a GPU, on CuPy's current stream; results are CuPy arrays, bf16 and FP8 ones their
    bytes (uint16, uint8)."""
    import cupy

    types = {DType.bf16: cupy.uint16, DType.f32: cupy.float32, DType.f8E4M3FN: cupy.uint8, DType.f8E5M2: cupy.uint8,
             DType.i32: cupy.int32, DType.i8: cupy.int8}

    def read(found: ResultArray) -> Any:
        result, dtype = found.result, cupy.dtype(types[found.result.dtype])
        memory = cupy.cuda.MemoryPointer(cupy.from_dlpack(found.base).data.mem, found.offset)
        return cupy.ndarray(result.shape, dtype, memory, [stride * dtype.itemsize for stride in result.strides])

    stream = cupy.cuda.get_current_stream().ptr
    found = function.run(arguments, lambda size: cupy.empty(size, cupy.uint8), placed, stream)
    return {name: read(result) for name, result in found.items()}


def _check_types(function: Function, arguments: Mapping[str, Any], type_of: Callable[[Any], Any],
                 types: Mapping[DType, Any]) -> None:
    """Refuses an array of another element type or shape than its argument's."""
    for argument in function.arguments:
        array: Any = arguments.get(argument.name)
        found = type_of(array)
        if found is None:
            continue
        if found != types[argument.dtype]:
            raise Error(f"{function.name}: expected '{argument.name}' of type {types[argument.dtype]}, but got {found}")
        if tuple(array.shape) != argument.shape:
            raise Error(f"{function.name}: expected '{argument.name}' of shape {list(argument.shape)}, but got "
                        f"{list(array.shape)}")
