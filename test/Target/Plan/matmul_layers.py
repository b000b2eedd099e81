#!/usr/bin/env python3
# ===- matmul_layers.py - a stack of the smallest layers ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# matmul_layers.py L   forward IR of L layers x' = tanh(x w), for what depends
#                      on the number of layers alone
#
# ===--------------------------------------------------------------------=== #

import sys

layers = int(sys.argv[1])
kind = "tensor<64x64xbf16>"
weights = [f"%w{layer}: {kind} {{fp8.parameter}}" for layer in range(layers)]
print(f"func.func @layers({', '.join([f'%x0: {kind}', *weights])}) -> {kind} {{")
for layer in range(layers):
    print(f"  %m{layer} = fp8.matmul %x{layer}, %w{layer} : {kind}, {kind} -> {kind}")
    print(f"  %x{layer + 1} = math.tanh %m{layer} : {kind}")
print(f"  return %x{layers} : {kind}\n}}")
