# ===- regenerate.py - are the generated examples up to date ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs the command in the first comment of every example that has one and compares its output with the file.
#
# ===-----------------------------------------------------------------------=== #
"""Usage: regenerate.py EXAMPLES. Prints `NAME: same` or `NAME: differs` a file; exit code 1 if one differs."""

import pathlib
import shlex
import subprocess
import sys

COMMENT = "// python3 examples/"

examples = pathlib.Path(sys.argv[1])
failed = False
for path in sorted(examples.glob("*.mlir")):
    text = path.read_bytes()
    first = text.split(b"\n", 1)[0].decode()
    if not first.startswith(COMMENT):
        continue
    script, *options = shlex.split(first[len(COMMENT):])
    output = subprocess.run([sys.executable, str(examples / script), *options], stdout=subprocess.PIPE, check=True)
    same = output.stdout == text
    failed = failed or not same
    print(f"{path.name}: {'same' if same else 'differs: ' + first[3:]}")
sys.exit(failed)
