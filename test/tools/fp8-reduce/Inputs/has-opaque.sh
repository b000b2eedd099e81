#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Exit code 1 (interesting, as mlir-reduce counts) for a program with an fp8.opaque.
grep -q 'fp8.opaque "kept"' "$1" && exit 1
exit 0
