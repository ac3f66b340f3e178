"""Builds the benchmark programs with each library and runs them, one library after the other, over and over."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from launches import SLOW_BUDGET, Launch
from peers import Library, Unavailable, last_lines, make_available
from processes import Finished, run
from progress import Progress
from results import Results, parse_lines

# Which part of bench_raw measures the limits whose names begin so; the cache line is always measured.
LIMIT_PARTS = {
    "cache-line": "cache-line", "line-stream": "cache-line", "double-copy": "double-copy", "memcpy": "copy",
    "barrier-8": "switching", "start": "starting", "resident": "starting",
}
FIRST_GUESS = {"small messages": 3.0, "large messages": 4.0, "collectives": 2.0, "start": 1.5, "memory": 1.0}
SLOW_GUESS = 30.0


@dataclass
class Bench:
    """Everything that one `./dev bench host` works with."""

    source: Path  # bench/
    build: Path
    libraries: list[Library]
    launches: list[Launch]
    repetitions: int
    seconds: float  # for each point of a run
    results: Results = field(default_factory=Results)
    cores: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))

    # --- building

    def prepare(self, may_install: bool, say) -> None:
        """Installs and compiles; a library that cannot be used fails at all of its points, with the reason."""
        self._build_raw()
        for library in self.libraries:
            try:
                make_available(library, may_install, say)
                self._build(library)
            except Unavailable as reason:
                say(f"{library.title}: {reason}")
                self.results.unavailable.add(library.key)
                for launch in self.launches:
                    self._fail(library, launch, str(reason))
        self.libraries = [library for library in self.libraries if library.key not in self.results.unavailable]

    def _binary(self, library: Library, program: str) -> Path:
        return self.build / "bench" / library.key / program

    def _build(self, library: Library) -> None:
        for program, sources in self._programs().items():
            output = self._binary(library, program)
            command = library.compile_command(sources, self.source, output)
            reason = self._compile(command, output, library.run_environment())
            if reason:
                raise Unavailable(f"cannot compile {program}: {reason}")

    def _programs(self) -> dict[str, list[Path]]:
        host = self.source / "host"
        return {"bench_host": sorted(host.glob("*.cpp")), "start_stop": [host / "start_stop.c"]}

    def _build_raw(self) -> None:
        raw = self.source / "raw"
        folder = self.build / "bench" / "raw"
        include = f"-I{self.source}"
        commands = {
            "bench_raw": ["c++", "-O2", "-std=c++20", "-pthread", include, *map(str, sorted(raw.glob("*.cpp")))],
            "bare": ["cc", "-O2", include, str(raw / "bare.c")],
        }
        for program, command in commands.items():
            output = folder / program
            reason = self._compile([*command, "-o", str(output)], output, dict(os.environ))
            if reason:
                raise SystemExit(f"cannot compile {program}: {reason}")

    @staticmethod
    def _compile(command: list[str], output: Path, environment: dict[str, str]) -> str | None:
        """Compiles; returns what went wrong. Always anew: seconds, against a stale program in a comparison."""
        output.parent.mkdir(parents=True, exist_ok=True)
        output.unlink(missing_ok=True)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return last_lines(done.stderr) if done.returncode != 0 else None

    # --- measuring

    def measure(self) -> None:
        quick = [launch for launch in self.launches if not launch.slow]
        slow = [launch for launch in self.launches if launch.slow]
        progress = Progress(self._steps(quick, slow))
        for repetition in range(self.repetitions):
            self._measure_limits(repetition, progress)
            for launch in quick:
                if launch.repetitions is None or repetition < launch.repetitions:
                    self._round(launch, repetition, progress)
        spent: dict[tuple[str, str], float] = {}
        for repetition in range(self.repetitions):
            for launch in slow:
                self._slow_round(launch, repetition, spent, progress)
        progress.clear()

    def _steps(self, quick: list[Launch], slow: list[Launch]) -> list[tuple[object, float]]:
        steps: list[tuple[object, float]] = [("limits", 4.0)] * self.repetitions
        for launch in quick:
            rounds = min(self.repetitions, launch.repetitions or self.repetitions) * launch.times
            guess = FIRST_GUESS.get(launch.name.partition(",")[0], 2.0)
            for library in self.libraries:
                steps += [((library.key, launch.name), guess)] * rounds
        steps += [((library.key, launch.name), SLOW_GUESS) for launch in slow for library in self.libraries]
        return steps

    def _measure_limits(self, repetition: int, progress: Progress) -> None:
        progress.begin(f"repetition {repetition + 1} of {self.repetitions}: the machine's limits")
        folder = self.build / "bench" / "raw"
        seconds = min(self.seconds, 0.05)
        command = [str(folder / "bench_raw"), "--seconds", str(seconds), "--bare", str(folder / "bare")]
        command += self._limit_parts()
        finished = run(command, dict(os.environ), self.build, 60)
        self.results.add_limits(parse_lines(finished.output))
        progress.end("limits", finished.seconds)

    def _limit_parts(self) -> list[str]:
        names = {point.limit for launch in self.launches for point in launch.points if point.limit}
        wanted = {"cache-line"} | {part for start, part in LIMIT_PARTS.items()
                                   if any(name.startswith(start) for name in names)}
        return [part for part in dict.fromkeys(LIMIT_PARTS.values()) if part in wanted]

    def _distance(self) -> float | None:
        """How far apart the two cores are now: ns for a cache line. Counts among the limits, too."""
        command = [str(self.build / "bench" / "raw" / "bench_raw"), "--seconds", "0.01", "probe"]
        lines = parse_lines(run(command, dict(os.environ), self.build, 10).output)
        self.results.add_limits(lines)
        return next((line["value"] for line in lines if "value" in line), None)

    def _round(self, launch: Launch, repetition: int, progress: Progress) -> None:
        for _ in range(launch.times):
            for library in self.libraries:
                kind = (library.key, launch.name)
                if self._given_up(library, launch):
                    progress.drop(kind)
                    continue
                progress.begin(f"repetition {repetition + 1} of {self.repetitions}: {launch.name}: {library.title}")
                started = time.monotonic()
                self._launch(library, launch)
                progress.end(kind, time.monotonic() - started)

    def _slow_round(self, launch: Launch, repetition: int, spent: dict, progress: Progress) -> None:
        """Once for every library, and again for those that have not yet used up their time."""
        for library in self.libraries:
            kind = (library.key, launch.name)
            used = spent.get(kind, 0.0)
            if self._given_up(library, launch) or (repetition > 0 and used * (repetition + 1) / repetition > SLOW_BUDGET):
                continue
            progress.begin(f"{launch.name}: {library.title}")
            started = time.monotonic()
            self._launch(library, launch)
            seconds = time.monotonic() - started
            spent[kind] = used + seconds
            progress.end(kind, seconds)

    def _given_up(self, library: Library, launch: Launch) -> bool:
        """A library that failed at every point of a launch is not tried again: some failures take the whole limit."""
        return all((library.key, point.name) in self.results.failures for point in launch.points)

    def _launch(self, library: Library, launch: Launch) -> None:
        distance = self._distance() if 2 <= launch.ranks <= self.cores and not launch.starts_and_stops else None
        if launch.starts_and_stops:
            self._start_and_stop(library, launch)
            return
        points = {point.benchmark: point for point in launch.points}
        arguments = ["--seconds", str(self.seconds), *points]
        finished = self._run(library, launch, "bench_host", arguments)
        for line in parse_lines(finished.output):
            point = points.get(line.get("point"))
            if line.get("fact") == "library":
                self.results.versions.setdefault(library.key, line["text"])
            elif point and "value" in line:
                value = line["value"] / 1e3 if (line["unit"], point.unit) == ("us", "ms") else line["value"]
                self.results.add(library.key, point, value, distance)
                del points[point.benchmark]
            elif point:
                self.results.fail(library.key, point, line["failure"])
                del points[point.benchmark]
        # A run that went wrong fails the points that it did not come to; if it came to all, the last.
        if finished.timed_out or finished.status != 0:
            for point in points.values() or [launch.points[-1]]:
                self.results.fail(library.key, point, _reason(finished, launch))
        else:
            for point in points.values():
                self.results.fail(library.key, point, "reported nothing")

    def _start_and_stop(self, library: Library, launch: Launch) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "resident"
            arguments = [str(file)] if launch.measures_memory else []
            finished = self._run(library, launch, "start_stop", arguments)
            if finished.timed_out or finished.status != 0:
                self._fail(library, launch, _reason(finished, launch))
                return
            figures = {"start": finished.seconds * 1e3}
            if launch.measures_memory:
                ranks = [[int(word) for word in line.split()] for line in file.read_text().splitlines()]
                if len(ranks) != launch.ranks:
                    self._fail(library, launch, f"{len(ranks)} of {launch.ranks} ranks reported their memory")
                    return
                for name, column in zip(("resident-peak", "resident", "resident-share"), zip(*ranks)):
                    figures[name] = statistics.mean(column) / 1024
        for point in launch.points:
            self.results.add(library.key, point, figures[point.benchmark], None)

    def _run(self, library: Library, launch: Launch, program: str, arguments: list[str]) -> Finished:
        command = library.run_command(launch.ranks, self.cores, self._binary(library, program), arguments)
        return run(command, library.run_environment(), self.build, launch.limit)

    def _fail(self, library: Library, launch: Launch, reason: str) -> None:
        for point in launch.points:
            self.results.fail(library.key, point, reason)


def _reason(finished: Finished, launch: Launch) -> str:
    if finished.timed_out:
        return f"not finished after {launch.limit:g} s"
    said = last_lines("\n".join([*(t for t in finished.output.splitlines() if not t.startswith('{"')), finished.errors]))
    return f"{'signal' if finished.status < 0 else 'exit status'} {abs(finished.status)}: {said}"
