"""What measurements have in common that force each way in turn: samples, and the turns."""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from processes import run
from progress import Progress

KIB = 1024
SETTLED, FIRST = 1.05, 1.3  # what live plans are to reach, times the best forced way
ALIKE = 1.4  # times which 8 B may take longer where cores count as equally far from each other
LINE = r"^(\d+) ([\d.]+) ([\d.]+)(?: ([\d.]+) ([\d.]+))?$"  # of a job: size, settled, first, cores before and behind
MOVED = "nothing was measured on cores as far apart as those of a forced way"
LIMIT = 300  # seconds that a job may take
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Series:
    """What one way took at one size, us a message or call, by repetition."""

    settled: dict[int, float] = field(default_factory=dict)
    first: dict[int, float] = field(default_factory=dict)
    # What 8 B took from core to core before it was measured, and behind; empty where it is not asked (GPUs).
    cores: dict[int, tuple[float, float]] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.settled.values())

    def as_json(self) -> dict[str, object]:
        return {"settled_us": self.settled, "first_us": self.first, "cores_us": self.cores}

    def add(self, repetition: int, words: list[str]) -> None:
        """From a line of a job: settled, first, and the cores before and behind."""
        self.settled[repetition], self.first[repetition], *cores = (float(word) for word in words if word)
        if cores:
            self.cores[repetition] = cores[0], cores[1]

    def distance(self, repetition: int) -> float | None:
        """How far the cores were from each other all the while; None where they have moved meanwhile."""
        before, behind = sorted(self.cores[repetition])
        return math.sqrt(before * behind) if behind <= ALIKE * before else None

    def only(self, kept: set[int]) -> Series:
        return Series(*({repetition: values[repetition] for repetition in values if repetition in kept} for values in (self.settled, self.first, self.cores)))


def on_like_cores(series: dict[str, Series]) -> tuple[dict[str, Series], float | None]:
    """Of the ways of one point, those samples that were taken while cores were equally far from each other, and how far: where most
    ways have one, and of these where most samples are. Virtual cores move, and what took 1 us among near ones takes 3 among far ones."""
    if not all(each.cores for each in series.values()):
        return series, None
    samples = [(distance, name, repetition) for name, each in series.items() for repetition in each.cores if (distance := each.distance(repetition))]
    windows = [[sample for sample in samples if least <= sample[0] <= ALIKE * least] for least, _, _ in samples]
    if not windows:
        return {}, None
    window = max(windows, key=lambda found: (len({name for _, name, _ in found}), len(found)))
    kept = {name: each.only({repetition for _, other, repetition in window if other == name}) for name, each in series.items()}
    return {name: each for name, each in kept.items() if each.settled}, statistics.median(distance for distance, _, _ in window)


class Failed(Exception):
    """A job that measures has failed."""


def environment_of_jobs(more: dict[str, str] | None = None) -> dict[str, str]:
    """This one, without settings and tables of Isthmus: jobs tell what they have done."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ISTHMUS_")}
    return kept | {"ISTHMUS_TUNING": "off", "ISTHMUS_EXPLAIN": "json", **(more or {})}


def run_job(command: Sequence[object], environment: dict[str, str], what: str) -> tuple[str, dict]:
    """What it prints, and what `isthmus explain` says of it."""
    finished = run([str(word) for word in command], environment, ROOT, LIMIT)
    said = finished.errors.strip()[-400:]
    if finished.status != 0 or finished.timed_out:
        raise Failed(f"{what}: exit status {finished.status}: {said}")
    lines = [line for line in finished.errors.splitlines() if line.startswith('{"isthmus_explain"')]
    if not lines:
        raise Failed(f"{what}: there is no report: {said}")
    return finished.output, json.loads(lines[-1])


@dataclass(frozen=True)
class Turn:
    """One job: what it measures, under a name for its way."""

    repetition: int
    subject: Hashable
    title: str
    name: str


def take_turns(turns: Sequence[Turn], seconds: float, measure: Callable[[Turn], None]) -> tuple[bool, str]:
    """Whether a turn has failed, which is said, and how long all took; Ctrl-C ends them. `seconds`: guessed, of each."""
    repetitions = max((turn.repetition for turn in turns), default=0) + 1
    progress = Progress([((turn.subject, turn.name), seconds) for turn in turns])
    failed = False
    with contextlib.suppress(KeyboardInterrupt):
        for turn in turns:
            progress.begin(f"repetition {turn.repetition + 1} of {repetitions}: {turn.title}: {turn.name}")
            before = time.monotonic()
            try:
                measure(turn)
            except Failed as why:
                failed = True
                progress.say(f"plans: {why}")
            progress.end((turn.subject, turn.name), time.monotonic() - before)
    progress.clear()
    return failed, f"{progress.elapsed():.0f} s"
