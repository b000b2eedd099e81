# ===- __init__.py - oracles in Python ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# NumPy implementations that the test suite compares compiled steps with. They share nothing with the compiler but the
# written definitions: docs/architecture.md, docs/artifact.md and the reference of the recipes.
#
# ===----------------------------------------------------=== #
"""Oracles for the test suite. Needs NumPy and ml_dtypes (the extra `fp8opt[testing]`)."""
