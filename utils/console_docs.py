# ===- console_docs.py - commands in the documentation, run ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Pages under docs/ show commands with their output in blocks marked `console`: a line `$ command`, then what it prints. This
# runs them (a test does) and says where the page differs, or writes the pages again:
#
#   python utils/console_docs.py [--write] [PAGE...]
#
# Only `fp8opt` and a few plain commands are run, in the root of the sources; `$ cat FILE <<'END'` writes a file first, into a
# folder of its own that `$WORK` names.
#
# ===--------------------------------------------------------===#

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def blocks(text):
    """(start, end) of the body of each console block."""
    return [match.span(1) for match in re.finditer(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def commands(body):
    """The commands of a block, each with the lines of a here-document."""
    result, lines = [], body.splitlines()
    index = 0
    while index < len(lines):
        if lines[index].startswith("$ "):
            command = [lines[index][2:]]
            end = re.search(r"<<'(\w+)'", command[0])
            while command[-1].endswith("\\") or (end and command[-1] != end.group(1)):
                index += 1
                command.append(lines[index])
            result.append("\n".join(command))
        index += 1
    return result


def run_page(text):
    """The page with what its commands print now."""
    with tempfile.TemporaryDirectory() as work:
        environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"), WORK=work)
        function = f'fp8opt() {{ "{sys.executable}" -m fp8opt "$@"; }}\n'
        result, position = [], 0
        for start, end in blocks(text):
            lines = []
            for command in commands(text[start:end]):
                done = subprocess.run(
                    ["bash", "-c", function + command],
                    cwd=ROOT,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=900,
                )
                lines += ["$ " + command] + [line.rstrip() for line in done.stdout.replace(work, "$WORK").splitlines()]
            result += [text[position:start], "".join(line + "\n" for line in lines)]
            position = end
        return "".join(result) + text[position:]


def pages():
    """The pages that have such blocks."""
    return [path for path in sorted((ROOT / "docs").rglob("*.md")) if blocks(path.read_text(encoding="utf-8"))]


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    status = 0
    for path in [pathlib.Path(argument).resolve() for argument in arguments] or pages():
        text = path.read_text(encoding="utf-8")
        now = run_page(text)
        if now == text:
            continue
        if "--write" in sys.argv:
            path.write_text(now, encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: written")
        else:
            print(f"{path.relative_to(ROOT)}: what its commands print has changed (utils/console_docs.py --write)")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
