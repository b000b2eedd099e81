//===- Device.h - what a CUDA thread can do ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names the NVPTX intrinsics and the integer arithmetic that the schedules are
// written in.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_CONVERSION_FP8TOCUDA_DEVICE_H
#define FP8_CONVERSION_FP8TOCUDA_DEVICE_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

namespace mlir::fp8 {

/// Emits at the insertion point of its builder.
class Device {
public:
  Device(OpBuilder &builder, Location loc) : b(builder), loc(loc) {}

  Value i32(int64_t value);
  Value i64(int64_t value);
  Value f32(float value);
  Value flag(bool value);

  /// Integer arithmetic of two values of one type, or with a constant.
  Value add(Value x, Value y);
  Value add(Value x, int64_t y);
  Value mul(Value x, int64_t y);
  Value div(Value x, int64_t y);
  Value rem(Value x, int64_t y);
  Value bitAnd(Value x, int64_t y);
  Value bitOr(Value x, Value y);
  Value shiftLeft(Value x, int64_t y);
  Value shiftRight(Value x, int64_t y); ///< zeros come in
  Value below(Value x, int64_t y);
  Value equals(Value x, int64_t y);
  Value umax(Value x, Value y);
  /// Of each of two pairs of bf16 the larger magnitude, with a sign that means
  /// nothing; NaN where an operand is.
  Value maxMagnitudes(Value x, Value y);
  Value smax(Value x, Value y);
  Value select(Value condition, Value yes, Value no);
  /// An i32 as an index.
  Value extend(Value x);
  /// Larger or smaller integers, without sign.
  Value toInt(Value x, unsigned width);
  Value bitcast(Value x, Type type);

  /// The thread in its block and the block in its grid, i32.
  Value threadId();
  Value blockId();
  void barrier();
  /// The value of the lane whose number differs in the bits of `mask`: an i32
  /// or an f32. All lanes of the warp take part.
  Value shuffleXor(Value x, int64_t mask);
  /// The largest i32 of all 32 lanes, in each of them.
  Value warpMaxUnsigned(Value x);
  Value warpMaxSigned(Value x);
  /// *pointer = max(*pointer, value) as unsigned numbers, one step.
  void atomicMax(Value pointer, Value value);

  /// 1 / x within one unit in the last place; subnormal numbers count as zero.
  Value approximateReciprocal(Value x);
  /// `values`, or where `condition` is false 1 / x of each of `x`, rounded to
  /// nearest. The branch is hidden from LLVM, which otherwise moves what is
  /// computed from the values behind the last branch of the kernel.
  SmallVector<Value> reciprocalsUnless(Value condition, ArrayRef<Value> values,
                                       ArrayRef<Value> x);

  /// Two f32 as a pair of bf16 in an i32, rounded to nearest even.
  Value packBF16(Value high, Value low);
  /// Two f32 as a pair of f8 codes in an i16, saturated.
  Value packF8(Value high, Value low, Type format);
  /// Two f8 codes in an i16 as f32: low, high.
  std::pair<Value, Value> unpackF8(Value codes, Type format);
  /// Four of the eight bytes of `high:low`, chosen by the digits of `selector`.
  Value permuteBytes(Value low, Value high, int64_t selector);
  /// The same 32 bits, of which the compiler knows nothing more: keeps what is
  /// computed from them from being moved across.
  Value hide(Value x);

  /// Memory. An offset counts elements of `element`.
  Value address(Value pointer, Value offset, Type element);
  Value load(Value pointer, Type type, int64_t alignment);
  void store(Value pointer, Value value, int64_t alignment);
  /// Starts to copy 8 or 16 bytes from global to shared memory, `bytes` wide
  /// both; where `enabled` is false nothing is read and zeros are written. A
  /// thread sees what it copied after `awaitCopies`.
  void copyAsync(Value shared, Value global, int64_t bytes, Value enabled);
  /// Ends a group of copies of this thread.
  void commitCopies();
  /// Waits until at most the last `pending` groups are on their way.
  void awaitCopies(int64_t pending);
  /// A vector of scalars, and its elements.
  Value pack(ArrayRef<Value> values);
  SmallVector<Value> unpack(Value vector);

  OpBuilder &builder() { return b; }
  Location getLoc() const { return loc; }

private:
  Value call(StringRef intrinsic, Type type, ValueRange operands);
  Value like(Value x, int64_t y);

  OpBuilder &b;
  Location loc;
};

/// Memory of a block, made as it is asked for.
class SharedMemory {
public:
  /// `module` takes the variable, called after `name`.
  SharedMemory(Operation *module, StringRef name)
      : module(module), name(name.str()) {}

  /// A pointer, at the start of `entry`, to so many bytes, 16-byte aligned.
  Value allocate(int64_t bytes, Block &entry, Location loc);
  /// The same of the memory whose size the launch gives: a block may have more
  /// of it than the 48 KiB that variables can take.
  Value allocateDynamic(int64_t bytes, Block &entry, Location loc);
  int64_t getBytes() const { return total; }
  int64_t getDynamicBytes() const { return dynamicBytes; }

private:
  Operation *module;
  std::string name;
  LLVM::GlobalOp dynamic;
  int64_t total = 0, dynamicBytes = 0;
  unsigned count = 0;
};

} // namespace mlir::fp8

#endif // FP8_CONVERSION_FP8TOCUDA_DEVICE_H
