# ===- tables.py - tables on a terminal ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Rows of text aligned in columns: the output of the subcommands.
#
# ===--------------------------------------------------------===#
"""Text tables."""

from typing import List, Sequence

__all__ = ["align", "mib"]


def mib(size: float) -> str:
    """Bytes as MiB, thousands apart, without the unit: for columns that name it."""
    return f"{size / 2**20:,.0f}"


def align(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,), indent: str = "") -> List[str]:
    """Lines with the columns of the rows aligned: those in `left` to the left, the others to the right."""
    widths = [
        max((len(row[i]) for row in rows if i < len(row)), default=0) for i in range(max(map(len, rows), default=0))
    ]
    lines = []
    for row in rows:
        cells = [cell.ljust(widths[i]) if i in left else cell.rjust(widths[i]) for i, cell in enumerate(row)]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines
