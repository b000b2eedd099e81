# ===- __init__.py - audit of memory snapshots ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Reads what PyTorch recorded of a run's memory and compares it with a plan.
#
# ===--------------------------------------------------------===#
"""Audit of memory snapshots."""
