# ===- check_linears.py - sequence-parallel linears one after another ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: check_linears.py FP8_OPT FP8_RUN sequence_parallel.py FOLDER
#
# In full size: the peak of each way to gather is planned within what it may take, with transfers started early. In small
# size each runs on two ranks, with the bits of the interpreter and the planned peak on each rank; the forward results of
# gathers in pieces are those of whole ones, and the gradients are those of a bf16 gather but for casts. Where the planner
# has cut the gathers, gradients are those of whole ones too.
#
# ===-----------------------------------------------------------------------=== #

import json
import pathlib
import sys

from commands import call, floats, read_bytes, run_checked

fp8_opt, fp8_run, generator, folder = sys.argv[1:]
folder = pathlib.Path(folder)
folder.mkdir(parents=True, exist_ok=True)
MIB = 2**20
# A cast moves a value by up to 2^-4 of itself, about half of that on average, and a product sums them up.
TOLERANCE = 0.06
WAYS = [("bf16", 1190, []), ("fp8", 755, ["--gather=fp8"]), ("fp8, 8 pieces", 480, ["--gather=fp8", "--pieces=8"]),
        ("bf16, 2 pieces", None, ["--pieces=2"]), ("fp8, planned in pieces", 480, ["--gather=fp8"])]

results = {}
for name, limit, options in WAYS:
    program = folder / "linears.mlir"
    if limit:
        program.write_text(call(sys.executable, generator, *options))
        plan = json.loads(call(fp8_opt, program, f"--compile=target=h200,budget={limit}MiB", "--emit=plan"))
        # Six products of forward, six gradients.
        assert "planned" not in name or len(plan["pieces"]) == 12, plan["pieces"]
        assert plan["peak_bytes"] <= limit * MIB, (name, plan["peak_bytes"] / MIB)
        print(f"{name}: {plan['peak_bytes'] / MIB:,.1f} MiB planned, of {limit:,}; "
              f"{100 * plan['hidden_us'] / plan['communication_us']:.0f} % of transfers hidden")
    program.write_text(call(sys.executable, generator, "--linears=2", "--tokens=512", "--dim=64", "--out=64", *options))
    output = folder / "out"
    check = "--check"
    if "planned" in name:
        call(fp8_opt, program, "--compile", "--emit=reference", "-o", folder / "whole.ref")
        call(fp8_opt, program, "--compile=pieces=4", "--emit=artifact", "-o", folder / "pieces.fp8")
        program, check = folder / "pieces.fp8", f"--check={folder / 'whole.ref'}"
    run_checked(fp8_run, program, "--ranks=2", check, f"--dump-outputs={output}", json_file=folder / "out.json", ranks=2)
    results[name] = {key: data for key, (_, data) in read_bytes(output).items()}

for name, result in results.items():
    for key, data in result.items():
        if ".sum@" in key or "planned" in name:
            whole = results[name.split(",")[0]][key]
            assert data == whole, (name, key)
            continue
        expected, got = floats(results["bf16"][key]), floats(data)
        norm = sum(value * value for value in expected) ** 0.5
        error = sum((a - b) ** 2 for a, b in zip(expected, got)) ** 0.5 / norm
        assert error < (TOLERANCE if name.startswith("fp8") else 0.01), (name, key, error)
        assert name == "bf16" or error > 0, (name, key)
print(f"{len(results)} ways to gather: equal to the interpreter, planned = measured on each rank")
