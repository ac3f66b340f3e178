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


def _cell(report: Report, row: Row, key: str) -> str:
    if key in report.results.unavailable:
        return "absent"
    if key in row.failures:
        return "failed"
    mark = "*" if key == row.best_peer else ""
    return figure(row.figures[key]) + mark


def _verdict(row: Row) -> str:
    return {True: "met", False: "MISSED", None: ""}[row.met] if row.point.target and not row.cores else ""


def _count(row: Row) -> str:
    counts = sorted({count for count in row.counts.values() if count})
    return "-".join(str(count) for count in (counts[:1] + counts[1:][-1:])) or "0"


def _header(report: Report) -> list[str]:
    return ["", "unit", *(library.title for library in report.libraries), "limit", "ratio", "target", "", "n"]


def _title(row: Row) -> str:
    return f"{row.point.title}, cores {row.cores}" if row.cores else row.point.title


def _cells(report: Report, row: Row) -> list[str]:
    target = row.point.target.text(row.point.less_is_better) if row.point.target and not row.cores else ""
    return [
        _title(row), row.point.unit, *(_cell(report, row, library.key) for library in report.libraries),
        figure(row.limit), figure(row.ratio), target, _verdict(row), _count(row),
    ]


def _sections(report: Report) -> list[tuple[str, list[Row]]]:
    return [(name, list(rows)) for name, rows in groupby(report.rows, key=lambda row: row.point.section)]


def _notes(report: Report) -> list[str]:
    notes = ["* the best peer; ratio: Isthmus to the best peer; limit: the machine's own, without a library; n: runs"]
    for library in report.libraries:
        by_reason: dict[str, list[str]] = {}
        for row in report.rows:
            if library.key in row.failures:
                by_reason.setdefault(row.failures[library.key], []).append(row.point.name)
        for reason, points in by_reason.items():
            where = ", ".join(points)
            trouble = "absent" if library.key in report.results.unavailable else f"failed at {where}"
            notes.append(f"{library.title} {trouble}: {reason}")
    noisy = [f"{row.point.name}{f', cores {row.cores}' if row.cores else ''} ({library.title})"
             for row in report.rows for library in report.libraries
             if _spread(report.results.values(library.key, row.point, row.cores)) > NOISY]
    if noisy:
        notes.append(f"interquartile range above {NOISY:.0%} of the median: {', '.join(noisy)}")
    if any(row.cores for row in report.rows):
        notes.append("cores near, far: the host had moved the cores; a line of cache took less than half of what it usually "
                     "takes between them, or more than twice of it")
    if alone := _count_alone(report):
        notes.append(f"{alone} values in no row: the host had moved the cores, and there was nothing to compare them with")
    notes += [f"limit {name} failed: {reason}" for name, reason in report.results.limit_failures.items()]
    targets = [row for row in report.rows if row.point.target and not row.cores]
    judged = [row for row in targets if row.met is not None]
    notes.append(f"{sum(bool(row.met) for row in judged)} of {len(targets)} targets met, "
                 f"{len(targets) - len(judged)} could not be judged")
    return notes


def _count_alone(report: Report) -> int:
    keys = [library.key for library in report.libraries]
    results = report.results
    return sum(len(results.values(key, row.point, cores)) for row in report.rows if not row.cores
               for cores in ("near", "far") if results.alone(row.point, cores, keys) for key in keys)


def _spread(values: list[float]) -> float:
    if len(values) < 4:
        return 0
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle if middle else 0


def _limit_table(report: Report) -> list[list[str]]:
    """A line for each limit; those that were measured at several sizes have a column for each."""
    results = report.results
    sizes: list[str] = []
    table: dict[str, dict[str, str]] = {}
    for name, values in results.limits.items():
        kind, _, size = name.partition(".")
        table.setdefault(kind, {"unit": results.limit_units[name]})[size] = figure(statistics.median(values))
        if size not in sizes:
            sizes.append(size)
    sizes.sort(key=lambda size: (size[-3:] == "MiB", int(size[:-3] or 0)))
    return [["", "unit", *sizes], *([kind, cells["unit"], *(cells.get(size, "") for size in sizes)]
                                    for kind, cells in table.items())]


def aligned(rows: list[list[str]], left: set[int]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) if i in left else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def as_text(report: Report) -> str:
    header = _header(report)
    left = {0, 1, len(header) - 3, len(header) - 2}
    # All sections are aligned as one table.
    sections = _sections(report)
    body = aligned([header, *(_cells(report, row) for row in report.rows)], left)
    lines = [f"{name}: {value}" for name, value in report.facts.items()]
    at = 1
    for name, rows in sections:
        lines += ["", name, body[0], *body[at:at + len(rows)]]
        at += len(rows)
    if report.results.limits:
        lines += ["", "the machine's limits", *aligned(_limit_table(report), {0, 1})]
    return "\n".join([*lines, "", *_notes(report)])


def as_markdown(report: Report) -> str:
    header = _header(report)
    lines = [f"- {name}: {value}" for name, value in report.facts.items()]
    for name, rows in _sections(report):
        lines += ["", f"## {name[0].upper()}{name[1:]}", "", markdown_row(header),
                  markdown_row(["---", "---", *["--:"] * (len(header) - 5), "---", "---", "--:"])]
        lines += [markdown_row(_cells(report, row)) for row in rows]
    if report.results.limits:
        first, *rest = _limit_table(report)
        lines += ["", "## The machine's limits", "", markdown_row(first),
                  markdown_row(["---", "---", *["--:"] * (len(first) - 2)]), *map(markdown_row, rest)]
    return "\n".join([*lines, "", *(f"- {note}" for note in _notes(report)), ""])


def markdown_row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("*", "\\*") for cell in cells) + " |"


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
    samples = {library.key: [sample for sample in report.results.samples.get((library.key, point.name), [])
                             if not row.cores or report.results.cores(sample) == row.cores]
               for library in report.libraries}
    return {
        "point": point.name, "cores": row.cores or "usual", "title": point.title, "section": point.section, "unit": point.unit,
        "less_is_better": point.less_is_better,
        "libraries": {
            library.key: {
                "median": row.figures[library.key],
                "failure": row.failures.get(library.key),
                "values": [sample.value for sample in samples[library.key]],
                "line_ns_before": [sample.distance for sample in samples[library.key]],
            }
            for library in report.libraries
        },
        "limit": row.limit, "limit_name": point.limit, "best_peer": row.best_peer, "ratio_to_best_peer": row.ratio,
        "target": point.target.text(point.less_is_better) if point.target and not row.cores else None, "met": row.met,
    }
