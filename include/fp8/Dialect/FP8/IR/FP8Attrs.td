//===- FP8Attrs.td - attributes and types of the fp8 dialect ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Enumerations, the tensor encoding, the recipe, and the token type.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DIALECT_FP8_IR_FP8ATTRS_TD
#define FP8_DIALECT_FP8_IR_FP8ATTRS_TD

include "fp8/Dialect/FP8/IR/FP8Dialect.td"
include "mlir/IR/TensorEncoding.td"

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

class FP8_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::fp8";
  let genSpecializedAttr = 0;
}
class FP8_EnumAttr<I32EnumAttr enum, string attrMnemonic>
    : EnumAttr<FP8_Dialect, enum, attrMnemonic> {
  let assemblyFormat = "`<` $value `>`";
}

def FP8_ScaleLayout : FP8_Enum<"ScaleLayout", "how block scales lie in memory", [
  I32EnumAttrCase<"Compact", 0, "compact">,
  I32EnumAttrCase<"GemmReady", 1, "gemm_ready">]>;

def FP8_RecipeKind : FP8_Enum<"RecipeKind", "scaling recipe of a linear", [
  I32EnumAttrCase<"Tensorwise", 0, "tensorwise">,
  I32EnumAttrCase<"Delayed", 1, "delayed">,
  I32EnumAttrCase<"Rowwise", 2, "rowwise">,
  I32EnumAttrCase<"Block128", 3, "block128">]>;

def FP8_Pow2 : FP8_Enum<"Pow2", "rounding of a scale to a power of two", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Floor", 1, "floor">,
  I32EnumAttrCase<"Ceil", 2, "ceil">]>;
def FP8_Pow2Attr : FP8_EnumAttr<FP8_Pow2, "pow2">;

def FP8_Division : FP8_Enum<"Division", "precision of the division in a scale", [
  I32EnumAttrCase<"F32", 0, "single">,
  I32EnumAttrCase<"F64", 1, "double">]>;
def FP8_DivisionAttr : FP8_EnumAttr<FP8_Division, "division">;

def FP8_NonFinite : FP8_Enum<"NonFinite", "what a non-finite amax does to its scale", [
  I32EnumAttrCase<"Propagate", 0, "propagate">,
  I32EnumAttrCase<"Saturate", 1, "saturate">]>;
def FP8_NonFiniteAttr : FP8_EnumAttr<FP8_NonFinite, "nonfinite">;

def FP8_ReduceKind : FP8_Enum<"ReduceKind", "combination of a reduction", [
  I32EnumAttrCase<"Sum", 0, "sum">,
  I32EnumAttrCase<"Max", 1, "max">]>;
def FP8_ReduceKindAttr : FP8_EnumAttr<FP8_ReduceKind, "reduce_kind"> {
  let assemblyFormat = "$value";
}

def FP8_KernelKind : FP8_Enum<"KernelKind", "what executes a kernel", [
  I32EnumAttrCase<"Loop", 0, "loop">,
  I32EnumAttrCase<"Matmul", 1, "matmul">,
  I32EnumAttrCase<"Collective", 2, "collective">,
  I32EnumAttrCase<"Opaque", 3, "opaque">,
  I32EnumAttrCase<"State", 4, "state">,
  I32EnumAttrCase<"Copy", 5, "copy">]>;
def FP8_KernelKindAttr : FP8_EnumAttr<FP8_KernelKind, "kernel_kind"> {
  let assemblyFormat = "$value";
}

//===----------------------------------------------------------------------===//
// The tensor encoding
//===----------------------------------------------------------------------===//

def FP8_TensorEncodingAttr : FP8_Attr<"TensorEncoding", "tensor", [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "what a tensor carries besides shape and element type: how it was scaled, and bounds";
  let description = [{
    `#fp8.tensor<scale = [1, all]>` says that the elements of one row share one scale. The group has one entry a
    dimension: the number of neighbours that share a scale, `all` for the whole dimension. `pow2` promises that every
    scale is a power of two; `layout = gemm_ready` that the block scales lie as a matmul of the target wants them.
    `bounds = [4096, none]` gives the cap of a dimension, which byte counts of a plan are taken at; the dimension
    itself must be static today.

    Example: `tensor<256x512xf8E4M3FN, #fp8.tensor<scale = [1, 128], pow2, layout = compact>>`.

    * (C1) a scale needs an f8E4M3FN, f8E5M2 or `!fp8.e5m6` element type;
    * (C2) the group has as many entries as the tensor has dimensions;
    * (C3) a group entry is `all` or at least 1;
    * (C4) `bounds`, where present, has as many entries as dimensions and each is `none` or at least the dimension;
    * (C5) `pow2` and `layout = gemm_ready` need a scale; `gemm_ready` a group with an entry other than 1 and `all`;
    * (C6) of `!fp8.e5m6` the last dimension is even, and so is its group unless it is `all`.
  }];
  let parameters = (ins
    ArrayRefParameter<"int64_t", "elements a scale covers per dimension, 0 for all; empty for unscaled">:$group,
    "bool":$pow2,
    "ScaleLayout":$layout,
    ArrayRefParameter<"int64_t", "cap per dimension, -1 for none; may be empty">:$bounds);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 0;
  let builders = [
    AttrBuilder<(ins "ArrayRef<int64_t>":$group, CArg<"bool", "false">:$pow2), [{
      return $_get($_ctxt, group, pow2, ScaleLayout::Compact, ArrayRef<int64_t>());
    }]>];
  let extraClassDeclaration = [{
    bool isScaled() const { return !getGroup().empty(); }
  }];
}

//===----------------------------------------------------------------------===//
// The recipe of a linear
//===----------------------------------------------------------------------===//

def FP8_RecipeAttr : FP8_Attr<"Recipe", "recipe"> {
  let summary = "how a linear and its two gradients are computed in FP8";
  let description = [{
    `#fp8.recipe<rowwise>`; a field that differs from its kind's default follows by name:
    `#fp8.recipe<tensorwise, dy = f8E4M3FN, pow2 = floor, fast = [fprop, dgrad]>`.

    | kind | rule of the scale | formats x, w, dy | pow2 | fast accumulation | source |
    |---|---|---|---|---|---|
    | `tensorwise` | current scaling: one amax a tensor | e4m3, e4m3, e5m2 | none | fprop | TransformerEngine |
    | `delayed` | scale from the amax history, a state argument | e4m3, e4m3, e5m2 | none | fprop | TransformerEngine |
    | `rowwise` | one amax along the contraction, eps 1e-12, f64 division | e4m3 all | none | fprop, dgrad, wgrad | torchao |
    | `block128` | 1x128 for x and dy, 128x128 for w | e4m3 all | floor | none | TransformerEngine, DeepSeek-V3 |

    * (C1) each format is f8E4M3FN or f8E5M2;
    * (C2) no two operands of one matmul are both f8E5M2: at most one of `x`, `w` and `dy` is;
    * (C3) `block128` has no fast accumulation.
  }];
  let parameters = (ins
    "RecipeKind":$kind,
    "Type":$xFormat, "Type":$wFormat, "Type":$dyFormat,
    "Pow2":$pow2,
    "bool":$fastFprop, "bool":$fastDgrad, "bool":$fastWgrad);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The recipe of `kind` with every field at its default.
    static RecipeAttr getDefault(MLIRContext *context, RecipeKind kind);
  }];
}

//===----------------------------------------------------------------------===//
// What runs a kernel on a GPU
//===----------------------------------------------------------------------===//

def FP8_LaunchAttr : FP8_Attr<"Launch", "launch"> {
  let summary = "one launch of a GPU function";
  let description = [{
    `#fp8.launch<symbol = "k12", grid = [132, 1, 1], block = [256, 1, 1], shared = 0>`: the function, blocks and threads a
    block along x, y and z, and bytes of dynamic shared memory. A kernel's launches run in order; each gets the pointers
    to the kernel's operands, then to its results, then, where `workspace` is above 0, to its workspace.

    * (C1) `grid` and `block` have 3 entries of at least 1; a block has at most 1024 threads;
    * (C2) `shared` is not negative.
  }];
  let parameters = (ins StringRefParameter<"function of the kernels' module">:$symbol,
    ArrayRefParameter<"int64_t", "blocks along x, y, z">:$grid,
    ArrayRefParameter<"int64_t", "threads of a block along x, y, z">:$block,
    "int64_t":$shared);
  let assemblyFormat = [{
    `<` `symbol` `=` $symbol `,` `grid` `=` `[` $grid `]` `,` `block` `=` `[` $block `]` `,` `shared` `=` $shared `>`
  }];
  let genVerifyDecl = 1;
}

def FP8_FillAttr : FP8_Attr<"Fill", "fill"> {
  let summary = "zeros that a kernel's first launch finds";
  let description = [{
    `#fp8.fill<buffer = 2, bytes = 16384>`: the first `bytes` bytes of what the pointer argument number `buffer` points to
    (operands, then results, then the workspace) are zeroed before the kernel's first launch.

    * (C1) `buffer` is not negative, `bytes` is at least 1.
  }];
  let parameters = (ins "int64_t":$buffer, "int64_t":$bytes);
  let assemblyFormat = "`<` `buffer` `=` $buffer `,` `bytes` `=` $bytes `>`";
  let genVerifyDecl = 1;
}

def FP8_E5M6Type : FP8_Type<"E5M6", "e5m6"> {
  let summary = "a floating-point number of 12 bits";
  let description = [{
    The element type of `tensor<64x128x!fp8.e5m6, #fp8.tensor<scale = [1, 128], pow2>>`: the upper 12 bits of an IEEE
    half: a sign, 5 bits of exponent (bias 15), 6 of mantissa; the largest finite value is 65024, the smallest normal one
    2^-14. DeepSeek-V3 keeps the result of attention in it. Two neighbours in a row take three bytes, little endian, the
    even one in the lower 12 bits. `fp8.cast` makes such tensors and `fp8.dequantize` reads them; they can be cut by rows,
    kept and copied to host memory, and no matmul or collective takes them.
  }];
}

def FP8_TokenType : FP8_Type<"Token", "token"> {
  let summary = "completion of a collective or a copy that was started";
}

def FP8_HostType : FP8_Type<"Host", "host"> {
  let summary = "a tensor that lies in host memory";
  let description = [{
    `!fp8.host<tensor<64x32xbf16>>`: what `fp8.offload_start` makes and `fp8.prefetch_start` reads. It takes no bytes of
    the device, and on a placed function as many of `fp8.host_bytes` as its tensor has.
  }];
  let parameters = (ins "::mlir::RankedTensorType":$tensor);
  let assemblyFormat = "`<` $tensor `>`";
}

#endif // FP8_DIALECT_FP8_IR_FP8ATTRS_TD
