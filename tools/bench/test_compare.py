"""Tests of isthmus bench compare: python3 -m unittest discover -s tools/bench"""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import compare  # noqa: E402
from campaign import Campaign, Job, OtherPlan, Plan, Record, Store, read_run, size_reached  # noqa: E402
from campaign_report import as_csv, as_json, as_markdown, as_text, find  # noqa: E402
from page import as_page  # noqa: E402
from peers import libraries  # noqa: E402
from pictures import placement_of, size_text, variant_of  # noqa: E402
from processes import Finished  # noqa: E402
from ratios import ratio  # noqa: E402

PLAN = Plan(("a", "b"), (Job("latency", 2), Job("put_latency", 2)), 3, 0.1)
TITLES = {"a": "First", "b": "Second"}


def row(size: int, value: float) -> dict:
    return {"benchmark": "latency", "size": size, "unit": "us", "less_is_better": True, "value": value}


def records() -> list[Record]:
    found = [Record("a", "latency", i, 1.0, [row(8, 1.0 + i / 100), row(64, 2.0)]) for i in range(3)]
    found += [Record("b", "latency", i, 1.0, [row(8, 2.0 + i / 50), row(64, 2.0)]) for i in range(3)]
    return [*found, Record("a", "put_latency", 0, 1.0, absent="First does not provide MPI_Put")]


class Ratios(unittest.TestCase):
    def test_the_ratio_is_that_of_the_medians(self):
        found = ratio({0: 1.0, 1: 2.0, 2: 9.0}, {0: 4.0, 1: 4.0, 2: 4.0})
        self.assertEqual(found.value, 0.5)

    def test_equal_figures_have_an_interval_of_no_width(self):
        found = ratio(dict.fromkeys(range(5), 3.0), dict.fromkeys(range(5), 2.0))
        self.assertEqual((found.low, found.high), (1.5, 1.5))
        self.assertTrue(found.decided())

    def test_two_repetitions_have_no_interval(self):
        found = ratio({0: 1.0, 1: 1.0}, {0: 2.0, 1: 2.0})
        self.assertIsNone(found.low)
        self.assertFalse(found.decided())

    def test_what_hits_both_libraries_of_a_repetition_alike_does_not_widen_the_interval(self):
        slow = [1, 5, 1, 3, 1, 2, 9]
        found = ratio({i: 2.0 * factor for i, factor in enumerate(slow)}, {i: 1.0 * factor for i, factor in enumerate(slow)})
        self.assertEqual((found.low, found.high), (2.0, 2.0))

    def test_the_interval_holds_the_true_ratio_about_as_often_as_it_says(self):
        chance, held = random.Random(3), 0
        for _ in range(100):
            first = {i: chance.gauss(10, 1) for i in range(15)}
            second = {i: chance.gauss(8, 1) for i in range(15)}
            found = ratio(first, second)
            held += found.low <= 10 / 8 <= found.high
        self.assertGreaterEqual(held, 85)

    def test_nothing_by_nothing_is_nothing(self):
        self.assertIsNone(ratio({}, {0: 1.0}))
        self.assertIsNone(ratio({0: 1.0}, {0: 0.0}))


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_what_was_measured_is_found_again(self):
        first = Store(self.folder, PLAN, {"machine": "here"})
        first.add(records()[0])
        again = Store(self.folder, PLAN, {"machine": "elsewhere"})
        self.assertEqual(again.records, [records()[0]])
        self.assertEqual(again.facts, {"machine": "here"})
        self.assertEqual(again.done(), {(0, "latency", "a")})

    def test_a_line_that_was_cut_off_is_dropped_and_the_next_is_whole(self):
        Store(self.folder, PLAN, {}).add(records()[0])
        with (self.folder / "results.jsonl").open("a") as file:
            file.write('{"library": "b", "jo')
        again = Store(self.folder, PLAN, {})
        again.add(records()[1])
        self.assertEqual(len(Store(self.folder, PLAN, {}).records), 2)

    def test_another_campaigns_results_are_not_mixed_in(self):
        Store(self.folder, PLAN, {})
        with self.assertRaisesRegex(OtherPlan, "another campaign"):
            Store(self.folder, Plan(("a",), PLAN.jobs, 3, 0.1), {})

    def test_a_file_that_is_none_of_ours_is_left_alone(self):
        (self.folder / "results.jsonl").write_text("hello\n")
        with self.assertRaisesRegex(OtherPlan, "no file of a campaign"):
            Store(self.folder, PLAN, {})
        self.assertEqual((self.folder / "results.jsonl").read_text(), "hello\n")


class Runs(unittest.TestCase):
    def test_libraries_take_turns_within_a_repetition(self):
        order = [(repetition, job.benchmark, key) for repetition, job, key in PLAN.steps()]
        self.assertEqual(order[:4], [(0, "latency", "a"), (0, "latency", "b"), (0, "put_latency", "a"), (0, "put_latency", "b")])
        self.assertEqual(order[4][0], 1)

    def test_absent_is_no_failure(self):
        said = '{"stopped": 4, "why": "X does not provide MPI_Put"}\n'
        record = read_run("a", PLAN.jobs[1], 0, Finished(4, 1.0, False, said, "mpiexec: rank 0 exited with 4"), 60)
        self.assertEqual((record.absent, record.failure), ("X does not provide MPI_Put", None))

    def test_a_crash_keeps_what_came_before_it_and_says_what_it_was(self):
        said = json.dumps(row(8, 1.0)) + "\n" + json.dumps(row(16, 1.0))[:20]
        record = read_run("a", PLAN.jobs[0], 0, Finished(139, 1.0, False, said, "Segmentation fault\n"), 60)
        self.assertEqual([line["size"] for line in record.rows], [8])
        self.assertIn("Segmentation fault", record.failure)

    def test_a_run_without_end_is_a_failure(self):
        self.assertIn("60 s", read_run("a", PLAN.jobs[0], 0, Finished(-15, 60.0, True, "", ""), 60).failure)

    def test_the_size_that_a_run_has_reached(self):
        self.assertEqual(size_reached(json.dumps(row(8, 1.0)) + "\n" + json.dumps(row(64, 1.0)) + "\n"), ", past 64 B")
        self.assertEqual(size_reached(""), "")

    def test_a_command_has_the_options_of_the_library_and_of_the_benchmark(self):
        library = next(each for each in libraries(Path("/b"), Path("/p")) if each.key == "mpich4")
        plan = Plan(("mpich4",), (Job("latency", 2, ("-m", "8", "-c")),), 1, 0.25)
        campaign = Campaign(plan, {"mpich4": library}, {"mpich4": Path("/x/isthmus_bench")}, None, Path("/"))
        command = campaign.command("mpich4", plan.jobs[0], 2)
        self.assertEqual(command[-8:], ["/x/isthmus_bench", "latency", "--format", "json", "--seconds", "0.25", "-m", "8", "-c"][-8:])
        self.assertIn("-bind-to", command)


class Reports(unittest.TestCase):
    def setUp(self):
        self.findings = find(PLAN, TITLES, {"machine": "here"}, records(), {})

    def test_the_table_has_medians_and_ratios(self):
        text = as_text(self.findings)
        self.assertRegex(text, r"8\s+1\.01\d*\s+2\.02\d*\s+0\.50 \[0\.50, 0\.50\]")

    def test_what_is_absent_is_named_with_its_reason(self):
        for text in (as_text(self.findings), as_markdown(self.findings)):
            self.assertIn("First: put_latency: absent: First does not provide MPI_Put", text)

    def test_a_library_that_could_not_be_built_is_absent_everywhere(self):
        findings = find(PLAN, TITLES, {}, [each for each in records() if each.library == "a"], {"b": "no mpicxx"})
        self.assertIn("Second: everything: absent: no mpicxx", as_text(findings))
        self.assertRegex(as_text(findings), r"8\s+1\.01\d*\s+absent")

    def test_what_is_no_longer_than_the_launch_overhead_has_no_figure(self):
        lost = Record("a", "latency", 0, 1.0, [{**row(8, -0.3), "resolved": False}, row(64, 2.0)])
        findings = find(PLAN, TITLES, {}, [lost], {})
        self.assertEqual([point.size for point in findings.points], [64])
        self.assertIn("First, latency, 8 B: no longer than the launch overhead", as_text(findings))

    def test_csv_has_a_line_for_each_run(self):
        lines = as_csv(self.findings).splitlines()
        self.assertEqual(len(lines), 1 + 12)
        self.assertTrue(lines[1].startswith("latency,8,a,0,us,1.0,"))

    def test_json_can_be_read_again(self):
        data = json.loads(json.dumps(as_json(self.findings)))
        self.assertEqual(data["points"][0]["libraries"]["a"]["values"], [1.0, 1.01, 1.02])
        self.assertEqual(data["missing"][0]["why"], "absent: First does not provide MPI_Put")

    def test_the_page_needs_nothing_else_and_escapes_what_others_said(self):
        page = as_page(self.findings, {"latency": "<?xml?><svg id='x'></svg>"}, "rank 0 <-> rank 1")
        self.assertIn("rank 0 &lt;-&gt; rank 1", page)
        self.assertIn("<svg id='x'>", page)
        self.assertIn('class="better"', page)
        for word in ("http://", "https://", "<script", "<link"):
            self.assertNotIn(word, page)

    def test_names_of_curves(self):
        self.assertEqual(placement_of("latency D MD -c @4"), "D - MD")
        self.assertEqual(variant_of("latency -m 8 @4"), "H, 4 ranks")
        self.assertEqual([size_text(size) for size in (8, 1024, 1536, 4 << 20)], ["8", "1K", "1536", "4M"])


class Arguments(unittest.TestCase):
    def refuses(self, pattern, action):
        with self.assertRaises(SystemExit) as ended, contextlib.redirect_stderr(io.StringIO()) as said:
            action()
        self.assertRegex(f"{ended.exception} {said.getvalue()}", pattern)

    def test_benchmarks_that_there_are_not(self):
        self.refuses("no benchmark 'latencies'", lambda: compare.choose_jobs(["latencies"], (), ["latency"]))
        self.refuses("no number of ranks", lambda: compare.choose_jobs(["latency@x"], (), ["latency"]))

    def test_libraries_that_there_are_not(self):
        self.refuses("'lam' is no library", lambda: compare.choose_libraries("lam", Path("/b"), Path("/p")))
        self.refuses("names no library", lambda: compare.choose_libraries(",", Path("/b"), Path("/p")))

    def test_one_library_on_two_paths(self):
        first, second = compare.choose_libraries("isthmus,isthmus:ISTHMUS_CMA=off", Path("/b"), Path("/p"))
        self.assertEqual((first.key, second.key), ("isthmus", "isthmus:ISTHMUS_CMA=off"))
        self.assertNotIn("ISTHMUS_CMA", first.run_environment())
        self.assertEqual(second.run_environment()["ISTHMUS_CMA"], "off")
        self.refuses("'ISTHMUS_CMA' is no NAME=VALUE", lambda: compare.choose_libraries("isthmus:ISTHMUS_CMA", Path("/b"), Path("/p")))

    def test_numbers_that_make_no_sense(self):
        self.refuses("at least 1", lambda: compare.parse_arguments(["--repetitions", "0"]))
        self.refuses("above 0", lambda: compare.parse_arguments(["--seconds", "nan"]))

    def test_what_follows_the_dashes_is_the_benchmarks(self):
        self.assertEqual(compare.parse_arguments(["bw", "--", "-m", "8", "D"]).options, ("-m", "8", "D"))

    def test_ranks_and_osu_names(self):
        jobs = compare.choose_jobs(["osu_latency", "bcast@4", "latency"], ("-c",), ["latency", "bcast"])
        self.assertEqual([job.name for job in jobs], ["latency -c", "bcast -c @4"])

    def test_a_campaign_has_every_benchmark(self):
        jobs = compare.choose_jobs([], (), ["latency", "barrier", "init"])
        self.assertEqual([job.options for job in jobs], [compare.CAMPAIGN_SIZES, (), ()])


if __name__ == "__main__":
    unittest.main()
