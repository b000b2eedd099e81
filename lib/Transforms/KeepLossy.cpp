//===- KeepLossy.cpp - fp8-keep-lossy ---------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lets the backward region read forward values through a smaller form of them.
// That changes gradients, so it is done in the program, before any policy: all
// policies then give the same bits.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/ValueNames.h"
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

/// How backward reads a value.
struct Form {
  StringRef name;
  Type format;
  bool isScaled;  ///< a scale for 128 columns of a row, or none
  Pow2 pow2;      ///< of a scale that is made for it
  bool isCounted; ///< what casts of it by columns change is counted
};

/// One entry of the option.
struct Request {
  std::string text;
  llvm::GlobPattern pattern;
  Form form;
};

/// Rewrites one step.
class Rewriter {
public:
  Rewriter(func::FuncOp function, StepOp step)
      : function(function), step(step), builder(function.getContext()) {}

  /// The forward values that `request` names, in program order.
  SmallVector<Value> find(const Request &request);
  /// Has backward read `value` as `request` says.
  LogicalResult add(Value value, const Request &request,
                    std::optional<double> error);
  /// Replaces what backward reads. Nothing can be added after it.
  LogicalResult finish();

private:
  /// A value whose new layouts may change it, and the name of the count.
  struct Counted {
    DequantizeOp value;
    std::string counter;
  };

  FailureOr<Value> compress(Value value, const Request &request,
                            std::optional<double> error);
  FailureOr<Value> count(DequantizeOp exact);
  void addResults(ArrayRef<Value> counts);
  bool isDerived(Operation *op);
  Value getLossy(Value value, Operation *user);

  func::FuncOp function;
  StepOp step;
  OpBuilder builder;
  SmallVector<Counted> counted;
  DenseMap<Value, Value> lossy;        // Looked up only.
  DenseMap<Operation *, bool> derived; // Looked up only.
};

} // namespace

SmallVector<Value> Rewriter::find(const Request &request) {
  SmallVector<Value> found;
  for (Operation &op : step.getForward().front())
    for (OpResult result : op.getResults()) {
      StringRef name = getLocationName(result.getLoc());
      if (!name.empty() && (request.pattern.match(name) ||
                            request.pattern.match(getOwnName(result))))
        found.push_back(result);
    }
  return found;
}

/// The scale op behind the scale of `cast`, or null.
static ScaleOp getScaleOp(CastOp cast) {
  return cast.getScale().getDefiningOp<ScaleOp>();
}

/// The cast of `value` that the forward region has already, if it is of the
/// wanted type; with powers of two as scales if `isPow2`.
static CastOp findCast(Value value, RankedTensorType want, bool isPow2) {
  for (Operation *user : value.getUsers())
    if (auto cast = dyn_cast<CastOp>(user);
        cast && cast->getBlock() == value.getParentBlock()) {
      auto have = llvm::cast<RankedTensorType>(cast.getResult().getType());
      bool hasPow2 =
          getScaleOp(cast) && getScaleOp(cast).getPow2() != Pow2::None;
      if (have.getElementType() == want.getElementType() &&
          getEncoding(have).getGroup() == getEncoding(want).getGroup() &&
          (hasPow2 || !isPow2))
        return cast;
    }
  return {};
}

/// The smaller form of `value`, made in the forward region, and the value it
/// stands for, at the start of the backward region.
FailureOr<Value> Rewriter::compress(Value value, const Request &request,
                                    std::optional<double> error) {
  OpBuilder::InsertionGuard guard(builder);
  MLIRContext *context = builder.getContext();
  const Form &form = request.form;
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> group =
      form.isScaled ? SmallVector<int64_t>{1, 128} : SmallVector<int64_t>{0, 0};
  auto encoding =
      TensorEncodingAttr::get(context, group, form.pow2 != Pow2::None);
  bool isE5M6 = isa<E5M6Type>(form.format);
  if (isE5M6 && type.getDimSize(1) % 2 != 0)
    return emitError(value.getLoc())
           << "expected an even number of columns to keep as 'e5m6', two of "
              "which take three bytes, but '"
           << getOwnName(value) << "' is " << type;
  auto small = RankedTensorType::get(type.getShape(), form.format, encoding);
  auto scaleType = RankedTensorType::get(getScaleShape(type.getShape(), group),
                                         builder.getF32Type());
  builder.setInsertionPointAfterValue(value);
  CastOp quantised =
      form.isScaled ? findCast(value, small, form.isCounted) : CastOp();
  if (!quantised && form.isCounted)
    return emitError(value.getLoc())
           << "expected the forward region to cast '" << getOwnName(value)
           << "' by 1x128 with scales that are powers of two, as the recipe "
              "'block128' does, to take another layout from it";
  if (!quantised) {
    std::string prefix = isE5M6 ? ".e5m6" : ".row128";
    Value scale;
    if (form.isScaled) {
      Value maximum =
          AmaxOp::create(builder, getDerivedLocation(value, prefix + ".amax"),
                         scaleType, value, group);
      scale = ScaleOp::create(
          builder, getDerivedLocation(value, prefix + ".scale"), scaleType,
          maximum, form.format, APFloat(0.0), Division::F32, form.pow2);
    } else {
      scale = arith::ConstantOp::create(
          builder, value.getLoc(), DenseElementsAttr::get(scaleType, 1.0f));
    }
    StringRef suffix = isE5M6          ? ".e5m6"
                       : form.isScaled ? ".row128.e4m3"
                                       : ".e5m2";
    quantised = CastOp::create(builder, getDerivedLocation(value, suffix),
                               small, value, scale);
  }
  Block &backward = step.getBackward().front();
  builder.setInsertionPointToStart(&backward);
  auto exact =
      DequantizeOp::create(builder, getDerivedLocation(value, "~lossy"), type,
                           quantised.getResult(), quantised.getScale());
  NamedAttrList facts;
  facts.append("value", builder.getStringAttr(getOwnName(value)));
  facts.append("form", builder.getStringAttr(form.name));
  facts.append("bytes", builder.getI64IntegerAttr(
                            getByteSize(small) +
                            (form.isScaled ? getByteSize(scaleType) : 0)));
  facts.append("exact_bytes", builder.getI64IntegerAttr(getByteSize(type)));
  if (error)
    facts.append("grad_rel_error", builder.getF64FloatAttr(*error));
  if (form.isCounted) {
    std::string counter = getOwnName(value) + ".inexact";
    facts.append("counter", builder.getStringAttr(counter));
    counted.push_back({exact, counter});
  }
  exact->setAttr(kLossyAttr, facts.getDictionary(context));
  return exact.getResult();
}

LogicalResult Rewriter::add(Value value, const Request &request,
                            std::optional<double> error) {
  FailureOr<Value> small = compress(value, request, error);
  if (failed(small))
    return failure();
  lossy[value] = *small;
  return success();
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
    to.setLoc(getDerivedLocation(from, "~lossy"));
    lossy[from] = to;
  }
  return lossy.lookup(value);
}

/// How many elements of `exact` the casts of it by 128x1 change, as f32: sums
/// have one order everywhere, so counts are the same bits everywhere.
FailureOr<Value> Rewriter::count(DequantizeOp exact) {
  auto type = cast<RankedTensorType>(exact.getType());
  auto floats = RankedTensorType::get(type.getShape(), builder.getF32Type());
  auto one = RankedTensorType::get({1, 1}, builder.getF32Type());
  Value total;
  for (Operation *user : llvm::to_vector(exact->getUsers())) {
    auto relaid = dyn_cast<CastOp>(user);
    if (!relaid ||
        getEncoding(relaid.getType()).getGroup() != ArrayRef<int64_t>({128, 1}))
      continue;
    if (!getScaleOp(relaid) || getScaleOp(relaid).getPow2() == Pow2::None)
      return emitError(relaid.getLoc())
             << "expected scales that are powers of two where a layout is made "
                "from another, but got others";
    builder.setInsertionPointAfter(relaid);
    Location loc = getDerivedLocation(exact, ".inexact");
    auto splat = [&](float number) -> Value {
      return arith::ConstantOp::create(builder, loc,
                                       DenseElementsAttr::get(floats, number));
    };
    Value back = DequantizeOp::create(builder, loc, type, relaid.getResult(),
                                      relaid.getScale());
    Value differs = arith::CmpFOp::create(
        builder, loc, arith::CmpFPredicate::UNE, back, exact.getResult());
    Value changed = arith::SelectOp::create(builder, loc, differs, splat(1.0f),
                                            splat(0.0f));
    Value number = ReduceOp::create(builder, loc, one, ReduceKind::Sum, changed,
                                    ArrayRef<int64_t>{0, 1});
    total = total ? arith::AddFOp::create(builder, loc, total, number) : number;
  }
  return total;
}

/// Makes `counts` results of the function, one for each counted value.
void Rewriter::addResults(ArrayRef<Value> counts) {
  YieldOp yield = step.getBackwardYield();
  yield.getValuesMutable().append(counts);
  SmallVector<Type> types(step->getResultTypes());
  llvm::append_range(types, ValueRange(counts).getTypes());
  builder.setInsertionPoint(step);
  auto longer = cast<StepOp>(builder.insert(Operation::create(
      step->getLoc(), step->getName(), types, step->getOperands(),
      step->getDiscardableAttrDictionary(), step->getPropertiesStorage(),
      BlockRange(), step->getNumRegions())));
  for (auto [to, from] :
       llvm::zip_equal(longer->getRegions(), step->getRegions()))
    to.takeBody(from);
  unsigned before = step->getNumResults();
  step->replaceAllUsesWith(longer->getResults().take_front(before));
  step->erase();
  step = longer;
  Operation *end = function.getBody().front().getTerminator();
  for (auto [index, entry] : llvm::enumerate(counted)) {
    end->insertOperands(end->getNumOperands(),
                        ValueRange(longer->getResult(before + index)));
    unsigned number = function.getNumResults();
    StringRef value = StringRef(entry.counter);
    value.consume_back(".inexact");
    NamedAttrList attrs;
    attrs.append(kNameAttr, builder.getStringAttr(entry.counter));
    attrs.append(kCounterAttr, builder.getStringAttr(value));
    (void)function.insertResult(number, counts[index].getType(),
                                attrs.getDictionary(builder.getContext()));
  }
}

LogicalResult Rewriter::finish() {
  for (Operation &op : llvm::make_early_inc_range(step.getBackward().front())) {
    // The way in: it reads the small form itself.
    if (op.hasAttr(kLossyAttr))
      continue;
    for (OpOperand &operand : op.getOpOperands())
      operand.set(getLossy(operand.get(), &op));
  }
  SmallVector<Value> counts;
  for (Counted &entry : counted) {
    FailureOr<Value> total = count(entry.value);
    if (failed(total))
      return failure();
    if (!*total)
      return emitError(entry.value.getLoc())
             << "expected the backward region to cast '"
             << StringRef(entry.counter).drop_back(strlen(".inexact"))
             << "' by 128x1, as the recipe 'block128' does for the gradient of "
                "a weight, but nothing does";
    counts.push_back(*total);
  }
  if (!counts.empty())
    addResults(counts);
  return success();
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
      MLIRContext *context = &getContext();
      Type e4m3 = Float8E4M3FNType::get(context);
      const Form forms[] = {
          {"1x128", e4m3, true, Pow2::None, false},
          {"e5m2", Float8E5M2Type::get(context), false, Pow2::None, false},
          {"e5m6", E5M6Type::get(context), true, Pow2::Floor, false},
          {"relayout", e4m3, true, Pow2::Floor, true}};
      auto known = llvm::find_if(
          forms, [&](const Form &entry) { return entry.name == form; });
      if (known == std::end(forms))
        return fail("expected 'VALUE:1x128', 'VALUE:e5m2', 'VALUE:e5m6' or "
                    "'VALUE:relayout' in 'lossy', but got '" +
                    entry + "'");
      request.form = *known;
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
                 << request.form.name << "', but '" << getOwnName(value)
                 << "' is " << value.getType();
        auto [entry, isNew] = taken.try_emplace(value, request.text);
        if (!isNew)
          return emitError(value.getLoc())
                 << "expected one lossy form of '" << getOwnName(value)
                 << "', but '" << entry->second << "' and '" << request.text
                 << "' both name it";
        if (failed(rewriter.add(value, request,
                                errors.empty() ? std::nullopt : errors[index])))
          return failure();
        ++counts[index];
      }
    if (failed(rewriter.finish()))
      return failure();
    step = *function.getBody().front().getOps<StepOp>().begin();
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
