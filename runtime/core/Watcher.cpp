//===- Watcher.cpp - Measures what commands really write ------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The cost of a watched command is one comparison of the arena with its shadow
// at memory speed, plus a copy of what the command may write. All ranges are
// compared at once, since a device answers after a wait.
//
//===----------------------------------------------------------------------===//

#include "Watcher.h"

#include <algorithm>

using namespace fp8rt;

namespace {

/// The end of a slot counts as written when one of its last bytes changed: one
/// byte alone may happen to be written with the pattern's value.
constexpr uint64_t kTailBytes = 8;

std::string quoted(const std::string &name) { return "'" + name + "'"; }

} // namespace

std::unique_ptr<Watcher> Watcher::create(const Function &function,
                                         Backend &backend, Memory &memory,
                                         bool poison, std::string &error) {
  std::unique_ptr<Watcher> watcher(new Watcher(function, memory, poison));
  if (!watcher->allocateShadows(backend, error))
    return nullptr;
  return watcher;
}

bool Watcher::allocateShadows(Backend &backend, std::string &error) {
  auto allocate = [&](uint64_t bytes) {
    std::string reason;
    auto *pointer =
        static_cast<unsigned char *>(backend.allocate(bytes, reason));
    if (!pointer && error.empty())
      error = "cannot watch the run: " + reason;
    return Shadow(pointer, Release{&backend});
  };
  error.clear();
  slots.resize(function.buffers.size());
  writable.resize(function.buffers.size());
  arenaShadow = allocate(function.arenaBytes + kRedZoneBytes);
  for (size_t i = 0; i < function.buffers.size() && error.empty(); ++i) {
    const Buffer &buffer = function.buffers[i];
    slots[i].bytes = buffer.bytes;
    if (buffer.offset >= 0) {
      slots[i].shadow = arenaShadow.get() + buffer.offset;
    } else {
      callerShadows.push_back(allocate(buffer.bytes));
      slots[i].shadow = callerShadows.back().get();
    }
  }
  for (const Argument &argument : function.arguments) {
    argumentShadows.push_back(error.empty()
                                  ? allocate(argument.bytes)
                                  : Shadow(nullptr, Release{&backend}));
  }
  return error.empty();
}

bool Watcher::isReadOnly(size_t argument) const {
  Role role = function.arguments[argument].role;
  return role != Role::State && role != Role::Donated;
}

void Watcher::violate(std::string text) {
  if (message.empty())
    message = std::move(text);
}

void Watcher::fill(unsigned char *data, size_t bytes, uint64_t position) {
  if (poison)
    memory.set(data, 0xFF, bytes);
  else
    memory.pattern(data, bytes, position);
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
  memory.copy(arenaShadow.get(), arena, arenaBytes);
  for (size_t i = 0; i < slots.size(); ++i) {
    Slot &slot = slots[i];
    slot = {static_cast<unsigned char *>(buffers[i]), slot.shadow, slot.bytes};
    if (function.buffers[i].offset >= 0)
      continue;
    fill(slot.data, slot.bytes, 0);
    memory.copy(slot.shadow, slot.data, slot.bytes);
  }
  for (size_t i = 0; i < argumentShadows.size(); ++i)
    memory.copy(argumentShadows[i].get(), arguments[i],
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

void Watcher::watchGap(size_t begin, size_t end) {
  if (begin == end)
    return;
  watched.push_back({/*isSlot=*/false, begin});
  comparisons.push_back(
      {arena + begin, arenaShadow.get() + begin, 0, end - begin, 0});
}

void Watcher::watchSlot(uint32_t index) {
  const Slot &slot = slots[index];
  watched.push_back({/*isSlot=*/true, index});
  comparisons.push_back({slot.data, slot.shadow, 0, slot.bytes, 0});
}

/// Accepts or refuses what a command did to the slot of buffer `index`, whose
/// first changed byte is `at`.
void Watcher::judgeSlot(const Command &command, uint32_t index, uint64_t at,
                        bool tailChanged) {
  Slot &slot = slots[index];
  bool changed = at < slot.bytes;
  if (!writable[index]) {
    if (changed)
      violate(describe(command) + " changed byte " + std::to_string(at) +
              " of buffer " + quoted(function.buffers[index].name) +
              ", which it does not declare to write");
    return;
  }
  // What a collective or a copy fills later is its from the start.
  bool isClaimed = function.buffers[index].kind == BufferKind::Workspace ||
                   command.op == CommandOp::Collective ||
                   command.op == CommandOp::Prefetch;
  if ((changed || isClaimed) && !slot.written) {
    slot.written = true;
    live += slot.bytes;
  }
  slot.tailWritten |= tailChanged;
  if (changed)
    memory.copy(slot.shadow + at, slot.data + at, slot.bytes - at);
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

  watched.clear();
  comparisons.clear();
  size_t position = 0;
  for (auto [offset, index] : byOffset) {
    watchGap(position, offset);
    watchSlot(index);
    position = offset + slots[index].bytes;
  }
  watchGap(position, function.arenaBytes + kRedZoneBytes);
  for (uint32_t index = 0; index < slots.size(); ++index)
    if (function.buffers[index].offset < 0)
      watchSlot(index);
  for (const Watched &entry : watched) {
    if (!entry.isSlot || !writable[entry.where])
      continue;
    const Slot &slot = slots[entry.where];
    uint64_t tail = slot.bytes - std::min(slot.bytes, kTailBytes);
    comparisons.push_back(
        {slot.data + tail, slot.shadow + tail, 0, slot.bytes - tail, 0});
  }
  memory.compare(comparisons);
  if (!memory.failure().empty())
    return;

  size_t nextTail = watched.size();
  for (size_t i = 0; i < watched.size(); ++i) {
    const Comparison &whole = comparisons[i];
    if (!watched[i].isSlot) {
      if (whole.at < whole.bytes)
        reportStray(command, watched[i].where + whole.at);
      continue;
    }
    auto index = static_cast<uint32_t>(watched[i].where);
    bool tailChanged = false;
    if (writable[index]) {
      const Comparison &tail = comparisons[nextTail++];
      tailChanged = tail.at < tail.bytes;
    }
    judgeSlot(command, index, whole.at, tailChanged);
  }
  peak = std::max(peak, live);
  watchArguments(command);
}

void Watcher::watchArguments(const Command &command) {
  std::vector<bool> declared(argumentShadows.size());
  for (uint32_t position : command.writes)
    if (command.refs[position].isArgument)
      declared[command.refs[position].index] = true;
  comparisons.clear();
  watched.clear();
  for (size_t i = 0; i < argumentShadows.size(); ++i) {
    if (isReadOnly(i))
      continue;
    if (declared[i]) {
      memory.copy(argumentShadows[i].get(), arguments[i],
                  function.arguments[i].bytes);
      continue;
    }
    watched.push_back({false, i});
    comparisons.push_back({arguments[i], argumentShadows[i].get(), 0,
                           function.arguments[i].bytes, 0});
  }
  if (comparisons.empty())
    return;
  memory.compare(comparisons);
  if (!memory.failure().empty())
    return;
  for (size_t i = 0; i < watched.size(); ++i)
    if (comparisons[i].at < comparisons[i].bytes)
      violate(describe(command) + " changed byte " +
              std::to_string(comparisons[i].at) + " of argument " +
              quoted(function.arguments[watched[i].where].name) +
              ", which it does not declare to write");
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
  memory.copy(slot.shadow, slot.data, slot.bytes);
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
  comparisons.clear();
  for (size_t i = 0; i < argumentShadows.size(); ++i)
    if (isReadOnly(i))
      comparisons.push_back({arguments[i], argumentShadows[i].get(), 0,
                             function.arguments[i].bytes, 0});
  memory.compare(comparisons);
  if (!memory.failure().empty())
    return;
  size_t next = 0;
  for (size_t i = 0; i < argumentShadows.size(); ++i) {
    if (!isReadOnly(i))
      continue;
    const Comparison &compared = comparisons[next++];
    if (compared.at < compared.bytes)
      violate("byte " + std::to_string(compared.at) + " of argument " +
              quoted(function.arguments[i].name) +
              ", which is neither state nor donated, changed in function " +
              quoted(function.name));
  }
}
