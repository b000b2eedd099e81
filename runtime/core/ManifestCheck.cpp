//===- ManifestCheck.cpp - Consistency of one function --------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// These checks keep a wrong manifest from reading or writing outside its
// buffers through the runtime's own commands. What kernels do inside their
// buffers, and whether sizes and frees are right, is what the watcher measures.
//
//===----------------------------------------------------------------------===//

#include "ManifestCheck.h"

#include "CudaGemmRules.h"
#include "fp8rt/CpuGemm.h"
#include "fp8rt/CudaGemm.h"

#include <algorithm>
#include <map>

using namespace fp8rt;

namespace {

/// Arena slots start at multiples of this (docs/artifact.md).
constexpr int64_t kSlotAlignment = 256;

/// `value + count * stride`, or nothing where it leaves int64.
std::optional<int64_t> advance(int64_t value, int64_t count, int64_t stride) {
  int64_t product = 0, sum = 0;
  if (__builtin_mul_overflow(count, stride, &product) ||
      __builtin_add_overflow(value, product, &sum))
    return std::nullopt;
  return sum;
}

class Checker {
public:
  Checker(Function &function, const Manifest &manifest, std::string &error)
      : function(function), manifest(manifest), isCuda(manifest.isCuda()),
        error(error) {}

  bool run() {
    return checkArguments() && checkBuffers() && checkResults() &&
           checkCommands();
  }

private:
  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }

  uint64_t bytesOf(Ref ref) const {
    return fp8rt::bytesOf(function, manifest.grid, ref);
  }
  std::string nameOf(Ref ref) const {
    return ref.isArgument
               ? "argument '" + function.arguments[ref.index].name + "'"
               : "buffer '" + function.buffers[ref.index].name + "'";
  }

  bool checkArguments() {
    for (const Argument &argument : function.arguments) {
      std::optional<int64_t> bytes =
          static_cast<int64_t>(dtypeBytes(argument.dtype));
      for (int64_t size : argument.shape)
        if (bytes)
          bytes = advance(0, *bytes, size);
      for (const std::string &axis : argument.shard)
        if (!axis.empty() && !axisOf(axis))
          return fail("argument '" + argument.name +
                      "': the grid has no axis '" + axis + "'");
      if (!bytes || static_cast<uint64_t>(*bytes) != argument.bytes)
        return fail("argument '" + argument.name + "': expected " +
                    (bytes ? std::to_string(*bytes) : "fewer") +
                    " bytes for its shape, but got " +
                    std::to_string(argument.bytes));
    }
    for (size_t i = 0; i < function.arguments.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (function.arguments[i].name == function.arguments[j].name)
          return fail("two arguments are called '" +
                      function.arguments[i].name + "'");
    return true;
  }

  bool checkBuffers() {
    for (const Buffer &buffer : function.buffers) {
      if (buffer.bytes == 0)
        return fail("buffer '" + buffer.name + "' has no bytes");
      if (buffer.offset == -1)
        continue;
      if (buffer.offset % kSlotAlignment != 0)
        return fail("buffer '" + buffer.name +
                    "': expected an arena offset that is a multiple of 256, "
                    "but got " +
                    std::to_string(buffer.offset));
      auto offset = static_cast<uint64_t>(buffer.offset);
      if (offset > function.arenaBytes ||
          buffer.bytes > function.arenaBytes - offset)
        return fail("buffer '" + buffer.name + "' at bytes " +
                    std::to_string(offset) + " to " +
                    std::to_string(offset + buffer.bytes) +
                    " leaves the arena of " +
                    std::to_string(function.arenaBytes) + " bytes");
    }
    return true;
  }

  /// Whether a view with `dims` of (size, stride) pairs from `offset` on lies
  /// in `ref`. All in elements of `elementBytes`.
  bool checkView(const std::string &what, Ref ref, size_t elementBytes,
                 int64_t offset,
                 const std::vector<std::pair<int64_t, int64_t>> &dims) {
    std::optional<int64_t> last = offset;
    for (auto [size, stride] : dims)
      if (last)
        last = advance(*last, size - 1, stride);
    if (!last || *last >= INT64_MAX / 8 ||
        static_cast<uint64_t>(*last + 1) * elementBytes > bytesOf(ref))
      return fail(what + " reaches element " +
                  (last ? std::to_string(*last) : "beyond 2^63") + " of " +
                  nameOf(ref) + ", which has " +
                  std::to_string(bytesOf(ref) / elementBytes) + " elements");
    return true;
  }

  bool checkResults() {
    std::vector<bool> claimed(function.buffers.size());
    for (const Result &result : function.results) {
      std::string what = "result '" + result.name + "'";
      if (result.ref.axis >= 0)
        return fail(what + ": expected all of " + nameOf(result.ref));
      std::vector<std::pair<int64_t, int64_t>> dims;
      for (size_t i = 0; i < result.shape.size(); ++i)
        dims.emplace_back(result.shape[i], result.strides[i]);
      if (!checkView(what, result.ref, dtypeBytes(result.dtype), result.offset,
                     dims))
        return false;
      bool inCallerBuffer = !result.ref.isArgument &&
                            function.buffers[result.ref.index].offset == -1;
      if (result.placedByCaller != inCallerBuffer)
        return fail(what + ": a result is placed by the caller exactly when "
                           "its buffer has the offset -1");
      if (result.ref.isArgument)
        continue;
      function.buffers[result.ref.index].isResult = true;
      if (result.placedByCaller && claimed[result.ref.index])
        return fail(what + " shares the caller's buffer '" +
                    function.buffers[result.ref.index].name +
                    "' with another result");
      claimed[result.ref.index] = true;
    }
    for (size_t i = 0; i < function.buffers.size(); ++i)
      if (function.buffers[i].offset == -1 && !claimed[i])
        return fail("buffer '" + function.buffers[i].name +
                    "' has no arena offset, but no result is placed in it");
    return true;
  }

  bool checkOperand(const std::string &what, const Operand &operand,
                    int64_t rows, int64_t columns, bool isAccumulator,
                    int64_t matrices = 1, int64_t stride = 0) {
    if (operand.dtype == DType::I32 || operand.dtype == DType::I8 ||
        (isAccumulator && operand.dtype != DType::BF16 &&
         operand.dtype != DType::F32))
      return fail(what + ": expected " +
                  (isAccumulator ? "bf16 or f32" : "bf16, f32 or f8") +
                  ", but got " + dtypeName(operand.dtype));
    return checkView(what, operand.ref, dtypeBytes(operand.dtype),
                     operand.offset,
                     {{rows, operand.strides[0]},
                      {columns, operand.strides[1]},
                      {matrices, stride}});
  }

  bool checkScale(const std::string &what,
                  const std::optional<ScaleOperand> &scale, int64_t rows,
                  int64_t columns, int64_t matrices = 1, int64_t stride = 0) {
    if (!scale)
      return true;
    int64_t sizes[2] = {rows, columns};
    std::vector<std::pair<int64_t, int64_t>> dims = {{matrices, stride}};
    for (int i = 0; i < 2; ++i) {
      int64_t group = scale->group[i];
      dims.emplace_back(group ? (sizes[i] - 1) / group + 1 : 1,
                        scale->strides[i]);
    }
    return checkView(what, scale->ref, sizeof(float), scale->offset, dims);
  }

  static bool same(Ref a, Ref b) {
    return a.isArgument == b.isArgument && a.index == b.index;
  }

  /// A block of the result is written while later blocks still read their
  /// operands; only an accumulator read at the same place may share storage.
  bool checkOverlap(const Command &command) {
    const GemmCommand &gemm = command.gemm;
    std::vector<std::pair<const char *, Ref>> read = {{"a", gemm.a.ref},
                                                      {"b", gemm.b.ref}};
    if (gemm.scaleA)
      read.emplace_back("scale_a", gemm.scaleA->ref);
    if (gemm.scaleB)
      read.emplace_back("scale_b", gemm.scaleB->ref);
    if (gemm.groups)
      read.emplace_back("offsets", gemm.groups->offsets);
    if (gemm.c &&
        !(gemm.c->dtype == gemm.d.dtype && gemm.c->offset == gemm.d.offset &&
          gemm.c->strides[0] == gemm.d.strides[0] &&
          gemm.c->strides[1] == gemm.d.strides[1]))
      read.emplace_back("c", gemm.c->ref);
    for (auto [name, ref] : read)
      if (same(ref, gemm.d.ref))
        return fail(describe(command) + ": d is in the storage of " + name +
                    ", " + nameOf(ref));
    read.emplace_back("d", gemm.d.ref);
    if (gemm.c)
      read.emplace_back("c", gemm.c->ref);
    for (auto [name, ref] : read)
      if (same(ref, gemm.workspace))
        return fail(describe(command) + ": the workspace is the storage of " +
                    name + ", " + nameOf(ref));
    return true;
  }

  /// What lies between a run and its bounds once the offsets are good.
  bool checkGroups(const std::string &what, const GemmCommand &gemm) {
    const GemmGroups &groups = *gemm.groups;
    if (isCuda)
      return fail(what + ": expected no groups on a GPU, but got some");
    if (gemm.c)
      return fail(what + ": expected no 'c' with groups, but got one");
    if (!checkView(what + ": offsets", groups.offsets, sizeof(int32_t), 0,
                   {{groups.count + 1, 1}}))
      return false;
    for (int side = 0; side < 2; ++side) {
      const std::optional<ScaleOperand> &scale =
          side == 0 ? gemm.scaleA : gemm.scaleB;
      // Along the capacity.
      int64_t rows = !scale         ? 0
                     : groups.ofSum ? scale->group[1 - side]
                     : side == 0    ? scale->group[0]
                                    : 0;
      if (rows && groups.align % rows != 0)
        return fail(what + ": expected groups that begin at multiples of " +
                    std::to_string(rows) +
                    " rows, which share a scale, but "
                    "got " +
                    std::to_string(groups.align));
    }
    return true;
  }

  bool checkGemm(const Command &command) {
    const GemmCommand &gemm = command.gemm;
    std::string what = describe(command);
    bool ofSum = gemm.groups && gemm.groups->ofSum;
    int64_t matrices = gemm.groups ? gemm.groups->count : 1,
            stride = gemm.groups ? gemm.groups->stride : 0,
            scaleStride = gemm.groups ? gemm.groups->scaleStride : 0;
    if (!checkOperand(what + ": a", gemm.a, gemm.m, gemm.k, false) ||
        !checkOperand(what + ": b", gemm.b, gemm.k, gemm.n, false,
                      ofSum ? 1 : matrices, ofSum ? 0 : stride) ||
        !checkOperand(what + ": d", gemm.d, gemm.m, gemm.n, true,
                      ofSum ? matrices : 1, ofSum ? stride : 0) ||
        (gemm.c &&
         !checkOperand(what + ": c", *gemm.c, gemm.m, gemm.n, true)) ||
        !checkScale(what + ": scale_a", gemm.scaleA, gemm.m, gemm.k) ||
        !checkScale(what + ": scale_b", gemm.scaleB, gemm.k, gemm.n,
                    ofSum ? 1 : matrices, ofSum ? 0 : scaleStride) ||
        (gemm.groups && !checkGroups(what, gemm)))
      return false;
    int64_t groupA = gemm.scaleA ? gemm.scaleA->group[1] : 0;
    int64_t groupB = gemm.scaleB ? gemm.scaleB->group[0] : 0;
    if (groupA && groupB && groupA != groupB)
      return fail(what + ": expected equal groups along k, but got " +
                  std::to_string(groupA) + " and " + std::to_string(groupB));
    if (std::max(groupA, groupB) > kCpuGemmMaxScaleGroup)
      return fail(what + ": expected a group along k of at most " +
                  std::to_string(kCpuGemmMaxScaleGroup) + ", but got " +
                  std::to_string(std::max(groupA, groupB)));
    uint64_t least = isCuda ? kCudaGemmLibraryBytes : kCpuGemmWorkspaceBytes;
    if (gemm.workspace.isArgument || bytesOf(gemm.workspace) < least)
      return fail(what + ": expected a workspace buffer of " +
                  std::to_string(least) + " bytes, but got " +
                  nameOf(gemm.workspace) + " of " +
                  std::to_string(bytesOf(gemm.workspace)) + " bytes");
    CudaGemmLayout layout;
    std::string reason;
    if (isCuda &&
        !layoutCudaGemm(gemm, bytesOf(gemm.workspace), layout, reason))
      return fail(what + ": " + reason);
    return checkOverlap(command);
  }

  bool checkLaunch(const Command &command) {
    std::string what = describe(command);
    if (command.geometry.has_value() != isCuda)
      return fail(what + (isCuda ? ": expected 'grid', 'block' and 'shared' "
                                   "for a kernel on a GPU"
                                 : ": expected no 'grid' for a kernel on the "
                                   "CPU"));
    if (!isCuda)
      return true;
    // The limits of every compute capability the compiler knows.
    const LaunchGeometry &geometry = *command.geometry;
    constexpr uint64_t limits[3] = {1024, 1024, 64};
    uint64_t threads = 1;
    for (int i = 0; i < 3; ++i) {
      if (i > 0 && geometry.grid[i] > 65535)
        return fail(what +
                    ": expected a grid of at most 65535 blocks along "
                    "y and z, but got " +
                    std::to_string(geometry.grid[i]));
      if (geometry.block[i] > limits[i])
        return fail(what +
                    ": expected a block of at most 1024 x 1024 x 64 "
                    "threads, but got " +
                    std::to_string(geometry.block[i]) + " along " + "xyz"[i]);
      threads *= geometry.block[i];
    }
    if (threads > 1024)
      return fail(what +
                  ": expected a block of at most 1024 threads, but got " +
                  std::to_string(threads));
    return true;
  }

  bool checkFill(const Command &command) {
    for (size_t i = 0; i < command.refs.size(); ++i)
      if (command.fillBytes[i] > bytesOf(command.refs[i]))
        return fail(describe(command) + " fills " +
                    std::to_string(command.fillBytes[i]) + " bytes, but " +
                    nameOf(command.refs[i]) + " has " +
                    std::to_string(bytesOf(command.refs[i])));
    return true;
  }

  const GridAxis *axisOf(const std::string &name) const {
    for (const GridAxis &axis : manifest.grid)
      if (axis.name == name)
        return &axis;
    return nullptr;
  }

  /// Whether a collective joins the parts of its result, of which the source is
  /// that of this rank, in its place: what would be written there is there.
  bool gathersOwnPart(const Command &command, const GridAxis &axis) const {
    const CollectiveCommand &collective = command.collective;
    Ref source = command.refs[0], target = command.refs[1];
    if (source.axis < 0 || target.axis >= 0 || collective.split >= 0 ||
        collective.concat < 0 || collective.offset != 0 ||
        &manifest.grid[static_cast<size_t>(source.axis)] != &axis)
      return false;
    int64_t stride = 1;
    for (size_t d = collective.shape.size(); d-- > 0;) {
      bool isOuter = d < static_cast<size_t>(collective.concat);
      if (isOuter ? collective.shape[d] != 1
                  : collective.shape[d] != 1 && collective.strides[d] != stride)
        return false;
      stride *= collective.shape[d];
    }
    return true;
  }

  /// Parts of buffers, one a rank, are what kernels and copies write and
  /// gathers read.
  bool checkParts(const Command &command) {
    for (size_t i = 0; i < command.refs.size(); ++i) {
      Ref ref = command.refs[i];
      if (ref.axis < 0)
        continue;
      uint64_t whole = function.buffers[ref.index].bytes;
      const GridAxis &axis = manifest.grid[static_cast<size_t>(ref.axis)];
      bool gathers =
          command.op == CommandOp::Collective ||
          (command.op == CommandOp::Wait && command.collective.ticket >= 0);
      bool copies = command.op == CommandOp::Copy;
      if (command.op != CommandOp::Launch && command.op != CommandOp::Fill &&
          !(gathers && i == 0) && !(copies && i == 1))
        return fail(describe(command) + ": expected all of " + nameOf(ref) +
                    ", but got the part of a rank along '" + axis.name + "'");
      if (bytesOf(ref) * static_cast<uint64_t>(axis.size) != whole ||
          bytesOf(ref) % kSlotAlignment != 0)
        return fail(describe(command) + ": expected " +
                    std::to_string(axis.size) + " parts of " + nameOf(ref) +
                    " of multiples of 256 bytes, but it has " +
                    std::to_string(whole) + " bytes");
    }
    return true;
  }

  bool checkCollective(const Command &command) {
    const CollectiveCommand &collective = command.collective;
    std::string what = describe(command);
    const GridAxis *axis = axisOf(collective.axis);
    if (!axis)
      return fail(what + ": the grid has no axis '" + collective.axis + "'");
    if (collective.reduce && collective.dtype != DType::F32 &&
        collective.dtype != DType::BF16)
      return fail(what + ": expected bf16 or f32 to reduce, but got " +
                  dtypeName(collective.dtype));
    std::vector<std::pair<int64_t, int64_t>> source;
    std::vector<int64_t> target = collective.shape;
    for (size_t d = 0; d < collective.shape.size(); ++d)
      source.emplace_back(collective.shape[d], collective.strides[d]);
    if (collective.split >= 0) {
      int64_t &size = target[static_cast<size_t>(collective.split)];
      if (size % axis->size != 0)
        return fail(what + ": expected a dimension of a multiple of " +
                    std::to_string(axis->size) + ", but got " +
                    std::to_string(size));
      size /= axis->size;
    }
    if (collective.concat >= 0) {
      int64_t &size = target[static_cast<size_t>(collective.concat)];
      if (__builtin_mul_overflow(size, axis->size, &size))
        return fail(what + ": its result is too large");
    }
    std::optional<int64_t> bytes =
        static_cast<int64_t>(dtypeBytes(collective.dtype));
    for (int64_t size : target)
      if (bytes)
        bytes = advance(0, *bytes, size);
    if (!bytes || static_cast<uint64_t>(*bytes) != bytesOf(command.refs[1]))
      return fail(what + ": expected a result of " +
                  (bytes ? std::to_string(*bytes) : "fewer") + " bytes, but " +
                  nameOf(command.refs[1]) + " has " +
                  std::to_string(bytesOf(command.refs[1])));
    if (same(command.refs[0], command.refs[1]) &&
        !gathersOwnPart(command, *axis))
      return fail(what + ": source and result are one storage, " +
                  nameOf(command.refs[0]));
    if (!checkView(what + ": src", command.refs[0],
                   dtypeBytes(collective.dtype), collective.offset, source))
      return false;
    return collective.ticket < 0 || start(command, collective.ticket);
  }

  bool start(const Command &command, int64_t ticket) {
    if (inFlight.emplace(ticket, &command).second)
      return true;
    return fail(describe(command) + ": the ticket " + std::to_string(ticket) +
                " is in use");
  }

  /// Whether a host copy is of a whole buffer and in its place in host memory:
  /// what is copied there comes back from there, once, after the wait.
  bool checkHostCopy(const Command &command) {
    std::string what = describe(command);
    uint64_t offset = command.hostCopy.offset;
    if (command.bytes != bytesOf(command.refs[0]))
      return fail(what + " copies " + std::to_string(command.bytes) +
                  " bytes, but " + nameOf(command.refs[0]) + " has " +
                  std::to_string(bytesOf(command.refs[0])));
    if (offset % kSlotAlignment != 0)
      return fail(what +
                  ": expected a position in host memory that is a "
                  "multiple of 256, but got " +
                  std::to_string(offset));
    if (offset > function.hostBytes ||
        command.bytes > function.hostBytes - offset)
      return fail(what + ": bytes " + std::to_string(offset) + " to " +
                  std::to_string(offset + command.bytes) +
                  " leave the host memory of " +
                  std::to_string(function.hostBytes) + " bytes");
    auto next = onHost.lower_bound(offset);
    if (command.op == CommandOp::Prefetch) {
      if (next == onHost.end() || next->first != offset ||
          next->second->bytes != command.bytes)
        return fail(what + " copies back what was not copied to byte " +
                    std::to_string(offset) + " of host memory");
      if (inFlight.count(next->second->hostCopy.ticket))
        return fail(what + " copies back what is still being copied to the "
                           "host");
      onHost.erase(next);
    } else {
      const Command *met = nullptr;
      if (next != onHost.end() && next->first < offset + command.bytes)
        met = next->second;
      else if (next != onHost.begin() &&
               std::prev(next)->first + std::prev(next)->second->bytes > offset)
        met = std::prev(next)->second;
      if (met)
        return fail(what + " writes host memory that holds what " +
                    describe(*met) + " copied there");
      onHost[offset] = &command;
    }
    return start(command, command.hostCopy.ticket);
  }

  static int64_t ticketOf(const Command &command) {
    return std::max(command.collective.ticket, command.hostCopy.ticket);
  }

  bool checkWait(const Command &command) {
    if (inFlight.erase(ticketOf(command)))
      return true;
    return fail(describe(command) + ": nothing with the ticket " +
                std::to_string(ticketOf(command)) + " is under way");
  }

  static bool writesRef(const Command &command, size_t position) {
    return std::count(command.writes.begin(), command.writes.end(),
                      static_cast<uint32_t>(position)) > 0;
  }

  /// What a collective or a copy under way uses is neither freed nor written,
  /// and what it writes not read.
  bool checkInFlight(const Command &command) {
    for (const auto &[ticket, started] : inFlight) {
      if (command.op == CommandOp::Wait && ticketOf(command) == ticket)
        continue;
      const char *kind =
          started->op == CommandOp::Collective ? "a collective" : "a copy";
      for (size_t own = 0; own < started->refs.size(); ++own) {
        Ref used = started->refs[own];
        if (command.op == CommandOp::Free || command.op == CommandOp::Alloc) {
          if (!used.isArgument && used.index == command.buffer)
            return fail(nameOf(used) + " is freed before the wait for " + kind +
                        " that uses it");
          continue;
        }
        bool isWritten = writesRef(*started, own);
        for (size_t i = 0; i < command.refs.size(); ++i)
          if (same(command.refs[i], used) &&
              (isWritten || writesRef(command, i)))
            return fail(describe(command) + " uses " + nameOf(used) +
                        " before the wait for " + kind + " that " +
                        (isWritten ? "writes" : "reads") + " it");
      }
    }
    return true;
  }

  bool checkCommands() {
    std::vector<bool> allocated(function.buffers.size());
    for (const Command &command : function.commands) {
      if (!checkInFlight(command))
        return false;
      if (command.op == CommandOp::Alloc || command.op == CommandOp::Free) {
        bool isFree = command.op == CommandOp::Free;
        const Buffer &buffer = function.buffers[command.buffer];
        if (allocated[command.buffer] != isFree)
          return fail("buffer '" + buffer.name +
                      (isFree ? "' is freed while it is not allocated"
                              : "' is allocated twice"));
        if (isFree && buffer.isResult)
          return fail("buffer '" + buffer.name +
                      "' is freed, but a result reads it");
        allocated[command.buffer] = !isFree;
        continue;
      }
      if (!checkParts(command))
        return false;
      for (Ref ref : command.refs)
        if (!ref.isArgument && !allocated[ref.index])
          return fail(describe(command) + " uses " + nameOf(ref) +
                      " while it is not allocated");
      for (uint32_t position : command.writes) {
        Ref ref = command.refs[position];
        if (!ref.isArgument)
          continue;
        Role role = function.arguments[ref.index].role;
        if (role != Role::State && role != Role::Donated)
          return fail(describe(command) + " writes " + nameOf(ref) +
                      ", which is neither state nor donated");
      }
      if ((command.op == CommandOp::Gemm && !checkGemm(command)) ||
          (command.op == CommandOp::Launch && !checkLaunch(command)) ||
          (command.op == CommandOp::Fill && !checkFill(command)) ||
          (command.op == CommandOp::Collective && !checkCollective(command)) ||
          ((command.op == CommandOp::Offload ||
            command.op == CommandOp::Prefetch) &&
           !checkHostCopy(command)) ||
          (command.op == CommandOp::Wait && !checkWait(command)))
        return false;
      if (command.op == CommandOp::Copy)
        for (Ref ref : command.refs)
          if (command.bytes > bytesOf(ref))
            return fail(describe(command) + " copies " +
                        std::to_string(command.bytes) + " bytes, but " +
                        nameOf(ref) + " has " + std::to_string(bytesOf(ref)));
    }
    if (!inFlight.empty())
      return fail((inFlight.begin()->second->op == CommandOp::Collective
                       ? std::string("the collective")
                       : std::string("the copy")) +
                  " with the ticket " +
                  std::to_string(inFlight.begin()->first) +
                  " is never waited for");
    for (const Result &result : function.results)
      if (!result.ref.isArgument && !allocated[result.ref.index])
        return fail("result '" + result.name + "' reads " + nameOf(result.ref) +
                    ", which is never allocated");
    return true;
  }

  Function &function;
  const Manifest &manifest;
  bool isCuda;
  /// Collectives and copies that are under way, by ticket.
  std::map<int64_t, const Command *> inFlight;
  /// What lies in host memory, by position.
  std::map<uint64_t, const Command *> onHost;
  std::string &error;
};

} // namespace

bool fp8rt::checkFunction(Function &function, const Manifest &manifest,
                          std::string &error) {
  return Checker(function, manifest, error).run();
}
