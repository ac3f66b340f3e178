"""Forces each way of messages in GPU memory between two ranks of this host, and holds the ways that plans choose against the best one.

Every way in turn, over and over. What is forced at a size is what `isthmus explain` says of that job, and nothing else.
"""

from __future__ import annotations

import re
from pathlib import Path

from call_plans import Row, rows_summary, rows_table
from forced import KIB, LINE, Series, environment_of_jobs, run_job
from ratios import ratio

PLANS = {"fixed": ("ISTHMUS_PLANS=fixed",), "live": ("ISTHMUS_PLANS=live",)}
WAYS = {
    "courier": ("ISTHMUS_GPU_COURIER=on", "ISTHMUS_PLANS=fixed"),
    "push": ("ISTHMUS_GPU_PATH=push",),
    "pull": ("ISTHMUS_GPU_PATH=pull",),
    "staged": ("ISTHMUS_GPU_PATH=staged",),
}
# The names that `isthmus explain` gives the protocols, and kinds of memory.
PROTOCOLS = {
    "GPU memory, by a courier": "courier", "GPU memory, copied by the sender's GPU": "push", "GPU memory, copied by the receiver's GPU": "pull",
    "GPU memory, by way of the host's": "staged", "GPU memory, by way of the library's": "bounce",
}  # fmt: skip
KINDS = {"device": "device memory", "pinned": "pinned host memory", "host": "pageable host memory"}
PAIRS = ("device-device", "device-pinned", "device-host", "pinned-device", "host-device")
SIZES = (8, *(KIB << i for i in (2, 4, 6, 8, 10, 12, 14, 16)))


def chosen_of(report: dict, pair: str, size: int) -> str | None:
    """The way of a message of so many bytes to rank 1 by the plans of a report."""
    source, target = (KINDS[word] for word in pair.split("-"))
    for plan in report["ranks"][1]["peers"][0].get("gpu_plans", []):
        if source in plan["from"] and target in plan["to"]:
            way = next((step["way"] for step in plan["steps"] if step["up_to"] is None or step["up_to"] >= size), None)
            return PROTOCOLS.get(way, way)
    return None


def lesson_of(lessons: list[dict], size: int) -> dict | None:
    """Of the classes that a rank has learned of, the one of a size; two lie between each power of two and the next."""
    for lesson in lessons:
        least = lesson["from"]
        if not lesson["several"] and least <= size < (least * 3 / 2 if least & (least - 1) == 0 else least * 4 / 3):
            return lesson
    return None


class GpuPlans:
    """All that has been measured."""

    def __init__(self, prefix: Path, sizes: tuple[int, ...], effort: str, environment: dict[str, str] | None = None):
        self.prefix, self.sizes, self.effort = prefix, sizes, effort
        self.environment = environment_of_jobs(environment)
        self.series: dict[tuple[str, int, str], Series] = {}
        self.lessons: dict[tuple[str, int], list[dict]] = {}  # of live plans, every repetition
        self.chosen: dict[tuple[str, int], str] = {}  # by fixed plans

    def measure(self, pair: str, name: str, repetition: int) -> None:
        self.take(pair, name, repetition, *self.run(pair, name, self.effort, self.sizes))

    def try_out(self) -> None:
        """Raises `Failed` where nothing can be measured, as without a GPU."""
        self.run(PAIRS[0], "fixed", "1+1", (8,))

    def run(self, pair: str, name: str, effort: str, sizes: tuple[int, ...]) -> tuple[str, dict]:
        variables = [word for variable in {**WAYS, **PLANS}[name] for word in ("-x", variable)]
        command = [self.prefix / "bin/mpiexec", "-n", 2, "--bind-to", "core", *variables, self.prefix / "libexec/isthmus/measure_gpu_pair",
                   "latency", effort, *pair.split("-"), *sizes]  # fmt: skip
        return run_job(command, self.environment, f"{name}, {pair}")

    def take(self, pair: str, name: str, repetition: int, output: str, report: dict) -> None:
        """One job's times, as far as its messages took the way that was to be forced, and what it had learned."""
        for size, *words in re.findall(LINE, output, re.MULTILINE):
            point = pair, int(size)
            way = chosen_of(report, *point)
            if name in WAYS and way != name:
                continue
            series = self.series.setdefault((*point, name), Series())
            series.add(repetition, words)
            if name == "fixed" and way:
                self.chosen[point] = way
            if name == "live" and (lesson := lesson_of(report["ranks"][1]["live_gpu"], point[1])):
                self.lessons.setdefault(point, []).append(lesson)


def row_of(plans: GpuPlans, pair: str, size: int) -> Row | None:
    series = {name: plans.series[pair, size, name] for name in (*WAYS, *PLANS) if (pair, size, name) in plans.series}
    forced = [name for name in WAYS if name in series]
    if not forced:
        return None
    best = min(forced, key=lambda name: series[name].median)
    against = lambda name: ratio(series[name].settled, series[best].settled) if name in series else None  # noqa: E731
    first = ratio(series["live"].first, series[best].first) if "live" in series else None
    lessons = plans.lessons.get((pair, size), [])
    ways = [lesson["way"] for lesson in lessons]
    told = []
    for lesson in lessons:
        (own,) = [way for way in lesson["ways"] if way["way"] == lesson["way"]] or [{}]
        if own.get("predicted_us") and own.get("measured_us"):
            told.append(tuple(own[name] * size / lesson["from"] for name in ("predicted_us", "measured_us")))
    told.sort(key=lambda times: times[0] / times[1])
    predicted, measured = told[len(told) // 2] if told else (None, None)
    return Row(pair, size, {name: each.median for name, each in series.items()}, best,
               {way: ways.count(way) for way in sorted(set(ways), key=ways.count, reverse=True)} or {plans.chosen.get((pair, size), "-"): 0},
               against("fixed"), against("live"), first.value if first else None, predicted, measured)  # fmt: skip


def rows_of(plans: GpuPlans, pairs: list[str]) -> list[Row]:
    rows = [row_of(plans, pair, size) for pair in pairs for size in plans.sizes]
    return [row for row in rows if row]


def table(rows: list[Row]) -> str:
    """As Markdown: medians, us a message until its sender has heard that it is there; `*` marks the best forced way."""
    return rows_table(rows, "Messages in GPU memory, one at a time, us there and an empty one back", (*WAYS, *PLANS))


def summary(rows: list[Row]) -> str:
    return rows_summary(rows, "GPU memory", "messages")


def as_json(rows: list[Row], plans: GpuPlans) -> list[dict[str, object]]:
    """Every sample."""
    return [{
        "memories": row.subject, "size": row.size, "best": row.best, "fixed_chose": plans.chosen.get((row.subject, row.size)),
        "live_chose": row.learned, "predicted_us": row.predicted, "measured_us": row.measured,
        "ways": {name: plans.series[row.subject, row.size, name].as_json() for name in row.times},
    } for row in rows]  # fmt: skip
