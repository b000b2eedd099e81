//===- Graph.h - small graphs with known optima -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The graphs that fp8-optimum solves. Nothing here knows of MLIR or of the
// planner: what is stored as an optimum shares no code with what it judges.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_OPTIMUM_GRAPH_H
#define FP8_OPTIMUM_GRAPH_H

#include <cstdint>
#include <string>
#include <vector>

namespace optimum {

/// An op with one result.
struct Op {
  std::vector<int> operands; ///< ops; one without any reads an argument
  bool backward = false;
  bool escapes = false;  ///< the result is one of the step's
  int64_t bytes = 0;     ///< of the result
  int64_t workspace = 0; ///< bytes while it runs
  int time = 0;          ///< whole microseconds, at least 2
};

/// Ops in an order that respects their operands, forward ones first. Without
/// backward ops it is a straight line, in which nothing is computed again.
struct Graph {
  std::string name;
  std::vector<Op> ops;
  int numForward = 0;
};

/// Random numbers that are the same everywhere.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed * 0x9E3779B97F4A7C15ull + 1) {}
  /// A number in [low, high].
  int next(int low, int high);

private:
  uint64_t state;
};

/// A step of 5 to 14 forward ops, each of which reads up to three of the four
/// before it, and their backward ops: one for each forward op, and for some of
/// them one more whose result is a result of the step.
Graph makeJointGraph(int seed);
/// A straight line of `count` ops.
Graph makeOrderGraph(int seed, int count);
/// Checkmate's chain: `count` forward ops and their backward ops, each of which
/// reads the backward op before it, its own forward op and the one before that.
/// All take one unit of memory and kChainTime.
constexpr int kChainTime = 2;
Graph makeChain(int count);

/// The bytes of one unit of size.
constexpr int64_t kUnitBytes = 256;

/// The peak of the ops in the order given, each once.
int64_t getProgramPeak(const Graph &graph);

/// The graph as a function of the fp8 dialect. Each op is an fp8.opaque that
/// takes `time` microseconds on the target `cpu`.
std::string printMLIR(const Graph &graph);

/// The least microseconds spent on computing forward ops again so that no more
/// than `budget` bytes are live at any time; -1 where there is no such order,
/// -2 where more than `maxStates` states were looked at. Any order of each
/// region; each forward op at most twice, in any region. At most 32
/// forward ops and 63 in all.
int solveStep(const Graph &graph, int64_t budget, int64_t maxStates);

/// The lowest peak of any order of the ops, each once: a table over the sets of
/// ops that have run. At most 24 ops.
int64_t solveOrder(const Graph &graph);

} // namespace optimum

#endif // FP8_OPTIMUM_GRAPH_H
