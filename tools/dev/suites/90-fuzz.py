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


def build():
    """Builds only the fuzzers and what they need: their paths, and what the build said if it failed."""

    def step(*options):
        return subprocess.run(
            ["tools/dev/build.sh", "--preset", "fuzz", *options], cwd=ROOT, capture_output=True, text=True
        )

    configured = step("--configure")
    if configured.returncode != 0:
        return [], configured.stdout + configured.stderr
    listed = subprocess.run(["ninja", "-C", BUILD / "fuzz", "-t", "targets", "all"], capture_output=True, text=True).stdout
    names = sorted(set(re.findall(r"^(fuzz_\w+): phony", listed, re.MULTILINE)))
    if not names:
        return [], "test/fuzz has no target fuzz_*"
    made = step(*(word for name in names for word in ("--target", name)))
    if made.returncode != 0:
        return [], made.stdout + made.stderr
    found = {path.name: path for path in BUILD.glob("fuzz/**/fuzz_*") if path.is_file() and os.access(path, os.X_OK)}
    return [found[name] for name in names], ""


def fuzz(binary, seconds):
    """What is found beyond the kept corpus stays in build/, for the next run."""
    found = BUILD / "fuzz-corpus" / binary.name
    found.mkdir(parents=True, exist_ok=True)
    kept = ROOT / "test/fuzz/corpus" / binary.name.removeprefix("fuzz_")
    command = [binary, f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"]
    # Long inputs from the start: a fault often takes several steps.
    command += ["-len_control=0", "-max_len=1500"]
    command += [f"-artifact_prefix={LOGS}/{binary.name}-", found]
    if kept.is_dir():
        command.append(kept)
    return suite.run(command, timeout=seconds + 120)


suite = Suite("fuzz")
fuzzers, complaint = build()
if suite.check("the fuzzers are built", fuzzers, complaint):
    jobs = int(os.environ.get("DEV_JOBS", "1"))
    each = max(5, SECONDS * min(jobs, len(fuzzers)) // len(fuzzers))
    with ThreadPoolExecutor(jobs) as pool:
        for binary, result in zip(fuzzers, pool.map(lambda binary: fuzz(binary, each), fuzzers)):
            runs = re.search(r"number_of_executed_units: (\d+)", result.err)
            with suite.case(f"{binary.name}, {each} s"):
                suite.expect(result)
                assert runs and int(runs[1]) > 0, f"it ran no input\n{result}"
            if runs:
                print(f"{binary.name}: {runs[1]} inputs")
suite.finish()
