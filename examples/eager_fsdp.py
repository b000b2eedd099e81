# ===- eager_fsdp.py - FSDP layers as an eager framework runs them ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The feed-forward stack under FSDP with its backward and its casts written out, op by op, as torchao's rowwise recipe
# records them without a compiler: maxima through abs and max, which backward reads again for the columns. gen.py prints
# it with --casts=weights and --casts=all; its results are those of the stack of linears, bit for bit.
#
# ===---------------------------------------------------------------------=== #
"""One `fp8.step` of feed-forward layers with sharded weights, whose casts go through abs and max."""

from fp8opt import Module, Value, tensor

# The scale of torchao's rowwise recipe.
SCALE = {"format": "f8E4M3FN", "division": "double", "eps": 1e-12}

__all__ = ["eager_fsdp_stack"]


class Linear:
    """y = x w^T, both cast by rows; its gradients with everything cast along the other axis."""

    def __init__(self, f, x: Value, w: Value, name: str, written: str):
        self.f, self.x, self.w, self.name = f, x, w, name
        # What the maxima are taken of. Every linear takes the abs of its own operands, of shared ones too.
        self.x_abs = self.absolute(x, f"{name}.x") if written == "all" else None
        self.w_abs = self.absolute(w, f"{name}.w")
        self.y = self.product(self.cast(x, 1, f"{name}.x.row", self.x_abs), self.cast(w, 1, f"{name}.w.row", self.w_abs),
                              name)

    def absolute(self, value: Value, name: str) -> Value:
        return self.f.elementwise("math.absf", value, name=f"{name}.abs")

    def cast(self, value: Value, axis: int, name: str, absolute: Value = None):
        """`value` with a scale for all that lies along `axis`, and the scales."""
        group = [0 if dim == axis else 1 for dim in range(2)]
        amax = (self.f.amax(value, group, name=f"{name}.amax") if absolute is None
                else self.f.reduce("max", absolute, [axis], element="f32", name=f"{name}.amax"))
        scale = self.f.scale(amax, name=f"{name}.scale", **SCALE)
        return self.f.cast(value, scale, "f8E4M3FN", group, name=f"{name}.e4m3"), scale

    def product(self, a, b, name: str) -> Value:
        """a times the transpose of b."""
        (a, a_scale), (b, b_scale) = a, b
        transposed = [self.f.permute(value, [1, 0], name=f"{value.name}.t") for value in (b, b_scale)]
        return self.f.matmul(a, transposed[0], scales=(a_scale, transposed[1]), fast_accum=True, name=name)

    def input_gradient(self, dy: Value) -> Value:
        dy, dy_scale = self.cast(dy, 1, f"d_{self.name}.row")
        w, w_scale = self.cast(self.w, 0, f"{self.name}.w.col", self.w_abs)
        return self.f.matmul(dy, w, scales=(dy_scale, w_scale), fast_accum=True, name=f"d_{self.name}.x")

    def weight_gradient(self, dy: Value) -> Value:
        dy, dy_scale = (self.f.permute(value, [1, 0], name=f"{value.name}.t")
                        for value in self.cast(dy, 0, f"d_{self.name}.col"))
        x, x_scale = self.cast(self.x, 0, f"{self.name}.x.col", self.x_abs)
        return self.f.matmul(dy, x, scales=(dy_scale, x_scale), fast_accum=True, name=f"d_{self.name}.w_all")


class Layer:
    """x + w2(silu(w1(x)) * w3(x)) with gathered weights."""

    def __init__(self, f, x: Value, shards, prefix: str, written: str, gather, checkpoint: bool):
        self.f, self.prefix = f, prefix

        def linear(value: Value, key: str, name: str) -> Linear:
            return Linear(f, value, gather(shards[key], f"{prefix}.{key}_all"), f"{prefix}.{name}", written)

        self.gate, self.up = linear(x, "w1", "gate"), linear(x, "w3", "up")
        self.one = f.constant(1.0, tensor("f32", *self.gate.y.shape), name=f"{prefix}.one")
        self.wide = f.extf(self.gate.y, name=f"{prefix}.gate_f32")
        negative = f.elementwise("arith.negf", self.wide, name=f"{prefix}.silu_neg")
        self.exponential = f.elementwise("math.exp", negative, name=f"{prefix}.silu_exp")
        denominator = f.elementwise("arith.addf", self.exponential, self.one, name=f"{prefix}.silu_den")
        self.sigmoid = f.elementwise("arith.divf", self.one, denominator, name=f"{prefix}.sigmoid")
        self.silu = f.truncf(f.elementwise("arith.mulf", self.wide, self.sigmoid, name=f"{prefix}.silu_f32"),
                             name=f"{prefix}.silu")
        act = f.elementwise("arith.mulf", self.silu, self.up.y, name=f"{prefix}.act")
        self.down = linear(act, "w2", "down")
        self.out = f.elementwise("arith.addf", x, self.down.y, name=f"{prefix}.out", checkpoint=checkpoint)

    def backward(self, d_out: Value, scatter):
        """The gradients of x and of the three shards."""
        f, p = self.f, f"d_{self.prefix}"

        def multiply(a: Value, b: Value, name: str) -> Value:
            return f.elementwise("arith.mulf", a, b, name=f"{p}.{name}")

        def shard(linear: Linear, dy: Value, key: str) -> Value:
            return scatter(linear.weight_gradient(dy), f"{p}.{key}")

        d_act = self.down.input_gradient(d_out)
        d_w2 = shard(self.down, d_out, "w2")
        d_silu, d_up = multiply(d_act, self.up.y, "silu"), multiply(d_act, self.silu, "up")
        # Of x * sigmoid(x), as differentiation of its ops has it.
        d_wide = f.extf(d_silu, name=f"{p}.silu_f32")
        direct = multiply(d_wide, self.sigmoid, "direct")
        of_sigmoid = multiply(multiply(multiply(d_wide, self.wide, "sigmoid"), self.sigmoid, "sigmoid_once"), self.sigmoid,
                              "sigmoid_twice")
        of_exponential = multiply(f.elementwise("arith.negf", of_sigmoid, name=f"{p}.silu_den"), self.exponential, "silu_exp")
        d_gate = f.truncf(f.elementwise("arith.addf", f.elementwise("arith.negf", of_exponential, name=f"{p}.silu_neg"), direct,
                                        name=f"{p}.gate_f32"), name=f"{p}.gate")
        d_x_up, d_w3 = self.up.input_gradient(d_up), shard(self.up, d_up, "w3")
        d_x_gate, d_w1 = self.gate.input_gradient(d_gate), shard(self.gate, d_gate, "w1")
        d_x = f.elementwise("arith.addf", f.elementwise("arith.addf", d_x_gate, d_x_up, name=f"{p}.linears"), d_out,
                            name=f"{p}.x")
        return d_x, {"w1": d_w1, "w3": d_w3, "w2": d_w2}


def eager_fsdp_stack(ranks: int, layers: int, tokens: int, dim: int, ffn: int, written: str) -> Module:
    """`@fsdp` on `ranks` ranks of `tokens / ranks` tokens each: `layers` layers, whose `written` casts ("weights", or
    "all" of forward) go through abs and max."""
    module = Module(grid={"fsdp": ranks}, locations=False)
    f = module.function("fsdp")
    sharded = ["fsdp", ""]
    activation = tensor("bf16", tokens // ranks, dim)
    x = f.argument("x", activation, shard=sharded)
    shards = [{key: f.argument(f"layers.{layer}.{key}", tensor("bf16", rows // ranks, columns), "fp8.parameter", shard=sharded)
               for key, rows, columns in (("w1", ffn, dim), ("w3", ffn, dim), ("w2", dim, ffn))} for layer in range(layers)]
    tangent = f.argument(f"d_layers.{layers - 1}.out", activation, "fp8.tangent", shard=sharded)

    def gather(shard: Value, name: str) -> Value:
        return f.all_gather(shard, "fsdp", ranks, name=name)

    def scatter(gradient: Value, name: str) -> Value:
        return f.reduce_scatter(gradient, "fsdp", ranks, name=name)

    step, stack = f.step(), []
    with step.forward():
        value = x
        for layer in range(layers):
            stack.append(Layer(f, value, shards[layer], f"layers.{layer}", written, gather, layer + 1 < layers))
            value = stack[-1].out
        step.yields(value)
    gradients = {}
    with step.backward():
        d_value = tangent
        for index in reversed(range(layers)):
            d_value, gradients[index] = stack[index].backward(d_value, scatter)
        step.yields(d_value, *(gradients[layer][key] for layer in range(layers) for key in ("w1", "w3", "w2")))
    names = [value.name, "d_x"] + [f"d_{name}" for shard in shards for name in (w.name for w in shard.values())]
    f.returns(*step.results, names=names, shard=sharded)
    return module
