# ===- reading.py - pickles without code ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Loads a pickle that may hold plain containers, strings and numbers and nothing else: whatever names a class or a function is
# refused before it is looked up, and memory is limited while it loads, since a few bytes can ask for any amount.
#
# ===--------------------------------------------------------===#
"""Pickles of plain containers, read without running anything that they name."""

import contextlib
import gzip
import io
import lzma
import pathlib
import pickle
import zlib
from typing import Any

from ..command import InputError

__all__ = ["load_plain_pickle"]

# The most that a compressed file may expand to.
LARGEST = 8 << 30
PIECE = 16 << 20


class _Plain(pickle.Unpickler):
    """Refuses every global, every reference outside the file, and extension codes (which resolve to globals)."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"it names {module}.{name}; a snapshot holds plain containers only")

    def persistent_load(self, pid):
        raise pickle.UnpicklingError("it refers to an object outside the file; a snapshot holds plain containers only")


@contextlib.contextmanager
def _limited(more: int):
    """Limits the memory of this process to `more` bytes beside what it has, where the system can."""
    try:
        import resource

        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = pages * resource.getpagesize() + more
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        if soft != resource.RLIM_INFINITY:
            limit = min(limit, soft)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (ImportError, OSError, ValueError):
        yield
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _bytes(path: pathlib.Path) -> bytes:
    """The pickle in a file, which may be compressed with gzip or xz."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror}") from None
    opener = gzip.open if data[:2] == b"\x1f\x8b" else lzma.open if data[:6] == b"\xfd7zXZ\x00" else None
    if opener is None:
        return data
    pieces, size = [], 0
    try:
        with opener(io.BytesIO(data)) as stream:
            while piece := stream.read(PIECE):  # read(n) would ask for n bytes at once
                pieces.append(piece)
                size += len(piece)
                if size > LARGEST:
                    raise InputError(f"'{path}' expands to more than {LARGEST >> 30} GiB")
        return b"".join(pieces)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise InputError(f"'{path}' is damaged: {error}") from None
    except MemoryError:
        raise InputError(f"'{path}' expands to more than the {size:,} B that there is memory for") from None


def load_plain_pickle(path: pathlib.Path) -> Any:
    """What a pickle holds. An InputError says why it is not one of plain containers; nothing that it names is run."""
    data = _bytes(path)
    try:
        # Objects of a pickle of dictionaries take some ten times its size; a file that asks for more is not one.
        with _limited(40 * len(data) + (1 << 30)):
            return _Plain(io.BytesIO(data)).load()
    except MemoryError:
        raise InputError(
            f"'{path}' is not a memory snapshot: it asks for more memory than its {len(data):,} B can need"
        ) from None
    except RecursionError:
        raise InputError(f"'{path}' is not a memory snapshot: it is nested too deeply") from None
    except Exception as error:  # the unpickler raises whatever its input makes fail
        raise InputError(f"'{path}' is not a memory snapshot: {error or type(error).__name__}") from None
