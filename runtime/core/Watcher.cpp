//===- Watcher.cpp - Measures what commands really write ------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The cost of a watched command is one comparison of the arena with its shadow
// at memory speed, plus a copy of what the command may write.
//
//===----------------------------------------------------------------------===//

#include "Watcher.h"

#include <algorithm>
#include <cstring>

using namespace fp8rt;

namespace {

/// The end of a slot counts as written when one of its last bytes changed: one
/// byte alone may happen to be written with the pattern's value.
constexpr uint64_t kTailBytes = 8;

/// Position of the first byte in which `a` and `b` differ, or `bytes`.
size_t firstDifference(const unsigned char *a, const unsigned char *b,
                       size_t bytes) {
  constexpr size_t chunk = 1 << 16;
  for (size_t begin = 0; begin < bytes; begin += chunk) {
    size_t size = std::min(chunk, bytes - begin);
    if (std::memcmp(a + begin, b + begin, size) == 0)
      continue;
    while (a[begin] == b[begin])
      ++begin;
    return begin;
  }
  return bytes;
}

std::string quoted(const std::string &name) { return "'" + name + "'"; }

} // namespace

Watcher::Watcher(const Function &function, bool poison)
    : function(function), poison(poison), slots(function.buffers.size()),
      writable(function.buffers.size()) {
  arenaShadow = std::make_unique_for_overwrite<unsigned char[]>(
      function.arenaBytes + kRedZoneBytes);
  callerShadows.resize(function.buffers.size());
  for (size_t i = 0; i < function.buffers.size(); ++i) {
    const Buffer &buffer = function.buffers[i];
    slots[i].bytes = buffer.bytes;
    if (buffer.offset >= 0) {
      slots[i].shadow = arenaShadow.get() + buffer.offset;
    } else {
      callerShadows[i] =
          std::make_unique_for_overwrite<unsigned char[]>(buffer.bytes);
      slots[i].shadow = callerShadows[i].get();
    }
  }
  for (const Argument &argument : function.arguments) {
    bool readOnly =
        argument.role != Role::State && argument.role != Role::Donated;
    argumentShadows.push_back(
        readOnly
            ? std::make_unique_for_overwrite<unsigned char[]>(argument.bytes)
            : nullptr);
  }
}

void Watcher::violate(std::string text) {
  if (message.empty())
    message = std::move(text);
}

void Watcher::fill(unsigned char *data, size_t bytes, uint64_t position) const {
  if (poison) {
    std::memset(data, 0xFF, bytes);
    return;
  }
  // Multiples of an odd constant: no two nearby words are equal, so constant
  // data never hides a whole slot. `position` is a multiple of 8.
  uint64_t word = (position / 8 + 1) * 0x9E3779B97F4A7C15ull;
  for (size_t i = 0; i < bytes; i += 8, word += 0x9E3779B97F4A7C15ull)
    std::memcpy(data + i, &word, std::min<size_t>(8, bytes - i));
}

void Watcher::begin(unsigned char *newArena, const std::vector<void *> &buffers,
                    void *const *newArguments) {
  arena = newArena;
  arguments = newArguments;
  byOffset.clear();
  lastCommand = nullptr;
  executedCount = live = peak = 0;
  message.clear();

  size_t arenaBytes = function.arenaBytes + kRedZoneBytes;
  fill(arena, arenaBytes, 0);
  std::memcpy(arenaShadow.get(), arena, arenaBytes);
  for (size_t i = 0; i < slots.size(); ++i) {
    Slot &slot = slots[i];
    slot = {static_cast<unsigned char *>(buffers[i]), slot.shadow, slot.bytes};
    if (function.buffers[i].offset >= 0)
      continue;
    fill(slot.data, slot.bytes, 0);
    std::memcpy(slot.shadow, slot.data, slot.bytes);
  }
  for (size_t i = 0; i < argumentShadows.size(); ++i)
    if (argumentShadows[i])
      std::memcpy(argumentShadows[i].get(), arguments[i],
                  function.arguments[i].bytes);
}

void Watcher::allocated(const Command &command) {
  const Buffer &buffer = function.buffers[command.buffer];
  Slot &slot = slots[command.buffer];
  slot.allocated = slot.everAllocated = true;
  slot.written = slot.tailWritten = false;
  slot.lastUse = 0;
  if (buffer.offset < 0)
    return;
  auto begin = static_cast<size_t>(buffer.offset);
  auto next = byOffset.lower_bound(begin);
  auto clash = [&](std::map<size_t, uint32_t>::iterator it) {
    const Buffer &other = function.buffers[it->second];
    violate("buffer " + quoted(buffer.name) + " is allocated at arena byte " +
            std::to_string(begin) + " over buffer " + quoted(other.name) +
            " at byte " + std::to_string(other.offset) + " (" +
            std::to_string(other.bytes) + " bytes), which is not freed yet");
  };
  if (next != byOffset.end() && next->first < begin + buffer.bytes)
    return clash(next);
  if (next != byOffset.begin()) {
    auto previous = std::prev(next);
    if (previous->first + function.buffers[previous->second].bytes > begin)
      return clash(previous);
  }
  byOffset[begin] = command.buffer;
}

void Watcher::reportStray(const Command &command, size_t position) {
  std::string text = describe(command) + " wrote ";
  if (position >= function.arenaBytes)
    return violate(text + "above the arena, at byte " +
                   std::to_string(position) + " of an arena of " +
                   std::to_string(function.arenaBytes) + " bytes");
  text += "arena byte " + std::to_string(position);
  for (size_t i = 0; i < slots.size(); ++i) {
    const Buffer &buffer = function.buffers[i];
    if (buffer.offset >= 0 && slots[i].everAllocated && !slots[i].allocated &&
        position >= static_cast<size_t>(buffer.offset) &&
        position < buffer.offset + buffer.bytes)
      return violate(text + ", which belongs to buffer " + quoted(buffer.name) +
                     ", already freed");
  }
  auto next = byOffset.upper_bound(position);
  if (next == byOffset.begin())
    return violate(text + ", which no buffer covers");
  const Buffer &buffer = function.buffers[std::prev(next)->second];
  violate(text + ", outside every buffer: " +
          std::to_string(position - buffer.offset - buffer.bytes) +
          " bytes past the end of buffer " + quoted(buffer.name) + " of " +
          std::to_string(buffer.bytes) + " bytes");
}

void Watcher::compareGap(const Command &command, size_t begin, size_t end) {
  size_t at =
      firstDifference(arena + begin, arenaShadow.get() + begin, end - begin);
  if (begin + at < end)
    reportStray(command, begin + at);
}

void Watcher::compareSlot(const Command &command, uint32_t index) {
  const Slot &slot = slots[index];
  size_t at = firstDifference(slot.data, slot.shadow, slot.bytes);
  if (at < slot.bytes)
    violate(describe(command) + " changed byte " + std::to_string(at) +
            " of buffer " + quoted(function.buffers[index].name) +
            ", which it does not declare to write");
}

/// Accepts what a command wrote into a buffer it may write.
void Watcher::takeOver(uint32_t index) {
  Slot &slot = slots[index];
  size_t at = firstDifference(slot.data, slot.shadow, slot.bytes);
  if (at == slot.bytes)
    return;
  if (!slot.written) {
    slot.written = true;
    live += slot.bytes;
  }
  uint64_t tail = slot.bytes - std::min(slot.bytes, kTailBytes);
  slot.tailWritten |=
      std::memcmp(slot.data + tail, slot.shadow + tail, slot.bytes - tail) != 0;
  std::memcpy(slot.shadow + at, slot.data + at, slot.bytes - at);
}

void Watcher::executed(const Command &command) {
  ++executedCount;
  lastCommand = &command;
  std::fill(writable.begin(), writable.end(), false);
  for (uint32_t position : command.writes)
    if (!command.refs[position].isArgument)
      writable[command.refs[position].index] = true;
  for (Ref ref : command.refs)
    if (!ref.isArgument)
      slots[ref.index].lastUse = executedCount;

  size_t position = 0;
  for (auto [offset, index] : byOffset) {
    compareGap(command, position, offset);
    if (writable[index])
      takeOver(index);
    else
      compareSlot(command, index);
    position = offset + slots[index].bytes;
  }
  compareGap(command, position, function.arenaBytes + kRedZoneBytes);
  for (uint32_t index = 0; index < slots.size(); ++index) {
    if (function.buffers[index].offset >= 0)
      continue;
    if (writable[index])
      takeOver(index);
    else
      compareSlot(command, index);
  }
  peak = std::max(peak, live);
}

void Watcher::checkComplete(uint32_t index) {
  const Buffer &buffer = function.buffers[index];
  const Slot &slot = slots[index];
  if (buffer.kind == BufferKind::Workspace || slot.tailWritten)
    return;
  if (!slot.written)
    return violate("buffer " + quoted(buffer.name) + " of " +
                   std::to_string(buffer.bytes) + " bytes is never written");
  violate("buffer " + quoted(buffer.name) + " requests " +
          std::to_string(buffer.bytes) +
          " bytes, but its end is never written: it is larger than its "
          "contents");
}

void Watcher::freed(const Command &command) {
  const Buffer &buffer = function.buffers[command.buffer];
  Slot &slot = slots[command.buffer];
  if (slot.lastUse == 0)
    violate("buffer " + quoted(buffer.name) + " is freed without a use");
  else if (slot.lastUse != executedCount)
    violate("buffer " + quoted(buffer.name) +
            " is freed late: " + std::to_string(executedCount - slot.lastUse) +
            " commands ran since its last use, the last of them " +
            describe(*lastCommand));
  checkComplete(command.buffer);
  if (slot.written)
    live -= slot.bytes;
  slot.allocated = slot.written = false;
  byOffset.erase(static_cast<size_t>(buffer.offset));
  fill(slot.data, slot.bytes, static_cast<uint64_t>(buffer.offset));
  std::memcpy(slot.shadow, slot.data, slot.bytes);
}

void Watcher::finish() {
  for (uint32_t index = 0; index < slots.size(); ++index) {
    if (!slots[index].allocated)
      continue;
    const Buffer &buffer = function.buffers[index];
    if (!buffer.isResult)
      violate("buffer " + quoted(buffer.name) + " of " +
              std::to_string(buffer.bytes) +
              " bytes is never freed, and no result reads it");
    checkComplete(index);
  }
  for (size_t i = 0; i < argumentShadows.size(); ++i) {
    if (!argumentShadows[i])
      continue;
    const Argument &argument = function.arguments[i];
    size_t at =
        firstDifference(static_cast<const unsigned char *>(arguments[i]),
                        argumentShadows[i].get(), argument.bytes);
    if (at < argument.bytes)
      violate("byte " + std::to_string(at) + " of argument " +
              quoted(argument.name) +
              ", which is neither state nor donated, changed in function " +
              quoted(function.name));
  }
}
