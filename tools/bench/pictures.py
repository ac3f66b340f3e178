"""The curves of a campaign, by size, both axes logarithmic: a picture a benchmark, with a line for each library and placement."""

from __future__ import annotations

import io
import statistics
from pathlib import Path

from campaign_report import Findings, Point

MISSING = "isthmus bench: python3 finds no matplotlib, so nothing is drawn (Debian: python3-matplotlib; else: pip install matplotlib)"
# Okabe and Ito's colours, which people tell apart whatever their eyes; each library keeps its own.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", ":", "-.")


def available() -> bool:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def size_text(size: int) -> str:
    for unit, bytes_ in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if size >= bytes_ and size % bytes_ == 0:
            return f"{size // bytes_}{unit}"
    return str(size)


def benchmark_of(job: str) -> str:
    return job.split()[0]


def placement_of(job: str) -> str:
    """"D D" of "latency D D -c @4", "H" where none is named."""
    places = [word for word in job.split()[1:] if word in ("H", "A", "pinned", "D", "VMM", "POOL", "M", "MH", "MD")]
    return " - ".join(places or ["H"])


def variant_of(job: str) -> str:
    """What tells the curves of one benchmark apart: placement and ranks."""
    ranks = next((f", {word[1:]} ranks" for word in job.split() if word.startswith("@")), "")
    return placement_of(job) + ranks


def groups(findings: Findings) -> dict[str, list[str]]:
    """The jobs of each benchmark that have more than one size to draw."""
    found: dict[str, list[str]] = {}
    for job in findings.jobs():
        if len([point for point in findings.points_of(job) if point.size]) > 1:
            found.setdefault(benchmark_of(job), []).append(job)
    return found


def series(points: list[Point], library: str) -> tuple[list[int], list[float], list[float], list[float]]:
    """Sizes, medians, and the least and the greatest of the runs."""
    drawn = [(point.size, point.figures[library]) for point in points if point.size and library in point.figures]
    drawn = [(size, list(values.values())) for size, values in drawn if min(values.values()) > 0]
    return ([size for size, _ in drawn], [statistics.median(values) for _, values in drawn], [min(values) for _, values in drawn],
            [max(values) for _, values in drawn])


def draw(findings: Findings, benchmark: str, jobs: list[str]):
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

    pyplot.rcParams.update({"svg.fonttype": "none", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axis = pyplot.subplots(figsize=(7.2, 4.4), layout="constrained")
    sizes: set[int] = set()
    for line, job in enumerate(jobs):
        for number, key in enumerate(findings.plan.libraries):
            at, middle, low, high = series(findings.points_of(job), key)
            if not at:
                continue
            sizes.update(at)
            colour = COLOURS[number % len(COLOURS)]
            label = findings.titles[key] + (f", {variant_of(job)}" if len(jobs) > 1 else "")
            axis.plot(at, middle, color=colour, linestyle=STYLES[line % len(STYLES)], marker="o", markersize=3.5, label=label)
            axis.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    axis.set(xscale="log", yscale="log")
    ticks = sorted(sizes)
    step = max(1, -(-len(ticks) // 12))
    axis.set_xticks(ticks[::step], [size_text(size) for size in ticks[::step]])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    point = findings.points_of(jobs[0])[0]
    axis.set_xlabel("message size (bytes)")
    axis.set_ylabel(f"{'time' if point.less_is_better else 'bandwidth'} ({point.unit})")
    variant = "" if len(jobs) > 1 else f" ({variant_of(jobs[0])})"
    axis.set_title(f"{benchmark}{variant}: medians; the band is from the least run to the greatest", fontsize=10)
    axis.grid(visible=True, which="major", color="0.87", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.legend(frameon=True, framealpha=0.9, edgecolor="none")
    return figure


def draw_all(findings: Findings, folder: Path) -> dict[str, str]:
    """Writes a PNG and an SVG for each benchmark; returns the SVGs as text, for the page."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn = {}
    for benchmark, jobs in groups(findings).items():
        matplotlib.rcParams["svg.hashsalt"] = benchmark  # ids differ between the pictures of one page
        figure = draw(findings, benchmark, jobs)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
        (folder / f"{benchmark}.svg").write_text(text.getvalue())
        figure.savefig(folder / f"{benchmark}.png", dpi=130)
        pyplot.close(figure)
        drawn[benchmark] = text.getvalue()
    return drawn
