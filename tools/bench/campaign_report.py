"""What a campaign has come to, as text, Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import statistics
from dataclasses import dataclass

from campaign import Plan, Record
from ratios import Ratio, ratio
from report import aligned, markdown_row, figure


@dataclass(frozen=True)
class Point:
    """One size of one job, under all libraries."""

    job: str
    size: int | None  # of a benchmark without sizes: None
    unit: str
    less_is_better: bool
    figures: dict[str, dict[int, float]]  # library -> repetition -> the run's median
    ratios: dict[str, Ratio]  # of the first library to each of the others
    rows: dict[str, list[dict]]  # all that the runs said, by library

    def median(self, library: str) -> float | None:
        values = self.figures.get(library)
        return statistics.median(values.values()) if values else None

    @property
    def name(self) -> str:
        return self.job if self.size is None else f"{self.job}, {self.size} B"


@dataclass(frozen=True)
class Findings:
    plan: Plan
    titles: dict[str, str]
    facts: dict[str, object]
    points: list[Point]
    missing: dict[tuple[str, str], str]  # (library, job) -> "absent: ...", "failed: ..."
    notes: list[str]
    versions: dict[str, str]

    def jobs(self) -> list[str]:
        return [job.name for job in self.plan.jobs]

    def points_of(self, job: str) -> list[Point]:
        return [point for point in self.points if point.job == job]


def find(plan: Plan, titles: dict[str, str], facts: dict[str, object], records: list[Record], unavailable: dict[str, str]) -> Findings:
    figures: dict[tuple[str, int | None], dict[str, dict[int, dict]]] = {}
    missing = {(key, job.name): f"absent: {why}" for key, why in unavailable.items() for job in plan.jobs}
    notes: dict[str, None] = {}
    versions: dict[str, str] = {}
    for record in records:
        if "library" in record.facts:
            versions.setdefault(record.library, str(record.facts["library"]))
        for row in record.rows:
            if not row.get("resolved", True):
                notes[f"{titles[record.library]}, {record.job}, {row.get('size')} B: no longer than the launch overhead: cannot be told"] = None
                continue
            point = figures.setdefault((record.job, row.get("size")), {})
            point.setdefault(record.library, {})[record.repetition] = row
        for note in record.notes:
            notes[f"{titles[record.library]}, {record.job}: {note}"] = None
        if record.absent:
            missing[record.library, record.job] = f"absent: {record.absent}"
        elif record.failure:
            missing[record.library, record.job] = f"failed: {record.failure}"
    order = {job.name: number for number, job in enumerate(plan.jobs)}
    points = [_point(plan, job, size, by_library) for (job, size), by_library in
              sorted(figures.items(), key=lambda item: (order.get(item[0][0], 0), item[0][1] or 0))]
    return Findings(plan, titles, facts, points, missing, list(notes), versions)


def _point(plan: Plan, job: str, size: int | None, by_library: dict[str, dict[int, dict]]) -> Point:
    first_row = next(row for rows in by_library.values() for row in rows.values())
    values = {key: {repetition: row["value"] for repetition, row in rows.items()} for key, rows in by_library.items()}
    base = plan.libraries[0]
    ratios = {}
    for key in plan.libraries[1:]:
        if found := ratio(values.get(base, {}), values.get(key, {})):
            ratios[key] = found
    rows = {key: list(rows.values()) for key, rows in by_library.items()}
    return Point(job, size, first_row["unit"], first_row["less_is_better"], values, ratios, rows)


def ratio_text(found: Ratio | None) -> str:
    if found is None:
        return "-"
    if found.low is None or found.high is None:
        return f"{found.value:.2f}"
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _table(findings: Findings, job: str) -> list[list[str]]:
    points = findings.points_of(job)
    base, others = findings.plan.libraries[0], findings.plan.libraries[1:]
    titles = findings.titles
    unit = points[0].unit if points else ""
    extras = sorted({name for point in points for rows in point.rows.values() for row in rows for name in row.get("extras", {})})
    head = ["size, B", *(f"{titles[key]}, {unit}" for key in findings.plan.libraries), *(f"{titles[base]} / {titles[key]}" for key in others)]
    head += [f"{extra}: {titles[key]}" for extra in extras for key in findings.plan.libraries]
    lines = [head]
    for point in points:
        cells = ["-" if point.size is None else str(point.size)]
        cells += [figure(point.median(key)) if point.median(key) is not None else findings.missing.get((key, job), "-").partition(":")[0]
                  for key in findings.plan.libraries]
        cells += [ratio_text(point.ratios.get(key)) for key in others]
        for extra in extras:
            for key in findings.plan.libraries:
                seen = [row["extras"][extra] for row in point.rows.get(key, []) if extra in row.get("extras", {})]
                cells.append(figure(statistics.median(seen)) if seen else "-")
        lines.append(cells)
    return lines


def remarks(findings: Findings) -> list[str]:
    """What the tables cannot say: what is missing and why, and noise."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for (key, job), why in findings.missing.items():
        grouped.setdefault((key, why), []).append(job)
    lines = []
    for (key, why), jobs in grouped.items():
        where = ", ".join(jobs) if len(jobs) < len(findings.plan.jobs) else "everything"
        lines.append(f"{findings.titles[key]}: {where}: {why}")
    noisy = [note for note in findings.notes if "noisy" in note]
    if noisy:
        lines.append(f"{len(noisy)} kinds of runs found the machine noisy, for example {noisy[0]}")
    return lines + [note for note in findings.notes if "noisy" not in note]


def legend(findings: Findings) -> str:
    n = findings.plan.repetitions
    return (f"Medians of {n} runs' medians, libraries in turn. Ratios: figures of the first library by the other's; in brackets, where three runs "
            "or more have both, where the true ratio lies with 95 % (bootstrap over the repetitions).")


def as_text(findings: Findings) -> str:
    lines = [f"{name}: {value}" for name, value in findings.facts.items()]
    lines += [f"{findings.titles[key]}: {version}" for key, version in findings.versions.items()]
    for job in findings.jobs():
        if findings.points_of(job):
            lines += ["", job, *aligned(_table(findings, job), set())]
    return "\n".join([*lines, "", legend(findings), *remarks(findings)])


def as_markdown(findings: Findings) -> str:
    lines = [f"- {name}: {value}" for name, value in findings.facts.items()]
    lines += [f"- {findings.titles[key]}: {version}" for key, version in findings.versions.items()]
    lines += ["", legend(findings)]
    for job in findings.jobs():
        if not findings.points_of(job):
            continue
        head, *body = _table(findings, job)
        lines += ["", f"## {job}", "", markdown_row(head), markdown_row(["--:"] * len(head)), *map(markdown_row, body)]
    return "\n".join([*lines, "", *(f"- {remark}" for remark in remarks(findings)), ""])


def as_csv(findings: Findings) -> str:
    """A line a run and size."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["benchmark", "size", "library", "repetition", "unit", "value", "ratio_of_first_to_this", "ratio_low", "ratio_high"])
    for point in findings.points:
        for key, values in point.figures.items():
            found = point.ratios.get(key)
            tail = [found.value, found.low, found.high] if found else ["", "", ""]
            for repetition, value in sorted(values.items()):
                writer.writerow([point.job, "" if point.size is None else point.size, key, repetition, point.unit, value,
                                 *("" if cell is None else cell for cell in tail)])
    return text.getvalue()


def as_json(findings: Findings) -> dict:
    return {
        "facts": findings.facts,
        "plan": findings.plan.as_json(),
        "libraries": [{"key": key, "title": findings.titles[key], "version": findings.versions.get(key)} for key in findings.plan.libraries],
        "points": [
            {
                "benchmark": point.job, "size": point.size, "unit": point.unit, "less_is_better": point.less_is_better,
                "libraries": {key: {"median": point.median(key), "values": [values[i] for i in sorted(values)], "runs": point.rows[key]}
                              for key, values in point.figures.items()},
                "ratios": {key: {"value": found.value, "low": found.low, "high": found.high} for key, found in point.ratios.items()},
            }
            for point in findings.points
        ],
        "missing": [{"library": key, "benchmark": job, "why": why} for (key, job), why in findings.missing.items()],
        "notes": findings.notes,
    }
