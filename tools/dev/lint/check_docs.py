"""The documents: lines of prose have at most 120 characters. Tables and code are as wide as they are."""

import re
import subprocess
import textwrap

from sources import ROOT

WIDTH = 120
_FENCE = re.compile(r"\s*(```|~~~)")
_ITEM = re.compile(r"(\s*)([-*+]|\d+[.)])(\s+)")
# What is no paragraph of prose: headings, tables, HTML, link definitions.
_OTHER = re.compile(r"\s*(#|\||<|\[[^\]]+\]: )")
# What would begin something else than a paragraph goes on, at the start of a line.
_BEGINS = re.compile(r"([-*+>#|]|\d+[.)]|```|~~~|=+$|-+$)(\s|$)|<")


def documents():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(path for path in listed.stdout.split("\n") if path and (ROOT / path).is_file())


def blocks(text):
    """(whether it is a paragraph of prose, its lines) in order; list items are paragraphs of their own."""
    found, paragraph, fenced, in_list = [], [], False, False

    def end():
        if paragraph:
            found.append((True, paragraph.copy()))
            paragraph.clear()

    for line in text.split("\n"):
        if _FENCE.match(line):
            end()
            fenced = not fenced
            found.append((False, [line]))
        elif fenced or not line.strip() or _OTHER.match(line) or (not paragraph and not in_list and line.startswith("    ")):
            end()
            found.append((False, [line]))
            if line and not line.startswith(" "):
                in_list = False
        elif _ITEM.match(line):
            end()
            in_list = True
            paragraph.append(line)
        else:
            if not paragraph and not line.startswith(" "):
                in_list = False
            paragraph.append(line)
            if line.endswith(("  ", "\\")):  # a line that ends where its author wants
                end()
    end()
    return found


def too_long(text):
    """The numbers of lines of prose that are too long and could be shorter."""
    number, long = 0, []
    for prose, lines in blocks(text):
        for line in lines:
            number += 1
            if prose and len(line) > WIDTH and " " in line.strip()[:WIDTH]:
                long.append(number)
    return long


def wrapped(lines):
    """A paragraph in lines of the width."""
    item = _ITEM.match(lines[0])
    first = item[0] if item else re.match(r"\s*", lines[0])[0]
    later = " " * len(first) if item else first
    words = " ".join([lines[0][len(first) :], *lines[1:]]).split()
    end = lines[-1][len(lines[-1].rstrip()) :] if lines[-1].endswith("  ") else ""
    for width in range(WIDTH, WIDTH // 2, -1):
        made = textwrap.wrap(
            " ".join(words), width, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
        )
        if not any(_BEGINS.match(line.lstrip()) for line in made[1:]):
            return [*made[:-1], made[-1] + end]
    return lines


def rewrapped(text):
    """The text with paragraphs wrapped anew that have a line that is too long; the others as they are."""
    out = []
    for prose, lines in blocks(text):
        out += wrapped(lines) if prose and any(len(line) > WIDTH for line in lines) else lines
    return "\n".join(out)


def rewrite():
    """Wraps what is too long; how many files have changed."""
    changed = 0
    for path in documents():
        text = (ROOT / path).read_text()
        if (new := rewrapped(text)) != text:
            assert new.split() == text.split(), path
            (ROOT / path).write_text(new)
            changed += 1
    return changed


def check():
    """[(case, problem or '')]"""
    results = []
    for path in documents():
        long = too_long((ROOT / path).read_text())
        lines = ", ".join(map(str, long[:10])) + (", ..." if len(long) > 10 else "")
        results.append((f"document {path}", f"prose over {WIDTH} characters in line {lines}: ./dev format wraps it" if long else ""))
    return results
