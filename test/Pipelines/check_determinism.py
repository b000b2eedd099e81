# ===- check_determinism.py - the same bytes in every run -------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs of one command give the same bytes, with addresses laid out anew each
# time, and end within a limit of processor time (the clock on the wall would
# measure what else the machine does).
#
# usage: check_determinism.py FILE SECONDS RUNS
#
# ===------------------------------------------------------------------------=== #

import resource
import subprocess
import sys


def main():
    path, limit, runs = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    with open("/proc/sys/kernel/randomize_va_space") as file:
        print("addresses are laid out at random:", file.read().strip() == "2")
    for emit in ("mlir", "plan"):
        outputs, slowest = set(), 0
        for _ in range(runs):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(["fp8-opt", path, "--compile=target=h200", "--compile-to=placed", f"--emit={emit}"],
                                  check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            slowest = max(slowest, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            outputs.add(done.stdout)
        print(f"{emit}: {len(outputs)} output of {runs} runs, within {limit} s: {slowest < limit}")


if __name__ == "__main__":
    main()
