# ===- generic_ir.py - a reader of generic MLIR text ------------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Reads what fp8-opt prints with --mlir-print-op-generic and
# --mlir-print-debuginfo, as far as the checks of plans need it: ops, operands,
# types, attribute text, regions and the names in locations. Shares nothing
# with the compiler.
#
# ===------------------------------------------------------------------------=== #

import dataclasses
import re

# Bits of an element.
_ELEMENT_BITS = {"f32": 32, "bf16": 16, "f8E4M3FN": 8, "f8E5M2": 8, "f64": 64, "i32": 32, "i64": 64, "i1": 8,
                 "fp8.e5m6": 12}


def split_top(text):
    """The parts of `text` between the commas that stand in no bracket."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char in "<([{":
            depth += 1
        elif char in ")]}" or (char == ">" and text[index - 1] != "-"):
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    tail = text[start:].strip()
    return parts + [tail] if tail else parts


def match_bracket(text, start):
    """The index after the bracket that closes the one at `start`; strings are skipped."""
    depth, index, quoted = 0, start, False
    while index < len(text):
        char = text[index]
        if quoted:
            index += char == "\\"
            quoted = char != '"'
        elif char == '"':
            quoted = True
        elif char in "<([{":
            depth += 1
        elif char in ")]}" or (char == ">" and text[index - 1] != "-"):
            depth -= 1
            if depth == 0:
                return index + 1
        index += 1
    raise ValueError(f"no end of the bracket in {text[start:start + 80]!r}")


def shape_of(type_text):
    """The shape of a tensor type, and its element type."""
    dims = re.match(r"tensor<((?:\d+x)*)!?([A-Za-z0-9.]+)", type_text)
    return [int(dim) for dim in dims.group(1).split("x")[:-1]], dims.group(2)


def bytes_of(type_text):
    """Bytes of a tensor type; 0 for a token."""
    if not type_text.startswith("tensor"):
        return 0
    shape, element = shape_of(type_text)
    count = 1
    for dim in shape:
        count *= dim
    return count * _ELEMENT_BITS[element] // 8


@dataclasses.dataclass
class Op:
    """One op. `line` is its place in the text, so that a test can change the line."""

    name: str
    results: list
    operands: list
    line: int
    attributes: str = ""
    operand_types: list = dataclasses.field(default_factory=list)
    result_types: list = dataclasses.field(default_factory=list)
    location: str = ""
    regions: list = dataclasses.field(default_factory=list)
    arguments: list = dataclasses.field(default_factory=list)  # one list a region

    def walk(self):
        """This op and all inside it, in the order of the text."""
        yield self
        for region in self.regions:
            for op in region:
                yield from op.walk()

    def integer(self, key):
        found = re.search(rf"\b{key} = (-?\d+)", self.attributes)
        return int(found.group(1)) if found else None

    def integers(self, key):
        found = re.search(rf"\b{key} = array<i64(?:: ([-\d, ]*))?>", self.attributes)
        return [int(entry) for entry in (found.group(1) or "").split(",") if entry.strip()] if found else None


class Module:
    """A parsed module: `ops` at the top, and names of values as plans give them."""

    def __init__(self, text):
        self.lines = text.splitlines()
        self.locations = {}
        for line in self.lines:
            if found := re.match(r"(#loc\d*) = loc\((.*)\)$", line):
                self.locations[found.group(1)] = found.group(2)
        self._position = 0
        self.ops = self._read_block([])

    # --- reading ------------------------------------------------------------

    def _read_block(self, arguments):
        ops = []
        while self._position < len(self.lines):
            line = self.lines[self._position].strip()
            if line.startswith("}"):
                return ops
            if line.startswith("^bb"):
                inside = line[line.index("(") + 1 : line.rindex(")")]
                arguments.extend(entry.split(":")[0].strip() for entry in split_top(inside))
            elif line.startswith(('"', "%")):
                ops.append(self._read_op())
                continue
            self._position += 1
        return ops

    def _read_op(self):
        index = self._position
        line = self.lines[index].strip()
        results = []
        if line.startswith("%"):
            left, line = line.split(" = ", 1)
            for part in left.split(","):
                name, _, count = part.strip().partition(":")
                results += [f"{name}#{n}" for n in range(int(count))] if count else [name]
        end = line.index('"', 1)
        op = Op(line[1:end], results, [], index)
        close = match_bracket(line, end + 1)
        op.operands = [part for part in split_top(line[end + 2 : close - 1])]
        rest = line[close:].strip()
        if rest.startswith("<"):
            close = match_bracket(rest, 0)
            op.attributes, rest = rest[:close], rest[close:].strip()
        self._position += 1
        while rest in ("({", "}, {"):
            op.arguments.append([])
            op.regions.append(self._read_block(op.arguments[-1]))
            rest = self.lines[self._position].strip()
            self._position += 1
            if rest.startswith("})"):
                rest = rest[2:].strip()
        if rest.startswith("{"):
            close = match_bracket(rest, 0)
            op.attributes += " " + rest[:close]
            rest = rest[close:].strip()
        assert rest.startswith(":"), rest[:80]
        close = match_bracket(rest, 2)
        op.operand_types = split_top(rest[3 : close - 1])
        rest = rest[close:].strip()[2:].strip()
        result_text, _, location = rest.rpartition(" loc(")
        op.location = location[:-1]
        if result_text.startswith("("):
            result_text = result_text[1:-1]
        op.result_types = split_top(result_text)
        return op

    # --- names --------------------------------------------------------------

    def location_name(self, location):
        """The name in a location, or an empty string."""
        location = self.locations.get(location, location)
        if found := re.match(r'"([^"]*)"(?!:)', location):
            return found.group(1)
        if found := re.match(r"callsite\((\S+) at ", location):
            return self.location_name(found.group(1))
        if found := re.match(r"fused(?:<.*>)?\[(.*)\]$", location):
            for part in split_top(found.group(1)):
                if name := self.location_name(part):
                    return name
        return ""

    def functions(self):
        return [op for top in self.ops for op in top.walk() if op.name == "func.func" and op.regions]

    def value_names(self, function):
        """What plans call each op result of `function`: the name of its location, with the number of the result where the
        op has several (tokens aside), and with '2 and so on where an earlier one has the name, views coming last; without
        a name op#ordinal.result. What a kernel yields has the name of the kernel's result, and a wait without one of its own
        that of its operand."""
        plain, counts, taken = {}, {}, set()
        inside, ops, kernels = set(), [], []
        for op in function.walk():
            ordinal = counts.get(op.name, 0)
            counts[op.name] = ordinal + 1
            own = self.location_name(op.location)
            several = sum("token" not in kind for kind in op.result_types) > 1
            for number, result in enumerate(op.results):
                numbered = re.sub(r"^(.*?)(~recomputed.*)?$", rf"\1#{number}\2", own) if several else own
                plain[result] = (numbered, own, f"{op.name}#{ordinal}.{number}")
            if op.name == "fp8.kernel":
                inside.update(id(part) for part in op.walk() if part is not op)
                kernels.append(op)
            if id(op) not in inside:
                ops.append(op)
        for op in kernels:
            plain.update(zip(op.results, (plain.get(inner, ("", "", "")) for inner in op.regions[0][-1].operands)))
        waits = [op for op in ops if op.name == "fp8.wait"
                 and self.location_name(op.location) in ("", plain.get(op.operands[0], ("",))[0])]
        sharing = {id(op) for op in waits}
        ops = [op for op in ops if id(op) not in sharing]
        names = {}

        def give(groups):
            """Names that are free for all values of an op, each given as (value, its plain name)."""
            for number in range(1, 1000000):
                mark = f"'{number}" if number > 1 else ""
                found = {}
                for value, (numbered, own, _) in groups:
                    found[value] = own + mark + numbered[len(own) :] if numbered.startswith(own) else numbered + mark
                if taken.isdisjoint(found.values()):
                    break
            taken.update(found.values())
            names.update(found)

        for op in sorted(ops, key=lambda op: op.name in VIEWS):
            values = [value for value, kind in zip(op.results, op.result_types) if "token" not in kind]
            if op.name == "fp8.kernel":
                for result, inner in zip(op.results, op.regions[0][-1].operands):
                    if result in values and plain[result][0]:
                        give([(result, plain[result])])
                        names[inner] = names[result]
            elif values and plain[values[0]][1]:
                give([(value, plain[value]) for value in values])
        for value, (numbered, _, ordinal) in plain.items():
            names.setdefault(value, numbered or ordinal)
        for op in function.walk():
            if op.name == "fp8.kernel":
                for result, inner in zip(op.results, op.regions[0][-1].operands):
                    names[result] = names[inner]
        for op in waits:
            names[op.results[0]] = names.get(op.operands[0], names[op.results[0]])
        return names

    def kernel_name(self, names, function, op):
        """What plans call a kernel: the name of its first result, else op#ordinal of its first op."""
        if op.results:
            return names[op.results[0]]
        first = op.regions[0][0]
        return f"{first.name}#{[part for part in function.walk() if part.name == first.name].index(first)}"


# Ops that give another name to the storage of their operand.
VIEWS = ("fp8.permute", "fp8.reshape", "fp8.bitcast", "fp8.slice", "fp8.wait", "fp8.remat_barrier")


def symbol_name(function):
    return re.search(r'sym_name = "([^"]*)"', function.attributes).group(1)
