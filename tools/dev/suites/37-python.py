# title: the Python package: pip builds it, and its tests pass at 1, 2 and 4 processes
# timeout: 300
# runs: mpi_abi mpiexec emulated_cuda emulated_kernels
# about: src/chare/* src/abi/chare/* include/isthmus/*
# reads: python/* pyproject.toml
"""With ISTHMUS_PREFIX pip builds the extension module alone, against the library that is under test."""

import os
import re
import sys

sys.path[:0] = ["tools/dev", "test/mpi4py"]
import package
from suite import BUILD, BUILT, PREFIX, ROOT, VENV, Suite

suite = Suite("python")
PIP = [VENV / "bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--no-build-isolation", "--no-deps", "--no-index"]
LAUNCHERS = {"CMAKE_C_COMPILER_LAUNCHER": "ccache", "CMAKE_CXX_COMPILER_LAUNCHER": "ccache"}

built = False
with suite.case("pip install . builds the package"):
    environment = {"ISTHMUS_PREFIX": PREFIX}
    if any(os.access(os.path.join(folder, "ccache"), os.X_OK) for folder in os.environ["PATH"].split(os.pathsep)):
        environment.update(LAUNCHERS)
    suite.expect(suite.run([*PIP, f"--config-settings=build-dir={BUILD}/python", ROOT], env=environment, timeout=240))
    built = True

if built:
    # mpi4py, where the suite of its name has built it already: that takes a minute.
    found = {"PYTHONPATH": str(package.SITE)} if package.SITE.is_dir() else {}
    settings = {"DEV_MPIEXEC": PREFIX / "bin/mpiexec", "DEV_EMULATED": BUILT / "test/emulated", "PYTHONDONTWRITEBYTECODE": "1", **found}
    command = [VENV / "bin/python", "-m", "pytest", "-p", "no:cacheprovider", "-vv", "-rs", "--tb=short", ROOT / "python/tests"]
    result = suite.run(command, env=settings, timeout=240)
    reasons = dict(re.findall(r"^SKIPPED \[\d+\] python/tests/(\S+?):\d+: (.+)$", result.out, re.MULTILINE))
    for name, outcome in re.findall(r"^python/tests/(\S+?::.+?) (PASSED|FAILED|ERROR|SKIPPED)", result.out, re.MULTILINE):
        if outcome == "SKIPPED":
            suite.skip(name, reasons.get(name.split("::")[0], "pytest says no reason"))
        else:
            suite.check(name, outcome == "PASSED", result)
    suite.check("pytest ends well", result.status == 0, result)

    with suite.case("the benchmark runs"):
        command = [PREFIX / "bin/mpiexec", "-n", "2", VENV / "bin/python", "bench/python/chares.py", "1"]
        suite.expect(suite.run(command), out=r"a channel, NumPy 4194304 B, received into one")
suite.finish()
