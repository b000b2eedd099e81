//===- Device.cpp - Memory, stream and events of a program ----------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts errors; no logic of its own.
//
//===----------------------------------------------------------------------===//

#include "Device.h"

using namespace fp8run;

bool fp8run::takeError(fp8rt_error *source, std::string &error) {
  error = fp8rt_error_message(source);
  fp8rt_free_error(source);
  return false;
}

Device::~Device() {
  if (isOpen)
    fp8rt_destroy_stream(program, streamHandle);
}

bool Device::open(std::string &error) {
  fp8rt_error *failure = nullptr;
  if (fp8rt_create_stream(program, &streamHandle, &failure))
    return takeError(failure, error);
  isOpen = true;
  return true;
}

DeviceMemory Device::allocate(size_t bytes, std::string &error) {
  fp8rt_error *failure = nullptr;
  void *pointer = nullptr;
  if (fp8rt_allocate(program, bytes, &pointer, &failure)) {
    takeError(failure, error);
    pointer = nullptr;
  }
  return DeviceMemory(pointer, ReleaseMemory{program});
}

bool Device::set(void *data, unsigned char value, size_t bytes,
                 std::string &error) {
  fp8rt_error *failure = nullptr;
  return bytes == 0 ||
         !fp8rt_set(program, data, value, bytes, streamHandle, &failure) ||
         takeError(failure, error);
}

bool Device::fill(size_t function, size_t argument, uint64_t seed,
                  uint64_t step, uint64_t microbatch, void *data,
                  std::string &error) {
  fp8rt_error *failure = nullptr;
  return !fp8rt_fill_argument(program, function, argument, seed, step,
                              microbatch, data, streamHandle, &failure) ||
         takeError(failure, error);
}

bool Device::copy(void *to, const void *from, size_t bytes,
                  std::string &error) {
  fp8rt_error *failure = nullptr;
  return !fp8rt_copy(program, to, from, bytes, streamHandle, &failure) ||
         takeError(failure, error);
}

bool Device::download(const void *data, size_t bytes, std::string &out,
                      std::string &error) {
  out.resize(bytes);
  fp8rt_error *failure = nullptr;
  return synchronize(error) &&
         (!fp8rt_download(program, out.data(), data, bytes, &failure) ||
          takeError(failure, error));
}

bool Device::synchronize(std::string &error) {
  fp8rt_error *failure = nullptr;
  return !fp8rt_synchronize(program, streamHandle, &failure) ||
         takeError(failure, error);
}

bool Device::alignRanks(std::string &error) {
  fp8rt_error *failure = nullptr;
  return !fp8rt_align_ranks(program, streamHandle, &failure) ||
         takeError(failure, error);
}

bool Device::memoryInfo(uint64_t &free, uint64_t &total) {
  return fp8rt_memory_info(program, &free, &total) == 0;
}

DeviceEvent Device::createEvent(std::string &error) {
  fp8rt_error *failure = nullptr;
  fp8rt_event *event = nullptr;
  if (fp8rt_create_event(program, &event, &failure)) {
    takeError(failure, error);
    event = nullptr;
  }
  return DeviceEvent(event);
}

bool Device::record(fp8rt_event *event, std::string &error) {
  fp8rt_error *failure = nullptr;
  return !fp8rt_record_event(event, streamHandle, &failure) ||
         takeError(failure, error);
}

bool Device::addElapsed(fp8rt_event *start, fp8rt_event *end,
                        double &milliseconds, std::string &error) {
  fp8rt_error *failure = nullptr;
  double elapsed = 0;
  if (fp8rt_elapsed(start, end, &elapsed, &failure))
    return takeError(failure, error);
  milliseconds += elapsed;
  return true;
}
