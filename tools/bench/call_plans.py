"""Forces each way of collectives among ranks of this host (ISTHMUS_COLLECTIVE_WAY), and holds the ways that plans choose against the best one.

Every way in turn, over and over. A way counts at a size where the job's report says that it is possible there.
Those that do not block go as blocking ones have taught, of which the program makes some before; no prediction of theirs is compared.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass
from pathlib import Path

from forced import FIRST, KIB, LINE, MOVED, SETTLED, Series, environment_of_jobs, on_like_cores, run_job
from ratios import Ratio, ratio

COLLECTIVES = ("bcast", "gather", "scatter", "allgather", "alltoall", "reduce", "allreduce", "reduce_scatter", "ibcast", "ireduce", "iallreduce")
WAYS = ("flat", "staged", "counted", "direct", "direct_both", "direct_all", "messages", "tree")
PLANS = ("fixed", "live")
SIZES = tuple(KIB << i for i in range(1, 15, 2))


@dataclass(frozen=True)
class Lesson:
    """What rank 0 had learned of a size at the end of a job."""

    way: str
    possible: tuple[str, ...]
    predicted: float | None  # us
    measured: float | None


def lesson_of(lessons: list[dict], collective: str, ranks: int, size: int) -> Lesson | None:
    """From the classes of which two lie between each power of two and the next, which belongs to the lower one."""
    for lesson in lessons:
        most = lesson["up_to"]
        least = most * 3 // 4 if most & (most - 1) == 0 else most * 2 // 3
        if (lesson["collective"], lesson["members"]) == (collective, ranks) and least < size <= most:
            times = {way["way"]: way for way in lesson["ways"]}
            told = [times[lesson["way"]][name] for name in ("predicted_us", "measured_us")]
            return Lesson(lesson["way"], tuple(times), *(value * size / most if value else None for value in told))
    return None


def calls_of(report: dict, collective: str) -> tuple[list[dict], str]:
    """What rank 0 has to tell of a collective, and the name that it has there."""
    rank = report["ranks"][0]
    if not collective.startswith("i"):
        return rank["live_collectives"], collective
    return [lesson for lesson in rank["live_nonblocking"] if lesson["form"] == "nonblocking"], collective[1:]


class CallPlans:
    """All that has been measured of collectives among so many ranks."""

    def __init__(self, prefix: Path, ranks: int, sizes: tuple[int, ...], effort: str, environment: dict[str, str] | None = None):
        self.prefix, self.ranks, self.sizes, self.effort = prefix, ranks, sizes, effort
        self.environment = environment_of_jobs(environment)
        self.series: dict[tuple[str, int, str], Series] = {}
        self.lessons: dict[tuple[str, int], list[Lesson]] = {}
        # Of those that do not block: the ways that calls have gone when they were forced.
        self.gone: dict[tuple[str, int], set[str]] = {}

    def measure(self, collective: str, name: str, repetition: int) -> None:
        variable = f"ISTHMUS_PLANS={name}" if name in PLANS else f"ISTHMUS_COLLECTIVE_WAY={name}"
        command = [self.prefix / "bin/mpiexec", "-n", self.ranks, "--bind-to", "core", "-x", variable,
                   self.prefix / "libexec/isthmus/measure_calls", collective, self.effort, *self.sizes]  # fmt: skip
        self.take(collective, name, repetition, *run_job(command, self.environment, f"{name}, {collective}"))

    def take(self, collective: str, name: str, repetition: int, output: str, report: dict) -> None:
        """One job's times, and what it had learned."""
        for size, *words in re.findall(LINE, output, re.MULTILINE):
            point = collective, int(size)
            series = self.series.setdefault((*point, name), Series())
            series.add(repetition, words)
            lessons, named = calls_of(report, collective)
            if not (lesson := lesson_of(lessons, named, self.ranks, point[1])):
                continue
            if name == "live":
                self.lessons.setdefault(point, []).append(lesson)
            if named != collective and name in (lesson.way, "live"):
                self.gone.setdefault(point, set()).add(lesson.way)


@dataclass(frozen=True)
class Row:
    """One size of a collective, or of messages between two kinds of memory."""

    subject: str
    size: int
    times: dict[str, float]  # median of each way, us
    best: str | None  # of the forced ones; None where none was measured on cores like the others
    learned: dict[str, int]  # by live plans: in how many jobs
    fixed: Ratio | None  # to the best
    live: Ratio | None
    first: float | None  # during the first calls, to the best's
    predicted: float | None
    measured: float | None
    cores: float | None = None  # us that 8 B took from core to core meanwhile
    ways: tuple[str, ...] = ()  # all that were measured, and plans

    @property
    def apart(self) -> float | None:
        return abs(self.predicted / self.measured - 1) if self.predicted and self.measured else None


def rows_of(plans: CallPlans, collectives: list[str]) -> list[Row]:
    """Of all sizes of which a live job has told what is possible there: other ways have not been forced."""
    rows = []
    for collective in collectives:
        for size in plans.sizes:
            lessons = plans.lessons.get((collective, size), [])
            possible = {name for lesson in lessons for name in lesson.possible} | plans.gone.get((collective, size), set()) | set(PLANS)
            measured = {name: plans.series[collective, size, name] for name in (*WAYS, *PLANS) if name in possible and (collective, size, name) in plans.series}
            if not any(name in WAYS for name in measured):
                continue
            series, cores = on_like_cores(measured)
            forced = [name for name in WAYS if name in series]
            best = min(forced, key=lambda name: series[name].median, default=None)
            against = lambda name: ratio(series[name].settled, series[best].settled) if best and name in series else None  # noqa: E731
            first = ratio(series["live"].first, series[best].first) if best and "live" in series else None
            ways = [lesson.way for lesson in lessons]
            told = sorted((lesson for lesson in lessons if lesson.predicted and lesson.measured), key=lambda lesson: lesson.predicted / lesson.measured)
            middle = told[len(told) // 2] if told else None
            rows.append(Row(collective, size, {name: series[name].median for name in (*forced, *PLANS) if name in series}, best,
                            {way: ways.count(way) for way in sorted(set(ways), key=ways.count, reverse=True)}, against("fixed"), against("live"),
                            first.value if first else None, middle.predicted if middle else None, middle.measured if middle else None, cores, tuple(measured)))  # fmt: skip
    return rows


def size_text(size: int) -> str:
    return f"{size // KIB // KIB} MiB" if size >= KIB * KIB else f"{size // KIB} KiB" if size >= KIB else f"{size} B"


def ratio_text(found: Ratio | None) -> str:
    return "-" if found is None else f"{found.value:.2f}"


def table(rows: list[Row], ranks: int) -> str:
    """As Markdown: medians, us a call; `*` marks the best forced way."""
    return rows_table(rows, f"Collectives among {ranks} ranks, us a call", (*WAYS, *PLANS))


def rows_table(rows: list[Row], title: str, ways: tuple[str, ...]) -> str:
    names = [name for name in ways if any(name in row.times for row in rows)]
    lines = [f"\n{title}\n",
             "| | " + " | ".join(names) + " | live chose | fixed to the best | live to the best | live, first | predicted | measured | apart |",
             "|---|" + "--:|" * len(names) + "---|--:|--:|--:|--:|--:|--:|"]  # fmt: skip
    for row in rows:
        times = [(f"{row.times[name]:.3g}" + ("\\*" if name == row.best else "")) if name in row.times else "-" for name in names]
        learned = ", ".join(f"{way} {count}" if len(row.learned) > 1 else way for way, count in row.learned.items()) or "-"
        told = [f"{value:.3g}" if value else "-" for value in (row.predicted, row.measured)]
        lines.append(f"| {row.subject} {size_text(row.size)} | " + " | ".join(times) + f" | {learned} | {ratio_text(row.fixed)} | {ratio_text(row.live)} | "
                     f"{f'{row.first:.2f}' if row.first else '-'} | " + " | ".join(told) + f" | {f'{row.apart:.0%}' if row.apart is not None else '-'} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def summary(rows: list[Row]) -> str:
    return rows_summary(rows, "collectives", "calls")


def rows_summary(rows: list[Row], what: str, calls: str) -> str:
    lines = []
    for name in PLANS:
        found = [(getattr(row, name).value, row) for row in rows if getattr(row, name) is not None]
        if not found:
            if any(name in row.ways for row in rows):
                lines.append(f"{what}, {name}: nothing to compare: {MOVED}")
            continue
        worst, where = max(found, key=lambda pair: pair[0])
        lines.append(f"{what}, {name}: median {statistics.median(value for value, _ in found):.2f} x the best forced way, "
                     f"{sum(value <= SETTLED for value, _ in found)} of {len(found)} points within {SETTLED}; the worst {worst:.2f} "
                     f"({where.subject} {size_text(where.size)})")  # fmt: skip
    if firsts := [row.first for row in rows if row.first]:
        lines.append(f"{what}, live, the first {calls}: {sum(first <= FIRST for first in firsts)} of {len(firsts)} points within {FIRST}")
    if aparts := [row.apart for row in rows if row.apart is not None]:
        lines.append(f"{what}, predicted and measured: within 10 % at {sum(apart <= 0.1 for apart in aparts)} of {len(aparts)} points")
    return "\n".join(lines) + "\n"


def as_json(rows: list[Row], plans: CallPlans) -> list[dict[str, object]]:
    """Every sample."""
    points = []
    for row in rows:
        points.append({
            "collective": row.subject, "ranks": plans.ranks, "size": row.size, "best": row.best, "live_chose": row.learned,
            "predicted_us": row.predicted, "measured_us": row.measured,
            "ways": {name: plans.series[row.subject, row.size, name].as_json() for name in row.ways},
        })  # fmt: skip
    return points
