//===- PrintSaveForms.cpp - SaveAlternativesInterface, as text --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: fp8-print-save-forms FILE.mlir
//
// Prints one line a form of each result: what test/Dialect/FP8/IR/
// save-forms.mlir compares with numbers worked out by hand.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

int main(int argc, char **argv) {
  if (argc != 2) {
    llvm::errs() << "usage: fp8-print-save-forms FILE.mlir\n";
    return 1;
  }
  MLIRContext context;
  context.loadDialect<fp8::FP8Dialect, func::FuncDialect>();
  auto module = parseSourceFile<ModuleOp>(argv[1], &context);
  if (!module)
    return 1;
  module->walk([](fp8::SaveAlternativesInterface op) {
    for (unsigned result = 0; result < op->getNumResults(); ++result) {
      SmallVector<fp8::SaveForm> forms;
      op.getSaveForms(result, forms);
      for (const fp8::SaveForm &form : forms)
        llvm::outs() << op->getName() << ' ' << form.name
                     << ": bytes=" << form.bytes
                     << " exact=" << (form.exact ? "yes" : "no")
                     << " flops=" << form.flops << " moved=" << form.bytesMoved
                     << '\n';
    }
  });
  return 0;
}
