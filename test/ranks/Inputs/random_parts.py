# ===- random_parts.py - random numbers of ranks ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: random_parts.py FP8_RUN FOLDER RANKS
#
# Runs a program that draws three tensors: one of which the ranks have rows, one of which they have columns, and one that all
# have. Every number must be that of Philox4x32-10, written here and checked with published values of it, at its place in the
# whole tensor; with one rank no rank is named.
#
# ===-----------------------------------------------------------------------=== #

import json
import pathlib
import struct
import subprocess
import sys

fp8_run, folder, ranks = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
folder.mkdir(parents=True, exist_ok=True)
SEED, OFFSET, ROWS, COLUMNS = -1234567, 77, 24, 40
MASK = 2**32 - 1


def philox(counter, key):
    a, b, c, d = counter
    k, m = key
    for _ in range(10):
        low, high = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = high >> 32 ^ b ^ k, high & MASK, low >> 32 ^ d ^ m, low & MASK
        k, m = k + 0x9E3779B9 & MASK, m + 0xBB67AE85 & MASK
    return a, b, c, d


# The known answers of Random123 (kat_vectors).
assert philox((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
assert philox((MASK,) * 4, (MASK,) * 2) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
assert philox((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)) == (
    0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)


def uniform(position, stream):
    return (philox((position & MASK, position >> 32, OFFSET, 0), (SEED & MASK, stream))[0] >> 8) / 2**24


own = {"rows": (ROWS // ranks, COLUMNS), "columns": (ROWS, COLUMNS // ranks), "all": (ROWS, COLUMNS)}
shards = {"rows": '["tp", ""]', "columns": '["", "tp"]', "all": ""}
types = {name: f"tensor<{rows}x{columns}xf32>" for name, (rows, columns) in own.items()}
lines, arguments = [], ['%x: tensor<1x1xf32> {fp8.frozen} loc("x")']
if ranks > 1:
    arguments.append('%rank: tensor<1x1xi32> {fp8.coordinate = "tp"} loc("rank")')
lines += [f"%seed = arith.constant dense<{SEED}> : tensor<1x1xi32>", f"%offset = arith.constant dense<{OFFSET}> : tensor<1x1xi32>"]
for stream, (name, shard) in enumerate(shards.items()):
    parts = f"coordinates(%rank : tensor<1x1xi32>) shard = {shard} " if shard and ranks > 1 else ""
    lines.append(f"%{name} = fp8.random %seed, %offset {parts}{{stream = {stream} : i64}} : tensor<1x1xi32> -> {types[name]} loc(\"{name}\")")
# Transposed too: an element is where it is, in whatever order it is computed.
moved = f"tensor<{own['columns'][1]}x{ROWS}xf32>"
lines.append(f'%moved = fp8.transpose %columns [1, 0] : {types["columns"]} -> {moved} loc("moved")')
results = [*(types[name] for name in shards), moved]
lines.append(f"return {', '.join('%' + name for name in shards)}, %moved : {', '.join(results)}")
program = folder / "random.mlir"
program.write_text(f"module attributes {{fp8.grid = {{tp = {ranks} : i64}}}} {{\nfunc.func @f({', '.join(arguments)}) -> ({', '.join(results)}) {{\n  "
                   + "\n  ".join(lines) + "\n}\n}\n")
launch = [f"--ranks={ranks}"] if ranks > 1 else []
done = subprocess.run([fp8_run, str(program), *launch, "--check", f"--dump-outputs={folder / 'out'}"], stdout=subprocess.PIPE,
                      stderr=subprocess.STDOUT, text=True, timeout=120)
if done.returncode:
    sys.exit(done.stdout)
outputs = {}
for entry in json.loads((folder / "out" / "index.json").read_text()):
    data = (folder / "out" / entry["file"]).read_bytes()
    outputs[entry["name"]] = struct.unpack(f"<{len(data) // 4}f", data)
for rank in range(ranks):
    for stream, (name, (rows, columns)) in enumerate(own.items()):
        row, column = (rank * rows if name == "rows" else 0), (rank * columns if name == "columns" else 0)
        expected = [[uniform((row + i) * COLUMNS + column + j, stream) for j in range(columns)] for i in range(rows)]
        got = outputs[f"{name}@{rank}" if ranks > 1 else name]
        assert list(got) == [value for line in expected for value in line], (name, rank)
        if name == "columns":
            got = outputs[f"moved@{rank}" if ranks > 1 else "moved"]
            assert list(got) == [line[j] for j in range(columns) for line in expected], (name, rank)
print(f"{ranks} ranks: numbers as published, each at its place")
