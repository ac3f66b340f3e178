# title: the fuzzers, 60 s shared among them, from the corpus in test/fuzz
# timeout: 900
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, "tools/dev")
from suite import BUILD, LOGS, ROOT, Suite

SECONDS = int(os.environ.get("DEV_FUZZ_SECONDS", "60"))


def targets():
    found = BUILD.glob("fuzz/**/fuzz_*")
    return sorted(path for path in found if path.is_file() and path.suffix == "" and os.access(path, os.X_OK))


def fuzz(binary, seconds):
    """What is found beyond the kept corpus stays in build/, for the next run."""
    found = BUILD / "fuzz-corpus" / binary.name
    found.mkdir(parents=True, exist_ok=True)
    kept = ROOT / "test/fuzz/corpus" / binary.name.removeprefix("fuzz_")
    command = [binary, f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"]
    command += [f"-artifact_prefix={LOGS}/{binary.name}-", found]
    if kept.is_dir():
        command.append(kept)
    return suite.run(command, timeout=seconds + 120)


suite = Suite("fuzz")
built = subprocess.run(["tools/dev/build.sh", "--preset", "fuzz"], cwd=ROOT, capture_output=True, text=True)
if suite.check("the fuzzers' build", built.returncode == 0, built.stdout + built.stderr):
    fuzzers = targets()
    if not fuzzers:
        suite.fail("there are fuzzers", "no fuzz_* under build/fuzz")
    jobs = int(os.environ.get("DEV_JOBS", "1"))
    each = max(5, SECONDS * min(jobs, len(fuzzers)) // max(1, len(fuzzers)))
    with ThreadPoolExecutor(jobs) as pool:
        for binary, result in zip(fuzzers, pool.map(lambda binary: fuzz(binary, each), fuzzers)):
            runs = re.search(r"number_of_executed_units: (\d+)", result.err)
            with suite.case(f"{binary.name}, {each} s"):
                suite.expect(result)
                assert runs and int(runs[1]) > 0, f"it ran no input\n{result}"
            if runs:
                print(f"{binary.name}: {runs[1]} inputs")
suite.finish()
