"""What was measured, and what it comes to."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field

from targets import Point

_TO_UNIT = {
    ("ns", "us"): 1e-3, ("us", "ms"): 1e-3, ("ns", "ms"): 1e-6, ("KiB", "MiB"): 1 / 1024,
}


def convert(value: float, unit: str, wanted: str) -> float:
    return value if unit == wanted else value * _TO_UNIT[unit, wanted]


@dataclass(frozen=True)
class Sample:
    value: float
    distance: float | None  # ns for a cache line between the two cores, just before; None where they were not pinned


@dataclass
class Results:
    """Samples and failures by (library, point name); the machine's limits by the name that bench_raw gives them."""

    samples: dict[tuple[str, str], list[Sample]] = field(default_factory=dict)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    limits: dict[str, list[float]] = field(default_factory=dict)
    limit_units: dict[str, str] = field(default_factory=dict)
    limit_failures: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    unavailable: set[str] = field(default_factory=set)  # libraries that could not be run at all

    def add(self, library: str, point: Point, value: float, distance: float | None) -> None:
        self.samples.setdefault((library, point.name), []).append(Sample(value, distance))

    def fail(self, library: str, point: Point, reason: str) -> None:
        self.failures[library, point.name] = reason

    def add_limits(self, lines: list[dict]) -> None:
        for line in lines:
            if "value" in line:
                self.limits.setdefault(line["point"], []).append(line["value"])
                self.limit_units[line["point"]] = line["unit"]
            elif "failure" in line:
                self.limit_failures[line["point"]] = line["failure"]

    def usual_distance(self) -> float | None:
        seen = self.limits.get("cache-line-pair")
        return statistics.median(seen) if seen else None

    def cores(self, sample: Sample) -> str:
        """Where the cores were: "" where they usually are. A host that moves virtual cores makes a line travel several
        times faster, or slower, and with it whatever is measured."""
        usual = self.usual_distance()
        if sample.distance is None or usual is None:
            return ""
        return "near" if sample.distance < usual / 2 else "far" if sample.distance > usual * 2 else ""

    def values(self, library: str, point: Point, cores: str = "") -> list[float]:
        """What was measured while the cores were there: the rest has a row of its own."""
        return [s.value for s in self.samples.get((library, point.name), []) if self.cores(s) == cores]

    def alone(self, point: Point, cores: str, libraries: list[str]) -> bool:
        """Whether what was measured while the cores were there compares nothing: of the first library, or of all others."""
        measured = [key for key in libraries if self.values(key, point, cores)]
        return measured[:1] != libraries[:1] or len(measured) < min(2, len(libraries))

    def median(self, library: str, point: Point, cores: str = "") -> float | None:
        values = self.values(library, point, cores)
        return statistics.median(values) if values else None

    def limit(self, point: Point) -> float | None:
        if point.limit is None or point.limit not in self.limits:
            return None
        return convert(statistics.median(self.limits[point.limit]), self.limit_units[point.limit], point.unit)


@dataclass(frozen=True)
class Row:
    """One point, judged."""

    point: Point
    figures: dict[str, float | None]  # by library
    failures: dict[str, str]
    counts: dict[str, int]
    limit: float | None
    best_peer: str | None
    ratio: float | None  # Isthmus / best peer
    met: bool | None
    cores: str = ""  # of which moment: "near" or "far" where the host had moved the cores


def rows_of(results: Results, point: Point, libraries: list[str]) -> list[Row]:
    """A row for the cores where they usually are, which is the one that a target is for, and more for those that had
    moved, where that leaves something to compare."""
    return [judge(results, point, libraries), *(_moved(results, point, libraries, cores) for cores in ("near", "far")
                                                if not results.alone(point, cores, libraries))]


def _moved(results: Results, point: Point, libraries: list[str], cores: str) -> Row:
    figures = {key: results.median(key, point, cores) for key in libraries}
    best_peer, ratio = _beside_peers(point, figures)
    counts = {key: len(results.values(key, point, cores)) for key in libraries}
    return Row(point, figures, {}, counts, None, best_peer, ratio, None, cores)


def _beside_peers(point: Point, figures: dict[str, float | None]) -> tuple[str | None, float | None]:
    """The best peer, and Isthmus by it."""
    peers = {key: value for key, value in figures.items() if key != "isthmus" and value is not None}
    best = point.best(list(peers.values()))
    isthmus = figures.get("isthmus")
    return (next((key for key, value in peers.items() if value == best), None),
            isthmus / best if isthmus is not None and best else None)


def judge(results: Results, point: Point, libraries: list[str]) -> Row:
    figures = {key: results.median(key, point) for key in libraries}
    failures = {key: results.failures[key, point.name] for key in libraries if (key, point.name) in results.failures}
    counts = {key: len(results.values(key, point)) for key in libraries}
    best_peer, ratio = _beside_peers(point, figures)
    limit = results.limit(point)
    met = point.met(figures.get("isthmus"), figures[best_peer] if best_peer else None, limit)
    if point.target is not None and "isthmus" in failures and "isthmus" not in results.unavailable:
        met = False
    return Row(point, figures, failures, counts, limit, best_peer, ratio, met)


def parse_lines(output: str) -> list[dict]:
    """The JSON lines of bench_host and bench_raw; whatever else a launcher prints is passed over."""
    lines = []
    for text in output.splitlines():
        if not text.startswith('{"'):
            continue
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return lines
