# ===- main.py - fp8opt job ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The subcommand that writes a job file from what a user of Megatron-LM has: a launch script or a log.
#
# ===--------------------------------------------------------===#
"""fp8opt job: a job file from the arguments of a Megatron-LM run, in its launch script or its log."""

import json
import pathlib
import sys
from typing import Any, Dict, List

from ..command import InputError, Parser, read_text
from ..job import job_of_table
from . import job_of_arguments, read_arguments

__all__ = ["main"]

EXAMPLES = """examples:
  fp8opt job train.sh --gpus=64 -o job.toml       from a launch script
  fp8opt job train.log -o job.toml                from a log, which lists all arguments

Then: fp8opt rank --config=job.toml, fp8opt audit snapshot.pickle --config=job.toml
"""


def main(arguments: List[str]) -> int:
    """Runs the subcommand."""
    parser = Parser(prog="fp8opt job", description=__doc__, epilog=EXAMPLES)
    parser.add_argument("file", help="launch script or log of Megatron-LM; - for standard input")
    parser.add_argument("--gpus", type=int, help="GPUs of the run, where the arguments do not say")
    parser.add_argument("--gpu", default="hopper", help="hopper or blackwell (default hopper)")
    parser.add_argument("--device", default="80GiB", help="bytes of a GPU (default 80GiB)")
    parser.add_argument("-o", "--output", help="file to write (default: standard output)")
    options = parser.parse_args(arguments)
    if options.gpus is not None and options.gpus < 1:
        raise InputError(f"expected --gpus of at least 1, but got {options.gpus}")
    text = sys.stdin.read() if options.file == "-" else read_text(options.file)
    job, notes = job_of_arguments(read_arguments(text), options.gpus, options.gpu)
    job["device"] = options.device
    if "expandable_segments:True" in text:
        job["allocator"] = "expandable"
    # What the arguments do not fit together in is said here, before anything is written.
    job_of_table(job, pathlib.Path(), f"'{options.file}'")
    lines = "\n".join(_toml(job)) + "\n"
    if options.output:
        path = pathlib.Path(options.output)
        try:
            path.write_text(lines, encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write '{path}': {error.strerror}") from None
        print(f"{path} written")
    else:
        print(lines, end="")
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return 0


def _toml(job: Dict[str, Any]) -> List[str]:
    """A job's table as TOML: single keys first, then tables, then tables within those."""

    def value(entry: Any) -> str:
        return json.dumps(entry)  # strings, numbers, true, false and lists of strings are the same in TOML

    lines = [f"{key} = {value(entry)}" for key, entry in job.items() if not isinstance(entry, dict)]
    for key, table in job.items():
        if not isinstance(table, dict):
            continue
        lines += ["", f"[{key}]"] + [
            f"{name} = {value(entry)}" for name, entry in table.items() if not isinstance(entry, dict)
        ]
        for name, inner in table.items():
            if isinstance(inner, dict):
                lines += ["", f"[{key}.{name}]"] + [f"{k} = {value(v)}" for k, v in inner.items()]
    return lines
