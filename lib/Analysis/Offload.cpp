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
  // What goes by another name too, because a wait, an opaque op or a piece gave
  // it one, is complete only under that name.
  std::vector<bool> isRenamed(uses.size(), false);
  for (auto [value, entry] : llvm::enumerate(program.values))
    if (entry.root != static_cast<int>(value) &&
        !isPlainView(program.node(program.instances[entry.instance]).op))
      isRenamed[entry.root] = true;
  for (int root : program.residuals) {
    const PlanValue &value = program.graphValue(root);
    if (program.values[root].root == root && !isRenamed[root] &&
        !value.escapes && value.bytes > 0 && value.copies == 1 &&
        ranges[root].first >= 0 && uses[root].made >= 0 &&
        uses[root].firstBackward >= 0)
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
    if (backOf[value] >= 0)
      value = backOf[value];
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

/// What the search may do: plans looked at times nodes of the graph.
static constexpr int64_t kMaxWork = 1'000'000;
static constexpr int64_t kMinPlans = 16, kMaxPlans = 512;
/// Plans of the frontier that it starts from.
static constexpr size_t kMaxStarts = 16;
/// What takes this much less than the peak is not worth a copy.
static constexpr int64_t kSmall = 1024;
/// The candidates of one plan are offloaded in so many portions.
static constexpr int64_t kPortions = 48;

/// The graph values of `roots` of a program.
static SmallVector<int> toGraph(const Program &program, ArrayRef<int> roots) {
  SmallVector<int> values;
  for (int root : roots)
    values.push_back(program.values[root].value);
  return values;
}

std::vector<OffloadOption>
mlir::fp8::findOffloads(const PlanGraph &graph, Fusion fusion,
                        ArrayRef<const PlanOption *> frontier,
                        int64_t hostBytes) {
  std::vector<OffloadOption> options;
  if (!graph.step || frontier.empty())
    return options;
  int64_t numNodes = std::max<int64_t>(graph.nodes.size(), 1);
  int64_t left = std::clamp(kMaxWork / numNodes, kMinPlans, kMaxPlans);
  size_t numStarts = std::min(frontier.size(), kMaxStarts);
  SmallVector<int> asked = getAskedOffloads(graph);
  // From the fastest plan on, evenly spread over the frontier.
  for (size_t start = 0; start < numStarts; ++start) {
    size_t place =
        numStarts == 1 ? 0 : start * (frontier.size() - 1) / (numStarts - 1);
    const PlanOption &from = *frontier[frontier.size() - 1 - place];
    Program program = materialize(graph, from.selection);
    KernelGraph kernels = formKernels(program, fusion);
    Offloader offloader(kernels, schedule(kernels));
    int64_t share = left / (numStarts - start);
    int64_t numCandidates = offloader.getCandidates().size();
    int64_t portion = llvm::divideCeil(
        std::max<int64_t>(numCandidates, 1),
        std::max<int64_t>(std::min<int64_t>(share, kPortions), 1));
    SmallVector<int> chosen;
    for (int root : offloader.getCandidates())
      if (llvm::is_contained(asked, program.values[root].value))
        chosen.push_back(root);
    OffloadPlan current = offloader.plan(chosen);
    int64_t lowest = current.peak;
    if (!asked.empty())
      options.push_back({from.selection, toGraph(program, chosen), current.peak,
                         current.seconds});
    for (; share > 0 && !isInterrupted(); --share, --left) {
      SmallVector<std::pair<int, double>> idle =
          offloader.getIdleAtPeak(current);
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
      options.push_back({from.selection, toGraph(program, chosen), current.peak,
                         current.seconds});
    }
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

FailureOr<OffloadOption>
mlir::fp8::evaluateOffload(const PlanGraph &graph, Fusion fusion,
                           const Selection &selection) {
  OffloadOption option;
  option.selection = selection;
  option.offloaded = getAskedOffloads(graph);
  Program program = materialize(graph, selection);
  KernelGraph kernels = formKernels(program, fusion);
  Offloader offloader(kernels, schedule(kernels));
  std::map<int, int> candidateOf;
  for (int root : offloader.getCandidates())
    candidateOf[program.values[root].value] = root;
  SmallVector<int> roots;
  for (int value : option.offloaded) {
    auto it = candidateOf.find(value);
    if (it == candidateOf.end())
      return emitError(graph.values[value].value.getLoc())
             << "expected a value to offload that backward reads as one kernel "
                "of forward has made it, and that is no result of the step, "
                "but '"
             << ValueNames(graph.func).getName(graph.values[value].value)
             << "' is not";
    roots.push_back(it->second);
  }
  OffloadPlan plan = offloader.plan(roots);
  option.peak = plan.peak;
  option.seconds = plan.seconds;
  return option;
}

void mlir::fp8::markOffloads(const PlanGraph &graph, ArrayRef<int> roots) {
  llvm::MapVector<Operation *, SmallVector<int64_t>> results;
  for (int root : roots) {
    auto result = cast<OpResult>(graph.values[root].value);
    results[result.getOwner()].push_back(result.getResultNumber());
  }
  for (auto &[op, numbers] : results) {
    llvm::sort(numbers);
    op->setAttr(kOffloadAttr,
                DenseI64ArrayAttr::get(op->getContext(), numbers));
  }
}
