// Encodings, recipes, and the discardable attributes; a label names the constraint.
// RUN: fp8-opt %s -split-input-file -verify-diagnostics

// encoding C1
// expected-error@+1 {{expected element type f8E4M3FN, f8E5M2 or !fp8.e5m6 under a scale, but got 'bf16'}}
func.func private @f(tensor<64x32xbf16, #fp8.tensor<scale = [1, all]>>)

// -----

// encoding C2
// expected-error@+1 {{expected a scale with one entry per dimension (2), but got 1}}
func.func private @f(tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1]>>)

// -----

// encoding C3
// expected-error@+1 {{expected 'all' or a number of at least 1, but got 0}}
func.func private @f(tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, 0]>>)

// -----

// encoding C3
// expected-error@+1 {{expected 'all' or a number of at least 1, but got -3}}
func.func private @f(tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, -3]>>)

// -----

// encoding C4
// expected-error@+1 {{expected bounds with one entry per dimension (2), but got 3}}
func.func private @f(tensor<64x32xbf16, #fp8.tensor<bounds = [64, none, none]>>)

// -----

// encoding C4
// expected-error@+1 {{expected bounds of 'none' or at least the dimension 64, but got 63}}
func.func private @f(tensor<64x32xbf16, #fp8.tensor<bounds = [63, none]>>)

// -----

// encoding C5
// expected-error@+1 {{expected a scale beside 'pow2', but got none}}
func.func private @f(tensor<64x32xbf16, #fp8.tensor<pow2, bounds = [64, none]>>)

// -----

// encoding C5
// expected-error@+1 {{expected a scale beside 'layout', but got none}}
func.func private @f(tensor<64x32xbf16, #fp8.tensor<layout = gemm_ready, bounds = [64, none]>>)

// -----

// encoding C5
// expected-error@+1 {{expected a scale in blocks for 'layout = gemm_ready', but got entries of 1 and 'all' only}}
func.func private @f(tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all], layout = gemm_ready>>)

// -----

// encoding, syntax
// expected-error@+1 {{expected 'scale', 'pow2', 'layout' or 'bounds', but got 'group'}}
func.func private @f(tensor<64x32xf8E4M3FN, #fp8.tensor<group = [1, all]>>)

// -----

// encoding, syntax
// expected-error@+1 {{expected 'compact' or 'gemm_ready', but got 'dense'}}
func.func private @f(tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = dense>>)

// -----

// encoding, syntax
// expected-error@+1 {{expected a scale or bounds}}
func.func private @f(tensor<64x32xf8E4M3FN, #fp8.tensor<pow2>>)

// -----

// encoding, a number beyond 64 bits
// expected-error@+1 {{integer value too large}}
func.func private @f(tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, 99999999999999999999]>>)

// -----

// recipe C1
// expected-error@+1 {{expected format f8E4M3FN or f8E5M2 for 'w', but got 'bf16'}}
module attributes {a = #fp8.recipe<rowwise, w = bf16>} {}

// -----

// recipe C2
// expected-error@+1 {{expected at most one of 'x', 'w' and 'dy' in f8E5M2, since no matmul takes two, but got 'f8E5M2', 'f8E4M3FN', 'f8E5M2'}}
module attributes {a = #fp8.recipe<tensorwise, x = f8E5M2>} {}

// -----

// recipe C3
// expected-error@+1 {{expected no fast accumulation with 'block128', but got 'fast'}}
module attributes {a = #fp8.recipe<block128, fast = [fprop]>} {}

// -----

// recipe, syntax
// expected-error@+1 {{expected 'tensorwise', 'delayed', 'rowwise' or 'block128', but got 'columnwise'}}
module attributes {a = #fp8.recipe<columnwise>} {}

// -----

// recipe, syntax
// expected-error@+1 {{expected 'x', 'w', 'dy', 'pow2' or 'fast', but got 'y'}}
module attributes {a = #fp8.recipe<rowwise, y = f8E5M2>} {}

// -----

// recipe, syntax
// expected-error@+1 {{expected 'none', 'floor' or 'ceil', but got 'round'}}
module attributes {a = #fp8.recipe<rowwise, pow2 = round>} {}

// -----

// recipe, syntax
// expected-error@+1 {{expected 'fprop', 'dgrad' or 'wgrad', but got 'all'}}
module attributes {a = #fp8.recipe<rowwise, fast = [all]>} {}

// -----

// tensors C1, no dimension of 0
func.func @f(%x: tensor<0x32xbf16>) {
  // expected-error@+1 {{expected dimensions of at least 1, but got 'tensor<0x32xbf16>'}}
  %m = fp8.amax %x group = [1, 0] : tensor<0x32xbf16> -> tensor<0x1xf32>
  return
}

// -----

// tensors C1, static
func.func @f(%x: tensor<?x32xbf16>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of bfloat16 type or 32-bit float values, but got 'tensor<?x32xbf16>'}}
  %m = fp8.amax %x group = [1, 0] : tensor<?x32xbf16> -> tensor<64x1xf32>
  return
}

// -----

// tensors C1, where the op itself takes any type
func.func @f(%x: tensor<*xf32>) {
  // expected-error@+1 {{expected a tensor of static shape, but got 'tensor<*xf32>'}}
  %b = fp8.remat_barrier %x id = 0 : tensor<*xf32>
  return
}

// -----

// tensors C2
func.func @f(%x: tensor<16777216x16777217x1xi8>) {
  // expected-error@+1 {{expected a tensor of at most 281474976710656 bytes, but got 'tensor<16777216x16777217x1xi8>'}}
  %p = fp8.permute %x [0, 1, 2] : tensor<16777216x16777217x1xi8> -> tensor<16777216x16777217x1xi8>
  return
}

// -----

// tensors C2, where the product leaves 64 bits
func.func @f(%x: tensor<9223372036854775807x9223372036854775807xbf16>) {
  // expected-error@+1 {{expected a tensor of at most 281474976710656 bytes}}
  %m = fp8.amax %x group = [0, 0] : tensor<9223372036854775807x9223372036854775807xbf16> -> tensor<1x1xf32>
  return
}

// -----

// tensors C2, at the bounds
func.func @f(%x: tensor<64x32xbf16, #fp8.tensor<bounds = [9223372036854775807, none]>>) {
  // expected-error@+1 {{expected a tensor of at most 281474976710656 bytes}}
  %m = fp8.amax %x group = [0, 0] : tensor<64x32xbf16, #fp8.tensor<bounds = [9223372036854775807, none]>> -> tensor<1x1xf32>
  return
}

// -----

// tensors C3
#sparse = #sparse_tensor.encoding<{map = (d0, d1) -> (d0 : dense, d1 : compressed)}>
func.func @f(%x: tensor<64x32xbf16, #sparse>) {
  // expected-error@+1 {{expected '#fp8.tensor' as the encoding of a tensor, but got}}
  %m = fp8.amax %x group = [1, 0] : tensor<64x32xbf16, #sparse> -> tensor<64x1xf32>
  return
}

// -----

// expected-error@+1 {{expected an attribute of the fp8 dialect that an argument may have ('fp8.parameter', 'fp8.tangent', 'fp8.state', 'fp8.donated', 'fp8.frozen', 'fp8.segment', 'fp8.shard', 'fp8.coordinate', 'fp8.rows_per_group'), but got 'fp8.param'}}
func.func private @f(tensor<8xf32> {fp8.param})

// -----

// expected-error@+1 {{argument 1: expected 'fp8.parameter' to be a unit attribute, but got true}}
func.func private @f(tensor<8xf32>, tensor<8xf32> {fp8.parameter = true})

// -----

// expected-error@+1 {{argument 0: expected 'fp8.state' on an f32 tensor, but got it on 'tensor<8xbf16>'}}
func.func private @f(tensor<8xbf16> {fp8.state})

// -----

// expected-error@+1 {{result 0: expected an attribute of the fp8 dialect that a result may have ('fp8.placement', 'fp8.name', 'fp8.counter', 'fp8.segment', 'fp8.shard'), but got 'fp8.parameter'}}
func.func private @f() -> (tensor<8xf32> {fp8.parameter})

// -----

// expected-error@+1 {{result 0: expected 'fp8.name' to be a string that is not empty, but got ""}}
func.func private @f() -> (tensor<8xf32> {fp8.name = ""})

// -----

// expected-error@+1 {{result 0: expected 'fp8.placement' to be "arena" or "caller", but got "stack"}}
func.func private @f() -> (tensor<8xf32> {fp8.placement = "stack"})

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected an attribute of the fp8 dialect that an op may have ('fp8.checkpoint', 'fp8.policy', 'fp8.pieces', 'fp8.offload', 'fp8.lossy', 'fp8.grid', 'fp8.target', 'fp8.part_of', 'fp8.arena_bytes', 'fp8.host_bytes', 'fp8.decisions', 'fp8.index', 'fp8.live', 'fp8.bytes', 'fp8.cost'), but got 'fp8.checkpiont'}}
  %0 = math.exp %x {fp8.checkpiont} : tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'fp8.checkpoint' to be a unit attribute, but got 1 : i64}}
  %0 = math.exp %x {fp8.checkpoint = 1} : tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'fp8.checkpoint' on an op with results, but got it on 'func.return'}}
  return {fp8.checkpoint}
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'fp8.policy' to be "save", "recompute", "offload" or an array of them, but got "keep"}}
  %0 = math.exp %x {fp8.policy = "keep"} : tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'fp8.policy' with one entry per result (1), but got 2}}
  %0 = math.exp %x {fp8.policy = ["save", "save"]} : tensor<8xf32>
  return
}

// -----

// expected-error@+1 {{expected 'fp8.grid' on a module, but got it on 'func.func'}}
func.func private @f() attributes {fp8.grid = {tp = 4 : i64}}

// -----

// expected-error@+1 {{expected 'fp8.grid' to be a dictionary of axis sizes, but got 4 : i64}}
module attributes {fp8.grid = 4} {}

// -----

// expected-error@+1 {{expected grid axis 'tp' to have an i64 size of at least 1, but got 0 : i64}}
module attributes {fp8.grid = {tp = 0}} {}

// -----

// expected-error@+1 {{expected grid axis 'tp' to have an i64 size of at least 1, but got 4 : i8}}
module attributes {fp8.grid = {tp = 4 : i8}} {}

// -----

// expected-error@+1 {{expected 'fp8.target' on a module, but got it on 'func.func'}}
func.func private @f() attributes {fp8.target = "cpu"}

// -----

// expected-error@+1 {{expected 'fp8.target' to be the name of a target, but got ""}}
module attributes {fp8.target = ""} {}

// -----

// expected-error@+1 {{expected 'fp8.arena_bytes' on a function, but got it on 'builtin.module'}}
module attributes {fp8.arena_bytes = 0} {}

// -----

// expected-error@+1 {{expected 'fp8.arena_bytes' to be an i64 that is not negative, but got -1 : i64}}
func.func private @f() attributes {fp8.arena_bytes = -1}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'fp8.index' as its pass writes it (an i64 that is not negative), but got "first"}}
  %0 = math.exp %x {fp8.index = "first"} : tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'fp8.live' as its pass writes it (an i64 that is not negative, or an array), but got "always"}}
  %0 = math.exp %x {fp8.live = "always"} : tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'fp8.cost' as its pass writes it (a dictionary), but got 7 : i64}}
  %0 = math.exp %x {fp8.cost = 7} : tensor<8xf32>
  return
}

// -----

// expected-error@+1 {{expected 'fp8.decisions' on a function, but got it on 'builtin.module'}}
module attributes {fp8.decisions = {}} {}

// -----

// expected-error@+1 {{expected 'fp8.decisions' to be a dictionary, but got 1 : i64}}
func.func private @f() attributes {fp8.decisions = 1}

// -----

// expected-error@+1 {{expected 'grid' of a launch to have 3 entries of at least 1}}
func.func private @f() attributes {a = #fp8.launch<symbol = "k", grid = [1, 1], block = [1, 1, 1], shared = 0>}

// -----

// expected-error@+1 {{expected a block of at most 1024 threads}}
func.func private @f() attributes {a = #fp8.launch<symbol = "k", grid = [1, 1, 1], block = [64, 32, 1], shared = 0>}

// -----

// expected-error@+1 {{expected 'shared' of a launch not to be negative, but got -1}}
func.func private @f() attributes {a = #fp8.launch<symbol = "k", grid = [1, 1, 1], block = [1, 1, 1], shared = -1>}

// -----

// expected-error@+1 {{expected a fill of at least 1 byte of buffer 0 or above, but got 0 of 1}}
func.func private @f() attributes {a = #fp8.fill<buffer = 1, bytes = 0>}

// -----

func.func @f(%x: tensor<32x16xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@+1 {{expected 'fp8.pieces' to be an i64 of at least 1, but got 0 : i64}}
  %0 = fp8.matmul %x, %w {fp8.pieces = 0 : i64} : tensor<32x16xbf16>, tensor<16x8xbf16> -> tensor<32x8xbf16>
  return
}

// -----

func.func @f(%x: tensor<32x16xbf16>) {
  // expected-error@+1 {{expected 'fp8.pieces' on an 'fp8.matmul' or an 'fp8.all_gather', but got it on 'arith.negf'}}
  %0 = arith.negf %x {fp8.pieces = 2 : i64} : tensor<32x16xbf16>
  return
}

// -----

// expected-error@+1 {{argument 0: expected 'fp8.segment' to be "saved" or "deferred", but got "kept"}}
func.func private @f(tensor<8xf32> {fp8.segment = "kept"})

// -----

// expected-error@+1 {{result 0: expected 'fp8.segment' to be "saved" or "deferred", but got 3 : i64}}
func.func private @f() -> (tensor<8xf32> {fp8.segment = 3})

// -----

// expected-error@+1 {{expected 'fp8.part_of' to be the name of a function, but got ""}}
func.func private @f() attributes {fp8.part_of = ""}

// -----

// expected-error@+1 {{expected 'fp8.part_of' on a function, but got it on 'builtin.module'}}
module attributes {fp8.part_of = "f"} {}

// -----

// fp8.shard: one entry a dimension
module attributes {fp8.grid = {tp = 2}} {
  // expected-error@+1 {{argument 0: expected 'fp8.shard' to be an array of strings, one for each dimension of 'tensor<8x4xf32>', but got ["tp"]}}
  func.func @f(%x: tensor<8x4xf32> {fp8.shard = ["tp"]}) {
    return
  }
}

// -----

// fp8.shard: an axis of the grid
module attributes {fp8.grid = {tp = 2}} {
  // expected-error@+1 {{argument 0: expected the axes of 'fp8.shard' in the 'fp8.grid' of the module, but got "dp"}}
  func.func @f(%x: tensor<8x4xf32> {fp8.shard = ["", "dp"]}) {
    return
  }
}

// -----

// fp8.shard: no axis twice
module attributes {fp8.grid = {tp = 2}} {
  // expected-error@+1 {{result 0: expected each axis once in 'fp8.shard', but got ["tp", "tp"]}}
  func.func private @f(%x: tensor<8x4xf32>) -> (tensor<8x4xf32> {fp8.shard = ["tp", "tp"]})
}

// -----

// fp8.shard: strings
module attributes {fp8.grid = {tp = 2}} {
  // expected-error@+1 {{argument 0: expected 'fp8.shard' to be an array of strings, but got [1]}}
  func.func @f(%x: tensor<8xf32> {fp8.shard = [1]}) {
    return
  }
}

// -----

func.func @f(%q: tensor<2x4xf8E5M2, #fp8.tensor<scale = [all, all]>>, %s: tensor<1x1xf32>) {
  // expected-error@+1 {{expected 'fp8.lossy' to be a dictionary with the strings 'value' and 'form' and the i64 'bytes' and 'exact_bytes', but got {form = "e5m2", value = "x"}}}
  %0 = fp8.dequantize %q, %s {fp8.lossy = {form = "e5m2", value = "x"}} : tensor<2x4xf8E5M2, #fp8.tensor<scale = [all, all]>>, tensor<1x1xf32> -> tensor<2x4xbf16>
  return
}

// -----

func.func @f(%x: tensor<32x16xbf16>) {
  // expected-error@+1 {{expected 'fp8.lossy' on an 'fp8.dequantize', but got it on 'arith.negf'}}
  %0 = arith.negf %x {fp8.lossy = {}} : tensor<32x16xbf16>
  return
}

// -----

// fp8.coordinate: an axis of the grid
module attributes {fp8.grid = {tp = 2 : i64}} {
  // expected-error@+1 {{argument 0: expected 'fp8.coordinate' to be an axis in the 'fp8.grid' of the module, but got "dp"}}
  func.func @f(%r: tensor<1x1xi32> {fp8.coordinate = "dp"}) {
    return
  }
}

// -----

// fp8.coordinate: one number
module attributes {fp8.grid = {tp = 2 : i64}} {
  // expected-error@+1 {{argument 0: expected 'fp8.coordinate' on an i32 tensor of one element, but got it on 'tensor<2x1xi32>'}}
  func.func @f(%r: tensor<2x1xi32> {fp8.coordinate = "tp"}) {
    return
  }
}

// -----

// expected-error@+1 {{result 0: expected 'fp8.counter' to be a string that is not empty, but got ""}}
func.func private @f() -> (tensor<1x1xf32> {fp8.counter = ""})

// -----

// expected-error@+1 {{result 0: expected 'fp8.counter' on an f32 tensor of one element, but got it on 'tensor<8xf32>'}}
func.func private @f() -> (tensor<8xf32> {fp8.counter = "x"})

// -----

// encoding C6
// expected-error@+1 {{expected an even last dimension of !fp8.e5m6, two of which take three bytes, but got 33}}
func.func private @f(tensor<64x33x!fp8.e5m6, #fp8.tensor<scale = [1, 128]>>)

// -----

// encoding C6
// expected-error@+1 {{expected a last scale entry of !fp8.e5m6 that is 'all' or even, but got 1}}
func.func private @f(tensor<64x32x!fp8.e5m6, #fp8.tensor<scale = [all, 1]>>)

// -----

// A matmul takes no 12 bits.
func.func @f(%a: tensor<16x32x!fp8.e5m6, #fp8.tensor<scale = [all, all]>>, %s: tensor<1x1xf32>, %b: tensor<32x16xf8E4M3FN, #fp8.tensor<scale = [all, all]>>) -> tensor<16x16xbf16> {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of f8E4M3FN or f8E5M2 or bfloat16 type or 32-bit float values, but got}}
  %0 = fp8.matmul %a, %b scales(%s, %s : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<16x32x!fp8.e5m6, #fp8.tensor<scale = [all, all]>>, tensor<32x16xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<16x16xbf16>
  return %0 : tensor<16x16xbf16>
}
