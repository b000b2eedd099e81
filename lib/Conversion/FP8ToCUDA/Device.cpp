//===- Device.cpp -----------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One intrinsic or one llvm or arith op each.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/FP8ToCUDA/Device.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::fp8;

static constexpr int64_t kAllLanes = -1;

Value Device::i32(int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(int32_t(value)));
}
Value Device::i64(int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
}
Value Device::f32(float value) {
  return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value));
}
Value Device::flag(bool value) {
  return arith::ConstantOp::create(b, loc, b.getBoolAttr(value));
}

Value Device::like(Value x, int64_t y) {
  return arith::ConstantOp::create(b, loc, b.getIntegerAttr(x.getType(), y));
}

static std::optional<int64_t> constantOf(Value value) {
  IntegerAttr attribute;
  if (matchPattern(value, m_Constant(&attribute)))
    return attribute.getInt();
  return std::nullopt;
}

Value Device::add(Value x, Value y) {
  if (constantOf(x) == 0)
    return y;
  if (constantOf(y) == 0)
    return x;
  return arith::AddIOp::create(b, loc, x, y);
}
Value Device::add(Value x, int64_t y) { return y ? add(x, like(x, y)) : x; }
Value Device::mul(Value x, int64_t y) {
  if (y == 1)
    return x;
  return arith::MulIOp::create(b, loc, x, like(x, y));
}
Value Device::div(Value x, int64_t y) {
  if (y == 1)
    return x;
  return arith::DivUIOp::create(b, loc, x, like(x, y));
}
Value Device::rem(Value x, int64_t y) {
  return arith::RemUIOp::create(b, loc, x, like(x, y));
}
Value Device::bitAnd(Value x, int64_t y) {
  return arith::AndIOp::create(b, loc, x, like(x, y));
}
Value Device::bitOr(Value x, Value y) {
  return arith::OrIOp::create(b, loc, x, y);
}
Value Device::shiftLeft(Value x, int64_t y) {
  return arith::ShLIOp::create(b, loc, x, like(x, y));
}
Value Device::shiftRight(Value x, int64_t y) {
  return arith::ShRUIOp::create(b, loc, x, like(x, y));
}
Value Device::below(Value x, int64_t y) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, x,
                               like(x, y));
}
Value Device::equals(Value x, int64_t y) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x, like(x, y));
}
Value Device::umax(Value x, Value y) {
  return arith::MaxUIOp::create(b, loc, x, y);
}
Value Device::maxMagnitudes(Value x, Value y) {
  Type pair = VectorType::get({2}, b.getBF16Type());
  return bitcast(call("fmax.nan.xorsign.abs.bf16x2", pair,
                      {bitcast(x, pair), bitcast(y, pair)}),
                 b.getI32Type());
}
Value Device::smax(Value x, Value y) {
  return arith::MaxSIOp::create(b, loc, x, y);
}
Value Device::select(Value condition, Value yes, Value no) {
  return arith::SelectOp::create(b, loc, condition, yes, no);
}
Value Device::extend(Value x) {
  return arith::ExtUIOp::create(b, loc, b.getI64Type(), x);
}
Value Device::toInt(Value x, unsigned width) {
  Type type = b.getIntegerType(width);
  unsigned from = x.getType().getIntOrFloatBitWidth();
  if (from == width)
    return x;
  if (from < width)
    return arith::ExtUIOp::create(b, loc, type, x);
  return arith::TruncIOp::create(b, loc, type, x);
}
Value Device::bitcast(Value x, Type type) {
  if (x.getType() == type)
    return x;
  return LLVM::BitcastOp::create(b, loc, type, x);
}

//===----------------------------------------------------------------------===//
// Intrinsics
//===----------------------------------------------------------------------===//

Value Device::call(StringRef intrinsic, Type type, ValueRange operands) {
  StringAttr name = b.getStringAttr(("llvm.nvvm." + intrinsic).str());
  return LLVM::CallIntrinsicOp::create(b, loc, type, name, operands)
      .getResults();
}

Value Device::threadId() {
  return call("read.ptx.sreg.tid.x", b.getI32Type(), {});
}
Value Device::blockId() {
  return call("read.ptx.sreg.ctaid.x", b.getI32Type(), {});
}
void Device::barrier() {
  LLVM::CallIntrinsicOp::create(
      b, loc, b.getStringAttr("llvm.nvvm.barrier.cta.sync.aligned.all"),
      ValueRange{i32(0)});
}
Value Device::shuffleXor(Value x, int64_t mask) {
  Type type = x.getType();
  Value bits = bitcast(x, b.getI32Type());
  Value other = call("shfl.sync.bfly.i32", b.getI32Type(),
                     {i32(kAllLanes), bits, i32(mask), i32(31)});
  return bitcast(other, type);
}
Value Device::warpMaxUnsigned(Value x) {
  return call("redux.sync.umax", b.getI32Type(), {x, i32(kAllLanes)});
}
Value Device::warpMaxSigned(Value x) {
  return call("redux.sync.max", b.getI32Type(), {x, i32(kAllLanes)});
}
void Device::atomicMax(Value pointer, Value value) {
  LLVM::AtomicRMWOp::create(b, loc, LLVM::AtomicBinOp::umax, pointer, value,
                            LLVM::AtomicOrdering::monotonic, "device");
}

Value Device::approximateReciprocal(Value x) {
  return call("rcp.approx.ftz.f", b.getF32Type(), {x});
}

SmallVector<Value> Device::reciprocalsUnless(Value condition,
                                             ArrayRef<Value> values,
                                             ArrayRef<Value> x) {
  size_t count = values.size();
  std::string code = "@$" + std::to_string(3 * count) + " bra $$near_${:uid};";
  std::string outputs, tied, inputs;
  for (size_t i = 0; i < count; ++i) {
    code += "\n\trcp.rn.f32 $" + std::to_string(i) + ", $" +
            std::to_string(2 * count + i) + ";";
    outputs += "=&f,";
    tied += std::to_string(i) + ",";
    inputs += "f,";
  }
  code += "\n$$near_${:uid}:";
  SmallVector<Value> operands(values);
  operands.append(x.begin(), x.end());
  operands.push_back(condition);
  Type f32 = b.getF32Type();
  Type all = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                              SmallVector<Type>(count, f32));
  Value results =
      LLVM::InlineAsmOp::create(
          b, loc, all, operands, code, outputs + tied + inputs + "b",
          /*has_side_effects=*/false, /*is_align_stack=*/false,
          LLVM::tailcallkind::TailCallKind::None, LLVM::AsmDialectAttr(),
          ArrayAttr())
          .getRes();
  SmallVector<Value> parts;
  for (size_t i = 0; i < count; ++i)
    parts.push_back(LLVM::ExtractValueOp::create(b, loc, results, i));
  return parts;
}

Value Device::packBF16(Value high, Value low) {
  Type pair = VectorType::get({2}, b.getBF16Type());
  return bitcast(call("ff2bf16x2.rn", pair, {high, low}), b.getI32Type());
}
Value Device::packF8(Value high, Value low, Type format) {
  return call(isa<Float8E4M3FNType>(format) ? "ff.to.e4m3x2.rn"
                                            : "ff.to.e5m2x2.rn",
              b.getI16Type(), {high, low});
}
std::pair<Value, Value> Device::unpackF8(Value codes, Type format) {
  Type half = b.getF16Type();
  Value pair = call(isa<Float8E4M3FNType>(format) ? "e4m3x2.to.f16x2.rn"
                                                  : "e5m2x2.to.f16x2.rn",
                    VectorType::get({2}, half), {codes});
  SmallVector<Value> parts = unpack(pair);
  Type f32 = b.getF32Type();
  return {arith::ExtFOp::create(b, loc, f32, parts[0]),
          arith::ExtFOp::create(b, loc, f32, parts[1])};
}
Value Device::permuteBytes(Value low, Value high, int64_t selector) {
  return call("prmt", b.getI32Type(), {low, high, i32(selector)});
}
Value Device::hide(Value x) {
  return LLVM::InlineAsmOp::create(
             b, loc, x.getType(), ValueRange{x}, "", "=r,0",
             /*has_side_effects=*/false, /*is_align_stack=*/false,
             LLVM::tailcallkind::TailCallKind::None, LLVM::AsmDialectAttr(),
             ArrayAttr())
      .getRes();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value Device::address(Value pointer, Value offset, Type element) {
  return LLVM::GEPOp::create(b, loc, pointer.getType(), element, pointer,
                             ArrayRef<LLVM::GEPArg>{offset});
}
Value Device::load(Value pointer, Type type, int64_t alignment) {
  return LLVM::LoadOp::create(b, loc, type, pointer, alignment);
}
void Device::store(Value pointer, Value value, int64_t alignment) {
  LLVM::StoreOp::create(b, loc, value, pointer, alignment);
}
void Device::copyAsync(Value shared, Value global, int64_t bytes,
                       Value enabled) {
  StringRef name = bytes == 16 ? "llvm.nvvm.cp.async.cg.shared.global.16.s"
                               : "llvm.nvvm.cp.async.ca.shared.global.8.s";
  Value read = select(enabled, i32(bytes), i32(0));
  LLVM::CallIntrinsicOp::create(b, loc, b.getStringAttr(name),
                                ValueRange{shared, global, read});
}
void Device::commitCopies() {
  LLVM::CallIntrinsicOp::create(
      b, loc, b.getStringAttr("llvm.nvvm.cp.async.commit.group"), ValueRange());
}
void Device::awaitCopies(int64_t pending) {
  LLVM::CallIntrinsicOp::create(
      b, loc, b.getStringAttr("llvm.nvvm.cp.async.wait.group"),
      ValueRange{i32(pending)});
}
Value Device::pack(ArrayRef<Value> values) {
  Type type =
      VectorType::get({int64_t(values.size())}, values.front().getType());
  return vector::FromElementsOp::create(b, loc, type, values);
}
SmallVector<Value> Device::unpack(Value vector) {
  auto elements = vector::ToElementsOp::create(b, loc, vector);
  return SmallVector<Value>(elements.getResults());
}

Value SharedMemory::allocate(int64_t bytes, Block &entry, Location loc) {
  OpBuilder outer = OpBuilder::atBlockBegin(&module->getRegion(0).front());
  OpBuilder inner = OpBuilder::atBlockBegin(&entry);
  Type type = LLVM::LLVMArrayType::get(outer.getI8Type(), bytes);
  auto global = LLVM::GlobalOp::create(
      outer, loc, type, /*isConstant=*/false, LLVM::Linkage::Internal,
      name + "_shared" + std::to_string(count++), Attribute(),
      /*alignment=*/16, /*addrSpace=*/3);
  total += llvm::alignTo(bytes, 16);
  return LLVM::AddressOfOp::create(inner, loc, global);
}

Value SharedMemory::allocateDynamic(int64_t bytes, Block &entry, Location loc) {
  OpBuilder inner = OpBuilder::atBlockBegin(&entry);
  if (!dynamic) {
    OpBuilder outer = OpBuilder::atBlockBegin(&module->getRegion(0).front());
    dynamic = LLVM::GlobalOp::create(
        outer, loc, LLVM::LLVMArrayType::get(outer.getI8Type(), 0),
        /*isConstant=*/false, LLVM::Linkage::External, name + "_dynamic",
        Attribute(), /*alignment=*/16, /*addrSpace=*/3);
  }
  Value base = LLVM::AddressOfOp::create(inner, loc, dynamic);
  Device d(inner, loc);
  Value pointer = d.address(base, d.i32(dynamicBytes), inner.getI8Type());
  dynamicBytes += llvm::alignTo(bytes, 16);
  return pointer;
}
