#!/usr/bin/env python3
# ===- layers.py - stacks of layers as joint IR -------------------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# layers.py f14 L   L layers, each of which makes one value that only its own
#                   backward reads
# layers.py p2 L    L layers h' = h + f(h) with h of 1 MiB, where f has four
#                   internal values of 4 MiB, all read by its backward
#
# Layers are opaque ops, so that every value named here is a buffer.
#
# ===------------------------------------------------------------------------=== #

import sys

kind, layers = sys.argv[1], int(sys.argv[2])
small = "tensor<512x512xf32>"  # 1 MiB
large = "tensor<512x2048xf32>"  # 4 MiB
forward, residuals, types, backward, arguments = [], [], [], [], []


def op(name, result, operands, operand_types, result_type, options=""):
    return f'%{result} = fp8.opaque "{name}"({operands}){options} : ({operand_types}) -> {result_type} loc("{result}")'


never = ' {recompute = "never"}'
if kind == "f14":
    for k in range(layers):
        forward.append(op("save", f"s{k}", "%x", small, small, never))
    for k in reversed(range(layers)):
        above = "dy" if k == layers - 1 else f"d{k + 1}"
        backward.append(op("backward", f"d{k}", f"%{above}, %r{k}", f"{small}, {small}", small))
    residuals = [(f"s{k}", f"r{k}", small) for k in range(layers)]
    yielded, result = "", f"%d0"
else:
    # The first h is made, not given, so that it counts.
    forward.append(op("embed", "h0", "%x", small, small, never))
    for k in range(layers):
        source, kind_ = f"h{k}", small
        for j in range(4):
            forward.append(op("f", f"i{k}_{j}", f"%{source}", kind_, large, ' {bytes = 8388608 : i64}'))
            source, kind_ = f"i{k}_{j}", large
        forward.append(op("project", f"p{k}", f"%{source}", large, small))
        forward.append(f"%h{k + 1} = arith.addf %h{k}, %p{k} {{fp8.checkpoint}} : {small} loc(\"h{k + 1}\")")
        residuals += [(f"i{k}_{j}", f"r{k}_{j}", large) for j in range(4)]
    for k in reversed(range(layers)):
        above = "dy" if k == layers - 1 else f"d{k + 1}"
        reads = ", ".join(f"%r{k}_{j}" for j in range(4))
        backward.append(op("backward", f"d{k}", f"{reads}, %{above}", ", ".join([large] * 4 + [small]), small))
    yielded, result = f"%h{layers}", "%d0"

names = ", ".join(f"%{name}" for name, _, _ in residuals)
types = ", ".join(type_ for _, _, type_ in residuals)
formal = ", ".join(f"%{name}: {type_}" for _, name, type_ in residuals)
count = 2 if yielded else 1
results = ", ".join([small] * count)
print(f'func.func @layers(%x: {small} loc("x"), %dy: {small} {{fp8.tangent}} loc("dy")) -> ({results}) {{')
print(f"  %results{':2' if count == 2 else ''} = fp8.step -> ({results}) forward {{")
print("".join(f"    {line}\n" for line in forward), end="")
print(f"    fp8.yield {yielded} residuals({names}){' : ' + small if yielded else ''} residuals({types})")
print(f"  }} backward ({formal}) {{")
print("".join(f"    {line}\n" for line in backward), end="")
print(f"    fp8.yield {result} : {small}\n  }}")
returned = "%results#0, %results#1" if count == 2 else "%results"
print(f"  return {returned} : {results}\n}}")
