"""The list of cases that fail because a chapter of MPI is missing: missing.txt."""

import fnmatch
import re
from pathlib import Path

# The sentence of a function that raises MPI_ERR_UNSUPPORTED_OPERATION because there is no code for it.
UNIMPLEMENTED = re.compile(r"(MPI_\w+): this release of Isthmus does not implement it")


class Entry:
    def __init__(self, chapter, pattern, ranks):
        self.chapter = chapter
        self.pattern = pattern
        self.ranks = ranks  # the numbers of ranks that it is about; all if empty
        self.used = False

    def covers(self, case, ranks):
        return (not self.ranks or ranks in self.ranks) and fnmatch.fnmatchcase(case, self.pattern)


def parse(text):
    """`[chapter]` begins a section; a line in it is a case, or a pattern of cases, and the numbers of ranks if not all."""
    entries, chapter = [], None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        if section := re.fullmatch(r"\[(.+)\]", line):
            chapter = section[1]
            continue
        pattern, *ranks = line.split()
        if chapter is None or not all(word.isdigit() for word in ranks):
            raise ValueError(f"missing.txt:{number}: no section above it, or what follows the case is not a number of ranks")
        entries.append(Entry(chapter, pattern, {int(word) for word in ranks}))
    return entries


def read():
    return parse(Path(__file__).with_name("missing.txt").read_text())


def find(entries, case, ranks):
    return next((entry for entry in entries if entry.covers(case, ranks)), None)


def judge(entries, case, ranks, outcome):
    """(verdict, words): `ok`, `skip` with its reason, or `fail` with details. Being on the list excuses only a failure that a
    missing function caused."""
    entry = find(entries, case, ranks)
    if entry is None or outcome.status == "skip":
        return outcome.status, outcome.why
    entry.used = True
    if outcome.status == "ok":
        return "fail", f"it passes, but missing.txt lists it under '{entry.chapter}': take it off the list"
    functions = sorted(set(UNIMPLEMENTED.findall(outcome.why)))
    if not functions:
        return "fail", f"missing.txt lists it under '{entry.chapter}', but no missing function is why it fails:\n{outcome.why}"
    return "skip", f"{entry.chapter}: {', '.join(functions)} is not implemented yet"
