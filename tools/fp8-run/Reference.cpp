//===- Reference.cpp - Comparing outputs with a reference -----------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A reference names its outputs, so that the two lists are matched by name and
// an output that is absent from either is an error.
//
//===----------------------------------------------------------------------===//

#include "Reference.h"

#include "fp8rt/Container.h"
#include "fp8rt/Sha256.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

using namespace fp8run;
using namespace fp8rt;
using Json = nlohmann::json;

namespace {

std::string valueText(const Output &output, std::string_view bytes,
                      size_t element) {
  // Enough digits to tell any two f32 apart.
  char text[64];
  std::snprintf(text, sizeof(text), "%.9g",
                loadElement(bytes.data(), output.dtype, element));
  return text;
}

std::string indexText(const std::vector<int64_t> &shape, size_t element) {
  std::string text;
  for (size_t d = shape.size(); d-- > 0;) {
    auto size = static_cast<size_t>(shape[d]);
    text = std::to_string(element % size) + (text.empty() ? "" : ", ") + text;
    element /= size;
  }
  return "[" + text + "]";
}

void compareOutput(const Output &output, std::string_view expected,
                   Comparison &comparison) {
  size_t size = dtypeBytes(output.dtype);
  size_t count = output.bytes.size() / size;
  double difference = 0, norm = 0, own = 0;
  bool bad = false;
  for (size_t i = 0; i < count; ++i) {
    double a = loadElement(output.bytes.data(), output.dtype, i);
    double b = loadElement(expected.data(), output.dtype, i);
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      if (std::isfinite(b))
        norm += b * b, own += a * a;
      continue;
    }
    if (!std::isfinite(a) || !std::isfinite(b)) {
      bad = true;
      continue;
    }
    difference += (a - b) * (a - b);
    norm += b * b;
    own += a * a;
  }
  double error = bad        ? std::numeric_limits<double>::max()
                 : norm > 0 ? std::sqrt(difference / norm)
                            : std::sqrt(own);
  if (error > comparison.maxRelativeError) {
    comparison.maxRelativeError = error;
    comparison.worstOutput = output.name;
  }

  // The sign and payload of a NaN are not defined (docs/numerics.md).
  auto differs = [&](size_t i) {
    return std::memcmp(output.bytes.data() + i * size,
                       expected.data() + i * size, size) != 0 &&
           !(std::isnan(loadElement(output.bytes.data(), output.dtype, i)) &&
             std::isnan(loadElement(expected.data(), output.dtype, i)));
  };
  if (output.bytes == expected || !comparison.firstDifference.empty())
    return;
  size_t first = count, differing = 0;
  for (size_t i = 0; i < count; ++i)
    if (differs(i)) {
      first = std::min(first, i);
      ++differing;
    }
  if (differing == 0)
    return;
  comparison.firstDifference =
      "output '" + output.name + "' differs from the reference in " +
      std::to_string(differing) + " of " + std::to_string(count) +
      " elements, first at " + indexText(output.shape, first) + ": expected " +
      valueText(output, expected, first) + ", but got " +
      valueText(output, output.bytes, first);
}

class ReferenceReader {
public:
  ReferenceReader(const std::string &path, std::string &error)
      : path(path), error(error) {}

  bool fail(const std::string &message) {
    error = "'" + path + "': " + message;
    return false;
  }

  bool open() {
    container = Container::readFile(path, ContainerKind::Reference, error);
    if (!container)
      return false;
    std::optional<std::string_view> text = container->section("manifest");
    if (!text)
      return fail("the reference has no section 'manifest'");
    manifest = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (!manifest.is_object() || !manifest.contains("schema") ||
        manifest["schema"] != "fp8opt-reference-1")
      return fail("expected the schema 'fp8opt-reference-1'");
    if (!manifest.contains("outputs") || !manifest["outputs"].is_array())
      return fail("expected an array 'outputs'");
    data = container->section("data").value_or("");
    return true;
  }

  bool checkNumber(const char *key, uint64_t expected) {
    if (!manifest.contains(key) || !manifest[key].is_number_unsigned())
      return fail(std::string("expected an integer '") + key + "'");
    auto got = manifest[key].get<uint64_t>();
    if (got != expected)
      return fail("the reference is for " + std::string(key) + " " +
                  std::to_string(got) + ", but the run has " +
                  std::to_string(expected));
    return true;
  }

  /// The bytes of the output that corresponds to `output`.
  bool find(const Output &output, std::string_view &bytes) {
    for (const Json &entry : manifest["outputs"]) {
      if (!entry.is_object() || entry.value("name", Json()) != output.name)
        continue;
      Json offset = entry.value("offset", Json());
      Json size = entry.value("bytes", Json());
      if (!offset.is_number_unsigned() || !size.is_number_unsigned() ||
          offset.get<uint64_t>() > data.size() ||
          size.get<uint64_t>() > data.size() - offset.get<uint64_t>())
        return fail("output '" + output.name + "' leaves the data");
      if (entry.value("dtype", Json()) != dtypeName(output.dtype) ||
          entry.value("shape", Json()) != Json(output.shape) ||
          size.get<uint64_t>() != output.bytes.size())
        return fail("expected output '" + output.name + "' as " +
                    dtypeName(output.dtype) + " " + Json(output.shape).dump() +
                    ", but the reference has " +
                    entry.value("dtype", Json()).dump() + " " +
                    entry.value("shape", Json()).dump());
      bytes = data.substr(offset.get<uint64_t>(), size.get<uint64_t>());
      return true;
    }
    return fail("the reference has no output '" + output.name + "'");
  }

  size_t outputCount() const { return manifest["outputs"].size(); }

private:
  const std::string &path;
  std::string &error;
  std::optional<Container> container;
  Json manifest;
  std::string_view data;
};

} // namespace

bool fp8run::compareWithReference(const std::string &path,
                                  const Options &options,
                                  const std::vector<Output> &outputs,
                                  Comparison &comparison, std::string &error) {
  ReferenceReader reader(path, error);
  if (!reader.open() || !reader.checkNumber("seed", options.seed) ||
      !reader.checkNumber("steps", options.steps) ||
      !reader.checkNumber("microbatches", options.microbatches))
    return false;
  if (reader.outputCount() != outputs.size())
    return reader.fail("expected " + std::to_string(outputs.size()) +
                       " outputs, but the reference has " +
                       std::to_string(reader.outputCount()));
  for (const Output &output : outputs) {
    std::string_view expected;
    if (!reader.find(output, expected))
      return false;
    compareOutput(output, expected, comparison);
  }
  return true;
}
