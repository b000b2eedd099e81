# ===- faults.py - ranks that die, stop, differ or never come ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: faults.py FP8_OPT FP8_RUN GEN.py FOLDER
#
# Each fault must end all ranks in bounded time with an error that names the rank. Then ranks that are only slow: one of
# them sleeps before each collective in turn, which must change no bit.
#
# ===-----------------------------------------------------------------------=== #

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

fp8_opt, fp8_run, gen, folder = sys.argv[1:]
folder = pathlib.Path(folder)
folder.mkdir(parents=True, exist_ok=True)
LIMIT = 30


def generate(name, ranks, *options):
    path = folder / name
    path.write_text(subprocess.run([sys.executable, gen, "--layers=1", "--kind=tp", "--tokens=128", "--dim=64", "--ffn=128",
                                    "--recipe=tensorwise", f"--ranks={ranks}", *options], check=True, capture_output=True,
                                   text=True).stdout)
    return path


def start(*command):
    return subprocess.Popen(["mpirun", "--oversubscribe", *map(str, command)], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def expect_end(what, process, *texts, begun=None):
    begun = begun or time.monotonic()
    try:
        output, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        sys.exit(f"{what}: still running after {LIMIT} s")
    seconds = time.monotonic() - begun
    if process.returncode == 0 or seconds > LIMIT:
        sys.exit(f"{what}: exit code {process.returncode} after {seconds:.1f} s:\n{output}")
    for text in texts:
        if text not in output:
            sys.exit(f"{what}: expected '{text}' in:\n{output}")
    print(f"{what}: ended")


program = generate("tp3.mlir", 2)
artifacts = [folder / "a.fp8", folder / "b.fp8"]
for artifact, policy in zip(artifacts, ["save-all", "recompute-all"]):
    subprocess.run([fp8_opt, program, f"--compile=policy={policy}", "--emit=artifact", "-o", artifact], check=True)

expect_end("one rank", subprocess.Popen([fp8_run, program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True),
           "error: expected 2 ranks for the grid {tp = 2} of the program, but got 1; start it with mpirun -n 2")
expect_end("three ranks", start("-n", 3, fp8_run, program), "error: expected 2 ranks for the grid {tp = 2} of the program, but got 3")
expect_end("another plan", start("-n", 1, fp8_run, artifacts[0], ":", "-n", 1, fp8_run, artifacts[1]),
           "error: rank 1 has another artifact than rank 0")
expect_end("other options", start("-n", 1, fp8_run, artifacts[0], ":", "-n", 1, fp8_run, artifacts[0], "--seed=1"),
           "error: rank 1 has another set of options than rank 0")
damaged = folder / "damaged.fp8"
damaged.write_bytes(artifacts[0].read_bytes()[:-100])
expect_end("a damaged artifact", start("-n", 1, fp8_run, artifacts[0], ":", "-n", 1, fp8_run, damaged), "error: rank 1 has another artifact than rank 0")
expect_end("no artifact", start("-n", 1, fp8_run, artifacts[0], ":", "-n", 1, fp8_run, folder / "none.fp8"),
           "error: rank 1 stopped: cannot read")
broken = folder / "broken.mlir"
broken.write_text("nonsense\n")
expect_end("no program", start("-n", 2, fp8_run, broken), "error: rank 0 stopped: cannot compile")
expect_end("a missing peer", start("-n", 2, fp8_run, "--timeout=3", artifacts[0], ":", "-n", 1, "sleep", "60"),
           "error: not all ranks have started within 3 s")

# The rank is found by what it writes down before it becomes fp8-run.
for what, send, options, texts in [
    ("a killed rank", signal.SIGKILL, [], ["rank 1"]),
    ("a stopped rank", signal.SIGSTOP, ["--timeout=3"], ["lost rank 1: nothing heard of it for 3 s"]),
]:
    pid = folder / "pid"
    pid.unlink(missing_ok=True)
    shell = f'test $OMPI_COMM_WORLD_RANK = 1 && echo $$ > {pid}; exec "$@"'
    process = start("-n", 2, "sh", "-c", shell, "sh", fp8_run, artifacts[0], "--delay=0:-1:200", "--steps=1000", *options)
    begun = time.monotonic()
    while not (pid.exists() and pid.read_text().strip()) and time.monotonic() < begun + 10:
        time.sleep(0.05)
    time.sleep(2)
    os.kill(int(pid.read_text()), send)
    expect_end(what, process, *texts)

# Slow ranks.
def outputs(*options):
    result = folder / "out.json"
    subprocess.run(["mpirun", "--oversubscribe", "-n", "2", fp8_run, artifacts[0], f"--json={result}", *options], check=True,
                   stdout=subprocess.DEVNULL, timeout=LIMIT)
    return json.loads(result.read_text())["outputs"]


expected = outputs()
plan = json.loads(subprocess.run([fp8_opt, program, "--compile=policy=save-all", "--emit=plan"], check=True, capture_output=True,
                                 text=True).stdout)
count = len(plan["transfers"])
# The watched run has each collective once, and so has the timed one.
for rank in range(2):
    for number in range(2 * count):
        if outputs(f"--delay={rank}:{number}:40") != expected:
            sys.exit(f"rank {rank} asleep before collective {number}: other results")
print(f"each of 2 ranks asleep before each of {2 * count} collectives: equal results")
