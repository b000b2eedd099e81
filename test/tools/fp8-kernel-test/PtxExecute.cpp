//===- PtxExecute.cpp - one instruction of one thread -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A register is 64 bits wide, whatever its type. Addresses are those of the
// host, in shared memory too.
//
//===----------------------------------------------------------------------===//

#include "PtxNumbers.h"
#include "PtxProgram.h"

namespace fp8test {

static int widthOf(const Instruction &i) {
  const std::string &type = i.op.back();
  if (type == "pred")
    return 1;
  size_t digit = type.find_first_of("0123456789");
  return digit == std::string::npos ? 32 : std::stoi(type.substr(digit));
}

/// What is written becomes visible, to this thread, when it waits.
bool Block::startCopy(const Instruction &i, int thread) {
  auto bytes = size_t(read(thread, i.operands[2]));
  size_t given = i.operands.size() > 3 ? read(thread, i.operands[3]) : bytes;
  uint8_t *to = access(i, thread, i.operands[0], bytes, true);
  if (!to)
    return false;
  const Operand &source = i.operands[1];
  auto *from = reinterpret_cast<uint8_t *>(
      (source.reg >= 0 ? reg(thread, source.reg) : 0) + source.value);
  if (given && !inBuffers(i, thread, from, given))
    return false;
  for (size_t b = 0; b < bytes; ++b)
    accesses[to - sharedBase() + b].copying = true;
  copies[thread].push_back({to, bytes, given, from, groups[thread]});
  return true;
}

/// Ends all copies but those of the last `pending` groups.
void Block::awaitCopies(int pending, int thread) {
  std::vector<Copy> left;
  for (const Copy &copy : copies[thread]) {
    if (copy.group >= groups[thread] - pending) {
      left.push_back(copy);
      continue;
    }
    for (size_t b = 0; b < copy.bytes; ++b) {
      copy.to[b] = b < copy.read ? copy.from[b] : 0;
      accesses[copy.to - sharedBase() + b].copying = false;
    }
  }
  copies[thread] = std::move(left);
}

bool Block::execute(const Instruction &i, int thread) {
  const std::string &op = i.op[0], &type = i.op.back();
  int width = widthOf(i);
  auto in = [&](size_t n) { return read(thread, i.operands[n]); };
  auto out = [&](uint64_t value) {
    reg(thread, i.operands[0].reg) = value;
    return true;
  };
  bool isF32 = type == "f32", isSigned = type[0] == 's';

  if (op == "cp" && i.has("async")) {
    if (i.has("commit_group")) {
      ++groups[thread];
      return true;
    }
    if (i.has("wait_group")) {
      awaitCopies(int(i.operands[0].value), thread);
      return true;
    }
    return startCopy(i, thread);
  }
  if (op == "ld") {
    if (i.has("param")) {
      auto it = f.parameters.find(i.operands[1].name);
      return out(reinterpret_cast<uint64_t>(arguments[it->second].data));
    }
    size_t count =
        i.operands[0].kind == Kind::Vector ? i.operands[0].vector.size() : 1;
    size_t bytes = width / 8;
    uint8_t *from = access(i, thread, i.operands[1], bytes * count, false);
    if (!from)
      return false;
    for (size_t n = 0; n < count; ++n) {
      uint64_t value = 0;
      std::memcpy(&value, from + n * bytes, bytes);
      if (isSigned)
        value = uint64_t(extend(value, width));
      int target = i.operands[0].kind == Kind::Vector ? i.operands[0].vector[n]
                                                      : i.operands[0].reg;
      if (target >= 0)
        reg(thread, target) = value;
    }
    return true;
  }
  if (op == "st") {
    const Operand &source = i.operands[1];
    size_t count = source.kind == Kind::Vector ? source.vector.size() : 1;
    size_t bytes = width / 8;
    uint8_t *to = access(i, thread, i.operands[0], bytes * count, true);
    if (!to)
      return false;
    for (size_t n = 0; n < count; ++n) {
      uint64_t value = source.kind != Kind::Vector ? in(1)
                       : source.vector[n] == -2 ? source.immediates[n]
                                                : reg(thread, source.vector[n]);
      std::memcpy(to + n * bytes, &value, bytes);
    }
    return true;
  }
  if (op == "atom" || op == "red") {
    if (!i.has("max") || type != "u32")
      return fail(i, "unknown instruction", thread);
    size_t address = op == "atom" ? 1 : 0;
    uint8_t *at = access(i, thread, i.operands[address], 4, true);
    if (!at)
      return false;
    uint32_t old, value = uint32_t(in(address + 1));
    std::memcpy(&old, at, 4);
    value = std::max(old, value);
    std::memcpy(at, &value, 4);
    return op == "atom" ? out(old) : true;
  }
  if (op == "mov") {
    const Operand &target = i.operands[0], &source = i.operands[1];
    if (source.kind == Kind::Vector) {
      int part = width / int(source.vector.size());
      uint64_t value = 0;
      for (size_t n = 0; n < source.vector.size(); ++n)
        value |=
            truncate(source.vector[n] == -2 ? source.immediates[n]
                                            : reg(thread, source.vector[n]),
                     part)
            << (part * n);
      return out(value);
    }
    if (target.kind == Kind::Vector) {
      int part = width / int(target.vector.size());
      uint64_t value = in(1);
      for (size_t n = 0; n < target.vector.size(); ++n)
        if (target.vector[n] >= 0)
          reg(thread, target.vector[n]) = truncate(value >> (part * n), part);
      return true;
    }
    if (source.kind == Kind::Register &&
        i.text.find("%tid.x") != std::string::npos)
      return out(thread);
    if (source.kind == Kind::Register &&
        i.text.find("%ctaid.x") != std::string::npos)
      return out(id);
    return out(truncate(in(1), width == 1 ? 1 : width));
  }
  if (op == "cvt") {
    const std::string &to = i.op[i.op.size() - 2];
    if (to == "bf16x2" && isF32)
      return out(uint64_t(toBF16(toFloat(in(1)))) << 16 |
                 toBF16(toFloat(in(2))));
    if (to == "bf16" && isF32)
      return out(toBF16(toFloat(in(1))));
    if (to == "f32" && type == "bf16")
      return out(truncate(in(1), 16) << 16);
    if (to == "e4m3x2" && isF32)
      return out(toF8(toFloat(in(1)), 3, 7, 448) << 8 |
                 toF8(toFloat(in(2)), 3, 7, 448));
    if (to == "e5m2x2" && isF32)
      return out(toF8(toFloat(in(1)), 2, 15, 57344) << 8 |
                 toF8(toFloat(in(2)), 2, 15, 57344));
    if (to == "f16x2" && (type == "e4m3x2" || type == "e5m2x2")) {
      bool wide = type == "e4m3x2";
      auto decode = [&](uint32_t code) {
        return toHalf(wide ? fromF8(code, 3, 7, false)
                           : fromF8(code, 2, 15, true));
      };
      return out(decode((in(1) >> 8) & 0xFF) << 16 | decode(in(1) & 0xFF));
    }
    if (to == "f32" && type == "f16")
      return out(toBits(fromHalf(uint32_t(in(1) & 0xFFFF))));
    if (to == "s32" && isF32) {
      float x = toFloat(in(1));
      if (i.has("rzi"))
        return out(x != x ? 0
                   : x >= 2147483648.0f
                       ? 0x7FFFFFFF
                       : truncate(uint64_t(int64_t(
                                      std::max(std::trunc(x), -2147483648.0f))),
                                  32));
      return fail(i, "unknown instruction", thread);
    }
    if (to == "f32" && type == "s32")
      return out(toBits(float(int32_t(in(1)))));
    if (to == "f32" && (type == "u16" || type == "u8"))
      return out(toBits(float(truncate(in(1), width))));
    if (to == "f32" && type == "u32")
      return out(toBits(float(uint32_t(in(1)))));
    if (to[0] != 'u' && to[0] != 's')
      return fail(i, "unknown instruction", thread);
    uint64_t value =
        isSigned ? uint64_t(extend(in(1), width)) : truncate(in(1), width);
    return out(truncate(value, std::stoi(to.substr(1))));
  }
  if (op == "setp") {
    const std::string &cmp = i.op[1];
    bool value;
    if (isF32) {
      float x = toFloat(in(1)), y = toFloat(in(2));
      bool nan = x != x || y != y;
      if (cmp == "num" || cmp == "nan")
        value = (cmp == "nan") == nan;
      else {
        bool unordered = cmp.size() == 3 && cmp.back() == 'u';
        std::string base = cmp.substr(0, 2);
        bool ordered = base == "lt"   ? x < y
                       : base == "le" ? x <= y
                       : base == "gt" ? x > y
                       : base == "ge" ? x >= y
                       : base == "eq" ? x == y
                                      : x != y;
        value = nan ? unordered : ordered;
      }
    } else if (isSigned) {
      int64_t x = extend(in(1), width), y = extend(in(2), width);
      value = cmp == "lt"   ? x < y
              : cmp == "le" ? x <= y
              : cmp == "gt" ? x > y
              : cmp == "ge" ? x >= y
              : cmp == "eq" ? x == y
                            : x != y;
    } else {
      uint64_t x = truncate(in(1), width), y = truncate(in(2), width);
      value = cmp == "lt" || cmp == "lo"   ? x < y
              : cmp == "le" || cmp == "ls" ? x <= y
              : cmp == "gt" || cmp == "hi" ? x > y
              : cmp == "ge" || cmp == "hs" ? x >= y
              : cmp == "eq"                ? x == y
                                           : x != y;
    }
    return out(value);
  }
  if (op == "selp")
    return out(in(3) & 1 ? in(1) : in(2));
  if (op == "shf" && i.has("wrap")) {
    // Of 64 bits, the second operand the upper ones: the upper half after a
    // shift to the left, the lower one after a shift to the right.
    uint64_t both = truncate(in(1), 32) | truncate(in(2), 32) << 32;
    uint64_t count = in(3) & 31;
    return out(truncate(i.has("l") ? both << count >> 32 : both >> count, 32));
  }
  if (op == "prmt") {
    uint64_t bytes = truncate(in(1), 32) | truncate(in(2), 32) << 32;
    uint64_t selector = in(3), value = 0;
    for (int n = 0; n < 4; ++n) {
      uint64_t digit = (selector >> (4 * n)) & 15;
      uint64_t byte = (bytes >> (8 * (digit & 7))) & 0xFF;
      if (digit & 8)
        byte = byte & 0x80 ? 0xFF : 0;
      value |= byte << (8 * n);
    }
    return out(value);
  }
  if (type == "bf16x2") {
    auto apply = [&](auto f) { return out(eachBF16(in(1), in(2), f)); };
    if (op == "max" && i.has("NaN") && i.has("xorsign") && i.has("abs"))
      return apply([](float x, float y) {
        if (x != x || y != y)
          return NAN;
        return std::copysign(std::max(std::fabs(x), std::fabs(y)),
                             std::signbit(x) == std::signbit(y) ? 1.0f : -1.0f);
      });
    if (!i.has("rn"))
      return fail(i, "arithmetic that may be contracted", thread);
    if (op == "fma") {
      // Sums and products of machines without instructions of their own:
      // rounded once, which through f32 only these are.
      auto plus = [](float x, float y) { return x + y; };
      uint64_t third = in(3);
      if (third == 0x80008000)
        return apply([](float x, float y) { return x * y; });
      if (in(2) == 0x3F803F80)
        return out(eachBF16(in(1), third, plus));
      if (in(1) == 0x3F803F80)
        return out(eachBF16(in(2), third, plus));
      // x - y is y * -1 + x.
      if (in(2) == 0xBF80BF80)
        return out(
            eachBF16(third, in(1), [](float x, float y) { return x - y; }));
      return fail(i, "a sum of a product", thread);
    }
    if (op == "mul")
      return apply([](float x, float y) { return x * y; });
    if (op == "add")
      return apply([](float x, float y) { return x + y; });
    if (op == "sub")
      return apply([](float x, float y) { return x - y; });
    return fail(i, "unknown instruction", thread);
  }
  if (type == "u16x2" && op == "max")
    return out(std::max(in(1) & 0xFFFF, in(2) & 0xFFFF) |
               std::max(in(1) & 0xFFFF0000, in(2) & 0xFFFF0000));
  if (isF32) {
    float x = toFloat(in(1));
    float y = i.operands.size() > 2 ? toFloat(in(2)) : 0;
    if (op == "neg")
      return out(truncate(in(1) ^ 0x80000000, 32));
    if (op == "abs")
      return out(in(1) & 0x7FFFFFFF);
    if (op == "max" || op == "min") {
      bool larger = op == "max";
      if (x != x || y != y)
        return out(i.has("NaN") || (x != x && y != y) ? 0x7FFFFFFF
                   : x != x                           ? in(2)
                                                      : in(1));
      if (x == y)
        return out(std::signbit(x) == larger ? in(2) : in(1));
      return out((x > y) == larger ? in(1) : in(2));
    }
    // An error that the definition allows and that one Newton step mends.
    if (op == "rcp" && i.has("approx") && i.has("ftz")) {
      uint32_t exact = toBits(1.0f / x);
      if (x != x)
        return out(0x7FFFFFFF);
      if (!std::isnormal(x))
        return out(toBits(1.0f / std::copysign(std::isinf(x) ? x : 0.0f, x)));
      if (!std::isnormal(1.0f / x))
        return out(exact & 0x80000000);
      return out(in(1) & 1 || (exact & 0x7FFFFF) == 0 ? exact : exact - 1);
    }
    if (!i.has("rn"))
      return fail(i, "arithmetic that may be contracted", thread);
    if (op == "add")
      return out(toBits(x + y));
    if (op == "sub")
      return out(toBits(x - y));
    if (op == "mul")
      return out(toBits(x * y));
    if (op == "div")
      return out(toBits(x / y));
    if (op == "rcp")
      return out(toBits(1.0f / x));
    if (op == "sqrt")
      return out(toBits(std::sqrt(x)));
    if (op == "fma")
      return out(toBits(std::fma(x, y, toFloat(in(3)))));
    return fail(i, "unknown instruction", thread);
  }
  if (type[0] != 'b' && type[0] != 'u' && type[0] != 's' && type != "pred")
    return fail(i, "unknown instruction", thread);
  auto result = [&](uint64_t value) { return out(truncate(value, width)); };
  uint64_t x = truncate(in(1), width);
  uint64_t y = i.operands.size() > 2 ? in(2) : 0;
  if (op == "shl")
    return result(y >= uint64_t(width) ? 0 : x << y);
  if (op == "shr") {
    uint64_t count = std::min<uint64_t>(truncate(y, 32), width);
    if (isSigned)
      return result(
          uint64_t(extend(x, width) >> std::min<uint64_t>(count, width - 1)));
    return result(count >= uint64_t(width) ? 0 : x >> count);
  }
  if (op == "mul" && i.has("wide"))
    return out(isSigned ? uint64_t(extend(x, width) * extend(y, width))
                        : x * truncate(y, width));
  y = truncate(y, width);
  if (op == "add")
    return result(x + y);
  if (op == "sub")
    return result(x - y);
  if (op == "mul" && i.has("lo"))
    return result(x * y);
  if (op == "mul" && i.has("hi") && !isSigned)
    return result(uint64_t((unsigned __int128)(x)*y >> width));
  if (op == "mad" && i.has("lo"))
    return result(x * y + in(3));
  if (op == "mad" && i.has("wide") && !isSigned)
    return out(x * y + in(3));
  if (op == "div" && !isSigned && y)
    return result(x / y);
  if (op == "rem" && !isSigned && y)
    return result(x % y);
  if (op == "and")
    return result(x & y);
  if (op == "or")
    return result(x | y);
  if (op == "xor")
    return result(x ^ y);
  if (op == "not")
    return result(~x);
  if (op == "neg")
    return result(0 - x);
  if (op == "max" || op == "min") {
    bool less = isSigned ? extend(x, width) < extend(y, width) : x < y;
    return result(less == (op == "max") ? y : x);
  }
  if (op == "bfe" && isSigned) { // from bit y, so many; copies of the last one
    uint64_t length = in(3) & 0xFF;
    return result(uint64_t(extend(x >> (y & 0xFF), int(length))));
  }
  if (op == "bfe" && !isSigned) {
    uint64_t length = in(3) & 0xFF;
    return result(length >= 64 ? x >> y
                               : (x >> y) & ((uint64_t(1) << length) - 1));
  }
  return fail(i, "unknown instruction", thread);
}

} // namespace fp8test
