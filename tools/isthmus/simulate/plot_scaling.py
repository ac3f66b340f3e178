#!/usr/bin/env python3
"""Draws how Jacobi3D scales: plot_scaling.py RESULT FILE, of the JSON of isthmus simulate. Curves are simulated, crosses measured; --check
draws nothing and tells whether it could."""

import json
import sys

MISSING = "isthmus: python3 finds no matplotlib, so nothing is drawn (Debian: python3-matplotlib; else: pip install matplotlib)"
# Okabe and Ito's colours, which people tell apart whatever their eyes.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")


def draw_curves(axis, result, kind, title, n):
    from matplotlib.ticker import NullFormatter, NullLocator

    counts = set()
    for colour, curve in zip(COLOURS, result[kind], strict=False):
        gpus = [point["gpus"] for point in curve["points"]]
        counts.update(gpus)
        axis.plot(gpus, [point["iteration"] for point in curve["points"]], marker="o", color=colour, label=curve["way"])
        busy = [max(point["communication"], 0) for point in curve["points"]]
        axis.plot(gpus, [each or None for each in busy], linestyle=":", color=colour, label=f"{curve['way']}: communicating")
        real = [point for point in result["checked"] if point["way"] == curve["way"] and kind == "strong" and point["n"] == n]
        axis.plot([point["gpus"] for point in real], [point["measured"] for point in real], "x", color="0.1", markersize=9)
    axis.set(xscale="log", yscale="log", xlabel="GPUs", ylabel="an iteration (us)")
    axis.set_xticks(sorted(counts), [str(count) for count in sorted(counts)], rotation=60)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.grid(visible=True, which="major", color="0.85", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.set_title(title, fontsize=10, fontweight="bold")
    axis.legend(frameon=False, fontsize=8)


def draw_checked(axis, points):
    axis.axhspan(0.9, 1.1, color="0.9", linewidth=0)
    axis.axhline(1, color="0.25", linewidth=1)
    for i, point in enumerate(points):
        axis.plot(i, point["ratio"], "o", color=COLOURS[0])
    texts = [f"{point['way']}, {point['gpus']} GPUs, n = {point['n']}" for point in points]
    axis.set_xticks(range(len(points)), texts, rotation=60, ha="right", fontsize=7)
    axis.set_ylabel("predicted / measured")
    axis.set_title("against what was measured", fontsize=10, fontweight="bold")


def draw(result, file):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    # Text stays text in the SVG: it can be searched, and takes the reader's font.
    pyplot.rcParams.update({"svg.fonttype": "none", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    panels = []
    if result["weak"]:
        panels.append(("weak", f"weak scaling, {result['weak_edge']}³ points a GPU", result["weak_edge"]))
    if result["strong"]:
        panels.append(("strong", f"strong scaling, {result['strong_n']}³ points", result["strong_n"]))
    columns = len(panels) + bool(result["checked"])
    if columns == 0:
        raise ValueError("there are neither curves nor measured points")
    figure, axes = pyplot.subplots(1, columns, figsize=(5.6 * columns, 4.6), squeeze=False, layout="constrained")
    for axis, (kind, title, n) in zip(axes.flat, panels, strict=False):
        draw_curves(axis, result, kind, title, n)
    if result["checked"]:
        draw_checked(axes.flat[-1], result["checked"])
    figure.suptitle(f"Jacobi3D, simulated: {result['name']}", fontsize=11)
    figure.savefig(file)


def main():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print(MISSING, file=sys.stderr)
        return 1
    if sys.argv[1:] == ["--check"]:
        return 0
    result_file, file = sys.argv[1:]
    try:
        with open(result_file, encoding="utf-8") as source:
            draw(json.load(source), file)
    except OSError as error:
        print(f"isthmus: nothing is drawn: {error.strerror}: {error.filename}", file=sys.stderr)
        return 1
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        print(f"isthmus: nothing is drawn: the result is none of isthmus simulate, or has no curves ({error!r})", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
