/*===- FP8OptTest.c - the compiler's C interface ------------------*- C -*-===*\
|*
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
|*
|* Compiles in C, from several threads, good programs and hostile ones. Exits
|* with 0 where every expectation holds, and says which does not.
|*
\*===----------------------------------------------------------------------===*/

#include "fp8/CAPI/fp8opt.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char kStep[] =
    "func.func @f(%x: tensor<32x16xbf16> loc(\"x\"),\n"
    "  %w: tensor<48x16xbf16> {fp8.parameter} loc(\"w\"))\n"
    "  -> tensor<32x48xbf16> {\n"
    "  %y = fp8.linear %x, %w recipe<rowwise>\n"
    "    : tensor<32x16xbf16>, tensor<48x16xbf16> -> tensor<32x48xbf16> "
    "loc(\"y\")\n"
    "  return %y : tensor<32x48xbf16>\n"
    "}\n";

static int failures = 0;

#define EXPECT(condition)                                                      \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "error: %s:%d: expected %s\n", __FILE__, __LINE__,       \
              #condition);                                                     \
      ++failures;                                                              \
    }                                                                          \
  } while (0)

static fp8opt_request makeRequest(const char *options, uint32_t outputs) {
  fp8opt_request request;
  memset(&request, 0, sizeof request);
  request.struct_size = sizeof request;
  request.options = options;
  request.outputs = outputs;
  return request;
}

/* Compiles what must be refused; an error that holds `message` is expected. */
static void expectRefused(const char *text, size_t size,
                          const fp8opt_request *request, const char *message) {
  fp8opt_result *result = NULL;
  int code = fp8opt_compile(text, size, request, &result);
  size_t bytes = 1;
  int found = 0;
  EXPECT(code == 1);
  EXPECT(result != NULL);
  EXPECT(fp8opt_get_output(result, FP8OPT_PLAN, &bytes) == NULL && bytes == 0);
  for (size_t i = 0; i < fp8opt_diagnostic_count(result); ++i) {
    fp8opt_diagnostic diagnostic;
    EXPECT(fp8opt_get_diagnostic(result, i, &diagnostic) == 0);
    if (diagnostic.severity == FP8OPT_ERROR &&
        strstr(diagnostic.message, message))
      found = 1;
    else
      fprintf(stderr, "note: '%s'\n", diagnostic.message);
  }
  if (!found)
    fprintf(stderr, "error: expected a message with '%s'\n", message);
  EXPECT(found);
  fp8opt_free_result(result);
}

static void testOutputs(void) {
  fp8opt_request request = makeRequest(
      "policy=auto,budget=1MiB", FP8OPT_PROGRAM | FP8OPT_MLIR | FP8OPT_PLAN |
                                     FP8OPT_REPORT | FP8OPT_ARTIFACT);
  fp8opt_result *result = NULL;
  size_t size = 0;
  const char *text;
  EXPECT(fp8opt_compile(kStep, strlen(kStep), &request, &result) == 0);
  text = fp8opt_get_output(result, FP8OPT_PROGRAM, &size);
  EXPECT(text && strstr(text, "fp8.linear") && strlen(text) == size);
  text = fp8opt_get_output(result, FP8OPT_MLIR, &size);
  EXPECT(text && strstr(text, "fp8.kernel") && strlen(text) == size);
  text = fp8opt_get_output(result, FP8OPT_PLAN, &size);
  EXPECT(text && strstr(text, "\"peak_bytes\"") && strlen(text) == size);
  text = fp8opt_get_output(result, FP8OPT_REPORT, &size);
  EXPECT(text && strstr(text, "Kept for backward"));
  text = fp8opt_get_output(result, FP8OPT_ARTIFACT, &size);
  EXPECT(text && size > 1000 && memcmp(text, "FP8", 3) == 0);
  EXPECT(fp8opt_get_output(result, FP8OPT_PTX, &size) == NULL && size == 0);
  fp8opt_free_result(result);
  fp8opt_free_result(NULL);
}

static void testPlaces(void) {
  static const char text[] =
      "func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
      "  %y = fp8.broadcast %x : tensor<8xf32> -> tensor<9xf32> "
      "loc(\"y\"(\"model.py\":12:3))\n"
      "  return %x : tensor<8xf32>\n}\n";
  fp8opt_request request = makeRequest(NULL, FP8OPT_PROGRAM);
  fp8opt_result *result = NULL;
  fp8opt_diagnostic diagnostic;
  EXPECT(fp8opt_compile(text, strlen(text), &request, &result) == 1);
  EXPECT(fp8opt_diagnostic_count(result) >= 1);
  EXPECT(fp8opt_get_diagnostic(result, 0, &diagnostic) == 0);
  EXPECT(strcmp(diagnostic.file, "model.py") == 0 && diagnostic.line == 12 &&
         diagnostic.column == 3);
  EXPECT(strcmp(diagnostic.value, "y") == 0);
  EXPECT(fp8opt_get_diagnostic(result, 1000, &diagnostic) == 1);
  fp8opt_free_result(result);
}

static char *repeat(const char *prefix, const char *part, size_t count,
                    const char *suffix) {
  size_t length = strlen(part);
  char *text = malloc(strlen(prefix) + length * count + strlen(suffix) + 1),
       *at = text;
  at += sprintf(at, "%s", prefix);
  for (size_t i = 0; i < count; ++i, at += length)
    memcpy(at, part, length);
  sprintf(at, "%s", suffix);
  return text;
}

static void testHostile(void) {
  fp8opt_request plan = makeRequest("", FP8OPT_PLAN), request;
  char *deep;
  expectRefused("func.func @f(", 13, &plan, "expected");
  expectRefused("", 0, &plan, "expected");
  expectRefused(NULL, 0, &plan, "null pointer");
  expectRefused("module {\0}", 10, &plan, "byte 8 is 0");
  expectRefused("ML\xefR\1", 5, &plan, "bytecode");
  expectRefused("\"\xff\xfe", 3, &plan, "");
  deep = repeat("func.func private @f(", "tuple<", 200000, "i32)");
  expectRefused(deep, strlen(deep), &plan, "brackets around each other");
  free(deep);
  deep = repeat("module attributes {a = affine_map<() -> (", "- ", 100000,
                "1)>} {}");
  expectRefused(deep, strlen(deep), &plan, "signs in a row");
  free(deep);

  expectRefused(kStep, strlen(kStep), NULL, "null pointer");
  request = makeRequest("", FP8OPT_PLAN);
  request.struct_size = 4;
  expectRefused(kStep, strlen(kStep), &request, "'struct_size'");
  request = makeRequest("", 0);
  expectRefused(kStep, strlen(kStep), &request, "'outputs'");
  request = makeRequest("", 64);
  expectRefused(kStep, strlen(kStep), &request, "'outputs'");
  request = makeRequest("speed=high", FP8OPT_PLAN);
  expectRefused(kStep, strlen(kStep), &request, "cannot read");
  request = makeRequest("policy=best", FP8OPT_PLAN);
  expectRefused(kStep, strlen(kStep), &request, "expected 'policy'");
  request = makeRequest("target=tpu", FP8OPT_PLAN);
  expectRefused(kStep, strlen(kStep), &request, "tpu");
  request = makeRequest("budget=1", FP8OPT_PLAN);
  expectRefused(kStep, strlen(kStep), &request, "min_feasible_peak_bytes");
  request = makeRequest("", FP8OPT_PTX);
  expectRefused(kStep, strlen(kStep), &request, "expected");
  request = makeRequest("", FP8OPT_PLAN);
  request.phase = "joint";
  expectRefused(kStep, strlen(kStep), &request, "does not go with");
  request.phase = "import";
  expectRefused(kStep, strlen(kStep), &request, "expected the phase");
}

/* Compiles for both targets; gives the hash of the outputs, or 0. */
static void *compileBoth(void *unused) {
  uintptr_t hash = 5381;
  const char *options[] = {"target=cpu", "target=h200"};
  (void)unused;
  for (int i = 0; i < 2; ++i) {
    fp8opt_request request = makeRequest(options[i], FP8OPT_ARTIFACT);
    fp8opt_result *result = NULL;
    size_t size = 0;
    const char *bytes;
    if (fp8opt_compile(kStep, strlen(kStep), &request, &result))
      hash = 0;
    bytes = fp8opt_get_output(result, FP8OPT_ARTIFACT, &size);
    for (size_t at = 0; hash && at < size; ++at)
      hash = hash * 33 + (unsigned char)bytes[at];
    fp8opt_free_result(result);
  }
  return (void *)hash;
}

static void testThreads(void) {
  enum { kThreads = 4 };
  pthread_t threads[kThreads];
  void *hashes[kThreads];
  for (int i = 0; i < kThreads; ++i)
    EXPECT(pthread_create(&threads[i], NULL, compileBoth, NULL) == 0);
  for (int i = 0; i < kThreads; ++i)
    EXPECT(pthread_join(threads[i], &hashes[i]) == 0);
  EXPECT(hashes[0] != NULL);
  for (int i = 1; i < kThreads; ++i)
    EXPECT(hashes[i] == hashes[0]);
}

int main(void) {
  EXPECT(fp8opt_abi_version() == FP8OPT_ABI_VERSION);
  EXPECT(strlen(fp8opt_version()) > 0);
  /* First, so that nothing has been set up before. */
  testThreads();
  testOutputs();
  testPlaces();
  testHostile();
  printf("%d failures\n", failures);
  return failures != 0;
}
