//===- TestKernels.cu - Right and wrong kernels for a GPU -----------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels of TestKernels.cpp, launched as one block of 64 threads, a float
// each. The names say what a kernel does wrong.
//
//===----------------------------------------------------------------------===//

extern "C" {

__global__ void twice(const float *in, float *out) {
  out[threadIdx.x] = 2.0f * in[threadIdx.x];
}

/// NaN where in is zero.
__global__ void ratio(const float *in, float *out) {
  out[threadIdx.x] = in[threadIdx.x] / in[threadIdx.x];
}

__global__ void add(const float *a, const float *b, float *out) {
  out[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
}

__global__ void accumulate(const float *in, float *state) {
  state[threadIdx.x] += in[threadIdx.x];
}

__global__ void halve(float *state) { state[threadIdx.x] *= 0.5f; }

__global__ void twice_half(const float *in, float *out) {
  if (threadIdx.x < 32)
    out[threadIdx.x] = 2.0f * in[threadIdx.x];
}

__global__ void twice_past_end(const float *in, float *out) {
  out[threadIdx.x] = 2.0f * in[threadIdx.x];
  if (threadIdx.x == 0)
    out[64] = 1.0f;
}

__global__ void twice_far(const float *in, float *out) {
  out[threadIdx.x] = 2.0f * in[threadIdx.x];
  if (threadIdx.x == 0)
    out[1024] = 1.0f;
}

__global__ void twice_before(const float *in, float *out) {
  out[threadIdx.x] = 2.0f * in[threadIdx.x];
  if (threadIdx.x == 0)
    out[-1] = 1.0f;
}

__global__ void twice_and_touch(float *in, float *out) {
  out[threadIdx.x] = 2.0f * in[threadIdx.x];
  if (threadIdx.x == 5)
    in[5] = 1.0f;
}

__global__ void read_own_result(const float *in, float *out) {
  float own = out[threadIdx.x];
  // Sums here do not keep the bits of a NaN.
  out[threadIdx.x] = own != own ? own : own + in[threadIdx.x];
}

__global__ void nothing(const float *, float *) {}

/// Adds every element into the first of out, which was zeroed before.
__global__ void total(const float *in, float *out) {
  atomicAdd(out, in[threadIdx.x]);
}

/// The second launch of `total`: out[i] = out[0] + i.
__global__ void spread(const float *, float *out) {
  float sum = out[0];
  __syncthreads();
  out[threadIdx.x] = sum + static_cast<float>(threadIdx.x);
}

/// Keeps 64 KiB of dynamic shared memory busy: out = in, reversed.
__global__ void reverse(const float *in, float *out) {
  extern __shared__ float tile[];
  tile[16383 - threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[16320 + threadIdx.x];
}

/// Not a kernel of ours: one parameter is no pointer.
__global__ void scaled(float factor, float *out) { out[threadIdx.x] = factor; }

/// Reads an address that is nobody's.
__global__ void fault(const float *in, float *out) {
  out[threadIdx.x] = in[threadIdx.x + (1ull << 50)];
}
}
