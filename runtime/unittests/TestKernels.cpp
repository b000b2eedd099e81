//===- TestKernels.cpp - Kernels of the tests' artifacts ------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Built as a shared object that the tests put into artifacts by hand. Every
// vector has 64 floats (256 bytes). The names say what a kernel does wrong.
//
//===----------------------------------------------------------------------===//

namespace {
constexpr int kCount = 64;
const float *in(void *const *args, int i) {
  return static_cast<const float *>(args[i]);
}
float *out(void *const *args, int i) { return static_cast<float *>(args[i]); }
} // namespace

extern "C" {

/// args: in, out
void twice(void *const *args) {
  for (int i = 0; i < kCount; ++i)
    out(args, 1)[i] = 2.0f * in(args, 0)[i];
}

/// args: in, out; NaN where in is zero
void ratio(void *const *args) {
  for (int i = 0; i < kCount; ++i)
    out(args, 1)[i] = in(args, 0)[i] / in(args, 0)[i];
}

/// args: a, b, out
void add(void *const *args) {
  for (int i = 0; i < kCount; ++i)
    out(args, 2)[i] = in(args, 0)[i] + in(args, 1)[i];
}

/// args: in, state; state += in
void accumulate(void *const *args) {
  for (int i = 0; i < kCount; ++i)
    out(args, 1)[i] += in(args, 0)[i];
}

/// args: state; state /= 2
void halve(void *const *args) {
  for (int i = 0; i < kCount; ++i)
    out(args, 0)[i] *= 0.5f;
}

/// args: in, out; writes only the first half of out
void twice_half(void *const *args) {
  for (int i = 0; i < kCount / 2; ++i)
    out(args, 1)[i] = 2.0f * in(args, 0)[i];
}

/// args: in, out; also writes the float after out
void twice_past_end(void *const *args) {
  twice(args);
  out(args, 1)[kCount] = 1.0f;
}

/// args: in, out; also writes 1024 floats after the start of out
void twice_far(void *const *args) {
  twice(args);
  out(args, 1)[1024] = 1.0f;
}

/// args: in, out; also writes the float before out
void twice_before(void *const *args) {
  twice(args);
  out(args, 1)[-1] = 1.0f;
}

/// args: in, out; also changes in
void twice_and_touch(void *const *args) {
  twice(args);
  out(args, 0)[5] = 1.0f;
}

/// args: in, out; out = what out held before + in
void read_own_result(void *const *args) {
  for (int i = 0; i < kCount; ++i)
    out(args, 1)[i] += in(args, 0)[i];
}

/// args: in, out; does nothing
void nothing(void *const *) {}
}
