#!/usr/bin/env python3
# ===- autotune.py - measured launch geometries ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Finds the launch geometry of row and tile kernels by measuring, and writes the file that the compiler reads,
# lib/Conversion/FP8ToCUDA/Tuned/CHIP.def. Three steps, as the compiler and the GPU may be on two machines:
#
#   autotune.py compile OUT_DIR PROGRAM.mlir...   an artifact and its geometries for each candidate
#   autotune.py time OUT_DIR                      runs them all; needs only Python and fp8-run
#   autotune.py write OUT_DIR                     picks the fastest, or keeps the rule's where nothing is faster
#
# ===----------------------------------------------------------------------=== #
"""usage: bench/autotune.py {compile,time,write} OUT_DIR [PROGRAM.mlir...] [--fp8-opt=] [--fp8-run=] [--steps=7]"""

import argparse
import json
import pathlib
import re
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TUNED = ROOT / "lib/Conversion/FP8ToCUDA/Tuned/sm_90a.def"
CANDIDATES = (
    ["rules"]
    + [f"row:{vectors}:{blocks}:{ahead}" for vectors in (1, 2, 4) for blocks in (1, 2, 3, 4, 6) for ahead in (0, 1, 2)]
    + [f"tile:8:{blocks}" for blocks in (2, 3, 4, 5)]
    + [f"tile:4:{blocks}" for blocks in (1, 2)]
)
# A geometry has to be so much faster than the rule's to be written down.
LEAST_GAIN = 0.05


def manifest_of(artifact):
    """The manifest of an artifact (docs/artifact.md)."""
    data = artifact.read_bytes()
    (count,) = struct.unpack_from("<I", data, 12)
    for section in range(count):
        name, offset, size = struct.unpack_from("<16sQQ", data, 16 + 64 * section)
        if name.rstrip(b"\0") == b"manifest":
            return json.loads(data[offset : offset + size])
    sys.exit(f"error: no manifest in {artifact}")


def compile_all(options):
    options.folder.mkdir(parents=True, exist_ok=True)
    for program in options.programs:
        seen = set()
        for candidate in options.candidates.split(",") if options.candidates else CANDIDATES:
            name = f"{program.stem}@{candidate.replace(':', '-')}"
            artifact = options.folder / f"{name}.fp8"
            command = [options.fp8_opt, program, "--emit=artifact", "-o", artifact]
            command.append(f"--compile=target=h200,geometry={candidate},report-geometry=true,{options.compile_options}")
            run = subprocess.run(command, stderr=subprocess.PIPE, text=True)
            if run.returncode != 0:
                sys.exit(run.stderr)
            found = dict(re.findall(r"geometry of '(\w+)': (\w+\([^)]*\))", run.stderr))
            # A candidate that no launch can have is the rules again.
            if tuple(found.items()) in seen:
                artifact.unlink()
                continue
            seen.add(tuple(found.items()))
            artifact.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
            print(f"{name}: {len(found)} launches")


def time_all(options):
    for artifact in sorted(options.folder.glob("*.fp8")):
        ledger = artifact.with_suffix(".ledger")
        command = [options.fp8_run, artifact, "--backend=cuda", f"--steps={options.steps}", f"--ledger={ledger}"]
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode != 0:
            print(f"{artifact.stem}: failed")
            continue
        lines = [c for c in json.loads(ledger.read_text())["commands"] if c["op"] == "launch"]
        launches = [c for f in manifest_of(artifact)["functions"] for c in f["commands"] if c["op"] == "launch"]
        if [c["name"] for c in lines] != [c["name"] for c in launches]:
            sys.exit(f"error: {ledger} does not follow {artifact}")
        times = {}
        for line, launch in zip(lines, launches):
            times.setdefault(launch["kernel"], []).append(line["ms"])
        ledger.write_text(json.dumps({kernel: min(ms) for kernel, ms in times.items()}, indent=1) + "\n")
        print(f"{artifact.stem}: {sum(c['ms'] for c in lines):.3f} ms")


def write(options):
    rules, best = {}, {}  # of what a launch does: seconds; seconds and entry
    for ledger in sorted(options.folder.glob("*.ledger")):
        program, candidate = ledger.stem.split("@")
        geometries = json.loads(ledger.with_suffix(".json").read_text())
        works = {}
        for kernel, ms in json.loads(ledger.read_text()).items():
            if kernel not in geometries:
                continue
            entry = geometries[kernel]
            work = entry.rsplit(", ", 3 if entry.startswith("ROW") else 2)[0]
            works.setdefault(work, {}).setdefault(entry, []).append(ms)
        for work, entries in works.items():
            for entry, ms in entries.items():
                key, total = (program, work), sum(ms)
                if candidate == "rules":
                    rules[key] = total
                if key not in best or total < best[key][0]:
                    best[key] = (total, entry)
    lines = {}
    for (program, work), (ms, entry) in sorted(best.items()):
        base = rules.get((program, work))
        if base is None:
            continue
        faster = ms <= base * (1 - LEAST_GAIN)
        print(f"{program}: {work}): rule {base * 1e3:.1f} us, best {ms * 1e3:.1f} us with {entry}")
        if faster and (work not in lines or base - ms > lines[work][0]):
            lines[work] = (base - ms, entry)
    kept = "".join(line for line in TUNED.read_text().splitlines(keepends=True) if line.startswith("//"))
    TUNED.write_text(kept + "".join(f"\n{entry}" for _, (_, entry) in sorted(lines.items())) + ("\n" if lines else ""))
    print(f"{len(lines)} entries in {TUNED}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["compile", "time", "write"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("programs", type=pathlib.Path, nargs="*")
    parser.add_argument("--fp8-opt", type=pathlib.Path, default=ROOT / "build/bin/fp8-opt")
    parser.add_argument("--fp8-run", type=pathlib.Path, default=ROOT / "build/bin/fp8-run")
    parser.add_argument("--compile-options", default="policy=auto", help="more options of --compile")
    parser.add_argument("--candidates", help="instead of all, separated by commas; `rules` has to be one")
    parser.add_argument("--steps", type=int, default=7)
    options = parser.parse_args()
    options.fp8_opt, options.fp8_run = options.fp8_opt.resolve(), options.fp8_run.resolve()
    {"compile": compile_all, "time": time_all, "write": write}[options.step](options)


if __name__ == "__main__":
    main()
