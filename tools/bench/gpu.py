#!/usr/bin/env python3
"""Measures MPI on GPU memory against the bare CUDA driver and NCCL, in turn, in one run.

Needs GPUs; what needs more of them than there are is left out, and said. Runs from the tree, and from a bundle of
`./dev gpu-bundle` on a machine where nothing can be installed: gpu-bundle/run python3 gpu-bundle/bench/gpu.py.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from gpu_peers import GpuLibrary, make, packed  # noqa: E402
from gpu_points import ELSEWHERE, PLACES, POINTS, Point  # noqa: E402
from peers import Unavailable  # noqa: E402
from processes import begin_clean, run  # noqa: E402
from results import parse_lines  # noqa: E402

WAYS = ("mpi", "raw", "nccl")
LIMIT = 150  # seconds for a launch


@dataclass
class Result:
    point: Point
    figures: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def is_bundle() -> bool:
    return (HERE.parent / "run").exists()


def parse_arguments(words: list[str]) -> argparse.Namespace:
    root = HERE.parent if is_bundle() else HERE.parents[1]
    prefix = root if is_bundle() else root / "build/prefix"
    program = root / "bin/bench_gpu" if is_bundle() else root / "build/release/bench/bench_gpu"
    parser = argparse.ArgumentParser(prog="./dev bench gpu", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="WORD[,WORD]",
                        help="only points that fit, as --list shows them, with * and ?; may be repeated")
    parser.add_argument("--seconds", type=float, default=0.1, metavar="S", help="for each way of a point (0.1)")
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="how often the ways take turns (15)")
    parser.add_argument("--peers", nargs="?", const="openmpi5,intelmpi", default="", metavar="KEY[,KEY]",
                        help="MPI libraries beside Isthmus (openmpi5, over a UCX with CUDA, and intelmpi, from PyPI); in a bundle those of ./dev gpu-bundle --peers")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="also Isthmus as it is installed there, such as of an earlier commit")
    parser.add_argument("--nccl", type=Path, metavar="FILE", help="libnccl.so.2 (that of PyTorch, or the loader's)")
    parser.add_argument("--no-nccl", action="store_true", help="leave NCCL out")
    parser.add_argument("--gpus", type=int, metavar="N", help="how many there are (asks nvidia-smi)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured to FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table to FILE")
    parser.add_argument("--list", action="store_true", help="list the points, and stop")
    parser.add_argument("--prefix", type=Path, default=prefix, metavar="FOLDER", help="where Isthmus is installed")
    parser.add_argument("--program", type=Path, default=program, metavar="FILE", help="bench_gpu, built with Isthmus")
    arguments = parser.parse_args(words)
    if arguments.seconds <= 0 or arguments.rounds < 1:
        parser.error("--seconds and --rounds must be above 0")
    if arguments.before and not (arguments.before / "bin/mpiexec").exists():
        parser.error(f"--before: {arguments.before} is no installation of Isthmus: ./dev build leaves one in build/prefix")
    return arguments


def select(only: list[str]) -> list[Point]:
    words = [word for group in only for word in group.split(",") if word]
    for word in words:
        if not any(fits(word, point) for point in POINTS):
            raise SystemExit(f"--only {word}: no such point; --list shows them")
    return [point for point in POINTS if not words or any(fits(word, point) for word in words)]


def fits(word: str, point: Point) -> bool:
    return fnmatch.fnmatch(point.key, word) or fnmatch.fnmatch(point.name, word) or point.name.partition(".")[0] == word or \
        (word.startswith("@") and word == f"@{point.ranks}")


def find_nccl() -> Path | None:
    """The one of the Python packages that PyTorch brings."""
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *(entry for entry in sys.path if entry.endswith("-packages"))}
    # A virtual environment may stand before the interpreter that has PyTorch.
    for python in filter(None, (shutil.which("python3"), "/usr/bin/python3")):
        asked = subprocess.run([python, "-c", "import sys; print('\\n'.join(sys.path))"], capture_output=True, text=True, check=False)
        folders |= {line for line in asked.stdout.splitlines() if line.endswith("-packages")}
    found = [file for folder in sorted(folders) for file in Path(folder).glob("nvidia/nccl/lib/libnccl.so.2")]
    return found[0] if found else None


def count_gpus() -> int:
    if not shutil.which("nvidia-smi"):
        return 0
    listed = subprocess.run(["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True, check=False)
    return len(listed.stdout.split()) if listed.returncode == 0 else 0


def find_peers(arguments: argparse.Namespace) -> list[GpuLibrary]:
    before = [an_isthmus(arguments.before.resolve(), arguments.program.resolve())] if arguments.before else []
    if not arguments.peers:
        return before
    try:
        return before + packed(HERE.parent) if is_bundle() else before + make(HERE.parents[1] / "build", arguments.peers.split(","))
    except Unavailable as reason:
        raise SystemExit(f"bench gpu: --peers: {reason}") from None


def an_isthmus(prefix: Path, program: Path) -> GpuLibrary:
    """Another version, under the same program: what they share is the standard's ABI."""
    paths = ":".join(filter(None, (str(prefix / "lib"), os.environ.get("LD_LIBRARY_PATH"))))
    return GpuLibrary("before", prefix / "bin/mpiexec", program, environment=(("LD_LIBRARY_PATH", paths),))


def launches(points: list[Point]) -> Iterator[tuple[int, str, list[Point]]]:
    """Points that one start of the program can measure; the long ones of a place apart, so that a failure costs few."""
    for (ranks, place), group in groupby(points, key=lambda point: (point.ranks, point.place)):
        several = list(group)
        for at in range(0, len(several), 5):
            yield ranks, place, several[at:at + 5]


def measure(library: GpuLibrary, arguments: argparse.Namespace, ranks: int, place: str, points: list[Point],
            results: dict[str, Result], facts: dict[str, str]) -> None:
    nccl = ["--nccl", str(arguments.nccl)] if arguments.nccl else []
    if place or arguments.no_nccl:  # it knows hosts by their names, and is no measure of what walls cost
        nccl = ["--no-nccl"]
    command = [str(library.mpiexec), *library.options, "-n", str(ranks), *PLACES.get(place, ()), str(library.program), "--seconds", str(arguments.seconds),
               "--rounds", str(arguments.rounds), *nccl, *(point.name for point in points)]
    finished = run(command, library.run_environment(), Path.cwd(), LIMIT)
    by_name = {point.name: results[point.key] for point in points}
    for line in parse_lines(finished.output):
        if "fact" in line and place:
            continue
        if "fact" in line:
            facts.setdefault(line["fact"] if library.key == "isthmus" else f"{library.key} {line['fact']}", line["text"])
        elif line.get("point") in by_name:
            way = library.key if line["way"] == "mpi" and library.key != "isthmus" else line["way"]
            if library.key != "isthmus" and line["way"] != "mpi":
                continue
            result = by_name[line["point"]]
            if "failure" in line:
                result.failures[way] = line["failure"]
            else:
                result.figures[way] = line["value"]
    own = "mpi" if library.key == "isthmus" else library.key
    if finished.timed_out or finished.status != 0:
        words = [text for text in finished.errors.splitlines() if text.strip()]
        words = [text for text in words if text.startswith("bench_gpu:") or "Signal: " in text] or words
        why = f"no end after {LIMIT} s" if finished.timed_out else f"exit status {finished.status}"
        for point in points:
            result = results[point.key]
            if own not in result.figures:
                result.failures.setdefault(own, why + (f": {words[-1][:160]}" if words else ""))
    # Why a fast way was not taken is part of the answer.
    for text in finished.errors.splitlines():
        if "by way of the host" in text:
            facts.setdefault(f"said in {place or 'the open'}", text.strip()[:300])


def look_elsewhere(results: dict[str, Result]) -> None:
    """Gives points the figures of others that their bounds name."""
    for result in results.values():
        for bound in result.point.bounds:
            key, way = ELSEWHERE.get(bound.way, ("", ""))
            if key in results and way in results[key].figures:
                result.figures[bound.way] = results[key].figures[way]


def figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def rows(results: list[Result], others: list[str]) -> Iterator[tuple[str, list[str]]]:
    for result in results:
        point, figures = result.point, result.figures
        reference = point.bounds[0].way if point.bounds else ("nccl" if "nccl" in figures else "raw")
        ratio = figures["mpi"] / figures[reference] if "mpi" in figures and reference in figures else None
        verdict = {True: "met", False: "MISSED", None: ""}[point.met(figures)]
        cells = [figure(figures.get(way)) if way not in result.failures else "failed" for way in (*WAYS, *others)]
        target = ", ".join(bound.text(point.less_is_better) for bound in point.bounds)
        yield point.section, [point.title, point.unit, *cells, f"{figure(ratio)} ({reference})" if ratio else "-", target, verdict]


def as_markdown(results: list[Result], others: list[str], facts: dict[str, str]) -> str:
    header = ["", "unit", "Isthmus", "raw", "NCCL", *others, "ratio", "target", ""]
    lines = [f"- {name}: {text}" for name, text in facts.items()]
    for section, group in groupby(rows(results, others), key=lambda row: row[0]):
        lines += ["", f"## {section[0].upper()}{section[1:]}", "", "| " + " | ".join(header) + " |",
                  "|---|---|" + "--:|" * (len(header) - 4) + "---|---|"]
        lines += ["| " + " | ".join(cells) + " |" for _, cells in group]
    judged = [result.point.met(result.figures) for result in results]
    judged = [verdict for verdict in judged if verdict is not None]
    lines += ["", f"{sum(judged)} of {len(judged)} targets met"]
    for result in results:
        lines += [f"- {result.point.key}, {way}: {why}" for way, why in result.failures.items()]
    return "\n".join(lines) + "\n"


def as_json(results: list[Result], facts: dict[str, str]) -> str:
    return json.dumps({"facts": facts, "points": [
        {"point": result.point.key, "title": result.point.title, "unit": result.point.unit, "figures": result.figures,
         "failures": result.failures, "target": [bound.text(result.point.less_is_better) for bound in result.point.bounds],
         "met": result.point.met(result.figures)} for result in results]}, indent=1) + "\n"


def main(words: list[str]) -> int:
    arguments = parse_arguments(words)
    points = select(arguments.only)
    if arguments.list:
        for point in points:
            targets = ", ".join(bound.text(point.less_is_better) for bound in point.bounds)
            print(f"{point.key:34} {point.section}: {point.title}   {targets}".rstrip())
        return 0
    gpus = arguments.gpus if arguments.gpus is not None else count_gpus()
    if gpus < 2:
        print(f"bench gpu: this needs two GPUs, and there {'is one' if gpus == 1 else 'are none'} here "
              "(./dev gpu-bundle packs it for a machine that has them)", file=sys.stderr)
        return 1
    if not arguments.program.exists():
        print(f"bench gpu: {arguments.program} is not there: run ./dev build first", file=sys.stderr)
        return 1
    left_out = [point for point in points if point.ranks > gpus]
    points = [point for point in points if point.ranks <= gpus]
    arguments.nccl = arguments.nccl or find_nccl()
    chosen = [GpuLibrary("isthmus", arguments.prefix.resolve() / "bin/mpiexec", arguments.program.resolve()), *find_peers(arguments)]
    begin_clean()
    results = {point.key: Result(point) for point in points}
    facts = {"date": time.strftime("%Y-%m-%d %H:%M:%S"),
             "method": f"median of {arguments.rounds} rounds, ways in turn, {arguments.seconds:g} s each; the slowest rank's time"}
    try:
        for ranks, place, several in launches(points):
            # Walls, and what is left out, are Isthmus's own affair.
            for library in chosen if not place else chosen[:1]:
                # What a peer cannot do, it may not survive.
                for some in [several] if library is chosen[0] else [[point] for point in several]:
                    print(f"{ranks} ranks{', ' + place if place else ''}: {library.key}: "
                          f"{', '.join(point.name for point in some)}", file=sys.stderr, flush=True)
                    measure(library, arguments, ranks, place, some, results, facts)
    except KeyboardInterrupt:
        facts["interrupted"] = "what follows is what had been measured by then"
    look_elsewhere(results)
    if left_out:
        facts["left out"] = f"{len(left_out)} points that need more than the {gpus} GPUs here"
    others = [library.key for library in chosen[1:]]
    text = as_markdown(list(results.values()), others, facts)
    print(text)
    if arguments.markdown:
        arguments.markdown.write_text(text)
    if arguments.json:
        arguments.json.write_text(as_json(list(results.values()), facts))
    return 1 if any("mpi" in result.failures for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main([word for word in sys.argv[1:] if word != "gpu"]))
