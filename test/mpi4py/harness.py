"""That this suite notices what it is for: cases that fail on one rank only, die or hang, and entries of the list that are stale."""

import known_failures
import package
from module_runs import Outcome, run_modules

# Cases that need no MPI but the rank; run as another package's would be.
PROGRAM = '''
import os, signal, time, unittest

rank = int(os.environ["ISTHMUS_WORLD_RANK"])


class Test(unittest.TestCase):
    def test_1_passes(self):
        pass

    def test_2_fails_on_one_rank(self):
        self.assertEqual(rank, 0)

    def test_3_dies_on_one_rank(self):
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    def test_4_skips(self):
        self.skipTest("for no number of ranks")

    def test_5_hangs_on_one_rank(self):
        while rank == 1:
            time.sleep(1)

    def test_6_fails_in_a_subtest(self):
        with self.subTest():
            self.fail()

    def test_7_passes(self):
        pass


class TestWithoutClass(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("no class")

    def test(self):
        pass
'''
EXPECTED = {
    "Test.test_1_passes": "ok",
    "Test.test_2_fails_on_one_rank": "fail",
    "Test.test_3_dies_on_one_rank": "fail",
    "Test.test_4_skips": "skip",
    "Test.test_5_hangs_on_one_rank": "fail",
    "Test.test_6_fails_in_a_subtest": "fail",
    "Test.test_7_passes": "ok",
    "TestWithoutClass.test": "fail",
}

LIST = """
[One-Sided Communications]
test_a.*     # at all
test_b.T.x 2 3
[a mistake]
test_d.* | 1 != 2
"""


def check_jobs(suite):
    folder = suite.tmp / "harness"
    folder.mkdir()
    (folder / "test_harness.py").write_text(PROGRAM)
    environment = package.environment()
    environment["PYTHONPATH"] += f":{folder}"
    outcomes, breaks = run_modules(2, ["test_harness"], folder / "jobs", python=package.PYTHON, env=environment, case_seconds=3)
    found = {case.removeprefix("test_harness."): outcome.status for case, outcome in outcomes.items()}
    assert found == EXPECTED, f"{found}\n{breaks}"
    assert len(breaks) == 2, breaks


def check_list():
    unsupported = Outcome("fail", "MPI_Win_create: this release of Isthmus does not implement it yet")
    cases = [
        ("test_a.T.x", 5, unsupported, "skip"),
        ("test_a.T.x", 5, Outcome("fail", "1 != 2"), "fail"),  # listed, but for another reason
        ("test_a.T.x", 5, Outcome("ok"), "fail"),  # stale
        ("test_b.T.x", 2, unsupported, "skip"),
        ("test_b.T.x", 5, unsupported, "fail"),  # not listed for this number of ranks
        ("test_a.T.x", 5, Outcome("skip", "mpi-win"), "skip"),
        ("test_d.T.x", 1, Outcome("fail", "1 != 2"), "skip"),
        ("test_d.T.x", 1, unsupported, "fail"),  # fails with other words
        ("test_c.T.x", 5, unsupported, "fail"),  # not listed
        ("test_c.T.x", 5, Outcome("ok"), "ok"),
    ]
    for case, ranks, outcome, expected in cases:
        verdict, words = known_failures.judge(known_failures.parse(LIST), case, ranks, outcome)
        assert verdict == expected, (case, ranks, outcome, verdict, words)


def check(suite):
    """Needs mpi4py, which record.py imports."""
    with suite.case("the runner notices cases that fail on one rank, die, hang or cannot begin, and goes on after them"):
        check_jobs(suite)
    with suite.case("the list of known failures excuses what fails for the reason given there, and nothing else"):
        check_list()
