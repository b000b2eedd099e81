//===- CudaGemm.cpp - Matmuls through cuBLASLt ----------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CudaGemmRules.h says how our operands become cuBLASLt's. Its scales are
// factors that it multiplies by, ours are the multipliers of the cast: a small
// kernel writes their reciprocals into the workspace before each matmul.
//
//===----------------------------------------------------------------------===//

#include "CudaGemm.h"

#include "CudaGemmRules.h"
#include "DeviceKernels.h"

#include <algorithm>

using namespace fp8rt;

namespace {

/// Arguments are aligned to this at least (fp8rt.h).
constexpr uint64_t kAlignment = 16;

cudaDataType_t dataType(DType type) {
  switch (type) {
  case DType::BF16:
    return CUDA_R_16BF;
  case DType::F8E4M3FN:
    return CUDA_R_8F_E4M3;
  case DType::F8E5M2:
    return CUDA_R_8F_E5M2;
  case DType::F32:
    return CUDA_R_32F;
  case DType::I32: // refused when the artifact is loaded
  case DType::I8:
    break;
  }
  return CUDA_R_32I;
}

cublasLtMatmulMatrixScale_t scaleMode(FactorMode mode) {
  switch (mode) {
  case FactorMode::None:
  case FactorMode::Scalar:
    break;
  case FactorMode::OuterVector:
    return CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  case FactorMode::Vec128:
    return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
  case FactorMode::Block128:
    return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  }
  return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
}

/// Bytes that an operand `offset` elements into its storage is aligned to.
uint32_t alignmentOf(const Operand &operand) {
  uint64_t bytes =
      static_cast<uint64_t>(operand.offset) * dtypeBytes(operand.dtype);
  uint64_t low = bytes & (~bytes + 1);
  return static_cast<uint32_t>(low == 0 ? kAlignment
                                        : std::min(low, kAlignment));
}

} // namespace

namespace fp8rt {

/// One matmul and cuBLASLt's descriptions of it.
class CudaGemmTask : public Task {
public:
  CudaGemmTask(CudaGemmLibrary &library, const GemmCommand &gemm)
      : library(library), lt(library.lt), device(library.device), gemm(gemm) {}

  ~CudaGemmTask() override {
    for (cublasLtMatrixLayout_t matrix : {first, second, c, d})
      if (matrix)
        lt.cublasLtMatrixLayoutDestroy(matrix);
    if (description)
      lt.cublasLtMatmulDescDestroy(description);
  }

  bool prepare(uint64_t workspaceBytes, std::string &error) {
    return layoutCudaGemm(gemm, workspaceBytes, layout, error) &&
           describe(error) && chooseAlgorithm(error);
  }

  bool run(void *const *addresses, void *stream, std::string &error) override {
    CudaDevice::Scope scope(device);
    auto *a = elementOf(gemm.a, addresses[0]);
    auto *b = elementOf(gemm.b, addresses[1]);
    auto *result = elementOf(gemm.d, addresses[2]);
    auto *workspace = static_cast<unsigned char *>(addresses[3]);
    size_t next = 4;
    auto *accumulator = gemm.c ? elementOf(*gemm.c, addresses[next++]) : result;
    for (size_t i = 0; i < next; ++i)
      if (reinterpret_cast<uintptr_t>(addresses[i]) % kAlignment != 0) {
        error = "expected storage aligned to 16 bytes";
        return false;
      }
    const void *scaleA = gemm.scaleA ? addresses[next++] : nullptr;
    const void *scaleB = gemm.scaleB ? addresses[next++] : nullptr;
    if ((scaleA || scaleB) &&
        !makeFactors(scaleA, scaleB, workspace, stream, error))
      return false;
    float one = 1.0f, beta = gemm.c ? 1.0f : 0.0f;
    return lt.check(
        "cublasLtMatmul",
        lt.cublasLtMatmul(library.handle, description, &one, b, first, a,
                          second, &beta, accumulator, c, result, d, &algorithm,
                          workspace + layout.libraryOffset, layout.libraryBytes,
                          static_cast<cudaStream_t>(stream)),
        error);
  }

private:
  static unsigned char *elementOf(const Operand &operand, void *base) {
    return static_cast<unsigned char *>(base) +
           operand.offset * dtypeBytes(operand.dtype);
  }

  template <typename T>
  bool set(cublasLtMatmulDescAttributes_t attribute, const T &value,
           std::string &error) {
    return lt.check("cublasLtMatmulDescSetAttribute",
                    lt.cublasLtMatmulDescSetAttribute(description, attribute,
                                                      &value, sizeof(value)),
                    error);
  }

  bool create(cublasLtMatrixLayout_t &out, DType type,
              const ColumnMajor &matrix, std::string &error) {
    return lt.check("cublasLtMatrixLayoutCreate",
                    lt.cublasLtMatrixLayoutCreate(
                        &out, dataType(type),
                        static_cast<uint64_t>(matrix.rows),
                        static_cast<uint64_t>(matrix.columns), matrix.leading),
                    error);
  }

  bool describe(std::string &error) {
    auto operation = [](const ColumnMajor &matrix) {
      return static_cast<int32_t>(matrix.transposed ? CUBLAS_OP_T
                                                    : CUBLAS_OP_N);
    };
    if (!lt.check("cublasLtMatmulDescCreate",
                  lt.cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F,
                                              CUDA_R_32F),
                  error) ||
        !set(CUBLASLT_MATMUL_DESC_TRANSA, operation(layout.first), error) ||
        !set(CUBLASLT_MATMUL_DESC_TRANSB, operation(layout.second), error))
      return false;
    auto fast = static_cast<int8_t>(gemm.fastAccum);
    if (fast && !set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast, error))
      return false;
    if (layout.factorsB.mode != FactorMode::None &&
        !setScale(CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
                  CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, layout.factorsB, error))
      return false;
    if (layout.factorsA.mode != FactorMode::None &&
        !setScale(CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
                  CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, layout.factorsA, error))
      return false;
    return create(first, gemm.b.dtype, layout.first, error) &&
           create(second, gemm.a.dtype, layout.second, error) &&
           create(d, gemm.d.dtype, layout.d, error) &&
           create(c, gemm.d.dtype, gemm.c ? layout.c : layout.d, error);
  }

  bool setScale(cublasLtMatmulDescAttributes_t mode,
                cublasLtMatmulDescAttributes_t pointer,
                const FactorLayout &factors, std::string &error) {
    auto value = static_cast<int32_t>(scaleMode(factors.mode));
    // Some address: the heuristic asks whether there is one.
    const void *placeholder = reinterpret_cast<const void *>(uintptr_t(256));
    return set(mode, value, error) && set(pointer, placeholder, error);
  }

  /// All that the algorithm may depend on.
  std::string key() const {
    std::string text;
    auto add = [&](uint64_t value) { text += std::to_string(value) + ' '; };
    for (int64_t size : {gemm.m, gemm.n, gemm.k})
      add(static_cast<uint64_t>(size));
    for (const ColumnMajor *matrix :
         {&layout.first, &layout.second, &layout.c, &layout.d}) {
      add(static_cast<uint64_t>(matrix->leading));
      add(matrix->transposed);
    }
    for (const Operand *operand : {&gemm.a, &gemm.b, &gemm.d}) {
      add(static_cast<uint64_t>(operand->dtype));
      add(alignmentOf(*operand));
    }
    add(gemm.c ? alignmentOf(*gemm.c) : 0);
    add(static_cast<uint64_t>(layout.factorsA.mode));
    add(static_cast<uint64_t>(layout.factorsB.mode));
    add(gemm.fastAccum);
    add(layout.libraryBytes);
    return text;
  }

  bool chooseAlgorithm(std::string &error) {
    std::lock_guard<std::mutex> lock(library.mutex);
    std::string text = key();
    auto known = library.algorithms.find(text);
    if (known != library.algorithms.end()) {
      algorithm = known->second;
      return true;
    }
    cublasLtMatmulPreference_t preference = nullptr;
    if (!lt.check("cublasLtMatmulPreferenceCreate",
                  lt.cublasLtMatmulPreferenceCreate(&preference), error))
      return false;
    bool found = ask(preference, error);
    lt.cublasLtMatmulPreferenceDestroy(preference);
    if (found)
      library.algorithms.emplace(text, algorithm);
    return found;
  }

  bool ask(cublasLtMatmulPreference_t preference, std::string &error) {
    uint64_t workspace = layout.libraryBytes;
    const Operand &accumulator = gemm.c ? *gemm.c : gemm.d;
    auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute,
                      auto value) {
      return lt.check("cublasLtMatmulPreferenceSetAttribute",
                      lt.cublasLtMatmulPreferenceSetAttribute(
                          preference, attribute, &value, sizeof(value)),
                      error);
    };
    if (!prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace) ||
        !prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                alignmentOf(gemm.b)) ||
        !prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                alignmentOf(gemm.a)) ||
        !prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                alignmentOf(accumulator)) ||
        !prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                alignmentOf(gemm.d)))
      return false;
    cublasLtMatmulHeuristicResult_t result{};
    int count = 0;
    cublasStatus_t status = lt.cublasLtMatmulAlgoGetHeuristic(
        library.handle, description, first, second, c, d, preference, 1,
        &result, &count);
    if (status == CUBLAS_STATUS_SUCCESS && count > 0 &&
        result.state == CUBLAS_STATUS_SUCCESS) {
      algorithm = result.algo;
      return true;
    }
    error = "cuBLASLt " + std::to_string(lt.cublasLtGetVersion()) +
            " has no algorithm for m " + std::to_string(gemm.m) + ", n " +
            std::to_string(gemm.n) + ", k " + std::to_string(gemm.k) + ", " +
            dtypeName(gemm.a.dtype) + " x " + dtypeName(gemm.b.dtype) + " to " +
            dtypeName(gemm.d.dtype) + ", scale of a " +
            factorModeName(layout.factorsA.mode) + ", of b " +
            factorModeName(layout.factorsB.mode);
    if (status != CUBLAS_STATUS_SUCCESS)
      error += std::string(" (") + lt.cublasLtGetStatusName(status) + ")";
    return false;
  }

  static FactorOperand factorOperand(const FactorLayout &factors,
                                     const std::optional<ScaleOperand> &scale,
                                     const void *base,
                                     unsigned char *workspace) {
    if (!base)
      return {};
    return {static_cast<const float *>(base) + scale->offset,
            reinterpret_cast<float *>(workspace + factors.offset),
            factors.slow,
            factors.fast,
            factors.pitch,
            factors.slowStride,
            factors.fastStride};
  }

  /// Writes the factors of both operands and points cuBLASLt at them.
  bool makeFactors(const void *scaleA, const void *scaleB,
                   unsigned char *workspace, void *stream, std::string &error) {
    FactorParameters parameters{
        {factorOperand(layout.factorsA, gemm.scaleA, scaleA, workspace),
         factorOperand(layout.factorsB, gemm.scaleB, scaleB, workspace)}};
    auto count = [](const FactorLayout &factors) {
      return static_cast<uint64_t>(factors.slow) *
             static_cast<uint64_t>(factors.pitch);
    };
    if (!device.launch(device.factors, parameters,
                       std::max(count(layout.factorsA), count(layout.factorsB)),
                       2, stream, error))
      return false;
    const void *ofA = parameters.operands[0].out;
    const void *ofB = parameters.operands[1].out;
    return (!ofB || set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, ofB, error)) &&
           (!ofA || set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, ofA, error));
  }

  CudaGemmLibrary &library;
  const CublasLt &lt;
  const CudaDevice &device;
  const GemmCommand &gemm;
  CudaGemmLayout layout;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, c = nullptr,
                         d = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

} // namespace fp8rt

std::unique_ptr<CudaGemmLibrary> CudaGemmLibrary::open(const CudaDevice &device,
                                                       std::string &error) {
  const CublasLt *lt = cublasLt(error);
  if (!lt)
    return nullptr;
  std::unique_ptr<CudaGemmLibrary> library(new CudaGemmLibrary(device, *lt));
  CudaDevice::Scope scope(device);
  if (!lt->check("cublasLtCreate", lt->cublasLtCreate(&library->handle), error))
    return nullptr;
  return library;
}

CudaGemmLibrary::~CudaGemmLibrary() {
  CudaDevice::Scope scope(device);
  if (handle)
    lt.cublasLtDestroy(handle);
}

std::unique_ptr<Task> CudaGemmLibrary::prepare(const GemmCommand &gemm,
                                               uint64_t workspaceBytes,
                                               std::string &error) {
  CudaDevice::Scope scope(device);
  auto task = std::make_unique<CudaGemmTask>(*this, gemm);
  if (!task->prepare(workspaceBytes, error))
    return nullptr;
  return task;
}
