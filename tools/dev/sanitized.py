"""Runs the suites that ask for it (`# under: asan`) once more, on a sanitizer's build."""

import os
import re
import subprocess
import time

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
    for file in test.all_suites():
        if name in file.under:
            rerun(suite, file, variables)
    suite.finish()


def rerun(suite, file, variables):
    os.environ.pop("DEV_SUITES", None)
    begin = time.monotonic()
    result = suite.run(test.command_of(file), timeout=file.timeout * SLOWER, env=variables)
    print(f"{file.name}: {time.monotonic() - begin:.0f} s", flush=True)
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
