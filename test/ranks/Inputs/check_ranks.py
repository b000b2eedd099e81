# ===- check_ranks.py - layers on several ranks ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: check_ranks.py FP8_OPT FP8_RUN GEN.py FOLDER KIND RECIPE RANKS [GATHERS] [sockets] [--OPTION OF gen.py...]
#        check_ranks.py FP8_OPT FP8_RUN deepseek.py FOLDER dense|moe RECIPE RANKS
#
# Writes the layer, plans it with every policy and with budgets, and runs each plan with mpirun, or with fp8-run --ranks.
# Every output of every rank must be that of the reference interpreter, bit for bit, and every rank's measured peak the
# planned one. Then the same layer on one rank: loss and gradients, put together from the ranks' parts, agree within the
# rounding stated below.
#
# ===-----------------------------------------------------------------------=== #

import json
import pathlib
import re
import sys

from commands import call, floats, read_bytes, run_checked

fp8_opt, fp8_run, gen, folder, kind, recipe, ranks, *rest = sys.argv[1:]
more, rest = ([word for word in rest if word.startswith("--") == option] for option in (True, False))
ranks, gathers = int(ranks), rest[0] if rest else "fp8"
launch = [fp8_run, f"--ranks={ranks}"] if "sockets" in rest else ["mpirun", "--oversubscribe", "-n", ranks, fp8_run]
folder = pathlib.Path(folder)
folder.mkdir(parents=True, exist_ok=True)
# Layers of DeepSeek-V3: a head and two experts belong to each rank.
small = pathlib.Path(gen).name == "deepseek.py"
TOKENS, DIM, FFN = 16 * ranks * (8 if recipe == "block128" else 2), 128, 256
# A cast moves a value by up to 2^-4 (e4m3) or 2^-3 (e5m2) of itself. A rank scales by the maximum of its part of a tensor,
# one rank by that of the whole, so codes differ where a scale does; sums over ranks round in another order.
TOLERANCE = 0.15
LAYERS = 2 if ranks < 4 else 1
# Gradients of what all ranks hold alike are those of each rank's tokens: their sum is the whole one.
PARTIAL = re.compile(r"d_layers\.\d+\.(gain|bias)$|d_(norm1|norm2|q_norm|kv_norm)\.gain$|d_(q_down|kv_down|router|experts.*)\.w$")


def generate(number):
    path = folder / f"{kind}{number}.mlir"
    sizes = (["--small"] if small else [f"--layers={LAYERS}", f"--tokens={TOKENS}", f"--dim={DIM}", f"--ffn={FFN}", *more])
    count = f"--parts={ranks}" if small and number == 1 else f"--ranks={number}"
    path.write_text(call(sys.executable, gen, f"--kind={kind}", f"--recipe={recipe}", count, *sizes))
    return path


def values(path):
    """The outputs of a run, by name: shape and floats."""
    return {name: (entry["shape"], floats(data, entry["dtype"])) for name, (entry, data) in read_bytes(path).items()}


def assemble(parts, shape, whole):
    """The tensor of `whole` shape that the ranks' parts make."""
    if shape == whole:
        return parts[0]
    rows, columns = shape
    if rows != whole[0]:
        return [number for part in parts for number in part]
    return [number for row in range(rows) for part in parts for number in part[row * columns:(row + 1) * columns]]


program = generate(ranks)
reference = folder / "ranks.ref"
call(fp8_opt, program, "--compile", "--emit=reference", "-o", reference)
plans = 0


def run(options, *more):
    global plans
    artifact = folder / "a.fp8"
    call(fp8_opt, program, f"--compile={options},gathers={gathers}", "--emit=artifact", "-o", artifact)
    plans += 1
    return run_checked(*launch, artifact, f"--check={reference}", *more, json_file=folder / "out.json", ranks=ranks)


peaks = {}
for policy in ["save-all", "recompute-all", "op-list", "min-cut", "auto"]:
    peaks[policy] = run(f"policy={policy}")["planned_peak_bytes"]
smallest = json.loads(call(fp8_opt, program, f"--compile=gathers={gathers}", "--emit=plan"))["min_feasible_peak_bytes"]
tight = run(f"budget={smallest}")
assert tight["planned_peak_bytes"] <= smallest, (tight["planned_peak_bytes"], smallest)
run("policy=auto,overlap=none", "--memory=dynamic")
print(f"{kind} {recipe} on {ranks} ranks: {plans} plans equal to the interpreter, planned = measured on each rank")
# One rank.
call(fp8_run, generate(1), f"--dump-outputs={folder / 'one'}")
call(*launch, program, f"--dump-outputs={folder / 'all'}")
one, every = values(folder / "one"), values(folder / "all")
worst = 0
for name, (whole, expected) in one.items():
    parts = [every[f"{name}@{rank}"] for rank in range(ranks)]
    if PARTIAL.match(name):
        got = [sum(column) for column in zip(*(numbers for _, numbers in parts))]
    else:
        got = assemble([numbers for _, numbers in parts], parts[0][0], whole)
    norm = sum(number * number for number in expected)
    error = (sum((a - b) ** 2 for a, b in zip(got, expected)) / norm) ** 0.5
    worst = max(worst, error)
    assert len(got) == len(expected) and error < TOLERANCE, (name, error)
    # What is compared is not the same thing twice: with one rank's part in the place of another's it differs.
    if parts[0][0] != whole:
        wrong = assemble([parts[-1][1]] + [numbers for _, numbers in parts[1:]], parts[0][0], whole)
        assert sum((a - b) ** 2 for a, b in zip(wrong, expected)) / norm > TOLERANCE ** 2, name
print(f"largest difference from one rank below {TOLERANCE}")
