# ===- readme.py - the README's output against the demo's ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: readme.py [--update] ROOT BIN README
#
# Makes the plans and the report of ./dev demo again and compares the blocks of README that show them; --update writes
# what is true instead. Times of a run are measured and not compared.
#
# ===---------------------------------------------------------------------=== #

import contextlib
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile

arguments = sys.argv[1:]
update = arguments[0] == "--update" and bool(arguments.pop(0))
root, tools, readme = map(pathlib.Path, arguments)
sys.path.insert(0, str(root / "utils"))
sys.dont_write_bytecode = True
import demo


def emit(program, options, output):
    command = [tools / "fp8-opt", root / "examples" / program, f"--compile={options}", f"--emit={output}", "-o", "-"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def table():
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
        demo.Demo(tools, root / "examples", pathlib.Path(folder)).plans()
    lines = printed.getvalue().splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("policy "))
    return lines[first:-1]


def excerpt():
    lines = emit("llama3_ffn.mlir", "target=h200,policy=auto", "report").splitlines()

    def after(start, count):
        first = next(index for index, line in enumerate(lines) if line.startswith(start))
        return lines[first : first + count]

    return [*after("Kept for backward", 7), "...", *after("Computed again", 5), "...", *after("Freed early", 2)]


def run(old):
    plan = json.loads(emit("llama3_ffn_small.mlir", "policy=auto", "plan"))
    figures = {"planned peak": ("peak_bytes", ""), "measured peak": ("peak_bytes", ", equal"),
               "arena": ("arena_bytes", ""), "saved": ("saved_bytes", "")}
    lines = []
    for line in old:
        label = re.sub(r"  +.*", "", line.strip())
        if label in figures:
            key, tail = figures[label]
            line = f"  {label:<15}{plan[key]:,} B{tail}"
        lines.append(line)
    return lines


text = readme.read_text()
parts = re.split(r"^(```\n.*?^```\n)", text, flags=re.S | re.M)
seen, wrong = set(), 0
for index, part in enumerate(parts):
    lines = part.splitlines()[1:-1] if part.startswith("```\n") else [""]
    kinds = {"policy ": table, "Kept for backward": excerpt, "ffn: 1 step(s)": lambda: run(lines)}
    kind = next((kind for kind in kinds if lines[0].startswith(kind)), None)
    if kind is None:
        continue
    seen.add(kind)
    want = kinds[kind]()
    if lines != want:
        wrong += 1
        parts[index] = "\n".join(["```", *want, "```", ""])
        for have, line in zip(lines + [""] * len(want), want):
            if have != line and not update:
                print(f"README: {have}\ndemo:   {line}")
missing = 3 - len(seen)
if missing:
    print(f"{missing} of the README's blocks are gone")
if update:
    readme.write_text("".join(parts))
elif wrong:
    print("run: python3 test/examples/Inputs/readme.py --update . build/bin README.md")
sys.exit(bool(missing or (wrong and not update)))
