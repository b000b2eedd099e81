//===- Manifest.cpp - Reading the manifest --------------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// JSON to `Manifest`. The reader keeps the place it is at ("functions[0]/
// commands[3]/args[1]") and stops at the first fault. What depends on several
// parts at once (bounds, alloc and free) is in ManifestCheck.cpp.
//
//===----------------------------------------------------------------------===//

#include "Manifest.h"
#include "ManifestCheck.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using namespace fp8rt;
using Json = nlohmann::json;

namespace {

/// A value in the document and the path to it.
class Node {
public:
  Node(const Json *value, std::string path, std::string &error)
      : value(value), path(std::move(path)), error(error) {}

  bool fail(const std::string &message) const {
    if (error.empty())
      error = "manifest: " + path + ": " + message;
    return false;
  }

  bool has(const char *key) const {
    return value && value->is_object() && value->contains(key) &&
           !(*value)[key].is_null();
  }

  /// Member `key`; fails (and then yields null) where it is absent.
  Node at(const char *key) const {
    if (!has(key)) {
      fail(std::string("expected the key '") + key + "'");
      return Node(nullptr, path + "/" + key, error);
    }
    return Node(&(*value)[key], path + "/" + key, error);
  }

  Node item(size_t i) const {
    return Node(&(*value)[i], path + "[" + std::to_string(i) + "]", error);
  }

  bool array(size_t &size) const {
    if (!value)
      return false;
    if (!value->is_array())
      return fail("expected an array");
    size = value->size();
    return true;
  }

  bool string(std::string &out) const {
    if (!value)
      return false;
    if (!value->is_string())
      return fail("expected a string");
    out = value->get<std::string>();
    return true;
  }

  bool integer(int64_t &out, int64_t low, int64_t high = INT64_MAX) const {
    if (!value)
      return false;
    bool fits = value->is_number_integer() &&
                (!value->is_number_unsigned() ||
                 value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
    if (fits)
      out = value->get<int64_t>();
    if (!fits || out < low || out > high)
      return fail(
          "expected an integer of at least " + std::to_string(low) +
          (high == INT64_MAX ? "" : ", at most " + std::to_string(high)) +
          ", but got " + value->dump());
    return true;
  }

  bool bytes(uint64_t &out) const {
    int64_t number = 0;
    if (!integer(number, 0))
      return false;
    out = static_cast<uint64_t>(number);
    return true;
  }

  bool boolean(bool &out) const {
    if (!value)
      return false;
    if (!value->is_boolean())
      return fail("expected true or false");
    out = value->get<bool>();
    return true;
  }

  bool number(double &out) const {
    if (!value)
      return false;
    if (!value->is_number())
      return fail("expected a number");
    out = value->get<double>();
    return true;
  }

  bool integers(std::vector<int64_t> &out, int64_t low) const {
    size_t size = 0;
    if (!array(size))
      return false;
    out.resize(size);
    for (size_t i = 0; i < size; ++i)
      if (!item(i).integer(out[i], low))
        return false;
    return true;
  }

  bool pair(int64_t (&out)[2]) const {
    std::vector<int64_t> values;
    if (!integers(values, 0))
      return false;
    if (values.size() != 2)
      return fail("expected 2 entries, but got " +
                  std::to_string(values.size()));
    out[0] = values[0];
    out[1] = values[1];
    return true;
  }

  /// One of `names`, by its position there.
  template <typename T>
  bool choice(T &out, std::initializer_list<const char *> names) const {
    std::string text;
    if (!string(text))
      return false;
    int position = 0;
    std::string list;
    for (const char *name : names) {
      if (text == name) {
        out = static_cast<T>(position);
        return true;
      }
      list += list.empty() ? "" : ", ";
      list += name;
      ++position;
    }
    return fail("expected one of " + list + ", but got '" + text + "'");
  }

  bool dtype(DType &out) const {
    return choice(out, {"bf16", "f32", "f8E4M3FN", "f8E5M2", "i32", "i8"});
  }

private:
  const Json *value;
  std::string path;
  std::string &error;
};

/// Reads the functions of one manifest.
class Reader {
public:
  bool read(const Node &root, Manifest &manifest) {
    std::string schema;
    if (!root.at("schema").string(schema))
      return false;
    if (schema != "fp8opt-artifact-1")
      return root.at("schema").fail("expected 'fp8opt-artifact-1', but got '" +
                                    schema + "'");
    size_t count = 0;
    Node functions = root.at("functions");
    if (!root.at("compiler").string(manifest.compiler) ||
        !root.at("target").string(manifest.target) || !functions.array(count))
      return false;
    if (count == 0)
      return functions.fail("expected at least one function");
    if (root.has("grid") &&
        !readList(root.at("grid"), manifest.grid, &Reader::readAxis))
      return false;
    int64_t ranks = 1;
    for (const GridAxis &axis : manifest.grid)
      if (__builtin_mul_overflow(ranks, axis.size, &ranks) || ranks > INT32_MAX)
        return root.at("grid").fail("expected fewer than 2^31 ranks");
    grid = &manifest.grid;
    manifest.functions.resize(count);
    for (size_t i = 0; i < count; ++i)
      if (!readFunction(functions.item(i), manifest.functions[i]))
        return false;
    return true;
  }

private:
  template <typename T, typename Fn>
  bool readList(const Node &node, std::vector<T> &out, Fn readOne) {
    size_t count = 0;
    if (!node.array(count))
      return false;
    out.resize(count);
    for (size_t i = 0; i < count; ++i)
      if (!(this->*readOne)(node.item(i), out[i]))
        return false;
    return true;
  }

  bool readAxis(const Node &node, GridAxis &out) {
    return node.at("name").string(out.name) &&
           node.at("size").integer(out.size, 1);
  }

  bool readName(const Node &node, std::string &out) { return node.string(out); }

  bool readFunction(const Node &node, Function &out) {
    function = &out;
    starts.clear();
    return node.at("name").string(out.name) &&
           node.at("peak_bytes").bytes(out.peakBytes) &&
           node.at("arena_bytes").bytes(out.arenaBytes) &&
           node.at("saved_bytes").bytes(out.savedBytes) &&
           (!node.has("host_bytes") ||
            node.at("host_bytes").bytes(out.hostBytes)) &&
           readList(node.at("arguments"), out.arguments,
                    &Reader::readArgument) &&
           readList(node.at("buffers"), out.buffers, &Reader::readBuffer) &&
           readList(node.at("results"), out.results, &Reader::readResult) &&
           readList(node.at("commands"), out.commands, &Reader::readCommand);
  }

  bool readArgument(const Node &node, Argument &out) {
    if (!node.at("name").string(out.name) ||
        !node.at("dtype").dtype(out.dtype) ||
        !node.at("shape").integers(out.shape, 1) ||
        !node.at("bytes").bytes(out.bytes) ||
        !node.at("role").choice(
            out.role, {"input", "parameter", "tangent", "state", "donated"}))
      return false;
    if (node.has("init") &&
        !node.at("init").choice(out.init,
                                {"normal", "zero", "one", "position"}))
      return false;
    if (node.has("init_scale") && !node.at("init_scale").number(out.initScale))
      return false;
    if (!node.has("shard"))
      return true;
    if (!readList(node.at("shard"), out.shard, &Reader::readName))
      return false;
    return out.shard.size() == out.shape.size() ||
           node.at("shard").fail("expected one axis a dimension");
  }

  bool readBuffer(const Node &node, Buffer &out) {
    return node.at("name").string(out.name) &&
           node.at("bytes").bytes(out.bytes) &&
           node.at("offset").integer(out.offset, -1) &&
           node.at("kind").choice(out.kind,
                                  {"local", "residual", "result", "workspace"});
  }

  bool readRef(const Node &node, Ref &out) {
    out.isArgument = node.has("arg");
    if (out.isArgument == node.has("buffer"))
      return node.fail("expected either 'arg' or 'buffer'");
    int64_t limit = static_cast<int64_t>(
        out.isArgument ? function->arguments.size() : function->buffers.size());
    int64_t index = 0;
    if (!node.at(out.isArgument ? "arg" : "buffer")
             .integer(index, 0, limit - 1))
      return false;
    out.index = static_cast<uint32_t>(index);
    if (!node.has("axis"))
      return true;
    std::string axis;
    if (!node.at("axis").string(axis))
      return false;
    for (size_t i = 0; i < grid->size(); ++i)
      if ((*grid)[i].name == axis)
        out.axis = static_cast<int32_t>(i);
    if (out.isArgument || out.axis < 0)
      return node.at("axis").fail("expected an axis of the grid, of a buffer");
    return true;
  }

  bool readResult(const Node &node, Result &out) {
    int placement = 0;
    if (!node.at("name").string(out.name) ||
        !node.at("dtype").dtype(out.dtype) ||
        !node.at("shape").integers(out.shape, 1) ||
        !node.at("placement").choice(placement, {"arena", "caller"}) ||
        !readRef(node.at("ref"), out.ref) ||
        !node.at("offset").integer(out.offset, 0) ||
        !node.at("strides").integers(out.strides, 0) ||
        (node.has("counter") && !node.at("counter").string(out.counter)))
      return false;
    if (!out.counter.empty() &&
        (out.dtype != DType::F32 ||
         std::any_of(out.shape.begin(), out.shape.end(),
                     [](int64_t size) { return size != 1; })))
      return node.at("counter").fail("expected a counter of one f32");
    out.placedByCaller = placement == 1;
    if (out.strides.size() != out.shape.size())
      return node.at("strides").fail("expected one stride a dimension");
    return true;
  }

  bool readOperand(const Node &node, Operand &out) {
    return readRef(node, out.ref) && node.at("dtype").dtype(out.dtype) &&
           node.at("offset").integer(out.offset, 0) &&
           node.at("strides").pair(out.strides);
  }

  bool readScale(const Node &node, std::optional<ScaleOperand> &out) {
    out.emplace();
    return readRef(node, out->ref) && node.at("group").pair(out->group) &&
           node.at("strides").pair(out->strides) &&
           node.at("offset").integer(out->offset, 0);
  }

  bool readCommand(const Node &node, Command &out) {
    if (!node.at("op").choice(out.op, {"alloc", "free", "launch", "gemm",
                                       "copy", "fill", "collective", "offload",
                                       "prefetch", "wait"}))
      return false;
    if (out.op == CommandOp::Alloc || out.op == CommandOp::Free) {
      int64_t index = 0;
      if (!node.at("buffer").integer(
              index, 0, static_cast<int64_t>(function->buffers.size()) - 1))
        return false;
      out.buffer = static_cast<uint32_t>(index);
      out.name = function->buffers[out.buffer].name;
    }
    if (node.has("name") && !node.at("name").string(out.name))
      return false;
    if (node.has("loc") && !node.at("loc").string(out.loc))
      return false;
    switch (out.op) {
    case CommandOp::Alloc:
    case CommandOp::Free:
      return true;
    case CommandOp::Launch:
      return readLaunch(node, out);
    case CommandOp::Gemm:
      return readGemm(node, out);
    case CommandOp::Copy:
      out.refs.resize(2);
      out.writes = {1};
      return readRef(node.at("src"), out.refs[0]) &&
             readRef(node.at("dst"), out.refs[1]) &&
             node.at("bytes").bytes(out.bytes);
    case CommandOp::Fill:
      return readFill(node, out);
    case CommandOp::Collective:
      return readCollective(node, out);
    case CommandOp::Offload:
      return readHostCopy(node, "src", out);
    case CommandOp::Prefetch:
      out.writes = {0};
      return readHostCopy(node, "dst", out);
    case CommandOp::Wait:
      return readWait(node, out);
    }
    return true;
  }

  bool readFill(const Node &node, Command &out) {
    std::vector<int64_t> sizes;
    Node destinations = node.at("dst");
    size_t count = 0;
    if (!destinations.array(count) || !node.at("bytes").integers(sizes, 1))
      return false;
    out.refs.resize(count);
    for (size_t i = 0; i < count; ++i)
      if (!readRef(destinations.item(i), out.refs[i]))
        return false;
    if (sizes.empty() || sizes.size() != out.refs.size())
      return node.at("bytes").fail("expected as many sizes as 'dst' has refs, "
                                   "and at least one, but got " +
                                   std::to_string(sizes.size()) + " for " +
                                   std::to_string(out.refs.size()));
    for (size_t i = 0; i < sizes.size(); ++i) {
      out.writes.push_back(static_cast<uint32_t>(i));
      out.fillBytes.push_back(static_cast<uint64_t>(sizes[i]));
    }
    return true;
  }

  bool readCollective(const Node &node, Command &out) {
    CollectiveCommand &collective = out.collective;
    Node source = node.at("src");
    out.refs.resize(2);
    out.writes = {1};
    if (!node.at("axis").string(collective.axis) ||
        !node.at("dtype").dtype(collective.dtype) ||
        !node.at("shape").integers(collective.shape, 1) ||
        !readRef(source, out.refs[0]) ||
        !readRef(node.at("dst"), out.refs[1]) ||
        !source.at("offset").integer(collective.offset, 0) ||
        !source.at("strides").integers(collective.strides, 0))
      return false;
    auto rank = static_cast<int64_t>(collective.shape.size());
    if (collective.strides.size() != collective.shape.size())
      return source.at("strides").fail("expected one stride a dimension");
    if ((node.has("split") &&
         !node.at("split").integer(collective.split, 0, rank - 1)) ||
        (node.has("concat") &&
         !node.at("concat").integer(collective.concat, 0, rank - 1)) ||
        (node.has("ticket") &&
         !node.at("ticket").integer(collective.ticket, 0)))
      return false;
    if (node.has("reduce") &&
        !node.at("reduce").choice(collective.reduce.emplace(), {"sum", "max"}))
      return false;
    DType acc = DType::F32;
    if (node.has("acc") && !node.at("acc").dtype(acc))
      return false;
    collective.sumsInBF16 = acc == DType::BF16;
    if (collective.reduce.has_value() == (collective.concat >= 0))
      return node.fail("expected either 'reduce' or 'concat'");
    for (Ref ref : out.refs)
      out.work.bytes += bytesOf(*function, *grid, ref);
    if (collective.ticket >= 0)
      starts.push_back({collective.ticket, out.refs, out.writes, false});
    return true;
  }

  bool readHostCopy(const Node &node, const char *key, Command &out) {
    int64_t offset = 0;
    out.refs.resize(1);
    if (!readRef(node.at(key), out.refs[0]) ||
        !node.at("host").integer(offset, 0) ||
        !node.at("bytes").bytes(out.bytes) ||
        !node.at("ticket").integer(out.hostCopy.ticket, 0))
      return false;
    if (out.refs[0].isArgument)
      return node.at(key).fail("expected a buffer");
    out.hostCopy.offset = static_cast<uint64_t>(offset);
    starts.push_back({out.hostCopy.ticket, out.refs, out.writes, true});
    return true;
  }

  /// A wait has the storage of its start.
  bool readWait(const Node &node, Command &out) {
    int64_t ticket = 0;
    if (!node.at("ticket").integer(ticket, 0))
      return false;
    for (const Start &start : starts)
      if (start.ticket == ticket) {
        out.refs = start.refs;
        out.writes = start.writes;
        (start.isCopy ? out.hostCopy.ticket : out.collective.ticket) = ticket;
      }
    if (out.refs.empty())
      return node.at("ticket").fail("expected the number of a collective or a "
                                    "copy that was started before, but got " +
                                    std::to_string(ticket));
    return true;
  }

  bool readGeometry(const Node &node, LaunchGeometry &out) {
    for (auto [key, values] :
         {std::pair("grid", out.grid), std::pair("block", out.block)}) {
      std::vector<int64_t> sizes;
      if (!node.at(key).integers(sizes, 1))
        return false;
      if (sizes.size() != 3)
        return node.at(key).fail("expected 3 entries, but got " +
                                 std::to_string(sizes.size()));
      for (size_t i = 0; i < 3; ++i) {
        if (sizes[i] > INT32_MAX)
          return node.at(key).fail("expected entries of at most 2147483647");
        values[i] = static_cast<uint32_t>(sizes[i]);
      }
    }
    int64_t shared = 0;
    if (!node.at("shared").integer(shared, 0, INT32_MAX))
      return false;
    out.shared = static_cast<uint32_t>(shared);
    return true;
  }

  bool readLaunch(const Node &node, Command &out) {
    std::vector<int64_t> writes;
    if (!node.at("kernel").string(out.kernel) ||
        !readList(node.at("args"), out.refs, &Reader::readRef) ||
        !node.at("writes").integers(writes, 0) ||
        !node.at("bytes").bytes(out.work.bytes) ||
        !node.at("flops").bytes(out.work.flops))
      return false;
    for (int64_t position : writes) {
      if (position >= static_cast<int64_t>(out.refs.size()))
        return node.at("writes").fail("expected positions in 'args', but got " +
                                      std::to_string(position));
      out.writes.push_back(static_cast<uint32_t>(position));
    }
    return !node.has("grid") || readGeometry(node, out.geometry.emplace());
  }

  bool readGemm(const Node &node, Command &out) {
    GemmCommand &gemm = out.gemm;
    if (!node.at("m").integer(gemm.m, 1) || !node.at("n").integer(gemm.n, 1) ||
        !node.at("k").integer(gemm.k, 1) ||
        !readOperand(node.at("a"), gemm.a) ||
        !readOperand(node.at("b"), gemm.b) ||
        !readOperand(node.at("d"), gemm.d) ||
        !readRef(node.at("workspace"), gemm.workspace))
      return false;
    out.refs = {gemm.a.ref, gemm.b.ref, gemm.d.ref, gemm.workspace};
    out.writes = {2, 3};
    if (node.has("c")) {
      if (!readOperand(node.at("c"), gemm.c.emplace()))
        return false;
      out.refs.push_back(gemm.c->ref);
    }
    for (auto [key, scale] : {std::pair("scale_a", &gemm.scaleA),
                              std::pair("scale_b", &gemm.scaleB)}) {
      if (!node.has(key))
        continue;
      if (!readScale(node.at(key), *scale))
        return false;
      out.refs.push_back((*scale)->ref);
    }
    if (node.has("groups")) {
      GemmGroups &groups = gemm.groups.emplace();
      Node groupsNode = node.at("groups");
      if (!readRef(groupsNode.at("offsets"), groups.offsets) ||
          !groupsNode.at("count").integer(groups.count, 1, INT32_MAX) ||
          !groupsNode.at("align").integer(groups.align, 1) ||
          !groupsNode.at("of_sum").boolean(groups.ofSum) ||
          !groupsNode.at("stride").integer(groups.stride, 0) ||
          !groupsNode.at("scale_stride").integer(groups.scaleStride, 0))
        return false;
      out.refs.push_back(groups.offsets);
    }
    return !node.has("fast_accum") ||
           node.at("fast_accum").boolean(gemm.fastAccum);
  }

  Function *function = nullptr;
  const std::vector<GridAxis> *grid = nullptr;
  /// What was started with a ticket, and its storage.
  struct Start {
    int64_t ticket;
    std::vector<Ref> refs;
    std::vector<uint32_t> writes;
    bool isCopy;
  };
  std::vector<Start> starts;
};

} // namespace

uint64_t fp8rt::bytesOf(const Function &function,
                        const std::vector<GridAxis> &grid, Ref ref) {
  uint64_t bytes = ref.isArgument ? function.arguments[ref.index].bytes
                                  : function.buffers[ref.index].bytes;
  return ref.axis < 0 ? bytes
                      : bytes / static_cast<uint64_t>(
                                    grid[static_cast<size_t>(ref.axis)].size);
}

const char *fp8rt::commandOpName(CommandOp op) {
  switch (op) {
  case CommandOp::Alloc:
    return "alloc";
  case CommandOp::Free:
    return "free";
  case CommandOp::Launch:
    return "launch";
  case CommandOp::Gemm:
    return "gemm";
  case CommandOp::Copy:
    return "copy";
  case CommandOp::Fill:
    return "fill";
  case CommandOp::Collective:
    return "collective";
  case CommandOp::Offload:
    return "offload";
  case CommandOp::Prefetch:
    return "prefetch";
  case CommandOp::Wait:
    return "wait";
  }
  return "unknown";
}

std::string fp8rt::describe(const Command &command) {
  std::string text =
      std::string(commandOpName(command.op)) + " '" + command.name + "'";
  if (!command.loc.empty())
    text += " (" + command.loc + ")";
  return text;
}

std::optional<Manifest> fp8rt::parseManifest(std::string_view json,
                                             std::string &error) {
  error.clear();
  Json document = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) {
    error = "manifest: expected a JSON object";
    return std::nullopt;
  }
  Manifest manifest;
  Node root(&document, "", error);
  if (!Reader().read(root, manifest))
    return std::nullopt;
  return manifest;
}

bool fp8rt::checkManifest(Manifest &manifest, std::string &error) {
  for (size_t i = 0; i < manifest.functions.size(); ++i) {
    Function &function = manifest.functions[i];
    for (size_t j = 0; j < i; ++j)
      if (function.name == manifest.functions[j].name) {
        error = "manifest: two functions are called '" + function.name + "'";
        return false;
      }
    if (!checkFunction(function, manifest, error)) {
      error = "manifest: function '" + function.name + "': " + error;
      return false;
    }
  }
  return true;
}
