#!/usr/bin/env python3
# ===- pack_all.py - pack the benchmark instances ---------------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# pack_all.py FOLDER OUT CAPACITY ALIGNMENT INSTANCES [fp8-pack options]: packs
# the instances named by their letters, two at a time, and checks each packing.
#
# ===------------------------------------------------------------------------=== #

import concurrent.futures
import pathlib
import subprocess
import sys

folder, out, capacity, alignment, letters = sys.argv[1:6]
checker = pathlib.Path(__file__).with_name("check_packing.py")


def pack(instance):
    target = f"{out}.{instance.stem}.csv"
    command = ["fp8-pack", str(instance), f"--capacity={capacity}", f"--alignment={alignment}", "-o", target]
    for line in (command + sys.argv[6:], [sys.executable, checker, instance, target, capacity, alignment]):
        run = subprocess.run(line, capture_output=True, text=True)
        if run.returncode:
            return f"{instance.stem}: {run.stderr.strip()}"
    return f"{instance.stem}: {run.stdout.strip()}"


instances = [pathlib.Path(folder, f"{letter}.1048576.csv") for letter in letters]
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    lines = list(pool.map(pack, instances))
print("\n".join(lines))
sys.exit(any("error" in line for line in lines))
