"""Runs the suites that ask for it (`# under: asan`) once more, on a sanitizer's build."""

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import test
from suite import BUILD, ROOT, Suite

# A sanitizer makes programs some times slower.
SLOWER = 4

# How programs are compiled that load a library built with one. clang puts its run-time library into the program; that of a program in C has to
# have what the library, which is in C++, asks of it.
FLAGS = {
    "asan": "-fsanitize=address,undefined -fno-sanitize-recover=all -DADDRESS_SANITIZER",
    "tsan": "-fsanitize=thread",
}
FOR_C = {"asan": "-fsanitize-link-c++-runtime -lstdc++", "tsan": ""}
# clang asks for its own llvm-symbolizer, which is another package.
SYMBOLIZER = "external_symbolizer_path=/usr/bin/addr2line"
# Suites that wait most of their time, for the lost to be noticed: they run beside the others, each with a /dev/shm of its own, since others look for
# what jobs leave there.
BESIDE = ("survival", "hosts", "outlive")
PRIVATE = ["unshare", "--mount", "--ipc", "sh", "-c", 'mount -t tmpfs -o mode=1777 shm /dev/shm && exec "$@"', "sh"]


def run(name, environment):
    """The suite `name` (asan, tsan): builds the preset of that name and runs what asks for it."""
    suite = Suite(name)
    built = subprocess.run(["tools/dev/build.sh", "--preset", name], cwd=ROOT, capture_output=True, text=True)
    if built.returncode != 0:
        suite.fail(f"the {name} build", built.stdout + built.stderr)
        suite.finish()
    variables = {
        **environment,
        "DEV_BUILT": BUILD / name, "DEV_PREFIX": BUILD / f"prefix-{name}", "DEV_SANITIZER": name,
        "ISTHMUS_CC": f"clang-19 {FLAGS[name]} {FOR_C[name]}", "ISTHMUS_CXX": f"clang++-19 {FLAGS[name]}",
    }  # fmt: skip
    os.environ.pop("DEV_SUITES", None)
    files = [file for file in test.all_suites() if name in file.under]
    # Without the right to mounts of one's own, all run one after the other.
    may = suite.run([*PRIVATE, "true"]).status == 0

    def rerun(file):
        private = PRIVATE if file.name in BESIDE and may else []
        return suite.run([*private, *test.command_of(file)], timeout=file.timeout * SLOWER, env=variables)

    with ThreadPoolExecutor(1) as pool:
        beside = {file.name: pool.submit(rerun, file) for file in files if file.name in BESIDE and may}
        for file in files:
            judge(suite, file, beside[file.name].result() if file.name in beside else rerun(file))
    suite.finish()


def judge(suite, file, result):
    """What a suite has printed becomes cases of the sanitizer's."""
    print(f"{file.name}: {result.seconds:.0f} s", flush=True)
    name, details, failed = None, [], 0

    def close():
        nonlocal name, failed
        if name is not None:
            suite.fail(f"{file.name}: {name}", "\n".join(details))
            failed += 1
        name = None

    for line in result.out.splitlines():
        if name is not None and line.startswith("    "):
            details.append(line[4:])
            continue
        close()
        if match := re.match(r"(ok|skip|FAIL): (.*)", line):
            if match[1] == "ok":
                suite.ok(f"{file.name}: {match[2]}")
            elif match[1] == "skip":
                suite.skip(f"{file.name}: {match[2]}", "there too")
            else:
                name, details = match[2], []
    close()
    if (result.status != 0 or result.timed_out) and not failed:
        suite.fail(f"{file.name} ends as a suite must", result)
