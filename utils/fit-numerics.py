#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fits the polynomial coefficients of docs/numerics.md and prints them as C hex floats.

Each is the polynomial that minimises the largest weighted error on Chebyshev nodes of its interval, found by
Lawson's iteratively reweighted least squares in f64, then rounded to f32 from the lowest degree up, the remaining
coefficients being fitted again after each rounding. Needs NumPy and SciPy. Deterministic.
"""

import math

import numpy as np
from scipy import special


def lawson(x, y, weight, powers):
    """Coefficients c with the least max |weight * (sum c_i x^powers_i - y)|."""
    basis = np.stack([x**p for p in powers], axis=1) * weight[:, None]
    target = y * weight
    lam = np.full(len(x), 1.0 / len(x))
    best, best_error = None, math.inf
    for _ in range(200):
        root = np.sqrt(lam)[:, None]
        c = np.linalg.lstsq(basis * root, target * root[:, 0], rcond=None)[0]
        error = np.abs(basis @ c - target)
        if error.max() < best_error:
            best, best_error = c, error.max()
        lam = lam * error
        lam /= lam.sum()
    return best, best_error


def fit(name, function, weight, low, high, degree):
    nodes = np.cos((np.arange(4000) + 0.5) * np.pi / 4000)
    x = (low + high) / 2 + (high - low) / 2 * nodes
    y, w = function(x), weight(x)
    fixed = []
    for power in range(degree + 1):
        rest = y - sum(c * x**i for i, c in enumerate(fixed))
        c, _ = lawson(x, rest, w, range(power, degree + 1))
        fixed.append(float(np.float32(c[0])))
    error = np.abs((sum(c * x**i for i, c in enumerate(fixed)) - y) * w).max()
    print(f"{name}: weighted error {error:.2e} = 2^{math.log2(error):.1f}")
    for i, c in enumerate(fixed):
        print(f"  c{i} = {c.hex()}f  // {c!r}")


def main():
    half_ln2 = 0.5 * math.log(2) + 1e-6
    # 2 exp(r) = 2 + 2 r + r^2 Q(r)
    fit("exp", lambda r: 2 * np.where(np.abs(r) < 1e-3, 0.5 + r / 6 + r * r / 24, (np.expm1(r) - r) / (r * r)),
        lambda r: 0.5 * r * r / np.exp(r), -half_ln2, half_ln2, 4)

    # log(1 + f) = 2 s + s R(z), s = f / (2 + f), z = s^2, R = z L(z)
    def log_l(z):
        s = np.sqrt(z)
        return np.where(z < 1e-4, 2 / 3 + 2 / 5 * z + 2 / 7 * z * z, (2 * np.arctanh(s) / s - 2) / z)
    fit("log", log_l, lambda z: z, 1e-12, 0.0295, 3)

    # tanh(x) = x + x z T(z), z = x^2
    def tanh_t(z):
        x = np.sqrt(z)
        series = -1 / 3 + 2 / 15 * z - 17 / 315 * z * z
        return np.where(z < 1e-4, series, (np.tanh(x) / x - 1) / z)
    fit("tanh", tanh_t, lambda z: z / (np.tanh(np.sqrt(z)) / np.sqrt(z)), 1e-12, 0.625**2, 4)

    # erf(x) = x + x E(z), z = x^2
    def erf_e(z):
        x = np.sqrt(z)
        return special.erf(x) / x - 1
    fit("erf, small", erf_e, lambda z: 1 / (erf_e(z) + 1), 1e-12, 0.9375**2, 6)

    # erfc(a) = exp(-G(a))
    fit("erf, large", lambda a: -np.log(special.erfc(a)), lambda a: special.erfc(a) / special.erf(a), 0.9375, 4.0, 6)


if __name__ == "__main__":
    main()
