//===- Plan.cpp - The plan's own figures ----------------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Only the keys that a run is compared with are read.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

#include <nlohmann/json.hpp>

using namespace fp8run;
using Json = nlohmann::json;

std::optional<uint64_t> fp8run::plannedPeakBytes(std::string_view json,
                                                 const std::string &name) {
  Json plan = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  auto read = [&](const Json &entry) -> std::optional<uint64_t> {
    if (!entry.is_object() || entry.value("function", Json()) != name)
      return std::nullopt;
    Json bytes = entry.value("peak_bytes", Json());
    if (!bytes.is_number_unsigned())
      return std::nullopt;
    return bytes.get<uint64_t>();
  };
  if (plan.is_object() && plan.contains("functions") &&
      plan["functions"].is_array())
    for (const Json &entry : plan["functions"])
      if (std::optional<uint64_t> bytes = read(entry))
        return bytes;
  return read(plan);
}
