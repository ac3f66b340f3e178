#!/usr/bin/env python3
"""Compares Isthmus Bench with bare loops of the same calls (bench/bare/loop.c), in turn: what the suite itself adds to what it measures.

Both are run in turn for every size, over and over; the figure of each is the median of its runs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from peers import libraries  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ("latency", "bw", "allreduce", "bcast")


def output_of(command: list[str]) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=120).stdout


def bare(launch: list[str], loop: Path, name: str, size: int, iterations: int) -> float:
    return float(output_of([*launch, str(loop), name, str(size), str(iterations)]).split()[-1])


def suite(launch: list[str], program: Path, name: str, size: int) -> float:
    """Microseconds: a bandwidth as the time of its window."""
    text = output_of([*launch, str(program), name, "-m", f"{size}:{size}", "--format", "json", "--seconds", "0.05"])
    row = next(line for line in map(json.loads, (t for t in text.splitlines() if t.startswith("{"))) if "value" in line and "size" in line)
    return 64 * size / row["value"] if row["unit"] == "MB/s" else row["value"]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench agree", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--repetitions", type=int, default=9, metavar="N")
    parser.add_argument("--sizes", default="8,64,512,4096,32768,262144,2097152", metavar="BYTES,...")
    parser.add_argument("--prefix", type=Path, default=ROOT / "build" / "prefix", metavar="FOLDER", help="where Isthmus is installed")
    parser.add_argument("--loop", type=Path, metavar="PROGRAM", help="bench/bare/loop.c, already built")
    arguments = parser.parse_args(words)
    isthmus = next(library for library in libraries(ROOT / "build", arguments.prefix) if library.key == "isthmus")
    loop = arguments.loop or ROOT / "build" / "bench" / "bare_loop"
    if arguments.loop is None:
        loop.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([isthmus.expand(isthmus.mpicc), "-O2", str(ROOT / "bench/bare/loop.c"), "-o", str(loop)], check=True)
    program = isthmus.prefix / "libexec" / "isthmus" / "bench" / "isthmus_bench"
    launch = [isthmus.expand(isthmus.mpiexec), *isthmus.one_rank_a_core, "-n", "2"]
    print(f"{'':10} {'bytes':>8} {'bare, us':>10} {'suite, us':>10} {'difference':>10}")
    for name in arguments.names or BENCHMARKS:
        for size in (int(word) for word in arguments.sizes.split(",")):
            guess = suite(launch, program, name, size)
            iterations = max(1, int(100 / guess / (2 if name == "latency" else 1)))
            loops, suites = [], []
            for _ in range(arguments.repetitions):
                loops.append(bare(launch, loop, name, size, iterations))
                suites.append(suite(launch, program, name, size))
            first, second = statistics.median(loops), statistics.median(suites)
            # Of each repetition by itself: what the machine did in it hit both.
            ratio = statistics.median(after / before for before, after in zip(loops, suites))
            print(f"{name:10} {size:8} {first:10.4g} {second:10.4g} {(ratio - 1) * 100:9.1f}%", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main([word for word in sys.argv[1:] if word != "agree"]))
