# ===- deepseek_frees.py - what late frees cost a layer ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Plans the dense and the expert layer of DeepSeek-V3 on one of 16 tensor-parallel ranks at 65,536 tokens, and prints
#
# * what each keeps for backward, beside the tables of the same layer in TransformerEngine and by DeepSeek's policy;
# * its peak if the same kernels freed what they make at the end of the block, if gathered tensors alone were held that long
#   (TransformerEngine before its pull request 2125), if a linear held its operands until its backward ends (TransformerEngine
#   since), and as planned;
# * the gathered tensors that are then held too long, one by one;
# * both for experts that have room for more tokens than the balanced number.
#
# docs/ranks.md shows the output; needs fp8-opt and no GPU.
#
# usage: python bench/deepseek_frees.py
#
# ===---------------------------------------------------------------------=== #
"""Prints kept bytes, peaks by when things are freed, and what is freed late, of DeepSeek-V3's layers."""

import json
import pathlib
import re
import subprocess
import sys
from dataclasses import replace

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

from deepseek import FULL, deepseek_layer  # noqa: E402
from fp8opt.libraries import find_tool  # noqa: E402

MIB = 2**20
RANKS = 16
# Transfers start where they are needed: starting earlier takes memory for time, and this is about frees.
DEFAULTS = {"target": "h200", "policy": "recompute-all", "overlap": "none"}
INPUT = 2 * FULL.tokens // RANKS * FULL.hidden

# What is kept, by name. In bf16 nothing is computed again but SwiGLU's factors and the rows of the norms, as in
# TransformerEngine. By DeepSeek's policy (arXiv 2412.19437, 3.2.3 and 3.3.3) norms, up-projections and SwiGLU are, and
# SwiGLU's input and the experts' tokens are kept in FP8, and attention's result in 12 bits. Its other result is the sums of
# the softmax.
BF16 = r"norm[12]|[qk]v?_down|[qk]v?_norm|q|k_v|o|middle|router|shares|routed|(shared\.|experts\.\d\.)?(fc1|act)"
POLICY = r"[qk]v?_down|o#1|o#0\.e5m6(\.scale)?|middle|router|shares|(routed#\d|(shared\.|experts\.\d\.)?fc1)\.row128\.(e4m3|scale)"
LOSSY = {"dense": "o#0:e5m6+fc1:1x128", "moe": "o#0:e5m6+routed:1x128+shared.fc1:1x128+experts.*.fc1:1x128"}
# The tables of docs/rank.md's sources: MiB kept by one layer, its input included.
TABLE = {("dense", "bf16"): 1330, ("moe", "bf16"): 1778, ("dense", "policy"): 375, ("moe", "policy"): 606}


def fp8_opt(text, *options):
    done = subprocess.run([find_tool("fp8-opt"), "-", *options], input=text, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[:2000])
    return done.stdout


def keep(joint, pattern):
    """A joint program in generic form, whose forward values of matching names are marked to be kept: all results of an op,
    or those that match with their number."""
    names = dict(re.findall(r'^(#loc\d*) = loc\("([^"]*)"', joint, re.MULTILINE))
    lines = joint.splitlines()
    end = next(index for index, line in enumerate(lines) if '"fp8.yield"' in line)
    for index, line in enumerate(lines[:end]):
        found = re.match(r'\s*%\w+(?::(\d+))? = "(?:fp8|arith)\.\w+"\(.*loc\((#loc\d*)\)$', line)
        name = names.get(found[2], "") if found else ""
        keeps = [any(re.fullmatch(pattern, text) for text in (name, f"{name}#{result}"))
                 for result in range(int(found[1] or 1) if found else 0)]
        if not any(keeps) or '"fp8.permute"' in line:
            continue
        words = ", ".join('"save"' if kept else '"recompute"' for kept in keeps)
        policy = f"fp8.policy = [{words}]" if found[1] else f"fp8.policy = {words}"
        head, tail = line.split(" : (", 1)
        lines[index] = (f"{head[:-1]}, {policy}}} : ({tail}" if head.endswith("}") and not head.endswith("}>")
                        else f"{head} {{{policy}}} : ({tail}")
    return "\n".join(lines)


def plan(kind, recipe="block128", kept="", lossy="", capacity=1.0, **options):
    """A plan of the layer, for an H200; of what is named in `kept`, where that is given."""
    text = str(deepseek_layer(kind, replace(FULL, capacity=capacity), RANKS, recipe))
    if kept:
        joint = fp8_opt(text, f"--compile=target=h200{f',lossy={lossy}' if lossy else ''}", "--compile-to=joint",
                        "--mlir-print-op-generic", "--mlir-print-debuginfo")
        text = keep(joint, kept)
    settings = ",".join(f"{key}={value}" for key, value in {**DEFAULTS, **options}.items())
    made = json.loads(fp8_opt(text, f"--compile={settings}", "--emit=plan"))
    # The report has the peak if everything were freed at the end of its region, where nothing is written over anything.
    report = fp8_opt(text, f"--compile={settings}", "--emit=report")
    made["naive_peak"] = int(re.search(r"peak if freed at end +([0-9,]+) B", report)[1].replace(",", ""))
    return made


def frees(plan):
    """Of each free: its entry, the index of the kernel after which it is, and that of the end of its region."""
    order = [entry["op"] for entry in plan["timeline"]]
    where = {(entry["op"], entry["kind"]): index for index, entry in enumerate(plan["timeline"])}
    return order, [(entry, where[entry["after"], entry["after_kind"]], where[entry["naive_after"], entry["naive_after_kind"]])
                   for entry in plan["frees"]]


# A linear's gradient, cast by rows for the gradient of its input, and the gradient of its weight.
ROWS = re.compile(r"d_(.*?)(?:#\d+)?(\.part)?\.row128\.(e4m3|scale)$")
# Gradients that an opaque op makes have its name.
RENAMED = {"k_v": "q_up", "q": "q_up", "kv": "kv_up"}


def until_weight(entry, order, position):
    """Where TransformerEngine frees it: the rows of a gradient with the columns, behind the gradient of the weight."""
    found = ROWS.match(entry["value"])
    if not found:
        return position
    # The gradients of all experts' results are made by one op.
    expert = re.match(r"d_(experts\.\d)\.act", entry["after"])
    weight = f"d_{expert[1]}.fc2.w" if expert else f"d_{RENAMED.get(found[1], found[1])}.w"
    return max(position, order.index(weight)) if weight in order else position


def gathered(entry):
    """Whether it is an FP8 tensor of all tokens and the whole width, gathered or moved from a gathered one, or its scales."""
    size = FULL.tokens * FULL.hidden
    return bool(re.search(r"(_all|\.part)\.(row|col)128\.(e4m3|scale)", entry["value"])) and entry["bytes"] in (size, size // 32)


def peaks(plan):
    """The peak by when things are freed; and what is freed later than planned, by rule."""
    order, all_frees = frees(plan)
    live = [entry["live_bytes"] for entry in plan["timeline"]]
    rules = {
        "gathered": lambda entry, now, end: end if gathered(entry) else now,
        "b": lambda entry, now, end: until_weight(entry, order, now),
        "c": lambda entry, now, end: now,
    }
    result, late = {"a": plan["naive_peak"]}, {}
    for rule, place in rules.items():
        held = list(live)
        late[rule] = []
        for entry, now, end in all_frees:
            then = place(entry, now, end)
            for index in range(now + 1, then + 1):
                held[index] += entry["bytes"]
            if then > now:
                late[rule].append((entry, order[then]))
        result[rule] = max(held)
    assert result["c"] == plan["peak_bytes"]
    return result, late


def kept(kind):
    """Prints what the layer keeps; gives the plan by DeepSeek's policy."""
    print(f"kept by one {kind} layer, MiB, its input included")
    policy = plan(kind, kept=POLICY, lossy=LOSSY[kind])
    for what, label, made in (("bf16", "bf16, nothing computed again", plan(kind, "bf16", BF16)),
                              ("policy", "DeepSeek's policy", policy)):
        print(f"  {label:<40}{(made['saved_bytes'] + INPUT) / MIB:9,.1f}{TABLE[kind, what]:9,} in the table")
    attention = sum(entry["bytes"] for entry in policy["saved"] if entry["value"] == "o#0.e5m6.scale")
    routing = sum(entry["bytes"] for entry in policy["saved"] if re.match(r"(router|shares)(#\d+)?$", entry["value"]))
    print(f"  of that: scales of attention's result {attention / MIB:+.1f}; "
          f"choice and weights of the experts {routing / MIB:+.1f}")
    return policy


def report(kind):
    policy = kept(kind)
    full = plan(kind)
    least = plan(kind, policy="auto", budget=full["min_feasible_peak_bytes"])
    print(f"peak of one {kind} layer, MiB, gradients of weights included  {'(a)':>8}{'before':>9}{'(b)':>9}{'(c)':>9}")
    for label, made in (("all computed again", full), ("DeepSeek's policy", policy), ("auto, smallest budget", least)):
        by_rule, late = peaks(made)
        print(f"  {label:<66}" + "".join(f"{by_rule[rule] / MIB:9,.0f}" for rule in ("a", "gathered", "b", "c")))
    _, late = peaks(full)
    for rule, label in (("gathered", "held to the end of the block"), ("b", "held until the gradient of the weight")):
        entries = [entry for entry, _ in late[rule] if entry["value"].endswith(("e4m3", "e4m3.t", "e4m3~recomputed"))]
        forward = sum(entry["naive_after"] == "out" for entry in entries)
        print(f"{label}: {forward} tensors in forward, {len(entries) - forward} in backward, "
              f"{sum(entry['bytes'] for entry, _ in late[rule]) / MIB:,.0f} MiB with scales")
        for entry, then in late[rule]:
            if entry in entries:
                print(f"  {entry['value']:<42}{entry['bytes'] / MIB:7,.1f}  free after {entry['after']}")


def main():
    for kind in ("dense", "moe"):
        if kind == "moe":
            print()
        report(kind)
    print("\nexperts with room for more than the balanced number of tokens, DeepSeek's policy, MiB")
    print(f"  {'capacity':<12}{'kept':>9}{'peak':>9}")
    for capacity in (1.0, 1.5, 2.0):
        made = plan("moe", kept=POLICY, lossy=LOSSY["moe"], capacity=capacity)
        print(f"  {capacity:<12}{(made['saved_bytes'] + INPUT) / MIB:9,.0f}{made['peak_bytes'] / MIB:9,.0f}")


if __name__ == "__main__":
    main()
