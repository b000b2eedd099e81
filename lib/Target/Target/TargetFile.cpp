//===- TargetFile.cpp - targets as JSON -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a target from the text of its file.
//
//===----------------------------------------------------------------------===//

#include "fp8/Target/Target.h"

#include "fp8rt/CpuGemm.h"
#include "llvm/Support/JSON.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// Takes the keys of an object one by one; the first that is missing or wrong
/// is the error.
class KeyReader {
public:
  explicit KeyReader(const llvm::json::Object &object) : object(object) {}

  std::string readString(StringRef key) {
    if (std::optional<StringRef> text = object.getString(key))
      return text->str();
    expect(key, "a string");
    return {};
  }

  bool readBool(StringRef key) {
    if (std::optional<bool> value = object.getBoolean(key))
      return *value;
    expect(key, "true or false");
    return false;
  }

  /// A number above zero.
  double readRate(StringRef key) {
    std::optional<double> value = object.getNumber(key);
    if (value && std::isfinite(*value) && *value > 0)
      return *value;
    expect(key, "a number above 0");
    return 1;
  }

  int64_t readInteger(StringRef key, int64_t least) {
    std::optional<int64_t> value = object.getInteger(key);
    if (value && *value >= least)
      return *value;
    expect(key, "an integer of at least " + std::to_string(least));
    return least;
  }

  bool isNull(StringRef key) { return object.getNull(key).has_value(); }

  template <typename T>
  T readChoice(StringRef key, ArrayRef<std::pair<StringRef, T>> choices) {
    std::optional<StringRef> text = object.getString(key);
    std::string names;
    for (auto [name, value] : choices) {
      if (text == name)
        return value;
      names += (names.empty() ? "\"" : ", \"") + name.str() + "\"";
    }
    expect(key, "one of " + names);
    return choices.front().second;
  }

  void expect(StringRef key, const std::string &what) {
    if (!error.empty())
      return;
    const llvm::json::Value *found = object.get(key);
    std::string text = "nothing";
    if (found) {
      text.clear();
      llvm::raw_string_ostream(text) << *found;
    }
    error = "expected '" + key.str() + "' to be " + what + ", but got " + text;
  }

  std::string error;

private:
  const llvm::json::Object &object;
};

} // namespace

llvm::Expected<Target> mlir::fp8::parseTarget(StringRef text) {
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(text);
  if (!json)
    return json.takeError();
  const llvm::json::Object *object = json->getAsObject();
  if (!object)
    return llvm::createStringError("expected an object with a target's keys");

  KeyReader reader(*object);
  Target target;
  target.name = reader.readString("name");
  target.chip = reader.readString("chip");
  target.source = reader.readString("source");
  target.status = reader.readChoice<TargetStatus>(
      "status", {{"measured", TargetStatus::Measured},
                 {"datasheet", TargetStatus::Datasheet},
                 {"guessed", TargetStatus::Guessed}});
  if (!reader.isNull("model_error_pct"))
    target.modelErrorPct = reader.readRate("model_error_pct");
  if (!reader.isNull("device_overhead_bytes"))
    target.deviceOverheadBytes = reader.readInteger("device_overhead_bytes", 0);
  target.copyBytesPerSecond = reader.readRate("copy_bytes_per_second");
  target.flopsF8Tensor = reader.readRate("flops_f8_tensor");
  target.flopsF8Row = reader.readRate("flops_f8_row");
  target.flopsF8Block = reader.readRate("flops_f8_block");
  target.flopsBF16 = reader.readRate("flops_bf16");
  target.flopsF32 = reader.readRate("flops_f32");
  target.linkBytesPerSecond = reader.readRate("link_bytes_per_second");
  target.linkLatencySeconds = reader.readRate("link_latency_seconds");
  if (!reader.isNull("host_bytes_per_second"))
    target.hostBytesPerSecond = reader.readRate("host_bytes_per_second");
  target.hostLatencySeconds = reader.readRate("host_latency_seconds");
  target.hostOverlaps = reader.readBool("host_overlaps");
  target.launchSeconds = reader.readRate("launch_seconds");
  target.matmulWorkspaceBytes = reader.readInteger(
      "matmul_workspace_bytes", fp8rt::kCpuGemmWorkspaceBytes);
  target.kernelRowTile = reader.readInteger("kernel_row_tile", 128);
  target.kernelModel = reader.readChoice<KernelModel>(
      "kernel_model", {{"cache-tiles", KernelModel::CacheTiles},
                       {"thread-blocks", KernelModel::ThreadBlocks}});
  target.contiguousK = reader.readBool("contiguous_k");
  // Code is generated for the one or the other.
  bool isGpu = target.kernelModel == KernelModel::ThreadBlocks;
  if (reader.error.empty() && isGpu == target.chip.empty())
    reader.expect("chip", isGpu ? "a GPU architecture such as \"sm_90a\""
                                : "\"\" beside \"cache-tiles\"");
  if (!reader.error.empty())
    return llvm::createStringError(reader.error);
  return target;
}
