#!/usr/bin/env python3
"""Measures Isthmus and its peers where ranks live apart: in containers of one host, and on hosts joined by a network.

Containers are namespaces made for each rank (user, pid, ipc, mount with a /dev/shm of its own, uts, net), as container
engines make them, and podman's; hosts are network namespaces on a bridge. Every library runs in every place in turn, over and over.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT / "tools/dev")]

from namespaces import Hosts, why_not  # noqa: E402
from peers import Library, libraries  # noqa: E402
from podman import Podman  # noqa: E402
from processes import begin_clean, run  # noqa: E402
from progress import Progress  # noqa: E402
from results import parse_lines  # noqa: E402
from runner import Bench  # noqa: E402

PAIR = ("latency.8B", "latency.64KiB", "bandwidth.1MiB", "bandwidth.16MiB")
COLLECTIVES = tuple(f"{name}.{size}" for name in ("allreduce", "bcast", "allgather", "alltoall") for size in ("8B", "64KiB", "1MiB"))

# `unshare` options of a rank's container, and what is done in it before the program.
SHM = "mount -t tmpfs shm /dev/shm; "
CONTAINERS = {
    "native": None,
    "native, sibling user namespaces": (("-U", "-r"), ""),  # nobody may read another's memory
    "containers, one pid and network namespace": (("-m", "-i", "-u"), SHM),
    "containers, one network namespace": (("-U", "-r", "-m", "-p", "-i", "-u", "-f", "--mount-proc", "--kill-child"), SHM),
    "containers, all private": (("-U", "-r", "-m", "-p", "-i", "-u", "-n", "-f", "--mount-proc", "--kill-child"), SHM),
}
PODMAN = "podman containers"
# What programs of any library find in a container; of the rest it has nothing but the host's network.
MOUNTED = ("/usr:/usr:ro", "/usr/lib:/lib:ro", "/usr/lib64:/lib64:ro", "/usr/bin:/bin:ro", "/etc/alternatives:/etc/alternatives:ro",
           "/etc/openmpi:/etc/openmpi:ro")
HOSTS = {"2 hosts": (2, 2, PAIR), "4 hosts of 2 ranks": (4, 8, COLLECTIVES)}
LIMIT = 90  # seconds that a run may take


@dataclass(frozen=True)
class Run:
    place: str
    ranks: int
    points: tuple[str, ...]


RUNS = [Run(place, 2, PAIR) for place in (*CONTAINERS, PODMAN)] + [Run(place, ranks, points) for place, (_, ranks, points) in HOSTS.items()]


def contained(program: list[str], place: str) -> list[str]:
    wrapping = CONTAINERS[place]
    if wrapping is None:
        return program
    flags, script = wrapping
    return ["unshare", *flags, "sh", "-c", f'{script}exec "$@"', "sh", *program]


def on_hosts(library: Library, hosts: Hosts, ranks: int) -> list[str]:
    """How a library starts its ranks on all hosts, in turn or in blocks as it likes."""
    names = ",".join(hosts.names)
    each = ranks // len(hosts.names)
    mpiexec = library.expand(library.mpiexec)
    if library.key == "isthmus":
        slots = ",".join(f"{name}:{each}" for name in hosts.names)
        return [mpiexec, "--hosts", slots, "--launcher", str(hosts.launcher), "-n", str(ranks)]
    if library.key.startswith("openmpi"):
        slots = ",".join(f"{name}:{each}" for name in hosts.names)
        # It cannot know that these hosts share cores; told so, it is a thousand times as fast.
        parameters = {"plm_rsh_agent": str(hosts.launcher), "btl_tcp_if_include": "10.77.0.0/24", "oob_tcp_if_include": "10.77.0.0/24",
                      "mpi_yield_when_idle": "1"}  # fmt: skip
        words = [word for name, value in parameters.items() for word in ("--mca", name, value)]
        return [mpiexec, *words, "--host", slots, "--bind-to", "none", "-n", str(ranks)]
    return [mpiexec, "-launcher", "rsh", "-launcher-exec", str(hosts.launcher), "-hosts", names, "-ppn", str(each), "-n", str(ranks)]


class Places:
    def __init__(self, bench: Bench, hosts: dict[str, Hosts], podman: Podman | None):
        self.bench, self.hosts, self.podman = bench, hosts, podman
        self.spared = frozenset(pid for each in hosts.values() for pid in each.keepers)
        self.samples: dict[tuple[str, str, str], list[float]] = {}
        self.units: dict[str, str] = {}
        self.failures: dict[tuple[str, str], str] = {}

    def command(self, library: Library, this: Run, seconds: float) -> list[str]:
        program = [str(self.bench.build / "bench" / library.key / "bench_host"), "--seconds", str(seconds), *this.points]
        if this.place in self.hosts:
            hosts = self.hosts[this.place]
            return [*hosts.head, *on_hosts(library, hosts, this.ranks), *program]
        options = library.one_rank_a_core
        if this.place == PODMAN:
            return self.in_podman(library, options, this.ranks, program)
        return [library.expand(library.mpiexec), *options, "-n", str(this.ranks), *contained(program, this.place)]

    def in_podman(self, library: Library, options: tuple[str, ...], ranks: int, program: list[str]) -> list[str]:
        """Isthmus by `--container`; its peers as their users do it, each rank through `podman run` with the environment passed on."""
        mpiexec = library.expand(library.mpiexec)
        own = library.key == "isthmus"  # mounts what it consists of itself
        folders = [self.bench.build] + ([library.prefix] if library.prefix and not own else [])
        volumes = [word for mounted in (*MOUNTED, *(f"{folder}:{folder}" for folder in folders)) for word in ("--volume", mounted)]
        words = self.podman.run("--network", "host", *volumes)
        if own:
            return [mpiexec, *options, "-n", str(ranks), "--container", " ".join(words), *program]
        at = words.index("run") + 1
        return [mpiexec, *options, "-n", str(ranks), *words[:at], "--rm", "--env-host", "--volume", "/tmp:/tmp", *words[at:], *program]

    def measure(self, library: Library, this: Run, seconds: float) -> None:
        if (library.key, this.place) in self.failures:
            return
        environment = library.run_environment() | (self.podman.environment if self.podman else {})
        finished = run(self.command(library, this, seconds), environment, self.bench.build, LIMIT, self.spared)
        for line in parse_lines(finished.output):
            if "value" in line and line["point"] in this.points:
                self.samples.setdefault((library.key, this.place, line["point"]), []).append(line["value"])
                self.units[line["point"]] = line["unit"]
        if finished.timed_out or finished.status != 0:
            words = [text for text in finished.errors.splitlines() if text.strip()]
            why = f"no end after {LIMIT} s" if finished.timed_out else f"exit status {finished.status}"
            self.failures[library.key, this.place] = f"{why}{': ' + words[0][:120] if words else ''}"

    def median(self, key: str, place: str, point: str) -> float | None:
        values = self.samples.get((key, place, point))
        return statistics.median(values) if values else None


def less_is_better(point: str) -> bool:
    return not point.startswith("bandwidth")


def table(places: Places, chosen: list[Library], runs: list[Run]) -> str:
    """As Markdown: medians, Isthmus against the best peer in that place, and against itself without walls."""
    titles = [library.title for library in chosen]
    lines = ["| place | point | unit | " + " | ".join(titles) + " | to the best peer | to native |",
             "|---|---|---|" + "--:|" * (len(titles) + 2)]
    for this in runs:
        for point in this.points:
            figures = {library.key: places.median(library.key, this.place, point) for library in chosen}
            own = figures.get("isthmus")
            others = [value for key, value in figures.items() if key != "isthmus" and value is not None]
            best = (min if less_is_better(point) else max)(others) if others else None
            native = places.median("isthmus", "native", point)
            ratio = f"{own / best:.2f}" if own and best else "-"
            to_native = f"{own / native:.2f}" if own and native and this.place not in HOSTS else "-"
            cells = [f"{value:.3g}" if value is not None else "failed" for value in figures.values()]
            lines.append(f"| {this.place} | {point} | {places.units.get(point, '')} | " + " | ".join(cells) + f" | {ratio} | {to_native} |")
    for (key, place), reason in places.failures.items():
        lines.append(f"\n{key}, {place}: {reason}")
    return "\n".join(lines) + "\n"


def parse_arguments(words: list[str], known: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench places", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=7, metavar="N", help="how often each library is run in each place (7)")
    parser.add_argument("--seconds", type=float, default=0.1, metavar="S", help="how long each point is measured (0.1)")
    parser.add_argument("--libraries", default="isthmus,openmpi4,mpich4", metavar="KEY,...", help=f"of {', '.join(known)}")
    parser.add_argument("--only", metavar="WORD", help="only places whose name has this word in it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table to FILE")
    parser.add_argument("--prefix", type=Path, default=ROOT / "build" / "prefix", metavar="FOLDER")
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="FOLDER")
    arguments = parser.parse_args(words)
    arguments.libraries = arguments.libraries.split(",")
    if unknown := [key for key in arguments.libraries if key not in known]:
        parser.error(f"--libraries: {', '.join(unknown)} is none of {', '.join(known)}")
    if arguments.repetitions < 1 or arguments.seconds <= 0:
        parser.error("--repetitions and --seconds must be above 0")
    return arguments


def main(words: list[str]) -> int:
    build = ROOT / "build"
    arguments = parse_arguments(words, [library.key for library in libraries(build, build / "prefix")])
    if reason := why_not():
        print(f"places: {reason}", file=sys.stderr)
        return 1
    known = libraries(arguments.build.resolve(), arguments.prefix.resolve())
    chosen = [library for library in known if library.key in arguments.libraries]
    runs = [this for this in RUNS if not arguments.only or arguments.only in this.place]
    if not runs:
        print(f"--only {arguments.only}: no such place; there are: {', '.join(this.place for this in RUNS)}", file=sys.stderr)
        return 2
    bench = Bench(source=ROOT / "bench", build=arguments.build.resolve(), libraries=chosen, launches=[], repetitions=0, seconds=0)
    begin_clean()
    bench.prepare(True, lambda text: print(text, file=sys.stderr, flush=True))
    chosen = bench.libraries
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="isthmus-places."))
        podman = Podman(folder) if any(this.place == PODMAN for this in runs) else None
        if podman and podman.why_not:
            print(f"places: without {PODMAN}: {podman.why_not}", file=sys.stderr)
            runs = [this for this in runs if this.place != PODMAN]
        elif podman:
            stack.callback(podman.reset)
        # Kept to the end: making hosts costs more than a run.
        hosts = {place: stack.enter_context(Hosts(count)) for place, (count, _, _) in HOSTS.items()
                 if any(this.place == place for this in runs)}
        places = Places(bench, hosts, podman)
        progress = Progress([((library.key, this.place), 3.0) for _ in range(arguments.repetitions) for this in runs for library in chosen])
        with contextlib.suppress(KeyboardInterrupt):
            for repetition in range(arguments.repetitions):
                for this in runs:
                    for library in chosen:
                        progress.begin(f"repetition {repetition + 1} of {arguments.repetitions}: {this.place}: {library.title}")
                        before = os.times().elapsed
                        places.measure(library, this, arguments.seconds)
                        progress.end((library.key, this.place), os.times().elapsed - before)
        progress.clear()
    text = table(places, chosen, runs)
    print(text)
    if arguments.markdown:
        arguments.markdown.write_text(text)
    if arguments.json:
        samples = [{"library": key, "place": place, "point": point, "unit": places.units[point], "values": values}
                   for (key, place, point), values in places.samples.items()]
        arguments.json.write_text(json.dumps({"samples": samples, "failures": [list(k) + [v] for k, v in places.failures.items()]}, indent=1) + "\n")
    return 1 if any(key == "isthmus" for key, _ in places.failures) else 0


if __name__ == "__main__":
    sys.exit(main([word for word in sys.argv[1:] if word != "places"]))
