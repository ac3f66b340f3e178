"""Tests of ./dev bench plans: python3 -m unittest discover -s tools/bench"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import call_plans  # noqa: E402
import forced  # noqa: E402
import gpu_plans  # noqa: E402
import plans  # noqa: E402
from plans import KIB, Lesson, Plans, Regime, as_json, lesson_of, parse_arguments, rows_of, step_of, summary, table  # noqa: E402

ONE = Regime("fresh", "latency")
READS, BOTH, RING = ("rendezvous, receiver reads", "rendezvous, both sides copy", "rendezvous, pipelined through the ring")


def report(steps: list[tuple[int | None, str]], lessons: list[dict] | None = None) -> dict:
    peers = [{"steps": [{"up_to": up_to, "protocol": protocol} for up_to, protocol in steps]}] * 2
    return {"ranks": [{"peers": peers, "live": lessons or []}] * 2}


def lesson(least: int, protocol: str, predicted: float, measured: float | None, messages: int = 500) -> dict:
    ways = [{"protocol": protocol, "predicted_us": predicted, "measured_us": measured}]
    return {"from": least, "protocol": protocol, "messages": messages, "ways": ways}


def measured(live: tuple[float, float], taught: list[dict] | None = None) -> Plans:
    """Three repetitions at 64 KiB in which the ring takes 5 us; live plans: settled, and during the first messages."""
    found = Plans(Path("/nowhere"), (64 * KIB,), "1+1")
    for repetition in range(3):
        for name, settled, first, steps in (
            ("receiver reads", 12.0, 12.0, [(32, "eager"), (None, READS)]), ("both copy", 9.0, 9.0, [(None, BOTH)]),
            ("ring", 5.0, 5.0, [(None, RING)]), ("eager", 1.0, 1.0, [(32 * KIB, "eager"), (None, BOTH)]),
            ("fixed", 9.0, 9.0, [(16 * KIB, "eager"), (None, BOTH)]), ("live", *live, [(16 * KIB, "eager"), (None, BOTH)]),
        ):  # fmt: skip
            found.take(ONE, name, repetition, f"{64 * KIB} {settled + repetition / 1000:.6f} {first:.6f}\n",
                       report(steps, taught if name == "live" else None))
    return found


class Reports(unittest.TestCase):
    def test_the_way_of_a_size_is_the_first_step_that_reaches_it(self):
        steps = [{"up_to": 1024, "protocol": "eager"}, {"up_to": None, "protocol": READS}]
        self.assertEqual([step_of(steps, size) for size in (1024, 1025)], ["eager", "receiver reads"])

    def test_a_lesson_is_of_the_class_of_the_size_and_of_the_most_messages(self):
        lessons = [lesson(64 * KIB, BOTH, 9.0, 9.0, 10), lesson(64 * KIB, RING, 5.0, 6.0), lesson(96 * KIB, BOTH, 1.0, 1.0)]
        self.assertEqual(lesson_of(lessons, 64 * KIB), Lesson("ring", 5.0, 6.0))
        self.assertIsNone(lesson_of(lessons, 128 * KIB))
        self.assertEqual(lesson_of(lessons, 96 * KIB).way, "both copy")

    def test_a_way_that_has_not_been_measured_since_has_no_figure(self):
        self.assertEqual(lesson_of([lesson(1 << 20, RING, 5.0, None)], 1 << 20), Lesson("ring", 5.0, None))


class Tables(unittest.TestCase):
    def test_what_a_job_did_not_force_at_a_size_does_not_count_as_forced(self):
        row = rows_of(measured((5.0, 6.0)))[0]
        self.assertNotIn("eager", row.times)
        self.assertEqual((row.best, row.chosen), ("ring", "both copy"))

    def test_plans_are_held_against_the_best_forced_way(self):
        row = rows_of(measured((5.5, 7.0), [lesson(64 * KIB, RING, 5.0, 5.5)]))[0]
        self.assertAlmostEqual(row.fixed.value, 1.8, 2)
        self.assertAlmostEqual(row.live.value, 1.1, 2)
        self.assertAlmostEqual(row.first, 1.4, 2)
        self.assertEqual(row.learned, {"ring": 6})
        self.assertAlmostEqual(row.apart, 1 / 11, 3)
        text = table([row], {"machine": "a machine"})
        self.assertIn("| 64 KiB | - | - | 12 | 9 | 5\\* | 9 | 5.5 | both copy | ring |", text)
        said = summary([row])
        self.assertIn("live: median 1.10 x the best forced way, 0 of 1 points within 1.05, surely above it 1", said)
        self.assertIn("the first messages: 0 of 1 points within 1.3", said)
        self.assertIn("within 10 % at 1 of 1", said)

    def test_a_point_whose_ways_were_all_measured_on_other_cores_is_kept_and_said_to_be_one(self):
        found = Plans(Path("/nowhere"), (64 * KIB,), "1+1")
        for name, cores in (("ring", "0.11 0.11"), ("live", "0.3 0.3"), ("fixed", "0.3 0.3")):
            found.take(ONE, name, 0, f"{64 * KIB} 5.0 9.0 {cores}\n", report([(None, RING)]))
        (row,) = rows_of(found)
        self.assertEqual((row.best, row.live, row.fixed), (None, None, None))
        self.assertIn("live: nothing to compare: nothing was measured on cores as far apart", summary([row]))
        (point,) = as_json([row], found, {})["points"]
        self.assertEqual(point["ways"].keys(), {"ring", "live", "fixed"})

    def test_only_what_was_measured_on_cores_equally_far_apart_is_compared(self):
        found = Plans(Path("/nowhere"), (64 * KIB,), "1+1")
        for repetition, cores in enumerate(("0.11 0.12", "0.31 0.3", "0.11 0.3")):
            far = 3.0 if repetition else 1.0
            for name, settled, moved in (("ring", 5.0, cores), ("live", 5.5, cores if repetition else "0.3 0.3"), ("fixed", 9.0, cores)):
                found.take(ONE, name, repetition, f"{64 * KIB} {settled * far:.6f} 9.0 {moved}\n", report([(None, RING)]))
        (row,) = rows_of(found)
        # All three have a sample among far cores, and none counts during which they moved.
        self.assertEqual((row.times, round(row.live.value, 2), round(row.cores, 1)), ({"ring": 15.0, "fixed": 27.0, "live": 11.0}, 0.73, 0.3))
        self.assertIn("| 64 KiB | 0.30 | - | - | - | 15\\* | 27 | 11 |", table([row], {}))

    def test_live_plans_that_have_learned_nothing_go_by_the_plan(self):
        self.assertEqual(rows_of(measured((9.0, 9.0)))[0].learned, {"both copy": 6})

    def test_every_sample_is_in_the_json(self):
        found = measured((5.5, 7.0))
        told = json.loads(json.dumps(as_json(rows_of(found), found, {})))
        self.assertEqual(len(told["points"][0]["ways"]["live"]["settled_us"]), 3)

    def test_where_nothing_was_measured_there_is_no_row(self):
        self.assertEqual(rows_of(Plans(Path("/nowhere"), (1 << 20,), "1+1")), [])


class Arguments(unittest.TestCase):
    def refused(self, *words: str) -> str:
        told = io.StringIO()
        with contextlib.redirect_stderr(told), self.assertRaises(SystemExit) as ended:
            parse_arguments(list(words))
        self.assertEqual(ended.exception.code, 2)
        return told.getvalue()

    def test_sizes_are_bytes_with_a_unit(self):
        self.assertEqual(parse_arguments(["--sizes", "64,16K,1M"]).sizes, (64, 16 * KIB, KIB * KIB))

    def test_what_makes_no_sense_is_refused(self):
        self.assertIn("'8' is no size", self.refused("--sizes", "8"))
        self.assertIn("'1G' is no size", self.refused("--sizes", "1K,1G"))
        self.assertIn("must be above 0", self.refused("--repetitions", "0"))
        self.assertIn("pigeon is none of", self.refused("--ways", "ring,pigeon"))
        self.assertIn("there are fresh", self.refused("--only", "warm"))
        self.assertIn("scan is none of", self.refused("--collectives", "bcast,scan"))
        self.assertIn("ring is none of", self.refused("--collectives", "bcast", "--ways", "ring"))
        self.assertIn("host-host is none of", self.refused("--gpu", "host-host"))
        self.assertIn("ring is none of", self.refused("--gpu", "all", "--ways", "ring"))
        self.assertIn("do not go together", self.refused("--gpu", "all", "--collectives", "bcast"))
        self.assertIn("--ranks", self.refused("--collectives", "all", "--ranks", "1"))

    def test_all_regimes_without_a_word(self):
        self.assertEqual(len(parse_arguments([]).regimes), 4)
        self.assertEqual({regime.data for regime in parse_arguments(["--only", "fresh"]).regimes}, {"fresh"})


def call_lesson(collective: str, up_to: int, way: str, predicted: dict[str, float], measured: float | None, members: int = 2) -> dict:
    ways = [{"way": name, "predicted_us": us, "measured_us": measured if name == way else None} for name, us in predicted.items()]
    return {"collective": collective, "members": members, "up_to": up_to, "way": way, "ways": ways}


class CallPlans(unittest.TestCase):
    TAUGHT = call_lesson("bcast", 64 * KIB, "staged", {"staged": 5.0, "direct": 9.0}, 5.5)

    def test_a_lesson_is_of_the_class_that_ends_behind_the_size(self):
        lessons = [call_lesson("bcast", 48 * KIB, "flat", {"flat": 6.0}, None), self.TAUGHT, call_lesson("bcast", 96 * KIB, "direct", {"direct": 6.0}, None)]
        found = {size: call_plans.lesson_of(lessons, "bcast", 2, size) for size in (32 * KIB, 32 * KIB + 1, 48 * KIB + 1, 64 * KIB, 64 * KIB + 1)}
        self.assertEqual([lesson and lesson.way for lesson in found.values()], [None, "flat", "staged", "staged", "direct"])
        self.assertAlmostEqual(found[48 * KIB + 1].predicted, 3.75, 3)
        self.assertIsNone(call_plans.lesson_of(lessons, "bcast", 3, 64 * KIB))
        self.assertIsNone(call_plans.lesson_of(lessons, "allreduce", 2, 64 * KIB))

    def test_plans_are_held_against_the_best_way_that_is_possible(self):
        found = call_plans.CallPlans(Path("/nowhere"), 2, (64 * KIB,), "1+1")
        for repetition in range(3):
            for name, settled, first in (("staged", 5.0, 5.0), ("direct", 9.0, 9.0), ("tree", 1.0, 1.0), ("fixed", 9.0, 9.0), ("live", 5.5, 7.0)):
                found.take("bcast", name, repetition, f"{64 * KIB} {settled:.6f} {first:.6f}\n", {"ranks": [{"live_collectives": [self.TAUGHT]}]})
        (row,) = call_plans.rows_of(found, ["bcast"])
        self.assertEqual((row.best, row.learned), ("staged", {"staged": 3}))
        self.assertNotIn("tree", row.times)
        self.assertAlmostEqual(row.fixed.value, 1.8, 2)
        self.assertAlmostEqual(row.live.value, 1.1, 2)
        self.assertAlmostEqual(row.first, 1.4, 2)
        self.assertIn("| bcast 64 KiB | 5\\* | 9 | 9 | 5.5 | staged |", call_plans.table([row], 2))
        said = call_plans.summary([row])
        self.assertIn("collectives, live: median 1.10 x the best forced way, 0 of 1 points within 1.05; the worst 1.10 (bcast 64 KiB)", said)
        self.assertIn("within 10 % at 1 of 1", said)
        self.assertEqual(len(call_plans.as_json([row], found)[0]["ways"]["live"]["settled_us"]), 3)


    def test_of_calls_that_do_not_block_a_way_counts_that_they_have_gone_when_it_was_forced(self):
        found = call_plans.CallPlans(Path("/nowhere"), 2, (64 * KIB,), "1+1")
        gone = {"direct": "direct", "messages": "messages", "staged": "direct", "fixed": "direct", "live": "messages"}
        for repetition in range(3):
            for name, settled in (("direct", 6.0), ("messages", 2.0), ("staged", 1.0), ("fixed", 6.0), ("live", 2.2)):
                told = {**call_lesson("bcast", 64 * KIB, gone[name], {gone[name]: 0}, None), "form": "nonblocking"}
                other = {**told, "form": "persistent", "way": "flat"}
                report = {"ranks": [{"live_collectives": [self.TAUGHT], "live_nonblocking": [other, told]}]}
                found.take("ibcast", name, repetition, f"{64 * KIB} {settled:.6f} {settled:.6f}\n", report)
        (row,) = call_plans.rows_of(found, ["ibcast"])
        self.assertEqual((row.best, row.learned), ("messages", {"messages": 3}))
        self.assertNotIn("staged", row.times, "it went another way where this was asked for")
        self.assertAlmostEqual(row.fixed.value, 3.0, 2)
        self.assertAlmostEqual(row.live.value, 1.1, 2)
        self.assertIsNone(row.apart)


class GpuPlans(unittest.TestCase):
    NAMES = {name: protocol for protocol, name in gpu_plans.PROTOCOLS.items()}

    def report(self, way: str, lessons: list[dict] | None = None, up_to: int | None = None) -> dict:
        steps = [{"up_to": up_to, "way": self.NAMES[way]}]
        plan = {"from": ["device memory", "pool memory"], "to": ["device memory"], "steps": steps}
        other = {"from": ["device memory"], "to": ["pageable host memory"], "steps": [{"up_to": None, "way": self.NAMES["staged"]}]}
        return {"ranks": [{"peers": []}, {"peers": [{"gpu_plans": [other, plan]}], "live_gpu": lessons or []}]}

    def test_plans_are_held_against_the_best_way_that_has_been_forced(self):
        size = 96 * KIB
        ways = [{"way": "pull", "predicted_us": 6.0, "measured_us": 6.3}, {"way": "push", "predicted_us": 9.0, "measured_us": None}]
        lesson = {"from": size, "several": False, "way": "pull", "ways": ways}
        taught = [{**lesson, "from": 64 * KIB, "way": "push"}, {**lesson, "several": True, "way": "push"}, lesson]
        found = gpu_plans.GpuPlans(Path("/nowhere"), (size,), "1+1")
        for repetition in range(3):
            for name, settled, first, way in (("push", 9.0, 9.0, "push"), ("pull", 6.0, 6.0, "pull"), ("courier", 1.0, 1.0, "push"),
                                              ("staged", 20.0, 20.0, "staged"), ("fixed", 9.0, 9.0, "push"), ("live", 6.6, 7.2, "push")):  # fmt: skip
                found.take("device-device", name, repetition, f"{size} {settled:.6f} {first:.6f}\n", self.report(way, taught))
        (row,) = gpu_plans.rows_of(found, ["device-device", "host-device"])
        self.assertEqual((row.best, row.learned), ("pull", {"pull": 3}))
        self.assertNotIn("courier", row.times, "it went another way where this was asked for")
        self.assertAlmostEqual(row.fixed.value, 1.5, 2)
        self.assertAlmostEqual(row.live.value, 1.1, 2)
        self.assertAlmostEqual(row.first, 1.2, 2)
        self.assertAlmostEqual(row.apart, 1 - 6.0 / 6.3, 3)
        self.assertIn("| device-device 96 KiB | 9 | 6\\* | 20 | 9 | 6.6 | pull |", gpu_plans.table([row]))
        self.assertIn("GPU memory, live: median 1.10 x the best forced way, 0 of 1 points within 1.05", gpu_plans.summary([row]))
        (point,) = gpu_plans.as_json([row], found)
        self.assertEqual((point["fixed_chose"], len(point["ways"]["live"]["settled_us"])), ("push", 3))

    def test_the_way_of_a_size_is_that_of_both_memories(self):
        self.assertEqual(gpu_plans.chosen_of(self.report("push"), "device-device", 8), "push")
        self.assertEqual(gpu_plans.chosen_of(self.report("push"), "device-host", 8), "staged")
        self.assertIsNone(gpu_plans.chosen_of(self.report("push"), "host-device", 8))
        self.assertIsNone(gpu_plans.chosen_of(self.report("courier", up_to=4096), "device-device", 8192))


class Jobs(unittest.TestCase):
    def test_without_a_gpu_nothing_is_measured_nor_written(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix = Path(folder)
            (prefix / "bin").mkdir()
            mpiexec = prefix / "bin/mpiexec"
            mpiexec.write_text("#!/bin/sh\necho no driver >&2; exit 2\n")
            mpiexec.chmod(0o755)
            words = ["--gpu", "all", "--prefix", folder, "--json", f"{folder}/plans.json", "--markdown", f"{folder}/plans.md"]
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(plans.measure_gpu(parse_arguments(words)), 1)
            self.assertIn("--gpu measures nothing here: fixed, device-device: exit status 2: no driver", said.getvalue())
            self.assertEqual(said.getvalue().count("exit status"), 1)
            self.assertEqual(os.listdir(folder), ["bin"])

    def test_a_job_that_fails_is_told_with_its_words(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix = Path(folder)
            (prefix / "bin").mkdir()
            mpiexec = prefix / "bin/mpiexec"
            for script, said in (("echo no cores >&2; exit 3", "exit status 3: no cores"), ("exit 0", "there is no report")):
                mpiexec.write_text(f"#!/bin/sh\n{script}\n")
                mpiexec.chmod(0o755)
                with self.assertRaisesRegex(forced.Failed, f"ring, fresh, one: {said}"):
                    Plans(prefix, (1024,), "1+1").measure(ONE, "ring", 0)


if __name__ == "__main__":
    unittest.main()
