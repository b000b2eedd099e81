//===- FP8OpBase.td - types and traits shared by the op families ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Type constraints and includes that every family of ops needs.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DIALECT_FP8_IR_FP8OPBASE_TD
#define FP8_DIALECT_FP8_IR_FP8OPBASE_TD

include "fp8/Dialect/FP8/IR/FP8Attrs.td"
include "fp8/Interfaces/CostOpInterface.td"
include "fp8/Interfaces/DifferentiableOpInterface.td"
include "fp8/Interfaces/SaveAlternativesInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"

def FP8_F8 : AnyTypeOf<[F8E4M3FN, F8E5M2], "f8E4M3FN or f8E5M2">;
def FP8_AnyTensor : StaticShapeTensorOf<[AnyInteger, AnyFloat]>;
def FP8_HighTensor : StaticShapeTensorOf<[BF16, F32]>;
def FP8_F32Tensor : StaticShapeTensorOf<[F32]>;
def FP8_I32Tensor : StaticShapeTensorOf<[I32]>;
def FP8_F8Tensor : StaticShapeTensorOf<[FP8_F8]>;
def FP8_CastTensor : StaticShapeTensorOf<[FP8_F8, FP8_E5M6Type]>;
def FP8_StoredTensor : StaticShapeTensorOf<[AnyInteger, AnyFloat, FP8_E5M6Type]>;
def FP8_MatmulOperand : StaticShapeTensorOf<[FP8_F8, BF16, F32]>;

// The memory that collectives order themselves by, the state that delayed scaling updates, and host memory.
def FP8_CommunicatorResource : Resource<"::mlir::fp8::CommunicatorResource">;
def FP8_StateResource : Resource<"::mlir::fp8::StateResource">;
def FP8_HostResource : Resource<"::mlir::fp8::HostResource">;
def FP8_ArenaResource : Resource<"::mlir::fp8::ArenaResource">;

#endif // FP8_DIALECT_FP8_IR_FP8OPBASE_TD
