"""Tests of the harness: python3 -m unittest discover -s tools/bench"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import host  # noqa: E402
from launches import make_launches, select_points  # noqa: E402
from peers import Library, Unavailable, libraries, make_available  # noqa: E402
from processes import begin_clean, run  # noqa: E402
from report import Report, as_json, as_markdown, as_text, figure  # noqa: E402
from results import Results, judge, parse_lines, rows_of  # noqa: E402
from targets import POINTS, Point, Target  # noqa: E402

LATENCY = next(point for point in POINTS if point.name == "latency.8B@2")
BANDWIDTH = next(point for point in POINTS if point.name == "bandwidth.1MiB@2")


class Targets(unittest.TestCase):
    def test_a_time_must_not_exceed_its_share_of_the_best_peer(self):
        point = Point("barrier@2", "", "us", "", None, Target(to_best=0.75))
        self.assertTrue(point.met(0.75, 1.0, None))
        self.assertFalse(point.met(0.76, 1.0, None))

    def test_a_bandwidth_must_reach_its_multiple_of_the_best_peer(self):
        self.assertTrue(BANDWIDTH.met(17.0, 10.0, None))
        self.assertFalse(BANDWIDTH.met(16.9, 10.0, None))

    def test_8_bytes_need_both_the_limit_and_the_lead(self):
        self.assertTrue(LATENCY.met(0.135, 0.2, 0.1))
        self.assertFalse(LATENCY.met(0.136, 0.2, 0.1))
        self.assertFalse(LATENCY.met(0.135, 0.135, 0.1))
        self.assertIsNone(LATENCY.met(0.135, 0.2, None))

    def test_finishing_where_no_peer_does_is_winning(self):
        point = Point("start@256", "", "ms", "", None, Target(to_best=0.3))
        self.assertTrue(point.met(1000.0, None, None))

    def test_best_is_the_least_time_and_the_most_bandwidth(self):
        self.assertEqual(LATENCY.best([0.3, 0.2]), 0.2)
        self.assertEqual(BANDWIDTH.best([10.0, 12.0]), 12.0)
        self.assertIsNone(BANDWIDTH.best([]))

    def test_names_of_points_are_unique_and_every_row_of_the_issue_has_a_target(self):
        self.assertEqual(len({point.name for point in POINTS}), len(POINTS))
        targeted = {point.name for point in POINTS if point.target}
        for name in ("latency.8B@2", "latency.4KiB@2", "latency.32KiB@2", "bandwidth.64MiB@2", "rate.8B@2",
                     "barrier@2", "allreduce.8B@2", "bcast.64KiB@2", "allreduce.1MiB@2", "alltoall.64KiB@2",
                     "allreduce.8B@8", "start@2", "resident@2", "start@32", "resident@32", "start@256",
                     "alltoall.1KiB@256", "latency.1KiB@2", "bandwidth-window.2KiB@2", "bandwidth-window.16KiB@2"):
            self.assertIn(name, targeted)


class ResultsOfRuns(unittest.TestCase):
    def results(self) -> Results:
        results = Results()
        results.add_limits([{"point": "cache-line-pair", "unit": "ns", "value": v} for v in (140, 140, 140, 20)])
        return results

    def test_values_taken_while_the_cores_had_moved_have_rows_of_their_own(self):
        results = self.results()
        for key, by in (("isthmus", 1), ("mpich5", 2), ("openmpi5", 4)):
            for value, distance in ((0.20, 140), (0.21, 141), (0.05, 20), (0.9, 500)):
                if key != "openmpi5" or distance != 20:
                    results.add(key, LATENCY, by * value, distance)
        usual, near, far = rows_of(results, LATENCY, ["isthmus", "mpich5", "openmpi5"])
        self.assertEqual((usual.cores, usual.counts["isthmus"]), ("", 2))
        self.assertAlmostEqual(usual.figures["isthmus"], 0.205)
        self.assertIsNotNone(usual.met)
        self.assertEqual((near.cores, near.figures, near.best_peer, near.ratio),
                         ("near", {"isthmus": 0.05, "mpich5": 0.1, "openmpi5": None}, "mpich5", 0.5))
        self.assertEqual((far.cores, far.counts["openmpi5"], far.met, far.limit), ("far", 1, None, None))

    def test_what_moved_cores_leave_nothing_beside_is_counted(self):
        results = self.results()
        results.add("isthmus", LATENCY, 0.2, 140)
        results.add("isthmus", LATENCY, 0.05, 20)
        results.add("mpich5", LATENCY, 0.3, 140)
        rows = rows_of(results, LATENCY, ["isthmus", "mpich5"])
        self.assertEqual([row.cores for row in rows], [""])
        known = [library for library in libraries(Path("/b"), Path("/p")) if library.key in ("isthmus", "mpich5")]
        self.assertIn("1 values in no row", as_text(Report(known, rows, results, {})))
        results.add("mpich5", LATENCY, 0.1, 20)
        report = Report(known, rows_of(results, LATENCY, ["isthmus", "mpich5"]), results, {})
        for text in (as_text(report), as_markdown(report)):
            self.assertIn("8 B one way, cores near", text)
            self.assertNotIn("in no row", text)
        self.assertEqual([point["cores"] for point in as_json(report)["points"]], ["usual", "near"])
        self.assertEqual(as_json(report)["points"][1]["libraries"]["isthmus"]["values"], [0.05])

    def test_values_of_ranks_that_are_not_bound_count_as_usual(self):
        results = self.results()
        results.add("isthmus", LATENCY, 0.2, None)
        self.assertEqual(results.values("isthmus", LATENCY), [0.2])

    def test_a_limit_is_given_in_the_unit_of_its_point(self):
        self.assertAlmostEqual(self.results().limit(LATENCY), 0.14)

    def test_a_failed_isthmus_misses_and_an_absent_one_is_not_judged(self):
        results = self.results()
        results.add("mpich5", LATENCY, 0.3, 140)
        results.fail("isthmus", LATENCY, "signal 11")
        self.assertIs(judge(results, LATENCY, ["isthmus", "mpich5"]).met, False)
        results.unavailable.add("isthmus")
        self.assertIsNone(judge(results, LATENCY, ["isthmus", "mpich5"]).met)

    def test_the_ratio_is_to_the_best_peer(self):
        results = self.results()
        for key, value in (("isthmus", 0.1), ("mpich5", 0.4), ("openmpi5", 0.2)):
            results.add(key, LATENCY, value, 140)
        row = judge(results, LATENCY, ["isthmus", "openmpi5", "mpich5"])
        self.assertEqual((row.best_peer, row.ratio), ("openmpi5", 0.5))

    def test_noise_between_the_lines_is_passed_over(self):
        self.assertEqual(parse_lines('warning\n{"point": "barrier", "value": 1}\n{"point": broken\n'),
                         [{"point": "barrier", "value": 1}])


class Reports(unittest.TestCase):
    def test_figures_have_three_digits(self):
        self.assertEqual([figure(v) for v in (None, 0.2345, 12.34, 123.4, 45600.0, 0.00123)],
                         ["-", "0.234", "12.3", "123", "45600", "0.0012"])

    def test_every_form_names_a_failure_and_its_reason(self):
        results = Results()
        results.add("mpich5", LATENCY, 0.3, None)
        results.fail("isthmus", LATENCY, "signal 11: no message")
        known = [library for library in libraries(Path("/b"), Path("/p")) if library.key in ("isthmus", "mpich5")]
        rows = [judge(results, LATENCY, ["isthmus", "mpich5"])]
        report = Report(known, rows, results, {"machine": "a test"})
        for text in (as_text(report), as_markdown(report)):
            self.assertIn("failed", text)
            self.assertIn("signal 11", text)
            self.assertIn("0.300", text)
        point = as_json(report)["points"][0]
        self.assertEqual(point["libraries"]["isthmus"]["failure"], "signal 11: no message")
        self.assertEqual(point["libraries"]["mpich5"]["values"], [0.3])


class Selection(unittest.TestCase):
    def test_points_are_chosen_by_name_kind_and_ranks(self):
        self.assertEqual([p.name for p in select_points(["latency.8B"])], ["latency.8B@2"])
        self.assertEqual({p.ranks for p in select_points(["@8"])}, {8})
        self.assertTrue(all(p.name.startswith("allreduce") for p in select_points(["allreduce"])))

    def test_another_version_that_is_not_there_is_refused_before_anything_is_measured(self):
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere), self.assertRaises(SystemExit) as ended:
            host.parse_arguments(["--before", "/no/such/folder"])
        self.assertEqual(ended.exception.code, 2)

    def test_an_unknown_word_is_refused(self):
        with self.assertRaises(SystemExit):
            host.select(["latencies"], False, libraries(Path("/b"), Path("/p")))

    def test_every_point_belongs_to_one_launch_and_the_slow_ones_come_last(self):
        launches = make_launches(POINTS)
        self.assertEqual(sorted(p.name for launch in launches for p in launch.points), sorted(p.name for p in POINTS))
        self.assertTrue(launches[-1].slow)
        self.assertFalse(launches[0].slow)


class Peers(unittest.TestCase):
    def test_a_library_that_is_not_there_says_so_and_what_to_do(self):
        library = Library("x", "X", "{prefix}/bin/mpicc", "c", "e", prefix=Path("/nowhere"), remedy="run ./dev build")
        with self.assertRaisesRegex(Unavailable, "/nowhere/bin/mpicc is not there: run ./dev build"):
            make_available(library, True, print)


class Processes(unittest.TestCase):
    def setUp(self):
        begin_clean()
        self.environment = {"PATH": os.environ["PATH"]}

    def test_output_status_and_time_come_back(self):
        done = run(["sh", "-c", "echo out; echo err >&2; exit 3"], self.environment, Path("/"), 10)
        self.assertEqual((done.status, done.timed_out, done.output, done.errors), (3, False, "out\n", "err\n"))

    def test_a_command_that_takes_too_long_is_ended(self):
        start = time.monotonic()
        done = run(["sleep", "60"], self.environment, Path("/"), 0.2)
        self.assertTrue(done.timed_out)
        self.assertLess(time.monotonic() - start, 10)

    def test_sigterm_ends_what_runs(self):
        with tempfile.NamedTemporaryFile("r") as file:
            body = "import processes, pathlib, os; processes.begin_clean(); processes.run(" \
                f"['sh', '-c', 'echo $$ > {file.name}; exec sleep 60'], dict(os.environ), pathlib.Path('/'), 60)"
            harness = subprocess.Popen([sys.executable, "-c", body], cwd=Path(__file__).parent, stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + 20
            while not (text := Path(file.name).read_text().strip()) and time.monotonic() < deadline:
                time.sleep(0.02)
            harness.terminate()
            harness.wait(20)
        self.assertNotEqual(text, "")
        self.assertFalse(Path(f"/proc/{text}").exists())

    def test_what_outlives_the_command_is_ended(self):
        with tempfile.NamedTemporaryFile("r") as file:
            run(["sh", "-c", f"setsid sleep 60 & echo $! > {file.name}"], self.environment, Path("/"), 10)
            pid = int(file.read())
        self.assertFalse(Path(f"/proc/{pid}").exists())
