//===- Watcher.h - Measures what commands really write ----------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The measuring pass of the planned memory mode. The arena, a red zone above
// it and the caller's result buffers are filled with a pattern and compared
// with a shadow copy after every command, so that what is live is seen from the
// bytes themselves and not from the plan's numbers:
//
//  * A slot is live from the first byte seen changed in it until its buffer is
//    freed. The measured peak is the maximum, over commands, of the requested
//    bytes of live slots.
//  * A command may change only the buffers it declares to write. Any other
//    byte that changed (another buffer, a freed slot, the gap behind a slot,
//    the red zone) is a violation, and so is an argument that is not state or
//    donated, or one that is and that the command does not declare to write.
//  * A buffer must be freed directly after the last command that uses it, must
//    be freed at all unless a result reads it, must not be placed over an
//    allocated one, and must have been written up to its end unless it is a
//    workspace (else it requests more than it needs).
//  * A workspace belongs to a command that may use as little of it as it likes:
//    it counts from the first command that declares to write it. So does what a
//    collective or a copy from the host writes, which may be done as late as at
//    its wait.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_WATCHER_H
#define FP8RT_CORE_WATCHER_H

#include "Backend.h"
#include "Manifest.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fp8rt {

/// Watches runs of one function. All storage is taken by `create`.
class Watcher {
public:
  /// Bytes above `arena_bytes` that the caller's arena has when watched.
  static constexpr size_t kRedZoneBytes = 64 * 1024;

  /// With `poison`, storage without contents holds 0xFF bytes (a NaN in every
  /// float type) in place of the pattern. Returns null and sets `error` when
  /// there is no memory for the shadows. `memory` outlives the watcher.
  static std::unique_ptr<Watcher> create(const Function &function,
                                         Backend &backend, Memory &memory,
                                         bool poison, std::string &error);

  /// Starts a run. `buffers` and `arguments` are the addresses of the
  /// function's buffers and arguments; the arena has `kRedZoneBytes` extra.
  void begin(unsigned char *arena, const std::vector<void *> &buffers,
             void *const *arguments);
  void allocated(const Command &command);
  void executed(const Command &command);
  void freed(const Command &command);
  void finish();

  /// The first violation of this run, or an empty string.
  const std::string &violation() const { return message; }

  /// Live bytes after the last command, and the largest figure of the run.
  uint64_t liveBytes() const { return live; }
  uint64_t peakBytes() const { return peak; }

private:
  struct Release {
    Backend *backend;
    void operator()(unsigned char *pointer) const { backend->release(pointer); }
  };
  using Shadow = std::unique_ptr<unsigned char[], Release>;

  struct Slot {
    unsigned char *data = nullptr;
    unsigned char *shadow = nullptr;
    uint64_t bytes = 0;
    bool allocated = false;
    bool everAllocated = false;
    bool written = false;
    bool tailWritten = false;
    /// Ordinal of the last executed command that used the buffer; 0 for none.
    uint64_t lastUse = 0;
  };

  /// Bytes compared after a command: a slot and its end, or a gap between.
  struct Watched {
    bool isSlot;
    /// The buffer of a slot; the arena position of a gap.
    uint64_t where;
  };

  Watcher(const Function &function, Memory &memory, bool poison)
      : function(function), memory(memory), poison(poison) {}
  bool allocateShadows(Backend &backend, std::string &error);
  void violate(std::string text);
  void fill(unsigned char *data, size_t bytes, uint64_t position);
  void reportStray(const Command &command, size_t position);
  void watchGap(size_t begin, size_t end);
  void watchSlot(uint32_t buffer);
  void judgeSlot(const Command &command, uint32_t buffer, uint64_t at,
                 bool tailChanged);
  void checkComplete(uint32_t buffer);
  bool isReadOnly(size_t argument) const;
  /// State and donated arguments change only under commands that say so.
  void watchArguments(const Command &command);

  const Function &function;
  Memory &memory;
  bool poison;
  unsigned char *arena = nullptr;
  void *const *arguments = nullptr;
  Shadow arenaShadow;
  std::vector<Shadow> callerShadows;
  std::vector<Shadow> argumentShadows;
  std::vector<Slot> slots;
  /// Allocated arena slots by offset.
  std::map<size_t, uint32_t> byOffset;
  /// Buffers the command at hand may write.
  std::vector<bool> writable;
  /// What is compared after the command at hand: the whole of each, then the
  /// ends of slots.
  std::vector<Watched> watched;
  std::vector<Comparison> comparisons;
  const Command *lastCommand = nullptr;
  uint64_t executedCount = 0;
  uint64_t live = 0;
  uint64_t peak = 0;
  std::string message;
};

} // namespace fp8rt

#endif // FP8RT_CORE_WATCHER_H
