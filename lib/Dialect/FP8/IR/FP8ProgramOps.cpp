//===- FP8ProgramOps.cpp ----------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parsing, printing and verification of the ops of FP8ProgramOps.td.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include <map>

using namespace mlir;
using namespace mlir::fp8;

//===----------------------------------------------------------------------===//
// StepOp
//===----------------------------------------------------------------------===//

YieldOp StepOp::getForwardYield() {
  return cast<YieldOp>(getForward().front().getTerminator());
}
YieldOp StepOp::getBackwardYield() {
  return cast<YieldOp>(getBackward().front().getTerminator());
}

ParseResult StepOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<Type> types;
  SmallVector<OpAsmParser::Argument> residuals;
  Region *forward = result.addRegion(), *backward = result.addRegion();
  if (parser.parseOptionalAttrDict(result.attributes))
    return failure();
  if (succeeded(parser.parseOptionalArrow()))
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, [&] {
          return parser.parseType(types.emplace_back());
        }))
      return failure();
  result.addTypes(types);
  if (parser.parseKeyword("forward") || parser.parseRegion(*forward) ||
      parser.parseKeyword("backward") ||
      parser.parseArgumentList(residuals, OpAsmParser::Delimiter::OptionalParen,
                               /*allowType=*/true) ||
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
    llvm::interleaveComma(
        getBackward().getArguments(), printer,
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
    return parser.emitError(loc) << "expected 'loop', 'matmul', 'collective', "
                                    "'opaque', 'state' or 'copy', but got '"
                                 << kindName << "'";
  auto parseInput = [&]() -> ParseResult {
    OpAsmParser::Argument &argument = arguments.emplace_back();
    return failure(parser.parseArgument(argument) || parser.parseEqual() ||
                   parser.parseOperand(operands.emplace_back()) ||
                   parser.parseColonType(argument.type));
  };
  SMLoc operandLoc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::OptionalParen,
                                     parseInput))
    return failure();
  for (OpAsmParser::Argument &argument : arguments)
    inputTypes.push_back(argument.type);
  if (succeeded(parser.parseOptionalArrow()))
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, [&] {
          return parser.parseType(types.emplace_back());
        }))
      return failure();
  result.addTypes(types);
  SMLoc attributesLoc = parser.getCurrentLocation();
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  // An inherent attribute of the wrong kind would be dropped without a word.
  if (failed(verifyInherentAttrs(result.name, result.attributes, [&] {
        return parser.emitError(attributesLoc) << "'" << result.name << "' ";
      })))
    return failure();
  if (result.attributes.get(getKindAttrName(result.name)))
    return parser.emitError(attributesLoc)
           << "expected the kind of a kernel once, but got 'kind' again";
  if (parser.parseRegion(*result.addRegion(), arguments))
    return failure();
  result.addAttribute(getKindAttrName(result.name),
                      KernelKindAttr::get(parser.getContext(), *kind));
  return parser.resolveOperands(operands, inputTypes, operandLoc,
                                result.operands);
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << ' ' << stringifyKernelKind(getKind());
  if (!getInputs().empty()) {
    printer << " (";
    llvm::interleaveComma(llvm::zip(getBody().getArguments(), getInputs()),
                          printer, [&](auto pair) {
                            printer << std::get<0>(pair) << " = "
                                    << std::get<1>(pair) << " : "
                                    << std::get<1>(pair).getType();
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

//===----------------------------------------------------------------------===//
// Verification of the step
//===----------------------------------------------------------------------===//

/// The yield that ends the only block of a region, or null.
static YieldOp getYield(Region &region) {
  if (!region.hasOneBlock() || region.front().empty())
    return {};
  return dyn_cast<YieldOp>(region.front().back());
}

/// Fails unless `actual` holds the types `expected`, entry by entry.
static LogicalResult verifyTypes(Operation *op, StringRef what,
                                 TypeRange actual, TypeRange expected,
                                 StringRef expectedWhat) {
  if (actual.size() != expected.size())
    return op->emitOpError()
           << "expected " << expected.size() << " " << what << ", as many as "
           << expectedWhat << ", but got " << actual.size();
  for (auto [index, pair] : llvm::enumerate(llvm::zip_equal(actual, expected)))
    if (auto [got, want] = pair; got != want)
      return op->emitOpError() << "expected " << what << " with the types of "
                               << expectedWhat << ", but number " << index
                               << " is " << got << " where that is " << want;
  return success();
}

LogicalResult StepOp::verify() {
  // (C5)
  Block *block = (*this)->getBlock();
  if (!isa_and_nonnull<FunctionOpInterface>((*this)->getParentOp()))
    return emitOpError()
           << "expected to stand directly in a function, but got '"
           << (*this)->getParentOp()->getName() << "' around it";
  for (Block &other : *block->getParent())
    for (auto step : other.getOps<StepOp>()) {
      if (step == *this)
        return success();
      InFlightDiagnostic diagnostic =
          emitOpError()
          << "expected one step in a function, but got a second one";
      diagnostic.attachNote(step.getLoc()) << "the first one is here";
      return diagnostic;
    }
  return success();
}

LogicalResult StepOp::verifyRegions() {
  // (C1)
  for (auto [name, region] : {std::pair("forward", &getForward()),
                              std::pair("backward", &getBackward())})
    if (!getYield(*region))
      return emitOpError()
             << "expected the " << name
             << " region to be one block that ends with 'fp8.yield'";
  if (getForward().getNumArguments() != 0)
    return emitOpError()
           << "expected no arguments of the forward region, but got "
           << getForward().getNumArguments();
  YieldOp forward = getYield(getForward()), backward = getYield(getBackward());
  // (C2)
  if (failed(verifyTypes(*this, "arguments of the backward region",
                         getBackward().getArgumentTypes(),
                         forward.getResiduals().getTypes(),
                         "the forward yield's residuals")))
    return failure();
  // (C3)
  if (!backward.getResiduals().empty())
    return emitOpError()
           << "expected no residuals on the backward yield, but got "
           << backward.getResiduals().size();
  // (C4)
  SmallVector<Type> yielded(forward.getValues().getTypes());
  llvm::append_range(yielded, backward.getValues().getTypes());
  if (failed(verifyTypes(*this, "results", getResultTypes(), yielded,
                         "the values of both yields")))
    return failure();
  // (C1) of fp8.remat_barrier, here since one walk sees them all
  std::map<int64_t, Operation *> barriers;
  WalkResult result = walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<KernelOp>(op))
      return WalkResult::skip();
    auto barrier = dyn_cast<RematBarrierOp>(op);
    if (!barrier)
      return WalkResult::advance();
    auto [first, isNew] = barriers.try_emplace(barrier.getId(), op);
    if (isNew)
      return WalkResult::advance();
    InFlightDiagnostic diagnostic = barrier.emitOpError()
                                    << "expected an 'id' of its own, but got "
                                    << barrier.getId() << " again";
    diagnostic.attachNote(first->second->getLoc())
        << "the first barrier with this id is here";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult YieldOp::verify() {
  // (C1)
  auto step = dyn_cast<StepOp>((*this)->getParentOp());
  bool isForward = step && (*this)->getParentRegion() == &step.getForward();
  // A residual of the backward yield is refused by the step (C3), which can say
  // so better.
  if (getResiduals().empty() || isForward || step)
    return success();
  return emitOpError()
         << "expected residuals only in the forward region of a step, but got "
         << getResiduals().size();
}

//===----------------------------------------------------------------------===//
// Verification of the kernel and the free
//===----------------------------------------------------------------------===//

LogicalResult KernelOp::verify() {
  // (C3)
  if (std::optional<ArrayRef<int64_t>> offsets = getOffsets()) {
    if (offsets->size() != getNumResults())
      return emitOpError() << "expected 'offsets' with one entry per result ("
                           << getNumResults() << "), but got "
                           << offsets->size();
    for (int64_t offset : *offsets)
      if (offset != -1 && (offset < 0 || offset % 256 != 0))
        return emitOpError()
               << "expected 'offsets' of -1 or multiples of 256, but got "
               << offset;
  }
  // (C4)
  int64_t workspace = getWorkspace();
  if (workspace < 0)
    return emitOpError() << "expected 'workspace' not to be negative, but got "
                         << workspace;
  if (std::optional<int64_t> offset = getWorkspaceOffset()) {
    if (workspace == 0)
      return emitOpError() << "expected 'workspace_offset' only beside a "
                              "'workspace' above 0, but got one";
    if (*offset < 0 || *offset % 256 != 0)
      return emitOpError()
             << "expected 'workspace_offset' to be a multiple of 256, but got "
             << *offset;
  }
  // (C6)
  if (std::optional<ArrayAttr> fills = getFills())
    for (FillAttr fill : fills->getAsRange<FillAttr>()) {
      int64_t buffers = getNumOperands() + getNumResults() + (workspace > 0);
      if (fill.getBuffer() >= buffers)
        return emitOpError() << "expected a fill of one of " << buffers
                             << " buffers, but got number " << fill.getBuffer();
    }
  // (C5)
  std::optional<ArrayRef<int64_t>> inPlace = getInPlace();
  if (!inPlace)
    return success();
  Operation *first =
      getBody().front().empty() ? nullptr : &getBody().front().front();
  bool gathers = getKind() == KernelKind::Collective &&
                 isa_and_nonnull<AllGatherOp, AllGatherStartOp>(first);
  if (getKind() != KernelKind::Loop && getKind() != KernelKind::Matmul &&
      !gathers)
    return emitOpError() << "expected no 'in_place' on a '"
                         << stringifyKernelKind(getKind()) << "' kernel"
                         << (getKind() == KernelKind::Collective
                                 ? " that does not begin with a gather"
                                 : "");
  if (inPlace->size() != getNumResults())
    return emitOpError() << "expected 'in_place' with one entry per result ("
                         << getNumResults() << "), but got " << inPlace->size();
  int64_t numInputs = getInputs().size();
  for (auto [number, operand] : llvm::enumerate(*inPlace)) {
    if (operand == -1)
      continue;
    if (operand < 0 || operand >= numInputs)
      return emitOpError() << "expected 'in_place' of -1 or operand numbers "
                              "below "
                           << numInputs << ", but got " << operand;
    if (llvm::is_contained(inPlace->take_front(number), operand))
      return emitOpError() << "expected no operand twice in 'in_place', but "
                              "got "
                           << operand << " again";
    Type type = getResult(number).getType(),
         over = getInputs()[operand].getType();
    if (!isa<RankedTensorType>(type) || !isa<RankedTensorType>(over))
      return emitOpError() << "expected result " << number << " and operand "
                           << operand << " to be tensors, but got " << type
                           << " and " << over;
    // What the parts of a gather must be is checked with the plan.
    if (!gathers && getByteSize(type) != getByteSize(over))
      return emitOpError() << "expected result " << number
                           << " to be of as many bytes as operand " << operand
                           << ", which it is written over, but got " << type
                           << " and " << over;
  }
  return success();
}

/// True for what a kernel may hold beside the ops that its kind names.
static bool isPlumbing(Operation *op) {
  return isa<YieldOp>(op) || (isView(op) && !isa<WaitOp>(op));
}

/// True for the ops that one pass over memory can do.
static bool isLoopOp(Operation *op) {
  return isa<AmaxOp, ScaleOp, CastOp, DequantizeOp, ReduceOp, BroadcastOp,
             TransposeOp, PadOp, UpdateSliceOp, RandomOp>(op) ||
         op->hasTrait<OpTrait::ConstantLike>() ||
         (op->hasTrait<OpTrait::Elementwise>() && op->getNumRegions() == 0);
}

/// True for the ops of which a kernel of this kind, other than `loop`, holds
/// exactly one.
static bool isOnlyOp(KernelKind kind, Operation *op) {
  switch (kind) {
  case KernelKind::Loop:
    return false;
  case KernelKind::Matmul:
    return isa<MatmulOp, GroupedMatmulOp>(op);
  case KernelKind::Collective:
    return isa<WaitOp>(op) || getCollective(op);
  case KernelKind::Opaque:
    return isa<OpaqueOp>(op);
  case KernelKind::State:
    return isa<PushAmaxOp, UpdateScaleOp>(op);
  case KernelKind::Copy:
    return isHostCopy(op);
  }
  return false;
}

LogicalResult KernelOp::verifyRegions() {
  // (C1)
  YieldOp yield = getYield(getBody());
  if (!yield)
    return emitOpError()
           << "expected the body to be one block that ends with 'fp8.yield'";
  if (failed(verifyTypes(*this, "arguments of the body",
                         getBody().getArgumentTypes(), getInputs().getTypes(),
                         "the operands")) ||
      failed(verifyTypes(*this, "results", getResultTypes(),
                         yield.getValues().getTypes(),
                         "the values of the yield")))
    return failure();
  // (C2)
  StringRef kind = stringifyKernelKind(getKind());
  int64_t count = 0;
  for (Operation &op : getBody().front()) {
    // (C7)
    if (isa<UpdateSliceOp>(op) &&
        (!op.getResult(0).hasOneUse() || *op.user_begin() != yield)) {
      InFlightDiagnostic diagnostic =
          emitOpError() << "expected the result of 'fp8.update_slice' to be "
                           "yielded, once, and not to be read";
      diagnostic.attachNote(op.getLoc()) << "it stands here";
      return diagnostic;
    }
    if (isPlumbing(&op) ||
        (isa<UpdateSliceOp>(op) && getKind() == KernelKind::Matmul))
      continue;
    if (getKind() == KernelKind::Loop ? isLoopOp(&op)
                                      : isOnlyOp(getKind(), &op)) {
      ++count;
      continue;
    }
    InFlightDiagnostic diagnostic =
        emitOpError() << "expected only ops that a '" << kind
                      << "' kernel runs, but got '" << op.getName() << "'";
    diagnostic.attachNote(op.getLoc()) << "it stands here";
    return diagnostic;
  }
  if (getKind() != KernelKind::Loop && count != 1)
    return emitOpError() << "expected exactly one op that a '" << kind
                         << "' kernel runs, but got " << count;
  return success();
}

LogicalResult FreeOp::verify() {
  // (C1)
  for (Value value : getValues()) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      Operation *parent = argument.getOwner()->getParentOp();
      if (isa_and_nonnull<StepOp>(parent))
        continue;
      InFlightDiagnostic diagnostic =
          emitOpError() << "expected results or residuals, but got argument "
                        << argument.getArgNumber();
      if (parent)
        diagnostic << " of '" << parent->getName() << "'";
      return diagnostic;
    }
    if (isView(value.getDefiningOp()))
      return emitOpError()
             << "expected the root of a storage, but got a view made by '"
             << value.getDefiningOp()->getName() << "'";
  }
  return success();
}
