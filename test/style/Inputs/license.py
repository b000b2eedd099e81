# ===- license.py - sources without a license line ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: license.py, in the root of the repository
#
# ===--------------------------------------------------------------=== #

import pathlib
import subprocess
import sys

LINE = "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception"
SUFFIXES = {".h", ".cpp", ".c", ".cu", ".cuh", ".td", ".py", ".cmake", ".sh", ".toml"}
NAMES = {"CMakeLists.txt", "dev", "requirements-dev.txt"}

listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True).stdout.decode().split("\0")
bare = []
for path in map(pathlib.Path, filter(None, listed)):
    if path.suffix in SUFFIXES or path.name in NAMES:
        with open(path) as file:
            if not any(LINE in line for _, line in zip(range(8), file)):
                bare.append(path)
for path in bare:
    print(f"{path}: no SPDX line")
sys.exit(bool(bare))
