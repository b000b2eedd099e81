//===- Emit.h - functions of CUDA launches ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each schedule fills one function a launch, of arith, scf, vector and llvm
// ops, and says how it has to be launched.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_CONVERSION_FP8TOCUDA_EMIT_H
#define FP8_CONVERSION_FP8TOCUDA_EMIT_H

#include "fp8/Conversion/FP8ToCUDA/Device.h"
#include "fp8/Conversion/FP8ToCUDA/Geometry.h"
#include "fp8/Conversion/FP8ToCUDA/Launches.h"
#include "fp8/Conversion/FP8ToCUDA/VectorEvaluator.h"

namespace mlir::fp8 {

/// Lanes of a warp.
inline constexpr int64_t kWarp = 32;

/// A GPU architecture.
struct Chip {
  StringRef name;
  /// The PTX version that its instructions need.
  StringRef features;
  int64_t multiprocessors;
  int64_t registers;  ///< of a multiprocessor, 32 bits each
  int64_t maxThreads; ///< of a multiprocessor
  /// Bytes of shared memory of a multiprocessor; a block, with what the system
  /// takes, may have all of it.
  int64_t sharedBytes;
};

/// The chip called `name`, or null.
const Chip *findChip(StringRef name);
/// All chips that code can be generated for, joined by commas.
std::string listChips();

struct Geometry {
  int64_t grid = 1;
  int64_t block = 1;
  /// Blocks that a multiprocessor has to be able to hold: bounds the registers.
  int64_t blocksPerMultiprocessor = 1;
  /// The entry of Geometry.h that gives this one; empty where there is no
  /// choice.
  std::string report = {};
};

/// What the emitters of one launch share.
struct LaunchContext {
  Block &body;                ///< of the kernel
  const KernelLaunches &plan; ///< of the kernel
  unsigned number;            ///< of the launch
  const Chip &chip;
  const Geometries &geometries; ///< of the chip
  Block &entryBlock;            ///< of the function; holds only a return
  Location location;
  ArrayRef<Value> pointers; ///< its arguments
  SharedMemory &shared;

  const LaunchPlan &launch() const { return plan.launches[number]; }
  Location loc() const { return location; }
  Block &entry() const { return entryBlock; }
  Value resultPointer(unsigned result) const {
    return pointers[body.getNumArguments() + result];
  }
  /// Pointer to where a reduction is gathered.
  Value reductionPointer(Operation *reduction, OpBuilder &builder) const;
  /// Calls `use` for each value that may be read from memory.
  void forEachStored(OpBuilder &builder,
                     function_ref<void(Value value, Value pointer)> use) const;
  /// What the items of the launch need: the values that are read at every
  /// position, and the reductions that a block completes, in program order.
  void collectNeeded(SpaceRules &rules, SmallVectorImpl<Value> &leaves,
                     SmallVectorImpl<Operation *> &local) const;
};

Geometry emitRowLaunch(const LaunchContext &context);
Geometry emitTileLaunch(const LaunchContext &context);
Geometry emitGenericLaunch(const LaunchContext &context);

/// Whether a thread of a generic launch can take kLanes neighbours along a
/// dimension at once.
class VectorReads {
public:
  /// `stored` says which values an earlier launch has stored, row-major.
  explicit VectorReads(std::function<bool(Value)> stored)
      : stored(std::move(stored)) {}

  bool find(Value value, int64_t dim);

private:
  bool compute(Value value, int64_t dim);
  bool findScale(Value scale, ArrayRef<int64_t> group, int64_t dim);

  std::function<bool(Value)> stored;
  std::map<std::pair<const void *, int64_t>, bool> known; // looked up only
};

//===----------------------------------------------------------------------===//
// Maxima in registers
//===----------------------------------------------------------------------===//

/// How the elements of a maximum are held. Pairs: two bf16 in 32 bits, of which
/// the magnitudes count. Bits: f32 magnitudes, which order as unsigned
/// integers, NaN on top. Keys: those of Numerics::toMaxKey, signed.
enum class MaxForm { Pairs, Bits, Keys };

class MaxEmitter {
public:
  MaxEmitter(OpBuilder &builder, Location loc) : d(builder, loc) {}

  static MaxForm formOf(Operation *reduction);
  /// A word that is below everything.
  Value lowest(MaxForm form);
  /// Words of a reduction's operand at a slot: four or eight. Where `valid` is
  /// given and false they are below everything.
  SmallVector<Value> wordsOf(VectorEvaluator &evaluator, Operation *reduction,
                             bool flip, const Slot &slot, Value valid);
  Value combine(MaxForm form, Value x, Value y);
  void combine(MaxForm form, SmallVector<Value> &into, ArrayRef<Value> words);
  /// All words as one, in the form that `foldedForm` gives.
  Value fold(MaxForm form, ArrayRef<Value> words);
  static MaxForm foldedForm(MaxForm form) {
    return form == MaxForm::Pairs ? MaxForm::Bits : form;
  }
  /// One word a column, in the folded form.
  SmallVector<Value> columns(MaxForm form, ArrayRef<Value> words);
  /// Of a word of pairs the upper one as bits of an f32 magnitude; the lower
  /// one where it was shifted up.
  Value upperMagnitude(Value pair);
  /// The maximum over the lanes of a warp, of a word in folded form.
  Value acrossWarp(MaxForm form, Value word);
  /// The f32 that a folded word stands for, NaN as 0x7FC00000.
  Value finish(MaxForm form, Value word);
  /// The same as bits.
  Value finishBits(MaxForm form, Value word);

private:
  Device d;
};

} // namespace mlir::fp8

#endif // FP8_CONVERSION_FP8TOCUDA_EMIT_H
