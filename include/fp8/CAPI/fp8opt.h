/*===- fp8opt.h - C interface of the compiler ---------------------*- C -*-===*\
|*
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
|*
|* Compiles programs in memory: what the command line `fp8-opt IN.mlir
|* --compile=OPTIONS --emit=OUTPUT` does, without files and processes. Needs
|* libMLIR and libLLVM, which libfp8opt.so is linked to.
|*
|* Ownership: the caller owns what it passes in; nothing of it is kept after
|* the call. A result and all that it gives belong to the library until
|* fp8opt_free_result.
|*
|* Threads: there is no state between calls. Different threads may compile at
|* the same time; a result may be read by several threads.
|*
|* Errors: a program that cannot be compiled is a result with diagnostics, as
|* is text that is no program, and a call in which memory runs out: what it had
|* allocated is lost, and the next call works. No exception leaves a function.
|* Messages are one line without a final period; they and file names are UTF-8
|* where the input is.
|*
\*===----------------------------------------------------------------------===*/

#ifndef FP8OPT_H
#define FP8OPT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes when a declaration below changes incompatibly. */
#define FP8OPT_ABI_VERSION 1
int fp8opt_abi_version(void);

/* The version of the compiler, such as "0.1.0". */
const char *fp8opt_version(void);

typedef struct fp8opt_result fp8opt_result;

/* What to make of a program; a request combines them with |. */
typedef enum {
  /* The program as it was read and verified, with names and places, before any
   * pass. */
  FP8OPT_PROGRAM = 1,
  /* The IR after the last phase. */
  FP8OPT_MLIR = 2,
  /* plan.json (docs/plan.md). */
  FP8OPT_PLAN = 4,
  /* The report for a terminal. */
  FP8OPT_REPORT = 8,
  /* PTX of the kernels, for a target with a GPU. */
  FP8OPT_PTX = 16,
  /* The file that the runtime executes (docs/artifact.md), as bytes. */
  FP8OPT_ARTIFACT = 32
} fp8opt_output;

typedef struct {
  /* Set to sizeof(fp8opt_request). */
  size_t struct_size;
  /* What diagnostics and plans call the text; NULL is "<program>". */
  const char *name;
  /* Options of the pipeline as after --compile=: name=value pairs joined by
   * commas. NULL is none. */
  const char *options;
  /* Last phase of FP8OPT_MLIR: joint, planned, placed or lowered. NULL is what
   * the other outputs need, else placed. */
  const char *phase;
  /* fp8opt_output values joined by |. FP8OPT_PROGRAM alone runs no pass. */
  uint32_t outputs;
} fp8opt_request;

typedef enum {
  FP8OPT_ERROR = 0,
  FP8OPT_WARNING = 1,
  FP8OPT_REMARK = 2,
  /* Belongs to the diagnostic before it. */
  FP8OPT_NOTE = 3
} fp8opt_severity;

typedef struct {
  fp8opt_severity severity;
  const char *message;
  /* The place in the text, or in the program that it was made from; "" and 0
   * where there is none. Line and column count from 1. */
  const char *file;
  unsigned line;
  unsigned column;
  /* The name of the value that it is about, or "". */
  const char *value;
} fp8opt_diagnostic;

/* Compiles the `size` bytes of MLIR text at `text` as `request` says.
 *
 * Returns 0 on success: then every output that was asked for is in `*result`.
 * Returns 1 on failure: then `*result` has at least one diagnostic of severity
 * FP8OPT_ERROR and no output. Bytecode is refused: `fp8-opt` turns it into text
 * in a process of its own. */
int fp8opt_compile(const char *text, size_t size, const fp8opt_request *request,
                   fp8opt_result **result);

/* The bytes of one output and their number; NULL and 0 where it was not made.
 * Text is followed by a zero byte that does not count. */
const char *fp8opt_get_output(const fp8opt_result *result, fp8opt_output output,
                              size_t *size);

size_t fp8opt_diagnostic_count(const fp8opt_result *result);

/* Returns 0, or 1 where `index` is not below fp8opt_diagnostic_count. */
int fp8opt_get_diagnostic(const fp8opt_result *result, size_t index,
                          fp8opt_diagnostic *diagnostic);

/* Does nothing with NULL. */
void fp8opt_free_result(fp8opt_result *result);

#ifdef __cplusplus
}
#endif

#endif /* FP8OPT_H */
