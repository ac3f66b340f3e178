#!/usr/bin/env python3
"""Forces each way of messages between two ranks of this host, and holds the ways that plans choose against the best one.

Sizes from 1 KiB to 64 MiB; fresh data (from a window of 256 MiB) and the same buffers again; one message at a time and 64 under way.
Every way in turn, over and over. What is forced at a size is what `isthmus explain` says of that job, and nothing else.
With --collectives it is collectives among ranks of this host, from 2 KiB to 8 MiB, that are measured so; with --gpu messages between the
memories of two GPUs, and of a GPU and the host, one at a time, from 8 B to 64 MiB.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).resolve().parent))

import call_plans  # noqa: E402
import gpu_plans  # noqa: E402
from compare import machine_facts  # noqa: E402
from forced import FIRST, KIB, LINE, MOVED, SETTLED, Failed, Series, Turn, environment_of_jobs, on_like_cores, run_job, take_turns  # noqa: E402
from processes import begin_clean  # noqa: E402
from ratios import Ratio, ratio  # noqa: E402

SIZES = tuple(KIB << i for i in range(17))
FEW_SIZES = tuple(KIB << i for i in (0, 2, 4, 5, 6, 8, 10, 12, 14, 16))
DATA = ("fresh", "same")
UNDER_WAY = ("latency", "bandwidth")
# All but the two of which nothing is forced. No message is offered that fits into the cell of its envelope.
NO_EAGER = ("ISTHMUS_EAGER_LIMIT=1", "ISTHMUS_BANDWIDTH_EAGER_LIMIT=1")
WAYS = {
    "eager": ("ISTHMUS_EAGER_LIMIT=1G", "ISTHMUS_BANDWIDTH_EAGER_LIMIT=1G"),
    "receiver reads": (*NO_EAGER, "ISTHMUS_SPLIT_FROM=1G"),
    "both copy": (*NO_EAGER, "ISTHMUS_SPLIT_FROM=1"),
    "ring": (*NO_EAGER, "ISTHMUS_CMA=off"),
}
PLANS = {"fixed": ("ISTHMUS_PLANS=fixed",), "live": ("ISTHMUS_PLANS=live",)}
# The names that `isthmus explain` gives the protocols.
PROTOCOLS = {
    "eager": "eager", "rendezvous, receiver reads": "receiver reads", "rendezvous, both sides copy": "both copy",
    "rendezvous, pipelined through the ring": "ring",
}  # fmt: skip


@dataclass(frozen=True)
class Regime:
    data: str
    mode: str

    @property
    def title(self) -> str:
        return f"{'fresh' if self.data == 'fresh' else 'same buffers'}, {'one' if self.mode == 'latency' else '64'}"


REGIMES = tuple(Regime(data, mode) for data, mode in product(DATA, UNDER_WAY))


@dataclass(frozen=True)
class Lesson:
    """What a rank that receives had learned of a size at the end of a job."""

    way: str
    predicted: float | None  # us
    measured: float | None


def step_of(steps: list[dict], size: int) -> str:
    """The way of a message of so many bytes by a plan of `isthmus explain --json`."""
    protocol = next(step["protocol"] for step in steps if step["up_to"] is None or step["up_to"] >= size)
    return PROTOCOLS.get(protocol, protocol)


def lesson_of(lessons: list[dict], size: int) -> Lesson | None:
    """From the classes that a rank has learned of; two lie between each power of two and the next, p to 1.5 p and 1.5 p to 2 p."""
    found = [lesson for lesson in lessons if (least := lesson["from"]) <= size < (least * 3 // 2 if least & (least - 1) == 0 else least * 4 // 3)]
    if not found:
        return None
    lesson = max(found, key=lambda each: each["messages"])
    way = PROTOCOLS.get(lesson["protocol"], lesson["protocol"])
    times = {PROTOCOLS.get(each["protocol"], each["protocol"]): each for each in lesson["ways"]}
    own = times.get(way, {})
    scale = size / lesson["from"]
    return Lesson(way, *(own[name] * scale if own.get(name) else None for name in ("predicted_us", "measured_us")))


class Plans:
    """All that has been measured."""

    def __init__(self, prefix: Path, sizes: tuple[int, ...], effort: str, environment: dict[str, str] | None = None):
        self.prefix, self.sizes, self.effort = prefix, sizes, effort
        self.environment = environment_of_jobs(environment)
        self.series: dict[tuple[Regime, int, str], Series] = {}
        self.chosen: dict[tuple[Regime, int], str] = {}  # by fixed plans
        self.lessons: dict[tuple[Regime, int], list[Lesson]] = {}  # of live plans: every rank's that receives, every repetition

    def measure(self, regime: Regime, name: str, repetition: int) -> None:
        variables = [word for variable in {**WAYS, **PLANS}[name] for word in ("-x", variable)]
        command = [self.prefix / "bin/mpiexec", "-n", 2, "--bind-to", "core", *variables, self.prefix / "libexec/isthmus/measure_pair",
                   f"{regime.mode}-{regime.data}", self.effort, *self.sizes]
        self.take(regime, name, repetition, *run_job(command, self.environment, f"{name}, {regime.title}"))

    def take(self, regime: Regime, name: str, repetition: int, output: str, report: dict) -> None:
        """One job's times, as far as its messages took the way that was to be forced, and what it had learned."""
        steps = report["ranks"][1]["peers"][0]["steps"]
        receivers = report["ranks"] if regime.mode == "latency" else report["ranks"][1:]
        for size, *words in re.findall(LINE, output, re.MULTILINE):
            point = regime, int(size)
            way = step_of(steps, point[1])
            if name in WAYS and way != name:
                continue
            series = self.series.setdefault((*point, name), Series())
            series.add(repetition, words)
            if name == "fixed":
                self.chosen[point] = way
            if name == "live":
                learned = [lesson_of(rank["live"], point[1]) for rank in receivers]
                self.lessons.setdefault(point, []).extend(lesson or Lesson(way, None, None) for lesson in learned)


@dataclass(frozen=True)
class Row:
    """One point: a size in a regime."""

    regime: Regime
    size: int
    times: dict[str, float]  # median of each way, us
    best: str | None  # of the forced ones; None where none was measured on cores like the others
    chosen: str  # by fixed plans
    learned: dict[str, int]  # ways of live plans: how many ranks had them at the end
    fixed: Ratio | None  # to the best
    live: Ratio | None
    first: float | None  # during the first messages, to the best's
    predicted: float | None
    measured: float | None
    cores: float | None  # us that 8 B took from core to core meanwhile
    ways: tuple[str, ...]  # all that were measured, and plans

    @property
    def apart(self) -> float | None:
        """By how much a prediction was missed, as a part of what was measured."""
        return abs(self.predicted / self.measured - 1) if self.predicted and self.measured else None


def rows_of(plans: Plans) -> list[Row]:
    rows = []
    for regime, size in product(REGIMES, plans.sizes):
        measured = {name: plans.series[regime, size, name] for name in (*WAYS, *PLANS) if (regime, size, name) in plans.series}
        if not any(name in WAYS for name in measured):
            continue
        series, cores = on_like_cores(measured)
        best = min((name for name in WAYS if name in series), key=lambda name: series[name].median, default=None)
        against = lambda name: ratio(series[name].settled, series[best].settled) if best and name in series else None  # noqa: E731
        first = ratio(series["live"].first, series[best].first) if best and "live" in series else None
        lessons = plans.lessons.get((regime, size), [])
        ways = [lesson.way for lesson in lessons]
        # Each rank's prediction against its own messages; the middle one of all.
        told = sorted((lesson for lesson in lessons if lesson.predicted and lesson.measured), key=lambda lesson: lesson.predicted / lesson.measured)
        middle = told[len(told) // 2] if told else Lesson("", None, None)
        rows.append(Row(regime, size, {name: each.median for name, each in series.items()}, best, plans.chosen.get((regime, size), "-"),
                        {way: ways.count(way) for way in sorted(set(ways), key=ways.count, reverse=True)}, against("fixed"), against("live"),
                        first.value if first else None, middle.predicted, middle.measured, cores, tuple(measured)))
    return rows


def size_text(size: int) -> str:
    return f"{size // KIB // KIB} MiB" if size >= KIB * KIB else f"{size // KIB} KiB" if size >= KIB else f"{size} B"


def ratio_text(found: Ratio | None) -> str:
    if found is None:
        return "-"
    return f"{found.value:.2f}" + (f" ({found.low:.2f} to {found.high:.2f})" if found.low is not None and found.high is not None else "")


def cores_text(cores: float | None) -> str:
    return "-" if cores is None else f"{cores:.2f}"


def table(rows: list[Row], facts: dict[str, object]) -> str:
    """As Markdown: medians, us a message; `*` marks the best forced way. Cores: what 8 B took there."""
    lines = [f"{key}: {value}  " for key, value in facts.items()] + [""]
    names = (*WAYS, *PLANS)
    for regime in REGIMES:
        of_regime = [row for row in rows if row.regime == regime]
        if not of_regime:
            continue
        lines += [f"\n{regime.title} at a time, us a message\n",
                  "| size | cores | " + " | ".join(names) + " | fixed chose | live chose | fixed to the best | live to the best | live, first | predicted | measured | apart |",
                  "|---|--:|" + "--:|" * len(names) + "---|---|--:|--:|--:|--:|--:|--:|"]  # fmt: skip
        for row in of_regime:
            times = [(f"{row.times[name]:.3g}" + ("\\*" if name == row.best else "")) if name in row.times else "-" for name in names]
            learned = ", ".join(f"{way} {count}" if len(row.learned) > 1 else way for way, count in row.learned.items()) or "-"
            told = [f"{value:.3g}" if value else "-" for value in (row.predicted, row.measured)]
            apart = f"{row.apart:.0%}" if row.apart is not None else "-"
            lines.append(f"| {size_text(row.size)} | {cores_text(row.cores)} | " + " | ".join(times) + f" | {row.chosen} | {learned} | {ratio_text(row.fixed)} | "
                         f"{ratio_text(row.live)} | {f'{row.first:.2f}' if row.first else '-'} | " + " | ".join(told) + f" | {apart} |")
    return "\n".join(lines) + "\n"


def summary(rows: list[Row]) -> str:
    """How far the two kinds of plans are from the best forced way, and what of it the noise does not explain."""
    lines = []
    for name, wanted in (("fixed", SETTLED), ("live", SETTLED)):
        found = [(getattr(row, name), row) for row in rows if getattr(row, name) is not None]
        if not found:
            if any(name in row.ways for row in rows):
                lines.append(f"{name}: nothing to compare: {MOVED}")
            continue
        values = sorted(each.value for each, _ in found)
        worst, where = max(found, key=lambda pair: pair[0].value)
        surely = [row for each, row in found if each.low is not None and each.low > wanted]
        lines.append(f"{name}: median {statistics.median(values):.2f} x the best forced way, {sum(value <= wanted for value in values)} of {len(values)} "
                     f"points within {wanted}, surely above it {len(surely)}; the worst {worst.value:.2f} ({size_text(where.size)}, {where.regime.title})")  # fmt: skip
    if firsts := [(row.first, row) for row in rows if row.first]:
        value, where = max(firsts, key=lambda pair: pair[0])
        lines.append(f"live, the first messages: {sum(first <= FIRST for first, _ in firsts)} of {len(firsts)} points within {FIRST}; the worst "
                     f"{value:.2f} ({size_text(where.size)}, {where.regime.title})")  # fmt: skip
    if aparts := [row.apart for row in rows if row.apart is not None]:
        lines.append(f"predicted and measured: within 10 % at {sum(apart <= 0.1 for apart in aparts)} of {len(aparts)} points")
    return "\n".join(lines) + "\n"


def as_json(rows: list[Row], plans: Plans, facts: dict[str, object]) -> dict[str, object]:
    """Every sample."""
    points = []
    for row in rows:
        points.append({
            "data": row.regime.data, "messages_under_way": 1 if row.regime.mode == "latency" else 64, "size": row.size, "best": row.best,
            "fixed_chose": row.chosen, "live_chose": row.learned, "predicted_us": row.predicted, "measured_us": row.measured,
            "ways": {name: plans.series[row.regime, row.size, name].as_json() for name in row.ways},
        })  # fmt: skip
    return {"facts": facts, "points": points}


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench plans", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5, metavar="N", help="how often each way is run (5)")
    parser.add_argument("--batches", type=int, default=15, metavar="N", help="batches that a job measures at each size (15)")
    parser.add_argument("--first", type=int, default=200, metavar="N", help="messages that count as the first (200)")
    parser.add_argument("--sizes", metavar="BYTES,...", help="as 16K,1M; without it, each power of two from 1K to 64M")
    parser.add_argument("--quick", action="store_true", help="ten sizes, three repetitions")
    parser.add_argument("--only", metavar="WORD", help="only regimes whose name has it: fresh, same, one, 64")
    parser.add_argument("--ways", metavar="NAME,...", help=f"only these of {', '.join((*WAYS, *PLANS))}")
    parser.add_argument("--collectives", metavar="NAME,...", help=f"these instead of messages, of {', '.join(call_plans.COLLECTIVES)}, or all")
    parser.add_argument("--gpu", metavar="FROM-TO,...", help=f"messages in GPU memory instead, of {', '.join(gpu_plans.PAIRS)}, or all")
    parser.add_argument("--ranks", type=int, default=2, metavar="N", help="that take part in collectives (2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every sample (build/plans.json)", default=ROOT / "build/plans.json")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the table (build/plans.md)", default=ROOT / "build/plans.md")
    parser.add_argument("--prefix", type=Path, default=ROOT / "build/prefix", metavar="FOLDER")
    arguments = parser.parse_args(words)
    if arguments.quick:
        arguments.repetitions = min(arguments.repetitions, 3)
    if min(arguments.repetitions, arguments.batches, arguments.first) < 1:
        parser.error("--repetitions, --batches and --first must be above 0")
    try:
        arguments.sizes = tuple(bytes_of(word) for word in arguments.sizes.split(",")) if arguments.sizes else FEW_SIZES if arguments.quick else SIZES
    except ValueError as wrong:
        parser.error(f"--sizes: {wrong}")
    if arguments.gpu:
        return complete_for_gpu(parser, arguments)
    if arguments.collectives:
        return complete_for_collectives(parser, arguments)
    arguments.regimes = [regime for regime in REGIMES if not arguments.only or arguments.only in regime.title]
    if not arguments.regimes:
        parser.error(f"--only {arguments.only}: there are {'; '.join(regime.title for regime in REGIMES)}")
    arguments.ways = names_of(parser, "--ways", arguments.ways or "all", (*WAYS, *PLANS))
    return arguments


def names_of(parser: argparse.ArgumentParser, option: str, words: str, known: tuple[str, ...]) -> list[str]:
    names = list(known) if words == "all" else words.split(",")
    if unknown := [name for name in names if name not in known]:
        parser.error(f"{option}: {', '.join(unknown)} is none of {', '.join(known)}")
    return names


def complete_for_gpu(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> argparse.Namespace:
    if arguments.collectives:
        parser.error("--gpu and --collectives do not go together")
    if arguments.sizes in (SIZES, FEW_SIZES):
        arguments.sizes = gpu_plans.SIZES
    arguments.gpu = names_of(parser, "--gpu", arguments.gpu, gpu_plans.PAIRS)
    arguments.ways = names_of(parser, "--ways", arguments.ways or "all", (*gpu_plans.WAYS, *gpu_plans.PLANS))
    return arguments


def complete_for_collectives(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> argparse.Namespace:
    if arguments.sizes in (SIZES, FEW_SIZES):
        arguments.sizes = call_plans.SIZES
    arguments.collectives = names_of(parser, "--collectives", arguments.collectives, tuple(call_plans.COLLECTIVES))
    arguments.ways = names_of(parser, "--ways", arguments.ways or "all", (*call_plans.WAYS, *call_plans.PLANS))
    if arguments.ranks < 2:
        parser.error("--ranks must be above 1")
    return arguments


def measure_all(arguments: argparse.Namespace, measure: Callable[..., None], subjects: dict[Hashable, str], seconds: float, what: str) -> tuple[bool, dict]:
    """Each way of each subject, under its title, in turn: whether one has failed, and the facts of this run. `what`: is measured."""
    facts = machine_facts()
    turns = [Turn(repetition, subject, title, name)
             for repetition in range(arguments.repetitions) for subject, title in subjects.items() for name in arguments.ways]  # fmt: skip
    failed, took = take_turns(turns, seconds, lambda turn: measure(turn.subject, turn.name, turn.repetition))
    return failed, facts | {"repetitions": arguments.repetitions, "first": f"the first {arguments.first} {what} of a size", "took": took}


def write(arguments: argparse.Namespace, text: str, samples: object) -> None:
    print(text)
    arguments.markdown.write_text(text)
    arguments.json.write_text(json.dumps(samples, indent=1) + "\n")
    print(f"plans: written: {arguments.markdown}, {arguments.json}", file=sys.stderr)


def text_of(facts: dict, table: str, summary: str) -> str:
    return "".join(f"{key}: {value}  \n" for key, value in facts.items()) + table + "\n" + summary


def measure_collectives(arguments: argparse.Namespace) -> int:
    found = call_plans.CallPlans(arguments.prefix.resolve(), arguments.ranks, arguments.sizes, f"{arguments.batches}+{arguments.first}")
    failed, facts = measure_all(arguments, found.measure, {name: name for name in arguments.collectives}, 4.0, "calls")
    rows = call_plans.rows_of(found, arguments.collectives)
    write(arguments, text_of(facts, call_plans.table(rows, arguments.ranks), call_plans.summary(rows)),
          {"facts": facts, "points": call_plans.as_json(rows, found)})  # fmt: skip
    return 1 if failed or not rows else 0


def measure_gpu(arguments: argparse.Namespace) -> int:
    found = gpu_plans.GpuPlans(arguments.prefix.resolve(), arguments.sizes, f"{arguments.batches}+{arguments.first}")
    try:
        found.try_out()
    except Failed as why:
        print(f"plans: --gpu measures nothing here: {why}\n(./dev gpu-bundle packs the library for a machine that has GPUs)", file=sys.stderr)
        return 1
    failed, facts = measure_all(arguments, found.measure, {pair: pair for pair in arguments.gpu}, 8.0, "messages")
    rows = gpu_plans.rows_of(found, arguments.gpu)
    write(arguments, text_of(facts, gpu_plans.table(rows), gpu_plans.summary(rows)), {"facts": facts, "points": gpu_plans.as_json(rows, found)})
    return 1 if failed or not rows else 0


def bytes_of(word: str) -> int:
    """"64K"."""
    match = re.fullmatch(r"(\d+)([KM]?)", word)
    size = int(match[1]) * {"": 1, "K": KIB, "M": KIB * KIB}[match[2]] if match else 0
    if not 32 < size <= 1 << 28:
        raise ValueError(f"'{word}' is no size between 33 bytes and 256M")
    return size


def main(words: list[str]) -> int:
    arguments = parse_arguments(words)
    begin_clean()
    if arguments.gpu:
        return measure_gpu(arguments)
    if arguments.collectives:
        return measure_collectives(arguments)
    plans = Plans(arguments.prefix.resolve(), arguments.sizes, f"{arguments.batches}+{arguments.first}")
    failed, facts = measure_all(arguments, plans.measure, {regime: regime.title for regime in arguments.regimes}, 8.0, "messages")
    rows = rows_of(plans)
    write(arguments, table(rows, facts) + "\n" + summary(rows), as_json(rows, plans, facts))
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
