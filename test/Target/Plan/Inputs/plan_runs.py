# ===- plan_runs.py - runs of fp8-opt for the checks of plans ---------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------=== #

import json
import os
import re
import subprocess

import generic_ir


def run_text(arguments, text=None):
    """Standard output of fp8-opt; fails loudly with its errors."""
    done = subprocess.run(["fp8-opt", *arguments], input=text, capture_output=True, text=True)
    assert done.returncode == 0, f"fp8-opt {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr}"
    return done.stdout


def make_plan(path, text=None, **options):
    """The plan of a file (`-` reads `text`) with the options of --compile."""
    joined = ",".join(f"{key.replace('_', '-')}={value}" for key, value in options.items())
    return json.loads(run_text([path, f"--compile={joined}", "--emit=plan", "-o", "-"], text))


def fail_plan(path, **options):
    """The errors of a run that must end with exit code 1."""
    joined = ",".join(f"{key}={value}" for key, value in options.items())
    done = subprocess.run(["fp8-opt", path, f"--compile={joined}", "--emit=plan"], capture_output=True, text=True)
    assert done.returncode == 1, f"{joined}: expected exit code 1, but got {done.returncode}"
    return done.stderr


_GENERIC = ["--mlir-print-op-generic", "--mlir-print-debuginfo"]


def placed_module(path, **options):
    joined = " ".join(f"{key}={value}" for key, value in options.items())
    return generic_ir.Module(run_text([path, f"--fp8-compile={joined}", *_GENERIC]))


def joint_module(path, target):
    passes = f"builtin.module(fp8-set-target{{target={target}}},fp8-build-backward,fp8-expand-recipes)"
    return generic_ir.Module(run_text([path, f"--pass-pipeline={passes}", *_GENERIC]))


# Ops that own no storage of their own: an override on one would speak for its root.
ALIASES = ("fp8.permute", "fp8.reshape", "fp8.bitcast", "fp8.slice", "fp8.wait", "fp8.remat_barrier")


def override(module, keep):
    """The text of a joint module with `fp8.policy` on every forward op: what keep(op, result) says, a word or whether to save."""
    lines = list(module.lines)
    for function in module.functions():
        for step in [op for op in function.walk() if op.name == "fp8.step"]:
            for op in step.regions[0]:
                if not op.results or op.regions or op.name in ALIASES + ("arith.constant",):
                    continue
                said = [keep(op, result) for result in op.results]
                words = ", ".join(f'"{word if isinstance(word, str) else "save" if word else "recompute"}"' for word in said)
                value = f"[{words}]" if len(op.results) > 1 else words
                lines[op.line] = _with_attribute(lines[op.line], f"fp8.policy = {value}")
    return "\n".join(lines) + "\n"


def _with_attribute(line, attribute):
    start = line.index('"', line.index('"') + 1) + 1
    end = generic_ir.match_bracket(line, start)
    if line[end:].startswith(" <"):
        end = generic_ir.match_bracket(line, end + 1)
    if line[end:].startswith(" {"):
        key = re.escape(attribute.split(" = ")[0])
        rest = re.sub(rf'{key} = ("[^"]*"|\[[^]]*\])(, )?', "", line[end + 2 :], count=1)
        return f"{line[: end + 2]}{attribute}{'' if rest.startswith('}') else ', '}{rest}"
    return f"{line[:end]} {{{attribute}}}{line[end:]}"


def read_target(folder, name):
    """The target called `name` as its file in the compiler's sources states it."""
    with open(os.path.join(folder, f"{name}.json")) as file:
        return json.load(file)
