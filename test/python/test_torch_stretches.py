# ===- test_torch_stretches.py - which stretch an operation runs in ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The minimum cut between two stretches against all ways to divide them, on random graphs. Skipped where torch is not installed.
#
# ===--------------------------------------------------------------------------=== #

import itertools
import random

import pytest

torch = pytest.importorskip("torch")

from fp8opt.apply.stretches import move_earlier


def graph_of(edges, sizes, results):
    """A graph of operations: `edges[k]` are the operands of the k-th node, which is an input where it has none."""
    graph, nodes = torch.fx.Graph(), []
    for index, operands in enumerate(edges):
        node = (graph.call_function(torch.add, tuple(nodes[operand] for operand in operands), name=f"n{index}") if operands
                else graph.placeholder(f"n{index}"))
        node.meta["val"] = torch.empty(sizes[index], dtype=torch.uint8, device="meta")
        nodes.append(node)
    graph.output(tuple(nodes[index] for index in results))
    return torch.fx.GraphModule(torch.nn.Module(), graph), nodes


def test_gradients_of_weights_do_not_wait():
    """`w` reads large values of the first stretch, and is small; what stands between is not run by it."""
    #        x     big    a    b (PyTorch's)  w        y
    edges = [[], [0], [1], [2], [1], [3]]
    module, nodes = graph_of(edges, [1, 100, 10, 10, 5, 1], [4, 5])
    x, big, a, b, w, y = nodes
    assert move_earlier(module, [{w, y}, {big, a}]) == [{y}, {big, a, w}]
    # Not where it is no gain.
    module, (x, big, a, b, w, y) = graph_of(edges, [1, 5, 10, 10, 100, 1], [4, 5])
    assert move_earlier(module, [{w, y}, {big, a}]) == [{w, y}, {big, a}]


@pytest.mark.parametrize("seed", range(60))
def test_no_division_holds_less(seed):
    """Two stretches around one operation of PyTorch: of all ways to run operations of the second one early, the least bytes."""
    draw = random.Random(seed)
    count = draw.randint(3, 6)
    # Two inputs, then the first stretch, the middle operation, the second stretch.
    edges = [[], []]
    first = list(range(2, 2 + count))
    for index in first:
        edges.append(sorted(draw.sample(range(index), draw.randint(1, min(2, index)))))
    middle = len(edges)
    edges.append([draw.choice(first)])
    second = list(range(middle + 1, middle + 1 + draw.randint(3, 7)))
    for index in second:
        edges.append(sorted(draw.sample(range(index), draw.randint(1, 3))))
    edges[second[-1]] = sorted({*edges[second[-1]], middle})
    sizes = [draw.choice([1, 2, 5, 20, 50]) for _ in edges]
    results = sorted({second[-1], *draw.sample(second, 2)})
    module, nodes = graph_of(edges, sizes, results)
    early, late = move_earlier(module, [{nodes[index] for index in first}, {nodes[index] for index in second}],
                               {"n0", "n1"})
    assert early | late == {nodes[index] for index in first + second} and not early & late
    def cost(chosen):
        before = {*nodes[:2], *(nodes[index] for index in first), *chosen}
        return sum(node.meta["val"].numel() for node in before
                   if any(user not in before and user is not nodes[middle] for user in node.users))

    behind = {middle}
    for index in second:
        if set(edges[index]) & behind:
            behind.add(index)
    free = [nodes[index] for index in second if index not in behind]
    closed = [set(chosen) for size in range(len(free) + 1) for chosen in itertools.combinations(free, size)
              if all(operand in chosen or operand not in free for node in chosen for operand in node.all_input_nodes)]
    assert cost(early - {nodes[index] for index in first}) == min(map(cost, closed))
