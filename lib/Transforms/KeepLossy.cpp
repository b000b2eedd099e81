//===- KeepLossy.cpp - fp8-keep-lossy ---------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lets the backward region read forward values through a smaller form of them.
// That changes gradients, so it is done in the program, before any policy: all
// policies then give the same bits.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Target/Reference.h"
#include "fp8/Target/Signature.h"
#include "fp8/Transforms/Passes.h"
#include "fp8/Transforms/Residuals.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/GlobPattern.h"
#include <cmath>

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8KEEPLOSSYPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

enum class Form {
  Block128, ///< e4m3 with a scale for 128 columns of a row
  E5M2      ///< e5m2 without a scale
};

/// One entry of the option.
struct Request {
  std::string text;
  llvm::GlobPattern pattern;
  Form form = Form::Block128;
  StringRef formName;
};

std::string getValueName(Value value) {
  auto loc = dyn_cast<NameLoc>(value.getLoc());
  return loc ? loc.getName().str() : "";
}

/// Rewrites one step.
class Rewriter {
public:
  Rewriter(func::FuncOp function, StepOp step)
      : step(step), builder(function.getContext()) {}

  /// The forward values that `request` names, in program order.
  SmallVector<Value> find(const Request &request);
  /// Has backward read `value` as `request` says.
  void add(Value value, const Request &request, std::optional<double> error);
  /// Replaces what backward reads. Nothing can be added after it.
  void finish();

private:
  Value compress(Value value, const Request &request,
                 std::optional<double> error);
  bool isDerived(Operation *op);
  Value getLossy(Value value, Operation *user);
  Location named(Value value, StringRef suffix);

  StepOp step;
  OpBuilder builder;
  DenseMap<Value, Value> lossy;        // Looked up only.
  DenseMap<Operation *, bool> derived; // Looked up only.
};

} // namespace

Location Rewriter::named(Value value, StringRef suffix) {
  auto loc = dyn_cast<NameLoc>(value.getLoc());
  return loc ? Location(NameLoc::get(
                   builder.getStringAttr(loc.getName().getValue() + suffix),
                   loc.getChildLoc()))
             : value.getLoc();
}

SmallVector<Value> Rewriter::find(const Request &request) {
  SmallVector<Value> found;
  for (Operation &op : step.getForward().front())
    for (Value result : op.getResults())
      if (std::string name = getValueName(result);
          !name.empty() && request.pattern.match(name))
        found.push_back(result);
  return found;
}

/// The cast of `value` that the forward region has already, if it is of the
/// wanted type.
static CastOp findCast(Value value, Type type) {
  for (Operation *user : value.getUsers())
    if (auto cast = dyn_cast<CastOp>(user);
        cast && cast->getBlock() == value.getParentBlock()) {
      auto have = llvm::cast<RankedTensorType>(cast.getResult().getType());
      auto want = llvm::cast<RankedTensorType>(type);
      auto haveGroup = llvm::cast<TensorEncodingAttr>(have.getEncoding()),
           wantGroup = llvm::cast<TensorEncodingAttr>(want.getEncoding());
      if (have.getElementType() == want.getElementType() &&
          haveGroup.getGroup() == wantGroup.getGroup())
        return cast;
    }
  return {};
}

/// The smaller form of `value`, made in the forward region, and the value it
/// stands for, at the start of the backward region.
Value Rewriter::compress(Value value, const Request &request,
                         std::optional<double> error) {
  OpBuilder::InsertionGuard guard(builder);
  MLIRContext *context = builder.getContext();
  auto type = cast<RankedTensorType>(value.getType());
  bool blocks = request.form == Form::Block128;
  SmallVector<int64_t> group =
      blocks ? SmallVector<int64_t>{1, 128} : SmallVector<int64_t>{0, 0};
  Type format = blocks ? Type(Float8E4M3FNType::get(context))
                       : Type(Float8E5M2Type::get(context));
  auto small = RankedTensorType::get(
      type.getShape(), format,
      TensorEncodingAttr::get(context, group, /*pow2=*/false));
  auto scaleType = RankedTensorType::get(getScaleShape(type.getShape(), group),
                                         builder.getF32Type());
  builder.setInsertionPointAfterValue(value);
  CastOp quantised = blocks ? findCast(value, small) : CastOp();
  if (!quantised) {
    Value scale;
    if (blocks) {
      Value maximum = AmaxOp::create(builder, named(value, ".row128.amax"),
                                     scaleType, value, group);
      scale = ScaleOp::create(builder, named(value, ".row128.scale"), scaleType,
                              maximum, format, APFloat(0.0), Division::F32,
                              Pow2::None);
    } else {
      scale = arith::ConstantOp::create(
          builder, value.getLoc(), DenseElementsAttr::get(scaleType, 1.0f));
    }
    quantised =
        CastOp::create(builder, named(value, blocks ? ".row128.e4m3" : ".e5m2"),
                       small, value, scale);
  }
  Block &backward = step.getBackward().front();
  builder.setInsertionPointToStart(&backward);
  auto exact =
      DequantizeOp::create(builder, named(value, "~lossy"), type,
                           quantised.getResult(), quantised.getScale());
  NamedAttrList facts;
  facts.append("value", builder.getStringAttr(getValueName(value)));
  facts.append("form", builder.getStringAttr(request.formName));
  facts.append("bytes",
               builder.getI64IntegerAttr(
                   getByteSize(small) + (blocks ? getByteSize(scaleType) : 0)));
  facts.append("exact_bytes", builder.getI64IntegerAttr(getByteSize(type)));
  if (error)
    facts.append("grad_rel_error", builder.getF64FloatAttr(*error));
  exact->setAttr(kLossyAttr, facts.getDictionary(context));
  return exact;
}

void Rewriter::add(Value value, const Request &request,
                   std::optional<double> error) {
  lossy[value] = compress(value, request, error);
}

/// True for an op whose results backward computes again from a lossy value: it
/// works element by element or along rows and columns on one, or on what such
/// an op makes.
bool Rewriter::isDerived(Operation *op) {
  if (!op || op->getBlock() != &step.getForward().front())
    return false;
  auto [entry, isNew] = derived.try_emplace(op, false);
  if (!isNew)
    return entry->second;
  auto model = dyn_cast<CostOpInterface>(op);
  Recompute recompute = model ? model.getCost().recompute : Recompute::Never;
  bool computes =
      (recompute == Recompute::Free || recompute == Recompute::Yes) &&
      !op->hasAttr(kCheckpointAttr) &&
      !isa<MatmulOp, GroupedMatmulOp, OpaqueOp>(op);
  bool result =
      computes && llvm::any_of(op->getOperands(), [&](Value operand) {
        return lossy.contains(operand) || isDerived(operand.getDefiningOp());
      });
  derived[op] = result;
  return result;
}

/// What stands for the forward value `value` before `user`, an op of the
/// backward region: itself where nothing lossy is behind it.
Value Rewriter::getLossy(Value value, Operation *user) {
  if (Value known = lossy.lookup(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (!isDerived(op))
    return value;
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(getLossy(operand, user));
  builder.setInsertionPoint(user);
  Operation *copy = builder.clone(*op);
  copy->setOperands(operands);
  for (auto [from, to] :
       llvm::zip_equal(op->getResults(), copy->getResults())) {
    to.setLoc(named(from, "~lossy"));
    lossy[from] = to;
  }
  return lossy.lookup(value);
}

void Rewriter::finish() {
  for (Operation &op : llvm::make_early_inc_range(step.getBackward().front())) {
    // The way in: it reads the small form itself.
    if (op.hasAttr(kLossyAttr))
      continue;
    for (OpOperand &operand : op.getOpOperands())
      operand.set(getLossy(operand.get(), &op));
  }
}

/// The largest relative 2-norm of a difference of gradients over all ranks, or
/// nothing where there are none.
static std::optional<double>
compareGradients(func::FuncOp function, ArrayRef<std::vector<HostTensor>> exact,
                 ArrayRef<std::vector<HostTensor>> changed) {
  std::optional<double> worst;
  for (auto [index, result] : llvm::enumerate(getSignature(function).results)) {
    if (!StringRef(result.name).starts_with("d_"))
      continue;
    double difference = 0, norm = 0;
    for (auto [mine, other] : llvm::zip_equal(exact, changed))
      for (auto [a, b] :
           llvm::zip_equal(mine[index].toDoubles(), other[index].toDoubles())) {
        difference += (b - a) * (b - a);
        norm += a * a;
      }
    double relative = norm > 0         ? std::sqrt(difference / norm)
                      : difference > 0 ? HUGE_VAL
                                       : 0;
    worst = std::max(worst.value_or(0), relative);
  }
  return worst;
}

namespace {

struct KeepLossyPass : fp8::impl::FP8KeepLossyPassBase<KeepLossyPass> {
  using FP8KeepLossyPassBase::FP8KeepLossyPassBase;

  FailureOr<std::vector<Request>> parse() {
    std::vector<Request> requests;
    SmallVector<StringRef> entries;
    StringRef(values).split(entries, '+', -1, /*KeepEmpty=*/false);
    auto fail = [&](const Twine &message) {
      emitError(UnknownLoc::get(&getContext())) << message;
      return failure();
    };
    for (StringRef entry : entries) {
      auto [name, form] = entry.rsplit(':');
      Request request;
      request.text = entry.str();
      if (form == "1x128")
        request.form = Form::Block128;
      else if (form == "e5m2")
        request.form = Form::E5M2;
      else
        return fail("expected 'VALUE:1x128' or 'VALUE:e5m2' in 'lossy', but "
                    "got '" +
                    entry + "'");
      request.formName = form;
      llvm::Expected<llvm::GlobPattern> pattern =
          llvm::GlobPattern::create(name);
      if (!pattern)
        return fail("expected a name or a pattern such as 'layers.*.gate' in "
                    "'lossy', but '" +
                    name + "' is none: " + toString(pattern.takeError()));
      request.pattern = std::move(*pattern);
      requests.push_back(std::move(request));
    }
    return requests;
  }

  /// Applies `requests` to `function`; `errors` has one for each where they
  /// are known, and `counts` the values that each named.
  LogicalResult rewrite(func::FuncOp function, StepOp step,
                        ArrayRef<Request> requests,
                        ArrayRef<std::optional<double>> errors,
                        MutableArrayRef<unsigned> counts) {
    Rewriter rewriter(function, step);
    llvm::DenseMap<Value, StringRef> taken; // Looked up only.
    inlineResiduals(step);
    for (auto [index, request] : llvm::enumerate(requests))
      for (Value value : rewriter.find(request)) {
        auto type = dyn_cast<RankedTensorType>(value.getType());
        Type element = type ? type.getElementType() : Type();
        if (!type || type.getRank() != 2 || type.getEncoding() ||
            !(element.isBF16() || element.isF32()))
          return emitError(value.getLoc())
                 << "expected a matrix of bf16 or f32 to keep as '"
                 << request.formName << "', but '" << getValueName(value)
                 << "' is " << value.getType();
        auto [entry, isNew] = taken.try_emplace(value, request.text);
        if (!isNew)
          return emitError(value.getLoc())
                 << "expected one lossy form of '" << getValueName(value)
                 << "', but '" << entry->second << "' and '" << request.text
                 << "' both name it";
        rewriter.add(value, request,
                     errors.empty() ? std::nullopt : errors[index]);
        ++counts[index];
      }
    rewriter.finish();
    formResiduals(step);
    dropUnread(function);
    return success();
  }

  /// The error of the gradients for each request alone.
  FailureOr<std::vector<std::optional<double>>>
  measure(func::FuncOp function, ArrayRef<Request> requests) {
    auto exact = interpretOnInputs(function, seed);
    if (failed(exact))
      return failure();
    std::vector<std::optional<double>> errors;
    for (const Request &request : requests) {
      OwningOpRef<ModuleOp> copy(getOperation().clone());
      auto changed = copy->lookupSymbol<func::FuncOp>(function.getName());
      unsigned count = 0;
      if (failed(rewrite(changed,
                         *changed.getBody().front().getOps<StepOp>().begin(),
                         request, {}, count)))
        return failure();
      auto results = interpretOnInputs(changed, seed);
      if (failed(results))
        return failure();
      errors.push_back(compareGradients(function, *exact, *results));
    }
    return errors;
  }

  void runOnOperation() override {
    FailureOr<std::vector<Request>> requests = parse();
    if (failed(requests))
      return signalPassFailure();
    std::vector<unsigned> counts(requests->size());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      auto steps = function.getBody().front().getOps<StepOp>();
      if (steps.empty() || requests->empty())
        continue;
      std::vector<std::optional<double>> errors;
      if (seed >= 0) {
        auto measured = measure(function, *requests);
        if (failed(measured))
          return signalPassFailure();
        errors = std::move(*measured);
      }
      if (failed(rewrite(function, *steps.begin(), *requests, errors, counts)))
        return signalPassFailure();
    }
    for (auto [request, count] : llvm::zip_equal(*requests, counts))
      if (count == 0) {
        getOperation().emitError()
            << "expected a value of a forward region that 'lossy' entry '"
            << request.text << "' names, but there is none";
        return signalPassFailure();
      }
  }
};

} // namespace
