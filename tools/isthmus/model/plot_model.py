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


def bars(report):
    """For each form its name, and (part, microseconds an exchange), one behind the other."""
    parts = max(report["parts"], key=lambda each: each["total"])
    scale = 1e6 / max(1, parts["exchanges"])
    gpu = [("kernels A", parts["a"] * scale), ("kernels B", parts["b"] * scale), ("kernels C", parts["c"] * scale)]
    busy = sum(time for _, time in gpu)
    yield "sync, measured", [*gpu, ("the GPU is idle", max(0.0, parts["total"] * scale - busy))]
    seconds = report["seconds"]
    if not seconds:
        return
    queue = [*gpu, ("messages, S + W", parts["stream_exchange"] * scale), ("collective calls", parts["collective"] * scale)]
    taken = sum(time for _, time in queue)
    yield "stream", [*queue, ("the host enqueues longer than that", max(0.0, seconds["stream"] * scale - taken))]
    share = max(0.0, busy - parts["graph_saving"] * scale) / busy if busy else 0.0
    in_graph = [(name, time * share) for name, time in gpu] + [("messages, S + W", parts["graph_exchange"] * scale), queue[-1]]
    yield "graph", in_graph
    yield "kernel, no overlap", in_graph
    yield "kernel, most overlap", without(in_graph, (seconds["kernel_worst"] - seconds["kernel_best"]) * scale)


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
