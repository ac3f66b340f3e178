#!/usr/bin/env python3
"""Runs benchmarks of Isthmus Bench under several MPI libraries, in turn, and compares them.

Each library's own mpicxx builds the same sources; in every repetition each library does a benchmark before any does the next. Results are in
FOLDER/results.jsonl as soon as they are there: the same command, given again after an interruption, goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from builds import build_suite, find_sources, jobs  # noqa: E402
from campaign import Campaign, Job, OtherPlan, Plan, Store  # noqa: E402
from campaign_report import Findings, as_csv, as_json, as_markdown, as_text, find  # noqa: E402
from peers import Library, Unavailable, libraries, make_available  # noqa: E402
from processes import begin_clean  # noqa: E402

HERE = Path(__file__).resolve().parent
ALIASES = {"openmpi": ("openmpi4", "openmpi5"), "mpich": ("mpich4", "mpich5"), "intel": ("intelmpi",), "impi": ("intelmpi",)}
# What a campaign measures when no benchmark is named: sizes that tell small, eager, rendezvous and large messages apart; contents checked.
CAMPAIGN_SIZES = ("-m", "8,1K,8K,64K,512K,4M", "-c")


def default_prefix() -> Path:
    """The installation that these scripts are in, else the repository's."""
    installed = HERE.parents[3] if len(HERE.parents) > 3 else HERE
    return installed if (installed / "libexec" / "isthmus").is_dir() else HERE.parents[1] / "build" / "prefix"


def default_build() -> Path:
    in_tree = HERE.parents[1] / "build"
    if (HERE.parents[1] / "dev").exists():
        return in_tree
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "isthmus"


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="isthmus bench compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Options after -- are the benchmarks' own, as in: isthmus bench compare latency bw -- -m 8:64K -c")
    parser.add_argument("names", nargs="*", metavar="NAME[@RANKS]",
                        help="benchmarks, with 2 ranks or so many; without any: a whole campaign over the host's memory")
    parser.add_argument("--mpi", default="isthmus,openmpi,mpich", metavar="LIBRARY,...",
                        help="isthmus, openmpi, openmpi4, openmpi5, mpich, mpich4, mpich5, intelmpi, or a folder with bin/mpicxx and bin/mpiexec; "
                             "all: every one of them; LIBRARY:NAME=VALUE: with that variable set, to compare paths. Ratios are those of the first to the others (isthmus,openmpi,mpich)")
    parser.add_argument("--repetitions", type=int, metavar="N", help="runs of each benchmark with each library (5; a whole campaign: 3)")
    parser.add_argument("--seconds", type=float, metavar="S", help="how long each size is measured in a run (0.05; a whole campaign: 0.02)")
    parser.add_argument("--limit", type=float, metavar="S", help="seconds after which a run is ended (300; a whole campaign: 60)")
    parser.add_argument("--output", type=Path, default=Path("isthmus-bench"), metavar="FOLDER", help="where results go (isthmus-bench)")
    parser.add_argument("--plot", action="store_true", help="draw the curves: FOLDER/*.png and *.svg (needs matplotlib)")
    parser.add_argument("--page", action="store_true", help="write FOLDER/page.html, which has everything in one file")
    parser.add_argument("--prefix", type=Path, default=default_prefix(), metavar="FOLDER", help="where Isthmus is installed")
    parser.add_argument("--build", type=Path, default=default_build(), metavar="FOLDER", help="where programs and wheels are kept")
    parser.add_argument("--no-install", action="store_true", help="do not install missing libraries from PyPI")
    own, options = (words[: words.index("--")], words[words.index("--") + 1:]) if "--" in words else (words, [])
    arguments = parser.parse_args(own)
    arguments.options = tuple(options)
    if arguments.repetitions is None:
        arguments.repetitions = 5 if arguments.names else 3
    if arguments.limit is None:
        arguments.limit = 300 if arguments.names else 60
    if arguments.seconds is None:
        arguments.seconds = 0.05 if arguments.names else 0.02
    if arguments.repetitions < 1:
        parser.error("--repetitions must be at least 1")
    if not arguments.seconds > 0 or not arguments.limit > 0:
        parser.error("--seconds and --limit must be above 0")
    return arguments


def library_at(folder: Path) -> Library:
    """An installation that nobody has named before: Open MPI by its ompi_info, else with MPICH's options."""
    like = "openmpi5" if (folder / "bin" / "ompi_info").exists() else "mpich5"
    known = next(library for library in libraries(folder, folder) if library.key == like)
    return Library(key=folder.name or "mpi", title=str(folder), mpicc=known.mpicc, mpicxx=known.mpicxx, mpiexec=known.mpiexec,
                   one_rank_a_core=known.one_rank_a_core, crowded=known.crowded, environment=known.environment, prefix=folder)


def with_variables(library: Library, variables: list[str]) -> Library:
    """The same library on another path: "ISTHMUS_CMA=off" is set for its ranks."""
    if not variables:
        return library
    pairs = [word.partition("=") for word in variables]
    if wrong := [word for word, (name, equals, _) in zip(variables, pairs) if not name or not equals]:
        raise SystemExit(f"isthmus bench compare: --mpi: '{wrong[0]}' is no NAME=VALUE")
    environment = {**library.environment, **{name: value for name, _, value in pairs}}
    return replace(library, key=":".join([library.key, *variables]), title=f"{library.title}, {' '.join(variables)}", environment=environment)


def choose_libraries(text: str, build: Path, prefix: Path) -> list[Library]:
    known = {library.key: library for library in libraries(build, prefix)}
    chosen: list[Library] = []
    for whole in [word for word in text.split(",") if word]:
        word, *variables = whole.split(":")
        before = len(chosen)
        if word == "all":
            chosen += known.values()
        elif word in ALIASES:
            found = next((known[key] for key in ALIASES[word] if shutil.which(known[key].expand(known[key].mpicxx))), known[ALIASES[word][-1]])
            chosen.append(found)
        elif word in known:
            chosen.append(known[word])
        elif "/" in word:
            chosen.append(library_at(Path(word).absolute()))
        else:
            raise SystemExit(f"isthmus bench compare: --mpi: '{word}' is no library; there are {', '.join([*known, *ALIASES])}, and folders")
        chosen[before:] = [with_variables(library, variables) for library in chosen[before:]]
    if not chosen:
        raise SystemExit("isthmus bench compare: --mpi names no library")
    return list({library.key: library for library in chosen}.values())


def choose_jobs(names: list[str], options: tuple[str, ...], benchmarks: list[str]) -> list[Job]:
    if not names:
        sized = lambda name: name not in ("init", "fop_latency", "cas_latency") and "barrier" not in name  # noqa: E731
        return [Job(name, 2, (CAMPAIGN_SIZES if sized(name) else ()) + options) for name in benchmarks]
    found = []
    for word in names:
        name, _, ranks = word.partition("@")
        name = name.removeprefix("osu_")
        if name not in benchmarks:
            raise SystemExit(f"isthmus bench compare: there is no benchmark '{name}' (isthmus bench --list names them)")
        if ranks and (not ranks.isdigit() or int(ranks) < 1):
            raise SystemExit(f"isthmus bench compare: '{word}': '{ranks}' is no number of ranks")
        found.append(Job(name, int(ranks or 2), options))
    return list(dict.fromkeys(found))


def machine_facts() -> dict[str, object]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    load = os.getloadavg()[0]
    cores = len(os.sched_getaffinity(0))
    return {
        "date": time.strftime("%Y-%m-%d %H:%M:%S"),
        "machine": f"{model}, {cores} hardware threads usable, Linux {platform.release()}",
        "load before": f"{load:.2f}" + (" - the machine is not quiet: do not trust these figures" if load > 0.3 * cores else ""),
    }


def prepare(chosen: list[Library], build: Path, may_install: bool) -> tuple[dict[str, Path], dict[str, str]]:
    """The program of each library, and why those have none that could not be built."""
    programs: dict[str, Path] = {}
    unavailable: dict[str, str] = {}
    for library in chosen:
        say(f"building the benchmarks with {library.title}")
        try:
            make_available(library, may_install, say)
            programs[library.key] = build_suite(library, find_sources(), build, jobs())
        except Unavailable as reason:
            say(f"{library.title}: {reason}")
            unavailable[library.key] = str(reason)
    return programs, unavailable


def benchmark_names(program: Path) -> list[str]:
    return subprocess.run([str(program), "--names"], capture_output=True, text=True, check=True).stdout.split()


def explanation(isthmus: Library, program: Path) -> str:
    """What `isthmus explain` says of a short exchange."""
    command = [str(isthmus.prefix / "bin" / "isthmus"), "explain", isthmus.expand(isthmus.mpiexec), "-n", "2", str(program), "latency",
               "-m", "8,1M", "-i", "20", "-x", "0"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stderr.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"isthmus explain could not be run: {error}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def write_reports(findings: Findings, folder: Path) -> None:
    (folder / "report.md").write_text(as_markdown(findings))
    (folder / "report.csv").write_text(as_csv(findings))
    (folder / "report.json").write_text(json.dumps(as_json(findings), indent=1) + "\n")
    (folder / "report.txt").write_text(as_text(findings) + "\n")


def draw(findings: Findings, folder: Path, arguments: argparse.Namespace, explained: str) -> bool:
    """The pictures and the page, as asked for. Without matplotlib there are none, and the page says so."""
    if not arguments.plot and not arguments.page:
        return True
    from page import as_page
    from pictures import MISSING, available, draw_all

    can = available()
    if not can:
        say(MISSING)
    drawn = draw_all(findings, folder) if can else {}
    if arguments.page:
        (folder / "page.html").write_text(as_page(findings, drawn, explained))
    return can


def main(words: list[str]) -> int:
    arguments = parse_arguments(words)
    build = arguments.build.resolve()
    chosen = choose_libraries(arguments.mpi, build, arguments.prefix.resolve())
    begin_clean()
    build.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    programs, unavailable = prepare(chosen, build, not arguments.no_install)
    if not programs:
        say("isthmus bench compare: none of the libraries can be used")
        return 1
    plan = Plan(tuple(library.key for library in chosen),
                tuple(choose_jobs(arguments.names, arguments.options, benchmark_names(next(iter(programs.values()))))),
                arguments.repetitions, arguments.seconds)
    try:
        store = Store(arguments.output, plan, machine_facts())
    except OtherPlan as reason:
        say(f"isthmus bench compare: {reason}")
        return 2
    campaign = Campaign(plan, {library.key: library for library in chosen}, programs, store, build, arguments.limit)
    facts = dict(store.facts)
    interrupted = False
    try:
        campaign.measure(say)
    except KeyboardInterrupt:
        interrupted = True
        say("\ninterrupted: what follows is what had been measured by then; the same command goes on from here")
        facts["interrupted"] = "yes: not all was measured"
    facts["took"] = f"{time.monotonic() - start:.0f} s"
    findings = find(plan, {library.key: library.title for library in chosen}, facts, store.records, unavailable)
    write_reports(findings, arguments.output)
    print(as_text(findings))
    isthmus = next((library for library in chosen if library.key == "isthmus" and library.key in programs), None)
    explained = explanation(isthmus, programs["isthmus"]) if isthmus and arguments.page and not interrupted else ""
    drawn = draw(findings, arguments.output, arguments, explained)
    say(f"written: {arguments.output}/report.md, .txt, .csv, .json" + (f", {arguments.output}/page.html" if arguments.page else ""))
    if interrupted:
        return 130
    return 0 if drawn and not any(why.startswith("failed") for why in findings.missing.values()) else 1


if __name__ == "__main__":
    sys.exit(main([word for word in sys.argv[1:]]))
