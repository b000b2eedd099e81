# ===- cache.py - compiled programs on disk ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A folder an entry, named by the hash of all that decides its contents. An entry is made beside and renamed into place, so
# that a reader sees a whole one or none, however many processes write at once.
#
# ===--------------------------------------------------=== #
"""A content-addressed cache.

It lies in $FP8OPT_CACHE_DIR, else in $XDG_CACHE_HOME/fp8opt, else in ~/.cache/fp8opt. `clear()` empties it, as
does deleting the folder. A damaged entry is made again; where the folder cannot be written nothing is kept."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import tempfile
from typing import Dict, Iterable, Mapping, Optional

__all__ = ["clear", "directory", "key_of", "read", "write"]

_INDEX = "index.json"


def directory() -> pathlib.Path:
    """The folder of the cache; it need not exist."""
    own = os.environ.get("FP8OPT_CACHE_DIR")
    if own:
        return pathlib.Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (pathlib.Path(base) if base else pathlib.Path.home() / ".cache") / "fp8opt"


def key_of(parts: Iterable[str]) -> str:
    """The name of the entry that `parts` decide."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogateescape")
        digest.update(f"{len(encoded)}:".encode())
        digest.update(encoded)
    return digest.hexdigest()


def read(key: str) -> Optional[Dict[str, bytes]]:
    """The files of an entry by name, or None where there is none that is whole."""
    folder = directory() / key
    try:
        index = json.loads((folder / _INDEX).read_bytes())
        files = {name: (folder / name).read_bytes() for name in index}
        if all(hashlib.sha256(contents).hexdigest() == index[name] for name, contents in files.items()):
            return files
    except (OSError, ValueError, TypeError):
        return None
    return None


def write(key: str, files: Mapping[str, bytes]) -> None:
    """Keeps an entry; what another process has kept meanwhile stays, unless it is damaged."""
    folder = directory() / key
    made = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = pathlib.Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
        for name, contents in files.items():
            (made / name).write_bytes(contents)
        index = {name: hashlib.sha256(contents).hexdigest() for name, contents in files.items()}
        (made / _INDEX).write_text(json.dumps(index))
        if folder.exists() and read(key) is None:
            os.rename(folder, made / "damaged")
        os.rename(made, folder)
        shutil.rmtree(folder / "damaged", ignore_errors=True)
    except OSError:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)


def clear() -> None:
    """Deletes every entry, and what writers that were interrupted left."""
    for pattern in ("[0-9a-f]" * 64, ".new-*"):
        for folder in directory().glob(pattern):
            shutil.rmtree(folder, ignore_errors=True)
