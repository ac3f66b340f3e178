"""Runs a GoogleTest program as cases of a suite."""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

SANITIZER = os.environ.get("DEV_SANITIZER")
# Under a sanitizer a program has this much more time; the sanitizer's suite has more still (sanitized.SLOWER).
LONGER = 3 if SANITIZER else 1


def run(suite, binary, *, timeout, env=None):
    """Every test is a case. A program that crashes or hangs fails the test that it was in, and those that it did not reach."""
    run_beside(suite, [(binary, "*")], at_once=1, timeout=timeout, env=env)


def run_beside(suite, parts, *, at_once, timeout, env=None):
    """As `run`, of parts (program, its --gtest_filter) of which so many run at once.

    Under a sanitizer each has one processor. Its shadow is memory that is read before it is written: at the first write to a page the kernel takes
    the page of zeros out of every processor that runs a thread of the program, which in a virtual machine takes 100 us and more. On one processor
    there is nobody to tell: 40 times faster under ThreadSanitizer (23 s, 0.6 s), which orders what it sees by locks and atomics, not by time.
    """
    cores = sorted(os.sched_getaffinity(0))

    def one(number):
        binary, chosen = parts[number]
        report = suite.tmp / f"{binary.name}.{number}.json"
        chosen = {"GTEST_FILTER": chosen} if chosen != "*" else {}
        settings = {**(env or {}), **chosen}
        listed = tests_of(suite, binary, settings)
        place = ["taskset", "--cpu-list", cores[number % len(cores)]] if SANITIZER else []
        command = [*place, binary, f"--gtest_output=json:{report}", "--gtest_color=no"]
        return listed, report, suite.run(command, timeout=timeout * LONGER, env=settings)

    with ThreadPoolExecutor(at_once) as pool:
        for (binary, _), (listed, report, result) in zip(parts, pool.map(one, range(len(parts)))):
            judge(suite, binary, listed, report, result)


def judge(suite, binary, listed, report, result):
    if result.timed_out or not report.exists():
        judge_by_output(suite, listed, result)
        return
    failed = judge_by_report(suite, json.loads(report.read_text()))
    if result.status != 0 and not failed:
        suite.fail(f"{binary.name} ends without a complaint", result)


def tests_of(suite, binary, env):
    names, group = [], ""
    result = suite.run([binary, "--gtest_list_tests"], env=env)
    for line in result.out.splitlines():
        text = line.partition("#")[0].rstrip()
        if text.endswith(".") and not line.startswith(" "):
            group = text
        elif line.startswith("  ") and group:
            names.append(group + text.strip())
    return names


def judge_by_report(suite, report):
    failed = 0
    for group in report["testsuites"]:
        for test in group["testsuite"]:
            name = f"{group['name']}.{test['name']}"
            if problems := test.get("failures"):
                suite.fail(name, "\n".join(problem["failure"] for problem in problems))
                failed += 1
            elif test["result"] == "COMPLETED":
                suite.ok(name)
            else:
                suite.skip(name, test["result"].lower())
    return failed


def judge_by_output(suite, listed, result):
    passed = set(re.findall(r"^\[ +OK +\] (\S+)", result.out, re.MULTILINE))
    skipped = set(re.findall(r"^\[ +SKIPPED +\] (\S+)", result.out, re.MULTILINE))
    started = re.findall(r"^\[ RUN +\] (\S+)", result.out, re.MULTILINE)
    failed = set(re.findall(r"^\[ +FAILED +\] (\S+)", result.out, re.MULTILINE))
    took = re.findall(r"^\[ +(?:OK|FAILED) +\] (\S+) \((\d+) ms\)", result.out, re.MULTILINE)
    slowest = sorted(((int(ms), name) for name, ms in took), reverse=True)[:8]
    times = "the slowest before it: " + ", ".join(f"{name} {ms / 1000:.1f} s" for ms, name in slowest)
    for name in listed or ["the program starts"]:
        if name in failed:
            suite.fail(name, "see the log")
        elif name in skipped:
            suite.skip(name, "see the log")
        elif name in passed:
            suite.ok(name)
        elif started and name == started[-1]:
            suite.fail(name, f"the program did not survive this test; {times}\n{result}")
        elif not started:
            suite.fail(name, f"not reached\n{result}" if name == (listed or [name])[0] else "not reached")
        else:
            suite.fail(name, f"not reached: the program ended in {started[-1]}")
