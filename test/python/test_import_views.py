# ===- test_import_views.py - strided views against NumPy ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Random chains of transpositions, slices, selections, reshapes and repetitions: the chain that the importer finds for the
# strides, carried out by NumPy, gives NumPy's own view.
#
# ===------------------------------------------------------------------=== #

import math
import random

import numpy as np
import pytest

from fp8opt.importer.views import contiguous, find_chain, physical_order


def random_view(source):
    """A view of a row-major array, and the array."""
    sizes = [source.choice([1, 2, 3, 4, 6]) for _ in range(source.randint(1, 4))]
    flat = np.arange(math.prod(sizes))
    view = flat.reshape(sizes)
    for _ in range(source.randint(1, 5)):
        kind, axis = source.choice("transpose slice insert select repeat".split()), source.randrange(view.ndim)
        if kind == "transpose":
            view = view.transpose(source.sample(range(view.ndim), view.ndim))
        elif kind == "slice":
            start = source.randrange(view.shape[axis])
            stop = source.randint(start + 1, view.shape[axis])
            view = view[(slice(None),) * axis + (slice(start, stop),)]
        elif kind == "insert":
            view = np.expand_dims(view, axis)
        elif kind == "select" and view.ndim > 1:
            view = view[(slice(None),) * axis + (source.randrange(view.shape[axis]),)]
        elif kind == "repeat" and view.shape[axis] == 1:
            view = np.broadcast_to(view, view.shape[:axis] + (3,) + view.shape[axis + 1:])
    return flat, view


def carried_out(flat, chain):
    result = flat.reshape(chain.shape)
    if chain.offset is not None:
        result = result[tuple(slice(start, start + size) for start, size in zip(chain.offset, chain.size))]
    if chain.perm is not None:
        result = result.transpose(chain.perm)
    if chain.dropped is not None:
        result = result.reshape(chain.dropped)
    return result if chain.repeated is None else np.broadcast_to(result, chain.repeated)


@pytest.mark.parametrize("seed", range(4))
def test_random_views(seed):
    source = random.Random(seed)
    for _ in range(2000):
        flat, view = random_view(source)
        offset = (view.__array_interface__["data"][0] - flat.__array_interface__["data"][0]) // flat.itemsize
        chain = find_chain(flat.size, view.shape, [step // flat.itemsize for step in view.strides], offset)
        assert chain is not None
        result = carried_out(flat, chain)
        assert result.shape == view.shape and (result == view).all()


def test_no_chain():
    assert find_chain(6, (4, 3), (1, 1), 0) is None  # windows that overlap
    assert find_chain(10, (2, 2), (5, 3), 0) is None  # strides that do not divide one another


@pytest.mark.parametrize("shape, stride, order", [
    ((2, 3, 4), (12, 4, 1), (0, 1, 2)), ((2, 3, 4), (12, 1, 3), (0, 2, 1)), ((1, 3, 1), (7, 1, 9), (0, 1, 2)),
    ((4, 1, 2), (1, 5, 4), (2, 1, 0)), ((2, 3), (4, 1), None), ((2, 3), (0, 1), None), ((), (), ()),
])
def test_physical_order(shape, stride, order):
    assert physical_order(shape, stride) == order


def test_contiguous():
    assert contiguous((2, 3, 4)) == (12, 4, 1)
