# title: the MPI programs of test/mpi, each at several numbers of ranks and over each path
# timeout: 900
# under: asan tsan
"""A program of test/mpi/CHAPTER checks itself (check.h), prints nothing and exits with 0 if all is right. A job in which no rank
checks anything proves nothing, and has failed. Its first lines may say `ranks: 2 4` (the numbers of ranks that it is for;
1 2 3 5 without it). One with `thread` in its name is run under ThreadSanitizer too. Those in test/mpi/program are what other
suites run."""

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, "tools/dev")
from suite import BUILT, PREFIX, ROOT, Suite

SANITIZER = os.environ.get("DEV_SANITIZER", "")
TIMEOUT = 240 if SANITIZER else 60
DEFAULT_RANKS = (1, 2, 3, 5)
# Settings that send messages over paths which are not the first choice here. Whether lines are handed back, which the processor
# decides otherwise, is set in two of them.
VARIANTS = {
    "": {},
    ", no process_vm_*": {"ISTHMUS_CMA": "off", "ISTHMUS_LINES": "hand-back"},
    ", everything by rendezvous": {"ISTHMUS_EAGER_LIMIT": "1", "ISTHMUS_LINES": "keep"},
    ", sleeping": {"ISTHMUS_IDLE": "sleep"},
}
# The same for programs with coll/forms.h: the collectives in their other forms, which take messages.
FORMS = {
    ", nonblocking": {"TEST_COLL_FORM": "nonblocking"},
    ", nonblocking and sleeping": {"TEST_COLL_FORM": "nonblocking", "ISTHMUS_IDLE": "sleep"},
    ", persistent": {"TEST_COLL_FORM": "persistent"},
}
# For programs that say so: what they do often is measured, and goes other ways then, also where ranks share cores.
LIVE = {", live plans": {"ISTHMUS_PLANS": "live"}, ", live plans, no process_vm_*": {"ISTHMUS_PLANS": "live", "ISTHMUS_CMA": "off"}}
# Two sockets over the two first hardware threads, as far as anybody can tell.
TWO_SOCKETS = {"HWLOC_SYNTHETIC": "package:2 numa:1 core:1 pu:1", "HWLOC_THISSYSTEM": "1"}

suite = Suite("mpi")
PROGRAMS = ROOT / "test/mpi"
FOLDER = BUILT / "test-mpi"


def name_of(source):
    return f"{source.parent.name}_{source.stem}"


def sources():
    found = [path for path in PROGRAMS.glob("*/*.c*") if path.parent.name != "program"]
    if SANITIZER == "tsan":
        found = [path for path in found if "thread" in path.name]
    return sorted(found)


def ranks_of(source):
    head = "\n".join(source.read_text().splitlines()[:12])
    said = re.search(r"\branks: *((?:\d+ *)+)", head)
    return [int(number) for number in said[1].split()] if said else DEFAULT_RANKS


def compile_program(source):
    """The program, compiled anew only if its source, the headers or the way of compiling changed; and the compiler's result."""
    program = FOLDER / name_of(source)
    inputs = [source, *PROGRAMS.rglob("*.h"), *PREFIX.glob("include/*.h"), *PREFIX.glob("bin/mpic*")]
    newest = max(path.stat().st_mtime for path in inputs)
    if program.exists() and program.stat().st_mtime > newest:
        return program, None
    wrapper, standard = ("mpicc", "-std=gnu11") if source.suffix == ".c" else ("mpicxx", "-std=c++20")
    warnings = ["-Wall", "-Wextra", "-Werror"]
    if not SANITIZER:  # g++ 12 takes what only a failing CHECK leaves unset for a fault; clang knows no such warning.
        warnings.append("-Wno-maybe-uninitialized")
    command = [PREFIX / "bin" / wrapper, standard, "-O1", "-g", *warnings, "-pthread", source, "-lm", "-o", program]
    return program, suite.run(command, timeout=300)


def run_program(program, ranks, environment, *options):
    """Quiet, and with something checked."""
    counts = suite.tmp / "counts"
    counts.unlink(missing_ok=True)
    command = [PREFIX / "bin/mpiexec", *options, "-n", ranks, program]
    result = suite.run(command, env={**environment, "CHECK_COUNTS": counts}, timeout=TIMEOUT)
    quiet(result)
    checked = [int(line) for line in counts.read_text().split()] if counts.exists() else []
    assert len(checked) == ranks and sum(checked) > 0, f"the ranks made {checked} checks\n{result}"


def quiet(result):
    """The sanitizers' builds are allowed to say nothing either, so any output is a finding."""
    suite.expect(result)
    assert not result.text.strip(), f"it printed something\n{result}"


FOLDER.mkdir(parents=True, exist_ok=True)
with ThreadPoolExecutor(int(os.environ.get("DEV_JOBS", "1"))) as pool:
    built = list(pool.map(compile_program, sources()))
for program, result in built:
    if result is not None and (result.status != 0 or result.text.strip()):
        suite.fail(f"{program.name} compiles without a warning", result)
        continue
    source = next(path for path in sources() if name_of(path) == program.name)
    has_forms = '"data.h"' in source.read_text()
    is_live = "live plans: " in source.read_text()
    for ranks in ranks_of(source):
        for name, environment in (VARIANTS | (FORMS if has_forms else {}) | (LIVE if is_live else {})).items():
            if name and (ranks == 1 or SANITIZER or not program.name.startswith(("p2p", "coll"))):
                continue
            with suite.case(f"{program.name} at {ranks}{name}"):
                run_program(program, ranks, environment)
    of_any_size = ranks_of(source) is DEFAULT_RANKS
    if program.name.startswith("coll") and of_any_size and len(os.sched_getaffinity(0)) >= 2:
        with suite.case(f"{program.name} at 8 on two sockets"):
            run_program(program, 8, TWO_SOCKETS, "--bind-to", "socket", "--map-by", "socket")
suite.finish()
