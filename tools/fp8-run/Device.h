//===- Device.h - Memory, stream and events of a program --------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runtime's C interface with owners and messages, for the host and for a
// GPU alike.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RUN_DEVICE_H
#define FP8RUN_DEVICE_H

#include "fp8rt.h"

#include <memory>
#include <string>

namespace fp8run {

/// Moves the message of `source` to `error`; returns false.
bool takeError(fp8rt_error *source, std::string &error);

struct ReleaseMemory {
  fp8rt_program *program = nullptr;
  void operator()(void *pointer) const { fp8rt_release(program, pointer); }
};
using DeviceMemory = std::unique_ptr<void, ReleaseMemory>;

struct DestroyEvent {
  void operator()(fp8rt_event *event) const { fp8rt_destroy_event(event); }
};
using DeviceEvent = std::unique_ptr<fp8rt_event, DestroyEvent>;

/// The device of a program and one stream on it. Functions that can fail
/// return false (or null) and set `error`.
class Device {
public:
  explicit Device(fp8rt_program *program) : program(program) {}
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  /// Makes the stream; before anything else.
  bool open(std::string &error);
  void *stream() const { return streamHandle; }

  DeviceMemory allocate(size_t bytes, std::string &error);
  bool set(void *data, unsigned char value, size_t bytes, std::string &error);
  bool fill(size_t function, size_t argument, uint64_t seed, uint64_t step,
            uint64_t microbatch, void *data, std::string &error);
  bool copy(void *to, const void *from, size_t bytes, std::string &error);
  /// `bytes` bytes at `data`, once everything enqueued has happened.
  bool download(const void *data, size_t bytes, std::string &out,
                std::string &error);
  bool synchronize(std::string &error);
  /// Has what comes next begin on all ranks at about the same time.
  bool alignRanks(std::string &error);
  /// False where the device does not say.
  bool memoryInfo(uint64_t &free, uint64_t &total);

  DeviceEvent createEvent(std::string &error);
  bool record(fp8rt_event *event, std::string &error);
  /// Adds the time between two recorded events; waits for them.
  bool addElapsed(fp8rt_event *start, fp8rt_event *end, double &milliseconds,
                  std::string &error);

private:
  fp8rt_program *program;
  void *streamHandle = nullptr;
  bool isOpen = false;
};

} // namespace fp8run

#endif // FP8RUN_DEVICE_H
