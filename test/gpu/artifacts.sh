#!/usr/bin/env bash
# ===- artifacts.sh - Artifacts and references for run.sh ---*- Bash -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: artifacts.sh BIN_DIR OUT_DIR
#
# Compiles the small examples for a Hopper GPU under several policies, NAME@POLICY.fp8, and writes one reference for
# each example, NAME.ref, with the options it was made for in NAME.args. Beside them programs without matmuls
# (loop_programs.py), whose outputs must be equal bit for bit.
#
# ===----------------------------------------------------------------------=== #
set -euo pipefail

source "$(dirname "$0")/common.sh"
expect_arguments 2 2 "$@"
bin=$1
out=$2
examples=$(cd "$(dirname "$0")/../../examples" && pwd)
mkdir -p "$out"

for name in llama3_ffn_small ffn_tensorwise ffn_block128 ffn_delayed; do
  arguments=(--seed=3 --steps=2)
  [[ $name == ffn_delayed ]] && arguments+=(--microbatches=2)
  echo "${arguments[*]}" >"$out/$name.args"
  "$bin/fp8-opt" "$examples/$name.mlir" --compile --emit=reference "${arguments[@]}" -o "$out/$name.ref"
  for policy in save-all recompute-all min-cut auto; do
    "$bin/fp8-opt" "$examples/$name.mlir" "--compile=target=h200,policy=$policy" --emit=artifact \
      -o "$out/$name@$policy.fp8"
  done
  "$bin/fp8-opt" "$examples/$name.mlir" "--compile=target=h200,policy=recompute-all,pieces=2" --emit=artifact \
    -o "$out/$name@pieces.fp8"
done
# Gradients added over microbatches.
name=microbatches
echo --seed=3 --microbatches=3 >"$out/$name.args"
"$bin/fp8-opt" "$examples/ffn_delayed.mlir" --compile=microbatches=3 --emit=reference --seed=3 --microbatches=3 \
  -o "$out/$name.ref"
for casts in step microbatch; do
  "$bin/fp8-opt" "$examples/ffn_delayed.mlir" "--compile=target=h200,microbatches=3,weight-casts=$casts" --emit=artifact \
    -o "$out/$name@$casts.fp8"
done
# Copies to host memory and back.
"$bin/fp8-opt" "$(dirname "$0")/host.mlir" --compile --emit=reference -o "$out/host.ref"
for policy in min-cut auto; do
  "$bin/fp8-opt" "$(dirname "$0")/host.mlir" "--compile=target=h200,policy=$policy" --emit=artifact -o "$out/host@$policy.fp8"
done
# Without matmuls: bit for bit.
python3 "$(dirname "$0")/loop_programs.py" "$out"
for program in "$out"/loops_*.mlir "$out"/heads_*.mlir; do
  "$bin/fp8-opt" "$program" --compile=target=h200 --emit=artifact -o "${program%.mlir}.fp8"
  "$bin/fp8-opt" "$program" --compile=target=h200 --emit=reference -o "${program%.mlir}.ref"
done
# For casts.py.
mkdir -p "$out/casts"
"$bin/fp8-opt" "$(dirname "$0")/casts.mlir" --compile --emit=artifact -o "$out/casts/cpu.fp8"
"$bin/fp8-opt" "$(dirname "$0")/casts.mlir" --compile=target=h200 --emit=artifact -o "$out/casts/gpu.fp8"
du -sh "$out"
