# ===- __init__.py - the memory of a rank ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# All that one rank of a job holds.
#
# ===--------------------------------------------------------===#
"""The memory of a rank."""
