//===- MaxFlow.cpp - maximum flow and minimum cut ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dinic's algorithm: blocking flows on level graphs, depth-first with an
// explicit stack so that long chains do not overflow the call stack.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/MaxFlow.h"

#include <algorithm>

using namespace mlir::fp8;

void MaxFlow::addArc(int from, int to, int64_t capacity) {
  arcsOf[from].push_back(arcs.size());
  arcs.push_back({to, capacity});
  arcsOf[to].push_back(arcs.size());
  arcs.push_back({from, 0});
}

bool MaxFlow::buildLevels(int source, int sink) {
  std::fill(level.begin(), level.end(), -1);
  std::vector<int> queue = {source};
  level[source] = 0;
  for (size_t head = 0; head < queue.size(); ++head)
    for (int arc : arcsOf[queue[head]])
      if (arcs[arc].residual > 0 && level[arcs[arc].to] < 0) {
        level[arcs[arc].to] = level[queue[head]] + 1;
        queue.push_back(arcs[arc].to);
      }
  return level[sink] >= 0;
}

int64_t MaxFlow::push(int source, int sink, int64_t limit) {
  // The path so far, as arcs.
  std::vector<int> path;
  int node = source;
  while (true) {
    if (node == sink) {
      int64_t amount = limit;
      for (int arc : path)
        amount = std::min(amount, arcs[arc].residual);
      for (int arc : path) {
        arcs[arc].residual -= amount;
        arcs[arc ^ 1].residual += amount;
      }
      return amount;
    }
    bool advanced = false;
    for (size_t &slot = next[node]; slot < arcsOf[node].size(); ++slot) {
      int arc = arcsOf[node][slot];
      if (arcs[arc].residual > 0 && level[arcs[arc].to] == level[node] + 1) {
        path.push_back(arc);
        node = arcs[arc].to;
        advanced = true;
        break;
      }
    }
    if (advanced)
      continue;
    if (path.empty())
      return 0;
    level[node] = -1; // A dead end for the rest of this phase.
    node = arcs[path.back() ^ 1].to;
    path.pop_back();
  }
}

int64_t MaxFlow::run(int source, int sink) {
  int64_t flow = 0;
  while (flow < kInfinite && buildLevels(source, sink)) {
    std::fill(next.begin(), next.end(), 0);
    while (int64_t amount = push(source, sink, kInfinite)) {
      flow += amount;
      if (flow >= kInfinite)
        break;
    }
  }
  return flow;
}

std::vector<bool> MaxFlow::getSourceSide(int source) const {
  std::vector<bool> side(arcsOf.size(), false);
  std::vector<int> stack = {source};
  side[source] = true;
  while (!stack.empty()) {
    int node = stack.back();
    stack.pop_back();
    for (int arc : arcsOf[node])
      if (arcs[arc].residual > 0 && !side[arcs[arc].to]) {
        side[arcs[arc].to] = true;
        stack.push_back(arcs[arc].to);
      }
  }
  return side;
}

std::vector<bool> MaxFlow::getSinkSide(int sink) const {
  std::vector<bool> side(arcsOf.size(), false);
  std::vector<int> stack = {sink};
  side[sink] = true;
  while (!stack.empty()) {
    int node = stack.back();
    stack.pop_back();
    // The reverse of an arc of `node` is one that leads to it.
    for (int arc : arcsOf[node])
      if (arcs[arc ^ 1].residual > 0 && !side[arcs[arc].to]) {
        side[arcs[arc].to] = true;
        stack.push_back(arcs[arc].to);
      }
  }
  return side;
}
