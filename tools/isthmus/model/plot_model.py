#!/usr/bin/env python3
"""Draws what the forms of communication take of an exchange: plot_model.py REPORT FILE, of isthmus model --json. --check draws nothing and tells
whether it could."""

import json
import sys

MISSING = "isthmus: python3 finds no matplotlib, so nothing is drawn (Debian: python3-matplotlib; else: pip install matplotlib)"
# Okabe and Ito's colours, which people tell apart whatever their eyes.
COLOURS = {
    "kernels A": "#0072B2",
    "kernels B": "#56B4E9",
    "kernels C": "#009E73",
    "messages, S + W": "#D55E00",
    "collective calls": "#CC79A7",
    "the GPU is idle": "#DDDDDD",
    "the host enqueues longer than that": "#E69F00",
}


def without(queue, hidden):
    """The same with so much less time, from the front on."""
    left = []
    for name, time in queue:
        away = min(time, hidden)
        hidden -= away
        left.append((name, time - away))
    return left


def in_a_row(parts, piece, behind_wait=0.0):
    """What the GPU takes for kernels A, B and C, if each piece takes so much beside the work, or behind a wait (equations.hpp)."""
    for name in "abc":
        stage = parts[name]
        time = max(0.0, stage["seconds"] - stage["pieces"] * parts["piece_alone"]) + stage["pieces"] * piece
        if name == "c":
            time += min(parts["exchanges"], stage["pieces"]) * max(0.0, behind_wait - piece)
        yield f"kernels {name.upper()}", time


def bars(report):
    """For each form its name, and (part, microseconds an exchange), one behind the other."""
    parts = max(report["parts"], key=lambda each: each["total"])
    scale = 1e6 / max(1, parts["exchanges"])
    seconds = report["seconds"]

    def bar(pieces, *others):
        return [(name, time * scale) for name, time in (*in_a_row(parts, *pieces), *others)]

    def of(form):
        return parts[f"piece_in_{form}"]["in_a_row"], parts[f"piece_in_{form}"]["behind_wait"]

    kernels = bar(of("stream"))
    yield "sync, measured", [*kernels, ("the GPU is idle", max(0.0, parts["total"] * scale - sum(time for _, time in kernels)))]
    if not seconds:
        return
    collective = ("collective calls", parts["collective"])
    for name in ("stream", "graph"):
        queue = bar(of(name), ("messages, S + W", parts[f"{name}_exchange"]), collective)
        yield name, [*queue, ("the host enqueues longer than that", max(0.0, seconds[name] * scale - sum(time for _, time in queue)))]
    if seconds["kernel_worst"] is None:
        return
    exchange = ("messages, S + W", seconds["kernel_exchange"])
    yield "kernel, no overlap", bar((parts["meeting"],), exchange, collective)
    best = bar((0,), exchange, collective)
    yield "kernel, most overlap", without(best, sum(time for _, time in best) - seconds["kernel_best"] * scale)


def draw(report, file):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    # Text stays text in the SVG: it can be searched, and takes the reader's font.
    pyplot.rcParams.update({"svg.fonttype": "none", "font.size": 9})
    rows = list(bars(report))
    figure, axis = pyplot.subplots(figsize=(7.5, 1.2 + 0.45 * len(rows)), layout="constrained")
    sync = sum(time for _, time in rows[0][1])
    for at, (_, parts) in enumerate(rows):
        left = 0.0
        for name, time in parts:
            axis.barh(at, time, left=left, color=COLOURS[name], label=name, height=0.7)
            left += time
        gain = "" if at == 0 else f"  ({100 * (1 - left / sync):+.0f} %)"
        axis.text(left, at, f" {left:.1f} us{gain}", va="center")
    axis.set_yticks(range(len(rows)), [name for name, _ in rows])
    axis.invert_yaxis()
    axis.set_xlim(0, 1.25 * max(sum(time for _, time in parts) for _, parts in rows))
    axis.set_xlabel("microseconds an exchange, with what is computed between two")
    axis.set_title(f"{report['processes']} processes: measured, and predicted from its parts", loc="left")
    handles, labels = axis.get_legend_handles_labels()
    once = dict(zip(labels, handles))
    figure.legend(once.values(), once.keys(), loc="outside lower left", ncols=4, frameon=False, fontsize=8)
    figure.savefig(file)


def main(words):
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        sys.exit(MISSING)
    if words == ["--check"]:
        return
    report, file = words
    with open(report, encoding="utf-8") as text:
        draw(json.load(text), file)


main(sys.argv[1:])
