//===- GpuRanksTest.cpp - The kernels of collectives on a GPU -------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One GPU is enough: what NCCL would have brought lies in memory. Sums of many
// ranks and strided pieces must be those that the CPU makes. Needs a GPU;
// skipped elsewhere. Runs on several GPUs are test/gpu/run_ranks.sh's.
//
//===----------------------------------------------------------------------===//

#include "RunHarness.h"

#include "CudaDevice.h"
#include "DeviceKernels.h"
#include "Exchange.h"

#include <cmath>
#include <cstring>

using namespace fp8rt;
using namespace fp8rt::test;

namespace {

class GpuRanks : public testing::Test {
protected:
  void SetUp() override {
    if (!missingGpu().empty())
      GTEST_SKIP() << missingGpu();
    device = CudaDevice::open(error);
    ASSERT_TRUE(device) << error;
  }
  void TearDown() override {
    for (CUdeviceptr pointer : memories)
      device->driver.cuMemFree(pointer);
  }

  unsigned char *upload(const std::vector<unsigned char> &bytes) {
    CudaDevice::Scope scope(*device);
    CUdeviceptr pointer = 0;
    device->driver.cuMemAlloc(&pointer, bytes.size());
    device->driver.cuMemcpyHtoD(pointer, bytes.data(), bytes.size());
    memories.push_back(pointer);
    return reinterpret_cast<unsigned char *>(pointer);
  }
  std::vector<unsigned char> download(const void *data, size_t bytes) {
    CudaDevice::Scope scope(*device);
    std::vector<unsigned char> result(bytes);
    EXPECT_EQ(
        device->driver.cuMemcpyDtoH(result.data(), deviceAddress(data), bytes),
        CUDA_SUCCESS);
    return result;
  }

  std::string error;
  std::unique_ptr<CudaDevice> device;
  std::vector<CUdeviceptr> memories;
};

TEST_F(GpuRanks, SumsAndMaximaOfManyRanksHaveTheHostsBits) {
  const int64_t count = 40013;
  const size_t members = 5;
  for (DType type : {DType::F32, DType::BF16})
    for (ReduceKind kind : {ReduceKind::Sum, ReduceKind::Max})
      for (bool inBF16 : {false, true}) {
        if (kind == ReduceKind::Max && inBF16)
          continue;
        CollectiveCommand command;
        command.dtype = type;
        command.shape = {count};
        command.strides = {1};
        command.reduce = kind;
        command.sumsInBF16 = inBF16;
        Exchange exchange(command, {0, 1, 2, 3, 4}, 2);
        size_t bytes = count * dtypeBytes(type);
        size_t slot = (bytes + 255) / 256 * 256;
        std::vector<unsigned char> pieces(members * slot), own(bytes);
        std::vector<const unsigned char *> sent;
        for (size_t m = 0; m < members; ++m) {
          unsigned char *piece = pieces.data() + m * slot;
          fillInput(piece, type, count, Init::Normal, 3.0f, splitmix64(m));
          // Signed zeros meet in one place, and nothing but in another.
          storeInput(piece, type, 7, m % 2 ? 0.0f : -0.0f);
          storeInput(piece, type, 8, -0.0f);
          sent.push_back(piece);
        }
        std::vector<unsigned char> expected(bytes);
        exchange.unpack(expected.data(), sent, 0, count);
        // The own piece is not where the others are.
        std::memcpy(own.data(), pieces.data() + 2 * slot, bytes);
        std::memset(pieces.data() + 2 * slot, 0xFF, slot);
        unsigned char *target = upload(std::vector<unsigned char>(bytes));
        ReduceParameters parameters{upload(pieces),
                                    upload(own),
                                    target,
                                    count,
                                    slot,
                                    members,
                                    2,
                                    type == DType::BF16,
                                    kind == ReduceKind::Max,
                                    inBF16};
        CudaDevice::Scope scope(*device);
        ASSERT_TRUE(device->launch(device->reduce, parameters, count, 1,
                                   nullptr, error))
            << error;
        EXPECT_EQ(download(target, bytes), expected)
            << dtypeName(type) << ' ' << int(kind) << inBF16;
      }
}

TEST_F(GpuRanks, ANaNIsTheMaximumAndTheSum) {
  float quiet = std::nanf("");
  std::vector<unsigned char> pieces(512), own(16);
  float values[2][4] = {{quiet, 1, 2, -INFINITY}, {3, quiet, 1, -INFINITY}};
  std::memcpy(pieces.data(), values[0], 16);
  std::memcpy(own.data(), values[1], 16);
  for (uint32_t isMax : {0, 1}) {
    unsigned char *target = upload(std::vector<unsigned char>(16));
    ReduceParameters parameters{
        upload(pieces), upload(own), target, 4, 256, 2, 1, 0, isMax, 0};
    CudaDevice::Scope scope(*device);
    ASSERT_TRUE(
        device->launch(device->reduce, parameters, 4, 1, nullptr, error));
    std::vector<unsigned char> got = download(target, 16);
    uint32_t bits[4];
    std::memcpy(bits, got.data(), 16);
    float expected[2] = {isMax ? 2.0f : 3.0f, -INFINITY};
    EXPECT_EQ(bits[0], 0x7FC00000u);
    EXPECT_EQ(bits[1], 0x7FC00000u);
    EXPECT_EQ(std::memcmp(&bits[2], expected, 8), 0);
  }
}

TEST_F(GpuRanks, StridedPiecesAreThoseOfTheHost) {
  // 3 ranks; the piece of each is a part of the last dimension but one.
  for (int64_t row : {16, 10, 7})
    for (DType type : {DType::F32, DType::BF16, DType::F8E4M3FN}) {
      CollectiveCommand command;
      command.dtype = type;
      command.shape = {5, 6, row};
      command.strides = {6 * row, row, 1};
      command.split = 1;
      command.concat = 2;
      Exchange exchange(command, {0, 1, 2}, 1);
      const ExchangeGeometry &geometry = exchange.geometry();
      size_t elements = 5 * 6 * static_cast<size_t>(row);
      size_t width = dtypeBytes(type);
      std::vector<unsigned char> source(elements * width);
      for (size_t i = 0; i < source.size(); ++i)
        source[i] = static_cast<unsigned char>(splitmix64(i));
      auto first = static_cast<int64_t>(row), last = exchange.elementCount();
      size_t bytes = static_cast<size_t>(last - first) * width;
      std::vector<unsigned char> packed(bytes);
      exchange.pack(source.data(), 2, first, last, packed.data());
      unsigned char *strided = upload(source);
      unsigned char *dense = upload(std::vector<unsigned char>(bytes));
      ExchangeParameters parameters{};
      parameters.strided =
          strided + 2 * geometry.sourceStep * static_cast<int64_t>(width);
      parameters.dense = dense;
      parameters.first = static_cast<uint64_t>(first);
      parameters.count = static_cast<uint64_t>(last - first);
      parameters.width = static_cast<uint32_t>(width);
      parameters.rank = static_cast<uint32_t>(geometry.shape.size());
      parameters.toDense = 1;
      parameters.run = geometry.run;
      for (size_t d = 0; d < geometry.shape.size(); ++d) {
        parameters.shape[d] = geometry.shape[d];
        parameters.strides[d] = geometry.sourceStrides[d];
      }
      CudaDevice::Scope scope(*device);
      ASSERT_TRUE(device->launch(device->exchange, parameters, parameters.count,
                                 1, nullptr, error));
      EXPECT_EQ(download(dense, bytes), packed) << row << dtypeName(type);
      // And back, into another place of an empty tensor.
      unsigned char *copy =
          upload(std::vector<unsigned char>(elements * width));
      parameters.strided =
          copy + 2 * geometry.sourceStep * static_cast<int64_t>(width);
      parameters.toDense = 0;
      ASSERT_TRUE(device->launch(device->exchange, parameters, parameters.count,
                                 1, nullptr, error));
      std::vector<unsigned char> back = download(copy, elements * width);
      std::vector<unsigned char> again(bytes);
      exchange.pack(back.data(), 2, first, last, again.data());
      EXPECT_EQ(again, packed) << row << dtypeName(type);
    }
}

} // namespace
