# ===- command.py - what the subcommands share ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The error that a user can act on, a parser of arguments that raises it, sizes in bytes as text, and reading of files.
#
# ===--------------------------------------------------------===#
"""What the subcommands of fp8opt share."""

import argparse
import pathlib
import re
from typing import NoReturn, Union

__all__ = ["InputError", "Parser", "format_bytes", "parse_bytes", "read_text"]


class InputError(ValueError):
    """What the user gave is wrong; the message says what was expected and what was found."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are InputErrors (exit code 1), and which takes no abbreviated options."""

    def __init__(self, **options):
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (see {self.prog} --help)")


_UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "KB": 10**3, "MB": 10**6,
          "GB": 10**9, "TB": 10**12}


def parse_bytes(text: Union[str, int]) -> int:
    """Bytes from a number with a unit: `80GiB`, `141 GB`, `1024`."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(text))
    if not match or match.group(2) not in _UNITS:
        raise InputError(f"expected a size such as 80GiB, but got '{text}'")
    number = float(match.group(1)) if "." in match.group(1) else int(match.group(1))
    return round(number * _UNITS[match.group(2)])


def format_bytes(size: float) -> str:
    """Bytes in MiB with one digit, thousands apart, and fewer than 0.1 MiB as they are: `1,024.0 MiB`, `2,048 B`."""
    return f"{size / 2**20:,.1f} MiB" if size == 0 or abs(size) * 10 >= 2**20 else f"{size:,.0f} B"


def read_text(path: Union[str, pathlib.Path]) -> str:
    """The text of a file; an InputError names what keeps it from being read."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"'{path}' is not text: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror}") from None
