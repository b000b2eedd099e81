//===- Nesting.cpp - how deep a text nests ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One pass over the characters; strings and comments do not count.
//
//===----------------------------------------------------------------------===//

#include "fp8/Input/Nesting.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir::fp8;
using llvm::StringRef;

/// The position after the string that begins at `at`.
static size_t skipString(StringRef text, size_t at) {
  for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
    at += text[at] == '\\';
  return at + 1;
}

static DeepNesting placeOf(StringRef text, size_t at, const char *what) {
  StringRef before = text.take_front(at);
  size_t line = before.rfind('\n');
  DeepNesting found;
  found.line = before.count('\n') + 1;
  found.column = at - (line == StringRef::npos ? 0 : line + 1) + 1;
  found.message = "expected at most " + std::to_string(kDeepestNesting) + what +
                  ", but got more";
  return found;
}

std::optional<DeepNesting> mlir::fp8::findDeepNesting(StringRef text) {
  unsigned depth = 0, signs = 0;
  for (size_t at = 0; at < text.size();) {
    StringRef rest = text.drop_front(at);
    if (rest.starts_with("//")) {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (rest.front() == '"') {
      at = skipString(text, at);
      signs = 0;
      continue;
    }
    // No brackets: an arrow and comparisons.
    if (rest.starts_with("->") || rest.starts_with("<=") ||
        rest.starts_with(">=")) {
      at += 2;
      continue;
    }
    char character = rest.front();
    if (character == '-')
      ++signs;
    else if (!llvm::isSpace(character))
      signs = 0;
    if (StringRef("([{<").contains(character))
      ++depth;
    else if (StringRef(")]}>").contains(character) && depth > 0)
      --depth;
    if (depth > kDeepestNesting)
      return placeOf(text, at, " brackets around each other");
    if (signs > kDeepestNesting)
      return placeOf(text, at, " signs in a row");
    ++at;
  }
  return std::nullopt;
}
