# ===- compare_torch.py - ours beside PyTorch, in one run ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Times artifacts of the Llama-3-8B feed-forward step with fp8-run, and PyTorch's variants of the same step, on one card
# in one run: the same sizes, gradients written, peaks over what was there before the step (parameters and inputs apart,
# weight gradients included). Ours are run before and after PyTorch's, so that a drift of the card's clock shows.
#
# usage: compare_torch.py --fp8-run PATH --artifacts DIR [--out FILE.json] [--layers 4 --tokens 16384 --dim 4096 --ffn
#        14336] [--repeats 20] [--quick] [--streams 1 3]
#
# DIR holds NAME.fp8 (fp8-opt --compile=target=h200,... --emit=artifact); those named microbatchesN* were compiled with
# microbatches=N and run so, beside PyTorch doing the same. Needs torch and a GPU, no compiler.
#
# ===--------------------------------------------------------=== #
"""Writes a table and a JSON file of step times and peaks, ours and PyTorch's."""

import argparse
import datetime
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

MIB = 2**20


def count_microbatches(artifact):
    found = re.match(r"microbatches(\d+)", artifact.stem)
    return int(found[1]) if found else 1


def run_ours(fp8_run, artifact, streams, repeats):
    """One artifact: planned memory, replayed as a CUDA graph; its matmuls alone in the same process. The peak of several
    microbatches is without main_grad, which PyTorch has before the step, and with the casts kept over the step."""
    count = count_microbatches(artifact)
    name = artifact.stem if streams == 1 else f"{artifact.stem}, {streams} streams"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "run.json"
        command = [fp8_run, artifact, "--backend=cuda", f"--steps={repeats}", "--warmup=5", "--graph", "--bench",
                   f"--json={path}", f"--microbatches={count}", f"--streams={streams}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return {"name": name, "error": (done.stdout + done.stderr)[-400:]}
        result = json.loads(path.read_text())
    times = sorted(result["step_ms"])
    peaks = {f["name"]: (f["measured_peak_bytes"], f["caller_placed_bytes"]) for f in result["functions"]}
    kept = peaks.pop("start_of_step", (0, 0))[1]
    peak = max(most - placed for most, placed in peaks.values()) + kept if count > 1 else result["measured_peak_bytes"]
    return {"name": name, "streams": streams, "ms": statistics.median(times), "ms_min": times[0],
            "peak_bytes": peak, "functions": result["functions"], "planned_peak_bytes": result["planned_peak_bytes"],
            "saved_bytes": result["saved_bytes"], "matmuls_ms": statistics.median(result["gemm_ms"]),
            "copy_bytes_per_s": result["copy_bytes_per_s"],
            "device_overhead_bytes": result["device_overhead_bytes"]}


def print_row(group, row):
    """A row at once, so that a run which is cut off has shown what it measured."""
    if "error" in row:
        print(f"{group + row['name']:44} {row['error']}", flush=True)
        return
    alone = row.get("matmuls_ms", float("nan"))
    print(f"{group + row['name']:44}{row['ms']:9.2f}{row['ms_min']:9.2f}{row['peak_bytes'] / MIB:10.0f}"
          f"{row['saved_bytes'] / MIB:11.0f}{alone:9.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fp8-run", required=True)
    parser.add_argument("--artifacts", required=True, type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--dim", type=int, default=4096)
    parser.add_argument("--ffn", type=int, default=14336)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="of PyTorch's variants only float8 with budgets 1 and 0.5")
    parser.add_argument("--streams", type=int, nargs="+", default=[1], help="ours, on so many streams each")
    options = parser.parse_args()
    artifacts = sorted(options.artifacts.glob("*.fp8"))
    if not artifacts:
        sys.exit(f"error: expected artifacts (*.fp8) in {options.artifacts}, but there are none")
    sizes = (options.layers, options.tokens, options.dim, options.ffn)
    result = {"schema": "fp8opt-bench-2", "date": datetime.date.today().isoformat(), "layers": options.layers,
              "tokens": options.tokens, "dim": options.dim, "ffn": options.ffn, "repeats": options.repeats}

    def add(group, row):
        result.setdefault(group, []).append(row)
        print_row(group.replace("_", ", ") + ": ", row)
        if options.out:
            options.out.write_text(json.dumps(result, indent=1) + "\n")

    def add_ours(group):
        for artifact in artifacts:
            for streams in options.streams:
                add(group, run_ours(options.fp8_run, artifact, streams, options.repeats))

    print(f"{'':44}{'ms':>9}{'min':>9}{'peak MiB':>10}{'saved MiB':>11}{'matmuls':>9}")
    add_ours("ours_before")
    import torch
    import torch_ffn

    result |= {"gpu": torch.cuda.get_device_name(), "torch_version": torch.__version__, "cuda": torch.version.cuda}
    variants = [("fp8 rowwise, compile", True, 1.0), ("+ memory budget 0.5", True, 0.5)]
    if not options.quick:
        variants = [("bf16, compile", False, 1.0), ("fp8 rowwise, compile", True, 1.0),
                    ("+ memory budget 0.75", True, 0.75), ("+ memory budget 0.5", True, 0.5),
                    ("+ memory budget 0.25", True, 0.25)]
    for name, fp8, budget in variants:
        add("torch", torch_ffn.run_variant(name, fp8, budget, *sizes, options.repeats))
    for count in sorted({count_microbatches(artifact) for artifact in artifacts} - {1}):
        add("torch", torch_ffn.run_microbatches(count, *sizes, options.repeats))
    result["torch_matmuls_ms"] = torch_ffn.matmuls_alone(*sizes, options.repeats)
    result["torch_copy_bytes_per_s"] = torch_ffn.copy_rate()
    torch.cuda.empty_cache()
    add_ours("ours_after")
    print(f"{result['gpu']}, torch {torch.__version__}, {options.layers} layers, {options.tokens} tokens; medians of "
          f"{options.repeats}; PyTorch's matmuls alone {result['torch_matmuls_ms']:.2f} ms, copy "
          f"{result['torch_copy_bytes_per_s'] / 1e12:.2f} TB/s")


if __name__ == "__main__":
    main()
