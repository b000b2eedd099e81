//===- PtxProgram.h - PTX as the emulator holds it --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Instructions and functions that PtxReader.cpp makes from text, and a block of
// threads that runs them (PtxEmulator.cpp, PtxExecute.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TEST_TOOLS_FP8_KERNEL_TEST_PTXPROGRAM_H
#define FP8_TEST_TOOLS_FP8_KERNEL_TEST_PTXPROGRAM_H

#include "PtxEmulator.h"

namespace fp8test {

enum class Kind { Register, Immediate, Symbol, Address, Vector, Label };

struct Operand {
  Kind kind = Kind::Immediate;
  int reg = -1;                     // Register, Address with a register
  uint64_t value = 0;               // Immediate, offset of an Address
  std::string name;                 // Symbol, Label
  std::vector<int> vector;          // Vector of registers; -1 is '_'
  std::vector<uint64_t> immediates; // of a vector, where -2
};

struct Instruction {
  std::string text;
  std::vector<std::string> op; // parts of the name
  std::vector<Operand> operands;
  int predicate = -1;
  bool negated = false;
  int target = -1; // of a branch

  bool has(const char *part) const {
    for (const std::string &own : op)
      if (own == part)
        return true;
    return false;
  }
};

struct PtxModule::Function {
  std::map<std::string, int> registers;
  std::map<std::string, int> labels;
  std::map<std::string, int> parameters;
  std::map<std::string, size_t> shared; // offsets
  size_t sharedBytes = 0;
  std::vector<Instruction> code;
  std::string name;

  int reg(const std::string &text) {
    return registers.try_emplace(text, int(registers.size())).first->second;
  }
};

/// Who accessed a byte of shared memory since which barrier.
struct SharedByte {
  int writer = -1, writeEpoch = -1;
  int reader = -1, readEpoch = -1; // -2: several
  bool copying = false;            ///< an asynchronous copy is writing it
};

/// A copy from global to shared memory that has not been waited for.
struct Copy {
  uint8_t *to;
  size_t bytes, read; ///< the rest is zeros
  const uint8_t *from;
  int group;
};

struct Block {
  const PtxModule::Function &f;
  const std::vector<PtxModule::Buffer> &arguments;
  const std::set<std::string> &dynamicNames;
  int64_t id, size;
  size_t sharedBytes;
  std::vector<uint64_t> memory; // registers, a row a thread
  std::vector<int> pc;
  enum State { Ready, AtBarrier, AtWarp, Done };
  std::vector<State> state;
  std::vector<uint8_t> shared;
  std::vector<SharedByte> accesses;
  int epoch = 0;
  std::vector<std::vector<Copy>> copies; ///< a thread
  std::vector<int> groups;               ///< of copies that a thread has ended
  std::string error;

  Block(const PtxModule::Function &f,
        const std::vector<PtxModule::Buffer> &arguments, int64_t id,
        int64_t size, int64_t dynamicShared,
        const std::set<std::string> &dynamicNames)
      : f(f), arguments(arguments), dynamicNames(dynamicNames), id(id),
        size(size), sharedBytes(f.sharedBytes + dynamicShared),
        memory(f.registers.size() * size), pc(size), state(size, Ready),
        shared(sharedBytes + 16, 0xCD), accesses(sharedBytes + 16),
        copies(size), groups(size) {}

  /// Where a variable in shared memory begins; -1 where `name` is none.
  int64_t offsetOf(const std::string &name) const {
    if (auto it = f.shared.find(name); it != f.shared.end())
      return int64_t(it->second);
    return dynamicNames.count(name) ? int64_t(f.sharedBytes) : -1;
  }

  uint64_t &reg(int thread, int number) {
    return memory[thread * f.registers.size() + number];
  }
  uint8_t *sharedBase() {
    auto address = reinterpret_cast<uintptr_t>(shared.data());
    return shared.data() + (16 - address % 16) % 16;
  }

  bool fail(const Instruction &i, const std::string &why, int thread) {
    if (error.empty())
      error = f.name + ", block " + std::to_string(id) + ", thread " +
              std::to_string(thread) + ": " + why + " in '" + i.text + "'";
    return false;
  }

  uint64_t read(int thread, const Operand &operand) {
    if (operand.kind == Kind::Register)
      return reg(thread, operand.reg);
    if (operand.kind == Kind::Symbol) {
      int64_t offset = offsetOf(operand.name);
      return offset < 0 ? 0 : reinterpret_cast<uint64_t>(sharedBase() + offset);
    }
    return operand.value;
  }

  uint8_t *access(const Instruction &i, int thread, const Operand &operand,
                  size_t bytes, bool write) {
    uint64_t base = operand.reg >= 0 ? reg(thread, operand.reg) : 0;
    if (operand.reg < 0)
      if (int64_t offset = offsetOf(operand.name); offset >= 0)
        base = reinterpret_cast<uint64_t>(sharedBase() + offset);
    auto *address = reinterpret_cast<uint8_t *>(base + operand.value);
    if (reinterpret_cast<uintptr_t>(address) % bytes) {
      fail(i, "misaligned access", thread);
      return nullptr;
    }
    if (i.has("shared")) {
      if (address < sharedBase() ||
          address + bytes > sharedBase() + sharedBytes) {
        fail(i, "access outside of shared memory", thread);
        return nullptr;
      }
      for (size_t b = 0; b < bytes; ++b) {
        SharedByte &byte = accesses[address - sharedBase() + b];
        if (byte.copying) {
          fail(i, "access to what a copy is writing", thread);
          return nullptr;
        }
        bool race = byte.writeEpoch == epoch && byte.writer != thread;
        race |= write && byte.readEpoch == epoch && byte.reader != thread;
        if (race) {
          fail(i, "race on shared memory", thread);
          return nullptr;
        }
        if (write) {
          byte.writer = thread;
          byte.writeEpoch = epoch;
        } else {
          byte.reader =
              byte.readEpoch == epoch && byte.reader != thread ? -2 : thread;
          byte.readEpoch = epoch;
        }
      }
      return address;
    }
    return inBuffers(i, thread, address, bytes);
  }

  /// `address` where a buffer has so many bytes there, else null.
  uint8_t *inBuffers(const Instruction &i, int thread, uint8_t *address,
                     size_t bytes) {
    for (const PtxModule::Buffer &buffer : arguments)
      if (address >= buffer.data &&
          address + bytes <= buffer.data + buffer.bytes)
        return address;
    fail(i, "access outside of all buffers", thread);
    return nullptr;
  }

  bool startCopy(const Instruction &i, int thread);
  void awaitCopies(int pending, int thread);
  bool step(int thread);
  bool execute(const Instruction &i, int thread);
  bool executeWarp(int warp);
  bool run();
};

} // namespace fp8test

#endif // FP8_TEST_TOOLS_FP8_KERNEL_TEST_PTXPROGRAM_H
