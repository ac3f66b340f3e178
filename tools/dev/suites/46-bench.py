# title: the benchmarks: they run, check what they move, and the harness judges rightly
# timeout: 300
# runs: bench_host bench_raw bench_bare start_stop isthmus_measure_pair
# about: bench/*
# reads: tools/bench/*
import json
import sys

sys.path[:0] = ["tools/dev", "tools/bench"]
import test_bench
import test_gpu
import test_plans
from suite import BUILT, PREFIX, Suite

MPIEXEC = PREFIX / "bin/mpiexec"
FAMILIES_OF_TWO = ("latency", "latency-echo", "bandwidth", "bandwidth-echo", "bandwidth-window", "rate")
COLLECTIVES = ("barrier", "allreduce.8B", "allreduce.64KiB", "bcast.4KiB", "bcast-fixed-root.4KiB", "alltoall.1KiB")

suite = Suite("bench")


def figures(result):
    lines = [json.loads(line) for line in result.out.splitlines() if line.startswith('{"point"')]
    assert all(line.get("value", 0) > 0 for line in lines), str(result)
    return {line["point"] for line in lines}


suite.unittests(test_bench, test_gpu, test_plans)

with suite.case("every benchmark between two ranks runs, and the contents are right, at 8 B, 32 KiB and 1 MiB"):
    points = [f"{family}.{size}" for family in FAMILIES_OF_TWO for size in ("8B", "32KiB", "1MiB")]
    command = [MPIEXEC, "-n", "2", BUILT / "bench/bench_host", "--seconds", "0.002", *points]
    missing = set(points) - figures(suite.expect(suite.run(command, timeout=60)))
    assert not missing, missing

for ranks in (1, 2, 5):
    with suite.case(f"every collective benchmark runs on {ranks} ranks, and the contents are right"):
        command = [MPIEXEC, "-n", ranks, BUILT / "bench/bench_host", "--seconds", "0.002", *COLLECTIVES]
        missing = set(COLLECTIVES) - figures(suite.expect(suite.run(command, timeout=60)))
        assert not missing, missing

with suite.case("a library that delivers a wrong byte fails the benchmark, which names rank and byte"):
    spoiler = suite.preload("test/bench/spoiler.c")
    command = [MPIEXEC, "-n", "2", "env", f"LD_PRELOAD={spoiler}", BUILT / "bench/bench_host", "latency.64B"]
    suite.expect(suite.run(command), status=3, out=r'"point": "latency.64B", "failure": "rank [01]: byte 63 is wrong"')

with suite.case("plans are held against each way forced: at two sizes, in all four regimes"):
    folder = suite.tmp
    words = ["--repetitions", 1, "--batches", 3, "--first", 20, "--sizes", "1K,64K", "--json", folder / "plans.json", "--markdown", folder / "plans.md"]
    result = suite.run([sys.executable, "tools/bench/plans.py", "--prefix", PREFIX, *words], timeout=90)
    suite.expect(result, status=0, out=r"^fixed: (median .* of \d points within 1\.05|nothing to compare)")
    points = json.loads((folder / "plans.json").read_text())["points"]
    forced = [{"eager", "receiver reads", "both copy", "ring"} & point["ways"].keys() for point in points]
    assert len(points) == 8 and all(len(ways) == 4 for ways in forced), points
    assert {point["fixed_chose"] for point in points if point["size"] == 1024} == {"eager"}, points

with suite.case("plans of collectives are held against each way forced"):
    folder = suite.tmp
    words = ["--collectives", "bcast,allreduce", "--repetitions", 1, "--batches", 3, "--first", 120, "--sizes", "4K,64K"]
    files = ["--json", folder / "calls.json", "--markdown", folder / "calls.md"]
    result = suite.run([sys.executable, "tools/bench/plans.py", "--prefix", PREFIX, *words, *files], timeout=120)
    suite.expect(result, status=0, out=r"^collectives, live: (median .* of \d points within 1\.05|nothing to compare)")
    points = {(point["collective"], point["size"]): point["ways"].keys() - {"fixed", "live"} for point in json.loads((folder / "calls.json").read_text())["points"]}
    assert points["bcast", 65536] == {"staged", "direct", "direct_both", "messages"}, points
    assert points["allreduce", 4096] == {"flat", "staged", "counted", "direct", "direct_all"}, points

for word, why in (("latency.3B", "multiple of 8"), ("latencies.8B", "no such benchmark"), ("barrier.8B", "no size")):
    with suite.case(f"bench_host refuses {word} and says why"):
        suite.expect(suite.run([MPIEXEC, "-n", "2", BUILT / "bench/bench_host", word]), status=2, err=why)

with suite.case("each rank of start_stop reports what it holds in memory"):
    file = suite.tmp / "resident"
    suite.expect(suite.run([MPIEXEC, "-n", "5", BUILT / "bench/start_stop", file]))
    ranks = [[int(word) for word in line.split()] for line in file.read_text().splitlines()]
    assert len(ranks) == 5 and all(rss >= pss > 0 for _, rss, pss in ranks), ranks

with suite.case("the machine's limits are measured"):
    command = [BUILT / "bench/bench_raw", "--seconds", "0.002", "--bare", BUILT / "bench/bench_bare"]
    result = suite.run([*command, "cache-line", "double-copy", "copy", "switching", "starting"], timeout=120)
    names = {line.get("point") for line in map(json.loads, suite.expect(result).out.splitlines())}
    wanted = {"cache-line-pair", "double-copy.4KiB", "memcpy-1-core.64MiB", "yield", "start@256", "resident"}
    assert wanted <= names, wanted - names

suite.finish()
