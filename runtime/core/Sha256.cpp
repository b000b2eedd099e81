//===- Sha256.cpp - SHA-256 through libcrypto -----------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// libcrypto's SHA-256 uses the processor's SHA instructions where it has them.
//
//===----------------------------------------------------------------------===//

#include "fp8rt/Sha256.h"

#include <openssl/evp.h>

using namespace fp8rt;

Sha256Digest fp8rt::sha256(std::string_view bytes) {
  Sha256Digest digest{};
  unsigned length = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(),
             nullptr);
  return digest;
}

std::string fp8rt::sha256Hex(std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : sha256(bytes)) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}
