//===- PtxReader.cpp - PTX text to instructions -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads what LLVM writes: a statement a line.
//
//===----------------------------------------------------------------------===//

#include "PtxProgram.h"

#include <sstream>

namespace fp8test {

PtxModule::PtxModule() = default;
PtxModule::~PtxModule() = default;

namespace {

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

} // namespace fp8test
