# ===- gen-kernels.py - kernels for fp8-kernel-test ---------------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Prints a module with one kernel a function: `unfused`, every op alone at sizes
# around the vector length; `fused`, what the planner puts together; `pieces`,
# several kernels that write parts of the same results; `packed`, kernels that make
# and read codes of 12 bits; `heads`, what attention needs around it, of four and five
# dimensions, and sums over outer ones; `random`, random programs of several ops and results
# (seed and count are arguments).
#
# ===--------------------------------------------------------------------------=== #

import random
import sys

SHAPES = [(1, 1), (3, 5), (16, 16), (17, 129), (130, 257), (256, 128), (1, 700), (300, 1), (40, 64)]


def tensor(shape, element, group=None):
    dims = "".join(f"{d}x" for d in shape)
    encoding = ""
    if group is not None:
        entries = ", ".join("all" if g == 0 else str(g) for g in group)
        encoding = f", #fp8.tensor<scale = [{entries}]>"
    return f"tensor<{dims}{element}{encoding}>"


def scale_shape(shape, group):
    return tuple(1 if g == 0 else -(-d // g) for d, g in zip(shape, group))


def groups(shape):
    found = [(0, 0), (1, 0), (0, 1), (1, 128), (128, 1), (128, 128), (1, 1)]
    # An entry is at most its dimension, rounded up to a multiple of it.
    return found


class Kernel:
    """One kernel under construction: arguments, ops, and the values so far."""

    def __init__(self, name):
        self.name, self.arguments, self.lines, self.count = name, [], [], 0

    def argument(self, type):
        self.arguments.append(type)
        return f"%a{len(self.arguments) - 1}"

    def op(self, text, type):
        self.lines.append(f"    %v{self.count} = {text}")
        self.count += 1
        return f"%v{self.count - 1}"

    def text(self, results):
        outer = ", ".join(f"%x{i}: {t}" for i, t in enumerate(self.arguments))
        inner = ", ".join(f"%a{i} = %x{i} : {t}" for i, t in enumerate(self.arguments))
        types = ", ".join(t for _, t in results)
        values = ", ".join(v for v, _ in results)
        n = len(results)
        outs = ", ".join(f"%r#{i}" for i in range(n)) if n > 1 else "%r"
        binding = f"%r:{n}" if n > 1 else "%r"
        bracket = f" ({inner})" if inner else ""
        lines = "\n".join(self.lines)
        return (
            f"func.func @{self.name}({outer}) -> ({types}) {{\n"
            f"  {binding} = fp8.kernel loop{bracket} -> ({types}) {{\n{lines}\n    fp8.yield {values} : {types}\n  }}\n"
            f"  return {outs} : {types}\n}}\n"
        )


def tag(shape):
    return "x".join(map(str, shape))


def elementwise(k, op, args, type, element):
    return k.op(f"{op} {', '.join(args)} : {type}", type)


def unfused(shape):
    name = tag(shape)
    for element in ("bf16", "f32"):
        t = tensor(shape, element)
        for op in ("arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.maximumf", "arith.minimumf"):
            k = Kernel(f"{op.split('.')[1]}_{element}_{name}")
            r = elementwise(k, op, [k.argument(t), k.argument(t)], t, element)
            yield k.text([(r, t)])
        for op in ("arith.negf", "math.absf", "math.exp", "math.log", "math.sqrt", "math.rsqrt", "math.tanh", "math.erf"):
            k = Kernel(f"{op.split('.')[1]}_{element}_{name}")
            r = elementwise(k, op, [k.argument(t)], t, element)
            yield k.text([(r, t)])
        for kind in ("sum", "max"):
            for axes in ([0], [1], [0, 1]):
                for out in ("bf16", "f32"):
                    k = Kernel(f"{kind}_{''.join(map(str, axes))}_{element}_{out}_{name}")
                    result = tuple(1 if i in axes else d for i, d in enumerate(shape))
                    rt = tensor(result, out)
                    r = k.op(f"fp8.reduce {kind} {k.argument(t)} {axes} : {t} -> {rt}", rt)
                    yield k.text([(r, rt)])
        for perm in ([1, 0],):
            k = Kernel(f"transpose_{element}_{name}")
            rt = tensor(tuple(shape[p] for p in perm), element)
            r = k.op(f"fp8.transpose {k.argument(t)} {perm} : {t} -> {rt}", rt)
            yield k.text([(r, rt)])
        for small in sorted({(1, shape[1]), (shape[0], 1), (1, 1)}):
            k = Kernel(f"broadcast_{tag(small)}_{element}_{name}")
            st = tensor(small, element)
            r = k.op(f"fp8.broadcast {k.argument(st)} : {st} -> {t}", t)
            yield k.text([(r, t)])
        k = Kernel(f"pad_{element}_{name}")
        rt = tensor((shape[0] + 3, shape[1] + 18), element)
        r = k.op(f"fp8.pad {k.argument(t)} [2, 1] : {t} -> {rt}", rt)
        yield k.text([(r, rt)])
        if shape[0] > 2 and shape[1] > 2:
            k = Kernel(f"slice_{element}_{name}")
            rt = tensor((shape[0] - 1, shape[1] - 2), element)
            v = k.op(f"fp8.slice {k.argument(t)} [1, 1] : {t} -> {rt}", rt)
            r = elementwise(k, "arith.negf", [v], rt, element)
            yield k.text([(r, rt)])
        k = Kernel(f"reshape_{element}_{name}")
        rt = tensor((shape[0] * shape[1],), element)
        v = elementwise(k, "arith.negf", [k.argument(t)], t, element)
        v = k.op(f"fp8.reshape {v} : {t} -> {rt}", rt)
        yield k.text([(v, rt)])
        k = Kernel(f"select_{element}_{name}")
        bt = tensor(shape, "i1")
        a, b = k.argument(t), k.argument(t)
        c = k.op(f"arith.cmpf oge, {a}, {b} : {t}", bt)
        r = k.op(f"arith.select {c}, {a}, {b} : {bt}, {t}", t)
        yield k.text([(r, t)])
        k = Kernel(f"constant_{element}_{name}")
        c = k.op(f"arith.constant dense<1.5> : {t}", t)
        r = elementwise(k, "arith.mulf", [k.argument(t), c], t, element)
        yield k.text([(r, t)])
        for group in groups(shape):
            st = tensor(scale_shape(shape, group), "f32")
            gname = "_".join(map(str, group))
            k = Kernel(f"amax_{gname}_{element}_{name}")
            r = k.op(f"fp8.amax {k.argument(t)} group = {list(group)} : {t} -> {st}", st)
            yield k.text([(r, st)])
            for f8 in ("f8E4M3FN", "f8E5M2"):
                qt = tensor(shape, f8, group)
                k = Kernel(f"cast_{gname}_{element}_{f8}_{name}")
                r = k.op(f"fp8.cast {k.argument(t)}, {k.argument(st)} : {t}, {st} -> {qt}", qt)
                yield k.text([(r, qt)])
                k = Kernel(f"cast_open_{gname}_{element}_{f8}_{name}")
                r = k.op(f"fp8.cast {k.argument(t)}, {k.argument(st)} {{saturate = false}} : {t}, {st} -> {qt}", qt)
                yield k.text([(r, qt)])
                k = Kernel(f"dequantize_{gname}_{element}_{f8}_{name}")
                r = k.op(f"fp8.dequantize {k.argument(qt)}, {k.argument(st)} : {qt}, {st} -> {t}", t)
                yield k.text([(r, t)])
    narrow, wide = tensor(shape, "bf16"), tensor(shape, "f32")
    k = Kernel(f"extf_{name}")
    yield k.text([(k.op(f"arith.extf {k.argument(narrow)} : {narrow} to {wide}", wide), wide)])
    k = Kernel(f"truncf_{name}")
    yield k.text([(k.op(f"arith.truncf {k.argument(wide)} : {wide} to {narrow}", narrow), narrow)])
    for attributes in (
        "format = f8E4M3FN",
        "format = f8E5M2 {pow2 = #fp8.pow2<floor>}",
        "format = f8E4M3FN {pow2 = #fp8.pow2<ceil>, margin = 3 : i64}",
        "format = f8E4M3FN {eps = 1.0e-12 : f64, division = #fp8.division<double>}",
        "format = f8E5M2 {eps = 1.0e-12 : f64, nonfinite = #fp8.nonfinite<saturate>}",
    ):
        k = Kernel(f"scale_{len(attributes)}_{name}")
        # The operand is an amax: never negative.
        a = k.op(f"math.absf {k.argument(wide)} : {wide}", wide)
        r = k.op(f"fp8.scale {a} {attributes} : {wide}", wide)
        yield k.text([(r, wide)])
    q = tensor(shape, "f8E4M3FN", (1, 0))
    qt = tensor(shape[::-1], "f8E4M3FN", (0, 1))
    k = Kernel(f"transpose_f8_{name}")
    yield k.text([(k.op(f"fp8.transpose {k.argument(q)} [1, 0] : {q} -> {qt}", qt), qt)])


SCALE = "format = f8E4M3FN {eps = 1.0e-12 : f64, division = #fp8.division<double>}"


def quantize(k, x, shape, element, group, f8="f8E4M3FN"):
    """amax, scale and cast of a value: (cast, scale) with their types."""
    t, st, qt = tensor(shape, element), tensor(scale_shape(shape, group), "f32"), tensor(shape, f8, group)
    m = k.op(f"fp8.amax {x} group = {list(group)} : {t} -> {st}", st)
    s = k.op(f"fp8.scale {m} {SCALE.replace('f8E4M3FN', f8)} : {st}", st)
    q = k.op(f"fp8.cast {x}, {s} : {t}, {st} -> {qt}", qt)
    return (q, qt), (s, st)


def fused(shape):
    name = tag(shape)
    t, wide = tensor(shape, "bf16"), tensor(shape, "f32")
    row, column = tensor((shape[0], 1), "f32"), tensor((1, shape[1]), "f32")
    for group in groups(shape):
        gname = "_".join(map(str, group))
        k = Kernel(f"quantize_{gname}_{name}")
        x = elementwise(k, "arith.addf", [k.argument(t), k.argument(t)], t, "bf16")
        q, s = quantize(k, x, shape, "bf16", group)
        yield k.text([q, s, (x, t)])
        k = Kernel(f"quantize_transpose_{gname}_{name}")
        (q, qt), s = quantize(k, k.argument(t), shape, "bf16", group)
        tt = tensor(shape[::-1], "f8E4M3FN", group[::-1])
        r = k.op(f"fp8.transpose {q} [1, 0] : {qt} -> {tt}", tt)
        yield k.text([(r, tt), s])
    # Both casts of a gradient: along rows and along columns.
    k = Kernel(f"both_casts_{name}")
    x = k.argument(t)
    q, s = quantize(k, x, shape, "bf16", (1, 0))
    m = k.op(f"fp8.amax {x} group = [0, 1] : {t} -> {column}", column)
    yield k.text([q, s, (m, column)])
    # SwiGLU, forward and cast.
    k = Kernel(f"swiglu_{name}")
    g, u = k.argument(t), k.argument(t)
    gw = k.op(f"arith.extf {g} : {t} to {wide}", wide)
    e = elementwise(k, "math.exp", [elementwise(k, "arith.negf", [gw], wide, "f32")], wide, "f32")
    one = k.op(f"arith.constant dense<1.0> : {wide}", wide)
    d = elementwise(k, "arith.addf", [e, one], wide, "f32")
    h = elementwise(k, "arith.divf", [gw, d], wide, "f32")
    h = k.op(f"arith.truncf {h} : {wide} to {t}", t)
    h = elementwise(k, "arith.mulf", [h, u], t, "bf16")
    q, s = quantize(k, h, shape, "bf16", (1, 0))
    yield k.text([q, s])
    # Dropout, cast and transposed: the numbers are those of their places, in any order.
    k = Kernel(f"dropout_{name}")
    word, mask = tensor((1, 1), "i32"), tensor(shape, "i1")
    x = k.argument(t)
    seed, offset = (k.op(f"arith.constant dense<{value}> : {word}", word) for value in (-9, 4))
    u = k.op(f"fp8.random {seed}, {offset} {{stream = 5 : i64}} : {word} -> {wide}", wide)
    p, zero = (k.op(f"arith.constant dense<{value}> : {wide}", wide) for value in (0.25, 0.0))
    kept = k.op(f"arith.cmpf oge, {u}, {p} : {wide}", mask)
    xw = k.op(f"arith.extf {x} : {t} to {wide}", wide)
    y = k.op(f"arith.select {kept}, {xw}, {zero} : {mask}, {wide}", wide)
    q, s = quantize(k, y, shape, "f32", (1, 0))
    turned = tensor(shape[::-1], "f32")
    yt = k.op(f"fp8.transpose {y} [1, 0] : {wide} -> {turned}", turned)
    yield k.text([q, s, (yt, turned)])
    # RMS norm with the sum that its backward pass needs.
    k = Kernel(f"rms_norm_{name}")
    x = k.argument(t)
    w = k.argument(tensor((1, shape[1]), "bf16"))
    xw = k.op(f"arith.extf {x} : {t} to {wide}", wide)
    sq = elementwise(k, "arith.mulf", [xw, xw], wide, "f32")
    total = k.op(f"fp8.reduce sum {sq} [1] : {wide} -> {row}", row)
    r = elementwise(k, "math.rsqrt", [total], row, "f32")
    b = k.op(f"fp8.broadcast {r} : {row} -> {wide}", wide)
    n = elementwise(k, "arith.mulf", [xw, b], wide, "f32")
    n = k.op(f"arith.truncf {n} : {wide} to {t}", t)
    wb = k.op(f"fp8.broadcast {w} : {tensor((1, shape[1]), 'bf16')} -> {t}", t)
    y = elementwise(k, "arith.mulf", [n, wb], t, "bf16")
    column_sum = k.op(f"fp8.reduce sum {y} [0] : {t} -> {tensor((1, shape[1]), 'bf16')}", "")
    yield k.text([(y, t), (r, row), (column_sum, tensor((1, shape[1]), "bf16"))])


def randomly(rng, number):
    """A random program over values of the shapes [R, C], [C, R], [R, 1], [1, C], [1, 1]."""
    rows, columns = rng.choice([(5, 7), (33, 40), (130, 48), (64, 272), (257, 130)])
    k = Kernel(f"random_{number}")
    values = []
    for _ in range(rng.randint(1, 3)):
        shape = rng.choice([(rows, columns)] * 4 + [(rows, 1), (1, columns), (1, 1)])
        element = rng.choice(["bf16", "f32"])
        values.append((k.argument(tensor(shape, element)), shape, element))
    results = []
    for _ in range(rng.randint(2, 10)):
        v, shape, element = rng.choice(values)
        t = tensor(shape, element)
        what = rng.randrange(10)
        if what < 3:
            same = [w for w in values if w[1:] == (shape, element)]
            op = rng.choice(["arith.addf", "arith.mulf", "arith.subf", "arith.maximumf"])
            values.append((elementwise(k, op, [v, rng.choice(same)[0]], t, element), shape, element))
        elif what == 3:
            op = rng.choice(["math.exp", "math.tanh", "arith.negf", "math.absf"])
            values.append((elementwise(k, op, [v], t, element), shape, element))
        elif what == 4:
            out = rng.choice(["bf16", "f32"])
            axes = rng.choice([[0], [1], [0, 1]])
            result = tuple(1 if i in axes else d for i, d in enumerate(shape))
            kind = rng.choice(["sum", "max"])
            r = k.op(f"fp8.reduce {kind} {v} {axes} : {t} -> {tensor(result, out)}", "")
            values.append((r, result, out))
        elif what == 5 and 1 in shape:
            full = (rows, columns) if shape in ((1, 1), (rows, 1), (1, columns)) else shape
            r = k.op(f"fp8.broadcast {v} : {t} -> {tensor(full, element)}", "")
            values.append((r, full, element))
        elif what == 6:
            op = rng.choice(["fp8.transpose", "fp8.permute"])
            rt = tensor(shape[::-1], element)
            values.append((k.op(f"{op} {v} [1, 0] : {t} -> {rt}", rt), shape[::-1], element))
        elif what == 7 and element == "f32":
            rt = tensor(shape, "bf16")
            values.append((k.op(f"arith.truncf {v} : {t} to {rt}", rt), shape, "bf16"))
        else:
            group = rng.choice([(1, 0), (0, 1), (0, 0), (1, 128), (128, 128), (128, 1)])
            q, s = quantize(k, v, shape, element, group, rng.choice(["f8E4M3FN", "f8E5M2"]))
            values.append((s[0], scale_shape(shape, group), "f32"))
            if rng.random() < 0.5:
                results.append(q)
                results.append(s)
            else:
                back = k.op(f"fp8.dequantize {q[0]}, {s[0]} : {q[1]}, {s[1]} -> {t}", t)
                values.append((back, shape, element))
    v, shape, element = values[-1]
    results.append((v, tensor(shape, element)))
    v, shape, element = rng.choice(values)
    results.append((v, tensor(shape, element)))
    return k.text(results)


def pieces(shape):
    """A function of several kernels, each of which writes some rows of every result: as they are, one a row, or as
    columns of a transposed result; and the combined maximum of the columns."""
    rows, columns = shape
    cuts = [0, rows // 256 * 128 or rows // 2, rows]
    whole, t = tensor(shape, "bf16"), tensor(shape, "bf16")
    row, column = tensor((rows, 1), "f32"), tensor((1, columns), "f32")
    kinds = [  # name, whole type, where the rows are
        ("h", t, 0), ("w", tensor(shape, "f32"), 0), ("q", tensor(shape, "f8E4M3FN", (1, 0)), 0), ("m", row, 0),
        ("qt", tensor(shape[::-1], "f8E5M2", (1, 0)), 1), ("ht", tensor(shape[::-1], "bf16"), 1)]
    lines, previous, maxima = [], {}, []
    for number, (low, high) in enumerate(zip(cuts, cuts[1:])):
        part = (high - low, columns)
        k = Kernel("")
        x, y, s = (k.argument(a) for a in (whole, whole, column))
        bind = {"%a0": "%x", "%a1": "%y", "%a2": "%s"}
        pt, pw = tensor(part, "bf16"), tensor(part, "f32")
        xs = k.op(f"fp8.slice {x} [{low}, 0] : {whole} -> {pt}", pt)
        ys = k.op(f"fp8.slice {y} [{low}, 0] : {whole} -> {pt}", pt)
        h = elementwise(k, "arith.mulf", [xs, ys], pt, "bf16")
        w = elementwise(k, "math.exp", [k.op(f"arith.extf {h} : {pt} to {pw}", pw)], pw, "f32")
        (q, qt), (scale, st) = quantize(k, h, part, "bf16", (1, 0))
        ct = tensor(part, "f8E5M2", (0, 1))
        cast = k.op(f"fp8.cast {h}, {s} : {pt}, {column} -> {ct}", ct)
        tt, th = tensor(part[::-1], "f8E5M2", (1, 0)), tensor(part[::-1], "bf16")
        qtt = k.op(f"fp8.transpose {cast} [1, 0] : {ct} -> {tt}", tt)
        ht = k.op(f"fp8.transpose {h} [1, 0] : {pt} -> {th}", th)
        amax = k.op(f"fp8.amax {h} group = [0, 1] : {pt} -> {column}", column)
        parts = {"h": (h, pt), "w": (w, pw), "q": (q, qt), "m": (scale, st), "qt": (qtt, tt), "ht": (ht, th)}
        results = []
        for name, type, dim in kinds:
            value, piece = parts[name]
            offsets = [0, low] if dim else [low, 0]
            into = ""
            if number:
                into = f" into({k.argument(type)} : {type})"
                bind[f"%a{len(k.arguments) - 1}"] = previous[name]
            results.append((k.op(f"fp8.update_slice {value} {offsets}{into} : {piece} -> {type}", type), type))
            previous[name] = f"%k{number}#{len(results) - 1}"
        results.append((amax, column))
        maxima.append(f"%k{number}#{len(results) - 1}")
        inner = ", ".join(f"%a{i} = {bind[f'%a{i}']} : {a}" for i, a in enumerate(k.arguments))
        types = ", ".join(a for _, a in results)
        body = "\n".join(k.lines)
        lines.append(f"  %k{number}:{len(results)} = fp8.kernel loop ({inner}) -> ({types}) {{\n{body}\n"
                     f"    fp8.yield {', '.join(v for v, _ in results)} : {types}\n  }}")
    lines.append(f"  %c = fp8.kernel loop (%a = {maxima[0]} : {column}, %b = {maxima[1]} : {column}) -> ({column}) {{\n"
                 f"    %v = arith.maximumf %a, %b : {column}\n    fp8.yield %v : {column}\n  }}")
    types = ", ".join([a for _, a in results[:-1]] + [column])
    values = ", ".join([previous[name] for name, _, _ in kinds] + ["%c"])
    body = "\n".join(lines)
    yield (f"func.func @pieces_{tag(shape)}(%x: {whole}, %y: {whole}, %s: {column}) -> ({types}) {{\n{body}\n"
           f"  return {values} : {types}\n}}\n")


class Line:
    """A function of several kernels that read each other's results."""

    def __init__(self, name, arguments):
        self.name, self.arguments, self.lines, self.count = name, arguments, [], 0

    def kernel(self, inputs, build):
        """Adds a kernel of `inputs`, (value, type) each; `build(kernel, arguments)` gives its results alike."""
        k = Kernel("")
        results = build(k, [(k.argument(type), type) for _, type in inputs])
        inner = ", ".join(f"%a{i} = {value} : {type}" for i, (value, type) in enumerate(inputs))
        types = ", ".join(type for _, type in results)
        body = "\n".join(k.lines)
        self.lines.append(f"  %k{self.count}:{len(results)} = fp8.kernel loop ({inner}) -> ({types}) {{\n{body}\n"
                          f"    fp8.yield {', '.join(value for value, _ in results)} : {types}\n  }}")
        self.count += 1
        return [(f"%k{self.count - 1}#{i}", type) for i, (_, type) in enumerate(results)]

    def text(self, results):
        types = ", ".join(type for _, type in results)
        outer = ", ".join(f"{value}: {type}" for value, type in self.arguments)
        body = "\n".join(self.lines)
        return (f"func.func @{self.name}({outer}) -> ({types}) {{\n{body}\n"
                f"  return {', '.join(value for value, _ in results)} : {types}\n}}\n")


def packed(shape):
    """Tensors of 12 bits an element, made and read: alone, beside other casts, in pieces of rows."""
    rows, columns = shape
    for group, element in (((1, 128), "bf16"), ((0, 0), "f32"), ((1, 0), "bf16"), ((128, 128), "bf16")):
        t, st = tensor(shape, element), tensor(scale_shape(shape, group), "f32")
        qt = tensor(shape, "!fp8.e5m6", group)
        x, y, s = ("%x", t), ("%y", t), ("%s", st)
        line = Line(f"packed_{'_'.join(map(str, group))}_{tag(shape)}", [x, y, s])

        def back(k, inputs):
            (q, qt), (s, st) = inputs
            return [(k.op(f"fp8.dequantize {q}, {s} : {qt}, {st} -> {t}", t), t)]

        def make(k, inputs):
            h = elementwise(k, "arith.mulf", [value for value, _ in inputs], t, element)
            m = k.op(f"fp8.amax {h} group = {list(group)} : {t} -> {st}", st)
            scale = k.op(f"fp8.scale {m} format = !fp8.e5m6 {{pow2 = #fp8.pow2<floor>}} : {st}", st)
            q = k.op(f"fp8.cast {h}, {scale} : {t}, {st} -> {qt}", qt)
            return [(q, qt), (scale, st), (h, t)]

        def given(saturate):
            def build(k, inputs):
                (x, _), (s, _) = inputs
                return [(k.op(f"fp8.cast {x}, {s} {{saturate = {saturate}}} : {t}, {st} -> {qt}", qt), qt)]
            return build

        def requantize(k, inputs):
            value, _ = back(k, inputs)[0]
            (q, qt), scale = quantize(k, value, shape, element, (128, 1))
            tt = tensor(shape[::-1], "f8E4M3FN", (1, 128))
            return [(k.op(f"fp8.transpose {q} [1, 0] : {qt} -> {tt}", tt), tt), scale]

        q, scale, h = line.kernel([x, y], make)
        results = [h, *line.kernel([q, scale], back), *line.kernel([q, scale], requantize)]
        for saturate in ("true", "false"):
            codes, = line.kernel([x, s], given(saturate))
            results += line.kernel([codes, s], back)
        yield line.text(results)
    # Two kernels, each of which makes some rows.
    half = rows // 256 * 128 or rows // 2
    if half == 0:
        return
    t, qt, st = tensor(shape, "bf16"), tensor(shape, "!fp8.e5m6", (1, 0)), tensor((rows, 1), "f32")
    x, s = ("%x", t), ("%s", st)
    line = Line(f"packed_pieces_{tag(shape)}", [x, s])

    def parts_of(low, high):
        part = (high - low, columns)
        return tensor(part, "bf16"), tensor(part, "!fp8.e5m6", (1, 0)), tensor((high - low, 1), "f32")

    def piece(low, high):
        part, pq, ps = parts_of(low, high)

        def build(k, inputs):
            (x, _), (s, _), *whole = inputs
            view = k.op(f"fp8.slice {x} [{low}, 0] : {t} -> {part}", part)
            scale = k.op(f"fp8.slice {s} [{low}, 0] : {st} -> {ps}", ps)
            q = k.op(f"fp8.cast {view}, {scale} : {part}, {ps} -> {pq}", pq)
            into = f" into({whole[0][0]} : {qt})" if whole else ""
            return [(k.op(f"fp8.update_slice {q} [{low}, 0]{into} : {pq} -> {qt}", qt), qt)]
        return build

    def read(k, inputs):
        (q, _), (s, _) = inputs
        part, pq, ps = parts_of(half, rows)
        whole = k.op(f"fp8.dequantize {q}, {s} : {qt}, {st} -> {t}", t)
        view = k.op(f"fp8.slice {q} [{half}, 0] : {qt} -> {pq}", pq)
        scale = k.op(f"fp8.slice {s} [{half}, 0] : {st} -> {ps}", ps)
        return [(whole, t), (k.op(f"fp8.dequantize {view}, {scale} : {pq}, {ps} -> {part}", part), part)]

    begun, = line.kernel([x, s], piece(0, half))
    done, = line.kernel([x, s, begun], piece(half, rows))
    yield line.text(line.kernel([done, s], read))


def heads(tokens, count, width):
    """Kernels of tensors [1, tokens, heads, width] and [1, heads, tokens, width], as a captured graph has them."""
    name = f"{tokens}x{count}x{width}"
    half, columns = width // 2, count * width
    by_token, by_head = (1, tokens, count, width), (1, count, tokens, width)
    flat, table = tensor((tokens * columns,), "bf16"), tensor((tokens, width), "bf16")
    t, th, matrix = tensor(by_token, "bf16"), tensor(by_head, "bf16"), tensor((tokens, columns), "bf16")

    def view(k, op, value, source, result, rest=""):
        return k.op(f"fp8.{op} {value}{rest} : {source} -> {result}", result)

    def rotated(k, x):
        """Heads in order, halves swapped and one negated, by views of the flat memory."""
        last = tensor((tokens, count, width, 1), "bf16")
        half_last, halves = tensor((tokens, count, half, 1), "bf16"), tensor((1, count, tokens, half), "bf16")
        parts = []
        for start, to in ((half, 0), (0, half)):
            part = view(k, "slice", view(k, "reshape", x, flat, last), last, half_last, f" [0, 0, {start}, 0]")
            part = view(k, "permute", part, half_last, halves, " [3, 1, 0, 2]")
            if to == 0:
                part = elementwise(k, "arith.negf", [part], halves, "bf16")
            parts.append(view(k, "pad", part, halves, th, f" [0, 0, 0, {to}]"))
        return elementwise(k, "arith.addf", parts, th, "bf16")

    def spread(k, x, shape, dim):
        small = tuple(size if i in (dim, 3) else 1 for i, size in enumerate(shape))
        value = view(k, "reshape", x, table, tensor(small, "bf16"))
        return view(k, "broadcast", value, tensor(small, "bf16"), tensor(shape, "bf16"))

    k = Kernel(f"rotated_{name}")
    yield k.text([(rotated(k, k.argument(flat)), th)])
    k = Kernel(f"rotary_{name}")
    x, y, cos, sin = k.argument(flat), k.argument(t), k.argument(table), k.argument(table)
    turned = elementwise(k, "arith.mulf", [rotated(k, x), spread(k, sin, by_head, 2)], th, "bf16")
    last = tensor((count, tokens, width, 1), "bf16")
    turned = view(k, "permute", view(k, "reshape", turned, th, last), last, t, " [3, 1, 0, 2]")
    kept = elementwise(k, "arith.mulf", [y, spread(k, cos, by_token, 1)], t, "bf16")
    yield k.text([(elementwise(k, "arith.addf", [kept, turned], t, "bf16"), t)])
    all_kinds = (("sum", "bf16"), ("sum", "f32"), ("max", "bf16"))
    more = ((9, all_kinds[1:2]),) if tokens * columns < 10000 else ()
    for repeats, kinds in ((3, all_kinds), (8, all_kinds[:1]), *more):
        k = Kernel(f"expand_{repeats}_{name}")
        five, one = tensor((1, count, 1, tokens, width), "bf16"), tensor((tokens, count, width, 1, 1), "bf16")
        many = tensor((1, count, repeats, tokens, width), "bf16")
        x = view(k, "permute", view(k, "reshape", k.argument(t), t, one), one, five, " [3, 1, 4, 0, 2]")
        if repeats == 3:
            yield k.text([(view(k, "broadcast", x, five, many), many)])
        for kind, element in kinds:
            k = Kernel(f"{kind}_{repeats}_{element}_{name}")
            x = k.argument(tensor((1, count * repeats, tokens, width), "bf16"))
            x = view(k, "reshape", x, tensor((1, count * repeats, tokens, width), "bf16"), many)
            rt = tensor((1, count, 1, tokens, width), element)
            r = k.op(f"fp8.reduce {kind} {x} [2] : {many} -> {rt}", rt)
            low = tensor((1, count, tokens, width), element)
            r = view(k, "reshape", r, rt, low)
            yield k.text([(elementwise(k, "arith.negf", [r], low, element), low)])
    # Scales and casts of all heads of a token, and of a column of all tokens.
    for group in ((1, 0), (0, 1)):
        k = Kernel(f"cast_{group[0]}_{name}")
        x = view(k, "reshape", k.argument(t), t, matrix)
        (q, qt), s = quantize(k, x, (tokens, columns), "bf16", group)
        tt = tensor((columns, tokens), "f8E4M3FN", group[::-1])
        yield k.text([(q, qt), s] if group[0] else [s, (k.op(f"fp8.transpose {q} [1, 0] : {qt} -> {tt}", tt), tt)])
    for axes in ([0, 1], [1], [1, 2], [2]):
        k = Kernel(f"sum_axes_{''.join(map(str, axes))}_{name}")
        result = tuple(1 if i in axes else size for i, size in enumerate(by_token))
        rt = tensor(result, "f32")
        yield k.text([(k.op(f"fp8.reduce sum {k.argument(t)} {axes} : {t} -> {rt}", rt), rt)])
    k = Kernel(f"amax_outer_{name}")
    rt = tensor((1, -(-tokens // 24), count, width), "f32")
    yield k.text([(k.op(f"fp8.amax {k.argument(t)} group = [1, 24, 1, 1] : {t} -> {rt}", rt), rt)])
    # The backward pass of a norm: sums of rows, then of columns of what they are needed for.
    for element in ("f32", "bf16"):
        k = Kernel(f"norm_backward_{element}_{name}")
        x, g, w = k.argument(matrix), k.argument(matrix), k.argument(tensor((1, columns), "bf16"))
        wide, row = tensor((tokens, columns), "f32"), tensor((tokens, 1), "f32")
        total, column = tensor((tokens, 1), element), tensor((1, columns), "bf16")
        xw = k.op(f"arith.extf {x} : {matrix} to {wide}", wide)
        squares = elementwise(k, "arith.mulf", [xw, xw], wide, "f32")
        r = k.op(f"fp8.reduce sum {squares} [1] : {wide} -> {total}", total)
        if element == "bf16":
            r = k.op(f"arith.extf {r} : {total} to {row}", row)
        r = view(k, "broadcast", elementwise(k, "math.rsqrt", [r], row, "f32"), row, wide)
        n = k.op(f"arith.truncf {elementwise(k, 'arith.mulf', [xw, r], wide, 'f32')} : {wide} to {matrix}", matrix)
        product = elementwise(k, "arith.mulf", [g, n], matrix, "bf16")
        dw = k.op(f"fp8.reduce sum {product} [0] : {matrix} -> {column}", column)
        y = elementwise(k, "arith.mulf", [g, view(k, "broadcast", w, column, matrix)], matrix, "bf16")
        m = k.op(f"fp8.amax {y} group = [0, 1] : {matrix} -> {tensor((1, columns), 'f32')}", "")
        yw = elementwise(k, "arith.mulf", [k.op(f"arith.extf {y} : {matrix} to {wide}", wide), r], wide, "f32")
        s = k.op(f"fp8.reduce sum {yw} [1] : {wide} -> {row}", row)
        d = elementwise(k, "arith.mulf", [xw, view(k, "broadcast", s, row, wide)], wide, "f32")
        d = k.op(f"arith.truncf {d} : {wide} to {matrix}", matrix)
        yield k.text([(dw, column), (m, tensor((1, columns), "f32")), (d, matrix)])
    # Two sums of a row, one of what needs the other.
    k = Kernel(f"two_sums_{name}")
    x, wide, row = k.argument(matrix), tensor((tokens, columns), "f32"), tensor((tokens, 1), "f32")
    for _ in range(2):
        xw = k.op(f"arith.extf {x} : {matrix} to {wide}", wide)
        s = view(k, "broadcast", k.op(f"fp8.reduce sum {xw} [1] : {wide} -> {row}", row), row, wide)
        x = k.op(f"arith.truncf {elementwise(k, 'arith.subf', [xw, s], wide, 'f32')} : {wide} to {matrix}", matrix)
    yield k.text([(x, matrix)])


def main():
    kind = sys.argv[1]
    if kind == "random":
        rng = random.Random(int(sys.argv[2]))
        for number in range(int(sys.argv[3])):
            print(randomly(rng, number))
        return
    if kind == "pieces":
        for shape in [(5, 7), (33, 40), (130, 257), (256, 128), (384, 264), (320, 48)]:
            print(*pieces(shape))
        return
    if kind == "packed":
        for shape in [(3, 6), (17, 130), (130, 256), (256, 128), (40, 72), (1, 700)]:
            print(*packed(shape))
        return
    if kind == "heads":
        # Of vectors; of sizes that are not multiples of one; of fewer elements than vectors are for.
        for sizes in [(33, 4, 128), (19, 5, 24), (300, 1, 40)]:
            print(*heads(*sizes))
        return
    for shape in SHAPES:
        for text in (unfused if kind == "unfused" else fused)(shape):
            print(text)


main()
