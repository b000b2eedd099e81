# RUN: %python %s
# REQUIRES: numpy, ml_dtypes
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scales from a million amax values and the special ones against NumPy, for the rule of each recipe and option."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from interpret import check, finish, run  # noqa: E402

FLT_MAX = np.finfo(np.float32).max
MAX = {"f8E4M3FN": 448.0, "f8E5M2": 57344.0}
RULES = {
    "rowwise (torchao)": ("f8E4M3FN", dict(eps=1e-12, double=True)),
    "rowwise, powers of two": ("f8E4M3FN", dict(eps=1e-12, double=True, pow2="floor")),
    "tensorwise and delayed (TransformerEngine)": ("f8E4M3FN", {}),
    "tensorwise, gradients": ("f8E5M2", {}),
    "block128": ("f8E4M3FN", dict(pow2="floor")),
    "block128, ceil": ("f8E4M3FN", dict(pow2="ceil")),
    "delayed with margin": ("f8E5M2", dict(margin=3)),
    "saturating": ("f8E4M3FN", dict(saturate=True, eps=1e-3)),
}


def expected(amax, name, eps=0.0, double=False, pow2=None, margin=0, saturate=False):
    with np.errstate(all="ignore"):
        a = amax.copy()
        if saturate:
            a[np.isinf(a)] = FLT_MAX
        if double:
            wide = np.maximum(a.astype(np.float64), eps)
            s = np.where(wide == 0, 1.0, MAX[name] / wide).astype(np.float32)
            is_one = wide == 0
        else:
            a = np.maximum(a, np.float32(eps))
            s = (np.float32(MAX[name]) / a).astype(np.float32)
            is_one = a == 0
        s = s * np.float32(2.0**-margin)
        s[np.isinf(s)] = FLT_MAX
        if pow2 == "floor":
            s = (s.view(np.uint32) & np.uint32(0xFF800000)).view(np.float32)
        if pow2 == "ceil":
            s = ((s.view(np.uint32) + np.uint32(0x007FFFFF)) & np.uint32(0xFF800000)).view(np.float32)
        s[is_one] = 1.0
        s[np.isnan(amax)] = np.nan
        if not saturate:
            s[np.isinf(amax)] = np.nan
        return s


def main():
    generator = np.random.default_rng(11)
    count = 1_000_000
    amax = np.exp2(generator.uniform(-149, 128, count)).astype(np.float32)
    amax[:200_000] = np.abs(generator.standard_normal(200_000)).astype(np.float32)
    amax = np.concatenate([amax, np.exp2(np.arange(-149, 128)).astype(np.float32), np.array(
        [0, 1e-12, 9.9e-13, 1e-45, 448, 57344, 447.99997, FLT_MAX, np.inf, np.nan], np.float32)])
    count = len(amax)
    for title, (name, rule) in RULES.items():
        attributes = []
        if "eps" in rule:
            attributes.append(f"eps = {rule['eps']!r} : f64" if "." in repr(rule["eps"]) else f"eps = {rule['eps']:.17e} : f64")
        if rule.get("double"):
            attributes.append("division = #fp8.division<double>")
        if "pow2" in rule:
            attributes.append(f"pow2 = #fp8.pow2<{rule['pow2']}>")
        if "margin" in rule:
            attributes.append(f"margin = {rule['margin']} : i64")
        if rule.get("saturate"):
            attributes.append("nonfinite = #fp8.nonfinite<saturate>")
        braces = "{" + ", ".join(attributes) + "}" if attributes else ""
        (scale,) = run(
            f"func.func @f(%m: tensor<{count}xf32>) -> tensor<{count}xf32> {{\n"
            f"  %s = fp8.scale %m format = {name} {braces} : tensor<{count}xf32>\n"
            f"  return %s : tensor<{count}xf32>\n}}", [amax], [(np.float32, [count])])
        check(title, scale, expected(amax, name, **rule))
    finish()


main()
