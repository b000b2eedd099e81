//===- Progress.cpp - long searches: how far, and how to end ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Progress.h.
//
//===----------------------------------------------------------------------===//

#include "fp8/Support/Progress.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <csignal>

using namespace mlir::fp8;

static std::atomic<bool> interrupted = false;
static std::atomic<bool> shown = false;
/// Whether the cursor stands behind a line of progress.
static std::atomic<bool> lineIsOpen = false;

void mlir::fp8::catchInterrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = true; };
  // The second one finds the default again.
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

bool mlir::fp8::isInterrupted() { return interrupted; }

void mlir::fp8::showProgress() { shown = true; }

void mlir::fp8::reportProgress(llvm::StringRef function, int64_t done,
                               int64_t most, int64_t peak, double seconds) {
  if (!shown)
    return;
  // Clears what is left of a longer line.
  llvm::errs() << llvm::formatv(
      "\r@{0}: {1} of at most {2} plans, smallest peak {3:F2} GB, shortest "
      "step {4:F3} ms; Ctrl-C takes the best so far\x1b[K",
      function, done, most, peak / 1e9, seconds * 1e3);
  llvm::errs().flush();
  lineIsOpen = true;
}

void mlir::fp8::endProgress() {
  if (lineIsOpen.exchange(false))
    llvm::errs() << '\n';
}
