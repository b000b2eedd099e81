#!/usr/bin/env bash
# ===- run.sh - Runs a folder of artifacts on a GPU in every mode ---*- Bash -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: run.sh BIN_DIR ARTIFACTS [OUT_DIR]
#
# BIN_DIR holds fp8-run, and the runtime's tests where they are to run too (bundle.sh copies them). ARTIFACTS holds
# NAME.fp8 or, for several plans of one program, NAME@PLAN.fp8; NAME.ref (a reference) where outputs are to be compared;
# NAME.args where the reference is for other options than the defaults (artifacts.sh makes all of them). Needs neither the
# compiler nor the sources.
#
# Each artifact runs in planned memory (its first step watched), in dynamic memory, with a check in both (every step
# watched, freed storage poisoned, outputs compared), as a CUDA graph, and on three streams with and without one. One line a run: measured peak against the
# plan's, the pool's own figure, the relative error, the step's time, and whether the outputs have the bits of the
# program's first run, which they must have under every plan and in every mode. Exit code 1 where anything failed. Logs
# and JSON go to OUT_DIR. Run from a source tree, it compares the casts of ARTIFACTS/casts with the CPU's on 64 million values at
# the end (casts.py, which needs torch).
#
# ===----------------------------------------------------------------------=== #
set -uo pipefail

source "$(dirname "$0")/common.sh"
expect_arguments 2 3 "$@"
bin=$1
artifacts=$2
out=${3:-$(mktemp -d)}
mkdir -p "$out"
rm -f "$out"/*.json
failed=0

for test in "$bin"/fp8rt-*Test; do
  [[ -x $test ]] && run_test "$test" "$out"
done

printf '%-34s %-14s %3s %18s %14s %9s %9s %s\n' artifact mode rc 'peak' 'pool' 'rel.err' 'ms' outputs
for artifact in "$artifacts"/*.fp8; do
  name=$(basename "$artifact" .fp8)
  program=${name%%@*}
  arguments=()
  [[ -f $artifacts/$program.args ]] && read -r -a arguments <"$artifacts/$program.args"
  check=()
  [[ -f $artifacts/$program.ref ]] && check=("--check=$artifacts/$program.ref")
  for mode in planned dynamic planned-check dynamic-check graph streams streams-graph; do
    options=("${arguments[@]}")
    case $mode in
    planned-check | dynamic-check)
      [[ ${#check[@]} -gt 0 ]] || continue
      options+=("${check[@]}")
      ;;
    graph) options+=(--graph "${check[@]}") ;;
    streams) options+=(--streams=3 "${check[@]}") ;;
    streams-graph) options+=(--streams=3 --graph "${check[@]}") ;;
    esac
    case $mode in dynamic*) options+=(--memory=dynamic) ;; esac
    log="$out/$name.$mode.log"
    json="$out/$name.$mode.json"
    rm -f "$json"
    timeout 300 "$bin/fp8-run" "$artifact" --backend=cuda "${options[@]}" --json="$json" >"$log" 2>&1
    code=$?
    [[ $code -eq 0 ]] || failed=1
    [[ -f $json && ! -f $out/$program.first.json ]] && cp "$json" "$out/$program.first.json"
    python3 - "$name" "$mode" "$code" "$json" "$out/$program.first.json" <<'PY' || failed=1
import json, os, sys
name, mode, code, path, base = sys.argv[1:]
def load(path):
    return json.load(open(path)) if os.path.exists(path) else None
run, first = load(path), load(base)
if run is None:
    print(f"{name:34} {mode:14} {code:>3}")
    sys.exit()
peak = run["measured_peak_bytes"]
text = f"{peak}{'=' if peak == run['planned_peak_bytes'] else '!'}"
pool = run.get("pool_high_bytes")
error = run["max_rel_error"]
times = sorted(run["step_ms"])
hashes = lambda r: [o["sha256"] for o in r["outputs"]]
same = hashes(run) == hashes(first)
print(f"{name:34} {mode:14} {code:>3} {text:>18} {pool if pool is not None else '-':>14} "
      f"{'-' if error is None else format(error, '.2e'):>9} {times[len(times) // 2]:9.3f} {'equal' if same else 'DIFFER'}")
sys.exit(not same)
PY
    [[ $code -eq 0 ]] || grep -h 'error:' "$log" | cut -c1-200 | head -n 3
  done
done
if [[ -d $artifacts/casts && -f $(dirname "$0")/casts.py ]]; then
  FP8RT_LIBRARY=$bin/libfp8rt.so python3 "$(dirname "$0")/casts.py" "$artifacts/casts/cpu.fp8" \
    "$artifacts/casts/gpu.fp8" || failed=1
fi
echo "logs: $out"
exit "$failed"
