"""A campaign: benchmarks under several libraries, in turn, over and over; what was measured is in a file as soon as it is there."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from peers import Library, last_lines
from processes import run
from progress import Progress
from results import parse_lines

ABSENT = 4  # the exit status of a benchmark whose library or machine lacks what it measures
FIRST_GUESS = 3.0  # seconds for a run


@dataclass(frozen=True)
class Job:
    """What is started in one go with each library."""

    benchmark: str
    ranks: int
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return " ".join([self.benchmark, *self.options]) + (f" @{self.ranks}" if self.ranks != 2 else "")


@dataclass(frozen=True)
class Plan:
    libraries: tuple[str, ...]
    jobs: tuple[Job, ...]
    repetitions: int
    seconds: float

    def as_json(self) -> dict:
        return json.loads(json.dumps(asdict(self)))

    def steps(self) -> list[tuple[int, Job, str]]:
        """In the order in which they are run: within a repetition, every library does a job before any does the next."""
        return [(repetition, job, key) for repetition in range(self.repetitions) for job in self.jobs for key in self.libraries]


@dataclass
class Record:
    """One run, as a line of the file."""

    library: str
    job: str
    repetition: int
    seconds: float
    rows: list[dict] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    absent: str | None = None  # why the library does not have it
    failure: str | None = None


class OtherPlan(Exception):
    """The folder has results of another campaign."""


class Store:
    """The file of a campaign: the plan, then a line a run. A half-written last line, of a run that was cut off, is dropped."""

    def __init__(self, folder: Path, plan: Plan, facts: dict[str, object]) -> None:
        self.path = folder / "results.jsonl"
        self.records: list[Record] = []
        self.facts = facts
        folder.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and self.path.stat().st_size > 0:
            self._load(plan)
        else:
            self._append({"plan": plan.as_json(), "facts": facts})

    def _load(self, plan: Plan) -> None:
        lines = self.path.read_text().split("\n")
        if lines and lines[-1]:  # no line end: cut off
            lines[-1] = ""
            self.path.write_text("\n".join(lines))
        try:
            head = json.loads(lines[0])
            before, self.facts = head["plan"], head["facts"]
            self.records = [Record(**json.loads(line)) for line in lines[1:] if line]
        except (ValueError, KeyError, TypeError) as error:
            raise OtherPlan(f"{self.path} is no file of a campaign, or damaged ({error!r}); choose another --output") from None
        if before != plan.as_json():
            raise OtherPlan(f"{self.path} has another campaign's results; choose another --output, or remove it")

    def _append(self, line: dict) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def add(self, record: Record) -> None:
        self.records.append(record)
        self._append(asdict(record))

    def done(self) -> set[tuple[int, str, str]]:
        return {(record.repetition, record.job, record.library) for record in self.records}


def read_run(library: str, job: Job, repetition: int, finished, limit: float) -> Record:
    """What a run's output and end come to."""
    record = Record(library, job.name, repetition, round(finished.seconds, 3))
    for line in parse_lines(finished.output):
        if "value" in line and "benchmark" in line:
            record.rows.append(line)
        elif "fact" in line:
            record.facts[line["fact"]] = line.get("text", line.get("value"))
        elif "note" in line:
            record.notes.append(line["note"])
        elif "stopped" in line:
            if line["stopped"] == ABSENT:
                record.absent = line["why"]
            else:
                record.failure = line["why"]
    if record.absent is None and record.failure is None and (finished.timed_out or finished.status != 0):
        said = last_lines("\n".join([*(t for t in finished.output.splitlines() if not t.startswith("{")), finished.errors]))
        why = f"not finished after {limit:g} s" if finished.timed_out else f"exit status {finished.status}: {said}"
        record.failure = why
    return record


def size_reached(output: str) -> str:
    sizes = [line["size"] for line in parse_lines(output) if "size" in line]
    return f", past {sizes[-1]} B" if sizes else ""


@dataclass
class Campaign:
    plan: Plan
    libraries: dict[str, Library]
    programs: dict[str, Path]
    store: Store
    folder: Path  # where programs run
    limit: float = 300

    def command(self, key: str, job: Job, cores: int) -> list[str]:
        arguments = [job.benchmark, "--format", "json", "--seconds", f"{self.plan.seconds:g}", *job.options]
        return self.libraries[key].run_command(job.ranks, cores, self.programs[key], arguments)

    def measure(self, say: Callable[[str], None]) -> None:
        """Runs what is not yet in the file. A job that a library does not have, or failed, is not tried again."""
        cores = len(os.sched_getaffinity(0))
        done = self.store.done()
        hopeless = {(record.job, record.library) for record in self.store.records if record.absent or record.failure}
        todo = [(repetition, job, key) for repetition, job, key in self.plan.steps()
                if (repetition, job.name, key) not in done and (job.name, key) not in hopeless and key in self.programs]
        if done:
            say(f"{len(done)} runs are in {self.store.path} already, {len(todo)} are left")
        progress = Progress([((key, job.name), FIRST_GUESS) for _, job, key in todo])
        for repetition, job, key in todo:
            kind = (key, job.name)
            if (job.name, key) in hopeless:
                progress.drop(kind)
                continue
            title = self.libraries[key].title
            what = f"repetition {repetition + 1} of {self.plan.repetitions}: {job.name}: {title}"
            progress.begin(what)
            started = time.monotonic()
            # Looking at the output costs a few us twice a second, and only where somebody watches.
            watch = (lambda output, what=what: progress.begin(what + size_reached(output))) if progress.shown else None
            finished = run(self.command(key, job, cores), self.libraries[key].run_environment(), self.folder, self.limit, watch=watch)
            record = read_run(key, job, repetition, finished, self.limit)
            self.store.add(record)
            if record.absent or record.failure:
                hopeless.add((job.name, key))
            progress.end(kind, time.monotonic() - started)
        progress.clear()
