//===- Offload.cpp - what waits in host memory ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies in an order of kernels: where they start and end, what the kernels
// wait for them, and the bytes that are live with them.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/Offload.h"

#include "fp8/Support/Progress.h"

using namespace mlir;
using namespace mlir::fp8;

/// True for a view that names all or a part of its operand at no cost.
static bool isPlainView(Operation *op) {
  return isView(op) && !isa<WaitOp>(op);
}

/// True for what is made in pieces: as an op, or as the result of a kernel.
static bool isWrittenInPieces(Value value) {
  if (auto kernel = value.getDefiningOp<KernelOp>())
    value = kernel.getBody().front().getTerminator()->getOperand(
        cast<OpResult>(value).getResultNumber());
  return value.getDefiningOp<UpdateSliceOp>() != nullptr;
}

Offloader::Offloader(const KernelGraph &graph, ArrayRef<int> order)
    : graph(graph), order(order), uses(graph.program->values.size()) {
  const Program &program = *graph.program;
  startOf.push_back(0);
  for (int id : order)
    startOf.push_back(startOf.back() + graph.kernels[id].seconds);
  std::vector<LiveRange> ranges = getLiveRanges(graph, order);
  for (auto [index, id] : llvm::enumerate(order)) {
    int position = index;
    const KernelNode &kernel = graph.kernels[id];
    for (int output : kernel.outputs)
      uses[output].made = position;
    auto use = [&](int root) {
      if (position < graph.firstBackward)
        uses[root].lastForward = position;
      else if (uses[root].firstBackward < 0)
        uses[root].firstBackward = position;
    };
    llvm::for_each(kernel.reads, use);
    llvm::for_each(kernel.holds, use);
  }
  // What goes by several names, because a wait, an opaque op or a piece gave it
  // one, is complete under the last. A wait and an opaque op are no kernels to
  // mark.
  std::vector<int> lastName(uses.size(), -1);
  for (auto [value, entry] : llvm::enumerate(program.values)) {
    if (lastName[entry.root] < 0)
      lastName[entry.root] = entry.root;
    if (entry.root == static_cast<int>(value) ||
        isPlainView(program.node(program.instances[entry.instance]).op))
      continue;
    bool isPiece = isWrittenInPieces(program.graphValue(value).value);
    lastName[entry.root] = isPiece ? value : uses.size();
  }
  std::vector<SmallVector<int, 1>> madeBy(program.instances.size());
  for (auto [position, id] : llvm::enumerate(order))
    for (int member : graph.kernels[id].members)
      madeBy[member].push_back(position);
  for (auto [number, value] : llvm::enumerate(program.residuals)) {
    int root = program.values[value].root;
    const PlanValue &entry = program.graphValue(root);
    Use &use = uses[root];
    if (lastName[root] != value || entry.escapes || entry.bytes == 0 ||
        entry.copies != 1 || use.made < 0 || use.firstBackward < 0)
      continue;
    if (ranges[root].first < 0) {
      if (ranges[root].predecessor >= 0)
        inArguments.push_back(number);
      continue;
    }
    use.residual = number;
    for (int position : madeBy[program.values[value].instance])
      use.made = std::max(use.made, position);
    candidates.push_back(root);
  }
  for (int root : candidates)
    uses[root].lastForward = std::max(uses[root].lastForward, uses[root].made);
  llvm::stable_sort(candidates,
                    [&](int a, int b) { return uses[a].made < uses[b].made; });
}

std::vector<HostEvent> mlir::fp8::getEvents(ArrayRef<HostCopy> copies) {
  std::vector<HostEvent> events;
  for (auto [number, copy] : llvm::enumerate(copies)) {
    int index = number;
    events.push_back({copy.outStart, HostEvent::OutStart, index});
    events.push_back({copy.outEnd, HostEvent::OutEnd, index});
    events.push_back({copy.inStart, HostEvent::InStart, index});
    events.push_back({copy.inEnd, HostEvent::InEnd, index});
  }
  // What frees memory goes before what takes it, and what is needed first is
  // copied back first.
  auto keyOf = [&](const HostEvent &event) {
    bool isBack =
        event.kind == HostEvent::InStart || event.kind == HostEvent::InEnd;
    return std::tuple(event.position, event.kind,
                      isBack ? copies[event.copy].inEnd : 0, event.copy);
  };
  llvm::sort(events, [&](const HostEvent &a, const HostEvent &b) {
    return keyOf(a) < keyOf(b);
  });
  return events;
}

OffloadPlan Offloader::plan(ArrayRef<int> roots) const {
  const Target &target = *graph.program->graph->target;
  int numKernels = order.size(), border = graph.firstBackward;
  OffloadPlan plan;
  for (int root : roots) {
    HostCopy copy;
    copy.root = root;
    copy.bytes = graph.program->graphValue(root).bytes;
    copy.seconds = estimateHostSeconds(target, copy.bytes);
    plan.hostBytes += copy.bytes;
    plan.copies.push_back(copy);
  }
  llvm::stable_sort(plan.copies, [&](const HostCopy &a, const HostCopy &b) {
    return std::pair(uses[a.root].made, a.root) <
           std::pair(uses[b.root].made, b.root);
  });
  // The first position that starts no earlier than `time`, up to `last`.
  auto findPosition = [&](double time, int first, int last) {
    return std::lower_bound(startOf.begin() + first, startOf.begin() + last,
                            time) -
           startOf.begin();
  };
  double outFree = 0;
  for (HostCopy &copy : plan.copies) {
    copy.outStart = copy.outEnd = uses[copy.root].made + 1;
    if (!target.hostOverlaps)
      continue;
    outFree = std::max(outFree, startOf[copy.outStart]) + copy.seconds;
    copy.outEnd = findPosition(outFree, copy.outStart, border);
  }
  SmallVector<HostCopy *> back;
  for (HostCopy &copy : plan.copies)
    back.push_back(&copy);
  llvm::stable_sort(back, [&](HostCopy *a, HostCopy *b) {
    return uses[a->root].firstBackward < uses[b->root].firstBackward;
  });
  double nextStart = startOf[numKernels];
  for (HostCopy *copy : llvm::reverse(back)) {
    copy->inStart = copy->inEnd = uses[copy->root].firstBackward;
    if (!target.hostOverlaps)
      continue;
    nextStart = std::min(nextStart, startOf[copy->inEnd]) - copy->seconds;
    // The last position that starts no later.
    int position = findPosition(nextStart, border, copy->inEnd);
    if (position > border && startOf[position] > nextStart)
      --position;
    copy->inStart = position;
  }

  // A clock for the kernels, and one for each direction of copies.
  std::vector<HostEvent> events = getEvents(plan.copies);
  std::vector<double> ends(plan.copies.size(), 0);
  double clock = 0, outIdle = 0, inIdle = 0;
  auto next = events.begin();
  for (int position = 0; position <= numKernels; ++position) {
    for (; next != events.end() && next->position == position; ++next) {
      if (next->kind == HostEvent::OutEnd || next->kind == HostEvent::InEnd) {
        clock = std::max(clock, ends[next->copy]);
        continue;
      }
      double &idle = next->kind == HostEvent::OutStart ? outIdle : inIdle;
      idle = ends[next->copy] =
          std::max(clock, idle) + plan.copies[next->copy].seconds;
    }
    if (position < numKernels)
      clock += graph.kernels[order[position]].seconds;
  }
  plan.seconds = clock;
  plan.peak = simulateWith(plan.copies, /*peakPosition=*/nullptr);
  return plan;
}

/// The peak of the program in which what comes back is a value of its own. The
/// position is that of the kernel at the peak, or of the one that a copy at the
/// peak stands before.
int64_t Offloader::simulateWith(ArrayRef<HostCopy> copies,
                                int *peakPosition) const {
  Program program = *graph.program;
  KernelGraph kernels;
  kernels.program = &program;
  kernels.kernels = graph.kernels;
  kernels.writesOver = graph.writesOver;
  std::vector<int> backOf(program.values.size(), -1);
  for (const HostCopy &copy : copies) {
    backOf[copy.root] = program.values.size();
    InstanceValue value = program.values[copy.root];
    value.root = program.values.size();
    program.values.push_back(value);
  }
  auto rename = [&](int &value) {
    const InstanceValue &entry = program.values[value];
    bool isForward =
        entry.instance >= 0 && !program.instances[entry.instance].backward;
    if (isForward && backOf[entry.root] >= 0)
      value = backOf[entry.root];
  };
  for (Instance &instance :
       llvm::drop_begin(program.instances, program.firstBackward)) {
    llvm::for_each(instance.operands, rename);
    for (int result : instance.results)
      rename(program.values[result].root);
  }
  for (int id : order) {
    KernelNode &kernel = kernels.kernels[id];
    if (!kernel.backward)
      continue;
    llvm::for_each(kernel.reads, rename);
    llvm::for_each(kernel.holds, rename);
  }

  std::vector<int> extended, positions;
  std::vector<HostEvent> events = getEvents(copies);
  auto next = events.begin();
  for (int position = 0; position <= static_cast<int>(order.size());
       ++position) {
    for (; next != events.end() && next->position == position; ++next) {
      const HostCopy &copy = copies[next->copy];
      extended.push_back(kernels.kernels.size());
      positions.push_back(position);
      KernelNode &node = kernels.kernels.emplace_back();
      node.kind = NodeClass::Kernel;
      switch (next->kind) {
      case HostEvent::OutStart:
        node.reads = {copy.root};
        break;
      case HostEvent::OutEnd:
        node.holds = {copy.root};
        break;
      case HostEvent::InStart:
        node.outputs = {backOf[copy.root]};
        break;
      case HostEvent::InEnd:
        node.reads = {backOf[copy.root]};
        break;
      }
    }
    if (position < static_cast<int>(order.size())) {
      extended.push_back(order[position]);
      positions.push_back(position);
    }
  }
  kernels.firstBackward = graph.firstBackward + 2 * copies.size();
  PeakInfo info = simulate(kernels, extended);
  if (peakPosition)
    *peakPosition = info.peakKernel < 0 ? 0 : positions[info.peakKernel];
  return info.peak;
}

SmallVector<std::pair<int, double>>
Offloader::getIdleAtPeak(const OffloadPlan &plan) {
  int peak = 0;
  simulateWith(plan.copies, &peak);
  SmallVector<std::pair<int, double>> idle;
  for (int root : candidates) {
    const Use &use = uses[root];
    if (use.lastForward < peak && peak < use.firstBackward &&
        llvm::none_of(
            plan.copies,
            [root = root](const HostCopy &copy) { return copy.root == root; }))
      idle.push_back(
          {root, startOf[use.firstBackward] - startOf[use.lastForward + 1]});
  }
  return idle;
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

/// What takes this much less than the peak is not worth a copy.
static constexpr int64_t kSmall = 1024;
/// The candidates of one plan are offloaded in so many portions.
static constexpr int64_t kPortions = 48;

std::vector<OffloadOption>
mlir::fp8::findOffloads(Offloader &offloader, const Program &program,
                        ArrayRef<int> asked, int64_t hostBytes,
                        int64_t maxPlans, int64_t &left) {
  std::vector<OffloadOption> options;
  int64_t numCandidates = offloader.getCandidates().size();
  int64_t portion = llvm::divideCeil(
      std::max<int64_t>(numCandidates, 1),
      std::max<int64_t>(std::min<int64_t>(maxPlans, kPortions), 1));
  SmallVector<int> chosen(asked);
  OffloadPlan current = offloader.plan(chosen);
  int64_t lowest = current.peak;
  if (!asked.empty())
    options.push_back({chosen, current.peak, current.seconds});
  for (; maxPlans > 0 && !isInterrupted(); --maxPlans, --left) {
    SmallVector<std::pair<int, double>> idle = offloader.getIdleAtPeak(current);
    auto bytesOf = [&](int root) { return program.graphValue(root).bytes; };
    llvm::erase_if(idle, [&](auto entry) {
      return bytesOf(entry.first) < current.peak / kSmall;
    });
    // What is away longest hides its copies best.
    llvm::stable_sort(idle, [&](auto a, auto b) {
      return std::pair(a.second, bytesOf(a.first)) >
             std::pair(b.second, bytesOf(b.first));
    });
    int64_t room = hostBytes - current.hostBytes, taken = 0;
    for (auto [root, seconds] : idle)
      if (taken < portion && bytesOf(root) <= room) {
        chosen.push_back(root);
        room -= bytesOf(root);
        ++taken;
      }
    if (!taken)
      break;
    current = offloader.plan(chosen);
    if (current.peak >= lowest)
      continue;
    lowest = current.peak;
    options.push_back({chosen, current.peak, current.seconds});
  }
  return options;
}

SmallVector<int> mlir::fp8::getAskedOffloads(const PlanGraph &graph) {
  SmallVector<int> roots;
  for (auto [root, entry] : getOverrides(graph))
    if (auto text = dyn_cast<StringAttr>(entry);
        text && text.getValue() == "offload")
      roots.push_back(root);
  return roots;
}

void mlir::fp8::markOffloads(StepOp step, ArrayRef<int> residuals) {
  llvm::MapVector<Operation *, SmallVector<int64_t>> results;
  for (int number : residuals) {
    auto result = cast<OpResult>(step.getForwardYield().getResiduals()[number]);
    results[result.getOwner()].push_back(result.getResultNumber());
  }
  for (auto &[op, numbers] : results) {
    llvm::sort(numbers);
    op->setAttr(kOffloadAttr,
                DenseI64ArrayAttr::get(op->getContext(), numbers));
  }
}
