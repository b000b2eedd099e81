//===- FP8ProgramOps.td - the step and its plan ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that hold a training step and say what its plan is.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DIALECT_FP8_IR_FP8PROGRAMOPS_TD
#define FP8_DIALECT_FP8_IR_FP8PROGRAMOPS_TD

include "fp8/Dialect/FP8/IR/FP8OpBase.td"

def FP8_StepOp : FP8_Op<"step", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "a forward and a backward pass, with what is kept between them";
  let description = [{
    The forward region yields the step's forward results and its residuals; the backward region has one block argument
    a residual and yields the backward results. The results of the op are the forward results, then the backward ones.
    Both regions may use values of the enclosing function (arguments). A value of the forward region reaches the
    backward region only as a residual, as SSA wants it between sibling regions: before `fp8-select-saved` the
    residuals are all the forward values that the backward region reads, after it those that are kept.

    * (C1) each region has one block, ended by `fp8.yield`; the forward block has no arguments;
    * (C2) the backward block's arguments have the types of the forward yield's residuals, in order;
    * (C3) the backward yield has no residuals;
    * (C4) the result types are those of the two yields, in order;
    * (C5) the op stands directly in a function, which has no second one.

    Example:
    ```mlir
    %y, %dx = fp8.step -> (tensor<8xf32>, tensor<8xf32>) forward {
      %e = math.exp %x : tensor<8xf32>
      fp8.yield %e residuals(%e) : tensor<8xf32> residuals(tensor<8xf32>)
    } backward (%r: tensor<8xf32>) {
      %g = arith.mulf %dy, %r : tensor<8xf32>
      fp8.yield %g : tensor<8xf32>
    }
    ```
  }];
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region SizedRegion<1>:$forward, SizedRegion<1>:$backward);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The terminators of the two regions.
    YieldOp getForwardYield();
    YieldOp getBackwardYield();
  }];
}

def FP8_YieldOp : FP8_Op<"yield", [Pure, Terminator, AttrSizedOperandSegments,
    ParentOneOf<["StepOp", "KernelOp"]>]> {
  let summary = "ends a region of a step or a kernel";
  let description = [{
    * (C1) residuals stand only in the forward region of a step.

    Example:
    ```mlir
    fp8.yield %y residuals(%a) : tensor<8xf32> residuals(tensor<8xf32>)
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values, Variadic<AnyType>:$residuals);
  let assemblyFormat = [{
    ($values^)? (`residuals` `(` $residuals^ `)`)? attr-dict (`:` type($values)^)? (`residuals` `(` type($residuals)^ `)`)?
  }];
  let builders = [OpBuilder<(ins "ValueRange":$values), [{ build($_builder, $_state, values, ValueRange()); }]>];
  let hasVerifier = 1;
}

def FP8_KernelOp : FP8_Op<"kernel", [RecursiveMemoryEffects, IsolatedFromAbove, SingleBlock]> {
  let summary = "the unit that runs: one pass over memory, one matmul, one collective";
  let description = [{
    Only the results of a kernel are buffers; what is computed inside never has storage. `offsets` (bytes in the arena,
    one a result; -1 for a result placed in the caller's buffer; of a result in host memory, bytes there) and `workspace_offset` are set by `fp8-place`,
    `symbol` (the function that runs it on a CPU) or `launches` and `fills` (what runs it on a GPU) by the lowering to a
    target.

    `in_place`, set by `fp8-insert-frees`, has one entry a result: the operand that the result is written over, or -1.
    The operand dies there; the result has its storage, at its offset or, where that is an argument marked
    `fp8.donated`, in the argument (offset -1), and costs no bytes of its own. A lowering must read an element of every
    operand before it writes that element of a result; `fp8-check-plan` holds each entry to the rule of
    `docs/rationale/planning.md`, "In place". On a kernel that gathers, the operand lies in the result instead, at the
    place of this rank's part, from the kernel on that makes it: it costs no bytes, and its offset is the result's.

    * (C1) the block's arguments have the operands' types, the results the yield's types;
    * (C2) `loop`: any number of elementwise ops, reductions, broadcasts, casts, views, transposes, updates of slices;
      `matmul`: one `fp8.matmul`, views of its operands, an update of a slice with its result, nothing else;
      `collective`, `opaque`, `state`: one such op and views; `copy`: one start of a copy to or from host memory;
    * (C3) `offsets`, where present, has one entry a result, each -1 or a multiple of 256;
    * (C4) `workspace` is not negative; `workspace_offset`, a multiple of 256, is present only where `workspace` is
      above 0;
    * (C5) `in_place`, where present, has one entry a result, each -1 or the number of an operand with as many bytes,
      no operand twice; only a `loop` or `matmul` kernel has one, and one of an `fp8.all_gather`, whose operand is a
      part of its result;
    * (C6) the buffers of `fills` are numbers of operands, results and the workspace, in this order;
    * (C7) the result of an `fp8.update_slice` is yielded, once, and nothing in the kernel reads it.

    Example:
    ```mlir
    %m = fp8.kernel loop (%a = %x : tensor<64x32xbf16>) -> (tensor<64x1xf32>) {
      %0 = fp8.amax %a group = [1, 0] : tensor<64x32xbf16> -> tensor<64x1xf32>
      fp8.yield %0 : tensor<64x1xf32>
    }
    ```
  }];
  let arguments = (ins FP8_KernelKindAttr:$kind, Variadic<AnyType>:$inputs,
    DefaultValuedAttr<I64Attr, "0">:$workspace, OptionalAttr<DenseI64ArrayAttr>:$offsets,
    OptionalAttr<I64Attr>:$workspace_offset, OptionalAttr<DenseI64ArrayAttr>:$in_place,
    OptionalAttr<StrAttr>:$symbol,
    OptionalAttr<TypedArrayAttrBase<FP8_LaunchAttr, "an array of launches">>:$launches,
    OptionalAttr<TypedArrayAttrBase<FP8_FillAttr, "an array of fills">>:$fills);
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def FP8_RematBarrierOp : FP8_Op<"remat_barrier", [Pure, AllTypesMatch<["x", "result"]>]> {
  let summary = "an alias through which a recomputed op reads, so that no pass merges it back";
  let description = [{
    The result is `x` (0 bytes, same storage). It has no folder, and its `id` is unique in the function, so common
    subexpression elimination never merges a recomputation with its original. `after` names backward values before
    which the recomputation must not be hoisted.

    * (C1) no two barriers of a step, outside its kernels, have the same `id`.

    Example:
    ```mlir
    %b = fp8.remat_barrier %x after(%dy : tensor<8xf32>) id = 3 : tensor<8xf32>
    ```
  }];
  let arguments = (ins AnyType:$x, Variadic<AnyType>:$after, I64Attr:$id);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$x (`after` `(` $after^ `:` type($after) `)`)? `id` `=` $id attr-dict `:` type($x)";
}

def FP8_FreeOp : FP8_Op<"free", [MemoryEffects<[MemFree<FP8_ArenaResource>]>]> {
  let summary = "ends the storage of its operands";
  let description = [{
    After it no value of the operand's alias class may be used. An operand is a root: the result of a kernel or a
    residual argument of a backward region.

    * (C1) an operand is the result of an op that is no view, or a residual argument of a backward region.

    Example:
    ```mlir
    fp8.free %m : tensor<64x1xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
  let hasVerifier = 1;
}

#endif // FP8_DIALECT_FP8_IR_FP8PROGRAMOPS_TD
