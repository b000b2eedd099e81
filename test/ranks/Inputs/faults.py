# ===- faults.py - ranks that die, stop, differ or never come ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: faults.py FP8_OPT FP8_RUN GEN.py FOLDER [sockets]
#        faults.py --gpu FP8_RUN FOLDER
#
# Each fault must end all ranks in bounded time with an error that names the rank. Then ranks that are only slow: one of
# them sleeps before each collective in turn, which must change no bit. Ranks are mpirun's, or meet through sockets. With
# --gpu they run on two GPUs (and meet through sockets), and FOLDER has the artifacts a.fp8 and b.fp8, two plans of one
# program.
#
# ===-----------------------------------------------------------------------=== #

import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

gpu = sys.argv[1] == "--gpu"
if gpu:
    fp8_run, folder = sys.argv[2:]
    by_sockets, options = True, ["--backend=cuda"]
else:
    fp8_opt, fp8_run, gen, folder, *rest = sys.argv[1:]
    by_sockets, options = "sockets" in rest, []
folder = pathlib.Path(folder)
folder.mkdir(parents=True, exist_ok=True)
LIMIT = 30


class Job:
    """Processes that are ranks of one job; their output is one."""

    def __init__(self, commands):
        """`commands`: (number of ranks, command), ranks in this order."""
        self.output = tempfile.TemporaryFile("w+")
        if by_sockets:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            every = [command for count, command in commands for _ in range(count)]
            self.processes = [self.spawn(command, RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=len(every),
                                         MASTER_ADDR="127.0.0.1", FP8RT_PORT=port) for rank, command in enumerate(every)]
        else:
            line = ["mpirun", "--oversubscribe"]
            for count, command in commands:
                line += [":"] * (len(line) > 2) + ["-n", count, *command]
            self.processes = [self.spawn(line)]

    def spawn(self, command, **environment):
        return subprocess.Popen(list(map(str, command)), stdout=self.output, stderr=subprocess.STDOUT,
                                env={**os.environ, **{name: str(value) for name, value in environment.items()}})

    def end(self, limit):
        """The exit codes, or None where a process is not done in time, and what they wrote."""
        end = time.monotonic() + limit
        try:
            codes = [process.wait(max(0.1, end - time.monotonic())) for process in self.processes]
        except subprocess.TimeoutExpired:
            codes = None
            for process in self.processes:
                process.kill()
        self.output.seek(0)
        return codes, self.output.read()


def run(artifact, *more):
    return [fp8_run, artifact, *options, *more]


def expect_end(what, job, *texts, begun=None, bystanders=()):
    """All processes but `bystanders` end with an error that has `texts`."""
    begun = begun or time.monotonic()
    rest = [job.processes[number] for number in bystanders if by_sockets]
    job.processes = [process for process in job.processes if process not in rest]
    codes, output = job.end(LIMIT)
    seconds = time.monotonic() - begun
    for process in rest:
        process.kill()
    if codes is None:
        sys.exit(f"{what}: still running after {LIMIT} s:\n{output}")
    if 0 in codes or seconds > LIMIT:
        sys.exit(f"{what}: exit codes {codes} after {seconds:.1f} s:\n{output}")
    for text in texts:
        if text not in output:
            sys.exit(f"{what}: expected '{text}' in:\n{output}")
    print(f"{what}: ended", f"after {seconds:.1f} s" if gpu else "", flush=True)


def commands_of(artifact):
    """Of the first function of the manifest (docs/artifact.md)."""
    data = artifact.read_bytes()
    at = data.index(b"manifest")
    begin, size = struct.unpack_from("<QQ", data, at + 16)
    return json.loads(data[begin:begin + size])["functions"][0]["commands"]


artifacts = [folder / "a.fp8", folder / "b.fp8"]
if not gpu:
    program = folder / "tp3.mlir"
    program.write_text(subprocess.run([sys.executable, gen, "--layers=1", "--kind=tp", "--tokens=128", "--dim=64", "--ffn=128",
                                       "--recipe=tensorwise", "--ranks=2"], check=True, capture_output=True, text=True).stdout)
    for artifact, policy in zip(artifacts, ["save-all", "recompute-all"]):
        subprocess.run([fp8_opt, program, f"--compile=policy={policy}", "--emit=artifact", "-o", artifact], check=True)
first, second = artifacts

alone = Job([])
alone.processes = [alone.spawn(run(first))]
expect_end("one rank", alone,
           "error: expected 2 ranks for the grid {tp = 2} of the program, but got 1; start it with mpirun -n 2")
if not gpu:
    expect_end("three ranks", Job([(3, run(first))]), "error: expected 2 ranks for the grid {tp = 2} of the program, but got 3")
expect_end("another plan", Job([(1, run(first)), (1, run(second))]), "error: rank 1 has another artifact than rank 0")
expect_end("other options", Job([(1, run(first)), (1, run(first, "--seed=1"))]),
           "error: rank 1 has another set of options than rank 0")
damaged = folder / "damaged.fp8"
damaged.write_bytes(first.read_bytes()[:-100])
expect_end("a damaged artifact", Job([(1, run(first)), (1, run(damaged))]), "error: rank 1 has another artifact than rank 0")
expect_end("no artifact", Job([(1, run(first)), (1, run(folder / "none.fp8"))]), "error: rank 1 stopped: cannot read")
if not gpu:
    broken = folder / "broken.mlir"
    broken.write_text("nonsense\n")
    expect_end("no program", Job([(2, run(broken))]), "error: rank 0 stopped: cannot compile")
expect_end("a missing peer", Job([(2 if not by_sockets else 1, run(first, "--timeout=3")), (1, ["sleep", "60"])]),
           "error: not all ranks have started within 3 s" + (": missing 1" if by_sockets else ""), bystanders=[1])

# The rank is found by what it writes down before it becomes fp8-run.
for what, send, more, texts in [
    ("a killed rank", signal.SIGKILL, [], ["rank 1"]),
    ("a stopped rank", signal.SIGSTOP, ["--timeout=3"], ["lost rank 1: nothing heard of it for 3 s"]),
]:
    pid = folder / "pid"
    pid.unlink(missing_ok=True)
    rank = "$RANK" if by_sockets else "$OMPI_COMM_WORLD_RANK"
    shell = f'test {rank} = 1 && echo $$ > {pid}; exec "$@"'
    job = Job([(2, ["sh", "-c", shell, "sh", *run(first, "--delay=0:-1:200", "--steps=1000", *more)])])
    begun = time.monotonic()
    while not (pid.exists() and pid.read_text().strip()) and time.monotonic() < begun + 10:
        time.sleep(0.05)
    # On a GPU it takes a while until the ranks compute.
    time.sleep(10 if gpu else 2)
    begun = time.monotonic()
    os.kill(int(pid.read_text()), send)
    expect_end(what, job, *texts, begun=begun, bystanders=[1])


# Slow ranks.
def outputs(*more):
    result = folder / "out.json"
    codes, output = Job([(2, run(first, f"--json={result}", *more))]).end(LIMIT)
    if codes is None or any(codes):
        sys.exit(f"{more}: exit codes {codes}:\n{output}")
    return json.loads(result.read_text())["outputs"]


expected = outputs()
count = sum(command["op"] == "collective" for command in commands_of(first))
# The watched run has each collective once, and so has the timed one. On a GPU a run takes longer: all at once.
numbers = [-1] if gpu else range(2 * count)
for rank in range(2):
    for number in numbers:
        if outputs(f"--delay={rank}:{number}:40") != expected:
            sys.exit(f"rank {rank} asleep before collective {number}: other results")
print(f"each of 2 ranks asleep before each of {2 * count} collectives: equal results")
