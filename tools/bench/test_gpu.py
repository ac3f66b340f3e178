"""Tests of ./dev bench gpu: python3 -m unittest discover -s tools/bench"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gpu import Result, as_json, as_markdown, launches, look_elsewhere, select  # noqa: E402
from gpu_peers import make, packed  # noqa: E402
from gpu_points import POINTS, Bound, Point  # noqa: E402
from peers import Unavailable  # noqa: E402

TIME = Point("pingpong.8B", "8 B", "messages", bounds=(Bound("raw", 1.15), Bound("nccl", 0.55)))
RATE = Point("pingpong.64MiB", "64 MiB", "messages", unit="GB/s", bounds=(Bound("raw", 0.98),))


class Points(unittest.TestCase):
    def test_a_time_must_be_within_every_bound(self):
        self.assertTrue(TIME.met({"mpi": 7.0, "raw": 6.5, "nccl": 15.0}))
        self.assertFalse(TIME.met({"mpi": 7.6, "raw": 6.5, "nccl": 15.0}))
        self.assertFalse(TIME.met({"mpi": 7.0, "raw": 6.5, "nccl": 12.0}))

    def test_a_rate_must_not_be_below_its_share(self):
        self.assertTrue(RATE.met({"mpi": 98.0, "raw": 100.0}))
        self.assertFalse(RATE.met({"mpi": 97.9, "raw": 100.0}))

    def test_what_was_not_measured_is_not_judged(self):
        self.assertIsNone(TIME.met({"mpi": 7.0, "raw": 6.5}))
        self.assertIsNone(RATE.met({"raw": 100.0}))
        self.assertIsNone(Point("host.8B", "", "").met({"mpi": 1.0, "raw": 1.0}))

    def test_a_bound_may_be_a_little_above(self):
        host = Point("host.8B", "8 B", "host memory", bounds=(Bound("raw", 1.0, plus=0.1),))
        self.assertTrue(host.met({"mpi": 0.35, "raw": 0.26}))
        self.assertFalse(host.met({"mpi": 0.35, "raw": 0.24}))
        self.assertEqual(host.bounds[0].text(host.less_is_better), "<= 1 x raw + 0.1")

    def test_a_bound_may_be_measured_for_another_point_of_the_run(self):
        behind_walls = next(point for point in POINTS if point.key == "pingpong.64MiB@2 apart")
        staged = next(point for point in POINTS if point.key == "pingpong.64MiB@2 equal pids")
        native, pinned = (next(point for point in POINTS if point.key == key) for key in ("pingpong.64MiB@2", "pinned-device.64MiB@2"))
        results = {point.key: Result(point) for point in (behind_walls, staged, native, pinned)}
        for key, figures in ((behind_walls.key, {"mpi": 365.0, "raw": 371.0}), (staged.key, {"mpi": 49.0}), (native.key, {"mpi": 370.0, "raw": 390.0})):
            results[key].figures.update(figures)
        look_elsewhere(results)
        self.assertTrue(behind_walls.met(results[behind_walls.key].figures))
        self.assertIsNone(staged.met(results[staged.key].figures), "what it is compared with was not measured")
        results[pinned.key].figures["raw"] = 55.0
        look_elsewhere(results)
        self.assertFalse(staged.met(results[staged.key].figures))

    def test_keys_are_unique(self):
        keys = [point.key for point in POINTS]
        self.assertEqual(len(keys), len(set(keys)))

    def test_only_selects_by_name_pattern_and_ranks(self):
        self.assertEqual({point.ranks for point in select(["@4"])}, {4})
        self.assertEqual({point.name.partition(".")[0] for point in select(["bcast"])}, {"bcast"})
        self.assertEqual([point.key for point in select(["pingpong.8B@2"])], ["pingpong.8B@2"])
        with self.assertRaises(SystemExit):
            select(["nonsense"])

    def test_a_launch_has_points_of_one_place_and_number_of_ranks(self):
        started = list(launches(list(POINTS)))
        self.assertEqual([point for _, _, several in started for point in several], list(POINTS))
        for ranks, place, several in started:
            self.assertTrue(all(point.ranks == ranks and point.place == place for point in several))


class Peers(unittest.TestCase):
    def test_those_of_a_bundle_are_found_with_their_ucx_before_all_other_libraries(self):
        with tempfile.TemporaryDirectory() as name:
            bundle = Path(name)
            self.assertEqual(packed(bundle), [])
            for key in ("openmpi5", "strange"):
                (bundle / "peers" / key).mkdir(parents=True)
            (peer,) = packed(bundle)
        self.assertEqual((peer.key, peer.program), ("openmpi5", bundle / "peers/openmpi5/bench_gpu"))
        environment = peer.run_environment()
        self.assertTrue(environment["LD_LIBRARY_PATH"].startswith(f"{bundle}/peers/openmpi5/ucx:"))
        self.assertEqual((environment["OMPI_MCA_pml"], environment["UCX_MEMTYPE_CACHE"]), ("ucx", "n"))
        self.assertEqual(environment["PATH"], os.environ["PATH"])

    def test_one_that_was_moved_is_told_where_it_is(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "peers/intelmpi"
            folder.mkdir(parents=True)
            (peer,) = packed(Path(name))
        environment = peer.run_environment()
        self.assertEqual((environment["I_MPI_ROOT"], environment["FI_PROVIDER_PATH"]), (str(folder), f"{folder}/lib"))
        self.assertEqual((environment["I_MPI_OFFLOAD"], environment["I_MPI_OFFLOAD_MODE"]), ("1", "cuda"))

    def test_an_unknown_one_is_refused_by_name(self):
        with self.assertRaisesRegex(Unavailable, "no such library: nonsense"):
            make(Path("/nowhere"), ["openmpi5", "nonsense"])


class Tables(unittest.TestCase):
    def test_the_table_shows_ratio_verdict_and_failures(self):
        missed = Result(RATE, {"mpi": 50.0, "raw": 100.0})
        failed = Result(TIME, {"raw": 6.5, "nccl": 15.0}, {"mpi": "exit status 3"})
        text = as_markdown([missed, failed], [], {"gpus": "2"})
        self.assertIn("| 64 MiB | GB/s | 50 | 100 | - | 0.5 (raw) | >= 0.98 x raw | MISSED |", text)
        self.assertIn("| 8 B | us | failed | 6.5 | 15 | - |", text)
        self.assertIn("0 of 1 targets met", text)
        self.assertIn("- pingpong.8B@2, mpi: exit status 3", text)

    def test_the_file_has_every_figure(self):
        point = json.loads(as_json([Result(RATE, {"mpi": 99.0, "raw": 100.0})], {}))["points"][0]
        self.assertEqual((point["point"], point["met"], point["figures"]), ("pingpong.64MiB@2", True, {"mpi": 99.0, "raw": 100.0}))


if __name__ == "__main__":
    unittest.main()
