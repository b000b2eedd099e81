# ===- runtime.py - artifacts run from Python ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# libfp8rt.so (runtime/include/fp8rt.h) through ctypes: loads artifacts of fp8-opt and runs their functions on memory that
# the caller owns. Needs the standard library only; arrays are whatever tells where its memory lies.
#
# ===----------------------------------------------------=== #
"""Load artifacts and run their functions.

    program = Program("step.fp8")                   # backend="cuda" on a machine with a GPU
    step = program.functions["ffn"]
    results = step.run({"x": x, "layers.0.w1": w1, ...}, allocate)

An array is anything with `data_ptr()` (a torch tensor), `__array_interface__` / `__cuda_array_interface__` (NumPy, CuPy) or
`__dlpack__`, dense and row-major, in the memory of the program's backend. `allocate(bytes)` gives such an array of bytes; it is called
once for the arena and once for each result that the caller places.
"""

import ctypes
import dataclasses
import enum
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from .dlpack import array_memory
from .libraries import find_library

__all__ = ["Argument", "DType", "Error", "Function", "Program", "Result", "ResultArray", "Role"]

ABI_VERSION = 4


class Error(RuntimeError):
    """What the runtime or a check before it refused; the message says what was expected."""


class DType(enum.IntEnum):
    """Element types (fp8rt_dtype)."""

    bf16 = 0
    f32 = 1
    f8E4M3FN = 2
    f8E5M2 = 3
    i32 = 4
    i8 = 5

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return {DType.bf16: 2, DType.f32: 4, DType.i32: 4}.get(self, 1)


class Role(enum.IntEnum):
    """What an argument is to the step (fp8rt_role)."""

    input = 0
    parameter = 1
    tangent = 2
    state = 3
    donated = 4


class _FunctionInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("argument_count", ctypes.c_size_t), ("result_count", ctypes.c_size_t),
                ("command_count", ctypes.c_size_t), ("gemm_count", ctypes.c_size_t), ("peak_bytes", ctypes.c_uint64),
                ("arena_bytes", ctypes.c_uint64), ("saved_bytes", ctypes.c_uint64),
                ("host_bytes", ctypes.c_uint64)]


class _ArgumentInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_size_t),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("bytes", ctypes.c_uint64), ("role", ctypes.c_int),
                ("init", ctypes.c_int), ("init_scale", ctypes.c_double)]


class _ResultInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_size_t),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("caller_bytes", ctypes.c_uint64)]


class _RunnerOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("memory", ctypes.c_int), ("watch", ctypes.c_int),
                ("poison", ctypes.c_int), ("ledger", ctypes.c_int), ("graph", ctypes.c_int),
                ("gemms_only", ctypes.c_int), ("streams", ctypes.c_uint32)]


_library: Optional[ctypes.CDLL] = None


def _load_library() -> ctypes.CDLL:
    global _library
    if _library is not None:
        return _library
    try:
        path = find_library("libfp8rt.so", "FP8RT_LIBRARY")
    except OSError as error:
        raise Error(str(error)) from None
    library = ctypes.CDLL(path)
    found = library.fp8rt_abi_version()
    if found != ABI_VERSION:
        raise Error(f"{path}: expected a runtime of ABI version {ABI_VERSION}, but got {found}")
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, result, arguments in (
            ("fp8rt_load_file", ctypes.c_int, [ctypes.c_char_p, ctypes.c_char_p, pointer, pointer]),
            ("fp8rt_load_memory", ctypes.c_int, [pointer, size, ctypes.c_char_p, pointer, pointer]),
            ("fp8rt_unload", None, [pointer]),
            ("fp8rt_function_count", size, [pointer]),
            ("fp8rt_get_function", ctypes.c_int, [pointer, size, pointer]),
            ("fp8rt_get_argument", ctypes.c_int, [pointer, size, size, pointer]),
            ("fp8rt_get_result", ctypes.c_int, [pointer, size, size, pointer]),
            ("fp8rt_get_section", pointer, [pointer, ctypes.c_char_p, pointer]),
            ("fp8rt_create_runner", ctypes.c_int, [pointer, size, pointer, pointer, pointer]),
            ("fp8rt_destroy_runner", None, [pointer]),
            ("fp8rt_runner_arena_bytes", size, [pointer]),
            ("fp8rt_run", ctypes.c_int, [pointer, pointer, pointer, pointer, size, pointer, pointer]),
            ("fp8rt_runner_result_data", pointer, [pointer, size]),
            ("fp8rt_error_message", ctypes.c_char_p, [pointer]),
            ("fp8rt_free_error", None, [pointer])):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    _library = library
    return library


def _check(code: int, error: ctypes.c_void_p) -> None:
    if code == 0:
        return
    message = _load_library().fp8rt_error_message(error).decode()
    _load_library().fp8rt_free_error(error)
    raise Error(message)


@dataclasses.dataclass(frozen=True)
class _Memory:
    """Where an array lies; `owner` keeps it there."""

    address: int
    nbytes: int
    owner: Any


def _memory_of(array: Any, is_cuda: bool, name: str, stream: int) -> _Memory:
    """The memory of a dense array on the side where the program runs."""
    key = "__cuda_array_interface__" if is_cuda else "__array_interface__"
    if hasattr(array, "data_ptr"):
        on_cuda, dense, address, found = array.is_cuda, array.is_contiguous(), array.data_ptr(), array
        nbytes = array.numel() * array.element_size()
    elif getattr(array, key, None) is not None:
        interface = getattr(array, key)
        on_cuda, address, nbytes, found = is_cuda, interface["data"][0], array.nbytes, array
        dense = interface.get("strides") is None
    elif hasattr(array, "__dlpack__"):
        memory = array_memory(array, stream)
        on_cuda, dense, address, nbytes, found = (memory.is_cuda, memory.is_dense, memory.address, memory.nbytes,
                                                  memory.owner)
    else:
        raise Error(f"expected '{name}' to be an array, but got a {type(array).__name__}: it has neither data_ptr() "
                    f"nor {key} nor __dlpack__")
    if on_cuda != is_cuda:
        raise Error(f"expected '{name}' in {'the memory of a GPU' if is_cuda else 'host memory'}, but it is in "
                    f"{'the memory of a GPU' if on_cuda else 'host memory'}")
    if not dense:
        raise Error(f"expected '{name}' dense and row-major, but it has strides")
    return _Memory(address or 0, nbytes, found)


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument of a function: dense and row-major."""

    name: str
    dtype: DType
    shape: Tuple[int, ...]
    role: Role
    bytes: int


@dataclasses.dataclass(frozen=True)
class Result:
    """A result; strides are in elements. The caller places it where `caller_bytes` is not 0."""

    name: str
    dtype: DType
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    caller_bytes: int


@dataclasses.dataclass(frozen=True)
class ResultArray:
    """Where a result lies: `offset` bytes into `base`, the array that holds it (arena, argument or own), which has
    `nbytes` from there on, at `address`."""

    result: Result
    base: Any
    offset: int
    address: int
    nbytes: int

    def buffer(self) -> Any:
        """Those bytes, in host memory, with the buffer protocol; they keep `base` alive."""
        found = (ctypes.c_uint8 * self.nbytes).from_address(self.address)
        found.base = self.base
        return found


class Program:
    """An artifact, loaded for a backend ("cpu" or "cuda": the device of the current context, else the first one)."""

    def __init__(self, artifact: "os.PathLike[str] | str | bytes", backend: str = "cpu"):
        """Loads the file at a path, or the bytes of one."""
        self._library = _load_library()
        self._handle = ctypes.c_void_p()
        self.backend = backend
        error = ctypes.c_void_p()
        where = (backend.encode(), ctypes.byref(self._handle), ctypes.byref(error))
        if isinstance(artifact, bytes):
            _check(self._library.fp8rt_load_memory(artifact, len(artifact), *where), error)
        else:
            _check(self._library.fp8rt_load_file(os.fsencode(artifact), *where), error)
        found = [Function(self, index) for index in range(self._library.fp8rt_function_count(self._handle))]
        #: The functions by name, in the order of the artifact.
        self.functions: Dict[str, Function] = {function.name: function for function in found}

    @property
    def plan(self) -> str:
        """The plan that the artifact was compiled with, as JSON."""
        size = ctypes.c_size_t()
        data = self._library.fp8rt_get_section(self._handle, b"plan", ctypes.byref(size))
        return ctypes.string_at(data, size.value).decode() if data else ""

    def close(self) -> None:
        """Unloads the program; its functions cannot run afterwards."""
        for function in getattr(self, "functions", {}).values():
            function._close()
        if self._handle:
            self._library.fp8rt_unload(self._handle)
            self._handle = ctypes.c_void_p()

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()


class Function:
    """A function of a program. It keeps its arena between runs, unless the caller gives one."""

    def __init__(self, program: Program, index: int):
        self._program, self._library, self._index = program, program._library, index
        info = _FunctionInfo()
        self._library.fp8rt_get_function(program._handle, index, ctypes.byref(info))
        self.name = info.name.decode()
        self.peak_bytes, self.arena_bytes, self.saved_bytes = info.peak_bytes, info.arena_bytes, info.saved_bytes
        self.arguments: List[Argument] = []
        for number in range(info.argument_count):
            entry = _ArgumentInfo()
            self._library.fp8rt_get_argument(program._handle, index, number, ctypes.byref(entry))
            self.arguments.append(Argument(entry.name.decode(), DType(entry.dtype), tuple(entry.shape[:entry.rank]),
                                           Role(entry.role), entry.bytes))
        self.results: List[Result] = []
        for number in range(info.result_count):
            found = _ResultInfo()
            self._library.fp8rt_get_result(program._handle, index, number, ctypes.byref(found))
            self.results.append(Result(found.name.decode(), DType(found.dtype), tuple(found.shape[:found.rank]),
                                       tuple(found.strides[:found.rank]), found.caller_bytes))
        self._runner = ctypes.c_void_p()
        self._arena: Any = None

    @property
    def backend(self) -> str:
        """Where it runs: "cpu" or "cuda"."""
        return self._program.backend

    def _close(self) -> None:
        if self._runner:
            self._library.fp8rt_destroy_runner(self._runner)
            self._runner = ctypes.c_void_p()

    def _prepare(self) -> int:
        """Makes the runner; gives the arena's size."""
        if not self._runner:
            options = _RunnerOptions(struct_size=ctypes.sizeof(_RunnerOptions))
            error = ctypes.c_void_p()
            _check(self._library.fp8rt_create_runner(self._program._handle, self._index, ctypes.byref(options),
                                                     ctypes.byref(self._runner), ctypes.byref(error)), error)
        return self._library.fp8rt_runner_arena_bytes(self._runner)

    def run(self, arguments: Mapping[str, Any], allocate: Callable[[int], Any],
            placed: Optional[Mapping[str, Any]] = None, stream: int = 0,
            arena: Optional[Callable[[int], Any]] = None) -> Dict[str, ResultArray]:
        """Runs once in planned memory, on the CUDA stream `stream` on a GPU, without waiting for it.

        `arguments` has an array for each argument, by name; `placed` may have one for results that the caller places,
        where `allocate` makes the others. `arena` gives memory of a size for the arena of this run; without it, the function
        keeps one of its own. Results in the arena are valid until the next run in it. Raises Error where an array
        is missing, of another size or in the wrong place, and where the run fails.
        """
        is_cuda = self.backend == "cuda"
        addresses = (ctypes.c_void_p * len(self.arguments))()
        # What results may lie in, and what owns the memory meanwhile.
        arrays: List[Tuple[_Memory, Any]] = []
        for number, argument in enumerate(self.arguments):
            if argument.name not in arguments:
                raise Error(f"{self.name}: expected an argument '{argument.name}' ({argument.dtype.name} "
                            f"{list(argument.shape)}), but there is none")
            array = arguments[argument.name]
            memory = _memory_of(array, is_cuda, argument.name, stream)
            if memory.nbytes != argument.bytes:
                raise Error(f"{self.name}: expected '{argument.name}' of {argument.bytes} bytes ({argument.dtype.name} "
                            f"{list(argument.shape)}), but got {memory.nbytes}")
            addresses[number] = memory.address
            arrays.append((memory, array))
        targets = (ctypes.c_void_p * len(self.results))()
        for number, result in enumerate(self.results):
            if not result.caller_bytes:
                continue
            array = placed.get(result.name) if placed else None
            array = allocate(result.caller_bytes) if array is None else array
            memory = _memory_of(array, is_cuda, result.name, stream)
            if memory.nbytes < result.caller_bytes:
                raise Error(f"{self.name}: expected at least {result.caller_bytes} bytes for the result '{result.name}', "
                            f"but got {memory.nbytes}")
            targets[number] = memory.address
            arrays.append((memory, array))
        size = self._prepare()
        # Room to begin at a multiple of 256.
        if arena is not None:
            whole = arena(size + 256)
        else:
            whole = self._arena = allocate(size + 256) if self._arena is None else self._arena
        memory = _memory_of(whole, is_cuda, "the arena", stream)
        arrays.append((memory, whole))
        base = memory.address
        error = ctypes.c_void_p()
        _check(self._library.fp8rt_run(self._runner, addresses, targets, (base + 255) // 256 * 256, size, stream,
                                       ctypes.byref(error)), error)
        found = {}
        for number, result in enumerate(self.results):
            data = self._library.fp8rt_runner_result_data(self._runner, number)
            for memory, array in arrays:
                if memory.address <= data < memory.address + memory.nbytes:
                    offset = data - memory.address
                    found[result.name] = ResultArray(result, array, offset, data, memory.nbytes - offset)
                    break
        return found
