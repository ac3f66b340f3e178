"""One rank's part in running test modules of mpi4py: runs the cases and records what became of each.

    mpiexec -n N python record.py FOLDER FROM SECONDS MODULE...

Every rank loads the same cases in the same order and runs those from index FROM on. It appends JSON lines to FOLDER/RANK:
`{"plan": [ID...]}` first, then `{"begin": ID}` and `{"end": ID, "outcome": ..., "why": ...}` for each case, where the outcome is
`ok`, `skip` or `fail`, and `{"finished": true}` last. A line is on disk before the next step, so that a rank which dies or hangs leaves
behind how far it came. The ranks begin each case together, so that they are in the same one when that happens. A case that takes
longer than SECONDS prints where it is and ends the process.
"""

import faulthandler
import json
import os
import sys
import traceback
import unittest


class Journal:
    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, **line):
        os.write(self._file, (json.dumps(line) + "\n").encode())


class Recorder(unittest.TestResult):
    """Of several outcomes of one case (subtests, a failing clean-up) the worst counts."""

    WORST = ("ok", "skip", "fail")

    def __init__(self, journal, barrier, seconds):
        super().__init__()
        self._journal = journal
        self._barrier = barrier
        self._seconds = seconds
        self._outcome = self._why = None

    def startTest(self, test):
        super().startTest(test)
        self._outcome, self._why = "ok", ""
        faulthandler.dump_traceback_later(self._seconds, exit=True)
        self._barrier()
        self._journal.note(begin=test.id())

    def stopTest(self, test):
        faulthandler.cancel_dump_traceback_later()
        self._journal.note(end=test.id(), outcome=self._outcome, why=self._why)
        super().stopTest(test)

    def _became(self, test, outcome, why):
        if not isinstance(test, unittest.TestCase):  # a class or a module that could not be set up: it has no case that runs
            self._journal.note(group=test.id(), outcome=outcome, why=why)
        elif self.WORST.index(outcome) > self.WORST.index(self._outcome):
            self._outcome, self._why = outcome, why

    def addSkip(self, test, reason):
        self._became(test, "skip", reason)

    def addError(self, test, err):
        self._became(test, "fail", self._exc_info_to_string(err, test))

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._became(test, "fail", self._exc_info_to_string(err, test))

    def addUnexpectedSuccess(self, test):
        self._became(test, "fail", "it was expected to fail, and passed")


class NotLoaded(unittest.TestCase):
    """Stands for the cases of a module that cannot be imported."""

    def __init__(self, module):
        super().__init__("not_loaded")
        self._module = module
        self._error = traceback.format_exc()

    def id(self):
        return f"{self._module}.import"

    def not_loaded(self):
        self.fail(self._error)


def load(module):
    try:
        return unittest.defaultTestLoader.loadTestsFromName(module)
    except Exception:
        return NotLoaded(module)


def cases_of(tests):
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from cases_of(test)
        else:
            yield test


def main(folder, begin, seconds, *modules):
    sys.dont_write_bytecode = True
    for absent in ("cupy", "numba"):  # as mpi4py's own runner does: no GPU arrays
        sys.modules[absent] = None
    from mpi4py import MPI

    own = MPI.COMM_WORLD.Dup()  # what a case left undone on its communicators does not touch this one
    journal = Journal(os.path.join(folder, str(own.Get_rank())))
    cases = list(cases_of(map(load, modules)))
    journal.note(plan=[case.id() for case in cases])
    own.Barrier()
    # A TestSuite, because it is what sets up the classes and modules of its cases.
    unittest.TestSuite(cases[int(begin) :]).run(Recorder(journal, own.Barrier, float(seconds)))
    own.Barrier()
    journal.note(finished=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
