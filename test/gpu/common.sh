# ===- common.sh - What the scripts of this folder share ---*- Bash -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Sourced by the others: the check of their arguments, and the line about a test of the runtime.
#
# ===------------------------------------------------------------------=== #

# Prints the calling script's usage and ends it unless it has between LEAST and MOST arguments.
expect_arguments() { # LEAST MOST ARGUMENT...
  local least=$1 most=$2
  shift 2
  if [[ $# -lt $least || $# -gt $most ]]; then
    sed -n 's/^# usage: /usage: /p' "$0"
    exit 1
  fi
}

# Runs a test of the runtime, with its log in OUT_DIR; one line, and what failed. Sets `failed` then.
run_test() { # TEST OUT_DIR
  local name code
  name=$(basename "$1")
  timeout 300 "$1" >"$2/$name.log" 2>&1
  code=$?
  [[ $code -eq 0 ]] || failed=1
  printf '%-26s rc %-3d %s\n' "$name" "$code" \
    "$(grep -E '^\[  (PASSED|FAILED|SKIPPED) .*tests?[.,]' "$2/$name.log" | tr -s ' []' ' ' | paste -sd' ' -)"
  grep -A6 -E ': Failure$' "$2/$name.log" | head -n 24
}
