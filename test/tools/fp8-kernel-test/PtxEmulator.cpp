//===- PtxEmulator.cpp ------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A register is 64 bits wide, whatever its type. Addresses are those of the
// host, in shared memory too.
//
//===----------------------------------------------------------------------===//

#include "PtxEmulator.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <sstream>

namespace fp8test {

namespace {

enum class Kind { Register, Immediate, Symbol, Address, Vector, Label };

struct Operand {
  Kind kind = Kind::Immediate;
  int reg = -1;                     // Register, Address with a register
  uint64_t value = 0;               // Immediate, offset of an Address
  std::string name;                 // Symbol, Label
  std::vector<int> vector;          // Vector of registers; -1 is '_'
  std::vector<uint64_t> immediates; // of a vector, where -2
};

float toFloat(uint64_t bits) {
  float value;
  uint32_t low = uint32_t(bits);
  std::memcpy(&value, &low, 4);
  return value;
}
uint64_t toBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return value != value ? 0x7FFFFFFF : bits;
}
float fromBF16(uint32_t code) { return toFloat(uint64_t(code) << 16); }
uint32_t toBF16(float value) {
  if (value != value)
    return 0x7FFF;
  uint32_t bits = uint32_t(toBits(value));
  return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
}

/// Rounds to a format of few bits by scaling: exact in double precision.
uint32_t toF8(float value, int mantissa, int bias, double largest) {
  if (value != value)
    return 0x7F;
  uint32_t sign = std::signbit(value) ? 0x80 : 0;
  double magnitude = std::fabs(double(value));
  int exponent = magnitude > 0 ? std::ilogb(std::min(magnitude, 1e30)) : -1000;
  exponent = std::max(exponent, 1 - bias);
  double unit = std::ldexp(1.0, exponent - mantissa);
  double rounded = std::nearbyint(std::min(magnitude, 1e30) / unit) * unit;
  if (rounded > largest)
    rounded = largest;
  if (rounded == 0)
    return sign;
  exponent = std::max(std::ilogb(rounded), 1 - bias);
  auto significand = uint32_t(rounded / std::ldexp(1.0, exponent - mantissa));
  uint32_t hidden = 1u << mantissa;
  if (significand < hidden)
    return sign | significand;
  return sign | uint32_t(exponent + bias) << mantissa | (significand - hidden);
}
float fromF8(uint32_t code, int mantissa, int bias, bool infinities) {
  uint32_t magnitude = code & 0x7F, hidden = 1u << mantissa;
  uint32_t exponent = magnitude >> mantissa,
           fraction = magnitude & (hidden - 1);
  double value;
  if (infinities && magnitude > 0x7C)
    return NAN;
  if (infinities && magnitude == 0x7C)
    value = INFINITY;
  else if (!infinities && magnitude == 0x7F)
    return NAN;
  else if (exponent == 0)
    value = std::ldexp(double(fraction), 1 - bias - mantissa);
  else
    value =
        std::ldexp(double(fraction + hidden), int(exponent) - bias - mantissa);
  return float(code & 0x80 ? -value : value);
}
float fromHalf(uint32_t code) {
  int exponent = (code >> 10) & 31;
  double fraction = code & 1023, value;
  if (exponent == 31)
    value = fraction ? NAN : INFINITY;
  else if (exponent == 0)
    value = std::ldexp(fraction, -24);
  else
    value = std::ldexp(fraction + 1024, exponent - 25);
  return float(code & 0x8000 ? -value : value);
}
uint32_t toHalf(float value) { // exact for values of an f8 format
  if (value != value)
    return 0x7FFF;
  uint32_t sign = std::signbit(value) ? 0x8000 : 0;
  double magnitude = std::fabs(double(value));
  if (std::isinf(value))
    return sign | 0x7C00;
  if (magnitude == 0)
    return sign;
  int exponent = std::max(std::ilogb(magnitude), -14);
  auto significand = uint32_t(std::ldexp(magnitude, 10 - exponent));
  if (significand < 1024)
    return sign | significand;
  return sign | uint32_t(exponent + 15) << 10 | (significand - 1024);
}

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  std::string part;
  while (std::getline(stream, part, separator))
    parts.push_back(part);
  return parts;
}

std::string trim(const std::string &text) {
  size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos)
    return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

} // namespace

struct Instruction {
  std::string text;
  std::vector<std::string> op; // parts of the name
  std::vector<Operand> operands;
  int predicate = -1;
  bool negated = false;
  int target = -1; // of a branch

  bool has(const char *part) const {
    for (const std::string &own : op)
      if (own == part)
        return true;
    return false;
  }
};

struct PtxModule::Function {
  std::map<std::string, int> registers;
  std::map<std::string, int> labels;
  std::map<std::string, int> parameters;
  std::map<std::string, size_t> shared; // offsets
  size_t sharedBytes = 0;
  std::vector<Instruction> code;
  std::string name;

  int reg(const std::string &text) {
    return registers.try_emplace(text, int(registers.size())).first->second;
  }
};

PtxModule::PtxModule() = default;
PtxModule::~PtxModule() = default;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static bool isNumber(const std::string &text) {
  return !text.empty() && (std::isdigit(text[0]) || text[0] == '-');
}

static uint64_t numberOf(const std::string &text) {
  if (text.rfind("0f", 0) == 0)
    return std::stoull(text.substr(2), nullptr, 16);
  if (text[0] == '-')
    return uint64_t(std::stoll(text));
  return std::stoull(text, nullptr, 0);
}

static Operand readOperand(PtxModule::Function &f, std::string text) {
  Operand operand;
  if (text[0] == '[') {
    operand.kind = Kind::Address;
    text = text.substr(1, text.size() - 2);
    size_t plus = text.find('+');
    std::string base = text.substr(0, plus);
    if (plus != std::string::npos)
      operand.value = numberOf(text.substr(plus + 1));
    if (base[0] == '%')
      operand.reg = f.reg(base);
    else
      operand.name = base;
  } else if (text[0] == '{') {
    operand.kind = Kind::Vector;
    for (std::string part : split(text.substr(1, text.size() - 2), ',')) {
      part = trim(part);
      bool number = isNumber(part);
      operand.vector.push_back(number ? -2 : part == "_" ? -1 : f.reg(part));
      operand.immediates.push_back(number ? numberOf(part) : 0);
    }
  } else if (text[0] == '%') {
    operand.kind = Kind::Register;
    operand.reg = f.reg(text);
  } else if (isNumber(text)) {
    operand.value = numberOf(text);
  } else {
    operand.kind = text[0] == '$' ? Kind::Label : Kind::Symbol;
    operand.name = text;
  }
  return operand;
}

/// Splits at commas outside of brackets.
static std::vector<std::string> splitOperands(const std::string &text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (char c : text) {
    depth += c == '{' || c == '[';
    depth -= c == '}' || c == ']';
    if (c == ',' && depth == 0) {
      parts.push_back(trim(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!trim(part).empty())
    parts.push_back(trim(part));
  return parts;
}

bool PtxModule::parse(const std::string &text, std::string &error) {
  std::stringstream stream(text);
  std::string line;
  Function *f = nullptr;
  std::map<std::string, std::pair<size_t, size_t>> globalShared;
  bool body = false;
  while (std::getline(stream, line)) {
    if (size_t comment = line.find("//"); comment != std::string::npos)
      line = line.substr(0, comment);
    line = trim(line);
    if (line.empty())
      continue;
    if (size_t at = line.find(".entry"); at != std::string::npos) {
      std::string name = trim(line.substr(at + 6));
      name = name.substr(0, name.find('('));
      auto fresh = std::make_unique<Function>();
      f = fresh.get();
      f->name = name;
      functions[name] = std::move(fresh);
      body = false;
      continue;
    }
    if (!f) {
      if (line.rfind(".extern .shared", 0) == 0) {
        std::string name = line.substr(line.find_last_of(" \t") + 1);
        dynamicNames.insert(name.substr(0, name.find('[')));
      }
      continue;
    }
    if (line.rfind(".param", 0) == 0) {
      std::string name = line.substr(line.find_last_of(" \t") + 1);
      if (name.back() == ',')
        name.pop_back();
      f->parameters.try_emplace(name, int(f->parameters.size()));
      continue;
    }
    if (line == "{") {
      body = true;
      continue;
    }
    if (line == "}") {
      body = false;
      f = nullptr;
      continue;
    }
    if (!body)
      continue;
    if (line.rfind(".shared", 0) == 0) {
      std::string declaration = line.substr(line.find_last_of(" \t") + 1);
      size_t open = declaration.find('[');
      f->shared[declaration.substr(0, open)] = f->sharedBytes;
      size_t bytes = std::stoull(declaration.substr(open + 1));
      f->sharedBytes += (bytes + 15) / 16 * 16;
      continue;
    }
    if (line[0] == '.')
      continue;
    if (line.back() == ':') {
      f->labels[line.substr(0, line.size() - 1)] = int(f->code.size());
      continue;
    }
    Instruction instruction;
    instruction.text = line;
    if (line.back() == ';')
      line.pop_back();
    if (line[0] == '@') {
      size_t space = line.find_first_of(" \t");
      std::string predicate = line.substr(1, space - 1);
      instruction.negated = predicate[0] == '!';
      instruction.predicate =
          f->reg(instruction.negated ? predicate.substr(1) : predicate);
      line = trim(line.substr(space));
    }
    size_t space = line.find_first_of(" \t");
    instruction.op = split(line.substr(0, space), '.');
    if (space != std::string::npos)
      for (const std::string &part : splitOperands(line.substr(space)))
        instruction.operands.push_back(readOperand(*f, part));
    f->code.push_back(std::move(instruction));
  }
  for (auto &[name, function] : functions)
    for (Instruction &instruction : function->code)
      for (const Operand &operand : instruction.operands)
        if (operand.kind == Kind::Label || instruction.op[0] == "bra") {
          auto it = function->labels.find(operand.name);
          if (it == function->labels.end()) {
            error = "no label for '" + instruction.text + "'";
            return false;
          }
          instruction.target = it->second;
        }
  return true;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

namespace {

/// Who accessed a byte of shared memory since which barrier.
struct SharedByte {
  int writer = -1, writeEpoch = -1;
  int reader = -1, readEpoch = -1; // -2: several
};

struct Block {
  const PtxModule::Function &f;
  const std::vector<PtxModule::Buffer> &arguments;
  const std::set<std::string> &dynamicNames;
  int64_t id, size;
  size_t sharedBytes;
  std::vector<uint64_t> memory; // registers, a row a thread
  std::vector<int> pc;
  enum State { Ready, AtBarrier, AtWarp, Done };
  std::vector<State> state;
  std::vector<uint8_t> shared;
  std::vector<SharedByte> accesses;
  int epoch = 0;
  std::string error;

  Block(const PtxModule::Function &f,
        const std::vector<PtxModule::Buffer> &arguments, int64_t id,
        int64_t size, int64_t dynamicShared,
        const std::set<std::string> &dynamicNames)
      : f(f), arguments(arguments), dynamicNames(dynamicNames), id(id),
        size(size), sharedBytes(f.sharedBytes + dynamicShared),
        memory(f.registers.size() * size), pc(size), state(size, Ready),
        shared(sharedBytes + 16, 0xCD), accesses(sharedBytes + 16) {}

  /// Where a variable in shared memory begins; -1 where `name` is none.
  int64_t offsetOf(const std::string &name) const {
    if (auto it = f.shared.find(name); it != f.shared.end())
      return int64_t(it->second);
    return dynamicNames.count(name) ? int64_t(f.sharedBytes) : -1;
  }

  uint64_t &reg(int thread, int number) {
    return memory[thread * f.registers.size() + number];
  }
  uint8_t *sharedBase() {
    auto address = reinterpret_cast<uintptr_t>(shared.data());
    return shared.data() + (16 - address % 16) % 16;
  }

  bool fail(const Instruction &i, const std::string &why, int thread) {
    if (error.empty())
      error = f.name + ", block " + std::to_string(id) + ", thread " +
              std::to_string(thread) + ": " + why + " in '" + i.text + "'";
    return false;
  }

  uint64_t read(int thread, const Operand &operand) {
    if (operand.kind == Kind::Register)
      return reg(thread, operand.reg);
    if (operand.kind == Kind::Symbol) {
      int64_t offset = offsetOf(operand.name);
      return offset < 0 ? 0 : reinterpret_cast<uint64_t>(sharedBase() + offset);
    }
    return operand.value;
  }

  uint8_t *access(const Instruction &i, int thread, const Operand &operand,
                  size_t bytes, bool write) {
    uint64_t base = operand.reg >= 0 ? reg(thread, operand.reg) : 0;
    if (operand.reg < 0)
      if (int64_t offset = offsetOf(operand.name); offset >= 0)
        base = reinterpret_cast<uint64_t>(sharedBase() + offset);
    auto *address = reinterpret_cast<uint8_t *>(base + operand.value);
    if (reinterpret_cast<uintptr_t>(address) % bytes) {
      fail(i, "misaligned access", thread);
      return nullptr;
    }
    if (i.has("shared")) {
      if (address < sharedBase() ||
          address + bytes > sharedBase() + sharedBytes) {
        fail(i, "access outside of shared memory", thread);
        return nullptr;
      }
      for (size_t b = 0; b < bytes; ++b) {
        SharedByte &byte = accesses[address - sharedBase() + b];
        bool race = byte.writeEpoch == epoch && byte.writer != thread;
        race |= write && byte.readEpoch == epoch && byte.reader != thread;
        if (race) {
          fail(i, "race on shared memory", thread);
          return nullptr;
        }
        if (write) {
          byte.writer = thread;
          byte.writeEpoch = epoch;
        } else {
          byte.reader =
              byte.readEpoch == epoch && byte.reader != thread ? -2 : thread;
          byte.readEpoch = epoch;
        }
      }
      return address;
    }
    for (const PtxModule::Buffer &buffer : arguments)
      if (address >= buffer.data &&
          address + bytes <= buffer.data + buffer.bytes)
        return address;
    fail(i, "access outside of all buffers", thread);
    return nullptr;
  }

  bool step(int thread);
  bool execute(const Instruction &i, int thread);
  bool executeWarp(int warp);
  bool run();
};

int widthOf(const Instruction &i) {
  const std::string &type = i.op.back();
  if (type == "pred")
    return 1;
  size_t digit = type.find_first_of("0123456789");
  return digit == std::string::npos ? 32 : std::stoi(type.substr(digit));
}

uint64_t truncate(uint64_t value, int width) {
  return width >= 64 ? value : value & ((uint64_t(1) << width) - 1);
}
int64_t extend(uint64_t value, int width) {
  if (width >= 64)
    return int64_t(value);
  uint64_t sign = uint64_t(1) << (width - 1);
  return int64_t((truncate(value, width) ^ sign) - sign);
}

template <typename F>
uint64_t eachBF16(uint64_t x, uint64_t y, F f) {
  uint64_t low = toBF16(f(fromBF16(x & 0xFFFF), fromBF16(y & 0xFFFF)));
  uint64_t high =
      toBF16(f(fromBF16((x >> 16) & 0xFFFF), fromBF16((y >> 16) & 0xFFFF)));
  return low | high << 16;
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
    if (!i.has("rn"))
      return fail(i, "arithmetic that may be contracted", thread);
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

bool Block::step(int thread) {
  for (uint64_t count = 0; count < 100'000'000; ++count) {
    const Instruction &i = f.code[pc[thread]];
    if (i.predicate >= 0 && bool(reg(thread, i.predicate) & 1) == i.negated) {
      ++pc[thread];
      continue;
    }
    const std::string &op = i.op[0];
    if (op == "ret" || op == "exit") {
      state[thread] = Done;
      return true;
    }
    if (op == "bra") {
      pc[thread] = i.target;
      continue;
    }
    if (op == "bar" || op == "barrier") {
      state[thread] = AtBarrier;
      return true;
    }
    if (op == "shfl" || op == "redux") {
      state[thread] = AtWarp;
      return true;
    }
    if (!execute(i, thread))
      return false;
    ++pc[thread];
  }
  return fail(f.code[pc[thread]], "a loop without end", thread);
}

bool Block::executeWarp(int warp) {
  int first = warp * 32;
  const Instruction &i = f.code[pc[first]];
  for (int lane = 1; lane < 32; ++lane)
    if (pc[first + lane] != pc[first])
      return fail(i, "lanes of a warp apart", first + lane);
  uint64_t mask = read(first, i.operands.back());
  if (uint32_t(mask) != 0xFFFFFFFF)
    return fail(i, "not for all lanes", first);
  std::vector<uint64_t> values(32);
  // The result may be "%r|%p"; ours never is.
  for (int lane = 0; lane < 32; ++lane)
    values[lane] = truncate(read(first + lane, i.operands[1]), 32);
  if (i.op[0] == "shfl" && i.has("bfly")) {
    for (int lane = 0; lane < 32; ++lane)
      reg(first + lane, i.operands[0].reg) =
          values[lane ^ int(read(first + lane, i.operands[2]) & 31)];
  } else if (i.op[0] == "redux" && i.has("max")) {
    uint64_t best = values[0];
    for (uint64_t value : values)
      best = i.has("s32") ? (int32_t(value) > int32_t(best) ? value : best)
                          : std::max(best, value);
    for (int lane = 0; lane < 32; ++lane)
      reg(first + lane, i.operands[0].reg) = best;
  } else {
    return fail(i, "unknown instruction", first);
  }
  for (int lane = 0; lane < 32; ++lane) {
    ++pc[first + lane];
    state[first + lane] = Ready;
  }
  return true;
}

bool Block::run() {
  while (true) {
    bool any = false, left = false;
    for (int thread = 0; thread < size; ++thread) {
      if (state[thread] == Ready && (any = true) && !step(thread))
        return false;
      left |= state[thread] != Done;
    }
    if (!left)
      return true;
    for (int warp = 0; warp * 32 < size; ++warp) {
      bool together = warp * 32 + 32 <= size;
      for (int lane = 0; together && lane < 32; ++lane)
        together = state[warp * 32 + lane] == AtWarp;
      if (together) {
        any = true;
        if (!executeWarp(warp))
          return false;
      }
    }
    if (any)
      continue;
    // Everybody waits: at the barrier, or for lanes that will not come.
    for (int thread = 0; thread < size; ++thread)
      if (state[thread] != AtBarrier)
        return fail(f.code[pc[thread]],
                    state[thread] == Done ? "a barrier that not all reach"
                                          : "lanes that do not meet",
                    thread);
    ++epoch;
    for (int thread = 0; thread < size; ++thread) {
      ++pc[thread];
      state[thread] = Ready;
    }
  }
}

} // namespace

bool PtxModule::launch(const std::string &kernel, int64_t grid, int64_t block,
                       int64_t dynamicShared,
                       const std::vector<Buffer> &arguments,
                       std::string &error) {
  auto it = functions.find(kernel);
  if (it == functions.end() ||
      it->second->parameters.size() != arguments.size()) {
    error = "no kernel '" + kernel + "' with " +
            std::to_string(arguments.size()) + " parameters";
    return false;
  }
  for (int64_t id = 0; id < grid; ++id) {
    Block running(*it->second, arguments, id, block, dynamicShared,
                  dynamicNames);
    if (!running.run()) {
      error = running.error;
      return false;
    }
  }
  return true;
}

} // namespace fp8test
