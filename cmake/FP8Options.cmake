# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compile options shared by the compiler and the runtime.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-deprecated-declarations -fno-strict-aliasing)
if(FP8_ENABLE_ASSERTIONS)
  add_compile_options(-UNDEBUG)
endif()
if(FP8_ENABLE_SANITIZERS)
  add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
endif()
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A precompiled header needs these: its time stamp and its macros are no part of the key.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${CCACHE_PROGRAM})
endif()
