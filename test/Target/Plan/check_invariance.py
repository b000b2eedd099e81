# ===- check_invariance.py - what a plan may not depend on ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_invariance.py GEN SEEDS   plans the random graphs of SEEDS seeds and
#                                 stacks of layers that GEN (examples/gen.py)
#                                 prints, with and without a tight budget
#
# The plan of a function is the same, byte for byte,
#
#  * in every run, on one thread and on many;
#  * when every value, argument and function has another name, after the names
#    are mapped back;
#  * whatever other functions the module has, in whatever order.
#
# ===-----------------------------------------------------------------=== #

import itertools
import json
import random
import re
import subprocess
import sys

from fp8opt.testing.random_graphs import random_graph

RUNS = 2
SSA_NAME = re.compile(r"%([A-Za-z_][\w$.-]*)")
LOCATION = re.compile(r'loc\("([^"]*)"\)')


def plan(text, budget=None, *flags):
    """The plan of a module, as it is printed."""
    options = "target=h200" + (f",budget={budget}" if budget else "")
    done = subprocess.run(["fp8-opt", "-", f"--compile={options}", "--emit=plan", *flags], input=text,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def rename(text, seed):
    """The module with other names for everything, and the function that maps them back in what is printed of it."""
    names = sorted({*SSA_NAME.findall(text), *LOCATION.findall(text), *re.findall(r"func\.func @(\w+)", text)})
    # New ones of one length, no part of another, in an order that has nothing to do with that of the old ones.
    new = dict(zip(names, (f"q{number:06}q" for number in random.Random(seed).sample(range(10**6), len(names)))))
    text = SSA_NAME.sub(lambda match: f"%{new[match[1]]}", text)
    text = LOCATION.sub(lambda match: f'loc("{new[match[1]]}")', text)
    text = re.sub(r"@(\w+)", lambda match: f"@{new[match[1]]}", text)
    old = {name: word for word, name in new.items()}
    return text, lambda printed: re.sub(r"q\d{6}q", lambda match: old[match[0]], printed)


def budgets(text):
    """No budget, and one between the smallest peak and that of the fastest plan."""
    first = json.loads(plan(text))
    return None, (first["min_feasible_peak_bytes"] + first["peak_bytes"]) // 2


def check_program(name, text):
    for budget in budgets(text):
        expected = plan(text, budget)
        for run in range(RUNS):
            assert plan(text, budget) == expected, f"{name}, budget {budget}: another plan in run {run}"
        assert plan(text, budget, "--mlir-disable-threading") == expected, f"{name}, budget {budget}: one thread"
        other, back = rename(text, f"{name}/{budget}")
        assert other != text
        assert back(plan(other, budget)) == expected, f"{name}, budget {budget}: another plan with other names"
        unnamed, again = (LOCATION.sub("", module) for module in (text, other))
        # Lines keep their places, columns do not.
        same = re.sub(r":\d+\"", '"', plan(unnamed, budget)) == re.sub(r":\d+\"", '"', back(plan(again, budget)))
        assert same, f"{name}, budget {budget}: SSA names matter"


def check_module(programs):
    """The functions of `programs` in one module, in any order."""
    alone = {name: json.loads(plan(text))["functions"] for name, text in programs.items()}
    for order in itertools.permutations(programs):
        found = json.loads(plan("\n".join(programs[name] for name in order)))["functions"]
        # A module with states has what ends a step behind all others.
        ends = [entry for entry in found if entry["function"] == "end_of_step"]
        expected = [entry for name in order for entry in alone[name] if entry["function"] != "end_of_step"]
        assert [entry for entry in found if entry not in ends] == expected, f"order {order}: another plan"


def main():
    gen, seeds = sys.argv[1], int(sys.argv[2])
    programs = {}
    for seed in range(seeds):
        programs[f"graph{seed}"] = str(random_graph(seed)[0].emit()).replace("@graph(", f"@graph{seed}(")
    for arguments in (["--layers=7"], ["--layers=5", "--odd-layers=1", "--recipe=block128"],
                      ["--kind=block", "--layers=6", "--tied"]):
        programs[" ".join(arguments)] = subprocess.run([sys.executable, gen, *arguments], capture_output=True,
                                                       check=True, text=True).stdout
    for name, text in programs.items():
        check_program(name, text)
    # Functions without states: those of several would need one `end_of_step` for all.
    stateless = [name for name in programs if name.startswith("graph") and "fp8.state" not in programs[name]]
    check_module({name: programs[name] for name in stateless[:3]})
    print(f"{len(programs)} programs, {len(list(itertools.permutations(stateless[:3])))} orders of functions: ok")


main()
