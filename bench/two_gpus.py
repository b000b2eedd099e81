# ===- two_gpus.py - steps on two GPUs beside PyTorch ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Two figures of docs/performance.md, in one run. The feed-forward stack of Llama-3-8B sizes with its weights sharded over two
# GPUs, beside the same tokens on one GPU (on each: two are not equally fast, and a step of both takes the slower) and
# beside PyTorch (torch_fsdp.py): time, peak, and how much of each transfer is hidden, as the ledger of a step sees it. And
# six column-parallel linears under sequence parallelism (examples/sequence_parallel.py): planned and measured peak. What
# matters most comes first, and each line when it is known, so that a run that is cut short has lost only the rest.
#
# usage: two_gpus.py all BIN_DIR OUT [--no-torch] [--no-linears] [--once]    on two GPUs; BIN_DIR is build/bin
#        two_gpus.py compile BIN_DIR ARTIFACTS          on any machine; BIN_DIR has fp8-opt
#        two_gpus.py run BIN_DIR ARTIFACTS OUT [--no-torch] [--no-linears] [--once]   on two GPUs; BIN_DIR has fp8-run
#
# ===---------------------------------------------------------------------=== #
"""Compiles, then runs, steps for two GPUs and prints tables."""

import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
MIB = 2**20
# The peak of PyTorch's FSDP2 on this step (docs/performance.md) is what a plan may take.
STACK_BUDGET = "6432MiB"
# PyTorch's steps (torch_fsdp.py): the one to compare with, and what goes behind our second round.
TORCH, MORE_TORCH = ["fp8 rowwise, FSDP2"], ["gathers in the graph", "bf16, FSDP2"]
# The sequence-parallel linears: what they may take with how they are planned, and the options of their program. Gathers are
# whole, in the pieces of the program, or in those that the planner makes.
LINEARS = {"bf16-whole": ("1190MiB,pieces=1", ["--gather=bf16"]), "fp8-whole": ("755MiB,pieces=1", ["--gather=fp8"]),
           "fp8-program-pieces": ("480MiB,pieces=1", ["--gather=fp8", "--pieces=8"]), "bf16": ("1190MiB", ["--gather=bf16"]),
           "fp8": ("755MiB", ["--gather=fp8"]), "fp8-tight": ("480MiB", ["--gather=fp8"])}


def compile_all(bin_dir, folder):
    folder.mkdir(parents=True, exist_ok=True)
    stack = ["gen.py", "--layers=4", "--recipe=rowwise"]
    programs = {"single": (STACK_BUDGET, [*stack, "--tokens=16384"]),
                "fsdp": (STACK_BUDGET, [*stack, "--kind=fsdp", "--tokens=32768", "--ranks=2"]),
                **{f"linears-{name}": (budget, ["sequence_parallel.py", *options])
                   for name, (budget, options) in LINEARS.items()}}
    for name, (budget, command) in programs.items():
        text = subprocess.run([sys.executable, EXAMPLES / command[0], *command[1:]], check=True, capture_output=True).stdout
        subprocess.run([bin_dir / "fp8-opt", "-", f"--compile=target=h200,budget={budget}", "--emit=artifact", "-o",
                        folder / f"{name}.fp8"], input=text, check=True)
        print(f"{name}: {(folder / f'{name}.fp8').stat().st_size} bytes")


class Runs:
    def __init__(self, bin_dir, artifacts, out):
        self.bin_dir, self.artifacts, self.out = bin_dir, artifacts, out

    def run(self, name, label, *options, ranks=2, device=0):
        """The JSON of a run, of one rank on `device`; its steps are timed after a warm-up."""
        result = self.out / f"{label}.json"
        result.unlink(missing_ok=True)
        command = [self.bin_dir / "fp8-run", self.artifacts / f"{name}.fp8", "--backend=cuda", f"--json={result}", *options]
        if ranks > 1:
            command.append(f"--ranks={ranks}")
        with open(self.out / f"{label}.log", "w") as log:
            done = subprocess.run(list(map(str, command)), stdout=log, stderr=subprocess.STDOUT, timeout=150,
                                  env={**os.environ, **({"CUDA_VISIBLE_DEVICES": str(device)} if ranks == 1 else {})})
        if done.returncode or not result.exists():
            errors = [line for line in (self.out / f"{label}.log").read_text().splitlines() if "error" in line]
            print(f"{label}: exit code {done.returncode}: {errors[:3]}", flush=True)
            return None
        return json.loads(result.read_text())


def median(run):
    """Of the slower rank."""
    return max(statistics.median(rank["step_ms"]) for rank in run.get("ranks", [run]))


def row(label, run):
    if run is None:
        return
    peaks = {rank["measured_peak_bytes"] == rank["planned_peak_bytes"] for rank in run.get("ranks", [run])}
    print(f"{label:<38}{median(run):>9.2f}{run['measured_peak_bytes'] / MIB:>11,.1f}{run['planned_peak_bytes'] / MIB:>11,.1f}"
          f"  {'equal on each rank' if peaks == {True} else 'DIFFERENT'}", flush=True)


def hidden(ledger):
    """Of each transfer of a step: milliseconds, and those that the step waited for."""
    transfers, waits = {}, {}
    for entry in ledger["commands"]:
        if "transfer_ms" in entry:
            transfers[entry["name"]] = [entry["transfer_ms"], entry["ms"], entry["bytes"]]
        elif entry["op"] == "wait":
            waits[entry["name"]] = entry["ms"]
    return [{"name": name, "ms": ms, "exposed_ms": min(ms, waits.get(name, own)), "bytes": size}
            for name, (ms, own, size) in transfers.items()]


def stack(runs, number, times):
    for label, name, ranks, device in [("GPU 0 alone", "single", 1, 0), ("GPU 1 alone", "single", 1, 1),
                                       ("two GPUs", "fsdp", 2, 0), ("two GPUs, graph", "fsdp", 2, 0)]:
        options = ["--graph"] if "graph" in label else []
        done = runs.run(name, f"{name}{'-graph' if options else ''}-{device}-{number}", "--steps=20", "--warmup=5", *options,
                        ranks=ranks, device=device)
        row(label, done)
        if done:
            times.setdefault(label, []).append(median(done))


def transfers(runs, summary):
    ledger = runs.out / "fsdp-ledger.json"
    if not runs.run("fsdp", "fsdp-timed", "--steps=10", "--warmup=3", f"--ledger={ledger}"):
        return
    found = summary["transfers"] = hidden(json.loads(ledger.read_text()))
    # Nothing runs before the first weight is there, and nothing behind the last gradient.
    ends = [entry for entry in found if entry["name"].startswith("layers.0.w1_all.") and "~" not in entry["name"]
            and not entry["name"].endswith("col.e4m3") or entry["name"] == "d_layers.0.w1"]
    for label, part in [("gathers of codes", lambda n: n.endswith("e4m3")), ("maxima and scales", lambda n: n.endswith(
            ("amax", "scale"))), ("gradients", lambda n: n.startswith("d_"))]:
        for where, keep in [("between", lambda e: e not in ends), ("first and last", lambda e: e in ends)]:
            chosen = [entry for entry in found if part(entry["name"]) and keep(entry)]
            if not chosen:
                continue
            whole, exposed = sum(e["ms"] for e in chosen), sum(e["exposed_ms"] for e in chosen)
            print(f"  {label + ', ' + where:<36}{len(chosen):>4} transfers {whole:8.3f} ms, waited for {exposed:7.3f} ms, "
                  f"hidden {100 * (1 - exposed / whole):5.1f} %", flush=True)


def torch(runs, names, summary):
    """Each in a run of its own, since it needs torchrun; one step is compiled there."""
    for name in names:
        out = runs.out / f"torch-{name.replace(' ', '-').replace(',', '')}.json"
        out.unlink(missing_ok=True)
        # torchrun ends its processes where it is asked to.
        command = ["timeout", "--kill-after=10", "120", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2",
                   HERE / "torch_fsdp.py", f"--only={name}", f"--out={out}"]
        with open(out.with_suffix(".log"), "w") as log:
            code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode
        if code or not out.exists():
            print(f"torch: {name:<31}exit code {code}, see {out.with_suffix('.log').name}", flush=True)
            continue
        for entry in json.loads(out.read_text())["rows"]:
            summary.setdefault("torch", []).append(entry)
            result = entry["error"][:120] if "error" in entry else f"{entry['ms']:>9.2f}{entry['peak_bytes'] / MIB:>11,.1f}"
            print(f"torch: {entry['name']:<31}{result}", flush=True)


def linears(runs, summary):
    print(f"{'six linears, 65,536 tokens of two ranks':<38}{'ms':>9}{'peak MiB':>11}{'planned':>11}", flush=True)
    for name, (budget, _) in LINEARS.items():
        done = runs.run(f"linears-{name}", f"linears-{name}", "--steps=10", "--warmup=3")
        row(f"{name}, at most {budget.split(',')[0]}", done)
        if done:
            summary.setdefault("linears", {})[name] = {"ms": median(done), "peak_bytes": done["measured_peak_bytes"],
                                                       "planned_peak_bytes": done["planned_peak_bytes"]}


def main():
    what, bin_dir, artifacts = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]).resolve()
    if what == "compile":
        return compile_all(bin_dir, artifacts)
    out = artifacts if what == "all" else pathlib.Path(sys.argv[4])
    out.mkdir(parents=True, exist_ok=True)
    if what == "all":
        compile_all(bin_dir, artifacts)
    summary = {}
    runs = Runs(bin_dir, artifacts, out)
    rounds = 1 if "--once" in sys.argv else 2
    with_torch = "--no-torch" not in sys.argv
    times = summary["stack_ms"] = {}
    print(f"{'four layers, 16,384 tokens a rank':<38}{'ms':>9}{'peak MiB':>11}{'planned':>11}", flush=True)
    stack(runs, 0, times)
    if with_torch:
        torch(runs, TORCH, summary)
    for number in range(1, rounds):
        stack(runs, number, times)
    transfers(runs, summary)
    if with_torch:
        torch(runs, MORE_TORCH, summary)
    if "--no-linears" not in sys.argv:
        linears(runs, summary)
    (out / "two_gpus.json").write_text(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
