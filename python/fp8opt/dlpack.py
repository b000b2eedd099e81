# ===- dlpack.py - memory of arrays by DLPack ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Reads where the elements of an array lie from the capsule that its __dlpack__ gives, without taking the array over.
#
# ===----------------------------------------------------=== #
"""Arrays of any library that speaks DLPack."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Optional, Tuple

__all__ = ["ArrayMemory", "array_memory"]

_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_NAME = b"dltensor"


class _Tensor(ctypes.Structure):
    """DLTensor, which a DLManagedTensor begins with."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


@dataclass(frozen=True)
class ArrayMemory:
    """Where an array lies. `owner` keeps the memory alive."""

    address: int
    nbytes: int
    is_cuda: bool
    is_dense: bool
    shape: Tuple[int, ...]
    owner: Any


def array_memory(array: Any, stream: Optional[int] = None) -> ArrayMemory:
    """The memory of an array with __dlpack__. `stream` is the CUDA stream that will use it: the array's library makes that
    stream wait for what it has still to write."""
    kind = int(array.__dlpack_device__()[0])
    is_cuda = kind in (_CUDA, _CUDA_MANAGED)
    # 1 is how DLPack spells CUDA's default stream.
    capsule = array.__dlpack__(stream=stream or 1) if is_cuda else array.__dlpack__()
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    tensor = ctypes.cast(api.PyCapsule_GetPointer(capsule, _NAME), ctypes.POINTER(_Tensor)).contents
    shape = tuple(tensor.shape[:tensor.ndim])
    nbytes, dense, expected = tensor.bits * tensor.lanes // 8, True, 1
    for index in reversed(range(tensor.ndim)):
        nbytes *= shape[index]
        if tensor.strides and shape[index] != 1 and tensor.strides[index] != expected:
            dense = False
        expected *= shape[index]
    # An unused capsule frees what it holds when it goes.
    return ArrayMemory((tensor.data or 0) + tensor.byte_offset, nbytes, is_cuda, dense, shape, capsule)
