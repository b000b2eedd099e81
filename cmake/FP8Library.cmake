# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The one place that says how our code is compiled and linked against MLIR: only the shared libMLIR.so and
# libLLVM.so. A static MLIR library beside them would bring a second copy of every command line option.

# fp8_pch: precompiled upstream headers, built once and reused by every target.
add_library(fp8_pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/PrecompiledHeader.cpp)
target_precompile_headers(fp8_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/PrecompiledHeader.h)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(fp8_pch PRIVATE -Xclang -fno-pch-timestamp)
endif()

function(fp8_configure_target name)
  target_precompile_headers(${name} REUSE_FROM fp8_pch)
  target_compile_options(${name} PRIVATE -fno-exceptions)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${name} PRIVATE -Xclang -fno-pch-timestamp)
  endif()
endfunction()
target_compile_options(fp8_pch PRIVATE -fno-exceptions)

# fp8_add_library(NAME sources... [DEPENDS tablegen-targets...] [LINK libraries...])
function(fp8_add_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  fp8_configure_target(${name})
  add_dependencies(${name} FP8TableGen ${ARG_DEPENDS})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} MLIR LLVM)
endfunction()

# fp8_add_tool(NAME sources... [LINK libraries...])
function(fp8_add_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  fp8_configure_target(${name})
  # As the libraries, not -fPIE: else the precompiled header does not fit.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  add_dependencies(${name} FP8TableGen)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIR LLVM)
endfunction()
