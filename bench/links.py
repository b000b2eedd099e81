# ===- links.py - what copies between GPUs and to host memory take ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Measures, on a machine with two GPUs and PyTorch: gathers and sums of two ranks by size, as fp8-run's ledger has them, for each
# way in which tensors can travel; copies to and from pinned host memory by size; and whether a copy within a GPU's memory
# waits for a matmul beside it. From the first two come a target's `link_latency_seconds`, `link_bytes_per_second` and
# `host_bytes_per_second` (docs/performance.md).
#
# usage: links.py compile BIN_DIR ARTIFACTS          on any machine; BIN_DIR has fp8-opt
#        links.py run BIN_DIR ARTIFACTS OUT [--no-torch]     on two GPUs; BIN_DIR has fp8-run
#
# ===---------------------------------------------------------------------------=== #
"""Compiles, then runs, transfers of many sizes and prints tables."""

import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys

# Bytes that a rank sends and receives.
SIZES = [2**e for e in (10, 14, 17, 20, 22, 23, 24, 25, 26, 27)]
MIB = 2**20


def program():
    """A gather and a reduce_scatter of each size, one after another."""
    arguments, lines, results, types = [], [], [], []
    for size in SIZES:
        cols = size // 64
        arguments.append(f'%x{size}: tensor<16x{cols}xf32> {{fp8.frozen, fp8.shard = ["tp", ""]}}')
        lines.append(f'  %g{size} = fp8.all_gather %x{size} axis = "tp" dim = 0 : tensor<16x{cols}xf32> -> tensor<32x{cols}xf32>')
        lines.append(f'  %r{size} = fp8.reduce_scatter sum %g{size} axis = "tp" dim = 0 : tensor<32x{cols}xf32> -> tensor<16x{cols}xf32>')
        results.append(f"%r{size}")
        types.append(f"tensor<16x{cols}xf32>")
    return (f"module attributes {{fp8.grid = {{tp = 2 : i64}}}} {{\nfunc.func @links({', '.join(arguments)})\n    -> ({', '.join(types)}) {{\n"
            + "\n".join(lines) + f"\n  return {', '.join(results)} : {', '.join(types)}\n}}\n}}\n")


def compile_all(bin_dir, folder):
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([bin_dir / "fp8-opt", "-", "--compile=target=h200,overlap=none", "--emit=artifact", "-o", folder / "links.fp8"],
                   input=program().encode(), check=True)


def fit(points):
    """Seconds and bytes a second of the line from the smallest transfers to the largest: the median of the small ones, and what
    the largest takes beyond that."""
    latency = statistics.median(seconds for size, seconds in points if size <= 2**17)
    size, seconds = max(points)
    return latency, size / (seconds - latency)


def ranks(bin_dir, artifacts, out, summary):
    for transfers in ("copies", "nccl"):
        ledger, result = out / f"links-{transfers}.ledger.json", out / f"links-{transfers}.json"
        environment = {**os.environ, **({"FP8RT_TRANSFERS": "nccl"} if transfers == "nccl" else {})}
        with open(out / f"links-{transfers}.log", "w") as log:
            done = subprocess.run([bin_dir / "fp8-run", artifacts / "links.fp8", "--ranks=2", "--backend=cuda", "--steps=15",
                                   "--warmup=3", f"--ledger={ledger}", f"--json={result}"], stdout=log, stderr=subprocess.STDOUT,
                                  env=environment, timeout=100)
        if done.returncode:
            print(f"{transfers}: exit code {done.returncode}, see {log.name}", flush=True)
            continue
        print(f"transfers by {json.loads(result.read_text())['transport']}: us, GB/s in one direction", flush=True)
        kinds = {"g": [], "r": []}
        for entry in json.loads(ledger.read_text())["commands"]:
            if "transfer_ms" in entry:
                kind = "g" if "gather" in entry["name"] else "r"
                size = SIZES[len(kinds[kind])]
                kinds[kind].append((size, entry["transfer_ms"] * 1e-3, entry["ms"] * 1e-3))
        for (size, gather, whole), (_, scatter, sum_whole) in zip(*kinds.values()):
            print(f"  {size:>11,} B  gather {gather * 1e6:9.1f} {size / gather * 1e-9:7.1f}   with its start and wait {whole * 1e6:9.1f}"
                  f"   reduce_scatter {scatter * 1e6:9.1f} {size / scatter * 1e-9:7.1f}   {sum_whole * 1e6:9.1f}", flush=True)
        latency, rate = fit([(size, seconds) for size, seconds, _ in kinds["g"]])
        print(f"  latency {latency * 1e6:.1f} us, {rate * 1e-9:.1f} GB/s", flush=True)
        summary[transfers] = {"gather": kinds["g"], "reduce_scatter": kinds["r"], "latency_seconds": latency,
                              "bytes_per_second": rate}


class Attributes(ctypes.Structure):
    _fields_ = [("order", ctypes.c_int), ("source", ctypes.c_int * 2), ("target", ctypes.c_int * 2), ("flags", ctypes.c_uint)]


SIDE = [("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("type", ctypes.c_int), ("host", ctypes.c_void_p),
        ("device", ctypes.c_uint64), ("array", ctypes.c_void_p), ("pitch", ctypes.c_size_t)]


class Copy2D(ctypes.Structure):
    _fields_ = [(f"{end}_{name}", kind) for end in ("from", "to") for name, kind in SIDE] + [
        ("width", ctypes.c_size_t), ("height", ctypes.c_size_t)]


def host_copies(torch, summary):
    print("pinned host memory: GB/s to the device, from it, each while the other runs", flush=True)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]

    def timed(run, repeats=12):
        times = []
        for _ in range(repeats):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
            with torch.cuda.stream(streams[0]):
                begin.record()
                run()
                end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1e-3)
        return statistics.median(times)

    points = summary["host"] = []
    for size in (2**12, 2**16, 2**20, 2**23, 2**26, 2**28):
        host, device = torch.empty(size, dtype=torch.uint8, pin_memory=True), torch.empty(size, dtype=torch.uint8, device="cuda")
        other_host, other = torch.empty_like(host, pin_memory=True), torch.empty_like(device)
        into = lambda: device.copy_(host, non_blocking=True)
        out = lambda: host.copy_(device, non_blocking=True)

        def beside(first, second):
            def run():
                streams[1].wait_stream(streams[0])
                with torch.cuda.stream(streams[1]):
                    for _ in range(3):
                        second()
                first()
            return run

        seconds = [timed(into), timed(out), timed(beside(into, lambda: other_host.copy_(other, non_blocking=True))),
                   timed(beside(out, lambda: other.copy_(other_host, non_blocking=True)))]
        points.append([size, *seconds])
        print(f"  {size:>11,} B " + "".join(f"{size / s * 1e-9:8.1f}" for s in seconds) + f"   us {seconds[0] * 1e6:9.1f}"
              f" {seconds[1] * 1e6:9.1f}", flush=True)


def beside_matmul(torch, summary):
    """A copy of 28 MiB, within one GPU and to another, while a matmul holds all multiprocessors."""
    driver = ctypes.CDLL("libcuda.so.1")
    size = 28 * MIB
    source, target = (torch.zeros(size, dtype=torch.uint8, device="cuda:0") for _ in range(2))
    far = torch.zeros(size, dtype=torch.uint8, device="cuda:1")
    a = torch.randn(16384, 16384, device="cuda", dtype=torch.bfloat16)
    c = torch.empty_like(a)
    urgent = torch.cuda.Stream(priority=-5)

    def plain(to, stream):
        return driver.cuMemcpyDtoDAsync_v2(ctypes.c_uint64(to.data_ptr()), ctypes.c_uint64(source.data_ptr()),
                                           ctypes.c_size_t(size), ctypes.c_void_p(stream))

    def batch(to, stream):
        attributes, one, zero = Attributes(1, flags=1), ctypes.c_size_t(size), ctypes.c_size_t(0)
        return driver.cuMemcpyBatchAsync_v2(ctypes.byref(ctypes.c_uint64(to.data_ptr())), ctypes.byref(ctypes.c_uint64(
            source.data_ptr())), ctypes.byref(one), ctypes.c_size_t(1), ctypes.byref(attributes), ctypes.byref(zero),
            ctypes.c_size_t(1), ctypes.c_void_p(stream))

    def rows(to, stream):
        copy = Copy2D(from_type=2, from_device=source.data_ptr(), from_pitch=2**20, to_type=2, to_device=to.data_ptr(),
                      to_pitch=2**20, width=2**20, height=28)
        return driver.cuMemcpy2DAsync_v2(ctypes.byref(copy), ctypes.c_void_p(stream))

    far.copy_(source)  # peers reach each other from here on
    torch.matmul(a, a, out=c)
    torch.cuda.synchronize()
    print("28 MiB copied, us alone and beside a matmul; the matmul alone and beside it, ms", flush=True)
    event = lambda: torch.cuda.Event(enable_timing=True)
    for name, call, to in [("within, plain", plain, target), ("within, batch", batch, target), ("within, 2D", rows, target),
                           ("to the other, plain", plain, far), ("to the other, batch", batch, far)]:
        results = []
        for matmul in (False, True):
            times = []
            for _ in range(7):
                begin, end, first, last = event(), event(), event(), event()
                torch.cuda.synchronize()
                first.record()
                if matmul:
                    torch.matmul(a, a, out=c)
                last.record()
                with torch.cuda.stream(urgent):
                    # Enqueued while the matmul runs.
                    if matmul:
                        torch.cuda._sleep(1)
                    begin.record()
                    code = call(to, urgent.cuda_stream)
                    end.record()
                torch.cuda.synchronize()
                times.append((begin.elapsed_time(end) * 1e3, first.elapsed_time(last), first.elapsed_time(end)))
            results.append([statistics.median(t[i] for t in times) for i in range(3)])
        torch.cuda.synchronize()
        first, last = event(), event()
        first.record(), torch.matmul(a, a, out=c), last.record()
        torch.cuda.synchronize()
        print(f"  {name:<22} code {code}  {results[0][0]:8.1f} {results[1][0]:8.1f}   {first.elapsed_time(last):7.3f} {results[1][1]:7.3f}"
              f"   its end {results[1][2]:7.3f} ms after the matmul's begin", flush=True)
        summary.setdefault("beside_matmul", {})[name] = results


def main():
    what, bin_dir, artifacts = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]).resolve()
    if what == "compile":
        return compile_all(bin_dir, artifacts)
    out = pathlib.Path(sys.argv[4])
    out.mkdir(parents=True, exist_ok=True)
    summary = {}
    ranks(bin_dir, artifacts, out, summary)
    if "--no-torch" not in sys.argv:
        import torch
        for part in (host_copies, beside_matmul):
            try:
                part(torch, summary)
            except Exception as fault:  # the rest is worth having without
                print(f"{part.__name__}: {fault!r}", flush=True)
    (out / "links.json").write_text(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
