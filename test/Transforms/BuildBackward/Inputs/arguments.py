# ===- arguments.py - a function of many arguments ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# arguments.py N                     prints a function with N arguments and N results
# arguments.py --limit=MIB COMMAND   runs COMMAND and fails where it takes more memory
#
# ===-------------------------------------------------------------=== #

import resource
import subprocess
import sys

if sys.argv[1].startswith("--limit="):
    code = subprocess.run(sys.argv[2:]).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    limit = int(sys.argv[1].split("=")[1])
    if used > limit:
        sys.exit(f"expected at most {limit} MiB, but got {used}")
    sys.exit(code)
numbers = range(int(sys.argv[1]))
types = ", ".join("tensor<1xf32>" for _ in numbers)
print(f"func.func @f({', '.join(f'%arg{i}: tensor<1xf32>' for i in numbers)}) -> ({types}) {{")
for i in numbers:
    print(f"  %v{i} = math.exp %arg{i} : tensor<1xf32>")
print(f"  return {', '.join(f'%v{i}' for i in numbers)} : {types}\n}}")
