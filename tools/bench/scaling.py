#!/usr/bin/env python3
"""Measures what `isthmus simulate` needs, writes it to a file, and holds the simulator against iterations that were measured beside it.

Sweeps on one GPU; messages between two, straight and copied through the host; Jacobi3D on 1, 2, 4, ... GPUs. What packing a face takes,
and what else an exchange does, is taken for each way from two iterations marked "calibration", which are not among those that the
simulator is held against; nor are the sweeps: on one GPU it is held against cubes between theirs. It prints how far off each point is. Runs from the tree, and
from a bundle of `./dev gpu-bundle jacobi3d bench_chare_data`: gpu-bundle/run python3 gpu-bundle/bench/scaling.py --gpus 2.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
IS_BUNDLE = (HERE.parent / "run").exists()
ROOT = HERE.parent if IS_BUNDLE else HERE.parents[1]
PREFIX = ROOT if IS_BUNDLE else ROOT / "build/prefix"
WAYS = {"direct": "pack", "staged": "staged"}
SIZES = "8,1024,8192,65536,262144,1048576,4194304,16777216"


def find(program, folder):
    return ROOT / "bin" / program if IS_BUNDLE else ROOT / "build/release" / folder / program


def run(command, limit):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=limit, check=False)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(str(word) for word in command)} ended with {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def iterate(arguments, gpus, n, halo):
    """Microseconds of an iteration, and of the exchange in it; the median of the slowest process. More of small cubes, of which few
    are over before a GPU has its clock."""
    iterations = arguments.iterations * max(1, min((256 // n) ** 2, 16))
    command = [PREFIX / "bin/mpiexec", "-n", gpus, find("jacobi3d", "apps/jacobi3d"), "-n", n, "--tolerance", 0,
               "--iterations", iterations, "--residual-every", 1000, "-q"]
    command += ["--gpu", "--halo", halo] if not arguments.host else ["--halo", "pack"]
    text = run(command, 120)
    time = re.search(r"time +([\d.]+) ms an iteration", text)
    exchange = re.search(r"([\d.]+) us an exchange", text)
    if not time:
        raise SystemExit(f"jacobi3d has said no time:\n{text}")
    return 1000 * float(time[1]), float(exchange[1]) if exchange else 0.0


def iterate_all(arguments, points):
    """The best time of each (GPUs, edge, halo), all of them in turn: a clock that changes meets every point."""
    best = {}
    for _ in range(arguments.runs):
        for point in points:
            best[point] = min(best.get(point, (float("inf"), 0.0)), iterate(arguments, *point))
    return best


def messages(arguments, way):
    words = ([] if arguments.host else ["gpu"]) + (["staged"] if way == "staged" else [])
    sizes = arguments.bytes.split(",")
    text = run([PREFIX / "bin/mpiexec", "-n", 2, find("bench_chare_data", "bench"), *words, *sizes], 170)
    found = re.findall(r"^ *(\d+) B  MPI +[\d.]+ / +([\d.]+) us", text, re.MULTILINE)
    if "all data came as it was sent" not in text or len(found) != len(sizes):
        raise SystemExit(f"bench_chare_data has not said all:\n{text}")
    return [[int(size), float(time)] for size, time in found]


def rising(points):
    """Times as they are, but none below that of a smaller size: what the curve is made of must be able to happen."""
    most = 0.0
    result = []
    for size, time in points:
        most = max(most, time)
        result.append([size, most])
    return result


def at(points, size):
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if size <= x1:
            return y0 if size <= x0 else y0 + (y1 - y0) * (size - x0) / (x1 - x0)
    (x0, y0), (x1, y1) = points[-2:]
    return y1 + (y1 - y0) * (size - x1) / (x1 - x0)


def between(edges):
    """An edge in the middle of each two: cubes that no sweep was measured with."""
    return [(one + other) // 2 for one, other in zip(edges, edges[1:]) if other - one > 1]


def half_of(edge):
    """The edge of a cube with half of the points, as each of two GPUs has."""
    return round(edge / 2 ** (1 / 3))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=2, metavar="N", help="how many there are (2)")
    parser.add_argument("--sizes", default="64,128,192,256,384,512", metavar="N,N", help="edges of the cube; the first and the last calibrate")
    parser.add_argument("--bytes", default=SIZES, metavar="N,N", help="of the messages that are measured, two or more (8 to 16 MiB)")
    parser.add_argument("--iterations", type=int, default=200, metavar="N", help="of each run of a large cube, and up to 16 times as many of small ones (200)")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="the best of so many counts (3)")
    parser.add_argument("--host", action="store_true", help="processors instead of GPUs; there is one way then")
    parser.add_argument("--network", metavar="US,GB/S", help="assume this of a network, to go beyond one host; both ways get it, staged on top of its copies")
    parser.add_argument("--gpus-per-host", type=int, default=8, metavar="N", help="of the machine that is assumed (8)")
    parser.add_argument("--within", type=float, default=10, metavar="PERCENT", help="fail where the simulator is further off (10)")
    parser.add_argument("--output", type=Path, default=Path("costs.json"), metavar="FILE")
    parser.add_argument("--picture", metavar="FILE", help="draw the curves too")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    edges = [int(edge) for edge in arguments.sizes.split(",")]
    if len(edges) < 3 or edges != sorted(edges):
        raise SystemExit("--sizes needs three edges or more, from the smallest on")
    if "," not in arguments.bytes:
        raise SystemExit("--bytes needs two sizes or more")
    ways = {"direct": "pack"} if arguments.host else WAYS
    # Blocks of several GPUs are smaller; and where a cube begins to fill a GPU, the curve is not straight.
    # The two that calibrate are swept as they are, so that what is taken for their faces has no curve's error in it.
    swept = sorted({edges[0] // 2, *(edges[0] * quarters // 4 for quarters in range(4, 8)), *edges, *(half_of(edges[i]) for i in (0, -1))})
    held_against = [edge for edge in between(swept) if edge > edges[0]]
    counts = [count for count in (2, 4, 8) if count <= arguments.gpus]
    points = [(1, n, "pack") for n in swept + held_against]
    points += [(count, n, halo) for halo in ways.values() for count in counts for n in edges]
    times = iterate_all(arguments, points)
    sweep = rising([[n**3, times[1, n, "pack"][0]] for n in swept])
    curves = {way: rising(messages(arguments, way)) for way in ways}
    faces, measured, calibration = {way: [] for way in ways}, [], []
    for n in held_against:
        measured.append({"way": "direct", "gpus": 1, "n": n, "iteration": times[1, n, "pack"][0]})
        print(f"{'':>8}  1 GPU   n = {n:<4}  {measured[-1]['iteration']:10.1f} us an iteration", flush=True)
    for way, halo in ways.items():
        for count in counts:
            for n in edges:
                iteration, exchange = times[count, n, halo]
                point = {"way": way, "gpus": count, "n": n, "iteration": iteration}
                print(f"{way:>8}  {count} GPUs  n = {n:<4}  {iteration:10.1f} us an iteration, {exchange:8.1f} us an exchange", flush=True)
                if count == 2 and n in (edges[0], edges[-1]):
                    calibration.append(point)
                    # Of the iteration, not of the exchange: a sweep between exchanges waits for less than one alone.
                    faces[way].append([n * n, max(iteration - at(sweep, n**3 / 2) - at(curves[way], 8 * n * n), 0.0)])
                else:
                    measured.append(point)
    host = max(arguments.gpus, arguments.gpus_per_host) if arguments.network else max(arguments.gpus, 1)
    costs = {
        "name": f"{'processors' if arguments.host else 'GPUs'} of one machine, up to {arguments.gpus}"
        + (f"; a network of {arguments.network} (us, GB/s) is assumed, hosts of {host}" if arguments.network else ""),
        "gpus_per_host": host, "adapters_per_host": host,
        "sweep": sweep, "residual_every": 1000,
        "weak_edge": edges[-1], "strong_n": 3 * edges[-1],
        "ways": [], "calibration": calibration, "measured": measured,
    }  # fmt: skip
    for way, curve in curves.items():
        entry = {"name": way, "host": curve, "faces": rising(faces[way])}
        if arguments.network:
            latency, rate = (float(word) for word in arguments.network.split(","))
            # What the copies through the host take besides is what staged takes more than direct.
            entry["network"] = rising([[size, latency + size / (1000 * rate) + max(time - at(curves["direct"], size), 0)] for size, time in curve])
        costs["ways"].append(entry)
    arguments.output.write_text(json.dumps(costs, indent=1) + "\n")
    command = [PREFIX / "bin/isthmus", "simulate", arguments.output, "--within", arguments.within]
    if arguments.picture:
        command += ["--picture", arguments.picture]
    if not arguments.network:
        command += ["--gpus", host]
    return subprocess.run([str(word) for word in command], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
