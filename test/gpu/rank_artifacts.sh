#!/usr/bin/env bash
# ===- rank_artifacts.sh - Artifacts and references for run_ranks.sh ---*- Bash -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: rank_artifacts.sh BIN_DIR OUT_DIR
#
# Compiles small layers for two ranks on GPUs, NAME@POLICY.fp8, with their references NAME.ref; NAME-pieces@auto.fp8 has
# gathers in pieces, whose matmuls may have other bits there; a program of collectives alone with what two ranks on CPUs make
# of it, collectives.cpu.json; and two plans of one layer for the faults.
#
# ===----------------------------------------------------------------------=== #
set -euo pipefail

source "$(dirname "$0")/common.sh"
expect_arguments 2 2 "$@"
bin=$1
out=$2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out/faults"
for layer in column-tensorwise column-block128 row-tensorwise row-rowwise row-block128 tp-rowwise tp-block128 fsdp-rowwise fsdp-block128 \
  fsdp-tensorwise; do
  program=$out/$layer.mlir
  python3 "$here/../../examples/gen.py" --layers=2 "--kind=${layer%-*}" --tokens=512 --dim=256 --ffn=512 \
    "--recipe=${layer#*-}" --ranks=2 >"$program"
  "$bin/fp8-opt" "$program" --compile --emit=reference -o "$out/$layer.ref"
  for policy in auto min-cut recompute-all; do
    "$bin/fp8-opt" "$program" "--compile=target=h200,policy=$policy" --emit=artifact -o "$out/$layer@$policy.fp8"
  done
  if [[ $layer == row-rowwise || $layer == tp-block128 ]]; then
    cp "$out/$layer.ref" "$out/$layer-pieces.ref"
    "$bin/fp8-opt" "$program" "--compile=target=h200,pieces=2" --emit=artifact -o "$out/$layer-pieces@auto.fp8"
  fi
  rm "$program"
done
"$bin/fp8-opt" "$here/collectives.mlir" --compile=target=h200 --emit=artifact -o "$out/collectives@auto.fp8"
"$bin/fp8-run" --ranks=2 "$here/collectives.mlir" "--json=$out/collectives.cpu.json" >/dev/null
for plan in a:save-all b:recompute-all; do
  python3 "$here/../../examples/gen.py" --layers=1 --kind=tp --tokens=128 --dim=64 --ffn=128 --recipe=tensorwise --ranks=2 |
    "$bin/fp8-opt" - "--compile=target=h200,policy=${plan#*:}" --emit=artifact -o "$out/faults/${plan%:*}.fp8"
done
du -sh "$out"
