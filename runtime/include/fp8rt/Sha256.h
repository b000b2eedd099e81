//===- Sha256.h - SHA-256 of a block of bytes -------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one hash used by files, outputs and caches.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_SHA256_H
#define FP8RT_SHA256_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fp8rt {

using Sha256Digest = std::array<uint8_t, 32>;

/// SHA-256 of `bytes`.
Sha256Digest sha256(std::string_view bytes);

/// SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
std::string sha256Hex(std::string_view bytes);

} // namespace fp8rt

#endif // FP8RT_SHA256_H
