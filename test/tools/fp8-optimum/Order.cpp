//===- Order.cpp - the order with the lowest peak ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A table with one entry a set of ops: the lowest peak of any order that runs
// just them.
//
//===----------------------------------------------------------------------===//

#include "Graph.h"

#include <algorithm>
#include <limits>

using namespace optimum;

int64_t optimum::solveOrder(const Graph &graph) {
  int count = graph.ops.size();
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  std::vector<uint32_t> operands(count, 0), readers(count, 0);
  for (int id = 0; id < count; ++id)
    for (int operand : graph.ops[id].operands) {
      operands[id] |= uint32_t(1) << operand;
      readers[operand] |= uint32_t(1) << id;
    }
  std::vector<int64_t> lowest(size_t(1) << count, kNever);
  lowest[0] = 0;
  for (uint32_t done = 0; done + 1 < lowest.size(); ++done) {
    if (lowest[done] == kNever)
      continue;
    int64_t live = 0;
    for (int id = 0; id < count; ++id)
      if ((done >> id) & 1 && (graph.ops[id].escapes || (readers[id] & ~done)))
        live += graph.ops[id].bytes;
    for (int id = 0; id < count; ++id) {
      if ((done >> id) & 1 || (operands[id] & ~done))
        continue;
      int64_t need = live + graph.ops[id].bytes + graph.ops[id].workspace;
      int64_t &entry = lowest[done | uint32_t(1) << id];
      entry = std::min(entry, std::max(lowest[done], need));
    }
  }
  return lowest.back();
}
