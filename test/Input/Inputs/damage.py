# ===- damage.py - the first bytes of a file ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Truncates a file.
#
# ===-------------------------------------------------------=== #
"""Usage: damage.py IN OUT SIZE. Writes the first SIZE bytes of IN to OUT."""

import pathlib
import sys

data = pathlib.Path(sys.argv[1]).read_bytes()
pathlib.Path(sys.argv[2]).write_bytes(data[: int(sys.argv[3])])
