//===- fp8rt.h - C interface of the runtime -----------------------*- C -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads artifacts of fp8-opt and runs their functions. Needs neither the
// compiler nor MLIR.
//
// Ownership: the caller owns arguments, caller-placed results, the arena and
// the stream; strings and arrays in info structures belong to the program and
// live until it is unloaded. There is no global state: programs are
// independent, and runners of one program may be used from different threads,
// one run of a runner at a time.
//
// Errors: functions that can fail return 0 on success and 1 on failure; then,
// where `error` is not null, `*error` is a message to be freed with
// fp8rt_free_error. Messages are one line without a final period.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_H
#define FP8RT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Changes when a declaration below changes incompatibly.
#define FP8RT_ABI_VERSION 4
int fp8rt_abi_version(void);

typedef struct fp8rt_program fp8rt_program;
typedef struct fp8rt_runner fp8rt_runner;
typedef struct fp8rt_event fp8rt_event;
typedef struct fp8rt_error fp8rt_error;
typedef struct fp8rt_ranks fp8rt_ranks;

typedef enum {
  FP8RT_BF16 = 0,
  FP8RT_F32 = 1,
  FP8RT_F8E4M3FN = 2,
  FP8RT_F8E5M2 = 3,
  FP8RT_I32 = 4,
  FP8RT_I8 = 5
} fp8rt_dtype;

typedef enum {
  FP8RT_INPUT = 0,
  FP8RT_PARAMETER = 1,
  FP8RT_TANGENT = 2,
  /// Updated in place and shared by name between the functions of a program.
  FP8RT_STATE = 3,
  /// May be overwritten by the run.
  FP8RT_DONATED = 4
} fp8rt_role;

typedef enum {
  FP8RT_INIT_NORMAL = 0,
  FP8RT_INIT_ZERO = 1,
  FP8RT_INIT_ONE = 2
} fp8rt_init;

typedef enum {
  /// All buffers lie in one arena of the caller's.
  FP8RT_PLANNED = 0,
  /// Every alloc and free of the command list goes to the backend.
  FP8RT_DYNAMIC = 1
} fp8rt_memory;

typedef struct {
  const char *name;
  size_t argument_count;
  size_t result_count;
  size_t command_count;
  /// Commands that are matmuls: on a GPU they sum in an order of their own.
  size_t gemm_count;
  /// Bytes of everything live at the worst point, as planned.
  uint64_t peak_bytes;
  /// Size of the arena, without what a watched run adds.
  uint64_t arena_bytes;
  uint64_t saved_bytes;
  /// Host memory that each runner of the function takes for what waits there
  /// between forward and backward.
  uint64_t host_bytes;
} fp8rt_function_info;

/// An argument is dense and row-major.
typedef struct {
  const char *name;
  fp8rt_dtype dtype;
  size_t rank;
  const int64_t *shape;
  uint64_t bytes;
  fp8rt_role role;
  /// How test inputs are made (fp8rt/Inputs.h).
  fp8rt_init init;
  double init_scale;
} fp8rt_argument_info;

typedef struct {
  const char *name;
  fp8rt_dtype dtype;
  size_t rank;
  const int64_t *shape;
  /// In elements, relative to fp8rt_runner_result_data.
  const int64_t *strides;
  /// Bytes the caller passes for a caller-placed result; 0 for one in the
  /// arena or in an argument.
  uint64_t caller_bytes;
} fp8rt_result_info;

typedef struct {
  /// Set to sizeof(fp8rt_runner_options).
  size_t struct_size;
  fp8rt_memory memory;
  /// Planned mode: the arena, a red zone above it and the caller's results are
  /// filled with a pattern and compared after every command; the run fails
  /// where a command writes what it may not, and the peak is measured.
  int watch;
  /// Storage without contents holds 0xFF bytes; dynamic mode adds guards.
  int poison;
  /// Time each command.
  int ledger;
  /// On a GPU, planned mode: record the first run in a graph and replay it in
  /// every run; arguments, results and the arena must stay where they are.
  int graph;
  /// Planned mode: run the matmuls only, to time them; the results mean
  /// nothing.
  int gemms_only;
  /// Streams to run on, up to 16: the caller's (0 or 1: only that) and others
  /// that the runner makes.
  /// Two commands that touch the same bytes, one of them writing, keep their
  /// order; the others may run side by side. More than one in planned mode
  /// only, neither watched nor with a ledger. The CPU has one.
  uint32_t streams;
} fp8rt_runner_options;

typedef struct {
  const char *op;
  const char *name;
  const char *loc;
  double milliseconds;
  /// After the command; 0 in an unwatched planned run.
  uint64_t live_bytes;
  /// What the command moves, if it reads and writes each operand once (of one
  /// that it reads or writes a piece of, that piece; workspaces not counted),
  /// and its floating-point operations.
  uint64_t bytes;
  uint64_t flops;
} fp8rt_ledger_entry;

/// Loads an artifact for `backend` ("cpu", or "cuda" on a machine with a GPU:
/// the device of the caller's current context, else the first one).
int fp8rt_load_file(const char *path, const char *backend,
                    fp8rt_program **program, fp8rt_error **error);
/// The same from memory, which is copied.
int fp8rt_load_memory(const void *data, size_t size, const char *backend,
                      fp8rt_program **program, fp8rt_error **error);
/// Its runners must be destroyed before.
void fp8rt_unload(fp8rt_program *program);

size_t fp8rt_function_count(const fp8rt_program *program);
/// Position of the function called `name`, or -1.
int64_t fp8rt_find_function(const fp8rt_program *program, const char *name);
/// `function`, `argument` and `result` are positions below the counts; others
/// give 1.
int fp8rt_get_function(const fp8rt_program *program, size_t function,
                       fp8rt_function_info *info);
int fp8rt_get_argument(const fp8rt_program *program, size_t function,
                       size_t argument, fp8rt_argument_info *info);
int fp8rt_get_result(const fp8rt_program *program, size_t function,
                     size_t result, fp8rt_result_info *info);
/// The value of which the result counts the elements whose new layout is not
/// exact; null for a result that is no counter.
const char *fp8rt_get_counter(const fp8rt_program *program, size_t function,
                              size_t result);
/// Contents of the section `name` ("plan"), or null.
const void *fp8rt_get_section(const fp8rt_program *program, const char *name,
                              size_t *size);

/// Prepares to run `function`: resolves kernels and allocates all that runs
/// need beside the caller's memory.
int fp8rt_create_runner(fp8rt_program *program, size_t function,
                        const fp8rt_runner_options *options,
                        fp8rt_runner **runner, fp8rt_error **error);
void fp8rt_destroy_runner(fp8rt_runner *runner);

/// Bytes of arena a run needs (0 in dynamic mode); aligned to 256 bytes.
size_t fp8rt_runner_arena_bytes(const fp8rt_runner *runner);

/// One run. `arguments` has an entry for each argument, `results` for each
/// result, read only where the caller places it (may be null when there is no
/// such result). On a GPU all of them are device memory aligned to 16 bytes,
/// and the work is enqueued on `stream` (a CUstream, which is a cudaStream_t;
/// null is the default stream) without waiting for it, unless the run is
/// watched or poisoned; faults of kernels then show when the caller waits. The
/// CPU ignores the stream and returns when the work is done. In planned mode,
/// unwatched, a run allocates nothing unless it fails. A stream must outlive
/// the runner in dynamic mode.
int fp8rt_run(fp8rt_runner *runner, void *const *arguments,
              void *const *results, void *arena, size_t arena_size,
              void *stream, fp8rt_error **error);

/// Element 0 of a result, valid until the next run or the end of its storage.
void *fp8rt_runner_result_data(const fp8rt_runner *runner, size_t result);

/// Peak of the last run as measured, or -1 when it was not (planned mode,
/// unwatched).
int64_t fp8rt_runner_measured_peak_bytes(const fp8rt_runner *runner);

/// The largest number of bytes that the GPU's memory pool counted in the last
/// run in dynamic mode, or -1.
int64_t fp8rt_runner_pool_high_bytes(fp8rt_runner *runner);

/// Entry `command` of the last run's ledger; 1 where there is none. Waits for
/// the run.
int fp8rt_runner_get_ledger(fp8rt_runner *runner, size_t command,
                            fp8rt_ledger_entry *entry);

/// Of a collective of the last run's ledger on a GPU: the time from where it
/// could begin to its end, on the stream of communication, what it waited for
/// other ranks included. 1 for any other command and on the CPU.
int fp8rt_runner_get_transfer(fp8rt_runner *runner, size_t command,
                              double *milliseconds);

/// The memory of the program's device: what a caller needs who uses no library
/// of the device itself. On the CPU these are the host's own.

/// `bytes` bytes aligned to 256 bytes.
int fp8rt_allocate(fp8rt_program *program, size_t bytes, void **pointer,
                   fp8rt_error **error);
void fp8rt_release(fp8rt_program *program, void *pointer);
/// Copy from the host to the device, from the device to the host (both done
/// on return; streams other than the default one are not waited for), and on
/// the device (enqueued on `stream`).
int fp8rt_upload(fp8rt_program *program, void *to, const void *from,
                 size_t bytes, fp8rt_error **error);
int fp8rt_download(fp8rt_program *program, void *to, const void *from,
                   size_t bytes, fp8rt_error **error);
int fp8rt_copy(fp8rt_program *program, void *to, const void *from, size_t bytes,
               void *stream, fp8rt_error **error);
/// Sets every byte to `value`, enqueued on `stream`.
int fp8rt_set(fp8rt_program *program, void *data, unsigned char value,
              size_t bytes, void *stream, fp8rt_error **error);
/// Writes the test values of an argument (fp8rt/Inputs.h) to `data`, enqueued
/// on `stream`.
int fp8rt_fill_argument(fp8rt_program *program, size_t function,
                        size_t argument, uint64_t seed, uint64_t step,
                        uint64_t microbatch, void *data, void *stream,
                        fp8rt_error **error);
/// Free and all bytes of the device; 1 where they are not known.
int fp8rt_memory_info(fp8rt_program *program, uint64_t *free_bytes,
                      uint64_t *total_bytes);

int fp8rt_create_stream(fp8rt_program *program, void **stream,
                        fp8rt_error **error);
void fp8rt_destroy_stream(fp8rt_program *program, void *stream);
/// Waits until everything enqueued on `stream` has happened.
int fp8rt_synchronize(fp8rt_program *program, void *stream,
                      fp8rt_error **error);

int fp8rt_create_event(fp8rt_program *program, fp8rt_event **event,
                       fp8rt_error **error);
void fp8rt_destroy_event(fp8rt_event *event);
int fp8rt_record_event(fp8rt_event *event, void *stream, fp8rt_error **error);
/// Milliseconds from `start` to `end`, both recorded; waits for them.
int fp8rt_elapsed(const fp8rt_event *start, const fp8rt_event *end,
                  double *milliseconds, fp8rt_error **error);

/// The ranks of a job: processes that run one program on different parts of its
/// data and exchange tensors in between. A call that needs others fails, with
/// the number of the rank in the message, where one of them stops, or is not
/// heard of for `timeout_ms`. One thread at a time uses them.

/// Meets the ranks that were started together with this process, by mpirun or
/// with torchrun's environment (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, of
/// which the next port is used, or FP8RT_PORT); `*ranks` is null where there
/// are none. On GPUs LOCAL_RANK (or mpirun's) is the number of this one's
/// device.
int fp8rt_open_ranks(uint64_t timeout_ms, fp8rt_ranks **ranks,
                     fp8rt_error **error);
int fp8rt_rank(const fp8rt_ranks *ranks);
int fp8rt_rank_count(const fp8rt_ranks *ranks);
/// Gives all ranks the `size` bytes that rank 0 has at `data`.
int fp8rt_broadcast(fp8rt_ranks *ranks, void *data, size_t size,
                    fp8rt_error **error);
/// Gives all ranks the `size` bytes of each, by rank: `all` has room for `size`
/// times the number of ranks.
int fp8rt_all_gather(fp8rt_ranks *ranks, const void *data, size_t size,
                     void *all, fp8rt_error **error);
/// The same for rank 0 alone; `all` may be null on the others.
int fp8rt_gather(fp8rt_ranks *ranks, const void *data, size_t size, void *all,
                 fp8rt_error **error);
/// For tests: this rank sleeps before its collective number `number` (before
/// each, if negative).
void fp8rt_delay_collective(fp8rt_ranks *ranks, int64_t number,
                            uint64_t milliseconds);
/// Waits until all ranks have come here, and ends them. They are gone in any
/// case.
int fp8rt_close_ranks(fp8rt_ranks *ranks, fp8rt_error **error);
/// Tells the others that this rank stops, and why, where they do not know.
/// After it the process must end.
void fp8rt_abandon_ranks(fp8rt_ranks *ranks, const char *reason);
/// The number of ranks that `program` is for.
int64_t fp8rt_get_rank_count(const fp8rt_program *program);
/// Runs `program` together with other ranks, which load the same artifact and
/// call this too: GPUs are connected by it. Before any runner is created; fails
/// where it is for another number of ranks. On a GPU the ranks outlive the
/// program's last run, and all of them have ended it before one unloads it.
int fp8rt_set_ranks(fp8rt_program *program, fp8rt_ranks *ranks,
                    fp8rt_error **error);

/// What carries tensors between ranks, in a few words, as "copy engines" or
/// "NCCL"; empty where nothing does. Known after fp8rt_set_ranks.
const char *fp8rt_get_transport(const fp8rt_program *program);

/// For timing: on GPUs what is enqueued on `stream` from here on begins on all
/// ranks, which all call this, at about the same time. Nothing on the CPU.
int fp8rt_align_ranks(fp8rt_program *program, void *stream,
                      fp8rt_error **error);

const char *fp8rt_error_message(const fp8rt_error *error);
void fp8rt_free_error(fp8rt_error *error);

#ifdef __cplusplus
}
#endif

#endif // FP8RT_H
