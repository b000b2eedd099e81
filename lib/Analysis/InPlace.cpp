//===- InPlace.cpp - results in the storage of operands ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rule looks at the ops of a kernel and at what each of them reads: all of
// a value, or a view of it.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/InPlace.h"

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// What an op of a kernel reads: a value, by its number, as it is or through a
/// view.
struct Read {
  int value = -1;
  bool whole = false;
};

struct Member {
  Operation *op = nullptr;
  unsigned firstRead = 0, numReads = 0; ///< of Body::reads, one an operand
  unsigned firstResult = 0, numResults = 0;
};

/// The ops of a kernel, without views and constants.
struct Body {
  SmallVector<Member, 16> members;
  SmallVector<Read, 64> reads;
  SmallVector<int, 32> results;
  SmallVector<Read, 4> outputs; ///< the values that are written to memory
  int result = -1;              ///< which of them the rule is about

  /// Adds a member; what it reads and makes is added after it.
  void add(Operation *op) {
    members.push_back(
        {op, unsigned(reads.size()), 0, unsigned(results.size()), 0});
  }
  void addRead(Read read) {
    reads.push_back(read);
    ++members.back().numReads;
  }
  void addResult(int value) {
    results.push_back(value);
    ++members.back().numResults;
  }
  ArrayRef<Read> readsOf(const Member &member) const {
    return ArrayRef(reads).slice(member.firstRead, member.numReads);
  }
  ArrayRef<int> resultsOf(const Member &member) const {
    return ArrayRef(results).slice(member.firstResult, member.numResults);
  }
};

/// What `value` of the program is in memory.
Read getRead(const Program &program, int value) {
  bool whole = true;
  int root = program.values[value].root;
  while (value != root) {
    const Instance &instance =
        program.instances[program.values[value].instance];
    Operation *op = program.node(instance).op;
    // A barrier and a wait are other names of all of it.
    if (!isa<RematBarrierOp, WaitOp>(op))
      return {root, false};
    value = instance.operands.front();
  }
  return {root, whole};
}

/// The body of a kernel whose members are ops of the program.
Body readMembers(const KernelGraph &graph, const KernelNode &kernel,
                 int output) {
  const Program &program = *graph.program;
  Body body;
  for (auto [number, value] : llvm::enumerate(kernel.outputs)) {
    body.outputs.push_back({value, true});
    if (value == output)
      body.result = number;
  }
  for (int id : kernel.members) {
    const Instance &instance = program.instances[id];
    body.add(program.node(instance).op);
    for (int operand : instance.operands)
      body.addRead(getRead(program, operand));
    for (int value : instance.results)
      body.addResult(value);
  }
  return body;
}

/// The body of a kernel that is an fp8.kernel. Values inside are numbered after
/// those of the program.
Body readKernelOp(const KernelGraph &graph, const Instance &instance,
                  int output) {
  const Program &program = *graph.program;
  auto kernel = cast<KernelOp>(program.node(instance).op);
  Block &block = kernel.getBody().front();
  Body body;
  DenseMap<Value, Read> reads; // looked up only
  int next = program.values.size();
  for (auto [argument, operand] :
       llvm::zip_equal(block.getArguments(), instance.operands))
    reads[argument] = getRead(program, operand);
  for (Operation &op : block.without_terminator()) {
    if (isView(&op) && !isa<WaitOp>(op)) {
      Read read = reads.lookup(op.getOperand(0));
      read.whole &= isa<RematBarrierOp>(op);
      reads[op.getResult(0)] = read;
      continue;
    }
    body.add(&op);
    for (Value operand : op.getOperands())
      body.addRead(reads.lookup(operand));
    for (Value result : op.getResults()) {
      body.addResult(next);
      reads[result] = {next++, true};
    }
  }
  for (Value value : block.getTerminator()->getOperands())
    body.outputs.push_back(reads.lookup(value));
  body.result = llvm::find(instance.results, output) - instance.results.begin();
  return body;
}

/// True where element i of each result of `op` is computed from element i of
/// operand `number`.
bool isElementwiseIn(Operation *op, unsigned number) {
  if (isa<CastOp, DequantizeOp>(op))
    return number == 0; // The scale is one a group.
  return OpTrait::hasElementwiseMappableTraits(op);
}

bool canLoopWriteOver(const Body &body, int operand) {
  // A tensor in pieces keeps what other kernels have written.
  for (const Member &member : body.members)
    if (isa<UpdateSliceOp>(member.op) &&
        (llvm::is_contained(body.resultsOf(member),
                            body.outputs[body.result].value) ||
         body.readsOf(member).back().value == operand))
      return false;
  llvm::SmallDenseSet<int, 16> computed, reductions; // looked up only
  computed.insert(operand);
  bool readsBack = false;
  for (const Member &member : body.members) {
    bool any = false;
    for (auto [number, read] : llvm::enumerate(body.readsOf(member))) {
      readsBack |= reductions.contains(read.value);
      if (!computed.contains(read.value))
        continue;
      if (!read.whole || !isElementwiseIn(member.op, number))
        return false;
      any = true;
    }
    if (isa<AmaxOp, ReduceOp>(member.op))
      reductions.insert_range(body.resultsOf(member));
    if (any)
      computed.insert_range(body.resultsOf(member));
  }
  // In one pass all operands are read at an element before any result is
  // written there. A later pass would read what an earlier one has written.
  for (auto [number, output] : llvm::enumerate(body.outputs))
    if (computed.contains(output.value) &&
        (!output.whole ||
         (readsBack && static_cast<int>(number) != body.result)))
      return false;
  return body.outputs[body.result].whole;
}

bool canMatmulWriteOver(const Body &body, int operand) {
  auto matmul = dyn_cast<MatmulOp>(body.members.front().op);
  if (!matmul || !matmul.getAcc() ||
      matmul.getAcc().getType() != matmul.getResult().getType())
    return false;
  unsigned acc = matmul.getAccMutable().begin()->getOperandNumber();
  ArrayRef<Read> reads = body.readsOf(body.members.front());
  for (auto [number, read] : llvm::enumerate(reads))
    if ((read.value == operand) != (number == acc))
      return false;
  return reads[acc].whole;
}

/// True for tensors of one shape whose elements have one width.
bool areLaidOutAlike(const PlanValue &a, const PlanValue &b) {
  return a.layout >= 0 && a.layout == b.layout;
}

/// The fp8.kernel that `kernel` is, or null.
KernelOp getKernelOp(const Program &program, const KernelNode &kernel) {
  const Instance &instance = program.instances[kernel.members.front()];
  return dyn_cast<KernelOp>(program.node(instance).op);
}

/// The collective in `gather` where its operand, one of the kernel's, is a
/// stretch of its result as it is.
std::optional<Collective> getPlainGather(KernelOp gather) {
  if (!gather || gather.getKind() != KernelKind::Collective)
    return std::nullopt;
  std::optional<Collective> collective =
      getCollective(&gather.getBody().front().front());
  if (!collective || collective->kind != Collective::Kind::AllGather ||
      !isa<BlockArgument>(collective->x))
    return std::nullopt;
  auto type = cast<RankedTensorType>(collective->x.getType());
  for (int64_t size : type.getShape().take_front(collective->concat))
    if (size != 1)
      return std::nullopt;
  return collective;
}

/// True where `part` is made by a loop kernel that may write it anywhere, for
/// `gather` alone.
bool isMadeFor(Value part, KernelOp gather) {
  auto maker = part.getDefiningOp<KernelOp>();
  if (!maker || maker.getKind() != KernelKind::Loop ||
      maker->getBlock() != gather->getBlock() || !part.hasOneUse())
    return false;
  auto result = cast<OpResult>(part);
  Value yielded = maker.getBody().front().getTerminator()->getOperand(
      result.getResultNumber());
  return !getAliasedOperand(result) && !yielded.getDefiningOp<UpdateSliceOp>();
}

/// Has root `part`, which a gather reads, lie in its result `whole`.
void placeWithin(MutableArrayRef<LiveRange> ranges, int part, int whole) {
  ranges[whole].first = ranges[part].first;
  ranges[whole].part = part;
  ranges[part] = LiveRange();
  ranges[part].within = whole;
}

/// The root in whose storage the IR says that result `output` of a kernel is
/// written; -1 where it says nothing.
int getWrittenOver(const Program &program, const KernelNode &kernel,
                   int output) {
  const Instance &instance = program.instances[kernel.members.front()];
  KernelOp op = getKernelOp(program, kernel);
  std::optional<ArrayRef<int64_t>> inPlace =
      op ? op.getInPlace() : std::nullopt;
  if (!inPlace)
    return -1;
  int64_t operand = (*inPlace)[llvm::find(instance.results, output) -
                               instance.results.begin()];
  return operand < 0 ? -1 : program.values[instance.operands[operand]].root;
}

} // namespace

static bool computeWritesOver(const KernelGraph &graph, int kernel, int output,
                              int operand) {
  const Program &program = *graph.program;
  const KernelNode &node = graph.kernels[kernel];
  const Instance &instance = program.instances[node.members.front()];
  if (!areLaidOutAlike(program.graphValue(output), program.graphValue(operand)))
    return false;
  NodeClass kind = node.kind;
  if (auto op = dyn_cast<KernelOp>(program.node(instance).op))
    kind = op.getKind() == KernelKind::Loop     ? NodeClass::Loop
           : op.getKind() == KernelKind::Matmul ? NodeClass::Matmul
                                                : NodeClass::Kernel;
  if (kind != NodeClass::Loop && kind != NodeClass::Matmul)
    return false;
  Body body = node.kind == NodeClass::Kernel
                  ? readKernelOp(graph, instance, output)
                  : readMembers(graph, node, output);
  return kind == NodeClass::Loop ? canLoopWriteOver(body, operand)
                                 : canMatmulWriteOver(body, operand);
}

/// A kernel of thousands of ops may have as many results and operands; each
/// pair that is looked at takes as long as the kernel.
static constexpr int kMaxPairs = 64;

bool mlir::fp8::canWriteOver(const KernelGraph &graph, int kernel, int output,
                             int operand) {
  auto [it, inserted] =
      graph.writesOver.try_emplace({kernel, output, operand}, false);
  if (inserted)
    it->second = computeWritesOver(graph, kernel, output, operand);
  return it->second;
}

void mlir::fp8::handOver(const KernelGraph &graph, ArrayRef<int> order,
                         MutableArrayRef<LiveRange> ranges) {
  const Program &program = *graph.program;
  // The last use of what may be written over: of buffers as `ranges` says it,
  // of donated arguments found here.
  std::vector<int> lastUse(ranges.size(), -1);
  std::vector<bool> inArgument(ranges.size(), false);
  for (auto [root, range] : llvm::enumerate(ranges)) {
    lastUse[root] = range.second;
    inArgument[root] = program.values[root].instance < 0;
  }
  for (auto [position, id] : llvm::enumerate(order))
    for (int root : graph.kernels[id].reads)
      if (inArgument[root])
        lastUse[root] = position;
  for (auto [index, id] : llvm::enumerate(order)) {
    int position = index;
    const KernelNode &kernel = graph.kernels[id];
    int pairs = 0;
    auto mayTake = [&](int output, int root) {
      const PlanValue &value = program.graphValue(root);
      return (program.values[root].instance >= 0 || value.donated) &&
             lastUse[root] == position && !value.escapes &&
             ranges[root].successor < 0 &&
             areLaidOutAlike(program.graphValue(output), value) &&
             ++pairs <= kMaxPairs && canWriteOver(graph, id, output, root);
    };
    for (int output : kernel.outputs) {
      const PlanValue &value = program.graphValue(output);
      if (value.bytes == 0 || value.callerPlaced)
        continue;
      int over = -1;
      if (graph.reusesAsWritten)
        over = getWrittenOver(program, kernel, output);
      else
        for (int root : kernel.reads)
          if ((over < 0 || (inArgument[root] && !inArgument[over])) &&
              mayTake(output, root))
            over = root;
      if (over < 0 || ranges[over].successor >= 0)
        continue;
      if (getPlainGather(getKernelOp(program, kernel))) {
        placeWithin(ranges, over, output);
        continue;
      }
      ranges[output].predecessor = over;
      ranges[over].successor = output;
      if (inArgument[over]) {
        inArgument[output] = true;
        ranges[output].first = ranges[output].second = -1;
      } else {
        ranges[over].second = position - 1;
      }
    }
  }
}

/// Slots start at multiples of this, and so do parts of them.
static constexpr int64_t kAlignment = 256;

void mlir::fp8::gatherInPlace(const KernelGraph &graph, ArrayRef<int> order,
                              MutableArrayRef<LiveRange> ranges,
                              PeakInfo &info) {
  const Program &program = *graph.program;
  for (auto [index, id] : llvm::enumerate(order)) {
    KernelOp gather = getKernelOp(program, graph.kernels[id]);
    std::optional<Collective> collective = getPlainGather(gather);
    if (!collective)
      continue;
    unsigned number = cast<BlockArgument>(collective->x).getArgNumber();
    const Instance &instance =
        program.instances[graph.kernels[id].members.front()];
    int part = instance.operands[number], whole = instance.results.front();
    LiveRange &from = ranges[part], &to = ranges[whole];
    int64_t bytes = program.graphValue(part).bytes,
            wholeBytes = program.graphValue(whole).bytes;
    if (!isMadeFor(gather.getInputs()[number], gather) || from.first < 0 ||
        from.predecessor >= 0 || to.first < 0 ||
        program.graphValue(whole).callerPlaced || bytes % kAlignment != 0 ||
        wholeBytes != collective->getSize() * bytes)
      continue;
    int position = index;
    int64_t more = wholeBytes - bytes;
    auto before =
        MutableArrayRef(info.live).slice(from.first, position - from.first);
    if (llvm::any_of(before,
                     [&](int64_t live) { return live + more > info.peak; }))
      continue;
    for (int64_t &live : before)
      live += more;
    for (int at = position; at <= from.second; ++at)
      info.live[at] -= bytes;
    placeWithin(ranges, part, whole);
  }
}
