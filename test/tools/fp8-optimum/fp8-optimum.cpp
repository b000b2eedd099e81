//===- fp8-optimum.cpp - small graphs and their optima ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: fp8-optimum mlir|solve joint|order FIRST LAST [EVERY [OFFSET]]
//        fp8-optimum chain COUNT|solve
//
// `mlir` prints the graphs of the seeds FIRST to LAST, of every EVERY-th from
// OFFSET on, as a module. `solve` prints their optima: for joint graphs the
// lines
//
//   name,budget,recompute_us
//
// for three budgets each (95, 87 and 79 % of the peak in program order, nothing
// computed again), where `recompute_us` is the least time spent on computing
// forward ops again, each at most once more; `none` where nothing fits,
// `unknown` where the search was given up. For order graphs the lines
// `name,peak`, the lowest peak of any order.
//
// `chain COUNT` prints Checkmate's chain of COUNT layers as a module; `chain
// solve` prints the lines `layers,units of memory,ops that run` of some.
//
//===----------------------------------------------------------------------===//

#include "Graph.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace optimum;

/// States that a search visits at most; all but very few need far less.
static constexpr int64_t kMaxStates = 5'000'000;
static constexpr int kOpsToOrder = 20;
static constexpr int kPercentages[] = {95, 87, 79};

static int fail() {
  std::fprintf(stderr, "error: expected 'mlir|solve joint|order FIRST LAST' or "
                       "'chain COUNT|solve'\n");
  return 1;
}

int main(int argc, char **argv) {
  if (argc == 3 && !std::strcmp(argv[1], "chain")) {
    if (!std::strcmp(argv[2], "solve")) {
      constexpr int kLayersAndUnits[][2] = {{6, 6}, {8, 6}, {10, 7}, {12, 8}};
      for (auto [layers, units] : kLayersAndUnits)
        std::printf("%d,%d,%d\n", layers, units,
                    2 * layers + solveStep(makeChain(layers),
                                           units * kUnitBytes, kMaxStates) /
                                     kChainTime);
      return 0;
    }
    std::fputs(printMLIR(makeChain(std::atoi(argv[2]))).c_str(), stdout);
    return 0;
  }
  if (argc < 5)
    return fail();
  bool prints = !std::strcmp(argv[1], "mlir");
  bool isJoint = !std::strcmp(argv[2], "joint");
  if ((!prints && std::strcmp(argv[1], "solve")) ||
      (!isJoint && std::strcmp(argv[2], "order")))
    return fail();
  int first = std::atoi(argv[3]), last = std::atoi(argv[4]);
  int every = argc > 5 ? std::atoi(argv[5]) : 1;
  int offset = argc > 6 ? std::atoi(argv[6]) : 0;
  if (every < 1)
    return fail();
  for (int seed = first + offset; seed <= last; seed += every) {
    Graph graph =
        isJoint ? makeJointGraph(seed) : makeOrderGraph(seed, kOpsToOrder);
    if (prints) {
      std::fputs(printMLIR(graph).c_str(), stdout);
      continue;
    }
    if (!isJoint) {
      std::printf("%s,%lld\n", graph.name.c_str(),
                  static_cast<long long>(solveOrder(graph)));
      continue;
    }
    for (int percent : kPercentages) {
      int64_t budget = getProgramPeak(graph) * percent / 100;
      int cost = solveStep(graph, budget, kMaxStates);
      std::printf("%s,%lld,%s\n", graph.name.c_str(),
                  static_cast<long long>(budget),
                  cost == -1   ? "none"
                  : cost == -2 ? "unknown"
                               : std::to_string(cost).c_str());
    }
    std::fflush(stdout);
  }
  return 0;
}
