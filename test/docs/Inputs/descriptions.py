# ===- descriptions.py - what the TableGen files must say --------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: descriptions.py SOURCE_ROOT LLVM_TOOLS OPS.td PASSES.td FP8_OPT [FLAG...]
#
# Checks that every op has a summary, a description, numbered constraints and an
# example that parses, that each constraint has a test labelled with its number,
# and that every pass has a summary and a description. Each fault is a line
# "error: ..."; the exit code is 1 where there is one.
#
# ===------------------------------------------------------------------------=== #

import json
import pathlib
import re
import subprocess
import sys
import textwrap

root, llvm_tools, ops_td, passes_td, *fp8_opt = sys.argv[1:]
root = pathlib.Path(root)
errors = []

# What an example needs around it to be a whole program: text before and after.
CONTEXTS = {
    "all_gather_start": ("", "%r = fp8.wait %g, %t : tensor<256x32xbf16>"),
    "all_reduce_start": ("", "%r = fp8.wait %g, %t : tensor<1x1xf32>"),
    "all_to_all_start": ("", "%r = fp8.wait %g, %t : tensor<16x128xbf16>"),
    "reduce_scatter_start": ("", "%r = fp8.wait %g, %t : tensor<64x32xbf16>"),
    "offload_start": ("", "%r = fp8.wait %h, %t : !fp8.host<tensor<64x32xbf16>>"),
    "prefetch_start": ("", "%r = fp8.wait %y, %t : tensor<64x32xbf16>"),
    "free": (
        "%m = fp8.kernel loop (%a = %x : tensor<64x32xbf16>) -> (tensor<64x1xf32>) {\n"
        "  %0 = fp8.amax %a group = [1, 0] : tensor<64x32xbf16> -> tensor<64x1xf32>\n"
        "  fp8.yield %0 : tensor<64x1xf32>\n}",
        "",
    ),
    "yield": ("%s = fp8.step -> (tensor<8xf32>) forward {", "} backward (%r: tensor<8xf32>) {\n  fp8.yield\n}"),
}
# A label in the tests that is not the name of an op.
FILES = "test/Dialect/FP8/IR/invalid-*.mlir"


def records(file, base):
    """The records of a TableGen file that derive from a class, by name."""
    dump = subprocess.run(
        [f"{llvm_tools}/llvm-tblgen", "-dump-json", f"-I{root}/include", f"-I{llvm_tools}/../include", file],
        check=True,
        capture_output=True,
    )
    table = json.loads(dump.stdout)
    return [table[name] for name in sorted(table["!instanceof"][base])]


def wrap(op, example, types):
    """A module with the example in a function whose arguments are what the example uses but does not define."""
    before, after = CONTEXTS.get(op, ("", ""))
    arguments = []
    for name, kind in types.items():
        # State ops, and one that draws random numbers, want marked arguments; on others the mark says nothing.
        mark = " {fp8.state}" if re.fullmatch(r"tensor<[0-9x]*xf32>", kind) else ""
        mark = ' {fp8.coordinate = "tp"}' if kind == "tensor<1x1xi32>" else mark
        arguments.append(f"{name}: {kind}{mark}")
    body = textwrap.indent("\n".join([before, textwrap.dedent(example), after]), "  ")
    return f"module attributes {{fp8.grid = {{tp = 4}}}} {{\nfunc.func @example({', '.join(arguments)}) {{\n{body}\n  return\n}}\n}}\n"


def parse_example(op, example):
    """Parses an example and learns the types of its free values from the parser. Returns the parser's error, or ''."""
    types = {}
    for _ in range(32):
        result = subprocess.run([*fp8_opt, "-o", "/dev/null"], input=wrap(op, example, types), capture_output=True, text=True)
        if result.returncode == 0:
            return ""
        unknown = re.search(r"error: use of undeclared SSA value name", result.stderr)
        mismatch = re.search(r"error: use of value '(%\w+)' expects different type than prior uses: '(.*)' vs '.*'", result.stderr)
        if mismatch and types.get(mismatch[1]) == "none":
            types[mismatch[1]] = mismatch[2]
        elif unknown:
            line, column = map(int, re.search(r"<stdin>:(\d+):(\d+): error", result.stderr).groups())
            text = wrap(op, example, types).splitlines()[line - 1]
            types[re.match(r"%\w+", text[column - 1 :])[0]] = "none"
        else:
            return result.stderr.splitlines()[0]
    return "the types of its operands are not to be found"


tests = "\n".join(path.read_text() for path in sorted(root.glob(FILES)))
labels = set(re.findall(r"^// (\w+) C(\d+)\b", tests, re.MULTILINE))


def check_labels(name, description):
    numbers = re.findall(r"^\s*\* \(C(\d+)\)", description, re.MULTILINE)
    if not numbers:
        errors.append(f"{name}: expected numbered constraints '* (C1) ...' in the description, but got none")
    if numbers != [str(i + 1) for i in range(len(numbers))]:
        errors.append(f"{name}: expected constraints numbered from 1 on, but got {', '.join(numbers)}")
    for number in numbers:
        if (name, number) not in labels:
            errors.append(f"{name}: expected a test labelled '// {name} C{number}' in {FILES}, but got none")


ops = [op for op in records(ops_td, "Op") if op["opDialect"]["def"] == "FP8_Dialect"]
for op in ops:
    name, description = op["opName"], op["description"]
    if not op["summary"].strip():
        errors.append(f"{name}: expected a summary, but got none")
    if not re.sub(r"Example:.*", "", description, flags=re.DOTALL).strip():
        errors.append(f"{name}: expected a description, but got none")
    check_labels(name, description)
    example = re.search(r"Example:\n\s*```mlir\n(.*?)\n\s*```", description, re.DOTALL)
    if not example:
        errors.append(f"{name}: expected 'Example:' with a block of mlir in the description, but got none")
    elif problem := parse_example(name, example[1]):
        errors.append(f"{name}: expected an example that parses, but got: {problem}")

for attribute, label in [("FP8_TensorEncodingAttr", "encoding"), ("FP8_RecipeAttr", "recipe")]:
    for record in records(ops_td, "AttrDef"):
        if record["!name"] == attribute:
            check_labels(label, record["description"])
for dialect in records(ops_td, "Dialect"):
    if dialect["!name"] == "FP8_Dialect":
        check_labels("tensors", dialect["description"])

passes = records(passes_td, "PassBase")
for record in passes:
    for field in ["summary", "description"]:
        if not record[field].strip():
            errors.append(f"{record['argument']}: expected a {field}, but got none")

for error in errors:
    print(f"error: {error}")
print(f"{len(ops)} ops and {len(passes)} passes")
sys.exit(bool(errors))
