# ===- planning.py - plans of captured graphs ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Imports a captured graph, has fp8-opt plan it, and gives the plan's names back their places in the user's code.
#
#===----------------------------------------------------------------------===//
"""Plans of captured graphs."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import subprocess
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple, Union

from ..errors import CompileError
from ..graphs.graph import Graph, Location
from ..importer import Program, import_graph
from ..libfp8opt import compile_text

__all__ = ["GraphPlan", "PlanError", "PlanStore", "plan_graph"]


class PlanError(RuntimeError):
    """fp8-opt could not plan a graph; the text holds its diagnostics."""


class NoCompilerError(PlanError):
    """There is no compiler to plan with."""


@dataclass
class GraphPlan:
    """A plan of a captured graph. `plan` is the plan.json of docs/plan.md; names in it are those of the graph."""

    graph: Graph
    program: Program
    plan: Dict[str, Any]

    def __post_init__(self):
        self._producers = self.graph.producers()
        self._inputs = {item.target or item.name: item for item in self.graph.inputs}

    def results_of(self, value: str, size: int) -> List[str]:
        """The graph's values that an entry of the plan with `size` bytes may be: the one whose number the plan says (`o#1`);
        of a plan that says none, those of the operation's results that have the size."""
        name = self.node_name(value)
        node = self._producers.get(name)
        if node is None or len(node.outputs) == 1:
            return [name]
        made = [(other, tensor) for other, tensor in node.outputs if other and tensor is not None]
        numbered = re.match(r"[^~'\[#]*#(\d+)", value)
        if numbered and int(numbered[1]) < len(made):
            return [made[int(numbered[1])][0]]
        return [other for other, tensor in made if tensor.bytes == size] or [name]

    def node_name(self, value: str) -> str:
        """The graph's name of a value of the plan: without what marks a result, a recomputation, a piece or a part of a
        node."""
        return re.split(r"[~'\[#]", value)[0]

    def location(self, value: str) -> Location:
        """Where in the user's code a value of the plan comes from."""
        node = self._producers.get(self.node_name(value))
        return node.location if node is not None else Location()

    def op(self, value: str, size: Optional[int] = None) -> str:
        """The operation of the graph that makes a value of the plan; with the result's number (`Node.op_of`) where it has
        several and one of them has the `size` in bytes that the plan says."""
        node = self._producers.get(self.node_name(value))
        found = self.results_of(value, size) if node is not None and size is not None else []
        if node is not None and len(found) == 1 and dict(node.outputs)[found[0]].bytes == size:  # type: ignore[union-attr]
            return node.op_of(found[0])
        return node.op if node is not None else "an input" if self.node_name(value) in self._inputs else ""

    @property
    def kept(self) -> List[str]:
        """The graph's values that the plan keeps from forward to backward, inputs and results left out."""
        return list(dict.fromkeys(name for entry in self.plan["saved"]
                                  for name in self.results_of(entry["value"], entry["bytes"])))

    @property
    def returned(self) -> List[str]:
        """The graph's forward values that backward reads and whose storage a result, or an input's new value, has: they are there
        without being kept."""
        roots = self.graph.roots()
        results = {roots[item.value] for item in self.graph.outputs if item.region == "forward" and item.value}
        read = {roots.get(name) for node in self.graph.nodes if node.region == "backward" for name in node.reads()}
        return [name for node in self.graph.nodes if node.region == "forward" for name, _ in node.outputs
                if name and name in results & read]

    @property
    def recomputed(self) -> List[str]:
        """The graph's values that backward computes again."""
        return list(dict.fromkeys(self.node_name(entry["value"]) for entry in self.plan["recomputed"]))

    @property
    def order(self) -> List[Tuple[str, bool]]:
        """What runs, in order: the graph's name, and whether it is a recomputation."""
        return [(self.node_name(entry["op"]), "~" in entry["op"]) for entry in self.plan["timeline"]]


def plan_graph(graph: Union[Graph, Program], target: str = "h200", policy: str = "auto", budget: Optional[str] = None,
               compiler: Optional[str] = None, timeout: float = 600.0) -> GraphPlan:
    """The plan of a captured graph. `budget` is a limit on the step's peak, such as `40GiB`; `compiler` is an fp8-opt to
    run instead of the package's library, for at most `timeout` seconds.

    Raises `PlanError` with the compiler's diagnostics where it refuses, `GraphError` where the graph cannot be
    imported."""
    program = graph if isinstance(graph, Program) else import_graph(graph)
    options = ",".join([f"target={target}", f"policy={policy}"] + ([f"budget={budget}"] if budget else []))
    folder = os.environ.get("FP8OPT_PLANS")
    if folder:
        text = PlanStore(folder).get(program.text, options, compiler, timeout)
    else:
        text = _run_compiler(program.text, options, compiler, timeout)
    return GraphPlan(program.graph, program, json.loads(text))


def _run_compiler(program: str, options: str, compiler: Optional[str], timeout: float) -> str:
    """plan.json of a program, by the package's library or the fp8-opt given; `PlanError` with the diagnostics."""
    if compiler is None:
        try:
            return compile_text(program, ["plan"], options).bytes["plan"].decode()
        except CompileError as error:
            raise PlanError(str(error)) from error
        except OSError as error:
            raise NoCompilerError(str(error)) from error
    command = [compiler, "-", f"--compile={options}", "--emit=plan"]
    try:
        done = subprocess.run(command, input=program, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise PlanError(f"fp8-opt did not end within {timeout:g} s") from error
    except OSError as error:
        raise NoCompilerError(f"expected '{compiler}' to be an fp8-opt, but it cannot be run: {error.strerror}") from error
    if done.returncode:
        raise PlanError(done.stderr.strip() or f"fp8-opt ended with exit code {done.returncode}")
    return done.stdout


class PlanStore:
    """A folder of plans, which the environment variable FP8OPT_PLANS names: what was planned once is found there, also on a
    machine without the compiler. A program that has no plan and cannot be planned here is left in the folder, for
    `plan_all` on a machine that has it."""

    def __init__(self, folder: Union[str, "os.PathLike[str]"]):
        self.folder = pathlib.Path(folder)

    def get(self, program: str, options: str, compiler: Optional[str] = None, timeout: float = 600.0) -> str:
        """The plan of a program; made, and kept in the folder, where it is not there."""
        name = hashlib.sha256(f"{options}\n{program}".encode()).hexdigest()[:32]
        found = self.folder / f"{name}.json"
        if found.exists():
            return found.read_text(encoding="utf-8")
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            text = _run_compiler(program, options, compiler, timeout)
        except NoCompilerError as error:
            (self.folder / f"{name}.mlir").write_text(f"// {options}\n{program}", encoding="utf-8")
            raise PlanError(f"expected a plan '{found.name}' in '{self.folder}', but there is none, and no compiler here; "
                            f"its program lies there now ({error})") from error
        found.write_text(text, encoding="utf-8")
        return text

    def plan_all(self, compiler: Optional[str] = None, timeout: float = 600.0) -> int:
        """Plans every program that was left in the folder; gives how many plans were made. What cannot be planned gets its
        diagnostics as NAME.txt."""
        made = 0
        for source in sorted(self.folder.glob("*.mlir")):
            head, program = source.read_text(encoding="utf-8").split("\n", 1)
            try:
                self.get(program, head.removeprefix("// "), compiler, timeout)
                made += 1
            except PlanError as error:
                source.with_suffix(".txt").write_text(f"{error}\n", encoding="utf-8")
                continue
            source.unlink()
        return made
