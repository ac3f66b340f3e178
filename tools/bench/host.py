#!/usr/bin/env python3
"""Runs Isthmus and the MPI libraries that people use side by side on this host, and compares them.

In every repetition each library is run once for every group of points, one after the other, so that whatever the
machine does in the meantime hits all of them alike. docs/benchmarks.md says what each point measures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from launches import make_launches, matches, select_points  # noqa: E402
from peers import Library, an_isthmus, isthmus_settings, libraries  # noqa: E402
from processes import begin_clean  # noqa: E402
from report import Report, as_json, as_markdown, as_text  # noqa: E402
from results import rows_of  # noqa: E402
from runner import Bench  # noqa: E402
from targets import POINTS, Point  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench host", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, metavar="N", help="how often each library is run (7; --quick: 3)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="WORD[,WORD]",
        help="only these libraries and points: a library's key, or a point as the --list shows it, with * and ?, its "
             "kind (latency), or its number of ranks (@8); may be repeated")
    parser.add_argument("--quick", action="store_true",
                        help="3 repetitions, shorter runs, nothing with 256 ranks unless --only names it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured to FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to FILE")
    parser.add_argument("--list", action="store_true", help="list the libraries and points, and stop")
    parser.add_argument("--prefix", type=Path, default=ROOT / "build" / "prefix", metavar="FOLDER",
                        help="where Isthmus is installed (build/prefix)")
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="FOLDER",
                        help="where peers are installed and programs are compiled (build)")
    parser.add_argument("--before", type=Path, metavar="FOLDER",
                        help="beside Isthmus as it is installed there, such as of an earlier commit, and not beside the peers")
    parser.add_argument("--no-install", action="store_true", help="do not install missing peers from PyPI")
    arguments = parser.parse_args(words)
    if arguments.repetitions is None:
        arguments.repetitions = 3 if arguments.quick else 7
    if arguments.repetitions < 1:
        parser.error("--repetitions must be at least 1")
    if arguments.before and not (arguments.before / "bin/mpiexec").exists():
        parser.error(f"--before: {arguments.before} is no installation of Isthmus: ./dev build leaves one in build/prefix")
    return arguments


def select(only: list[str], quick: bool, known: list[Library]) -> tuple[list[Library], list[Point]]:
    """What --only and --quick leave. A word that fits nothing ends the program."""
    words = [word for group in only for word in group.split(",") if word]
    keys = {library.key for library in known}
    patterns = [word for word in words if word not in keys]
    for word in patterns:
        if not any(matches(word, point) for point in POINTS):
            raise SystemExit(f"--only {word}: no library and no point of that name; --list shows them")
    chosen = [library for library in known if library.key in words] or known
    points = select_points(patterns)
    if quick and not patterns:
        points = [point for point in points if point.ranks < 256]
    return chosen, points


def machine_facts(bench: Bench) -> dict[str, object]:
    model = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    facts: dict[str, object] = {
        "date": time.strftime("%Y-%m-%d %H:%M:%S"),
        "machine": f"{model}, {bench.cores} cores usable, Linux {platform.release()}",
        "load before": f"{os.getloadavg()[0]:.2f}",
        "method": f"{bench.repetitions} repetitions, libraries in turn; medians of medians; {bench.seconds:g} s a point",
    }
    if os.getloadavg()[0] > 0.3 * bench.cores:
        facts["load before"] = f"{os.getloadavg()[0]:.2f} - the machine is not quiet: do not trust these figures"
    if settings := isthmus_settings():
        facts["Isthmus's settings"] = " ".join(f"{name}={value}" for name, value in sorted(settings.items()))
    return facts


def print_list(known: list[Library]) -> None:
    for library in known:
        print(f"{library.key:12} {library.title}")
    print()
    for point in POINTS:
        target = point.target.text(point.less_is_better) if point.target else ""
        print(f"{point.name:28} {point.title:32} {point.unit:5} {target}".rstrip())


def main(words: list[str]) -> int:
    if words[:1] == ["host"]:
        words = words[1:]
    arguments = parse_arguments(words)
    build = arguments.build.resolve()
    known = libraries(build, arguments.prefix.resolve())
    if arguments.before:
        known = [known[0], an_isthmus("before", "before", arguments.before.resolve())]
    if arguments.list:
        print_list(known)
        return 0
    chosen, points = select(arguments.only, arguments.quick, known)
    bench = Bench(
        source=ROOT / "bench", build=build, libraries=list(chosen), launches=make_launches(points),
        repetitions=arguments.repetitions, seconds=0.03 if arguments.quick else 0.1)
    begin_clean()
    facts = machine_facts(bench)
    start = time.monotonic()
    bench.prepare(not arguments.no_install, lambda text: print(text, file=sys.stderr, flush=True))
    try:
        bench.measure()
    except KeyboardInterrupt:
        print("\ninterrupted: what follows is what had been measured by then", file=sys.stderr)
        facts["interrupted"] = True
    facts["took"] = f"{time.monotonic() - start:.0f} s"
    rows = [row for point in points for row in rows_of(bench.results, point, [library.key for library in chosen])]
    report = Report(chosen, rows, bench.results, facts)
    print(as_text(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(as_json(report), indent=1) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(as_markdown(report))
    wanted = {library.key for library in chosen}
    return 1 if "isthmus" in wanted and any("isthmus" in row.failures for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
