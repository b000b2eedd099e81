#!/usr/bin/env python3
# ===- gather_last.py - a gather along the last dimension --------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# gather_last.py FP8_RUN FOLDER: runs exp(x) on one rank, and on several ranks
# that each have a part of x's columns and gather them; the hashes must agree, also
# where one of two ranks sleeps before its collectives.
#
# ===------------------------------------------------------------------------=== #

import json
import os
import pathlib
import subprocess
import sys

fp8_run, folder = sys.argv[1], pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                  OMPI_MCA_btl_vader_single_copy_mechanism="none")
ROWS, COLUMNS = 6, 64


def hashes(ranks, *options):
    part = COLUMNS // ranks
    whole, own = f"tensor<{ROWS}x{COLUMNS}xf32>", f"tensor<{ROWS}x{part}xf32>"
    gather = (f'fp8.all_gather %e axis = "tp" dim = 1 : {own} -> {whole}' if ranks > 1
              else f"arith.maximumf %e, %e : {whole}")
    (folder / "p.mlir").write_text(
        f'module attributes {{fp8.grid = {{tp = {ranks} : i64}}}} {{\n'
        f'func.func @f(%x: {own} {{fp8.shard = ["", "tp"]}} loc("x"), %dy: {whole} {{fp8.tangent}} loc("dy")) -> {whole} {{\n'
        f'  %e = math.exp %x : {own}\n  %y = {gather} loc("y")\n  return %y : {whole}\n}}\n}}\n')
    launcher = ["mpirun", "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
    subprocess.run([*launcher, fp8_run, str(folder / "p.mlir"), "--check", f"--json={folder / 'o.json'}", *options], check=True,
                   stdout=subprocess.DEVNULL, timeout=120)
    return [entry["sha256"] for entry in json.loads((folder / "o.json").read_text())["outputs"]]


one = hashes(1)[0]
for ranks in (2, 4):
    print(f"{ranks} ranks: {'equal' if hashes(ranks) == [one] * ranks else 'different'}")
for rank in range(2):
    for number in range(2):
        delayed = hashes(2, f"--delay={rank}:{number}:30")
        print(f"rank {rank} asleep before collective {number}: {'equal' if delayed == [one] * 2 else 'different'}")
