# ===- check_copies.py - copies between GPUs without one ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: check_copies.py FP8_OPT FP8_RUN FAKE_DRIVER COLLECTIVES.mlir FOLDER
#
# Runs programs of collectives alone through the CUDA backend, on the libcuda.so.1 in FAKE_DRIVER, and compares every output of
# every rank with those of ranks on CPUs.
#
# ===-------------------------------------------------------------------=== #

import hashlib
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import time

fp8_opt, fp8_run, fake, collectives, folder = sys.argv[1:]
folder = pathlib.Path(folder)
folder.mkdir(parents=True, exist_ok=True)
environment = {**os.environ, "LD_LIBRARY_PATH": fake, "FAKE_CUDA_JITTER": "300"}
LIMIT = 30


def program(ranks, others):
    """Pieces in place and through staging memory, sums in rank order, along two axes."""
    x, y, rows, part = "tensor<48x48xbf16>", "tensor<48x48xf32>", 48 * ranks, 48 // ranks
    ops = [(f'all_gather %x axis = "tp" dim = 0 : {x}', f"tensor<{rows}x48xbf16>"),
           (f'all_gather %x axis = "tp" dim = 1 : {x}', f"tensor<48x{rows}xbf16>"),
           (f'reduce_scatter sum %x axis = "tp" dim = 1 : {x}', f"tensor<48x{part}xbf16>"),
           (f'all_reduce sum %y axis = "tp" : {y}', y), (f'all_reduce max %y axis = "dp" : {y}', y),
           (f'reduce_scatter sum %large axis = "tp" dim = 0 : tensor<768x384xf32>', f"tensor<{768 // ranks}x384xf32>"),
           (f'all_gather %large axis = "dp" dim = 0 : tensor<768x384xf32>', f"tensor<{768 * others}x384xf32>"),
           (f'all_to_all %x axis = "tp" split = 0 concat = 1 : {x}', f"tensor<{part}x{rows}xbf16>")]
    types = ", ".join(kind for _, kind in ops)
    lines = [f"  %{number} = fp8.{op} -> {kind}" for number, (op, kind) in enumerate(ops)]
    return (f"module attributes {{fp8.grid = {{dp = {others} : i64, tp = {ranks} : i64}}}} {{\n"
            f'func.func @f(%x: {x} {{fp8.frozen, fp8.shard = ["tp", ""]}}, %y: {y} {{fp8.frozen, fp8.shard = ["", "tp"]}}, '
            f'%large: tensor<768x384xf32> {{fp8.frozen, fp8.shard = ["tp", "dp"]}}) -> ({types}) {{\n' + "\n".join(lines)
            + f"\n  return {', '.join(f'%{number}' for number in range(len(ops)))} : {types}\n}}\n}}\n")


def run(source, backend, ranks, *options):
    result = folder / "out.json"
    result.unlink(missing_ok=True)
    done = subprocess.run([fp8_run, source, f"--ranks={ranks}", f"--backend={backend}", f"--json={result}", *options],
                          capture_output=True, text=True, env=environment if backend == "cuda" else None, timeout=60)
    if done.returncode:
        sys.exit(f"{source} on {backend} {options}: {done.stdout}{done.stderr}")
    return json.loads(result.read_text())


def compile_artifact(source):
    artifact = source.with_suffix(".fp8")
    subprocess.run([fp8_opt, source, "--compile=target=h200", "--emit=artifact", "-o", artifact], check=True)
    return artifact


def make_in_place(artifact):
    """Has each rank's part of what is gathered along dimension 0 made in its place: by a copy, as there are no kernels here."""
    data = artifact.read_bytes()
    count = struct.unpack_from("<I", data, 12)[0]
    sections = {}
    for index in range(count):
        name, offset, size = struct.unpack_from("<16sQQ", data, 16 + 64 * index)
        sections[name.rstrip(b"\0")] = data[offset:offset + size]
    manifest = json.loads(sections[b"manifest"])
    function, commands, made = manifest["functions"][0], [], 0
    for command in function["commands"]:
        if command["op"] == "collective" and command.get("concat") == 0 and "split" not in command:
            argument = function["arguments"][command["src"]["arg"]]
            if command["shape"] == argument["shape"]:
                part = {"buffer": command["dst"]["buffer"], "axis": command["axis"]}
                commands.append({"op": "copy", "src": {"arg": command["src"]["arg"]}, "dst": part,
                                 "bytes": argument["bytes"]})
                command = {**command, "src": {**part, "offset": 0, "strides": command["src"]["strides"]}}
                made += 1
        commands.append(command)
    assert made, "nothing is gathered along dimension 0"
    function["commands"] = commands
    sections[b"manifest"] = json.dumps(manifest).encode()
    header, offset = data[:8] + struct.pack("<II", 1, count), 16 + 64 * count + 32
    for name, body in sections.items():
        header += struct.pack("<16sQQ", name, offset, len(body)) + hashlib.sha256(body).digest()
        offset += len(body)
    changed = artifact.with_suffix(".own.fp8")
    changed.write_bytes(header + hashlib.sha256(header).digest() + b"".join(sections.values()))
    return changed


def compare(what, source, ranks, modes, change=lambda artifact: artifact):
    artifact = change(compile_artifact(source))
    expected = run(source, "cpu", ranks)["outputs"]
    for mode in modes:
        got = run(artifact, "cuda", ranks, *mode)
        assert got["transport"] == "copy engines", got["transport"]
        for first, second in zip(expected, got["outputs"], strict=True):
            assert first["sha256"] == second["sha256"], f"{what} {mode}: {first['name']} differs"
    print(f"{what}: {len(modes)} runs equal to ranks on CPUs, by copy engines", flush=True)
    return artifact


def start(artifact, *options, **more):
    """Two ranks as a launcher starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [subprocess.Popen([fp8_run, artifact, "--backend=cuda", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
                                             "MASTER_ADDR": "127.0.0.1", "FP8RT_PORT": str(port), **more}) for rank in range(2)]


text = pathlib.Path(collectives).read_text()
large, small = folder / "large.mlir", folder / "small.mlir"
# Pieces of several parts once, and of one in every mode.
large.write_text(text.replace("3072x", "1536x"))
compare("2 ranks, in parts", large, 2, [["--graph"]])
small.write_text(text.replace("3072x", "96x"))
modes = [[], ["--graph"], ["--memory=dynamic"], ["--streams=3"], ["--streams=3", "--graph"], ["--delay=0:-1:5", "--warmup=0"],
         ["--delay=1:-1:5", "--warmup=0"], ["--warmup=3", "--graph"]]
two = compare("2 ranks", small, 2, modes)
for what, ranks, others in [("3 ranks", 3, 1), ("2 x 2 ranks", 2, 2)]:
    source = folder / f"grid{ranks}{others}.mlir"
    source.write_text(program(ranks, others))
    compare(what, source, ranks * others, [["--graph"], ["--memory=dynamic"]])
    if others > 1:
        compare(f"{what}, own parts in place", source, ranks * others, [[], ["--streams=3", "--graph"]], make_in_place)

for what, send in [("a killed rank", signal.SIGKILL), ("a stopped rank", signal.SIGSTOP)]:
    # With a graph the host waits for nothing but the device.
    first, second = start(two, "--steps=100000", "--graph", "--timeout=2")
    time.sleep(1)
    begun = time.monotonic()
    second.send_signal(send)
    output, _ = first.communicate(timeout=LIMIT)
    second.kill()
    assert first.returncode == 1 and "lost rank 1" in output, output
    print(f"{what}: ended", f"after {time.monotonic() - begun:.1f} s")

# One rank's memory cannot be opened: all take NCCL, which needs a GPU.
ranks = start(two, FAKE_CUDA_NO_IPC="1")
for rank in ranks:
    output, _ = rank.communicate(timeout=LIMIT)
    assert rank.returncode == 1 and "NCCL" in output, output
print("out of reach: NCCL")
