"""A whole campaign as one HTML file that needs nothing else: the machine, versions, curves, tables, and what isthmus explain said."""

from __future__ import annotations

import statistics
from html import escape

from campaign_report import Findings, Point, legend, remarks
from pictures import benchmark_of
from report import figure

STYLE = """
:root { color-scheme: light; --line: #d8dde3; --soft: #f5f7f9; --ink: #1d2733; --better: #0a7a3d; --worse: #b3261e; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); margin: 0 auto; max-width: 76rem; padding: 1.5rem; background: #fff; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; border-top: 1px solid var(--line); padding-top: 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .4rem 0 1rem; }
th, td { padding: .18rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { background: var(--soft); font-weight: 600; position: sticky; top: 0; } th:first-child, td:first-child { text-align: left; }
.better { color: var(--better); } .worse { color: var(--worse); } .quiet { color: #66717d; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; } dt { color: #66717d; } dd { margin: 0; }
nav a { margin-right: .8rem; white-space: nowrap; } pre { background: var(--soft); padding: .8rem; overflow-x: auto; font-size: 13px; }
.wide { overflow-x: auto; } svg { max-width: 100%; height: auto; }
"""


def _svg(text: str) -> str:
    """Without the XML head, which has no place inside a page."""
    return text[text.index("<svg"):]


def _ratio_cell(point: Point, key: str) -> str:
    found = point.ratios.get(key)
    if found is None:
        return '<td class="quiet">-</td>'
    name = "quiet"
    if found.decided():
        name = "better" if (found.value < 1) == point.less_is_better else "worse"
    bounds = "" if found.low is None else f' <span class="quiet">[{found.low:.2f}, {found.high:.2f}]</span>'
    return f'<td class="{name}">{found.value:.2f}{bounds}</td>'


def _value_cell(findings: Findings, point: Point, key: str) -> str:
    median = point.median(key)
    if median is None:
        why = findings.missing.get((key, point.job), "-")
        return f'<td class="quiet" title="{escape(why)}">{escape(why.partition(":")[0])}</td>'
    values = point.figures[key].values()
    spread = f"{figure(min(values))} to {figure(max(values))}, {len(values)} runs"
    return f'<td title="{spread}">{figure(median)}</td>'


def _table(findings: Findings, job: str) -> str:
    points = findings.points_of(job)
    base, others = findings.plan.libraries[0], findings.plan.libraries[1:]
    extras = sorted({name for point in points for rows in point.rows.values() for row in rows for name in row.get("extras", {})})
    heads = ["size, B", *(f"{findings.titles[key]}, {points[0].unit}" for key in findings.plan.libraries),
             *(f"{findings.titles[base]} / {findings.titles[key]}" for key in others),
             *(f"{extra}: {findings.titles[key]}" for extra in extras for key in findings.plan.libraries)]
    lines = ["<div class=wide><table><tr>" + "".join(f"<th>{escape(head)}</th>" for head in heads) + "</tr>"]
    for point in points:
        cells = [f"<td>{'' if point.size is None else point.size}</td>"]
        cells += [_value_cell(findings, point, key) for key in findings.plan.libraries]
        cells += [_ratio_cell(point, key) for key in others]
        for extra in extras:
            for key in findings.plan.libraries:
                seen = [row["extras"][extra] for row in point.rows.get(key, []) if extra in row.get("extras", {})]
                cells.append(f"<td>{figure(statistics.median(seen)) if seen else '-'}</td>")
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return "\n".join([*lines, "</table></div>"])


def _facts(findings: Findings) -> str:
    pairs = [(str(name), str(value)) for name, value in findings.facts.items()]
    pairs += [(findings.titles[key], version) for key, version in findings.versions.items()]
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs) + "</dl>"


def as_page(findings: Findings, pictures: dict[str, str], explained: str) -> str:
    benchmarks = list(dict.fromkeys(benchmark_of(job) for job in findings.jobs() if findings.points_of(job)))
    parts = ["<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>",
             f"<title>Isthmus Bench</title><style>{STYLE}</style></head><body>", "<h1>Isthmus Bench: a campaign</h1>", _facts(findings),
             f"<p>{escape(legend(findings))} Green and red: the interval leaves 1 out. A cell tells its runs' spread when pointed at.</p>",
             "<nav>" + "".join(f'<a href="#{name}">{name}</a>' for name in benchmarks) + "</nav>"]
    if not pictures:
        parts.append("<p class=quiet>Without curves: python3 found no matplotlib, or nothing has two sizes.</p>")
    for name in benchmarks:
        parts.append(f'<h2 id="{name}">{name}</h2>')
        if name in pictures:
            parts.append(f"<figure>{_svg(pictures[name])}</figure>")
        for job in findings.jobs():
            if benchmark_of(job) == name and findings.points_of(job):
                parts.append(("" if job == name else f"<p><code>{escape(job)}</code></p>") + _table(findings, job))
    notes = remarks(findings)
    if notes:
        parts.append("<h2>Remarks</h2><ul>" + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>")
    if explained:
        parts.append(f"<h2>isthmus explain</h2><pre>{escape(explained)}</pre>")
    return "\n".join([*parts, "</body></html>\n"])
