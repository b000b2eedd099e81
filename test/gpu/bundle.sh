#!/usr/bin/env bash
# ===- bundle.sh - What run.sh needs on a machine with a GPU ---*- Bash -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: bundle.sh BUILD_DIR OUT_DIR
#
# Copies fp8-run, the runtime's tests and their kernels from a build folder, without debug information, and the scripts that
# run them, run.sh and, for two GPUs, run_ranks.sh. They need only the CUDA driver, cuBLASLt, NCCL for two GPUs, the C++
# library and Python.
#
# ===----------------------------------------------------------------------=== #
set -euo pipefail

source "$(dirname "$0")/common.sh"
expect_arguments 2 2 "$@"
build=$1
out=$2
mkdir -p "$out"
for name in fp8-run fp8rt-ContainerTest fp8rt-RunTest fp8rt-ToolTest fp8rt-GpuTest fp8rt-GpuGemmTest fp8rt-GpuRanksTest fp8rt-HostCopiesTest; do
  strip -o "$out/$name" "$build/bin/$name"
done
strip -o "$out/libfp8rt.so" "$build/lib/libfp8rt.so"
find "$build" -name 'fp8rt-test-kernels.cubin' -o -name 'fp8rt-test-kernels.ptx' -o -name 'libfp8rt-test-kernels.so' |
  while read -r file; do cp "$file" "$out/"; done
here=$(dirname "$0")
cp "$here/common.sh" "$here/run.sh" "$here/run_ranks.sh" "$here/../ranks/Inputs/faults.py" "$out/"
du -sh "$out"
