//===- CheckHost.cpp - the plan of host memory ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What waits in host memory: one copy there, one copy back, one place.
//
//===----------------------------------------------------------------------===//

#include "Checks.h"

#include <map>

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::check;

/// Host memory is handed out in slots of this many bytes, as the arena is.
static constexpr int64_t kHostAlignment = 256;

namespace {

class HostChecker {
public:
  explicit HostChecker(const PlanLine &line) : line(line) {}

  LogicalResult run();

private:
  void checkCopies(const HostValue &host);
  void checkPlace(const HostValue &host, int64_t hostBytes);

  std::string describe(const HostValue &host) const {
    std::string name = host.source < 0 ? "?" : line.getName(host.source);
    return ("'" + name + "' (" + Twine(host.bytes) + " bytes)").str();
  }
  Operation *opAt(int position) const { return line.ops[position].op; }
  InFlightDiagnostic error(Operation *op) {
    failed = true;
    return op->emitOpError();
  }

  const PlanLine &line;
  std::map<int, int> copiedAt;                ///< by storage
  std::map<int64_t, const HostValue *> slots; ///< by offset
  bool failed = false;
};

} // namespace

void HostChecker::checkCopies(const HostValue &host) {
  Operation *op = opAt(host.producer);
  if (host.source >= 0) {
    auto [first, isNew] = copiedAt.try_emplace(host.source, host.producer);
    if (!isNew)
      error(op)
              .append("copies ", describe(host), " to the host a second time")
              .attachNote(opAt(first->second)->getLoc())
          << "first copied here";
    if (line.storages[host.source].residual)
      error(op) << "copies " << describe(host)
                << " to the host, but it is kept on the device for backward "
                   "too";
  }
  if (host.readers.empty())
    error(op) << "copies " << describe(host)
              << " to the host, but nothing copies it back";
  for (int reader : ArrayRef(host.readers).drop_front(!host.readers.empty()))
    error(opAt(reader))
            .append("copies ", describe(host), " back a second time")
            .attachNote(opAt(host.readers.front())->getLoc())
        << "first copied back here";
  int wait = host.transfer < 0 ? -1 : line.transfers[host.transfer].wait;
  for (int reader : host.readers)
    if (wait < 0 || reader < wait)
      error(opAt(reader))
              .append("copies ", describe(host),
                      " back before the wait for its copy to the host")
              .attachNote(op->getLoc())
          << "started here";
}

void HostChecker::checkPlace(const HostValue &host, int64_t hostBytes) {
  auto kernel = cast<KernelOp>(opAt(host.producer));
  std::optional<ArrayRef<int64_t>> offsets = kernel.getOffsets();
  unsigned result = cast<OpResult>(host.root).getResultNumber();
  int64_t offset =
      offsets && result < offsets->size() ? (*offsets)[result] : -1;
  if (offset < 0 || offset % kHostAlignment) {
    error(kernel) << "expected an offset in host memory, a multiple of "
                  << kHostAlignment << ", for " << describe(host)
                  << ", but got " << offset;
    return;
  }
  if (offset > hostBytes || host.bytes > hostBytes - offset) {
    error(kernel) << "places " << describe(host) << " at " << offset
                  << ", beyond the end of host memory at " << hostBytes;
    return;
  }
  // All are live between the regions.
  auto next = slots.lower_bound(offset);
  const HostValue *met = nullptr;
  if (next != slots.end() && next->first < offset + host.bytes)
    met = next->second;
  if (next != slots.begin() &&
      std::prev(next)->first + std::prev(next)->second->bytes > offset)
    met = std::prev(next)->second;
  if (met)
    error(kernel)
            .append("places ", describe(host), " in host memory at ",
                    Twine(offset), ", where ", describe(*met), " lies")
            .attachNote(opAt(met->producer)->getLoc())
        << "placed here";
  slots[offset] = &host;
}

LogicalResult HostChecker::run() {
  for (const HostValue &host : line.hosts)
    checkCopies(host);
  if (line.func->hasAttr(kArenaBytesAttr)) {
    auto bytes = line.func->getAttrOfType<IntegerAttr>(kHostBytesAttr);
    for (const HostValue &host : line.hosts)
      checkPlace(host, bytes ? bytes.getValue().getSExtValue() : 0);
  }
  return success(!failed);
}

LogicalResult check::checkHost(const PlanLine &line) {
  return HostChecker(line).run();
}
