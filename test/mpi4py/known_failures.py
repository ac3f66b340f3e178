"""The list of cases that fail for a known reason: known_failures.txt."""

import fnmatch
import re
from pathlib import Path

FILE = Path(__file__).with_name("known_failures.txt")
# The sentence of a function that raises MPI_ERR_UNSUPPORTED_OPERATION because there is no code for it.
UNIMPLEMENTED = re.compile(r"(MPI_\w+): this release of Isthmus does not implement it")


class Entry:
    def __init__(self, reason, pattern, ranks, words):
        self.reason = reason
        self.pattern = pattern
        self.ranks = ranks  # the numbers of ranks that it is about; all if empty
        self.words = words  # in what the failure says; if empty, that a function is not implemented
        self.used = False

    def covers(self, case, ranks):
        return (not self.ranks or ranks in self.ranks) and fnmatch.fnmatchcase(case, self.pattern)

    def cause_in(self, text):
        """Why the case failed, if it is for what the entry says; else an empty text."""
        if self.words:
            return self.words if self.words in text else ""
        functions = sorted(set(UNIMPLEMENTED.findall(text)))
        return f"{', '.join(functions)} is not implemented yet" if functions else ""


def parse(text):
    entries, reason = [], None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        if section := re.fullmatch(r"\[(.+)\]", line):
            reason = section[1]
            continue
        case, _, words = (part.strip() for part in line.partition("|"))
        pattern, *ranks = case.split()
        if reason is None or not all(word.isdigit() for word in ranks):
            raise ValueError(f"{FILE.name}:{number}: no section above it, or what follows the case is not a number of ranks")
        entries.append(Entry(reason, pattern, {int(word) for word in ranks}, words))
    return entries


def read():
    return parse(FILE.read_text())


def find(entries, case, ranks):
    return next((entry for entry in entries if entry.covers(case, ranks)), None)


def judge(entries, case, ranks, outcome):
    """(verdict, words): `ok`, `skip` with its reason, or `fail` with details. The list excuses a failure only for the cause that
    it gives; a case on it which passes has to come off it."""
    entry = find(entries, case, ranks)
    if entry is None:
        return outcome.status, outcome.why
    if outcome.status == "ok":
        return "fail", f"it passes, but {FILE.name} lists it under '{entry.reason}': take it off the list"
    entry.used = True
    if outcome.status == "skip":  # mpi4py has found out by itself that it needs what is missing
        return "skip", f"{entry.reason}: {outcome.why}"
    cause = entry.cause_in(outcome.why)
    if not cause:
        return "fail", f"{FILE.name} lists it under '{entry.reason}', but that is not why it fails:\n{outcome.why}"
    return "skip", f"{entry.reason}: {cause}"
