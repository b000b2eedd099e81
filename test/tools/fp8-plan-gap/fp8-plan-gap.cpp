//===- fp8-plan-gap.cpp - plans against known optima ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: fp8-plan-gap GRAPHS.mlir OPTIMA.csv [--verbose]
//
// Plans the functions of GRAPHS.mlir, which fp8-optimum prints, with the policy
// `auto` and `fuse=none`, and compares with OPTIMA.csv, which it solves. Prints
// how often the plans are optimal. Fails where
//
//  * fewer than 99 % of the steps are optimal, one is more than 3 % slower than
//    the optimum, or one has no plan though one exists;
//  * a plan in which no op runs more than twice is better than the optimum, or
//    the bound on the time is above a plan: then one of the two is wrong;
//  * an order of a straight line does not have the lowest peak.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/Policies.h"
#include "fp8/Analysis/TimeBound.h"
#include "fp8/Interfaces/ExternalModels.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace mlir::fp8;

namespace {

constexpr double kLeastOptimal = 0.99, kMostExcess = 0.03;
/// True where no op runs more than twice, as in the optima.
bool runsTwiceAtMost(const PlanGraph &graph, const Selection &selection) {
  std::vector<int> runs(graph.nodes.size(), 0);
  for (const Instance &instance : materialize(graph, selection).instances)
    if (++runs[instance.node] > 2)
      return false;
  return true;
}

/// Each op takes this much longer than whole microseconds at most: one byte of
/// traffic, and rounding.
constexpr double kTolerance = 0.01;

class Comparison {
public:
  explicit Comparison(bool verbose) : verbose(verbose) {}

  /// Compares the plans of `func` with its lines of the table.
  LogicalResult compare(func::FuncOp func, ArrayRef<StringRef> lines);
  /// Prints the summary; fails where a limit is broken.
  LogicalResult finish();

private:
  void compareStep(StringRef name, ArrayRef<const PlanOption *> frontier,
                   const PlanGraph &graph, int64_t budget, StringRef optimum);

  void report(StringRef name, const Twine &what) {
    llvm::outs() << name << ": " << what << '\n';
  }

  bool verbose;
  int steps = 0, optimal = 0, infeasible = 0, missed = 0, unknown = 0;
  int beyond =
      0; ///< plans with more runs of an op that are better than the optimum
  int orders = 0, optimalOrders = 0, wrong = 0;
  double worst = 0, sum = 0, worstOrder = 0, boundSum = 0;
};

void Comparison::compareStep(StringRef name,
                             ArrayRef<const PlanOption *> frontier,
                             const PlanGraph &graph, int64_t budget,
                             StringRef optimum) {
  const PlanOption *best = nullptr;
  for (const PlanOption *option : frontier)
    if (option->peak <= budget)
      best = option;
  if (optimum == "unknown") {
    ++unknown;
    return;
  }
  int64_t least = 0;
  if (optimum == "none" || optimum.getAsInteger(10, least)) {
    ++infeasible;
    if (best && runsTwiceAtMost(graph, best->selection) && ++wrong)
      report(name, "a plan in " + Twine(budget) + " where none is possible");
    beyond += best != nullptr;
    return;
  }
  ++steps;
  double once = 0;
  for (const PlanNode &node : graph.nodes)
    once += node.seconds * 1e6;
  double shortest = once + least;
  double bound = getTimeBound(graph, Fusion::None, budget).seconds * 1e6;
  boundSum += bound / shortest;
  if (bound > shortest + kTolerance && ++wrong)
    report(name, "bound " + std::to_string(bound) + " us in " + Twine(budget) +
                     ", above the optimum " + std::to_string(shortest));
  if (!best) {
    ++missed;
    if (verbose)
      report(name, "no plan in " + Twine(budget) + ", optimum " + optimum);
    return;
  }
  double excess = best->seconds * 1e6 - shortest;
  if (bound > best->seconds * 1e6 + kTolerance && ++wrong)
    report(name, "a bound in " + Twine(budget) + " of " +
                     std::to_string(bound) + " us, above a plan of " +
                     std::to_string(best->seconds * 1e6));
  bool isBeyond = excess < -kTolerance;
  beyond += isBeyond;
  if (isBeyond && runsTwiceAtMost(graph, best->selection) && ++wrong)
    report(name, "a plan in " + Twine(budget) + " of " +
                     std::to_string(best->seconds * 1e6) +
                     " us, faster than the optimum " +
                     std::to_string(shortest));
  optimal += excess <= kTolerance;
  worst = std::max(worst, excess / shortest);
  sum += std::max(excess, 0.0) / shortest;
  if (verbose && excess > kTolerance)
    report(name, "in " + Twine(budget) + " recomputation of " +
                     std::to_string(best->seconds * 1e6 - once) +
                     " us, optimum " + optimum);
}

LogicalResult Comparison::compare(func::FuncOp func,
                                  ArrayRef<StringRef> lines) {
  const Target *target = getTargetOf(func);
  FailureOr<PlanGraph> graph = PlanGraph::build(func, *target);
  if (failed(graph))
    return failure();
  PlanSearch search(*graph, Fusion::None);
  std::vector<const PlanOption *> frontier = search.findFrontier();
  for (StringRef line : lines) {
    SmallVector<StringRef, 3> fields;
    line.split(fields, ',');
    int64_t number;
    if (fields.size() < 2 || fields[1].getAsInteger(10, number))
      return func.emitError("expected 'name,number' or 'name,number,optimum', "
                            "but got '")
             << line << "'";
    if (fields.size() > 2) {
      compareStep(fields[0], frontier, *graph, number, fields[2]);
      continue;
    }
    ++orders;
    int64_t peak = frontier.front()->peak;
    optimalOrders += peak == number;
    worstOrder = std::max(worstOrder, double(peak) / number - 1);
    if (peak < number && ++wrong)
      report(fields[0], "a peak of " + Twine(peak) + ", below the lowest, " +
                            Twine(number));
  }
  return success();
}

LogicalResult Comparison::finish() {
  auto percent = [](double part, double whole) {
    return llvm::format("%.2f %%", whole > 0 ? 100 * part / whole : 100);
  };
  if (steps > 0)
    llvm::outs() << steps << " steps: " << percent(optimal, steps)
                 << " optimal, " << missed << " without a plan, worst "
                 << percent(worst, 1) << ", mean " << percent(sum, steps)
                 << " over the optimum; bound at " << percent(boundSum, steps)
                 << " of it; " << infeasible << " infeasible, " << unknown
                 << " unknown, " << beyond
                 << " better with an op that runs three times\n";
  if (orders > 0)
    llvm::outs() << orders << " orders: " << percent(optimalOrders, orders)
                 << " optimal, worst " << percent(worstOrder, 1)
                 << " over the optimum\n";
  return success(wrong == 0 && missed == 0 && optimalOrders == orders &&
                 optimal >= kLeastOptimal * steps && worst <= kMostExcess);
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  if (argc < 3) {
    llvm::errs() << "error: expected GRAPHS.mlir OPTIMA.csv [--verbose]\n";
    return 1;
  }
  DialectRegistry registry;
  registerDialectAndModels(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(argv[1], &context);
  auto table = llvm::MemoryBuffer::getFile(argv[2]);
  if (!module || !table) {
    llvm::errs() << "error: cannot read '" << argv[1] << "' and '" << argv[2]
                 << "'\n";
    return 1;
  }
  llvm::StringMap<SmallVector<StringRef, 3>> lines; // looked up only
  SmallVector<StringRef> all;
  (*table)->getBuffer().split(all, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef line : all)
    if (!line.starts_with("#"))
      lines[line.split(',').first].push_back(line);
  Comparison comparison(argc > 3);
  for (auto func : module->getOps<func::FuncOp>())
    if (auto it = lines.find(func.getName()); it != lines.end())
      if (failed(comparison.compare(func, it->second)))
        return 1;
  return failed(comparison.finish());
}
