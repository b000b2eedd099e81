# ===- builder.py - programs as textual IR ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes functions of fp8, arith and math ops as text. Every op carries a name, so that plans name tensors as the model
# does, and the line of the user's program that asked for it, so that an error of the compiler points there. Pure Python:
# no MLIR, no NumPy. The compiler is what verifies; the builder only infers result types and refuses what it cannot infer.
#
# ===----------------------------------------------------=== #
"""A builder of fp8-opt input programs.

    module = Module()
    f = module.function("ffn")
    x = f.argument("x", tensor("bf16", 512, 256))
    w = f.argument("w", tensor("bf16", 1024, 256), "fp8.parameter")
    f.returns(f.linear(x, w, Rowwise(), name="y") * 2.0)
    print(module)
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from .ops import Ops
from .recipes import Recipe, parse_recipe
from .syntax import Attribute, Location, caller, dictionary, quoted, to_attribute
from .tensor_types import TensorType, tensor
from .values import Op, Region, Value, make_id

__all__ = ["Function", "Module", "Step"]

# The state operands of a linear with a `delayed` recipe, in the order of `fp8.linear`.
DELAYED_ROLES = ("x", "w", "dy")

# The length of the amax histories of a recipe given by its name only.
DEFAULT_HISTORY = 16


class Function(Ops):
    """A function: forward only, or with a `step` (a joint forward and backward). Made by `Module.function`; ended by
    `returns`. The ops are methods (see `fp8opt.ops.Ops`), and operators of values."""

    def __init__(self, name: str, locations: bool):
        self.name = name
        self.arguments: List[Value] = []
        self.results: List[Value] = []
        self._argument_text: List[str] = []
        self._result_text: List[str] = []
        self._locations = locations
        self._here: Optional[Location] = None
        self._prefix = ""
        self._names: set = set()
        self._ids: set = set()
        self._body = Region("the function", None)
        self._region = self._body
        self._step: Optional[Step] = None

    # Arguments and results.

    def argument(self, name: str, type: TensorType, *marks: str, shard: Optional[Sequence[str]] = None,
                 coordinate: Optional[str] = None, rows_per_group: Optional[int] = None) -> Value:
        """Appends an argument. `marks` are unit attributes: `fp8.parameter`, `fp8.tangent`, `fp8.state`, `fp8.donated`,
        `fp8.frozen`. `shard` names, for each dimension, the grid axis along which the ranks hold parts of it, or "";
        `coordinate` an axis whose coordinate of this rank the argument holds, i32 of one element; `rows_per_group` how many
        rows the groups have in test runs whose offsets it holds, i32 of rank 1."""
        value = self._value(name, type, self._body)
        entries: Dict[str, Any] = dict.fromkeys(marks)
        if shard:
            entries["fp8.shard"] = list(shard)
        if coordinate:
            entries["fp8.coordinate"] = coordinate
        if rows_per_group is not None:
            entries["fp8.rows_per_group"] = rows_per_group
        attributes = f" {dictionary(entries)}" if entries else ""
        self._argument_text.append(f"{value}: {type}{attributes} {self._location(value.name)}")
        self.arguments.append(value)
        return value

    def parameter(self, name: str, type: TensorType, *marks: str) -> Value:
        """Appends an argument marked `fp8.parameter`: resident, and saving it costs nothing."""
        return self.argument(name, type, "fp8.parameter", *marks)

    def delayed_state(self, name: str, history: int = DEFAULT_HISTORY) -> List[Value]:
        """Appends the six state arguments of one linear with a `delayed` recipe: history and scale of x, of w and of
        dy, named `NAME.x_history`, `NAME.x_scale` and so on."""
        state = []
        for role in DELAYED_ROLES:
            state.append(self.argument(f"{name}.{role}_history", tensor("f32", history), "fp8.state"))
            state.append(self.argument(f"{name}.{role}_scale", tensor("f32", 1, 1), "fp8.state"))
        return state

    def returns(self, *results: Value, placement: Optional[str] = None,
                names: Optional[Sequence[str]] = None, shard: Optional[Sequence[str]] = None) -> None:
        """Ends the function. `placement`, `arena` or `caller`, says where results lie (None leaves the default);
        `names` gives them other names than those of the values; `shard` is as for arguments, the same for all."""
        if self.results:
            raise ValueError(f"function '{self.name}' has returned already")
        if not results:
            raise ValueError(f"expected function '{self.name}' to return at least one value")
        if names is not None and len(names) != len(results):
            raise ValueError(f"expected {len(results)} names of results, but got {len(names)}")
        used = [self._use(value) for value in results]
        for index, value in enumerate(used):
            attributes = {"fp8.name": names[index]} if names is not None else {}
            if placement:
                attributes["fp8.placement"] = placement
            if shard:
                attributes["fp8.shard"] = list(shard)
            self._result_text.append(f"{value.type}{f' {dictionary(attributes)}' if attributes else ''}")
        types = ", ".join(str(value.type) for value in used)
        self._region.lines.append(Op(f"return {_join(used)}", f": {types}", {}, self._location(None)))
        self.results = list(used)

    # Names and places.

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Puts `NAME.` before the names of the values and arguments made inside."""
        outer, self._prefix = self._prefix, f"{self._prefix}{name}."
        try:
            yield
        finally:
            self._prefix = outer

    @contextlib.contextmanager
    def location(self, file: str, line: int, column: int = 1) -> Iterator[None]:
        """Gives the ops made inside this place, instead of the line that calls the builder: for programs that are made
        from others."""
        outer, self._here = self._here, Location(file, line, column)
        try:
            yield
        finally:
            self._here = outer

    # Ops by name, and joint programs.

    def op(self, name: str, operands: Sequence[Value], types: Sequence[TensorType],
           attributes: Optional[Mapping[str, Any]] = None, value_name: Optional[str] = None) -> List[Value]:
        """Appends any op of a dialect that fp8-opt knows, in MLIR's generic form, and gives its results.

        `attributes` are Python values (`fp8opt.syntax.to_attribute`) or `Attribute("...")`. The results are named
        `value_name`, else as the op without its dialect."""
        used = [self._use(value) for value in operands]
        head = f"{quoted(name)}({_join(used)})"
        inputs, outputs = (", ".join(str(entry) for entry in entries)
                           for entries in ([value.type for value in used], types))
        tail = f": ({inputs}) -> {outputs if len(types) == 1 else f'({outputs})'}"
        return self._append(value_name or name.split(".", 1)[-1], types, head, tail, attributes)

    def step(self) -> Step:
        """Begins the joint forward and backward program of this function, one `fp8.step`."""
        if self._step is not None:
            raise ValueError(f"function '{self.name}' has a step already")
        self._step = Step(self)
        return self._step

    def mark(self, value: Value, **attributes: Any) -> Value:
        """Sets discardable attributes `fp8.KEY` on the op that made `value`, such as `checkpoint=None` (a unit) or
        `policy="save"`; gives the value."""
        if value.op is None:
            raise ValueError(f"expected the result of an op, but '{value.name}' is an argument")
        value.op.attributes.update({f"fp8.{key}": entry for key, entry in attributes.items()})
        return value

    def rename(self, value: Value, name: str) -> Value:
        """Gives the op that made `value` another name and this place; gives the value."""
        if value.op is None:
            raise ValueError(f"expected the result of an op, but '{value.name}' is an argument")
        value.op.location = self._location(name)
        return value

    def __str__(self) -> str:
        if not self.results:
            raise ValueError(f"function '{self.name}' does not return")
        results = ", ".join(self._result_text)
        if len(self.results) > 1 or "{" in results:
            results = f"({results})"
        arguments = ",\n".join(f"    {text}" for text in self._argument_text)
        opening = f"func.func @{_symbol(self.name)}(\n{arguments})" if arguments else f"func.func @{_symbol(self.name)}()"
        return f"{opening} -> {results} {{\n{self._body.text(1)}\n}}"

    # For the methods of Ops.

    def _linear_recipe(self, recipe: Union[Recipe, str], state: Sequence[Value]) -> Recipe:
        parsed = parse_recipe(recipe)
        expected = 6 if parsed.history else 0
        if len(state) != expected:
            raise ValueError(f"expected {expected} state arguments with the {parsed.kind} recipe, but got {len(state)}")
        return parsed

    def _use(self, value: Value) -> Value:
        """`value` as an operand here: itself, or the residual that brings it to the backward region."""
        if not isinstance(value, Value):
            raise ValueError(f"expected a value of the builder, but got a {type(value).__name__}")
        if value.function is not self:
            raise ValueError(f"expected a value of function '{self.name}', but '{value.name}' is one of "
                             f"'{value.function.name}'")
        if self._step is not None and value.region is self._step._forward and self._region is self._step._backward:
            return self._step._residual(value)
        region: Optional[Region] = self._region
        while region is not None and region is not value.region:
            region = region.parent
        if region is None:
            raise ValueError(f"expected a value that can be seen from {self._region.name}, but '{value.name}' is one of "
                             f"{value.region.name}")
        return value

    def _value(self, name: str, type: TensorType, region: Region, op: Optional[Op] = None) -> Value:
        full = self._prefix + name
        if not full or any(character < " " for character in full):
            raise ValueError(f"expected a name of printable characters, but got {full!r}")
        unique, count = full, 0
        while unique in self._names:
            count += 1
            unique = f"{full}_{count}"
        self._names.add(unique)
        return Value(unique, type, self, region, self._identifier(unique), op)

    def _identifier(self, name: str) -> str:
        identifier = make_id(name, self._ids)
        self._ids.add(identifier)
        return identifier

    def _append(self, name: str, types: Sequence[TensorType], head: str, tail: str,
                attributes: Optional[Mapping[str, Any]] = None) -> List[Value]:
        """Appends an op with results of `types` where the builder stands."""
        if self.results:
            raise ValueError(f"function '{self.name}' has returned already")
        op = Op(head, tail, dict(attributes or {}), "")
        if types:
            first = self._value(name, types[0], self._region, op)
            head = f"%{first.id}{f':{len(types)}' if len(types) > 1 else ''} = {head}"
            op.location = self._location(first.name)
        else:
            op.location = self._location(self._prefix + name)
        op.head = head
        self._region.lines.append(op)
        if len(types) <= 1:
            return [first] if types else []
        return [Value(f"{first.name}#{index}", type, self, self._region, f"{first.id}#{index}", op)
                for index, type in enumerate(types)]

    def _location(self, name: Optional[str]) -> str:
        place = self._here or (caller() if self._locations else None)
        if name is None:
            return f"loc({place})" if place else ""
        return f"loc({quoted(name)}({place}))" if place else f"loc({quoted(name)})"


class Step:
    """The joint program of a function: a forward and a backward region, written in this order.

        step = f.step()
        with step.forward():
            y = ...
            step.yields(y)
        with step.backward():       # values of forward are kept for it where it uses them
            step.yields(dx, dw)
        f.returns(*step.results)
    """

    def __init__(self, function: Function):
        self._function = function
        self._forward = Region("the forward region", function._body)
        self._backward = Region("the backward region", function._body)
        self._yielded: Dict[Region, List[Value]] = {}
        self._residuals: Dict[Value, Value] = {}
        #: The values of the function that the step gives: those of the forward region, then those of the backward one.
        self.results: List[Value] = []

    @contextlib.contextmanager
    def forward(self) -> Iterator[None]:
        """What is appended inside belongs to the forward region."""
        if self._forward.lines or self._yielded:
            raise ValueError("the forward region has been written already")
        with self._inside(self._forward):
            yield

    @contextlib.contextmanager
    def backward(self) -> Iterator[None]:
        """What is appended inside belongs to the backward region; leaving it ends the step."""
        if self._forward not in self._yielded or self.results:
            raise ValueError("expected the forward region to have been written, and the backward one not")
        with self._inside(self._backward):
            yield
        self._finish()

    def yields(self, *values: Value) -> None:
        """Ends the region that is being written with its results."""
        region = self._function._region
        if region not in (self._forward, self._backward) or region in self._yielded:
            raise ValueError("expected a region of the step that has not yielded yet")
        self._yielded[region] = [self._function._use(value) for value in values]

    def keep(self, *values: Value) -> None:
        """Makes values of the forward region residuals, in this order, before the backward region uses them."""
        for value in values:
            if value.region is not self._forward:
                raise ValueError(f"expected a value of the forward region, but '{value.name}' is one of "
                                 f"{value.region.name}")
            self._residual(value)

    @contextlib.contextmanager
    def _inside(self, region: Region) -> Iterator[None]:
        outer, self._function._region = self._function._region, region
        try:
            yield
        finally:
            self._function._region = outer
        if region not in self._yielded:
            raise ValueError(f"{region.name} does not yield: end it with step.yields(...)")

    def _residual(self, value: Value) -> Value:
        if value not in self._residuals:
            identifier = self._function._identifier(f"{value.id.replace('#', '_')}_r")
            self._residuals[value] = Value(value.name, value.type, self._function, self._backward, identifier, None)
        return self._residuals[value]

    def _finish(self) -> None:
        function = self._function
        residuals = list(self._residuals.items())
        yielded = self._yielded[self._forward] + self._yielded[self._backward]
        types = [value.type for value in yielded]
        kept = ", ".join(str(value) for value, _ in residuals)
        kept_types = ", ".join(str(value.type) for value, _ in residuals)
        for region, extra in ((self._forward, (kept, kept_types)), (self._backward, ("", ""))):
            head, tail = _yield(self._yielded[region], *extra)
            region.lines.append(Op(head, tail, {}, function._location(None)))
        arguments = ", ".join(f"{inner}: {inner.type}" for _, inner in residuals)
        text = (f"fp8.step -> ({', '.join(str(entry) for entry in types)}) forward {{\n{self._forward.text(2)}\n"
                f"  }} backward ({arguments}) {{\n{self._backward.text(2)}\n  }}")
        self.results = function._append("step", types, text, "")
        # Plans name its values by what is yielded.
        function._region.lines[-1].location = function._location(None)


class Module:
    """A sequence of functions, with optional module attributes: Python values, or MLIR's syntax as strings.

    `locations=False` leaves the lines of the user's program out, so that the text is the same wherever it was made."""

    def __init__(self, attributes: Optional[Mapping[str, Any]] = None, *, grid: Optional[Mapping[str, int]] = None,
                 locations: bool = True):
        self.attributes: Dict[str, Any] = {key: Attribute(value) if isinstance(value, str) else value
                                           for key, value in (attributes or {}).items()}
        if grid is not None:
            self.attributes["fp8.grid"] = dict(grid)
        self.functions: List[Function] = []
        self._locations = locations

    def function(self, name: str) -> Function:
        """Appends a function."""
        if any(function.name == name for function in self.functions):
            raise ValueError(f"the module has a function '{name}' already")
        self.functions.append(Function(name, self._locations))
        return self.functions[-1]

    def __str__(self) -> str:
        text = "\n\n".join(str(function) for function in self.functions)
        if not self.attributes:
            return text + "\n"
        attributes = ", ".join(f"{key} = {to_attribute(value)}" for key, value in self.attributes.items())
        return f"module attributes {{{attributes}}} {{\n{text}\n}}\n"


def _yield(values: Sequence[Value], kept: str, kept_types: str) -> Tuple[str, str]:
    """What stands before and after the attributes of an `fp8.yield`."""
    types = ", ".join(str(value.type) for value in values)
    head = f"fp8.yield{f' {_join(values)}' if values else ''}{f' residuals({kept})' if kept else ''}"
    return head, f"{f': {types}' if types else ''}{f' residuals({kept_types})' if kept else ''}"


def _symbol(name: str) -> str:
    plain = name.isidentifier() and name.isascii()
    return name if plain else quoted(name)


def _join(values: Sequence[Value]) -> str:
    return ", ".join(str(value) for value in values)
