# ===- compare.py - two folders of generated pages ---------------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: compare.py COMMITTED GENERATED
#
# Exit code 1 with the names of the pages that differ, else 0.
#
# ===------------------------------------------------------------------------=== #

import pathlib
import sys

committed, generated = ({page.name: page.read_bytes() for page in pathlib.Path(folder).iterdir()} for folder in sys.argv[1:3])
differing = [name for name in sorted(committed.keys() | generated.keys()) if committed.get(name) != generated.get(name)]
if not generated:
    sys.exit("error: expected generated pages, but got none")
if differing:
    sys.exit(f"error: docs/reference is out of date ({', '.join(differing)}): run ./dev docs")
