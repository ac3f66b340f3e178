#!/usr/bin/env python3
"""Draws who has sent how much to whom, and in which way: plot_ranks.py REPORT FILE, of a report of isthmus explain --json. Ranks are in the
order of where they live: host, container, socket, GPU. --check draws nothing and tells whether it could."""

import json
import math
import sys
from collections import Counter, defaultdict

MISSING = "isthmus: python3 finds no matplotlib, so nothing is drawn (Debian: python3-matplotlib; else: pip install matplotlib)"
# Okabe and Ito's colours, which people tell apart whatever their eyes; then darker ones, for jobs that take that many ways.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#F0E442", "#000000", "#004466", "#804000", "#005c44", "#7a4864")
MOST_CELLS = 256  # a side; of more ranks, neighbours share a row
MOST_LABELS = 32
FAINTEST = 0.25  # of a cell's colour, for the fewest bytes


def bytes_text(value):
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value} B"


def places(ranks):
    """For each rank the names of where it lives, outermost first: host, container, socket, GPU. What is the same for all is left out."""
    containers = defaultdict(dict)
    names = {}
    for rank in ranks:
        place = rank["place"]
        spaces = place["namespaces"]
        host = (place["host"], place["boot"])
        known = containers[host]
        container = known.setdefault((spaces["ipc"], spaces["mnt"], spaces["pid"]), len(known) + 1)
        socket = f"socket {place['socket']}" if place["socket"] >= 0 else "any socket"
        gpu = f"GPU {rank['gpu'].split()[0]}" if rank["gpu"] else "no GPU"
        names[rank["rank"]] = (place["host"], f"container {container}", socket, gpu)
    levels = [level for level in range(4) if len({name[: level + 1] for name in names.values()}) > len({name[:level] for name in names.values()})]
    return {rank: tuple(name[level] for level in levels) for rank, name in names.items()}


def traffic(ranks):
    """(from, to, way) -> bytes and messages: what came, since a receiver knows which way it took; who sends to itself counts only that."""
    moved = {}
    for rank in ranks:
        for peer in rank["peers"]:
            across = "network, " if "transport" in peer else ""
            for way in peer["traffic"]:
                count = way["sent" if peer["rank"] == rank["rank"] else "received"]
                if count["messages"]:
                    moved[peer["rank"], rank["rank"], across + way["protocol"]] = (count["bytes"], count["messages"])
    return moved


def cells(moved, rows, side):
    """For each cell the bytes of each way."""
    matrix = [[Counter() for _ in range(side)] for _ in range(side)]
    for (source, target, way), (count, _) in moved.items():
        matrix[rows[source]][rows[target]][way] += count + 1  # an empty message is a message
    return matrix


def image(matrix, colours):
    """Each cell in the colour of the way of most of its bytes, the fuller the more bytes there are."""
    from matplotlib.colors import to_rgb

    totals = [sum(cell.values()) for row in matrix for cell in row]
    most = max(totals, default=1)
    least = min((total for total in totals if total), default=1)
    span = math.log(most / least) or 1.0

    def colour(cell):
        total = sum(cell.values())
        if not total:
            return (1.0, 1.0, 1.0)
        depth = FAINTEST + (1 - FAINTEST) * (1 if most == least else math.log(total / least) / span)
        return tuple(1 - depth * (1 - part) for part in to_rgb(colours[cell.most_common(1)[0][0]]))

    return [[colour(cell) for cell in row] for row in matrix]


def runs(names, level):
    """Neighbours that live in the same place, as (first, last, name)."""
    found = []
    for i, name in enumerate(names):
        if found and names[found[-1][0]][: level + 1] == name[: level + 1]:
            found[-1][1] = i
        else:
            found.append([i, i, name[level]])
    return found


def draw_places(axis, names, levels):
    """Lines between places, and their names outside of the matrix."""
    for level in range(levels):
        groups = runs(names, level)
        width = 1.6 / (level + 1)
        for first, last, name in groups:
            if first:
                axis.axhline(first - 0.5, color="0.2", linewidth=width)
                axis.axvline(first - 0.5, color="0.2", linewidth=width)
            if len(groups) > MOST_LABELS:
                continue
            depth = 0.035 + 0.035 * (levels - 1 - level)
            middle = (first + last) / 2
            mark = {"color": "0.2", "linewidth": 1.2, "clip_on": False}
            axis.plot([first - 0.4, last + 0.4], [1 + depth, 1 + depth], transform=axis.get_xaxis_transform(), **mark)
            axis.plot([1 + depth, 1 + depth], [first - 0.4, last + 0.4], transform=axis.get_yaxis_transform(), **mark)
            axis.text(middle, 1 + depth + 0.005, name, transform=axis.get_xaxis_transform(), ha="center", va="bottom", fontsize=7)
            axis.text(1 + depth + 0.005, middle, name, transform=axis.get_yaxis_transform(), ha="left", va="center", fontsize=7, rotation=270)


def ticks(order, step, side):
    stride = max(1, math.ceil(side / MOST_LABELS))
    positions = list(range(0, side, stride))
    return positions, [str(order[position * step]) for position in positions]


def draw(report, file):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    # Text stays text in the SVG: it can be searched, and takes the reader's font.
    pyplot.rcParams.update({"svg.fonttype": "none", "font.size": 9})
    ranks = report["ranks"]
    where = places(ranks)
    order = sorted(where, key=lambda rank: (where[rank], rank))
    step = math.ceil(len(order) / MOST_CELLS)
    side = math.ceil(len(order) / step)
    rows = {rank: i // step for i, rank in enumerate(order)}
    moved = traffic(ranks)
    by_way = Counter()
    messages = Counter()
    for (_, _, way), (count, number) in moved.items():
        by_way[way] += count
        messages[way] += number
    colours = {way: COLOURS[i % len(COLOURS)] for i, way in enumerate(sorted(by_way, key=lambda way: (-by_way[way], way)))}

    levels = len(next(iter(where.values())))
    figure, axis = pyplot.subplots(figsize=(8.2, 8.6), layout="constrained")
    axis.imshow(image(cells(moved, rows, side), colours), interpolation="nearest", aspect="equal")
    draw_places(axis, [where[order[i * step]] for i in range(side)], levels)
    positions, texts = ticks(order, step, side)
    axis.set_xticks(positions, texts, rotation=90 if side > MOST_LABELS // 2 else 0)
    axis.set_yticks(positions, texts)
    each = "" if step == 1 else f" ({step} in each row)"
    axis.set(xlabel=f"to rank{each}", ylabel=f"from rank{each}")
    whole = sum(by_way.values())
    legend = [
        Patch(color=colour, label=f"{way}: {bytes_text(by_way[way])} in {messages[way]} messages") for way, colour in colours.items()
    ]
    figure.suptitle(
        f"{report['size']} ranks on {report['host']}: {bytes_text(whole)} in {sum(messages.values())} messages\n"
        "a cell's colour: the way of most of its bytes; the fuller, the more bytes"
    )
    if legend:
        figure.legend(handles=legend, loc="outside lower center", frameon=False, ncols=1 if len(legend) < 4 else 2, fontsize=8)
    figure.savefig(file, dpi=130)


def main():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print(MISSING, file=sys.stderr)
        return 1
    if sys.argv[1:] == ["--check"]:
        return 0
    report_file, file = sys.argv[1:]
    try:
        with open(report_file) as source:
            report = json.load(source)
        draw(report, file)
    except OSError as error:
        print(f"isthmus: nothing is drawn: {error.strerror}: {error.filename}", file=sys.stderr)
        return 1
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        print(f"isthmus: nothing is drawn: the report is none of isthmus explain, or damaged ({error!r})", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
