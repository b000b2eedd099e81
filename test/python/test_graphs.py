# ===- test_graphs.py - captured graphs without torch ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The dumps of test/python/graphs: reading, import, plans and explanations. What a plan says is compared with the bytes
# of the dump's own tensors.
#
# ===-------------------------------------------------------------=== #

import copy
import json
import math
import pathlib
import subprocess
import sys

import pytest

from fp8opt import explain, load_graph
from fp8opt.explanations import explain_graph
from fp8opt.explanations.planning import PlanError, PlanStore, plan_graph
from fp8opt.graphs.graph import ELEMENT_BYTES, GraphError, from_json, to_json
from fp8opt.importer import import_graph

FOLDER = pathlib.Path(__file__).resolve().parent / "graphs"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))

# Bytes that the fastest plan keeps from forward to backward. Next to them in the dumps: what PyTorch keeps.
SAVED = {"custom": 4096, "dropout": 10240, "mlp": 16384, "view_of_view": 4096}
# What has no op in the dialect.
OPAQUE = {"mlp": {}, "view_of_view": {}, "custom": {"fp8opt_test.twist.default": 1, "prims.rev.default": 1},
          "float8_checkpointed": {}}


def raw(name):
    return json.loads((FOLDER / f"{name}.json").read_text())


@pytest.fixture
def compiler(tools):
    return str(tools / "fp8-opt")


@pytest.mark.parametrize("name", NAMES)
def test_round_trip(name, tmp_path):
    graph = load_graph(FOLDER / f"{name}.json")
    assert to_json(graph) == raw(name)
    graph.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (FOLDER / f"{name}.json").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_plan_keeps_true_bytes(name, compiler):
    """Each kept value is one of the graph, with the bytes of its elements, and no view, input or result."""
    plan = plan_graph(load_graph(FOLDER / f"{name}.json"), compiler=compiler)
    data = raw(name)
    tensors, views = {}, set()
    for node in data["nodes"]:
        for index, (value, type) in enumerate(node["outputs"]):
            if type is not None:
                entry = data["tensors"][type]
                tensors[value] = math.prod(entry["shape"]) * ELEMENT_BYTES[entry["dtype"]]
            if node.get("alias") and node["alias"][index]:
                views.add(value)
    forward_results = {item["value"] for item in data["outputs"] if item["region"] == "forward"}
    assert plan.plan["saved"]
    for entry in plan.plan["saved"]:
        # An operation with several results has one name; its bytes say which one is kept.
        names = plan.results_of(entry["value"], entry["bytes"])
        # The maximum of a scale is held in f32, whatever the graph rounds it to.
        held = 2 if entry["op"] == "fp8.amax" else 1
        assert names and all(entry["bytes"] == held * tensors[name] for name in names), entry
        assert not set(names) & (views | forward_results)
    assert plan.plan["saved_bytes"] == SAVED.get(name, plan.plan["saved_bytes"])
    assert plan.program.opaque == OPAQUE.get(name, plan.program.opaque)
    assert not plan.program.copies


@pytest.mark.parametrize("name", NAMES)
def test_kept_no_more_than_eager(name, compiler):
    graph = load_graph(FOLDER / f"{name}.json")
    eager = next(kept for kept in graph.kept if kept.how.startswith("eager"))
    assert plan_graph(graph, compiler=compiler).plan["saved_bytes"] <= eager.bytes


def test_budget_is_obeyed(compiler):
    graph = load_graph(FOLDER / "llama_block.json")
    free = plan_graph(graph, compiler=compiler)
    least = free.plan["min_feasible_peak_bytes"]
    assert plan_graph(graph, budget=str(least), compiler=compiler).plan["peak_bytes"] == least
    with pytest.raises(PlanError, match="error:"):
        plan_graph(graph, budget="1KiB", compiler=compiler)


def test_places_in_the_users_code(compiler):
    plan = plan_graph(load_graph(FOLDER / "llama_block.json"), compiler=compiler)
    places = {(plan.location(value).module, plan.location(value).line) for value in plan.kept}
    source = (FOLDER.parents[2] / "bench" / "torch_layers.py").read_text().splitlines()
    line = source.index("        return self.w2(F.silu(self.w1(x)) * self.w3(x))") + 1
    assert ("feed_forward.w1", f"bench/torch_layers.py:{line}") in places
    assert all(line.startswith("bench/torch_layers.py:") for _, line in places)


def test_imported_ir_carries_names_and_lines():
    text = import_graph(load_graph(FOLDER / "llama_block.json")).text
    assert 'loc("mm"("bench/torch_layers.py":' in text


def test_explanation_names_the_fault(compiler):
    """The list with abs (case F5): module, line, bytes and change, from the dump alone."""
    text = str(explain_graph(load_graph(FOLDER / "float8_checkpointed.json"), compiler=compiler))
    change = " ".join(text[text.index("CHANGE:"):text.index("NOTE")].split())
    assert "take torch.ops.aten.abs.default off the list" in change
    assert "12 results" in change and "layers.*.feed_forward.w1" in change
    assert "torchao/float8/float8_utils.py:" in change
    # abs of x and w of each linear, in bf16: two of 256 x 64 and 128 x 64, one of 256 x 128 and 64 x 128, two layers.
    less = 2 * 2 * (2 * (256 * 64 + 128 * 64) + 256 * 128 + 64 * 128)
    assert f"{less / 2**20:,.1f} MiB less are kept" in change
    assert "the peak of the step falls by" in change


def test_command(compiler, root):
    def run(*arguments):
        return subprocess.run([sys.executable, "-m", "fp8opt", "explain", *arguments, "--fp8-opt", compiler], text=True,
                              capture_output=True, cwd=root / "python")

    good = run(str(FOLDER / "mlp.json"), "--json")
    assert good.returncode == 0, good.stderr
    summary = json.loads(good.stdout)
    assert [kept["how"] for kept in summary["kept"]] == ["eager autograd", "torch.compile"]
    assert summary["plans"][0]["kept_bytes"] == SAVED["mlp"]
    for arguments in ([str(FOLDER / "none.json")], [str(root / "README.md")], []):
        bad = run(*arguments)
        assert bad.returncode == 1 and "error: " in bad.stderr and "Traceback" not in bad.stderr


def test_no_compiler(tmp_path):
    # What PyTorch keeps is said all the same.
    explanation = explain_graph(load_graph(FOLDER / "mlp.json"), compiler=str(tmp_path / "none"))
    assert "cannot be run" in explanation.problems[0] and "eager autograd" in str(explanation)


def test_the_library_plans_as_the_tool(compiler, tools, monkeypatch):
    monkeypatch.setenv("FP8OPT_LIBRARY", str(tools.parent / "lib" / "libfp8opt.so"))
    graph = load_graph(FOLDER / "mlp.json")
    assert plan_graph(graph).plan == plan_graph(graph, compiler=compiler).plan
    with pytest.raises(PlanError, match="no plan with policy 'auto' fits"):
        plan_graph(graph, budget="1KiB")


def test_plans_made_elsewhere(compiler, tmp_path, monkeypatch):
    graph = load_graph(FOLDER / "mlp.json")
    monkeypatch.setenv("FP8OPT_PLANS", str(tmp_path))
    with pytest.raises(PlanError, match="its program lies there now"):
        plan_graph(graph, compiler="/none")
    with pytest.raises(PlanError, match="its program lies there now"):
        plan_graph(graph, budget="1KiB", compiler="/none")
    # One of the two cannot be planned.
    assert PlanStore(tmp_path).plan_all(compiler) == 1 == len(list(tmp_path.glob("*.json")))
    assert "error:" in next(tmp_path.glob("*.txt")).read_text()
    assert plan_graph(graph, compiler="/none").plan["saved_bytes"] == SAVED["mlp"]
    # What is planned here is kept there.
    made = plan_graph(graph, target="cpu", compiler=compiler).plan
    assert plan_graph(graph, target="cpu", compiler="/none").plan == made


def test_results_of_one_operation_are_told_apart(compiler):
    """The output and the logsumexp of an attention, in the plan and in what the min-cut keeps."""
    text = str(explain_graph(load_graph(FOLDER / "llama_block.json"), compiler=compiler))
    for result in (0, 1):
        assert text.count(f"aten._scaled_dot_product_flash_attention_for_cpu.default#{result} in attention") == 2


def test_explain_is_a_function():
    assert callable(explain)


def damage(data, how):
    node = data["nodes"][3]
    if how == "schema":
        data["schema"] = "fp8opt-graph-0"
    elif how == "key":
        del node["op"]
    elif how == "table":
        node["location"] = 10**6
    elif how == "order":
        data["nodes"].insert(0, data["nodes"].pop())
    elif how == "twice":
        data["nodes"].append(copy.deepcopy(node))
    elif how == "dtype":
        data["tensors"][0]["dtype"] = "float7"
    elif how == "stride":
        data["tensors"][0]["stride"].append(1)
    elif how == "kind":
        data["inputs"][0]["kind"] = "weight"
    elif how == "region":
        node["region"] = "sideways"
    elif how == "how":
        data["kept"][0]["how"] = "magic"
    elif how == "output":
        data["outputs"][0]["value"] = "nothing"
    elif how == "list":
        data = []
    return data


@pytest.mark.parametrize("how, message", [
    ("schema", "expected a graph of schema 'fp8opt-graph-1', but got 'fp8opt-graph-0'"),
    ("key", "KeyError 'op'"), ("table", "IndexError"), ("order", "defined before it is read"),
    ("twice", "defined twice"), ("dtype", "a data type that is known, but got 'float7'"),
    ("stride", "a stride for each dimension"), ("kind", "but got 'weight' in input"),
    ("region", "but got 'sideways' in node"), ("how", "but got 'magic'"), ("output", "but got 'nothing' in an output"),
    ("list", "but got 'list'"),
])
def test_damaged_dump(how, message):
    with pytest.raises(GraphError, match=message):
        from_json(damage(raw("mlp"), how))


def test_import_refuses():
    graph = load_graph(FOLDER / "mlp.json")
    graph.outputs = [item for item in graph.outputs if item.region == "forward"]
    with pytest.raises(GraphError, match="expected a joint graph with gradients, but 'mlp' has none"):
        import_graph(graph)
