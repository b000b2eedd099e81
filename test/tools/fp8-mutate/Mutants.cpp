//===- Mutants.cpp ----------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Damage to the parsed form (operands, types, attributes, order), which is then
// printed generically so that no verifier stands in its way, and damage to text
// and to bytecode.
//
//===----------------------------------------------------------------------===//

#include "Mutants.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace fp8mutate;

namespace {

/// Draws without a library's distributions, which differ between libraries.
class Dice {
public:
  explicit Dice(std::mt19937_64 &random) : random(random) {}
  /// A number from 0 to `count - 1`; `count` is at least 1.
  size_t below(size_t count) { return random() % count; }
  template <typename Range>
  auto &pick(Range &&range) {
    return range[below(std::size(range))];
  }

private:
  std::mt19937_64 &random;
};

constexpr int64_t kNumbers[] = {0,
                                1,
                                -1,
                                2,
                                3,
                                127,
                                255,
                                4097,
                                int64_t(1) << 31,
                                int64_t(1) << 40,
                                INT64_MAX,
                                INT64_MIN};

//===----------------------------------------------------------------------===//
// Damage to the parsed form
//===----------------------------------------------------------------------===//

Type damageType(Type type, Dice &dice) {
  Builder builder(type.getContext());
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return dice.below(2) ? Type(builder.getI32Type())
                         : RankedTensorType::get({4}, builder.getF32Type());
  SmallVector<int64_t> shape(tensor.getShape());
  Type element = tensor.getElementType();
  Attribute encoding = tensor.getEncoding();
  Type elements[] = {builder.getF32Type(),
                     builder.getBF16Type(),
                     Float8E4M3FNType::get(type.getContext()),
                     Float8E5M2Type::get(type.getContext()),
                     builder.getI32Type(),
                     builder.getI1Type(),
                     builder.getF64Type(),
                     builder.getIndexType()};
  switch (dice.below(7)) {
  case 0:
    element = dice.pick(elements);
    break;
  case 1:
    if (!shape.empty()) {
      constexpr int64_t dims[] = {0,
                                  1,
                                  3,
                                  127,
                                  129,
                                  int64_t(1) << 33,
                                  INT64_MAX / 2,
                                  ShapedType::kDynamic};
      dice.pick(shape) = dice.pick(dims);
    }
    break;
  case 2:
    if (!shape.empty())
      shape.pop_back();
    break;
  case 3:
    shape.push_back(2);
    break;
  case 4:
    encoding = {};
    break;
  case 5:
    std::reverse(shape.begin(), shape.end());
    break;
  case 6:
    encoding = builder.getStringAttr("other");
    break;
  }
  // Unchecked: a type that does not verify is printed all the same, and the
  // parser must refuse it.
  return RankedTensorType::get(shape, element, encoding);
}

Attribute damageAttribute(Attribute attribute, Dice &dice) {
  Builder builder(attribute.getContext());
  if (auto integer = dyn_cast<IntegerAttr>(attribute)) {
    if (integer.getType().isInteger(1))
      return builder.getBoolAttr(integer.getValue().isZero());
    if (dice.below(4) == 0)
      return builder.getI32IntegerAttr(
          static_cast<int32_t>(dice.pick(kNumbers)));
    return builder.getI64IntegerAttr(dice.pick(kNumbers));
  }
  if (auto array = dyn_cast<DenseI64ArrayAttr>(attribute)) {
    SmallVector<int64_t> values(array.asArrayRef());
    if (values.empty() || dice.below(4) == 0)
      values.push_back(dice.pick(kNumbers));
    else if (dice.below(3) == 0)
      values.pop_back();
    else
      dice.pick(values) = dice.pick(kNumbers);
    return builder.getDenseI64ArrayAttr(values);
  }
  if (auto array = dyn_cast<ArrayAttr>(attribute)) {
    SmallVector<Attribute> values(array.getValue());
    if (!values.empty() && dice.below(2))
      dice.pick(values) = damageAttribute(dice.pick(values), dice);
    else if (!values.empty())
      values.pop_back();
    else
      values.push_back(builder.getUnitAttr());
    return builder.getArrayAttr(values);
  }
  if (auto dictionary = dyn_cast<DictionaryAttr>(attribute)) {
    NamedAttrList values(dictionary);
    if (values.empty() || dice.below(4) == 0) {
      StringRef names[] = {"fp8.parameter", "fp8.unknown", "fp8.placement",
                           "fp8.policy", "fp8.state"};
      values.set(dice.pick(names), dice.below(2)
                                       ? Attribute(builder.getUnitAttr())
                                       : builder.getStringAttr("x"));
      return values.getDictionary(attribute.getContext());
    }
    NamedAttribute entry = dictionary.getValue()[dice.below(dictionary.size())];
    if (dice.below(2))
      values.erase(entry.getName());
    else
      values.set(entry.getName(), damageAttribute(entry.getValue(), dice));
    return values.getDictionary(attribute.getContext());
  }
  if (auto string = dyn_cast<StringAttr>(attribute))
    return builder.getStringAttr(
        dice.below(2) ? string.getValue().drop_back(!string.empty())
                      : StringRef("\x01\xff"));
  if (auto type = dyn_cast<TypeAttr>(attribute))
    return TypeAttr::get(damageType(type.getValue(), dice));
  if (auto number = dyn_cast<FloatAttr>(attribute)) {
    double values[] = {-1.0, 0.0, 1e300,
                       std::numeric_limits<double>::quiet_NaN(),
                       std::numeric_limits<double>::infinity()};
    return FloatAttr::get(number.getType(), dice.pick(values));
  }
  return dice.below(2) ? Attribute(builder.getUnitAttr())
                       : builder.getI64IntegerAttr(dice.pick(kNumbers));
}

/// All values that `op` could name: of any block, so also those that do not
/// dominate it.
SmallVector<Value> collectValues(ModuleOp module) {
  SmallVector<Value> values;
  module.walk([&](Block *block) {
    llvm::append_range(values, block->getArguments());
    for (Operation &op : *block)
      llvm::append_range(values, op.getResults());
  });
  return values;
}

/// Damages one place of `module`; returns how, or an empty string where the
/// draw found nothing to damage.
StringRef damageModule(ModuleOp module, Dice &dice) {
  SmallVector<Operation *> ops;
  module.walk([&](Operation *op) {
    if (op != module)
      ops.push_back(op);
  });
  if (ops.empty())
    return "";
  Operation *op = dice.pick(ops);
  switch (dice.below(10)) {
  case 0:
    if (op->getNumOperands() == 0)
      return "";
    op->eraseOperand(dice.below(op->getNumOperands()));
    return "operand dropped";
  case 1: {
    if (op->getNumOperands() < 2)
      return "";
    unsigned a = dice.below(op->getNumOperands()),
             b = dice.below(op->getNumOperands());
    Value first = op->getOperand(a);
    op->setOperand(a, op->getOperand(b));
    op->setOperand(b, first);
    return "operands swapped";
  }
  case 2:
    if (op->getNumOperands() == 0)
      return "";
    op->setOperand(dice.below(op->getNumOperands()),
                   dice.pick(collectValues(module)));
    return "operand replaced";
  case 3: {
    SmallVector<Value> values = collectValues(module);
    if (values.empty())
      return "";
    Value value = dice.pick(values);
    value.setType(damageType(value.getType(), dice));
    return "value retyped";
  }
  case 4: {
    DictionaryAttr attributes = op->getAttrDictionary();
    if (attributes.empty())
      return "";
    op->removeAttr(
        attributes.getValue()[dice.below(attributes.size())].getName());
    return "attribute removed";
  }
  case 5:
  case 6: {
    DictionaryAttr attributes = op->getAttrDictionary();
    if (attributes.empty())
      return "";
    NamedAttribute entry = attributes.getValue()[dice.below(attributes.size())];
    // Set as a discardable attribute where the op would refuse the kind: the
    // generic form prints either alike.
    op->setAttr(entry.getName(), damageAttribute(entry.getValue(), dice));
    return "attribute changed";
  }
  case 7: {
    if (op->hasTrait<OpTrait::IsTerminator>())
      return "";
    OpBuilder(op).clone(*op);
    return "op repeated";
  }
  case 8: {
    Operation *other = dice.pick(ops);
    if (other == op || other->isAncestor(op) || op->isAncestor(other))
      return "";
    op->moveBefore(other);
    return "op moved";
  }
  default: {
    auto function = dyn_cast<FunctionOpInterface>(op);
    if (!function || function.getNumArguments() == 0)
      return "";
    unsigned index = dice.below(function.getNumArguments());
    DictionaryAttr attributes = function.getArgAttrDict(index);
    if (!attributes)
      attributes = DictionaryAttr::get(op->getContext());
    attributes = cast<DictionaryAttr>(damageAttribute(attributes, dice));
    function.setArgAttrs(index, attributes);
    return "argument attribute changed";
  }
  }
}

//===----------------------------------------------------------------------===//
// Damage to text and bytes
//===----------------------------------------------------------------------===//

/// Splits a program into words, numbers, single signs, and runs of blanks.
SmallVector<StringRef> tokenize(StringRef text) {
  SmallVector<StringRef> tokens;
  auto isWord = [](char c) {
    return llvm::isAlnum(c) || c == '_' || c == '.' || c == '%' || c == '#' ||
           c == '@';
  };
  while (!text.empty()) {
    size_t size = 1;
    if (isWord(text[0]))
      size = text.take_while(isWord).size();
    else if (llvm::isSpace(text[0]))
      size = text.take_while([](char c) { return llvm::isSpace(c); }).size();
    tokens.push_back(text.take_front(size));
    text = text.drop_front(size);
  }
  return tokens;
}

Mutant damageText(StringRef text, Dice &dice) {
  if (dice.below(6) == 0)
    return {text.take_front(dice.below(text.size() + 1)).str(),
            "text truncated"};
  SmallVector<StringRef> tokens = tokenize(text);
  if (tokens.empty())
    return {"}", "text invented"};
  size_t at = dice.below(tokens.size());
  for (size_t tries = 0; tries < 4 && llvm::isSpace(tokens[at][0]); ++tries)
    at = dice.below(tokens.size());
  std::string invented, kind;
  switch (dice.below(5)) {
  case 0:
    tokens.erase(tokens.begin() + at);
    kind = "token dropped";
    break;
  case 1:
    tokens.insert(tokens.begin() + at, dice.pick(tokens));
    kind = "token inserted";
    break;
  case 2:
    std::swap(tokens[at], dice.pick(tokens));
    kind = "tokens swapped";
    break;
  case 3:
    invented = std::to_string(dice.pick(kNumbers));
    tokens[at] = invented;
    kind = "number invented";
    break;
  default:
    invented = tokens[at].str();
    invented[dice.below(invented.size())] = static_cast<char>(dice.below(256));
    tokens[at] = invented;
    kind = "character changed";
  }
  return {llvm::join(tokens, ""), kind};
}

Mutant damageBytecode(std::string bytes, Dice &dice) {
  if (dice.below(4) == 0) {
    bytes.resize(dice.below(bytes.size()));
    return {std::move(bytes), "bytecode truncated"};
  }
  for (size_t count = 1 + dice.below(3); count; --count)
    bytes[dice.below(bytes.size())] ^= static_cast<char>(1 << dice.below(8));
  return {std::move(bytes), "bytecode bits flipped"};
}

} // namespace

Mutant fp8mutate::makeMutant(const Seed &seed, std::mt19937_64 &random) {
  Dice dice(random);
  size_t way = dice.below(8);
  if (!seed.module || way == 0)
    return damageText(seed.text, dice);
  Mutant mutant;
  llvm::raw_string_ostream stream(mutant.bytes);
  if (way == 1) {
    ModuleOp module = *seed.module;
    if (failed(writeBytecodeToFile(module, stream)))
      return damageText(seed.text, dice);
    return damageBytecode(std::move(mutant.bytes), dice);
  }
  OwningOpRef<ModuleOp> module = seed.module.get().clone();
  StringRef kind;
  while (kind.empty())
    kind = damageModule(*module, dice);
  // One place in most mutants; two in some, since the second fault may be what
  // a check of the first hides.
  if (dice.below(4) == 0)
    (void)damageModule(*module, dice);
  module->print(stream, OpPrintingFlags()
                            .printGenericOpForm()
                            .assumeVerified(false)
                            .useLocalScope());
  mutant.kind = kind.str();
  return mutant;
}
