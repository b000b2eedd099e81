//===- FP8ProgramOps.cpp - the step, the kernel and what a plan adds ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parsing, printing and verification of the ops of FP8ProgramOps.td.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::fp8;

//===----------------------------------------------------------------------===//
// StepOp
//===----------------------------------------------------------------------===//

YieldOp StepOp::getForwardYield() { return cast<YieldOp>(getForward().front().getTerminator()); }
YieldOp StepOp::getBackwardYield() { return cast<YieldOp>(getBackward().front().getTerminator()); }

ParseResult StepOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<Type> types;
  SmallVector<OpAsmParser::Argument> residuals;
  Region *forward = result.addRegion(), *backward = result.addRegion();
  if (parser.parseOptionalAttrDict(result.attributes))
    return failure();
  if (succeeded(parser.parseOptionalArrow()))
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren,
                                       [&] { return parser.parseType(types.emplace_back()); }))
      return failure();
  result.addTypes(types);
  if (parser.parseKeyword("forward") || parser.parseRegion(*forward) || parser.parseKeyword("backward") ||
      parser.parseArgumentList(residuals, OpAsmParser::Delimiter::OptionalParen, /*allowType=*/true) ||
      parser.parseRegion(*backward, residuals))
    return failure();
  return success();
}

void StepOp::print(OpAsmPrinter &printer) {
  printer.printOptionalAttrDict((*this)->getAttrs());
  if (getNumResults()) {
    printer << " -> (";
    llvm::interleaveComma(getResultTypes(), printer);
    printer << ')';
  }
  printer << " forward ";
  printer.printRegion(getForward(), /*printEntryBlockArgs=*/false);
  printer << " backward ";
  if (!getBackward().getArguments().empty()) {
    printer << '(';
    llvm::interleaveComma(getBackward().getArguments(), printer,
                          [&](BlockArgument argument) { printer.printRegionArgument(argument); });
    printer << ") ";
  }
  printer.printRegion(getBackward(), /*printEntryBlockArgs=*/false);
}

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<Type> inputTypes, types;
  StringRef kindName;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&kindName))
    return failure();
  std::optional<KernelKind> kind = symbolizeKernelKind(kindName);
  if (!kind)
    return parser.emitError(loc) << "expected 'loop', 'matmul', 'collective', 'opaque' or 'state', but got '"
                                 << kindName << "'";
  auto parseInput = [&]() -> ParseResult {
    OpAsmParser::Argument &argument = arguments.emplace_back();
    return failure(parser.parseArgument(argument) || parser.parseEqual() ||
                   parser.parseOperand(operands.emplace_back()) || parser.parseColonType(argument.type));
  };
  SMLoc operandLoc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::OptionalParen, parseInput))
    return failure();
  for (OpAsmParser::Argument &argument : arguments)
    inputTypes.push_back(argument.type);
  if (succeeded(parser.parseOptionalArrow()))
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren,
                                       [&] { return parser.parseType(types.emplace_back()); }))
      return failure();
  result.addTypes(types);
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.parseRegion(*result.addRegion(), arguments))
    return failure();
  result.addAttribute(getKindAttrName(result.name), KernelKindAttr::get(parser.getContext(), *kind));
  return parser.resolveOperands(operands, inputTypes, operandLoc, result.operands);
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << ' ' << stringifyKernelKind(getKind());
  if (!getInputs().empty()) {
    printer << " (";
    llvm::interleaveComma(llvm::zip(getBody().getArguments(), getInputs()), printer, [&](auto pair) {
      printer << std::get<0>(pair) << " = " << std::get<1>(pair) << " : " << std::get<1>(pair).getType();
    });
    printer << ')';
  }
  if (getNumResults()) {
    printer << " -> (";
    llvm::interleaveComma(getResultTypes(), printer);
    printer << ')';
  }
  SmallVector<StringRef> elided = {getKindAttrName()};
  if (getWorkspace() == 0)
    elided.push_back(getWorkspaceAttrName());
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), elided);
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult StepOp::verify() { return success(); }
LogicalResult StepOp::verifyRegions() { return success(); }
LogicalResult YieldOp::verify() { return success(); }
LogicalResult KernelOp::verify() { return success(); }
LogicalResult KernelOp::verifyRegions() { return success(); }
LogicalResult FreeOp::verify() { return success(); }
