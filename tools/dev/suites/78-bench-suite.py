# title: Isthmus Bench: every benchmark runs and checks what it moves, and compare keeps what it measured
# timeout: 300
# runs: isthmus_bench
# about: bench/*
# reads: tools/bench/*
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path[:0] = ["tools/dev", "tools/bench"]
import test_compare
from suite import BUILT, PREFIX, Skip, Suite

MPIEXEC = PREFIX / "bin/mpiexec"
ISTHMUS = PREFIX / "bin/isthmus"
FOLDER = PREFIX / "libexec/isthmus/bench"
EMULATED = BUILT / "test/emulated"
PYTHON = Path(os.environ["DEV_VENV"]) / "bin/python3"
QUICK = ("-i", "10", "-x", "1", "-c")
POINT_TO_POINT = ("latency", "latency_one_way", "multi_lat", "bw", "bibw", "mbw_mr", "bw_persistent", "bibw_persistent", "latency_persistent",
                  "latency_mt")
COLLECTIVES = ("barrier", "bcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw",
               "reduce", "allreduce", "reduce_scatter", "reduce_scatter_block")

suite = Suite("bench-suite")


def ranks(count, name, *words, env=None, timeout=60):
    return suite.run([MPIEXEC, "-n", count, FOLDER / name, *words], env=env, timeout=timeout)


def sizes_in(result):
    return [line.split()[0] for line in result.out.splitlines() if line and not line.startswith("#") and not line.lstrip().startswith("#")]


suite.unittests(test_compare)

for name in POINT_TO_POINT:
    with suite.case(f"{name} moves the right bytes"):
        result = suite.expect(ranks(2, name, "-m", "1,64K", *QUICK))
        assert sizes_in(result) == ["1", "65536"], str(result)

for count in (1, 3):
    with suite.case(f"the blocking collectives deliver the right bytes to {count} {'rank' if count == 1 else 'ranks'}"):
        for name in COLLECTIVES:
            sizes = () if name == "barrier" else ("-m", "4,32K")
            result = suite.expect(ranks(count, name, *sizes, *QUICK))
            assert len(sizes_in(result)) == (1 if name == "barrier" else 2), str(result)

PATTERN = suite.tmp / "pattern"
PATTERN.write_text("0, 2\n4, 1\n6, 3\n")
TYPED = [name for name in POINT_TO_POINT if name != "latency_mt"]

for layout, carried in (("cont", None), ("vect:4:3", "768"), (f"indx:{PATTERN}", "672")):
    with suite.case(f"messages with -D {layout.replace(str(PATTERN), 'FILE')} move the right bytes, and nothing between them"):
        for name in TYPED:
            result = suite.expect(ranks(2, name, "-T", "mpi_int", "-D", layout, "-m", "1K", *QUICK))
            row = next(line for line in result.out.splitlines() if line.startswith("1024 "))
            assert carried is None or carried in row.split(), str(result)
        for name in COLLECTIVES[1:11]:
            suite.expect(ranks(3, name, "-T", "mpi_int", "-D", layout, "-m", "400", *QUICK))

with suite.case("every type that -T knows moves the right bytes, and is added up right"):
    for name in (*TYPED, *COLLECTIVES[1:], "iallreduce", "ibcast"):
        result = suite.expect(ranks(2, name, "-T", "all", "-m", "4,1K", *QUICK))
        assert sizes_in(result) == ["4", "1024"] * 3, str(result)

with suite.case("what the library lacks is said in one sentence, with a status of its own; all else works"):
    names = suite.run([FOLDER / "isthmus_bench", "--names"]).out.split()
    assert len(names) > 60 and len(set(names)) == len(names), names
    for name in set(names) - set(POINT_TO_POINT) - set(COLLECTIVES) - {"init", "stencil"}:
        result = ranks(2, name, *QUICK, *(() if "barrier" in name or name[:3] in ("fop", "cas") else ("-m", "16,64")))
        if result.status != 0:
            suite.expect(result, status=4, err=rf"isthmus bench {name}: Isthmus \S+ does not provide MPI_\w+\n")

with suite.case("init tells the time and the memory of each rank"):
    result = suite.expect(ranks(3, "init", "--format", "json"))
    line = next(json.loads(text) for text in result.out.splitlines() if '"value"' in text and '"benchmark"' in text)
    assert line["samples"] == 3 and line["value"] > 0 and line["extras"]["Rss (KiB)"] >= line["extras"]["Pss (KiB)"] > 0, line

with suite.case("all columns are there, and as many operations as asked for"):
    result = suite.expect(ranks(2, "latency", "-m", "8:8", "-i", "100", "-f", "-z", "10,99"))
    heads = [line for line in result.out.splitlines() if line.startswith("# Size")][0]
    for word in ("Latency (us)", "P10", "P99", "Mean", "Min", "Max", "95 %", "Operations"):
        assert word in heads, heads
    assert [line.split()[-1] for line in result.out.splitlines() if line.startswith("8 ")] == ["100"], str(result)

for timing in ("barrier", "loop", "synchronised"):
    with suite.case(f"allreduce with --timing {timing}"):
        assert sizes_in(suite.expect(ranks(2, "allreduce", "-m", "8:8", "--seconds", "0.005", "--timing", timing))) == ["8"]

with suite.case("a library that delivers a wrong byte fails the benchmark, which names rank and byte"):
    spoiler = suite.preload("test/bench/spoiler.c")
    command = [MPIEXEC, "-n", "2", "env", f"LD_PRELOAD={spoiler}", FOLDER / "latency", "-m", "64:64", *QUICK]
    suite.expect(suite.run(command), status=3, err=r"isthmus bench latency: rank [01]: byte 63 is wrong")

for words, why in (
    (("latency", "-m", "8:x"), "a size is a number of bytes"),
    (("latency", "-W", "8"), "-W is not for this benchmark"),
    (("latency", "Q"), "'Q' is no placement: there are H, A, pinned, D"),
    (("bcast", "D", "H"), "all ranks of a collective have the same placement"),
    (("latency", "--faults"), "--faults counts page faults of managed memory"),
    (("mbw_mr", "MD"), "does not measure managed memory"),
    (("allreduce", "-m", "3:3"), "needs multiples of 4 bytes"),
    (("isthmus_bench", "latencies"), "there is no benchmark 'latencies'"),
):
    with suite.case(f"{' '.join(words)} is refused: {why}"):
        suite.expect(ranks(2, *words), status=2, err=why)

with suite.case("a number of ranks that a benchmark cannot use is refused"):
    suite.expect(ranks(1, "latency"), status=2, err="latency needs exactly 2 ranks, and there is 1")
    suite.expect(ranks(3, "mbw_mr"), status=2, err="mbw_mr needs an even number of ranks, and there are 3")

with suite.case("sizes beyond the memory limit are left out, and said to be"):
    result = suite.expect(ranks(2, "bw", "-m", "8,1M", "-M", "1M", *QUICK))
    assert sizes_in(result) == ["8"] and "size 1048576 is left out: a rank would need 2 MiB" in result.out, str(result)

with suite.case("without a GPU, D says that there is none"):
    if any(Path(folder, "libcuda.so.1").exists() for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/local/cuda/lib64")):
        raise Skip("this machine has a CUDA driver")
    suite.expect(ranks(2, "latency", "D"), status=4, err="there is no GPU here: libcuda.so.1, the CUDA driver, is not installed")

GPU = {"LD_LIBRARY_PATH": f"{EMULATED}:{PREFIX / 'lib'}", "EMULATED_CUDA_TWINS": f"{EMULATED}/libemulated_bench_twins.so", "EMULATED_CUDA_LEAKS": "fail"}
for first, second in (("D", "D"), ("H", "D"), ("pinned", "VMM"), ("POOL", "H"), ("MH", "MH"), ("MD", "MH"), ("MH", "MD"), ("MD", "MD")):
    with suite.case(f"{first} - {second} on the emulated driver: the right bytes, and nothing left open"):
        for name in ("latency", "bw", "bibw"):
            result = suite.expect(ranks(2, name, "-m", "8,16K", *QUICK, *(() if name == "latency" else ("-W", "4")), first, second, env=GPU))
            assert sizes_in(result) == ["8", "16384"], str(result)
            assert ("launch overhead" in result.out) == ("MD" in (first, second)), str(result)

with suite.case("the stencil comes to what one rank computes, on the host and on the emulated GPU"):
    for places in (("H", "H"), ("D", "D"), ("MD", "MD"), ("MH", "VMM"), ("POOL", "pinned")):
        result = suite.expect(ranks(2, "stencil", "-m", "64,4K", *QUICK, *places, env=GPU))
        assert sizes_in(result) == ["64", "4096"] and "Predicted (us)" in result.out, str(result)

with suite.case("collectives on GPU memory, on the emulated driver"):
    for name, place in (("bcast", "D"), ("bcast", "MD"), ("allreduce", "D"), ("alltoall", "MH")):
        assert sizes_in(suite.expect(ranks(2, name, "-m", "8,16K", *QUICK, place, env=GPU))) == ["8", "16384"]

with suite.case("a driver without devices is no GPU"):
    suite.expect(ranks(2, "latency", "D", env={**GPU, "EMULATED_CUDA_DEVICES": "0"}), status=4, err="there is no GPU here")

with suite.case("--faults: what CUPTI counts, per operation, of both ranks"):
    faults = {**GPU, "LD_LIBRARY_PATH": f"{EMULATED}/cupti:{GPU['LD_LIBRARY_PATH']}"}
    for name in ("latency", "bw", "bcast"):
        window = ("-W", "2") if name == "bw" else ()
        result = suite.expect(ranks(2, name, "-m", "4096:4096", "-i", "5", "-x", "0", "--faults", "--format", "json", *window, "MD", env=faults))
        line = next(json.loads(text) for text in result.out.splitlines() if '"size"' in text)
        counted = {key: line["extras"][key] for key in ("CPU faults", "GPU faults", "B to GPU", "B to host")}
        assert counted == {"CPU faults": 4, "GPU faults": 10, "B to GPU": 8192, "B to host": 4096}, counted
    suite.expect(ranks(2, "latency", "--faults", "MD", env=GPU), status=4, err=r"--faults needs CUPTI, which is not found|--faults: cannot \w.* CUPTI says")

with suite.case("isthmus bench finds mpiexec and the benchmark by itself"):
    assert sizes_in(suite.expect(suite.run([ISTHMUS, "bench", "osu_latency", "-m", "8:8", *QUICK]))) == ["8"]
    assert sizes_in(suite.expect(suite.run([ISTHMUS, "bench", "-n", "3", "bcast", "-m", "8:8", *QUICK]))) == ["8"]
    suite.expect(suite.run([ISTHMUS, "bench", "latency", "--help"]), out="--message-size")
    suite.expect(suite.run([ISTHMUS, "bench"]), out=r"isthmus bench compare[\s\S]*partitioned_latency")
    suite.expect(suite.run([ISTHMUS, "bench", "-n", "2", "latencies"]), status=2, err="there is no benchmark")

# Two libraries without compiling: an installation of Isthmus brings the program, and a link to it is another installation.
OTHER = suite.tmp / "other"
OTHER.symlink_to(PREFIX)
COMPARE = [PYTHON, PREFIX / "share/isthmus/bench/tools/compare.py", "--prefix", PREFIX, "--build", suite.tmp / "build", "--no-install"]
BOTH = ["--mpi", f"isthmus,{OTHER}"]

with suite.case("compare: two libraries, in turn, with ratios, what is absent, and everything in files"):
    output = suite.tmp / "first"
    words = [*BOTH, "--repetitions", "3", "--seconds", "0.002", "--output", output, "--plot", "--page", "latency", "put_latency", "barrier", "--", "-c"]
    result = suite.run([*COMPARE, *words], timeout=120)
    suite.expect(result, out=r"Isthmus / \S*other")
    lines = [json.loads(line) for line in (output / "results.jsonl").read_text().splitlines()[1:]]
    assert [(line["repetition"], line["library"]) for line in lines if line["job"] == "latency -c"] == [
        (i, key) for i in range(3) for key in ("isthmus", "other")], lines
    report = json.loads((output / "report.json").read_text())
    assert all(point["ratios"]["other"]["low"] is not None for point in report["points"]), report["points"][0]
    assert (output / "report.csv").read_text().count("\n") > 100 and (output / "report.md").exists()
    assert (output / "latency.png").stat().st_size > 10000 and (output / "latency.svg").exists()
    page = (output / "page.html").read_text()
    assert page.count("<svg") == 1 and "rank" in page[page.index("isthmus explain"):], page[-2000:]
    assert not re.search(r'(src|href)="?(http|file|/)|<script|<link', page), "the page loads something"

with suite.case("compare: given again, it measures nothing twice; another campaign is refused"):
    before = (output / "results.jsonl").read_text()
    suite.expect(suite.run([*COMPARE, *words], timeout=60), err=r"runs are in \S+results.jsonl already, 0 are left")
    assert (output / "results.jsonl").read_text() == before
    suite.expect(suite.run([*COMPARE, *BOTH, "--output", output, "bw"], timeout=60), status=2, err="another campaign's results; choose another --output")

with suite.case("compare: Ctrl-C keeps what was measured, and the same command goes on from there"):
    output = suite.tmp / "second"
    words = [*BOTH, "--repetitions", "3", "--seconds", "0.05", "--output", output, "latency", "--", "-m", "8,64"]
    command = [str(word) for word in [*COMPARE, *words]]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    results = output / "results.jsonl"
    deadline = time.monotonic() + 60
    while (not results.exists() or results.read_text().count("\n") < 2) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    done = results.read_text().count("\n") - 1
    assert process.returncode == 130 and 1 <= done < 6, (process.returncode, done, err)
    assert "interrupted" in err and "latency" in out and (output / "report.md").exists(), (out, err)
    suite.expect(suite.run(command, timeout=60), err=rf"{done} runs are in")
    assert results.read_text().count("\n") == 7

with suite.case("compare: a library whose mpiexec is missing is absent, with the reason; the others are measured"):
    bare = suite.tmp / "bare"
    bare.mkdir()
    output = suite.tmp / "third"
    result = suite.run([*COMPARE, "--mpi", f"isthmus,{bare}", "--repetitions", "1", "--seconds", "0.002", "--output", output, "barrier"], timeout=60)
    suite.expect(result, out=r"bare: everything: absent: \S+/bare/bin/mpicc is not there")

with suite.case("compare: without matplotlib there are no pictures, and it says so"):
    blind = suite.tmp / "blind"
    (blind / "matplotlib").mkdir(parents=True)
    (blind / "matplotlib/__init__.py").write_text("raise ImportError('none')\n")
    command = [*COMPARE, *BOTH, "--repetitions", "1", "--seconds", "0.002", "--output", suite.tmp / "fourth", "--page", "latency", "--", "-m", "8,64"]
    suite.expect(suite.run(command, env={"PYTHONPATH": str(blind)}, timeout=60), status=1, err="finds no matplotlib, so nothing is drawn")
    assert "Without curves" in (suite.tmp / "fourth/page.html").read_text()

suite.finish()
