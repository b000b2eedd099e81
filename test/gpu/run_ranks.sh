#!/usr/bin/env bash
# ===- run_ranks.sh - Runs a folder of artifacts on two GPUs ---*- Bash -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: run_ranks.sh BIN_DIR ARTIFACTS [OUT_DIR]
#
# BIN_DIR is what bundle.sh made, ARTIFACTS what rank_artifacts.sh made. Needs two GPUs, NCCL and Python. Each artifact
# runs in planned memory with a check (every step watched, outputs compared with the interpreter's) and as a CUDA graph, some
# also in dynamic memory, on three streams, and with each rank asleep before its collectives in turn. One line a run: each rank's
# measured peak against the plan's, the relative error, the time of a step, and whether outputs have the bits of the
# program's first run, which they must have under every plan and in every mode; of a program without matmuls, the bits of
# two ranks on CPUs. Then a start by torchrun, and faults. Exit code 1 where anything failed. Logs and JSON go to OUT_DIR.
#
# FP8RT_TRANSFERS=nccl has NCCL carry tensors that the copy engines carry otherwise: both ways have to pass.
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
package=$(python3 -c 'import nvidia.nccl as n; print(list(n.__path__)[0])' 2>/dev/null)
export LD_LIBRARY_PATH=${package:+$package/lib:}${LD_LIBRARY_PATH:-}

for test in fp8rt-RunTest fp8rt-GpuTest fp8rt-GpuGemmTest fp8rt-GpuRanksTest; do
  run_test "$bin/$test" "$out"
done

line() { # NAME MODE CODE JSON FIRST
  python3 - "$@" <<'PY'
import json, os, sys
name, mode, code, path, base = sys.argv[1:]
def load(path):
    return json.load(open(path)) if os.path.exists(path) else None
run, first = load(path), load(base)
if run is None:
    print(f"{name:32} {mode:14} {code:>3}")
    sys.exit(1)
peaks = " ".join(f"{r['measured_peak_bytes']}{'=' if r['measured_peak_bytes'] == r['planned_peak_bytes'] else '!'}"
                 for r in run["ranks"])
error = run["max_rel_error"]
times = sorted(run["step_ms"])
hashes = lambda r: [o["sha256"] for o in r["outputs"]]
same = hashes(run) == hashes(first)
print(f"{name:32} {mode:14} {code:>3} {peaks:>28} {'-' if error is None else format(error, '.2e'):>9} "
      f"{times[len(times) // 2]:9.3f} {'equal' if same else 'DIFFER'}", flush=True)
if not same:
    print("   ", [a["name"] for a, b in zip(run["outputs"], first["outputs"]) if a["sha256"] != b["sha256"]])
sys.exit(not same)
PY
}

run() { # NAME MODE
  local name=$1 mode=$2 program=${1%%@*} check=() options=()
  local first=$out/$program.first.json json=$out/$name.$mode.json log=$out/$name.$mode.log
  [[ -f $artifacts/$program.cpu.json ]] && first=$artifacts/$program.cpu.json
  [[ -f $artifacts/$program.ref ]] && check=("--check=$artifacts/$program.ref")
  case $mode in
  check) options=("${check[@]}") ;;
  dynamic-check) options=("${check[@]}" --memory=dynamic) ;;
  graph) options=(--graph) ;;
  streams) options=(--streams=3) ;;
  streams-graph) options=(--streams=3 --graph) ;;
  delay-*) options=("--delay=${mode#delay-}:-1:20" --warmup=0) ;;
  esac
  timeout 60 "$bin/fp8-run" --ranks=2 "$artifacts/$name.fp8" --backend=cuda "${options[@]}" "--json=$json" >"$log" 2>&1
  local code=$?
  [[ $code -eq 0 ]] || failed=1
  [[ -f $json && ! -f $first ]] && cp "$json" "$first"
  line "$name" "$mode" "$code" "$json" "$first" || failed=1
  [[ $code -eq 0 ]] || grep -h 'error:\|NCCL WARN' "$log" | cut -c1-300 | head -n 4
}

printf '%-32s %-14s %3s %28s %9s %9s %s\n' artifact mode rc 'peak of each rank' 'rel.err' 'ms' outputs
export NCCL_DEBUG=${NCCL_DEBUG:-WARN}
for name in collectives@auto fsdp-rowwise@auto tp-block128@auto; do
  for mode in check graph dynamic-check streams streams-graph delay-0 delay-1; do
    run "$name" "$mode"
  done
done

artifact=$artifacts/fsdp-rowwise@auto.fp8
if command -v torchrun >/dev/null || python3 -c 'import torch.distributed.run' 2>/dev/null; then
  timeout 120 python3 -m torch.distributed.run --nproc-per-node=2 --no-python "$bin/fp8-run" "$artifact" --backend=cuda \
    "--json=$out/torchrun.json" >"$out/torchrun.log" 2>&1
  code=$?
  line fsdp-rowwise@auto torchrun "$code" "$out/torchrun.json" "$out/fsdp-rowwise.first.json" || failed=1
  [[ $code -eq 0 ]] || grep -h 'error:' "$out/torchrun.log" | cut -c1-300 | head -n 3
fi

cp -r "$artifacts/faults" "$out/" && timeout 240 python3 "$(dirname "$0")/faults.py" --gpu "$bin/fp8-run" "$out/faults" 2>&1 || failed=1
rm -rf "$out/faults"
for artifact in "$artifacts"/*.fp8; do
  name=$(basename "$artifact" .fp8)
  [[ -f $out/$name.check.json ]] || run "$name" check
  [[ $name == *@auto && ! -f $out/$name.graph.json ]] && run "$name" graph
done
echo "logs: $out; failed: $failed"
exit "$failed"
