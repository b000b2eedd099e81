# ===- main.py - the subcommand explain ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `python -m fp8opt explain DUMP.json`: needs no torch.
#
#===----------------------------------------------------------------------===//
"""The command line of explanations."""

from __future__ import annotations

import json
from typing import List

from ..graphs.graph import GraphError, load
from ..command import InputError, Parser, parse_bytes
from .explanation import explain_graph


def main(arguments: List[str]) -> int:
    """Explains a dump of a captured graph; gives the exit code."""
    parser = Parser(prog="fp8opt explain", description="Say what PyTorch keeps of a captured graph from forward to "
                    "backward, what a plan of fp8-opt would keep, and which change helps.")
    parser.add_argument("dump", help="a file that fp8opt.capture(...).save() wrote")
    parser.add_argument("--budget", action="append", default=[], metavar="SIZE",
                        help="also plan within this peak, such as 40GiB; may be repeated")
    parser.add_argument("--target", default="h200", help="device to plan for (default: h200)")
    parser.add_argument("--fp8-opt", metavar="PATH", help="an fp8-opt to run instead of the package's library")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    options = parser.parse_args(arguments)
    for budget in options.budget:
        parse_bytes(budget)
    try:
        explanation = explain_graph(load(options.dump), options.budget, options.target, options.fp8_opt)
    except OSError as error:
        raise InputError(f"cannot read '{options.dump}': {error.strerror}") from None
    except GraphError as error:
        raise InputError(f"{options.dump}: {error}") from None
    print(json.dumps(explanation.summary(), indent=2) if options.json else explanation, end="\n" if options.json else "")
    return 1 if explanation.problems and not explanation.plans else 0
