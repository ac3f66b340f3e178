"""What measurements have in common that force each way in turn: samples, and the turns."""

from __future__ import annotations

import contextlib
import json
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
LIMIT = 300  # seconds that a job may take
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Series:
    """What one way took at one size, us a message or call, by repetition."""

    settled: dict[int, float] = field(default_factory=dict)
    first: dict[int, float] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.settled.values())


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
