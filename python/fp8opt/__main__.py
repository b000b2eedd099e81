# ===- __main__.py - the command fp8opt ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `fp8opt NAME ...` and `python -m fp8opt NAME ...`: a table of subcommands. A subcommand's module is imported only when it
# is called, so that none needs what another one needs.
#
# ===--------------------------------------------------------===#
"""The command line of the package."""

import importlib
import importlib.metadata
import os
import sys
from typing import List, Optional

from .command import InputError

__all__ = ["COMMANDS", "main"]

# Name: (module with `main(arguments: List[str]) -> int`, what it does, in one line).
COMMANDS = {
    "explain": (".explanations.main", "what PyTorch keeps of a captured graph, what a plan keeps, which change helps"),
    "job": (".megatron.main", "a job file from the arguments of a Megatron-LM run, in its launch script or its log"),
    "params": (".params.main", "bytes of a parameter and of the parameters of each rank, item by item"),
    "pipeline": (".pipeline.main", "microbatches in flight on each pipeline rank, by simulating the schedule"),
    "rank": (".rank.main", "the memory of each pipeline rank of a job, and the lightest recomputation that fits"),
    "audit": (".audit.main", "what a run held beyond its plan, from a PyTorch memory snapshot"),
}


def usage() -> str:
    """The list of subcommands."""
    lines = ["usage: fp8opt COMMAND ...    (fp8opt COMMAND --help says more)", ""]
    lines += [f"  {name:<12} {summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join(lines)


def _version() -> str:
    """The version of the installed package, or that it runs from its sources."""
    try:
        return importlib.metadata.version("fp8opt")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def _drop_output() -> None:
    """Leaves nothing that the interpreter would try to write at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs one subcommand; gives the exit code: 0, or 1 with a line `error: ...` on standard error."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if arguments[0] == "--version":
        print(f"fp8opt {_version()}")
        return 0
    try:
        if arguments[0] not in COMMANDS:
            raise InputError(f"expected a command of {', '.join(COMMANDS)}, but got '{arguments[0]}'")
        module, _ = COMMANDS[arguments[0]]
        code: int = importlib.import_module(module, __package__).main(arguments[1:])
        sys.stdout.flush()
        return code
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of the output (`| head`) has left: nothing more to say, and nothing to flush at exit.
        _drop_output()
        return 1
    except OSError as error:
        # Files that cannot be read or written are input errors: this is the standard output, as of a full disk.
        print(f"error: cannot write the output: {error.strerror or error}", file=sys.stderr)
        _drop_output()
        return 1


if __name__ == "__main__":
    sys.exit(main())
