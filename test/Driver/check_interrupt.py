# ===- check_interrupt.py - Ctrl-C during a long search ----------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: check_interrupt.py PROGRAM.mlir
#
# Plans PROGRAM in three ways: to the end; with one SIGINT after the first line
# of progress, which gives the best plan so far; with two, which end the process.
# Progress is on standard error alone: with --progress through a pipe, and
# without it on a terminal.
#
# ===------------------------------------------------------------------------=== #

import json
import os
import pty
import signal
import subprocess
import sys
import threading


def plan(path, interrupts, on_terminal=False):
    """Exit code, standard output and standard error of a run."""
    command = ["fp8-opt", path, "--compile=target=h200", "--emit=plan"] + ([] if on_terminal else ["--progress"])
    if on_terminal:
        reader, writer = pty.openpty()
    else:
        reader, writer = os.pipe()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writer)
    os.close(writer)
    seen = bytearray()

    def read():
        sent = 0
        while True:
            try:
                data = os.read(reader, 4096)
            except OSError:  # The terminal's other end is closed.
                break
            if not data:
                break
            seen.extend(data)
            if b"plans, smallest peak" in seen and sent < interrupts:
                for _ in range(interrupts):
                    # Two that come at once are one.
                    process.send_signal(signal.SIGINT)
                    threading.Event().wait(0.05)
                sent = interrupts

    thread = threading.Thread(target=read)
    thread.start()
    output = process.stdout.read()
    thread.join()
    os.close(reader)
    return process.wait(), output, seen.decode()


def main():
    path = sys.argv[1]
    code, whole, progress = plan(path, 0)
    assert code == 0 and "of at most" in progress, progress[-500:]
    whole = json.loads(whole)
    assert whole["interrupted"] is False
    code, output, progress = plan(path, 1)
    assert code == 0, f"exit code {code} after one SIGINT: {progress[-500:]}"
    part = json.loads(output)
    assert part["interrupted"] is True, "expected the plan to say that it was interrupted"
    assert part["gap_pct"] is not None and part["gap_pct"] >= 0, part["gap_pct"]
    code, output, progress = plan(path, 2)
    assert code == -signal.SIGINT, f"exit code {code} after two SIGINTs"
    code, again, progress = plan(path, 0, on_terminal=True)
    assert code == 0 and "of at most" in progress, progress[-500:]
    assert json.loads(again) == whole, "expected the same plan whether progress is shown or not"
    print("interrupted as asked")


if __name__ == "__main__":
    main()
