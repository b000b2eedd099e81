// A value may be kept for its first readers only, dropped within a region and computed again for the next ones, several
// times: behind barriers, or the copies would be merged. Here u0 is computed twice in forward and twice in backward, and v5
// is kept, but not for its last reader.
//
// RUN: fp8-opt %s --compile=policy=auto --compile-to=joint | fp8-opt - "--fp8-select-saved=policy=auto budget=376832" --cse \
// RUN:   | FileCheck %s
// RUN: fp8-opt %s --compile=policy=auto,budget=376832 --emit=plan -o %t.json
// RUN: %python %S/../../cases/plan.py %t.json "peak_bytes == 376832" "recomputed['u0'] == 3" "recomputed['v5'] == 1" "'v5' in saved"
// RUN: FileCheck %s --check-prefix=PLAN --input-file=%t.json
//
// The bits are those of the program, and the peak is the planned one.
// RUN: fp8-run %s --policy=auto --budget=376832 --check | FileCheck %s --check-prefix=RUNS

// CHECK: fp8.step
// CHECK: %[[V0:.*]] = fp8.matmul
// CHECK-NEXT: %[[U0:.*]] = arith.mulf %[[V0]],
// CHECK: %[[BARRIER:.*]] = fp8.remat_barrier %[[V0]]
// CHECK: %[[AGAIN:.*]] = arith.mulf %[[BARRIER]],
// CHECK-NEXT: math.tanh %[[AGAIN]]
// CHECK: residuals
// CHECK-COUNT-2: arith.mulf %{{.*}}, %{{.*}} : tensor<64x64xf32>
// PLAN-DAG: frees 16,384 B before 'v1', between forward and backward, before '
// PLAN-DAG: 16,384 B kept; computing it again takes 8.578 us by itself; from 'arith.mulf#2.0' on it is computed again
// RUNS: planned peak   376,832 B
// RUNS: measured peak  376,832 B, equal
// RUNS: equal to the reference bit for bit

func.func @f(%x: tensor<64x64xf32> loc("x")) -> tensor<64x64xf32> {
  %v0 = fp8.matmul %x, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32> loc("v0")
  %u0 = arith.mulf %v0, %x : tensor<64x64xf32> loc("u0")
  %v1 = math.tanh %u0 : tensor<64x64xf32> loc("v1")
  %v2 = fp8.matmul %v1, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32> loc("v2")
  %v3 = fp8.matmul %v2, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32> loc("v3")
  %v4 = math.tanh %v3 : tensor<64x64xf32> loc("v4")
  %u4 = arith.mulf %v4, %u0 : tensor<64x64xf32> loc("u4")
  %v5 = math.tanh %u4 : tensor<64x64xf32> loc("v5")
  %v6 = fp8.matmul %v5, %v3 : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32> loc("v6")
  %v7 = fp8.matmul %v6, %v5 : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32> loc("v7")
  return %v7 : tensor<64x64xf32>
}
