#!/usr/bin/env python3
"""Draws docs/pictures/NAME.svg from NAME.txt: a row of boxes for each line, parted by |, with an arrow from row to row."""

import html
import sys
import textwrap
from pathlib import Path

PICTURES = Path(__file__).resolve().parents[2] / "docs/pictures"
WIDTH, GAP, MARGIN, LINE, LETTER = 760, 16, 12, 18, 7.4  # pixels; a letter of the font is about so wide


def rows_of(text):
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def draw(rows):
    """The picture as SVG."""
    parts, y = [], MARGIN
    for number, cells in enumerate(rows):
        width = (WIDTH - 2 * MARGIN - GAP * (len(cells) - 1)) / len(cells)
        wrapped = [textwrap.wrap(cell, max(8, int((width - 16) / LETTER))) for cell in cells]
        height = LINE * max(map(len, wrapped)) + 14
        if number:
            parts.append(f'<path d="M{WIDTH / 2} {y - GAP} v{GAP - 2}" marker-end="url(#arrow)"/>')
        for column, lines in enumerate(wrapped):
            x = MARGIN + column * (width + GAP)
            parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" rx="5"/>')
            top = y + (height - LINE * len(lines)) / 2 + 13
            for index, line in enumerate(lines):
                parts.append(f'<text x="{x + width / 2:.1f}" y="{top + LINE * index:.1f}">{html.escape(line)}</text>')
        y += height + GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - GAP + MARGIN}" font-family="sans-serif" font-size="14">'
    style = "<style>rect{fill:#eef4fa;stroke:#35608a}text{fill:#12283c;text-anchor:middle}path{stroke:#35608a;fill:none}</style>"
    tip = '<marker id="arrow" markerWidth="7" markerHeight="7" refX="5" refY="3.5" orient="auto"><path d="M0 0 L6 3.5 L0 7"/></marker>'
    return "\n".join([head, style, f"<defs>{tip}</defs>", *parts, "</svg>"]) + "\n"


def stale():
    """The pictures that are not what their text says."""
    return [source for source in sorted(PICTURES.glob("*.txt")) if not source.with_suffix(".svg").is_file()
            or source.with_suffix(".svg").read_text() != draw(rows_of(source.read_text()))]  # fmt: skip


def main():
    for source in stale():
        source.with_suffix(".svg").write_text(draw(rows_of(source.read_text())))
        print(f"drew {source.with_suffix('.svg').name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
