//===- Graph.cpp - small random graphs --------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes graphs from a seed and prints them.
//
//===----------------------------------------------------------------------===//

#include "Graph.h"

#include <algorithm>

using namespace optimum;

/// Of the target `cpu`.
static constexpr int kFlopsPerMicrosecond = 20'000;

int Random::next(int low, int high) {
  // Steele, Lea, Flood: SplitMix64.
  uint64_t value = (state += 0x9E3779B97F4A7C15ull);
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  value ^= value >> 31;
  return low + static_cast<int>(value % static_cast<uint64_t>(high - low + 1));
}

static int64_t randomBytes(Random &random) {
  return random.next(1, 32) * kUnitBytes;
}

Graph optimum::makeJointGraph(int seed) {
  Random random(seed);
  Graph graph;
  graph.name = "joint" + std::to_string(seed);
  graph.numForward = random.next(5, 14);
  int count = graph.numForward;
  for (int id = 0; id < count; ++id) {
    Op op;
    // The one before, so that all matters, and up to two others.
    if (id > 0)
      op.operands.push_back(id - 1);
    for (int more = random.next(0, 2); more > 0 && id > 1; --more) {
      int other = random.next(std::max(0, id - 4), id - 1);
      if (std::count(op.operands.begin(), op.operands.end(), other) == 0)
        op.operands.push_back(other);
    }
    // Some read none of them: another branch begins.
    if (id > 0 && id + 1 < count && random.next(0, 7) == 0)
      op.operands.clear();
    op.bytes = randomBytes(random);
    op.workspace = random.next(0, 3) == 0 ? randomBytes(random) / 2 : 0;
    op.time = random.next(2, 20);
    op.escapes = id + 1 == count;
    graph.ops.push_back(op);
  }
  // Every forward op is read.
  for (int id = 0; id + 1 < count; ++id) {
    bool isRead = false;
    for (const Op &op : graph.ops)
      isRead |= std::count(op.operands.begin(), op.operands.end(), id) > 0;
    if (!isRead)
      graph.ops[random.next(id + 1, count - 1)].operands.push_back(id);
  }
  // The backward op of forward op `id` makes the gradient of its result from
  // those of the ops that read it, and from forward values.
  std::vector<int> gradient(count, -1);
  for (int id = count - 1; id >= 0; --id) {
    Op op;
    op.backward = true;
    op.bytes = graph.ops[id].bytes;
    op.time = random.next(2, 20);
    op.workspace = random.next(0, 3) == 0 ? randomBytes(random) / 2 : 0;
    auto read = [&](int value) {
      if (std::count(op.operands.begin(), op.operands.end(), value) == 0)
        op.operands.push_back(value);
    };
    for (int reader = id + 1; reader < count; ++reader)
      if (std::count(graph.ops[reader].operands.begin(),
                     graph.ops[reader].operands.end(), id))
        read(gradient[reader]);
    for (int operand : graph.ops[id].operands)
      if (random.next(0, 2) > 0)
        read(operand);
    if (random.next(0, 1))
      read(id);
    op.escapes = graph.ops[id].operands.empty();
    gradient[id] = graph.ops.size();
    graph.ops.push_back(op);
    if (random.next(0, 4) == 0) {
      Op weight;
      weight.backward = weight.escapes = true;
      weight.bytes = randomBytes(random) / 2;
      weight.time = random.next(2, 20);
      weight.operands = {gradient[id]};
      if (id > 0)
        weight.operands.push_back(random.next(0, id));
      graph.ops.push_back(weight);
    }
  }
  return graph;
}

Graph optimum::makeOrderGraph(int seed, int count) {
  Random random(seed + 1'000'000);
  Graph graph;
  graph.name = "order" + std::to_string(seed);
  graph.numForward = count;
  int window = random.next(2, count);
  for (int id = 0; id < count; ++id) {
    Op op;
    for (int more = random.next(0, 3); more > 0 && id > 0; --more) {
      int other = random.next(std::max(0, id - window), id - 1);
      if (std::count(op.operands.begin(), op.operands.end(), other) == 0)
        op.operands.push_back(other);
    }
    op.bytes = random.next(1, 100) * kUnitBytes;
    op.workspace = random.next(0, 3) == 0 ? random.next(1, 50) * kUnitBytes : 0;
    op.time = kChainTime;
    graph.ops.push_back(op);
  }
  // What nothing reads is a result.
  std::vector<bool> isRead(count, false);
  for (const Op &op : graph.ops)
    for (int operand : op.operands)
      isRead[operand] = true;
  for (int id = 0; id < count; ++id)
    graph.ops[id].escapes = !isRead[id];
  return graph;
}

Graph optimum::makeChain(int count) {
  Graph graph;
  graph.name = "chain" + std::to_string(count);
  graph.numForward = count;
  for (int id = 0; id < count; ++id) {
    Op op;
    if (id > 0)
      op.operands.push_back(id - 1);
    op.bytes = kUnitBytes;
    op.time = kChainTime;
    graph.ops.push_back(op);
  }
  for (int id = count - 1; id >= 0; --id) {
    Op op;
    op.backward = true;
    if (id + 1 < count)
      op.operands.push_back(static_cast<int>(graph.ops.size()) - 1);
    op.operands.push_back(id);
    if (id > 0)
      op.operands.push_back(id - 1);
    op.bytes = kUnitBytes;
    op.time = kChainTime;
    op.escapes = id == 0;
    graph.ops.push_back(op);
  }
  return graph;
}

int64_t optimum::getProgramPeak(const Graph &graph) {
  int count = graph.ops.size();
  std::vector<int> lastUse(count);
  for (int id = 0; id < count; ++id) {
    lastUse[id] = id;
    for (int operand : graph.ops[id].operands)
      lastUse[operand] = id;
  }
  int64_t live = 0, peak = 0;
  for (int id = 0; id < count; ++id) {
    live += graph.ops[id].bytes;
    peak = std::max(peak, live + graph.ops[id].workspace);
    for (int value = 0; value <= id; ++value)
      if (lastUse[value] == id && !graph.ops[value].escapes)
        live -= graph.ops[value].bytes;
  }
  return peak;
}

std::string optimum::printMLIR(const Graph &graph) {
  bool isStep = graph.numForward < static_cast<int>(graph.ops.size());
  auto typeOf = [&](int id) {
    return "tensor<" + std::to_string(graph.ops[id].bytes / 4) + "xf32>";
  };
  auto nameOf = [](int id) { return "%v" + std::to_string(id); };
  std::string argument = "tensor<64xf32>";
  auto printOp = [&](int id) {
    const Op &op = graph.ops[id];
    std::string operands, types;
    for (int operand : op.operands) {
      operands += (operands.empty() ? "" : ", ") + nameOf(operand);
      types += (types.empty() ? "" : ", ") + typeOf(operand);
    }
    if (op.operands.empty()) {
      operands = "%x";
      types = argument;
    }
    // Of the microseconds of `cpu` one is the launch; next to no traffic.
    std::string text =
        "  " + nameOf(id) + " = fp8.opaque \"op\"(" + operands +
        ") {flops = " + std::to_string(kFlopsPerMicrosecond * (op.time - 1)) +
        " : i64, bytes = 1 : i64";
    if (op.workspace > 0)
      text += ", scratch_bytes = " + std::to_string(op.workspace) + " : i64";
    return text + "} : (" + types + ") -> " + typeOf(id) + "\n";
  };
  // The values of one region that leave it, and their types.
  auto listResults = [&](int begin, int end, std::string &types) {
    std::string names;
    for (int id = begin; id < end; ++id)
      if (graph.ops[id].escapes) {
        names += (names.empty() ? "" : ", ") + nameOf(id);
        types += (types.empty() ? "" : ", ") + typeOf(id);
      }
    return names;
  };
  int count = graph.ops.size();
  std::string types;
  std::string names = listResults(0, count, types);
  std::string text = "func.func @" + graph.name + "(%x: " + argument +
                     ") -> (" + types + ") {\n";
  if (!isStep) {
    for (int id = 0; id < count; ++id)
      text += printOp(id);
    return text + "  return " + names + " : " + types + "\n}\n";
  }
  int numResults = 0;
  std::vector<bool> isResidual(count, false);
  for (const Op &op : graph.ops) {
    numResults += op.escapes;
    if (op.backward)
      for (int operand : op.operands)
        isResidual[operand] = operand < graph.numForward;
  }
  std::string residuals, residualTypes, arguments;
  for (int id = 0; id < graph.numForward; ++id)
    if (isResidual[id]) {
      residuals += (residuals.empty() ? "" : ", ") + nameOf(id);
      residualTypes += (residualTypes.empty() ? "" : ", ") + typeOf(id);
      arguments +=
          (arguments.empty() ? "" : ", ") + nameOf(id) + ": " + typeOf(id);
    }
  std::string forwardTypes, backwardTypes;
  std::string forward = listResults(0, graph.numForward, forwardTypes);
  std::string backward = listResults(graph.numForward, count, backwardTypes);
  text += "  %r:" + std::to_string(numResults) + " = fp8.step -> (" + types +
          ") forward {\n";
  for (int id = 0; id < graph.numForward; ++id)
    text += printOp(id);
  text += "  fp8.yield" + (forward.empty() ? "" : " " + forward) +
          " residuals(" + residuals + ")" +
          (forward.empty() ? "" : " : " + forwardTypes) + " residuals(" +
          residualTypes + ")\n  } backward (" + arguments + ") {\n";
  for (int id = graph.numForward; id < count; ++id)
    text += printOp(id);
  text +=
      "  fp8.yield " + backward + " : " + backwardTypes + "\n  }\n  return ";
  for (int result = 0; result < numResults; ++result)
    text += (result ? ", %r#" : "%r#") + std::to_string(result);
  return text + " : " + types + "\n}\n";
}
