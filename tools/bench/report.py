"""The results as an aligned table for a terminal, as Markdown and as JSON."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from itertools import groupby

from peers import Library
from results import Results, Row

NOISY = 0.2  # interquartile range by median


@dataclass(frozen=True)
class Report:
    libraries: list[Library]  # in the order of the columns, also those that could not be used
    rows: list[Row]
    results: Results
    facts: dict[str, object]  # the machine and how it was measured


def figure(value: float | None) -> str:
    """Three significant digits, never in exponents."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    digits = 0
    bound = 100.0
    while abs(value) < bound and digits < 4:
        digits += 1
        bound /= 10
    return f"{value:.{digits}f}"


def _cell(row: Row, key: str) -> str:
    if key in row.failures:
        return "failed"
    return figure(row.figures[key])


def _verdict(row: Row) -> str:
    return {True: "met", False: "MISSED", None: ""}[row.met] if row.point.target else ""


def _count(row: Row) -> str:
    counts = sorted({count for count in row.counts.values() if count})
    return "-".join(str(count) for count in (counts[:1] + counts[1:][-1:])) or "0"


def _header(report: Report) -> list[str]:
    return ["", "unit", *(library.title for library in report.libraries), "limit", "x best", "target", "", "n"]


def _cells(report: Report, row: Row) -> list[str]:
    target = row.point.target.text(row.point.less_is_better) if row.point.target else ""
    return [
        row.point.title, row.point.unit, *(_cell(row, library.key) for library in report.libraries),
        figure(row.limit), figure(row.ratio), target, _verdict(row), _count(row),
    ]


def _sections(report: Report) -> list[tuple[str, list[Row]]]:
    return [(name, list(rows)) for name, rows in groupby(report.rows, key=lambda row: row.point.section)]


def _notes(report: Report) -> list[str]:
    notes = []
    for library in report.libraries:
        by_reason: dict[str, list[str]] = {}
        for row in report.rows:
            if library.key in row.failures:
                by_reason.setdefault(row.failures[library.key], []).append(row.point.name)
        for reason, points in by_reason.items():
            where = "everywhere" if len(points) == len(report.rows) else ", ".join(points)
            notes.append(f"{library.title} failed ({where}): {reason}")
    noisy = [f"{row.point.name} ({library.title})" for row in report.rows for library in report.libraries
             if _spread(report.results.values(library.key, row.point)) > NOISY]
    if noisy:
        notes.append(f"interquartile range above {NOISY:.0%} of the median: {', '.join(noisy)}")
    if left_out := report.results.left_out():
        notes.append(f"{left_out} values left out: the host had both cores on one real core when they were taken")
    notes += [f"limit {name} failed: {reason}" for name, reason in report.results.limit_failures.items()]
    targets = [row for row in report.rows if row.point.target]
    judged = [row for row in targets if row.met is not None]
    notes.append(f"{sum(bool(row.met) for row in judged)} of {len(targets)} targets met, "
                 f"{len(targets) - len(judged)} could not be judged")
    return notes


def _spread(values: list[float]) -> float:
    if len(values) < 4:
        return 0
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle if middle else 0


def _limit_lines(report: Report) -> list[tuple[str, str, str]]:
    results = report.results
    return [(name, figure(statistics.median(values)), results.limit_units[name])
            for name, values in results.limits.items()]


def as_text(report: Report) -> str:
    header = _header(report)
    table = {name: [_cells(report, row) for row in rows] for name, rows in _sections(report)}
    every = [header, *(cells for rows in table.values() for cells in rows)]
    widths = [max(len(cells[i]) for cells in every) for i in range(len(header))]
    left = {0, 1, len(header) - 3, len(header) - 2}

    def line(cells: list[str]) -> str:
        return "  ".join(c.ljust(w) if i in left else c.rjust(w)
                         for i, (c, w) in enumerate(zip(cells, widths))).rstrip()

    lines = [f"{name}: {value}" for name, value in report.facts.items()]
    for name, rows in table.items():
        lines += ["", name, line(header), *(line(cells) for cells in rows)]
    if limits := _limit_lines(report):
        wide = max(len(name) for name, _, _ in limits)
        lines += ["", "the machine's limits", *(f"{name.ljust(wide)}  {value.rjust(8)} {unit}"
                                                for name, value, unit in limits)]
    return "\n".join([*lines, "", *_notes(report)])


def as_markdown(report: Report) -> str:
    header = _header(report)
    lines = [f"- {name}: {value}" for name, value in report.facts.items()]
    for name, rows in _sections(report):
        lines += ["", f"## {name[0].upper()}{name[1:]}", "", _markdown_row(header),
                  _markdown_row(["---", "---", *["--:"] * (len(header) - 5), "---", "---", "--:"])]
        lines += [_markdown_row(_cells(report, row)) for row in rows]
    if limits := _limit_lines(report):
        lines += ["", "## The machine's limits", "", "| limit | | |", "|---|--:|---|"]
        lines += [_markdown_row(list(cells)) for cells in limits]
    return "\n".join([*lines, "", *(f"- {note}" for note in _notes(report)), ""])


def _markdown_row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def as_json(report: Report) -> dict:
    results = report.results
    return {
        "facts": report.facts,
        "libraries": [
            {"key": library.key, "title": library.title, "wheels": list(library.wheels),
             "version": results.versions.get(library.key)}
            for library in report.libraries
        ],
        "limits": {
            name: {"unit": results.limit_units[name], "median": statistics.median(values), "values": values}
            for name, values in results.limits.items()
        },
        "points": [_json_row(report, row) for row in report.rows],
        "notes": _notes(report),
    }


def _json_row(report: Report, row: Row) -> dict:
    point = row.point
    return {
        "point": point.name, "title": point.title, "section": point.section, "unit": point.unit,
        "less_is_better": point.less_is_better,
        "libraries": {
            library.key: {
                "median": row.figures[library.key],
                "failure": row.failures.get(library.key),
                "values": [sample.value for sample in report.results.samples.get((library.key, point.name), [])],
                "line_ns_before": [sample.distance for sample in
                                   report.results.samples.get((library.key, point.name), [])],
            }
            for library in report.libraries
        },
        "limit": row.limit, "limit_name": point.limit, "best_peer": row.best_peer, "ratio_to_best_peer": row.ratio,
        "target": point.target.text(point.less_is_better) if point.target else None, "met": row.met,
    }
