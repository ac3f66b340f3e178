"""./dev test: builds, runs the suites of tools/dev/suites/, and ends with one line that sums them up."""

import argparse
import dataclasses
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import changed
from ahead import Ahead
from suite import BUILD, BUILT, LOGS, PREFIX, ROOT, VENV

SUITES = Path(os.environ.get("DEV_SUITES", ROOT / "tools/dev/suites"))  # the runner's own tests point elsewhere
SUMMARY = re.compile(r"(?P<name>[\w-]+): (?P<passed>\d+) passed, (?P<failed>\d+) failed(?:, (?P<skipped>\d+) skipped)?")
CASE = re.compile(r"(ok|skip|FAIL): ")
DEFAULT_TIMEOUT = 600
SLOWEST = 10  # so many suites are named at the end


@dataclasses.dataclass
class SuiteFile:
    path: Path
    name: str
    title: str
    timeout: float
    under: tuple  # the sanitizers that it runs under too
    ahead: str = ""  # a command whose work it will want
    # For --changed (tools/dev/changed.py):
    runs: tuple = ()  # the targets of the build that it runs; what is installed if empty, nothing if "none"
    about: tuple = ()  # of the files that these are built from, those for whose change it is run; all if empty
    reads: tuple = ()  # files that it reads and does not name


@dataclasses.dataclass
class Outcome:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    problem: str = ""  # why the suite as a whole counts as failed


def read_suite(path):
    says = {"title": "", "timeout": str(DEFAULT_TIMEOUT), "under": "", "runs": "", "about": "", "reads": "", "ahead": ""}
    for line in path.read_text().splitlines()[:20]:
        if match := re.match(r"# (title|timeout|under|runs|about|reads|ahead): *(.+)", line):
            says[match[1]] = match[2]
    name = path.stem.partition("-")[2]
    lists = {key: tuple(says[key].split()) for key in ("under", "runs", "about", "reads")}
    return SuiteFile(path, name, says["title"], float(says["timeout"]), ahead=says["ahead"], **lists)


def all_suites():
    return [read_suite(path) for path in sorted(SUITES.glob("[0-9][0-9]-*")) if path.suffix in (".sh", ".py")]


def command_of(suite):
    return ["bash" if suite.path.suffix == ".sh" else sys.executable, str(suite.path)]


class Display:
    """Progress: one line that changes on a terminal; elsewhere a line at a suite's end, and one a minute in between."""

    def __init__(self):
        self.live = sys.stdout.isatty()
        self._shown = False

    def clear(self):
        if self._shown:
            print("\r\033[K", end="")
            self._shown = False

    def status(self, text):
        if self.live:
            width = os.get_terminal_size().columns
            print("\r\033[K" + text[: width - 1], end="", flush=True)
            self._shown = True

    def line(self, text=""):
        self.clear()
        print(text, flush=True)


class Running:
    """One suite at work: its output goes to the log, and is read for cases, failures and the summary."""

    def __init__(self, suite, display):
        self.suite = suite
        self.display = display
        self.log_path = LOGS / f"test-{suite.name}.log"
        self.counted = {"ok": 0, "skip": 0, "FAIL": 0}
        self.last = ""  # the case seen last
        self.failures = []  # blocks of lines
        self.last_lines = []

    @property
    def cases(self):
        return sum(self.counted.values())

    @staticmethod
    def environment():
        variables = {name: value for name, value in os.environ.items() if not name.startswith("ISTHMUS_")}
        jobs = subprocess.run(["bash", "-c", ". tools/dev/lib.sh && dev_jobs"], cwd=ROOT, capture_output=True, text=True)
        variables.update(
            DEV_ROOT=str(ROOT),
            DEV_BUILD=str(BUILD),
            DEV_BUILT=str(BUILT),
            DEV_PREFIX=str(PREFIX),
            DEV_VENV=str(VENV),
            DEV_LOGS=str(LOGS),
            DEV_JOBS=jobs.stdout.strip() or "1",
            PYTHONUNBUFFERED="1",
            PYTHONDONTWRITEBYTECODE="1",
        )
        return variables

    def read(self, stream):
        in_failure = False
        with self.log_path.open("w") as log:
            for raw in stream:
                log.write(raw)
                log.flush()
                line = raw.rstrip("\n")
                self.last_lines = (self.last_lines + [line])[-30:]
                if case := CASE.match(line):
                    self.counted[case[1]] += 1
                    self.last = line.partition(": ")[2]
                if line.startswith("FAIL: "):
                    in_failure = True
                    self.failures.append([line])
                elif in_failure and line.startswith("    "):
                    self.failures[-1].append(line)
                else:
                    in_failure = False

    def run(self):
        process = subprocess.Popen(
            command_of(self.suite),
            cwd=ROOT,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        reader = threading.Thread(target=self.read, args=(process.stdout,), daemon=True)
        reader.start()
        timed_out = self.wait(process)
        # A background process of the suite may hold the pipe open; what it prints after the suite's end is nobody's result.
        reader.join(5)
        return self.judge(process.returncode, timed_out)

    def wait(self, process):
        """True if the suite had to be stopped."""
        begin = time.monotonic()
        next_note = begin + 60
        try:
            while True:
                try:
                    process.wait(0.2)
                    return False
                except subprocess.TimeoutExpired:
                    pass
                now = time.monotonic()
                seconds = now - begin
                self.display.status(f"  {self.suite.name}  {seconds:.0f} s  {self.cases} cases  {self.last}")
                if not self.display.live and now > next_note:
                    self.display.line(f"  ...  {self.suite.name}: {seconds:.0f} s, {self.cases} cases so far")
                    next_note += 60
                if seconds > self.suite.timeout:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    return True
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise

    def judge(self, status, timed_out):
        last = next((line for line in reversed(self.last_lines) if line.strip()), "")
        match = SUMMARY.fullmatch(last.strip())
        if timed_out:
            problem = f"did not end within {self.suite.timeout:.0f} s"
        elif match is None or match["name"] != self.suite.name:
            problem = f"ended with status {status} and without its summary line"
        elif (status == 0) != (int(match["failed"]) == 0):
            problem = f"exit status {status} belies its summary: {last.strip()}"
        elif int(match["passed"]) + int(match["failed"]) + int(match["skipped"] or 0) == 0:
            problem = "ran no case"
        else:
            return Outcome(int(match["passed"]), int(match["failed"]), int(match["skipped"] or 0))
        return Outcome(self.counted["ok"], self.counted["FAIL"] + 1, self.counted["skip"], problem)


def prepare(display):
    """Sets up and builds; the reason if that failed."""
    for title, command in (("setup", ["tools/dev/setup.sh"]), ("build", ["tools/dev/build.sh"])):
        begin = time.monotonic()
        if display.live:
            display.line(f"  {title} ...")
        environment = {"DEV_PROGRESS": "60", **os.environ}
        if subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, env=environment).returncode != 0:
            return f"{title} failed"
        display.line(f"  ok    {title:<12} {time.monotonic() - begin:6.1f} s")
    return ""


def run_suites(suites, display, keep_failures):
    ahead = Ahead(ROOT, LOGS / "ahead.log")
    # What comes first wants all processors, and nothing of it is there to wait for.
    ahead.start([suite.ahead for suite in suites[1:] if suite.ahead])
    try:
        return run_each(suites, display, keep_failures, ahead)
    finally:
        ahead.stop()


def run_each(suites, display, keep_failures, ahead):
    total, took = Outcome(), []
    for suite in suites:
        ahead.drop(suite.ahead)
        running = Running(suite, display)
        begin = time.monotonic()
        outcome = running.run()
        seconds = time.monotonic() - begin
        took.append((seconds, suite.name))
        total.passed += outcome.passed
        total.failed += outcome.failed
        total.skipped += outcome.skipped
        counts = f"{outcome.passed} passed, {outcome.failed} failed"
        if outcome.skipped:
            counts += f", {outcome.skipped} skipped"
        display.line(f"  {'FAIL' if outcome.failed else 'ok':<5} {suite.name:<12} {seconds:6.1f} s  {counts}  {suite.title}")
        if outcome.problem:
            display.line(f"        {outcome.problem}; its last lines:")
            for line in running.last_lines[-20:]:
                display.line(f"        | {line}")
        for block in running.failures[:keep_failures]:
            for line in block:
                display.line("        " + line)
        if len(running.failures) > keep_failures:
            display.line(f"        ... and {len(running.failures) - keep_failures} more")
        if outcome.failed:
            display.line(f"        full log: {os.path.relpath(running.log_path, ROOT)}")
    if len(took) > 1:
        display.line("  the slowest: " + ", ".join(f"{name} {seconds:.0f} s" for seconds, name in sorted(took, reverse=True)[:SLOWEST]))
    return total


def choose_changed(suites, display, base):
    """The suites that can see what has changed since `base`, or where this branch left main."""
    since = changed.base_of(ROOT, base)
    files = changed.files_since(ROOT, since)
    display.line(f"  {len(files)} files differ from {since[:12]}")
    chosen, left = [], []
    for suite in suites:
        answer, file = changed.verdict(suite, files)
        if answer == "run":
            chosen.append(suite)
            display.line(f"        {suite.name:<12} for {file}")
        elif answer == "about":
            left.append(suite.name)
    if left:
        display.line(f"  left to ./dev test, since they are about other parts of the same programs: {', '.join(left)}")
    return chosen


def choose(names, suites, parser):
    known = {suite.name: suite for suite in suites}
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"no suite is called {', '.join(unknown)}; there are: {', '.join(known)}")
    return [suite for suite in suites if not names or suite.name in names]


def main():
    parser = argparse.ArgumentParser(
        prog="./dev test",
        description="Sets up, builds, and runs the suites (all, or the named ones). Full logs are kept in build/logs/.",
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="names of suites; all without any")
    parser.add_argument("--list", action="store_true", help="names the suites and what each proves")
    parser.add_argument("--no-build", action="store_true", help="runs on what is built already")
    parser.add_argument(
        "--changed", nargs="?", const="", metavar="BASE",
        help="only the suites that can see what has changed since BASE (where this branch left main; on main what is not committed)",
    )  # fmt: skip
    parser.add_argument("--failures", type=int, default=20, metavar="N", help="how many failures of a suite to show (20)")
    arguments = parser.parse_args()

    suites = all_suites()
    if arguments.list:
        for suite in suites:
            print(f"{suite.name:<12} {suite.title}")
        return 0
    if arguments.changed is not None and arguments.suites:
        parser.error("--changed chooses the suites itself")
    chosen = choose(arguments.suites, suites, parser)

    LOGS.mkdir(parents=True, exist_ok=True)
    display = Display()
    begin = time.monotonic()
    problem = "" if arguments.no_build else prepare(display)
    if problem:
        total = Outcome(failed=1)
        display.line(f"  FAIL  {problem}")
    else:
        if arguments.changed is not None:
            chosen = choose_changed(chosen, display, arguments.changed)
        total = run_suites(chosen, display, arguments.failures)
    display.line(f"  {time.monotonic() - begin:.0f} s in all")
    skipped = f", {total.skipped} skipped" if total.skipped else ""
    print(f"{total.passed} passed, {total.failed} failed{skipped}", flush=True)
    return 1 if total.failed or (chosen and total.passed == 0) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\n./dev test: interrupted", file=sys.stderr)
        sys.exit(130)
