#!/usr/bin/env python3
# ===- run_ranks.py - cases with collectives, run ----------------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# run_ranks.py FP8_OPT FP8_RUN GEN FOLDER CASE: the program of a case, of ops that all run, on
# two ranks and on four. Each rank's results must be those of the interpreter, bit
# for bit, and its measured peak the planned one; then each rank sleeps before each
# collective in turn (before all of many), on two ranks, which must change no bit.
#
# ===------------------------------------------------------------------------=== #

import json
import os
import pathlib
import subprocess
import sys

fp8_opt, fp8_run, gen, folder, case = sys.argv[1:]
folder = pathlib.Path(folder)
folder.mkdir(parents=True, exist_ok=True)
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                  OMPI_MCA_btl_vader_single_copy_mechanism="none", OMPI_MCA_mpi_yield_when_idle="1")


def f1(ranks):
    """A gathered input that dies with its matmul."""
    whole = 128 * ranks
    return "policy=save-all", f"""
func.func @f1(%in: tensor<128x256xbf16> {{fp8.shard = ["tp", ""]}} loc("in"),
              %w: tensor<128x256xbf16> {{fp8.parameter, fp8.shard = ["tp", ""]}} loc("w"))
    -> (tensor<{whole}x128xbf16> {{fp8.shard = ["", "tp"]}}) {{
  %x = math.tanh %in : tensor<128x256xbf16> loc("x")
  %g = fp8.all_gather %x axis = "tp" dim = 0 : tensor<128x256xbf16> -> tensor<{whole}x256xbf16> loc("x")
  %y = fp8.linear %g, %w recipe<block128> : tensor<{whole}x256xbf16>, tensor<128x256xbf16> -> tensor<{whole}x128xbf16> loc("y")
  return %y : tensor<{whole}x128xbf16>
}}"""


def f9(ranks, own=64):
    """A shard that is no multiple of the block: bf16 travels."""
    whole = own * ranks
    return "policy=save-all", f"""
func.func @f9(%x: tensor<{own}x256xbf16> {{fp8.shard = ["tp", ""]}} loc("x"),
              %w: tensor<128x256xbf16> {{fp8.parameter, fp8.shard = ["tp", ""]}} loc("w"))
    -> (tensor<{whole}x128xbf16> {{fp8.shard = ["", "tp"]}}) {{
  %g = fp8.all_gather %x axis = "tp" dim = 0 : tensor<{own}x256xbf16> -> tensor<{whole}x256xbf16> loc("g")
  %y = fp8.linear %g, %w recipe<block128> : tensor<{whole}x256xbf16>, tensor<128x256xbf16> -> tensor<{whole}x128xbf16> loc("y")
  return %y : tensor<{whole}x128xbf16>
}}"""


def f9whole(ranks):
    """A shard of a whole block: FP8 and compact scales travel."""
    return f9(ranks, 128)


def fsdp(ranks, layers):
    return subprocess.run([sys.executable, gen, "--kind=fsdp", f"--ranks={ranks}", f"--layers={layers}", f"--tokens={64 * ranks}",
                           "--dim=128", "--ffn=256", "--recipe=tensorwise"], check=True, capture_output=True, text=True).stdout


def f8(ranks):
    """Weights cast once a step, before all microbatches."""
    return "microbatches=3,weight-casts=step", fsdp(ranks, 1)


def f11(ranks):
    """Gathered weights of several layers, again in backward."""
    return "policy=recompute-all", fsdp(ranks, 3)


def r1(ranks):
    """Nothing of an unsharded weight kept."""
    return "policy=recompute-all", fsdp(ranks, 2)


def f16(ranks):
    """Gradients, and then gathered parameters, in one place."""
    whole, own = f"tensor<{32 * ranks}x64xf32>", "tensor<32x64xf32>"
    return "", f"""
func.func @f16(%x: {whole} {{fp8.frozen}} loc("x")) -> {whole} {{
  %grads = math.exp %x : {whole} loc("grads")
  %sum = fp8.reduce_scatter sum %grads axis = "tp" dim = 0 : {whole} -> {own} loc("sum")
  %new = math.tanh %sum : {own} loc("new")
  %params = fp8.all_gather %new axis = "tp" dim = 0 : {own} -> {whole} loc("params")
  %first = math.exp %params : {whole} loc("first")
  return %first : {whole}
}}"""


def f17(ranks):
    """An auxiliary loss of all ranks, of a value that backward computes again."""
    own = "tensor<32x64xf32>"
    return "policy=recompute-all", f"""
func.func @f17(%x: {own} {{fp8.shard = ["tp", ""]}} loc("x")) -> ({own} {{fp8.shard = ["tp", ""]}}, {own}) {{
  %p = math.tanh %x : {own} loc("p")
  %aux = fp8.all_reduce sum %p axis = "tp" : {own} -> {own} loc("aux")
  %y = math.exp %p : {own} loc("y")
  return %y, %aux : {own}, {own}
}}"""


def f18(ranks):
    """The source of a gather that other work goes on beside."""
    whole, own = f"tensor<{64 * ranks}x64xf32>", "tensor<64x64xf32>"
    return "", f"""
func.func @f18(%x: {own} {{fp8.shard = ["tp", ""]}} loc("x"), %z: {whole} loc("z")) -> {whole} {{
  %results = fp8.step -> ({whole}) forward {{
    %a = math.exp %x : {own} loc("a")
    %g, %t = fp8.all_gather_start %a axis = "tp" dim = 0 : {own} -> {whole}, !fp8.token loc("g")
    %o = math.tanh %z : {whole} loc("o")
    %p = fp8.permute %o [1, 0] : {whole} -> tensor<64x{64 * ranks}xf32>
    %q = fp8.matmul %o, %p : {whole}, tensor<64x{64 * ranks}xf32> -> tensor<{64 * ranks}x{64 * ranks}xf32> loc("q")
    %w = fp8.wait %g, %t : {whole} loc("w")
    %c = fp8.matmul %q, %w : tensor<{64 * ranks}x{64 * ranks}xf32>, {whole} -> {whole} loc("c")
    fp8.yield %c : {whole}
  }} backward {{
    fp8.yield
  }}
  return %results : {whole}
}}"""


def p4(ranks):
    """Bytes that travel and are f32 again, as a view, behind the wait."""
    whole, own = f"{32 * ranks}x64x", "32x64x"
    return "", f"""
func.func @p4(%x: tensor<{own}f32> {{fp8.frozen, fp8.shard = ["tp", ""]}} loc("x")) -> tensor<{whole}f32> {{
  %a = math.tanh %x : tensor<{own}f32> loc("a")
  %shard = fp8.bitcast %a : tensor<{own}f32> -> tensor<{own}i32>
  %g, %t = fp8.all_gather_start %shard axis = "tp" dim = 0 : tensor<{own}i32> -> tensor<{whole}i32>, !fp8.token loc("g")
  %w = fp8.wait %g, %t : tensor<{whole}i32> loc("w")
  %v = fp8.bitcast %w : tensor<{whole}i32> -> tensor<{whole}f32>
  %y = math.exp %v : tensor<{whole}f32> loc("y")
  return %y : tensor<{whole}f32>
}}"""


def p5(ranks):
    """A mask that backward draws again, of which each rank has its part."""
    whole, own, word = f"tensor<{32 * ranks}x64xf32>", "tensor<32x64xf32>", "tensor<1x1xi32>"
    return "policy=recompute-all", f"""
func.func @p5(%x: {own} {{fp8.shard = ["tp", ""]}} loc("x"), %seed: {word} loc("seed"), %offset: {word} loc("offset"),
              %rank: {word} {{fp8.coordinate = "tp"}} loc("rank")) -> {whole} {{
  %a = math.tanh %x : {own} loc("a")
  %u = fp8.random %seed, %offset coordinates(%rank : {word}) shard = ["tp", ""] : {word} -> {own} loc("u")
  %p = arith.constant dense<2.500000e-01> : {own}
  %zero = arith.constant dense<0.000000e+00> : {own}
  %mask = arith.cmpf oge, %u, %p : {own} loc("mask")
  %dropped = arith.select %mask, %a, %zero : tensor<32x64xi1>, {own} loc("dropped")
  %g = fp8.all_gather %dropped axis = "tp" dim = 0 : {own} -> {whole} loc("g")
  %y = math.exp %g : {whole} loc("y")
  return %y : {whole}
}}"""


def run(ranks, artifact, *options):
    output = folder / "out.json"
    done = subprocess.run(["mpirun", "--oversubscribe", "-n", str(ranks), fp8_run, str(artifact), f"--json={output}", *options],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    if done.returncode:
        sys.exit(f"{case} on {ranks} ranks: exit code {done.returncode}\n{done.stdout}")
    return json.loads(output.read_text())


def main():
    for ranks in (2, 4):
        options, text = globals()[case](ranks)
        if not text.startswith("//"):
            text = f"module attributes {{fp8.grid = {{tp = {ranks} : i64}}}} {{{text}\n}}\n"
        program, artifact, reference = (folder / f"{case}.{ranks}.{end}" for end in ("mlir", "fp8", "ref"))
        program.write_text(text)
        batches = ["--microbatches=3"] if "microbatches" in options else []
        plan = subprocess.run([fp8_opt, program, f"--compile={options}", "--emit=plan"], check=True, capture_output=True, text=True)
        subprocess.run([fp8_opt, program, f"--compile={options}", "--emit=artifact", "-o", artifact], check=True)
        subprocess.run([fp8_opt, program, f"--compile={options}", "--emit=reference", *batches, "-o", reference], check=True)
        transfers = [entry["value"] for entry in json.loads(plan.stdout)["transfers"]]
        if case == "f17":
            assert transfers.count("aux") == 1, transfers
        result = run(ranks, artifact, f"--check={reference}", *batches)
        for entry in result["ranks"]:
            assert entry["planned_peak_bytes"] == entry["measured_peak_bytes"], entry
        assert result["max_rel_error"] == 0 and result["outputs"], result
        print(f"{case} on {ranks} ranks: {len(result['outputs'])} outputs equal")
        if ranks > 2:
            continue
        expected = run(ranks, artifact, *batches)["outputs"]
        # The watched run has each collective once, and so has the timed one. Of very many all are delayed at once; -1.
        count = 2 * len(transfers)
        each = count <= 10 and not batches
        for rank in range(ranks):
            for number in range(count) if each else [-1]:
                if run(ranks, artifact, *batches, f"--delay={rank}:{number}:{30 if each else 10}")["outputs"] != expected:
                    sys.exit(f"{case}: rank {rank} asleep before collective {number}: other results")
        print(f"{case}: {count} collectives, asleep before {'each' if each else 'all'}: equal")


main()
