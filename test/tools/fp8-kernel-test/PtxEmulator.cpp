//===- PtxEmulator.cpp ------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Threads until they meet, warps, and blocks one after the other.
//
//===----------------------------------------------------------------------===//

#include "PtxEmulator.h"
#include "PtxNumbers.h"
#include "PtxProgram.h"

namespace fp8test {

bool Block::step(int thread) {
  for (uint64_t count = 0; count < 100'000'000; ++count) {
    const Instruction &i = f.code[pc[thread]];
    if (i.predicate >= 0 && bool(reg(thread, i.predicate) & 1) == i.negated) {
      ++pc[thread];
      continue;
    }
    const std::string &op = i.op[0];
    if (op == "ret" || op == "exit") {
      state[thread] = Done;
      return true;
    }
    if (op == "bra") {
      pc[thread] = i.target;
      continue;
    }
    if (op == "bar" || op == "barrier") {
      state[thread] = AtBarrier;
      return true;
    }
    if (op == "shfl" || op == "redux") {
      state[thread] = AtWarp;
      return true;
    }
    if (!execute(i, thread))
      return false;
    ++pc[thread];
  }
  return fail(f.code[pc[thread]], "a loop without end", thread);
}

bool Block::executeWarp(int warp) {
  int first = warp * 32;
  const Instruction &i = f.code[pc[first]];
  for (int lane = 1; lane < 32; ++lane)
    if (pc[first + lane] != pc[first])
      return fail(i, "lanes of a warp apart", first + lane);
  uint64_t mask = read(first, i.operands.back());
  if (uint32_t(mask) != 0xFFFFFFFF)
    return fail(i, "not for all lanes", first);
  std::vector<uint64_t> values(32);
  // The result may be "%r|%p"; ours never is.
  for (int lane = 0; lane < 32; ++lane)
    values[lane] = truncate(read(first + lane, i.operands[1]), 32);
  if (i.op[0] == "shfl" && i.has("bfly")) {
    for (int lane = 0; lane < 32; ++lane)
      reg(first + lane, i.operands[0].reg) =
          values[lane ^ int(read(first + lane, i.operands[2]) & 31)];
  } else if (i.op[0] == "redux" && i.has("max")) {
    uint64_t best = values[0];
    for (uint64_t value : values)
      best = i.has("s32") ? (int32_t(value) > int32_t(best) ? value : best)
                          : std::max(best, value);
    for (int lane = 0; lane < 32; ++lane)
      reg(first + lane, i.operands[0].reg) = best;
  } else {
    return fail(i, "unknown instruction", first);
  }
  for (int lane = 0; lane < 32; ++lane) {
    ++pc[first + lane];
    state[first + lane] = Ready;
  }
  return true;
}

bool Block::run() {
  while (true) {
    bool any = false, left = false;
    for (int thread = 0; thread < size; ++thread) {
      if (state[thread] == Ready && (any = true) && !step(thread))
        return false;
      left |= state[thread] != Done;
    }
    if (!left)
      return true;
    for (int warp = 0; warp * 32 < size; ++warp) {
      bool together = warp * 32 + 32 <= size;
      for (int lane = 0; together && lane < 32; ++lane)
        together = state[warp * 32 + lane] == AtWarp;
      if (together) {
        any = true;
        if (!executeWarp(warp))
          return false;
      }
    }
    if (any)
      continue;
    // Everybody waits: at the barrier, or for lanes that will not come.
    for (int thread = 0; thread < size; ++thread)
      if (state[thread] != AtBarrier)
        return fail(f.code[pc[thread]],
                    state[thread] == Done ? "a barrier that not all reach"
                                          : "lanes that do not meet",
                    thread);
    ++epoch;
    for (int thread = 0; thread < size; ++thread) {
      ++pc[thread];
      state[thread] = Ready;
    }
  }
}

bool PtxModule::launch(const std::string &kernel, int64_t grid, int64_t block,
                       int64_t dynamicShared,
                       const std::vector<Buffer> &arguments,
                       std::string &error) {
  auto it = functions.find(kernel);
  if (it == functions.end() ||
      it->second->parameters.size() != arguments.size()) {
    error = "no kernel '" + kernel + "' with " +
            std::to_string(arguments.size()) + " parameters";
    return false;
  }
  for (int64_t id = 0; id < grid; ++id) {
    Block running(*it->second, arguments, id, block, dynamicShared,
                  dynamicNames);
    if (!running.run()) {
      error = running.error;
      return false;
    }
  }
  return true;
}

} // namespace fp8test
