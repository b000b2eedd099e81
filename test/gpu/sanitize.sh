#!/usr/bin/env bash
# ===- sanitize.sh - Artifacts under compute-sanitizer ---*- Bash -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: sanitize.sh BIN_DIR ARTIFACTS [OUT_DIR]
#
# Runs NAME@auto.fp8 and loops_*.fp8 of ARTIFACTS (artifacts.sh), and on two GPUs those in ARTIFACTS/ranks (rank_artifacts.sh)
# on two ranks, for one step under memcheck, racecheck and initcheck, six at a time. One line a run: its exit code, the tool's
# summary, and in which kernels it reported anything; those of cuBLASLt are named nvjet or cutlass, ours k0, k1 and so on. Calls
# of the driver that fail are not errors here: the runtime asks the driver for kernel parameters until there are no more. Nor is
# what initcheck says of fp8rt_exchange and fp8rt_reduce: it does not see what another GPU has written. Exit code 1 where a kernel
# of ours was reported.
#
# ===----------------------------------------------------------------=== #
set -uo pipefail

source "$(dirname "$0")/common.sh"
expect_arguments 2 3 "$@"
bin=$1
artifacts=$2
out=${3:-$(mktemp -d)}
mkdir -p "$out"

# check TOOL ARTIFACT: writes TOOL.NAME.log, and the line about it into TOOL.NAME.line.
check() {
  local tool=$1 artifact=$2 name log summary kernels code
  name=$(basename "$artifact" .fp8)
  log="$out/$tool.$name.log"
  local options=(--tool "$tool" --target-processes all) ranks=()
  [[ $tool == memcheck ]] && options+=(--report-api-errors no)
  [[ $artifact == */ranks/* ]] && ranks=(--ranks=2)
  timeout 240 compute-sanitizer "${options[@]}" "$bin/fp8-run" "$artifact" --backend=cuda "${ranks[@]}" --steps=1 --warmup=0 \
    >"$log" 2>&1
  code=$?
  summary=$(grep -hE 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | sed 's/.*SUMMARY: //' | sort | uniq -c | sed -E 's/^ *([0-9]+) /\1x /' | tr '\n' ' ')
  # "... in kernel" or "at NAME(...)+0x..": the names of what was reported.
  kernels=$(grep -ohE '\b(k[0-9]+|nvjet[A-Za-z0-9_]*|cutlass[A-Za-z0-9_]*)(\(|\+0x| )' "$log" | tr -d '(+ ' | sed 's/0x$//' |
    sort | uniq -c | sort -rn | awk '{printf "%s%s x%s", (NR > 1 ? ", " : ""), substr($2, 1, 24), $1}' | cut -c1-100)
  printf '%-10s %-28s rc %-3d %-60s %s\n' "$tool" "$name" "$code" "${summary:-no summary}" "$kernels" >"$out/$tool.$name.line"
}

for tool in memcheck racecheck initcheck; do
  for artifact in "$artifacts"/*@auto.fp8 "$artifacts"/loops_*.fp8 "$artifacts"/heads_*.fp8 "$artifacts"/ranks/*@auto.fp8; do
    [[ -f $artifact ]] || continue
    while [[ $(jobs -rp | wc -l) -ge 6 ]]; do wait -n; done
    check "$tool" "$artifact" &
  done
done
wait
cat "$out"/*.line || exit 1
echo "logs: $out"
! grep -qE ' k[0-9]+ x' "$out"/*.line
