#!/usr/bin/env bash
# ===- check-wheel.sh - the wheel as a new user has it ---*- Bash -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: check-wheel.sh [--torch] WHEEL PYTHON...
#
# For each Python: a fresh virtual environment with the wheel in it, docs/python.md run in an empty folder, and each tool
# once. As root all of it happens where no LLVM is: its folder and its libraries are hidden from the processes. With --torch
# the last Python gets the wheel with its extra `torch` too, and runs docs/tutorial.md.
#
# ===----------------------------------------------------------------------=== #
set -euo pipefail
torch=
if [[ ${1:-} == --torch ]]; then
  torch=yes
  shift
fi
wheel=$(realpath "$1")
shift
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$source/docs/python.md" "$source/docs/tutorial.md" "$source/utils/python_page.py" "$source/examples/llama3_ffn_small.mlir" "$work"

# Becomes its arguments in a mount namespace without LLVM, MLIR, the CUDA toolkit and this source tree.
cat >"$work/hide.sh" <<'TEXT'
set -e
cd "$1"
shift
hide() { if [[ -d $1 ]]; then mount -t tmpfs none "$(realpath "$1")"; fi; }
hide /usr/lib/llvm-22
hide /usr/local/cuda
touch empty
for file in /usr/lib/x86_64-linux-gnu/{libLLVM,libMLIR,libz3,libicudata,libxml2,libedit}*; do
  if [[ -f $file ]]; then mount --bind empty "$(realpath "$file")"; fi
done
exec "$@"
TEXT
run=(env -i HOME="$work" PATH=/usr/bin:/bin)
if [[ $EUID -eq 0 ]] && unshare -m true 2>/dev/null; then
  run+=(unshare -m bash "$work/hide.sh" "$work")
  echo "LLVM is hidden"
else
  echo "LLVM is not hidden: that needs root"
fi

for python in "$@"; do
  env=$work/env
  "$python" -m venv --clear "$env"
  "$env/bin/python" -m pip install -q --disable-pip-version-check "$wheel"
  "$env/bin/python" --version
  cd "$work"
  "${run[@]}" "$env/bin/python" "$work/python_page.py" "$work/python.md"
  "${run[@]}" "$env/bin/fp8-opt" --version
  "${run[@]}" "$env/bin/fp8-run" "$work/llama3_ffn_small.mlir" --policy=auto --check | tail -1
  "${run[@]}" "$env/bin/fp8-opt" "$work/llama3_ffn_small.mlir" --compile=target=h200 --emit=artifact -o "$work/h200.fp8"
  printf 'id,lower,upper,size\na,0,1,256\n' >"$work/items.csv"
  "${run[@]}" "$env/bin/fp8-pack" "$work/items.csv" --capacity=256 -o "$work/packed.csv"
  "${run[@]}" "$env/bin/fp8opt" --help >/dev/null
done
if [[ $torch ]]; then
  "$env/bin/python" -m pip install -q --disable-pip-version-check "fp8opt[torch] @ file://$wheel"
  "${run[@]}" "$env/bin/python" "$work/python_page.py" "$work/tutorial.md"
fi
