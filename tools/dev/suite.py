"""What a test suite written in Python uses; the contract of a suite is tools/dev/suites/README.md.

    from suite import Suite
    suite = Suite("launcher")
    with suite.case("exit status of the failing rank"):
        result = suite.run(["build/prefix/bin/mpiexec", "-n", "2", "false"])
        suite.expect(result, status=1)
    suite.finish()
"""

import contextlib
import dataclasses
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
BUILT = Path(os.environ.get("DEV_BUILT") or BUILD / "release")  # the build under test
PREFIX = Path(os.environ.get("DEV_PREFIX") or BUILD / "prefix")
VENV = BUILD / "venv"
LOGS = Path(os.environ.get("DEV_LOGS") or BUILD / "logs")

# A shell that starts us in the background has us ignore SIGINT, and what we start would inherit that; with a handler, it does not.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclasses.dataclass
class Result:
    """What a command did. A command that was stopped for its time has `timed_out` and the status of its killing signal."""

    command: list
    status: int  # the exit status, or minus the number of the signal that ended it
    out: str
    err: str
    seconds: float
    timed_out: bool

    @property
    def text(self):
        return self.out + self.err

    def __str__(self):
        end = "stopped after its time" if self.timed_out else f"exit status {self.status}"
        lines = [f"$ {shlex.join(map(str, self.command))}", f"{end}, {self.seconds:.1f} s"]
        for name, text in (("stdout", self.out), ("stderr", self.err)):
            if text:
                lines += [f"{name}:"] + ["  " + line for line in shortened(text.splitlines())]
        return "\n".join(lines)


# How a sanitizer, a fuzzer or an assertion begins to say what is wrong.
WRONG = re.compile(r"^==\d+==\s*ERROR: |^WARNING: \w+Sanitizer|: runtime error: |^fuzz: |Assertion .* failed")


def shortened(lines, most=60):
    """The same, or its beginning and end. Where a sanitizer complains in what is left out, that comes before all else: a report
    is cut once more by those who show it."""
    if len(lines) <= most:
        return lines
    first, last = most // 3, most - most // 3
    wrong = next((i for i, line in enumerate(lines) if WRONG.search(line)), None)
    if wrong is None or wrong < first or wrong >= len(lines) - last:
        return lines[:first] + [f"... {len(lines) - most} lines left out ..."] + lines[-last:]
    complaint = lines[wrong : wrong + last]
    end = lines[max(wrong + last, len(lines) - first) :]
    return [f"... {wrong} lines left out ..."] + complaint + ["..."] + end


def run(command, *, timeout=60.0, env=None, stdin="", cwd=ROOT):
    """Runs a command in a process group of its own; at the timeout the whole group is killed. `env` adds to the environment
    (None as a value removes a variable)."""
    variables = dict(os.environ)
    for name, value in (env or {}).items():
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = str(value)
    begin = time.monotonic()
    # Files, not pipes: a process that was left behind with the pipe's end open must not hold the suite.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as given:
        given.write(stdin.encode() if isinstance(stdin, str) else stdin)
        given.seek(0)
        process = subprocess.Popen(
            list(map(str, command)), stdin=given, stdout=out, stderr=err, env=variables, cwd=cwd, start_new_session=True
        )
        timed_out = False
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        seconds = time.monotonic() - begin
        out.seek(0)
        err.seek(0)
        return Result(
            list(command),
            process.returncode,
            out.read().decode(errors="replace"),
            err.read().decode(errors="replace"),
            seconds,
            timed_out,
        )


class Skip(Exception):
    """Raised in a case to skip it; its text says why."""


def need(why_not):
    """In a case: leaves it out where there is a reason why it cannot be run."""
    if why_not:
        raise Skip(why_not)


def ask_until(times, question, settles):
    """The first answer of `question()` for which `settles(answer)`, of up to so many; the case fails with the last one where there is none. For what
    jobs tell that may end in the midst of a trial, of which nothing is told: a processor that is taken away begins one more. What must be
    true of every answer is asserted in the question."""
    for _ in range(times):
        answer = question()
        if settles(answer):
            return answer
    raise AssertionError(f"asked {times} times, and none settles it: {answer}")


class Suite:
    """Counts cases and prints them as the contract wants."""

    def __init__(self, name):
        self.name = name
        self.passed = self.failed = self.skipped = 0
        self._tmp = None
        os.chdir(ROOT)

    @property
    def tmp(self):
        """A folder for this run, removed at its end."""
        if self._tmp is None:
            self._tmp = Path(tempfile.mkdtemp(prefix=f"isthmus-{self.name}."))
        return self._tmp

    def run(self, command, **options):
        return run(command, **options)

    def ok(self, name):
        self.passed += 1
        print(f"ok: {name}", flush=True)

    def fail(self, name, details=""):
        self.failed += 1
        print(f"FAIL: {name}")
        for line in str(details).splitlines():
            print("    " + line)
        sys.stdout.flush()

    def skip(self, name, why):
        self.skipped += 1
        print(f"skip: {name} ({why})", flush=True)

    def check(self, name, condition, details=""):
        """One case in one line."""
        if condition:
            self.ok(name)
        else:
            self.fail(name, details)
        return bool(condition)

    @contextlib.contextmanager
    def case(self, name):
        """A case that passes unless its body raises."""
        try:
            yield
        except Skip as why:
            self.skip(name, why)
        except AssertionError as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.fail(name, str(error) or f"{Path(where.filename).name}:{where.lineno}: {where.line}")
        except Exception:
            self.fail(name, traceback.format_exc())
        else:
            self.ok(name)

    def unittests(self, *modules):
        """A case for each unittest of the modules."""
        for module in modules:
            for group in unittest.defaultTestLoader.loadTestsFromModule(module):
                for test in group:
                    outcome = unittest.TestResult()
                    test.run(outcome)
                    trouble = "".join(text for _, text in outcome.errors + outcome.failures)
                    self.check(test.id().rpartition(".")[2].replace("_", " "), outcome.wasSuccessful(), trouble)

    def preload(self, source, *flags):
        """An object for LD_PRELOAD, compiled from a C file with our mpicc."""
        target = self.tmp / f"{Path(source).stem}{len(list(self.tmp.glob('*.so')))}.so"
        self.expect(self.run([PREFIX / "bin/mpicc", "-shared", "-fPIC", *flags, ROOT / source, "-o", target]))
        return target

    def expect(self, result, *, status=0, out=None, err=None, within=None):
        """Fails the case unless the command exited with `status` (None: whatever), `out` and `err` (regular expressions,
        multi-line) are found in what it printed there, and it took at most `within` seconds."""
        problems = []
        if result.timed_out:
            problems.append("the command did not end in its time")
        elif status is not None and result.status != status:
            problems.append(f"exit status {result.status}, expected {status}")
        for name, pattern, text in (("stdout", out, result.out), ("stderr", err, result.err)):
            if pattern is not None and not re.search(pattern, text, re.MULTILINE):
                problems.append(f"{name} has no match for: {pattern}")
        if within is not None and result.seconds > within:
            problems.append(f"took {result.seconds:.2f} s, expected at most {within} s")
        if problems:
            raise AssertionError("\n".join(problems + [str(result)]))
        return result

    def finish(self):
        """Prints the summary line and ends the process."""
        if self.passed + self.failed + self.skipped == 0:
            self.fail("the suite ran no case")
        if self._tmp is not None:
            shutil.rmtree(self._tmp, ignore_errors=True)
        print(f"{self.name}: {self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        sys.exit(1 if self.failed else 0)
