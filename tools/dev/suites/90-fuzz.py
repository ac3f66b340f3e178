# title: the fuzzers, from the corpus in test/fuzz; DEV_FUZZ_SECONDS=3600 looks further
# timeout: 2400
# runs: isthmus_core
# about: none
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, "tools/dev")
from suite import BUILD, LOGS, ROOT, Suite

# What a test says of a tree must not change from run to run: so many inputs, made from one seed. With
# DEV_FUZZ_SECONDS, shared among the fuzzers, others each time, and what they find is kept in build/ for the next run.
INPUTS = 30_000
# Of those that make an engine with GPUs, or one with several members, for each input: 3 to 70 ms on loaded cores.
SLOW = {"fuzz_gpu": 5_000, "fuzz_gpu_team": 300, "fuzz_network": 600, "fuzz_team": 1_500}
SECONDS = int(os.environ.get("DEV_FUZZ_SECONDS", "0"))


def build():
    """The fuzzers of the sanitizers' build: their paths, and what the build said if it failed."""
    made = subprocess.run(["tools/dev/build.sh", "--preset", "asan"], cwd=ROOT, capture_output=True, text=True)
    if made.returncode != 0:
        return [], made.stdout + made.stderr
    names = sorted(path.stem for path in ROOT.glob("test/fuzz/fuzz_*.cpp"))
    paths = [BUILD / "asan/test/fuzz" / name for name in names]
    missing = [path.name for path in paths if not path.exists()]
    return ([], f"not built: {missing}") if missing else (paths, "")


def inputs_of(binary):
    return SLOW.get(binary.name, INPUTS)


def fuzz(binary, seconds):
    kept = ROOT / "test/fuzz/corpus" / binary.name.removeprefix("fuzz_")
    # Those may wait for descriptors and for peers that are lost, a second or two each.
    command = [binary, f"-timeout={30 if binary.name in SLOW else 10}", "-rss_limit_mb=2048", "-print_final_stats=1"]
    # Long inputs from the start: a fault often takes several steps.
    command += ["-len_control=0", "-max_len=1500", f"-artifact_prefix={LOGS}/{binary.name}-"]
    if not seconds:
        with tempfile.TemporaryDirectory() as found:
            return suite.run([*command, "-seed=1", f"-runs={inputs_of(binary)}", found, kept], timeout=600)
    found = BUILD / "fuzz-corpus" / binary.name
    found.mkdir(parents=True, exist_ok=True)
    return suite.run([*command, f"-max_total_time={seconds}", found, kept], timeout=seconds + 120)


suite = Suite("fuzz")
fuzzers, complaint = build()
if suite.check("the fuzzers are built", fuzzers, complaint):
    jobs = int(os.environ.get("DEV_JOBS", "1"))
    each = SECONDS and max(5, SECONDS * min(jobs, len(fuzzers)) // len(fuzzers))
    with ThreadPoolExecutor(jobs) as pool:
        for binary, result in zip(fuzzers, pool.map(lambda binary: fuzz(binary, each), fuzzers)):
            runs = re.search(r"number_of_executed_units: (\d+)", result.err)
            with suite.case(f"{binary.name}, {f'{each} s' if each else f'{inputs_of(binary)} inputs'}"):
                suite.expect(result)
                assert runs and int(runs[1]) > 0, f"it ran no input\n{result}"
            if runs:
                print(f"{binary.name}: {runs[1]} inputs")
suite.finish()
