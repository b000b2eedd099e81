//===- Memory.cpp - calls that may run out of memory ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An allocation that fails in a call jumps out of it, as LLVM's own
// CrashRecoveryContext does: an exception would end the process at the first
// function that promises to throw none. The one source that is built with
// exceptions, for allocations of others.
//
//===----------------------------------------------------------------------===//

#include "Memory.h"

#include "llvm/Support/ErrorHandling.h"

#include <csetjmp>
#include <cstdlib>
#include <mutex>
#include <new>

// Kept while a call runs, and freed where it fails, so that there is memory to
// say so.
static constexpr size_t kReserve = 4 << 20;

// Where the call of this thread is left; null outside of calls.
static thread_local jmp_buf *exitOfCall = nullptr;

// The handler that was there before ours, which a process has one of.
static std::new_handler previous = nullptr;

static void onFailedNew() {
  if (exitOfCall)
    longjmp(*exitOfCall, 1);
  if (!previous)
    throw std::bad_alloc();
  previous();
}

static void onFailedBuffer(void *, const char *, bool) {
  if (exitOfCall)
    longjmp(*exitOfCall, 1);
}

bool mlir::fp8::runWithinMemory(void (*body)(void *), void *data) {
  static std::once_flag installed;
  std::call_once(installed, [] {
    llvm::install_bad_alloc_error_handler(onFailedBuffer);
    previous = std::set_new_handler(onFailedNew);
  });
  void *volatile reserve = malloc(kReserve);
  jmp_buf here;
  jmp_buf *volatile outer = exitOfCall;
  volatile bool finished = false;
  if (reserve && setjmp(here) == 0) {
    exitOfCall = &here;
    body(data);
    finished = true;
  }
  exitOfCall = outer;
  free(reserve);
  return finished;
}
