//===- KernelNames.cpp - which kernels are equal, and their names --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Equal kernels share one function; its name says what it does.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/KernelFunction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::fp8;

FailureOr<bool> mlir::fp8::isGenerated(KernelOp kernel, StringRef target) {
  switch (kernel.getKind()) {
  case KernelKind::Matmul:
  case KernelKind::Collective:
  case KernelKind::Copy:
    return false;
  case KernelKind::Opaque:
    return kernel.emitError()
           << "a kernel of kind '" << stringifyKernelKind(kernel.getKind())
           << "' cannot be lowered to " << target << " yet";
  case KernelKind::Loop:
  case KernelKind::State:
    return true;
  }
  return false;
}

std::string mlir::fp8::getKernelStructure(KernelOp kernel) {
  OwningOpRef<KernelOp> copy(cast<KernelOp>(kernel->cloneWithoutRegions()));
  IRMapping mapping;
  kernel.getBody().cloneInto(&copy->getBody(), mapping);
  // Operands stand outside of the clone: only the block's arguments matter.
  copy->getInputsMutable().clear();
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << stringifyKernelKind(kernel.getKind()) << ' ';
  copy->getBody().walk([](Operation *op) {
    SmallVector<StringAttr> names;
    for (NamedAttribute attribute : op->getDiscardableAttrs())
      names.push_back(attribute.getName());
    for (StringAttr name : names)
      op->removeDiscardableAttr(name);
  });
  OpPrintingFlags flags;
  flags.printGenericOpForm().useLocalScope();
  for (Value argument : copy->getBody().getArguments())
    stream << argument.getType() << ' ';
  copy->getBody().front().print(stream);
  return text;
}

std::string mlir::fp8::getKernelSymbol(KernelOp kernel, size_t number) {
  std::string name = "k" + std::to_string(number);
  StringRef last;
  unsigned words = 0;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    StringRef word = op.getName().stripDialect();
    if (word == last || isa<arith::ConstantOp>(op) || words == 6)
      continue;
    name += ("_" + word).str();
    last = word;
    ++words;
  }
  return name;
}
