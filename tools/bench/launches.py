"""What is started in one go: a library's mpiexec, once, with the points that it measures."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass

from targets import POINTS, Point


@dataclass(frozen=True)
class Launch:
    name: str
    ranks: int
    points: tuple[Point, ...]
    times: int = 1  # in each repetition
    repetitions: int | None = None  # no more of them than this
    limit: float = 60  # seconds, then the run is ended and counts as failed
    slow: bool = False  # repeated only for the libraries that are quick at it

    @property
    def measures_start(self) -> bool:
        return any(point.benchmark == "start" for point in self.points)

    @property
    def measures_memory(self) -> bool:
        return any(point.benchmark.startswith("resident") for point in self.points)

    @property
    def starts_and_stops(self) -> bool:
        """Runs start_stop instead of bench_host."""
        return self.measures_start or self.measures_memory


SLOW_RANKS = 256
SLOW_BUDGET = 20.0  # seconds that a library may spend on a slow launch before it is not repeated any more


def _group(point: Point) -> str:
    kind = point.benchmark.partition(".")[0]
    if kind == "start" or (kind.startswith("resident") and point.ranks == SLOW_RANKS):
        return "start"  # with 256 ranks, reading their memory is nothing beside starting them
    if kind.startswith("resident"):
        return "memory"
    if kind.startswith("bandwidth"):
        return "large messages"
    if kind.startswith("latency") or kind == "rate":
        return "small messages"
    return "collectives"


def make_launches(points: Iterable[Point]) -> list[Launch]:
    """The launches that measure these points, those with many ranks last."""
    grouped: dict[tuple[int, str], list[Point]] = {}
    for point in points:
        grouped.setdefault((point.ranks, _group(point)), []).append(point)
    launches = []
    for (ranks, group), members in sorted(grouped.items(), key=lambda item: item[0][0]):
        slow = ranks >= SLOW_RANKS
        launches.append(Launch(
            name=f"{group}, {ranks} ranks",
            ranks=ranks,
            points=tuple(members),
            times=3 if group == "start" and ranks == 2 else 1,
            repetitions=3 if group == "memory" else None,
            limit=150 if slow else 60,
            slow=slow,
        ))
    return launches


def select_points(patterns: list[str]) -> list[Point]:
    """The points whose name or section matches one of the patterns; all of them without patterns."""
    if not patterns:
        return list(POINTS)
    return [point for point in POINTS if any(matches(pattern, point) for pattern in patterns)]


def matches(pattern: str, point: Point) -> bool:
    kind = point.benchmark.partition(".")[0]
    return any(fnmatch.fnmatch(text, pattern) for text in (point.name, point.benchmark, kind, f"@{point.ranks}"))
