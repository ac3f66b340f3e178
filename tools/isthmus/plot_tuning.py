#!/usr/bin/env python3
"""Draws the curves of a table that isthmus tune has written: plot_tuning.py TABLE PREFIX makes PREFIX.png and PREFIX.svg."""

import json
import sys


def main():
    table_file, prefix = sys.argv[1:]
    try:
        import matplotlib
    except ImportError:
        print("plot_tuning: there is no matplotlib here, so nothing is drawn (Debian: python3-matplotlib)", file=sys.stderr)
        return 1
    matplotlib.use("Agg")
    from matplotlib import pyplot

    with open(table_file) as file:
        table = json.load(file)
    curves = table["curves"]
    figure, axes = pyplot.subplots(len(curves), 1, figsize=(8, 4 * len(curves)), squeeze=False)
    for axis, curve in zip(axes[:, 0], curves, strict=True):
        for series in curve["series"]:
            axis.plot(curve["sizes"], series["microseconds"], marker="o", label=series["label"])
        axis.set(title=curve["name"], xlabel="message size (bytes)", ylabel="time per message (us)", xscale="log", yscale="log")
        axis.grid(True, which="both", alpha=0.3)
        axis.legend()
    figure.tight_layout()
    for ending in ("png", "svg"):
        figure.savefig(f"{prefix}.{ending}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
