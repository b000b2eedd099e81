//===- Passes.td - passes of fp8-opt ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In the order in which the pipeline fp8-compile runs them.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TRANSFORMS_PASSES_TD
#define FP8_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def FP8SetTargetPass : Pass<"fp8-set-target", "::mlir::ModuleOp"> {
  let summary = "names the target that costs and workspaces are taken from";
  let description = [{
    Sets the module attribute `fp8.target`. Every later pass reads it; a module without it is planned for `cpu`. An
    unknown name is an error that lists the known ones. A name ending in `.json` is a file with the keys of those in
    `lib/Target/Target/targets`, such as `bench/calibrate.py` writes.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "cpu, h200, h100, b200 or FILE.json">];
}

def FP8BuildBackwardPass : Pass<"fp8-build-backward", "::mlir::ModuleOp"> {
  let summary = "differentiates a forward function into an fp8.step";
  let description = [{
    Requires a straight line of ops that implement `DifferentiableOpInterface` where a gradient passes through them.
    Appends one argument a bf16 or f32 result (its gradient, marked `fp8.tangent`, named `d_` and the result's name)
    and one result a floating-point argument that is not marked `fp8.frozen`, `fp8.state` or of an FP8 type (its
    gradient, in argument order, named `d_` and the argument's name; zeros where nothing returned depends on it). The
    old body becomes the forward region, the adjoints in reverse order the backward region, which reads forward values
    as residuals. An adjoint op has the location of the op it belongs to. The gradients of a value that is used several
    times are added with `arith.addf` in the order of the uses, a use by the return last.

    Left alone are functions that hold a step, that have an argument marked `fp8.tangent`, or that return no bf16 or
    f32 tensor (`end_of_step`). Where a `delayed` recipe is differentiated and the module has no `end_of_step`, that
    function is added: it updates each scale from its history. State is shared between functions by argument name.
  }];
  let options = [Option<"function", "function", "std::string", "\"\"", "differentiate only this function">];
  let dependentDialects = ["::mlir::fp8::FP8Dialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def FP8ExpandRecipesPass : Pass<"fp8-expand-recipes", "::mlir::ModuleOp"> {
  let summary = "writes linears and their gradients out as amax, scale, cast and matmul";
  let description = [{
    Replaces `fp8.linear`, `fp8.linear_dgrad` and `fp8.linear_wgrad`, each where it stands. With x [N, K], w [M, K]
    and dy [N, M], the groups of the casts are

    | recipe | fprop: x, w | dgrad: dy, w | wgrad: dy, x |
    |---|---|---|---|
    | tensorwise, delayed | one scale a tensor | the same casts | the same casts |
    | rowwise | [1, all], [1, all] | [1, all], [all, 1] | [all, 1], [all, 1] |
    | block128 | [1, 128], [128, 128] | [1, 128], [128, 128] | [128, 1], [128, 1] |

    A value that is cast twice alike (same group, format, rule) is cast once: in the backward region an equal cast of
    the forward region is read as a residual, which makes it a candidate for saving. The maximum and scale of a value that
    the forward region knows stand there, behind the value, also where only a cast of the backward region needs them: to
    keep them (4 bytes a row or column, taken while the value is read anyway) or to take them again is then a choice like
    any other. Dimensions are exchanged with
    `fp8.permute`, a view; `fp8-legalize-layouts` moves bytes where the target needs it. With a `delayed`
    recipe the scale is the state argument, and the amax is pushed where it is computed, once a value and history;
    outside an `fp8.step` (evaluation) nothing is pushed.
  }];
  let dependentDialects = ["::mlir::fp8::FP8Dialect", "::mlir::arith::ArithDialect"];
}

def FP8CastBeforeGatherPass : Pass<"fp8-cast-before-gather", "::mlir::ModuleOp"> {
  let summary = "gathers FP8 shards instead of casting gathered tensors";
  let description = [{
    Where everything that reads an `fp8.all_gather` is an `fp8.amax` or an `fp8.cast`, and the bits are the same, the
    maxima are taken and the casts made on the shard, and FP8 data and compact scales are gathered: half the bytes on
    the link, and the gathered tensor is never in memory in its wide type. A maximum over the gathered dimension (one
    scale a tensor or a column) becomes an `fp8.all_reduce max` of the shards' maxima; groups that lie within shards
    stay theirs, so each scale is gathered. Where a group straddles shards (128 tokens, of which a rank has no
    multiple), all of them are cast after the gather, as written. `gathers=as-written` leaves everything so.
  }];
  let options = [Option<"gathers", "gathers", "std::string", "\"fp8\"", "fp8 or as-written">];
  let dependentDialects = ["::mlir::fp8::FP8Dialect"];
}

def FP8LegalizeLayoutsPass : Pass<"fp8-legalize-layouts", "::mlir::ModuleOp"> {
  let summary = "moves the operands of FP8 matmuls into the order that the target takes";
  let description = [{
    On a target that takes only operands whose elements along k are neighbours (cuBLASLt's TN rule on Hopper), an FP8
    operand of `fp8.matmul` that lies otherwise is replaced by a view of an `fp8.transpose`, which stands directly
    behind the value it moves. A value that several matmuls read is moved once; where both regions of an `fp8.step`
    read it, the forward region's move is read as a residual, which makes it a candidate for saving. On other targets
    nothing changes.
  }];
  let dependentDialects = ["::mlir::fp8::FP8Dialect"];
}

def FP8KeepLossyPass : Pass<"fp8-keep-lossy", "::mlir::ModuleOp"> {
  let summary = "lets backward read forward values through a smaller, inexact form";
  let description = [{
    Requires joint IR without linears. `lossy=VALUE:FORM+...` names values of forward regions, `*` and `?` allowed;
    `VALUE#1` is result 1 of an op that has several of that name. A
    value is made smaller where it is computed; the backward region reads `fp8.dequantize` of that, and computes again
    what it reads of values that follow from it without a matmul, an opaque op or one marked `fp8.checkpoint` in
    between. The forward region does not change. Forms:

    * `1x128`: f8E4M3FN with an f32 scale for 128 columns of a row: 33 bytes for 64 of bf16. Where forward casts the
      value in this way already, that cast is kept;
    * `e5m2`: f8E5M2 without a scale; beyond 57,344 it saturates;
    * `e5m6`: `!fp8.e5m6`, 12 bits an element, with an f32 scale, a power of two, for 128 columns of a row: 49 bytes for
      64 of bf16. DeepSeek-V3 keeps the result of attention like that;
    * `relayout`: the cast by 1x128 that forward has, whose scales must be powers of two (`block128`); casts by 128x1 in
      backward are made from it, and nothing else need be kept for them. That is exact unless an element over- or
      underflows beside its new neighbours: a result `VALUE.inexact` of the function (marked `fp8.counter`) counts the
      elements that changed, NaN included, as an f32 (above 2^24 rounded). `fp8-run` reports it.

    Off unless asked for: gradients change. They do so before any policy runs, so all policies give the same bits.
    `fp8.dequantize` carries `fp8.lossy` = {value, form, bytes, exact_bytes, counter of a `relayout`}, which the plan lists under `lossy`; with `seed` also
    `grad_rel_error`: the largest relative 2-norm, over the results named `d_*`, of their difference from the
    exact gradients when this entry alone is lossy, computed by the interpreter on the inputs of that seed.
  }];
  let options = [
    Option<"values", "lossy", "std::string", "\"\"", "VALUE:FORM, joined by +">,
    Option<"seed", "lossy-seed", "int64_t", "-1", "inputs to measure the error of gradients on; below 0: not measured">
  ];
  let dependentDialects = ["::mlir::fp8::FP8Dialect", "::mlir::arith::ArithDialect"];
}

def FP8CastWeightsOncePass : Pass<"fp8-cast-weights-once", "::mlir::ModuleOp"> {
  let summary = "casts weights once a step instead of once a microbatch";
  let description = [{
    Moves the FP8 casts that depend only on parameters (`fp8.parameter`), constants and state that the function does
    not write (a delayed scale, which `end_of_step` updates), with their scales, maxima and transposed copies, out of
    each function with an `fp8.step` into a function `start_of_step`, which runs before the first microbatch of a step. Its results are placed by the caller; the functions of the microbatches read them as
    resident arguments of the same names. What a step pushes into a history, gathers or computes in an `fp8.opaque` is
    left where it is. More bytes are alive during the whole step, and every microbatch moves less. `auto` with a
    `budget` or `device-memory` plans both ways, the peak beside the casts that are kept within it, and moves them where
    the step is faster so, or, where neither fits, where less is lacking; without either it moves them.
  }];
  let options = [
    Option<"weightCasts", "weight-casts", "std::string", "\"auto\"", "how often weights are cast: step, microbatch or auto">,
    Option<"budget", "budget", "std::string", "\"\"", "limit on peak_bytes, as in fp8-select-saved">,
    Option<"deviceMemory", "device-memory", "std::string", "\"\"", "limit on peak_bytes plus the bytes of arguments, as in fp8-select-saved">,
    Option<"microbatches", "microbatches", "int", "1", "microbatches a step">,
    Option<"fuse", "fuse", "std::string", "\"default\"", "default or none, as in fp8-form-kernels">
  ];
  let dependentDialects = ["::mlir::fp8::FP8Dialect", "::mlir::arith::ArithDialect"];
}

def FP8AccumulateGradientsPass : Pass<"fp8-accumulate-gradients", "::mlir::ModuleOp"> {
  let summary = "adds the gradients of parameters over microbatches in f32";
  let description = [{
    For each function `f` with an `fp8.step` that returns the gradient of a parameter `w` (the result `d_w` of the
    backward region): the result becomes an f32 tensor `w.main_grad`, placed by the caller; a matmul that computes it
    gives f32, anything else is widened. That is the function of the first microbatch. A copy of it, `f.accumulate`,
    runs for the others: it takes `w.main_grad` as an argument marked `fp8.donated`, which the sum is written over
    (the accumulator of the matmul, or an addition). Buffers of one name are one buffer.
  }];
  let dependentDialects = ["::mlir::fp8::FP8Dialect", "::mlir::arith::ArithDialect"];
}

def FP8AnnotateLivenessPass : Pass<"fp8-annotate-liveness", "::mlir::ModuleOp"> {
  let summary = "writes the live range of each alias class into attributes";
  let description = [{
    For tests: each op of a program gets `fp8.index` (its position), each op that makes an alias class
    `fp8.live = [first, last]` per result root (positions of the producer and of the last use, views followed; the
    position after the last op where the value leaves the function) and `fp8.bytes`.
  }];
}

def FP8AnnotateCostPass : Pass<"fp8-annotate-cost", "::mlir::ModuleOp"> {
  let summary = "writes the cost of each op into attributes";
  let description = [{
    For tests: `fp8.cost`, a dictionary of `flops_f8`, `flops_f8_row`, `flops_f8_block`, `flops_bf16`, `flops_f32`,
    `bytes_read`, `bytes_written`, `bytes_accumulated`, `bytes_sent` and `scratch` (each left out where it is 0),
    `recompute` (free, yes, priced or never), and `ns`, the estimate on the module's target.
  }];
}

def FP8SelectSavedPass : Pass<"fp8-select-saved", "::mlir::ModuleOp"> {
  let summary = "chooses what is kept for backward and what is computed again";
  let description = [{
    Requires joint IR without linears. Makes the residuals of each `fp8.step` explicit and clones what is recomputed
    into the backward region, behind `fp8.remat_barrier`, before its first use. `auto` may also drop a value within
    either region and clone it again before its next use. Policies:

    * `save-all`: every forward value that the backward region reads is kept;
    * `recompute-all`: arguments and values marked `fp8.checkpoint` are kept, everything else is computed again, once
      a use region, just in time;
    * `op-list`: the results of the listed ops are kept where the backward region reads them; option `ops=a+b+c`, by
      default `fp8.matmul+fp8.opaque+fp8.reduce_scatter+fp8.reduce+fp8.amax+math.absf` (torchtitan's list at the time
      of its report #820, in this dialect's names: matmuls, attention, reduce-scatter, max and abs);
      `ops=default-abs` takes one name out, `default+x` adds one;
    * `min-cut`: the fewest bytes across the border, with PyTorch's weights (bytes times 1.1 to the distance from the
      backward region, doubled where a value would otherwise fuse into its users, nothing for arguments) and its bans
      (matmuls, reductions, collectives, opaque ops are not recomputed);
    * `auto`: the fastest plan whose true peak is within `budget`; without one, the fastest, then the lowest peak.
      Where that helps, ops that are independent by rows run in 2, 4 or 8 pieces, and gathers with them: their matmuls
      and gathers are marked `fp8.pieces` for `fp8-split-rows`.

    With `host-memory` above 0, `auto` may also have values wait in host memory between their last use in forward and their
    first in backward (`fp8-offload`), within as many bytes, on targets with a link to the host.

    What may never be recomputed is always kept. `fp8.policy` overrides, per value: `save`, `recompute`, or `offload`
    whatever `host-memory` says. A budget that cannot be met is an
    error with the smallest feasible peak and the five largest contributors.
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"auto\"", "save-all, recompute-all, op-list, min-cut or auto">,
    Option<"budget", "budget", "std::string", "\"\"", "limit on peak_bytes: a number with an optional KiB, MiB, GiB, KB, MB, GB">,
    Option<"deviceMemory", "device-memory", "std::string", "\"\"", "limit on resident plus arena bytes, same form">,
    Option<"hostMemory", "host-memory", "std::string", "\"0\"", "host memory that auto may have values wait in, same form; 0: none do">,
    Option<"ops", "ops", "std::string", "\"\"", "the list of op-list">,
    Option<"fuse", "fuse", "std::string", "\"default\"", "default or none, as in fp8-form-kernels">,
    Option<"pieces", "pieces", "int64_t", "0",
      "pieces that every region of independent rows runs in; 0: as auto chooses, whole with other policies">,
    Option<"overlap", "overlap", "std::string", "\"default\"",
      "default or none, as in fp8-overlap: whether sentences are of plans whose collectives start early">
  ];
  let dependentDialects = ["::mlir::fp8::FP8Dialect"];
}

def FP8SplitRowsPass : Pass<"fp8-split-rows", "::mlir::ModuleOp"> {
  let summary = "runs ops that are independent by rows a part of the rows at a time";
  let description = [{
    Finds regions: matmuls whose results meet in ops of their shape, what follows them up to the tensors of the fewest
    bytes, and what goes into them that nothing else reads. A region becomes N copies, each for a part of the rows, so
    that what lies inside it is never whole in memory; what is read outside is assembled by `fp8.update_slice`, maxima
    over the rows by `arith.maximumf`. Ops that need all rows at once (sums over them, the b operand of a matmul, ops
    known only by their shapes) stay whole. Bits do not change. Pieces start at multiples of 128 rows where a block recipe
    or a GPU asks for it.

    A gather that only the region reads may be in it, with what is made of the shard for it alone. Along the rows a piece is
    then some rows of each rank's shard: gathered together, and multiplied rank by rank into their places of the result.
    Other dimensions are cut as they come. A matmul whose rows have no region is looked at by columns, for gathers alone:
    its b operand, or the b operands of products of one sum, gathered a few columns at a time.

    Split are the regions with a matmul or a gather marked `fp8.pieces = N`, as `fp8-select-saved` marks them, and with the
    option `pieces` the others too. A gather is in a region only where it is marked, or by that option.
  }];
  let options = [Option<"pieces", "pieces", "int64_t", "0", "pieces of every region; 0: only of those marked">];
  let dependentDialects = ["::mlir::fp8::FP8Dialect", "::mlir::arith::ArithDialect"];
}

def FP8SplitPass : Pass<"fp8-split", "::mlir::ModuleOp"> {
  let summary = "makes functions of the regions of a step";
  let description = [{
    Replaces a function `f` with an `fp8.step` by `f.forward` and `f.backward`, or with `apart=wgrad` by `f.forward`,
    `f.dgrad` and `f.wgrad`, so that a pipeline schedule or PyTorch's autograd can have several microbatches in flight.
    Runs after the selection and before kernels are formed; each part is then planned as a function of its own.

    What a later part reads of an earlier one is a result of it and an argument of the later one, by the same name, marked
    `fp8.segment`: `"saved"` (made by forward, one for each microbatch in flight) or `"deferred"` (made by `f.dgrad` for
    `f.wgrad`), and `fp8.donated` in the last part that reads it. Arguments of `f` are arguments of the parts that read
    them, donated only in the last; views and constants are repeated. All results lie in the caller's buffers, but those
    that are written over a donated argument of their name; what is, or is a view of, what another result is or what
    another part made, is copied.

    `f.wgrad` computes the gradients of parameters (`d_NAME`, `NAME.main_grad`) and what only they need; `f.dgrad` the
    other results, and everything with effects (`fp8.push_amax`).
  }];
  let options = [Option<"apart", "apart", "std::string", "\"backward\"", "what is a function of its own: backward, or dgrad and wgrad too">];
  let dependentDialects = ["::mlir::fp8::FP8Dialect", "::mlir::func::FuncDialect"];
}

def FP8FormKernelsPass : Pass<"fp8-form-kernels", "::mlir::ModuleOp"> {
  let summary = "groups ops into fp8.kernel regions, the units that run";
  let description = [{
    Puts every op that executes into an `fp8.kernel`. With `fuse=default`, chains that one pass over memory can do
    become one kernel: elementwise ops, broadcasts, casts, reductions whose groups lie within the rows a kernel holds
    at a time, and any reduction or transpose at its end; at most 128 of them. `fuse=none` gives one kernel an op. Views are cloned into
    the kernels that read through them.
  }];
  let options = [Option<"fuse", "fuse", "std::string", "\"default\"", "default or none">];
  let dependentDialects = ["::mlir::fp8::FP8Dialect"];
}

def FP8SchedulePass : Pass<"fp8-schedule", "::mlir::ModuleOp"> {
  let summary = "orders kernels for the lowest peak";
  let description = [{
    Takes the order with the lowest peak of three: program order, program order with each kernel just before the first
    that needs it, and a list schedule by memory. The stretch of at most 63 kernels around its peak is then ordered
    exactly, if a limited number of steps is enough, as long as that lowers the peak. Forward stays before backward.
  }];
}

def FP8OffloadPass : Pass<"fp8-offload", "::mlir::ModuleOp"> {
  let summary = "copies values to host memory and back";
  let description = [{
    On planned IR, for the residuals whose ops `fp8-select-saved` marked `fp8.offload`: an `fp8.offload_start` directly
    after the kernel that makes the value, its wait where the copy ends by the target's estimates, at the latest at the end
    of the forward region, and an `fp8.prefetch_start` in the backward region as late as it takes to hide the copy, its
    wait before the first kernel that reads the value. Copies of one direction follow one another. What is kept between
    the regions is the `!fp8.host` value; the device has the bytes until the wait of the copy out, or the last use in
    forward, and again from the start of the copy back.
  }];
  let dependentDialects = ["::mlir::fp8::FP8Dialect"];
}

def FP8OverlapPass : Pass<"fp8-overlap", "::mlir::ModuleOp"> {
  let summary = "starts collectives early enough to run beside other kernels";
  let description = [{
    Splits whole collectives of planned IR into halves. The start goes up as far as the kernels in between take as long as
    the transfer, by the target's estimates, but no further than its operands and the region allow, and no further than
    the bytes live there, with those of its result, stay within `budget` and `device-memory` (no limit where both are empty). Loops that make its
    operands go along. Where that does not hide all of it, the wait goes down behind the kernels that hide the rest, up to
    the first reader of the result; what the collective reads stays in memory until then, within the same limit. A kernel
    hides one transfer only. Collectives may overtake one another, in the same way on all ranks, as these run one plan. A
    gather of the next layer's weights so runs beside this layer (prefetch), and its bytes count from its start; the
    reduction of a gradient runs beside the gradients behind it.
  }];
  let options = [
    Option<"budget", "budget", "std::string", "\"\"", "limit on peak_bytes, as in fp8-select-saved">,
    Option<"deviceMemory", "device-memory", "std::string", "\"\"", "limit on resident plus arena bytes, same form">,
    Option<"overlap", "overlap", "std::string", "\"default\"", "default, or none: nothing is split">
  ];
  let dependentDialects = ["::mlir::fp8::FP8Dialect"];
}

def FP8InsertFreesPass : Pass<"fp8-insert-frees", "::mlir::ModuleOp"> {
  let summary = "puts fp8.free directly after the last use of each alias class";
  let description = [{
    After the wait, for what a collective in flight uses. Results of the step and arguments are never freed. A value
    that is never used is freed directly after its producer. Where a kernel may write a result over an operand that
    dies there (`docs/rationale/planning.md`, "In place"), `in_place` on it says so, and the operand's storage is not
    freed but the result's; a result over an argument marked `fp8.donated` is not freed at all. What only a gather reads
    is made within the gather's result, at the place of this rank's part, where that raises the peak nowhere.
  }];
  let dependentDialects = ["::mlir::fp8::FP8Dialect"];
}

def FP8PlacePass : Pass<"fp8-place", "::mlir::ModuleOp"> {
  let summary = "gives every buffer an offset in one arena";
  let description = [{
    Sets `offsets` and `workspace_offset` of each kernel, multiples of 256, and on the function `fp8.arena_bytes`. A
    result that `in_place` writes over a buffer has that buffer's offset; one over an argument has -1; a part of what a
    gather gives has the offset of the whole. What waits in
    host memory has its offset there, and the function `fp8.host_bytes`.
    The best of several greedy packings; where none is proved lowest, of a search with a limit on nodes too.
  }];
}

def FP8CheckPlanPass : Pass<"fp8-check-plan", "::mlir::ModuleOp"> {
  let summary = "checks a plan, with no code shared with the passes that made it";
  let description = [{
    On planned or placed IR: no use after free, no double free, no leak (everything the step allocates but its results
    is freed), no free of an argument, results in place only over operands that nothing needs any more and that their
    kernel reads where it writes, waits before use and before frees of what a collective or a copy uses, one copy to the host and one back for what
    waits there; on placed IR also:
    offsets aligned, live buffers disjoint, everything inside `fp8.arena_bytes`, results of the caller not in the
    arena. Each violation is an error at its op.
  }];
}

def FP8VerifyPhasePass : Pass<"fp8-verify-phase", "::mlir::ModuleOp"> {
  let summary = "refuses IR that does not belong to a phase";
  let description = [{
    The border verifier of `docs/architecture.md`. Each phase includes the checks of the ones before it; each
    leftover is an error at its op that names the pass which should have removed it.

    * `import`: a function is one block of ops of the dialects fp8, func, arith and math; every tensor is static, of
      dimensions of at least 1 and at most 2^48 bytes; no `tensor` op works on an encoded tensor, no `arith` or `math`
      op on an FP8 or a scaled one (verified types alone do not stop it);
    * `joint`: no `fp8.linear` or gradient of one is left, and beside an `fp8.step` stand only constants;
    * `planned`: everything that executes is in an `fp8.kernel`; views, barriers, frees and constants stand outside.
      A kernel has at most 1024 ops, its views and constants included. What the backward region uses is then a residual, an argument of the function, a constant or its own;
    * `placed`: every kernel result and every workspace has an offset, and the function its `fp8.arena_bytes`.
  }];
  let options = [Option<"phase", "phase", "std::string", "\"import\"", "import, joint, planned or placed">];
}

def FP8LowerToCPUPass : Pass<"fp8-lower-to-cpu", "::mlir::ModuleOp"> {
  let summary = "generates LLVM dialect functions for the loop and state kernels";
  let description = [{
    Requires placed IR. Each `loop` and `state` kernel becomes a function `void (ptr args)` in the LLVM dialect,
    vectorised, in the summation order of `docs/architecture.md`; equal kernels share one function. Matmuls become
    commands of the runtime.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect",
    "::mlir::vector::VectorDialect", "::mlir::func::FuncDialect", "::mlir::cf::ControlFlowDialect"];
}

def FP8ReserveWorkspacePass : Pass<"fp8-reserve-workspace", "::mlir::ModuleOp"> {
  let summary = "gives loop kernels the workspace that their GPU launches need";
  let description = [{
    On planned IR for a GPU target: sets `workspace` of each `loop` kernel with a reduction that is complete only after a
    launch and that none of the kernel's results can hold. Nothing for the cpu.
  }];
}

def FP8LowerToCUDAPass : Pass<"fp8-lower-to-cuda", "::mlir::ModuleOp"> {
  let summary = "generates GPU functions for the loop and state kernels";
  let description = [{
    Requires placed IR. Each `loop` and `state` kernel gets `launches` (and `fills`, zeros that the first of them finds);
    their functions stand in one `gpu.module @kernels`, in the LLVM dialect with NVPTX intrinsics, and take one pointer
    to global memory for each operand, each result, and the workspace. Results have the bits of `fp8-lower-to-cpu`.
    Matmuls stay as they are. `docs/architecture.md` has the three schedules. How rows and tiles are spread over threads
    was measured for some launches (`lib/Conversion/FP8ToCUDA/Tuned`, written by `bench/autotune.py`); the others follow
    rules.
  }];
  let options = [Option<"chip", "chip", "std::string", """",
    "sm_89, sm_90a, sm_100 or sm_120; default: that of the module's target">,
    Option<"geometry", "geometry", "std::string", """",
    "instead of the measured launch geometries: rules, row:VECTORS:BLOCKS:AHEAD or tile:ROWS:BLOCKS">,
    Option<"reportGeometry", "report-geometry", "bool", "false",
    "a remark for each launch whose geometry was chosen, as an entry of the measured ones">];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect", "::mlir::gpu::GPUDialect",
    "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect", "::mlir::vector::VectorDialect",
    "::mlir::func::FuncDialect", "::mlir::cf::ControlFlowDialect"];
}

#endif // FP8_TRANSFORMS_PASSES_TD
