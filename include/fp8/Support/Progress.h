//===- Progress.h - long searches: how far, and how to end ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A person who waits for a plan sees how far the search is, and may end it with
// the best plan so far. Nothing here changes the output of a run that is not
// interrupted.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_SUPPORT_PROGRESS_H
#define FP8_SUPPORT_PROGRESS_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace mlir::fp8 {

/// Has the first SIGINT of this process make isInterrupted() true. A second one
/// ends the process as if nothing had been installed.
void catchInterrupt();

/// True once the process was asked to end: searches then stop with what they
/// have.
bool isInterrupted();

/// Has reportProgress write to standard error.
void showProgress();

/// Says how far a search is: `done` of at most `most` plans of `function`, the
/// smallest peak in bytes and the shortest step in seconds so far. Overwrites
/// the line of the call before.
void reportProgress(llvm::StringRef function, int64_t done, int64_t most,
                    int64_t peak, double seconds);

/// Ends the line of reportProgress, if there is one.
void endProgress();

} // namespace mlir::fp8

#endif // FP8_SUPPORT_PROGRESS_H
