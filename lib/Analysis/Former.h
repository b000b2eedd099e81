//===- Former.h - kernels being formed --------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The state that growing kernels from producer to reader (FormKernels.cpp) and
// sharing what several kernels read (ShareReads.cpp) have in common.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_ANALYSIS_FORMER_H
#define FP8_ANALYSIS_FORMER_H

#include "fp8/Analysis/KernelGraph.h"

#include <numeric>
#include <set>

namespace mlir::fp8 {

/// No kernel gets more ops than this: code generation takes longer than in
/// proportion to them, and recurses as deep as their longest chain. A kernel of
/// so many ops no longer waits for memory, so more would not make it faster.
inline constexpr size_t kMaxKernelOps = 128;

/// A kernel being formed.
struct Group {
  SmallVector<int, 8> members;
  SmallVector<int, 0> repeated; ///< members of other kernels that are computed
                                ///< here again
  NodeClass kind = NodeClass::Loop;
  bool backward = false;
  bool reduces = false; ///< holds a reduction, so its space is final
  bool alone = false;   ///< takes no further member: a member keeps its order
                        ///< with other kernels
  BlockShape blockShape = BlockShape::Any;
  SmallVector<int64_t, 4> space;
  int first = 0, last = 0; ///< positions of its first and last member

  /// How many ops it computes.
  size_t size() const { return members.size() + repeated.size(); }
};

/// The shape of a block that does what blocks of shapes `a` and `b` do.
inline std::optional<BlockShape> combine(BlockShape a, BlockShape b) {
  if (a == BlockShape::Any || a == b)
    return b;
  if (b == BlockShape::Any)
    return a;
  return std::nullopt;
}

struct Chained;

/// Forms the kernels of one program.
class Former {
public:
  Former(const Program &program, Fusion fusion)
      : program(program), fusion(fusion), groupOf(program.instances.size(), -1),
        locality(program.values.size(), Locality::Elementwise),
        stamp(program.instances.size(), 0),
        nextBorder(program.instances.size() + 1),
        readers(program.instances.size()), kept(program.values.size(), false) {
    for (int value : program.residuals)
      kept[value] = true;
    std::iota(nextBorder.begin(), nextBorder.end(), 0);
    for (auto [index, instance] : llvm::enumerate(program.instances))
      for (int operand : instance.operands) {
        int producer = program.values[program.values[operand].root].instance;
        if (producer >= 0)
          readers[producer].push_back({static_cast<int>(index), operand});
        if (int by = getNamer(operand); by >= 0 && by != producer)
          readers[by].push_back({static_cast<int>(index), operand});
      }
  }

  KernelGraph run();

private:
  bool isExecuted(const Instance &instance) const {
    NodeClass kind = program.node(instance).kind;
    return kind != NodeClass::View && kind != NodeClass::Constant &&
           !instance.dead;
  }
  int producerGroup(int value) const {
    int instance = program.values[program.values[value].root].instance;
    return instance < 0 ? -1 : groupOf[instance];
  }
  /// The instance that runs and gives `value` its name, looking through views:
  /// the producer of its storage, or a wait, an opaque op or an update of a
  /// slice on it; -1 where that is an argument.
  int getNamer(int value) const {
    int root = program.values[value].root;
    while (value != root) {
      const Instance &instance =
          program.instances[program.values[value].instance];
      if (program.node(instance).kind != NodeClass::View)
        break;
      value = instance.operands[0];
    }
    return program.values[value].instance;
  }
  int namingGroup(int value) const {
    int instance = getNamer(value);
    return instance < 0 ? -1 : groupOf[instance];
  }
  /// Calls `visit` for the kernels that must have run before one reads
  /// `operand`.
  template <typename Function>
  void forEachProducer(int operand, Function visit) const {
    int producer = producerGroup(operand), by = namingGroup(operand);
    if (producer >= 0)
      visit(producer);
    if (by >= 0 && by != producer)
      visit(by);
  }
  /// Where the result of `id` would be available in group `group`; nothing
  /// where it may not join.
  std::optional<Locality> localityIn(int id, int group);
  bool fitsSpace(ArrayRef<int64_t> part, ArrayRef<int64_t> space) const;
  /// True where a kernel outside lies on a path from group `from` to group
  /// `to`.
  bool hasPathThroughOthers(int from, int to);
  /// The same, searched from `from` on along what is read.
  bool leadsTo(int from, int to);
  /// True where group `group` waits for `target`, along paths that do not go on
  /// from `self`, or where more than `kMaxVisits` operands would have to be
  /// looked at to know.
  bool reaches(int group, int target, int self);
  /// Starts a search for paths.
  void startSearch() {
    ++currentStamp;
    visits = 0;
  }
  /// The first border at or after instance `id` that no group crosses: border
  /// `b` lies before instance `b`.
  int findBorder(int id);
  /// Takes the instances up to the last one of `group` as its own stretch, from
  /// its first on.
  void coverStretch(const Group &group);
  /// True where a member of `reader` reads a value that kernel `producer` has
  /// only once it has stored it.
  bool readsStored(int reader, int producer) const;
  /// True where the kernel writes a piece of the tensor that `id` writes one
  /// of: it would have to hand that on with and without the later piece.
  bool writesPieceOf(int group, int id) const;
  void join(int id, int group, Locality where);
  /// Has a matmul write its result as the piece that `id` updates with it.
  bool joinMatmul(int id);
  bool tryJoin(int id);
  /// True where the loop kernels `group` and `other` can run as one.
  bool canMerge(int group, int other);
  /// Makes one of two kernels that can merge; returns which is left.
  int merge(int group, int other);
  KernelGraph build();

  /// True where kernel `group` computes instance `id`.
  bool holds(int group, int id) const {
    return groupOf[id] == group ||
           llvm::is_contained(groups[group].repeated, id);
  }

  /// True where `operand` is all of its storage in the order of its elements:
  /// no view of it but one that only keeps clones apart.
  bool readsAsItLies(int operand) const;

  // ShareReads.cpp
  void shareReads();
  bool isStored(int value) const;
  void mergeMeasurements();
  SmallVector<int> findRepeatable(int group) const;
  bool findChain(int value, Chained &chain) const;
  void computeAgain(int group);
  double getGain(ArrayRef<int> values, ArrayRef<int> readingGroups,
                 bool asOne) const;
  SmallVector<int> getReadingGroups(ArrayRef<int> values) const;
  void repeat(int value, int reader);
  void dropUnused(int group);

  const Program &program;
  Fusion fusion;
  std::vector<Group> groups;
  std::vector<int> groupOf;
  std::vector<Locality> locality;
  std::vector<int> stamp;
  int currentStamp = 0;
  int visits = 0; ///< operands that the search for paths has looked at
  std::vector<int>
      nextBorder; ///< union-find over borders, towards the one that is left
  /// Per instance, who reads what of it, or by a name that it gives: instances
  /// with the operand they read, which may be a view.
  std::vector<SmallVector<std::pair<int, int>, 4>> readers;
  std::set<int> repeatingGroups; ///< that have `repeated` members
  /// Values that backward reads from forward.
  std::vector<bool> kept;
};

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_FORMER_H
