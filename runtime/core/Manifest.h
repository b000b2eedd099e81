//===- Manifest.h - What an artifact says about its functions ---*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The manifest section in memory: signatures, buffers and command lists, as
// docs/artifact.md specifies them. `checkManifest` checks everything the run
// path relies on (indices, extents of views, alloc before use), so that
// running cannot be led out of its buffers by what a manifest says.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_MANIFEST_H
#define FP8RT_CORE_MANIFEST_H

#include "fp8rt/Formats.h"
#include "fp8rt/Inputs.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fp8rt {

/// Storage a command works on: an argument of the function or a buffer.
struct Ref {
  bool isArgument = false;
  uint32_t index = 0;
  /// For one of the equal parts of a buffer, that of this rank: the number of
  /// the axis of the grid along which ranks have one each. Else -1.
  int32_t axis = -1;
};

/// One axis of the grid of ranks.
struct GridAxis {
  std::string name;
  int64_t size = 1;
};

struct Argument {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
  Role role = Role::Input;
  Init init = Init::Normal;
  double initScale = 1.0;
  /// Per dimension the axis of the grid along which ranks hold parts of it, or
  /// an empty name; empty where every rank has the same.
  std::vector<std::string> shard;
};

/// A result: a strided view (in elements) of its root.
struct Result {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  bool placedByCaller = false;
  Ref ref;
  int64_t offset = 0;
  std::vector<int64_t> strides;
  /// The value whose inexact elements it counts; empty for other results.
  std::string counter;
};

enum class BufferKind { Local, Residual, Result, Workspace };

struct Buffer {
  std::string name;
  uint64_t bytes = 0;
  /// Byte offset in the arena; -1 when the caller passes the memory.
  int64_t offset = 0;
  BufferKind kind = BufferKind::Local;
  /// Whether a result of the function reads it, so that it is never freed.
  bool isResult = false;
};

/// A 2-D view of a ref, in elements.
struct Operand {
  Ref ref;
  DType dtype = DType::F32;
  int64_t offset = 0;
  int64_t strides[2] = {0, 0};
};

struct ScaleOperand {
  Ref ref;
  int64_t group[2] = {0, 0};
  int64_t strides[2] = {0, 0};
  int64_t offset = 0;
};

/// Groups of rows, each with a product of its own. Offsets are i32, one more
/// than groups: where each begins, and where the last one ends.
struct GemmGroups {
  Ref offsets;
  int64_t count = 0;
  /// Groups begin at multiples of so many rows.
  int64_t align = 1;
  /// Whether the rows of k are grouped and `d` holds one matrix a group; else
  /// those of m are, and `b` does.
  bool ofSum = false;
  /// Elements between these matrices, and between the scales of those of `b`.
  int64_t stride = 0, scaleStride = 0;
};

struct GemmCommand {
  int64_t m = 0, n = 0, k = 0;
  Operand a, b, d;
  std::optional<Operand> c;
  std::optional<ScaleOperand> scaleA, scaleB;
  bool fastAccum = false;
  Ref workspace;
  /// m or k is then the capacity.
  std::optional<GemmGroups> groups;
};

enum class ReduceKind { Sum, Max };

/// What a rank does with the others along one axis (Exchange.h). Sizes and
/// strides are in elements.
struct CollectiveCommand {
  std::string axis;
  DType dtype = DType::F32;
  /// Of the source, which is a view; the target is dense.
  std::vector<int64_t> shape, strides;
  int64_t offset = 0;
  /// The dimension of the source that is cut into a part for each rank, and the
  /// one of the target along which the parts that arrive are joined; -1 for
  /// none.
  int64_t split = -1, concat = -1;
  /// How the parts become one where they are not joined.
  std::optional<ReduceKind> reduce;
  bool sumsInBF16 = false;
  /// For one that is started here and waited for later: the number that its
  /// wait has too; else -1.
  int64_t ticket = -1;
};

/// How a kernel is launched on a GPU; the CPU's kernels have none.
struct LaunchGeometry {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  /// Bytes of dynamic shared memory.
  uint32_t shared = 0;
};

/// The start of a copy between a whole buffer and host memory of the runner.
struct HostCopyCommand {
  /// Byte position in the function's host memory.
  uint64_t offset = 0;
  /// The number that its wait has too.
  int64_t ticket = -1;
};

enum class CommandOp {
  Alloc,
  Free,
  Launch,
  Gemm,
  Copy,
  Fill,
  Collective,
  Offload,
  Prefetch,
  Wait
};

/// What a command moves and computes, for rates. Workspaces do not count.
struct CommandWork {
  uint64_t bytes = 0;
  uint64_t flops = 0;
};

/// One command. `refs` lists all storage it touches, in a fixed order (a
/// launch: its arguments; a gemm: a, b, d, workspace, then c, scale_a, scale_b,
/// offsets where present; a copy, a collective and its wait: src, dst; an
/// offload, a prefetch and their waits: the buffer; a fill: all it sets to
/// zero); `writes` are positions in `refs`.
struct Command {
  CommandOp op = CommandOp::Alloc;
  std::string name;
  std::string loc;
  uint32_t buffer = 0;                    // alloc, free
  std::string kernel;                     // launch
  std::optional<LaunchGeometry> geometry; // launch
  std::vector<Ref> refs;                  // launch, gemm, copy, fill
  std::vector<uint32_t> writes;
  GemmCommand gemm;                // gemm
  CollectiveCommand collective;    // collective; of its wait the ticket
  HostCopyCommand hostCopy;        // offload, prefetch, and their waits
  uint64_t bytes = 0;              // copy, offload, prefetch
  std::vector<uint64_t> fillBytes; // fill: of each ref, from its start
  CommandWork work;                // launch, collective
};

struct Function {
  std::string name;
  std::vector<Argument> arguments;
  std::vector<Result> results;
  std::vector<Buffer> buffers;
  std::vector<Command> commands;
  uint64_t peakBytes = 0;
  uint64_t arenaBytes = 0;
  uint64_t savedBytes = 0;
  /// Host memory that a run needs.
  uint64_t hostBytes = 0;
};

struct Manifest {
  std::string compiler;
  std::string target;
  /// The ranks, the last axis the one along which neighbours differ; empty for
  /// one rank.
  std::vector<GridAxis> grid;
  std::vector<Function> functions;

  /// The number of ranks.
  int64_t rankCount() const {
    int64_t ranks = 1;
    for (const GridAxis &axis : grid)
      ranks *= axis.size;
    return ranks;
  }

  /// Whether the target is a GPU; every target but "cpu" is.
  bool isCuda() const { return target != "cpu"; }
};

/// Bytes of what `ref` names in `function`: of a part, those of one.
uint64_t bytesOf(const Function &function, const std::vector<GridAxis> &grid,
                 Ref ref);

/// The work of `command`: what the manifest says of a launch, each operand once
/// for the others.
CommandWork workOf(const Command &command);

/// Name of a command's kind in ledgers ("launch", ...).
const char *commandOpName(CommandOp op);

/// "command 'NAME' (LOC)", for messages.
std::string describe(const Command &command);

/// Reads the manifest in `json`. On failure returns nothing and sets `error`,
/// which names the place in the manifest.
std::optional<Manifest> parseManifest(std::string_view json,
                                      std::string &error);

/// Checks what `parseManifest` read (ManifestCheck.h); what a GPU's library
/// does not take is refused here already. Returns false and sets `error`.
bool checkManifest(Manifest &manifest, std::string &error);

} // namespace fp8rt

#endif // FP8RT_CORE_MANIFEST_H
