#!/usr/bin/env python3
"""Draws the curves of a table that isthmus tune has written: plot_tuning.py TABLE PREFIX makes PREFIX.png and PREFIX.svg; --check
draws nothing and tells whether it could."""

import json
import math
import sys

MISSING = "isthmus: python3 finds no matplotlib, so nothing is drawn (Debian: python3-matplotlib; else: pip install matplotlib)"
COLUMNS = 2
# Okabe and Ito's colours, which people tell apart whatever their eyes.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")


def bytes_text(value):
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= size and value % size == 0:
            return f"{value // size} {unit}"
    return f"{value} B"


def time_ticks(low, high):
    """1, 2, 5, 10, ... from about `low` to about `high`."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    all_ticks = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    return [tick for tick in all_ticks if low / 1.3 <= tick <= high * 1.3]


def label_axes(axis, positions, texts, times):
    from matplotlib.ticker import NullFormatter, NullLocator

    axis.set(xscale="log", yscale="log")
    axis.set_xticks(positions, texts)
    axis.xaxis.set_minor_locator(NullLocator())
    ticks = time_ticks(min(times), max(times))
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.set_ylabel("time a message (us)")
    axis.grid(visible=True, which="major", color="0.85", linewidth=0.8)
    axis.set_axisbelow(True)


def draw_crossing(axis, curve, value):
    """Two ways over the size; the chosen point with each side in the colour of its way."""
    sizes = curve["sizes"]
    for colour, series in zip(COLOURS, curve["series"], strict=False):
        axis.plot(sizes, series["microseconds"], marker="o", color=colour, label=series["label"])
    first_above = curve["value_is"].startswith("first")
    point = value["value"] / math.sqrt(2) if first_above else value["value"] * math.sqrt(2)
    low, high = sizes[0] / 1.6, sizes[-1] * 1.6
    point = min(max(point, low), high)
    axis.axvspan(low, point, color=COLOURS[0], alpha=0.08, linewidth=0)
    axis.axvspan(point, high, color=COLOURS[1], alpha=0.08, linewidth=0)
    axis.axvline(point, color="0.25", linestyle="--", linewidth=1.2)
    times = [time for series in curve["series"] for time in series["microseconds"]]
    label_axes(axis, sizes, [bytes_text(size) for size in sizes], times)
    axis.set_xlim(low, high)
    axis.set_xlabel("message size")
    side = "from" if first_above else "to"
    return f"{curve['series'][1 if first_above else 0]['label']} {side} {bytes_text(value['value'])}"


def draw_candidates(axis, curve, value):
    """One line a message size over the candidates; the chosen one marked."""
    candidates = curve["candidates"]
    texts = [series["label"] for series in curve["series"]]
    for i, size in enumerate(curve["sizes"]):
        times = [series["microseconds"][i] for series in curve["series"]]
        axis.plot(candidates, times, marker="o", color=COLOURS[i % len(COLOURS)], label=f"messages of {bytes_text(size)}")
    axis.axvline(value["value"], color="0.25", linestyle="--", linewidth=1.2)
    times = [time for series in curve["series"] for time in series["microseconds"]]
    label_axes(axis, candidates, texts, times)
    axis.set_xlim(candidates[0] / 1.4, candidates[-1] * 1.4)
    axis.set_xlabel(curve["decides"])
    return texts[candidates.index(value["value"])]


def draw(table, prefix):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    # Text stays text in the SVG: it can be searched, and takes the reader's font.
    pyplot.rcParams.update({"svg.fonttype": "none", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    curves = table["curves"]
    rows = math.ceil(len(curves) / COLUMNS)
    figure, axes = pyplot.subplots(rows, COLUMNS, figsize=(6.2 * COLUMNS, 3.5 * rows + 0.9), squeeze=False, layout="constrained")
    for axis, curve in zip(axes.flat, curves, strict=False):
        value = table["values"][curve["decides"]]
        chosen = (draw_candidates if "candidates" in curve else draw_crossing)(axis, curve, value)
        origin = "tuned" if value["origin"] == "tuned" else "the default"
        axis.set_title(f"{curve['name']}\n", fontsize=10, fontweight="bold")
        axis.text(0.5, 1.02, f"{chosen} ({origin})", transform=axis.transAxes, ha="center", va="bottom")
        axis.legend(frameon=True, framealpha=0.9, edgecolor="none")
    for axis in axes.flat[len(curves) :]:
        axis.set_visible(False)
    machine = table["machine"]
    figure.suptitle(
        f"isthmus tune: {machine['processor']}, {machine['processors']} hardware threads, kernel {machine['kernel']}\n{table['made']}",
        fontsize=11,
    )
    for ending in ("png", "svg"):
        figure.savefig(f"{prefix}.{ending}", dpi=130)


def main():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print(MISSING, file=sys.stderr)
        return 1
    if sys.argv[1:] == ["--check"]:
        return 0
    table_file, prefix = sys.argv[1:]
    try:
        with open(table_file) as file:
            table = json.load(file)
        draw(table, prefix)
    except OSError as error:
        print(f"isthmus: nothing is drawn: {error.strerror}: {error.filename}", file=sys.stderr)
        return 1
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        print(f"isthmus: nothing is drawn: {table_file} is no table of isthmus tune, or damaged ({error!r})", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
