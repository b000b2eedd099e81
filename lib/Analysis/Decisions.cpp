//===- Decisions.cpp - what was chosen, and why -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The record of fp8-select-saved and its sentences.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/Decisions.h"

#include "fp8/Analysis/ValueNames.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/JSON.h"
#include <map>

using namespace mlir;
using namespace mlir::fp8;

//===----------------------------------------------------------------------===//
// The record as an attribute
//===----------------------------------------------------------------------===//

DictionaryAttr Decisions::toAttribute(MLIRContext *context) const {
  Builder builder(context);
  auto text = [&](StringRef key, StringRef value) {
    return builder.getNamedAttr(key, builder.getStringAttr(value));
  };
  auto number = [&](StringRef key, int64_t value) {
    return builder.getNamedAttr(key, builder.getI64IntegerAttr(value));
  };
  auto real = [&](StringRef key, double value) {
    return builder.getNamedAttr(key, builder.getF64FloatAttr(value));
  };
  SmallVector<Attribute> savedEntries, recomputedEntries;
  for (const SavedDecision &entry : saved) {
    SmallVector<NamedAttribute> fields = {
        text("value", entry.value), text("op", entry.op),
        text("loc", entry.loc), text("form", entry.form),
        text("why", entry.why)};
    if (entry.escapes)
      fields.push_back(builder.getNamedAttr("escapes", builder.getUnitAttr()));
    savedEntries.push_back(builder.getDictionaryAttr(fields));
  }
  for (const RecomputedDecision &entry : recomputed)
    recomputedEntries.push_back(builder.getDictionaryAttr(
        {text("value", entry.value), text("op", entry.op),
         text("why", entry.why), number("times", entry.times),
         real("seconds", entry.seconds)}));
  SmallVector<Attribute> piecesEntries;
  for (const PiecesDecision &entry : pieces)
    piecesEntries.push_back(builder.getDictionaryAttr(
        {text("value", entry.value), text("why", entry.why),
         number("pieces", entry.pieces), number("rows", entry.rows)}));
  return builder.getDictionaryAttr(
      {text("policy", policy),
       builder.getNamedAttr("interrupted", builder.getBoolAttr(interrupted)),
       number("min_feasible_peak_bytes", minFeasiblePeak),
       number("lower_bound_bytes", lowerBound), text("bound_kind", boundKind),
       real("recompute_seconds", recomputeSeconds),
       real("step_lower_bound_seconds", stepLowerBound),
       text("step_bound_kind", stepBoundKind),
       builder.getNamedAttr("pieces", builder.getArrayAttr(piecesEntries)),
       builder.getNamedAttr("saved", builder.getArrayAttr(savedEntries)),
       builder.getNamedAttr("recomputed",
                            builder.getArrayAttr(recomputedEntries))});
}

std::optional<Decisions> Decisions::read(func::FuncOp func) {
  auto record = func->getAttrOfType<DictionaryAttr>(kDecisionsAttr);
  if (!record)
    return std::nullopt;
  // The record may have been edited by hand: what is missing or of another kind
  // reads as empty.
  auto text = [](DictionaryAttr from, StringRef key) {
    auto value = from.getAs<StringAttr>(key);
    return value ? llvm::json::fixUTF8(value.getValue()) : std::string();
  };
  auto number = [](DictionaryAttr from, StringRef key) {
    auto value = from.getAs<IntegerAttr>(key);
    return value ? value.getInt() : 0;
  };
  auto real = [](DictionaryAttr from, StringRef key) {
    auto value = from.getAs<FloatAttr>(key);
    return value ? value.getValueAsDouble() : 0.0;
  };
  auto entries = [&](StringRef key) {
    SmallVector<DictionaryAttr> result;
    if (auto array = record.getAs<ArrayAttr>(key))
      for (Attribute entry : array)
        if (auto dictionary = dyn_cast<DictionaryAttr>(entry))
          result.push_back(dictionary);
    return result;
  };
  Decisions decisions;
  decisions.policy = text(record, "policy");
  if (auto interrupted = record.getAs<BoolAttr>("interrupted"))
    decisions.interrupted = interrupted.getValue();
  decisions.minFeasiblePeak = number(record, "min_feasible_peak_bytes");
  decisions.lowerBound = number(record, "lower_bound_bytes");
  decisions.boundKind = text(record, "bound_kind");
  decisions.recomputeSeconds = real(record, "recompute_seconds");
  decisions.stepLowerBound = real(record, "step_lower_bound_seconds");
  decisions.stepBoundKind = text(record, "step_bound_kind");
  for (DictionaryAttr entry : entries("saved"))
    decisions.saved.push_back({text(entry, "value"), text(entry, "op"),
                               text(entry, "loc"), text(entry, "form"),
                               text(entry, "why"), entry.contains("escapes")});
  for (DictionaryAttr entry : entries("recomputed"))
    decisions.recomputed.push_back({text(entry, "value"), text(entry, "op"),
                                    text(entry, "why"), number(entry, "times"),
                                    real(entry, "seconds")});
  for (DictionaryAttr entry : entries("pieces"))
    decisions.pieces.push_back({text(entry, "value"), number(entry, "pieces"),
                                number(entry, "rows"), text(entry, "why")});
  return decisions;
}

//===----------------------------------------------------------------------===//
// Sentences
//===----------------------------------------------------------------------===//

std::string mlir::fp8::formatBytes(int64_t bytes) {
  std::string digits = std::to_string(bytes < 0 ? -bytes : bytes), grouped;
  for (auto [index, digit] : llvm::enumerate(digits)) {
    if (index && (digits.size() - index) % 3 == 0)
      grouped += ',';
    grouped += digit;
  }
  return (bytes < 0 ? "-" : "") + grouped + " B";
}

std::string mlir::fp8::formatMicroseconds(double seconds) {
  return llvm::formatv("{0:F3} us", seconds * 1e6).str();
}

/// How a kept value relates to what it was made from.
static std::string getForm(const PlanGraph &graph, const PlanNode &node) {
  if (auto cast = dyn_cast<CastOp>(node.op))
    return isa<E5M6Type>(getElementTypeOrSelf(cast.getType())) ? "e5m6" : "fp8";
  if (isa<AmaxOp>(node.op) ||
      (isa<ReduceOp>(node.op) &&
       cast<ReduceOp>(node.op).getKind() == ReduceKind::Max))
    return "max-only";
  if (isa<TransposeOp>(node.op) && getEncoding(node.op->getResult(0).getType()))
    return "fp8-transposed";
  return "as-is";
}

static std::string getOverride(const PlanNode &node, unsigned result) {
  Attribute attribute = node.op->getAttr(kPolicyAttr);
  if (auto array = dyn_cast_or_null<ArrayAttr>(attribute))
    attribute = result < array.size() ? array[result] : Attribute();
  auto text = dyn_cast_or_null<StringAttr>(attribute);
  return text ? text.getValue().str() : std::string();
}

/// One remark a decision, in category `fp8-select-saved`: `fp8-opt
/// --remarks-filter=fp8 --remark-format=emitRemark`.
static void reportDecision(func::FuncOp func, Value value, StringRef decision,
                           StringRef name, StringRef why, int64_t bytes) {
  remark::passed(value.getLoc(), remark::RemarkOpts::name(decision)
                                     .category("fp8-select-saved")
                                     .function(func.getName()))
      << name << remark::reason("{0}", why.str())
      << remark::metric("bytes", bytes);
}

namespace {

/// What comparisons by a given evaluation may do: plans times nodes.
static constexpr int64_t kMaxEvaluateWork = 20'000;

/// What it would cost to compute kept values again: each by itself as long as
/// there are few, else equal values of equal layers together, else, and where
/// values are dropped within a region, without another plan to compare with,
/// since each takes as long as it does to plan once.
class Comparison {
public:
  Comparison(const PlanGraph &graph, const Program &program,
             const Selection &keptOnly, bool isOffloaded, PlanSearch &search,
             std::function<PlanCost(const Selection &)> evaluate)
      : graph(graph), keptOnly(keptOnly), isOffloaded(isOffloaded),
        search(search), evaluate(std::move(evaluate)) {
    for (int value : program.residuals)
      if (int root = graph.values[program.values[value].value].root;
          isChoice(graph, root)) {
        ++numChoices;
        equals[search.getClass(root)].insert(root);
      }
  }

  /// The rest of the sentence about residual `value`.
  std::string describe(int value) {
    // The storage of a gather in halves is its start's.
    int root = graph.values[value].root;
    int64_t limit = search.getMaxEvaluations() / 16;
    if (evaluate)
      limit = std::min<int64_t>(limit, kMaxEvaluateWork / graph.nodes.size());
    // No override on an op can say what is dropped, and the search knows no
    // plan with copies to the host.
    bool drops =
        !keptOnly.drops.empty() || !keptOnly.order.empty() || isOffloaded;
    if (numChoices <= limit && !drops)
      return describeWithout(root, "it");
    ArrayRef<int> members = equals[search.getClass(root)].getArrayRef();
    if (static_cast<int64_t>(equals.size()) > limit || drops)
      return llvm::formatv(
          "computing it again takes {0} by itself",
          formatMicroseconds(graph.nodes[graph.values[root].node].seconds));
    if (members.size() == 1)
      return describeWithout(root, "it");
    return describeWithout(
        members,
        llvm::formatv("it and its {0} equals", members.size() - 1).str());
  }

private:
  std::string describeWithout(ArrayRef<int> roots, StringRef what) {
    Selection other = keptOnly;
    for (int root : roots)
      other[root] = false;
    if (!plan)
      plan = getCost(keptOnly);
    PlanCost without = getCost(std::move(other));
    double seconds = without.seconds - plan->seconds;
    int64_t bytes = plan->peak - without.peak;
    return llvm::formatv(
        "computing {0} again instead would make the step {1} {2} and the peak "
        "{3} {4}",
        what, formatMicroseconds(std::abs(seconds)),
        seconds >= 0 ? "longer" : "shorter", formatBytes(std::abs(bytes)),
        bytes >= 0 ? "lower" : "higher");
  }

  PlanCost getCost(Selection selection) {
    if (evaluate)
      return evaluate(selection);
    const PlanOption &option = search.evaluateExactly(std::move(selection));
    return {option.peak, option.seconds};
  }

  const PlanGraph &graph;
  const Selection &keptOnly;
  bool isOffloaded;
  PlanSearch &search;
  std::function<PlanCost(const Selection &)> evaluate;
  std::optional<PlanCost> plan; ///< of `keptOnly`, once it is compared with
  int numChoices = 0;
  /// Kept choices by class.
  std::map<int, llvm::SetVector<int>> equals;
};

/// For which nodes each node runs again, and whether what it makes is kept too.
class Recomputations {
public:
  Recomputations(const PlanGraph &graph, const Program &program,
                 const ValueNames &names)
      : graph(graph), names(names), turns(graph.nodes.size()),
        isKept(graph.values.size(), false) {
    for (const Instance &instance : program.instances)
      if (SmallVectorImpl<int> &list = turns[instance.node];
          instance.clone && !instance.dead &&
          !llvm::is_contained(list, instance.turn))
        list.push_back(instance.turn);
    for (int value : program.residuals)
      isKept[graph.values[program.values[value].value].root] = true;
  }

  /// Where recomputation frees what `node` makes.
  std::string describePlaces(int node) const {
    bool wasKept = llvm::any_of(graph.nodes[node].results, [&](int result) {
      return isKept[graph.values[result].root];
    });
    std::string text;
    for (int turn : turns[node]) {
      bool isFirst = turn >= graph.firstBackward && !wasKept;
      if (!text.empty())
        text += ", ";
      text += isFirst ? "between forward and backward"
                      : "before '" + getName(turn) + "'";
      wasKept |= isFirst;
    }
    return text;
  }

  /// What a sentence about a kept value of `node` ends with; -1 stands for an
  /// argument, which nothing computes.
  std::string describeEnd(int node) const {
    if (node < 0)
      return "";
    for (int turn : turns[node])
      if (turn >= graph.firstBackward)
        return "; from '" + getName(turn) + "' on it is computed again";
    return "";
  }

private:
  std::string getName(int node) const {
    Operation *op = graph.nodes[node].op;
    return op->getNumResults() ? names.getName(op->getResult(0))
                               : op->getName().getStringRef().str();
  }

  const PlanGraph &graph;
  const ValueNames &names;
  std::vector<SmallVector<int, 2>> turns; ///< by node, in order
  std::vector<bool> isKept;               ///< of roots
};

} // namespace

void mlir::fp8::explain(const PlanGraph &graph, Policy policy,
                        const Selection &chosen,
                        const std::map<int, std::string> &offloaded,
                        Fusion fusion, PlanSearch &search,
                        std::function<PlanCost(const Selection &)> evaluate,
                        Decisions &decisions) {
  ValueNames names(graph.func);
  Program program = materialize(graph, chosen);
  // What is kept, and no more: `chosen` may also name values that are read only
  // where another is not kept, and a sentence compares with the plan that keeps
  // the rest of the list.
  Selection keptOnly = chosen;
  keptOnly.kept.assign(graph.values.size(), false);
  for (int value : program.residuals)
    keptOnly[graph.values[program.values[value].value].root] = true;
  Comparison comparison(graph, program, keptOnly, !offloaded.empty(), search,
                        std::move(evaluate));
  Recomputations again(graph, program, names);
  for (auto [index, residual] : llvm::enumerate(program.residuals)) {
    int value = program.values[residual].value;
    const PlanValue &entry = graph.values[value];
    const PlanNode &node = graph.nodes[entry.node];
    SavedDecision saved;
    saved.value = names.getName(entry.value);
    saved.op = node.op->getName().getStringRef().str();
    saved.loc = getLocationString(entry.value.getLoc());
    saved.form = getForm(graph, node);
    saved.escapes = entry.escapes;
    unsigned number = cast<OpResult>(entry.value).getResultNumber();
    if (auto it = offloaded.find(index); it != offloaded.end()) {
      saved.form = "offload";
      saved.why = it->second;
    } else if (entry.escapes) {
      saved.why =
          "a result of the function, which stays to the end in any plan";
    } else if (node.recompute == Recompute::Never) {
      saved.why = llvm::formatv("'{0}' may not run twice, so its {1} are kept",
                                saved.op, formatBytes(entry.bytes));
    } else if (getOverride(node, number) == "save") {
      saved.why = llvm::formatv("'fp8.policy' on it says save: {0}",
                                formatBytes(entry.bytes));
    } else if (policy == Policy::SaveAll) {
      saved.why = llvm::formatv(
          "backward reads it, and save-all keeps all that backward reads: {0}",
          formatBytes(entry.bytes));
    } else if (policy == Policy::RecomputeAll) {
      saved.why = llvm::formatv("marked 'fp8.checkpoint': {0}",
                                formatBytes(entry.bytes));
    } else if (policy == Policy::OpList) {
      saved.why = llvm::formatv(
          "'{0}' is in the list of op-list and backward reads its result: {1}",
          saved.op, formatBytes(entry.bytes));
    } else {
      saved.why = llvm::formatv(
          "{0} kept; {1}{2}{3}", formatBytes(entry.bytes),
          comparison.describe(value),
          policy == Policy::MinCut ? "; it is on the minimum cut" : "",
          again.describeEnd(graph.values[entry.root].node));
    }
    reportDecision(graph.func, entry.value, "kept", saved.value, saved.why,
                   entry.bytes);
    decisions.saved.push_back(std::move(saved));
  }

  // What runs again, once for each kernel that computes it: priced by itself,
  // though within a kernel that reads its inputs anyway it costs less.
  KernelGraph kernels = formKernels(program, fusion);
  std::vector<int64_t> runs(program.instances.size(), 0);
  for (const KernelNode &kernel : kernels.kernels)
    for (int member : kernel.members)
      ++runs[member];
  llvm::MapVector<int, int64_t> times;
  for (auto [index, instance] : llvm::enumerate(program.instances))
    if (instance.clone)
      times[instance.node] += runs[index];
  for (auto [id, count] : times) {
    const PlanNode &node = graph.nodes[id];
    RecomputedDecision entry;
    const PlanValue &value = graph.values[node.results.front()];
    entry.value = names.getName(value.value);
    entry.op = node.op->getName().getStringRef().str();
    entry.times = count;
    entry.seconds = node.seconds;
    int64_t bytes = 0;
    for (int result : node.results)
      bytes += graph.values[result].bytes;
    entry.why =
        llvm::formatv("recompute costs {0} by itself ({1} moved) and frees {2} "
                      "{3}",
                      formatMicroseconds(node.seconds),
                      formatBytes(node.cost.bytesRead + node.cost.bytesWritten +
                                  node.cost.bytesSent),
                      formatBytes(bytes), again.describePlaces(id));
    reportDecision(graph.func, value.value, "recomputed", entry.value,
                   entry.why, bytes);
    decisions.recomputed.push_back(std::move(entry));
  }

  // Time of the kernels that only recompute, and in mixed kernels of what they
  // read for recomputation alone.
  for (const KernelNode &kernel : kernels.kernels) {
    bool any = false, all = true;
    for (int member : kernel.members)
      (program.instances[member].clone ? any : all) =
          program.instances[member].clone;
    if (any && all) {
      decisions.recomputeSeconds += kernel.seconds;
    } else if (any) {
      int64_t extra = 0;
      for (int root : kernel.reads) {
        bool forClonesOnly = true;
        for (int member : kernel.members)
          if (!program.instances[member].clone)
            for (int operand : program.instances[member].operands)
              forClonesOnly &= program.values[operand].root != root;
        extra += forClonesOnly ? program.graphValue(root).bytes : 0;
      }
      decisions.recomputeSeconds += extra / graph.target->copyBytesPerSecond;
    }
  }
}

std::pair<int64_t, StringRef>
mlir::fp8::getPeakLowerBound(const PlanGraph &graph) {
  int64_t results = 0, widest = 0;
  // A donated argument may hold one of the results.
  std::map<int64_t, int> donated;
  for (const PlanValue &value : graph.values)
    if (value.donated)
      ++donated[value.bytes];
  for (const PlanValue &value : graph.values)
    if (value.escapes && !value.resident)
      if (auto it = donated.find(value.bytes);
          it == donated.end() || it->second-- <= 0)
        results += value.bytes;
  for (const PlanNode &node : graph.nodes) {
    if (node.kind == NodeClass::Loop || node.kind == NodeClass::View ||
        node.kind == NodeClass::Constant)
      continue;
    int64_t bytes = node.workspace;
    // What a matmul has by rows may be there a few rows at a time.
    auto matmul = dyn_cast<MatmulOp>(node.op);
    auto isWhole = [&](unsigned number) {
      return !matmul || number == 1 ||
             matmul->getOperand(number) == matmul.getScaleB();
    };
    SmallVector<int> roots;
    for (auto [number, operand] : llvm::enumerate(node.operands))
      if (int root = graph.values[operand].root;
          !graph.values[root].resident && isWhole(number) &&
          !llvm::is_contained(roots, root))
        roots.push_back(root);
    for (int root : roots)
      bytes += graph.values[root].bytes;
    if (matmul) {
      widest = std::max(widest, bytes);
      continue;
    }
    for (int result : node.results)
      bytes +=
          graph.values[result].root == result ? graph.values[result].bytes : 0;
    widest = std::max(widest, bytes);
  }
  return widest > results
             ? std::pair(widest, StringRef("operands and results of one op"))
             : std::pair(results, StringRef("results of the step"));
}
