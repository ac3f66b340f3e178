# title: the Poisson solver, built as a user's CMake project with our compilers, at 1 to 8 ranks
# timeout: 600
# under: asan
# runs: jacobi3d mpi_abi
# about: apps/* tools/wrappers/*
import json
import os
import re
import sys

sys.path.insert(0, "tools/dev")
import jobs
from suite import BUILT, PREFIX, Suite

suite = Suite("jacobi3d")
MPIEXEC = PREFIX / "bin/mpiexec"


def build():
    """A sanitizer must be in the program itself, so there it is the one of our own build."""
    if os.environ.get("DEV_SANITIZER"):
        return BUILT / "apps/jacobi3d/jacobi3d"
    folder = suite.tmp / "build"
    environment = {"PATH": f"{PREFIX}/bin:{os.environ['PATH']}"}
    with suite.case("find_package(MPI) of a user's CMake project finds our compilers"):
        result = suite.run(["cmake", "-S", "apps/jacobi3d", "-B", folder, "-G", "Ninja"], env=environment, timeout=120)
        suite.expect(result)
        cache = (folder / "CMakeCache.txt").read_text()
        assert f"MPI_CXX_COMPILER:FILEPATH={PREFIX}/bin/" in cache, "another MPI's compiler was found:\n" + "\n".join(
            line for line in cache.splitlines() if line.startswith("MPI_CXX")
        )
    with suite.case("it builds"):
        suite.expect(suite.run(["cmake", "--build", folder], env=environment, timeout=300))
    return folder / "jacobi3d"


def solve(ranks, *options, timeout=120):
    return suite.run([MPIEXEC, "-n", ranks, solver, "-q", *options], timeout=timeout)


solver = build()
answers = {}
for ranks in (1, 2, 3, 5, 8):
    for halo in ("datatype", "pack"):
        with suite.case(f"{ranks} ranks, {halo}: the answer is within the discretisation error, of second order"):
            result = solve(ranks, "-n", "24", "--halo", halo, "--check")
            suite.expect(result, out="correct$")
            answers[ranks, halo] = re.search(r"error +(\S+) against", result.out)[1]
suite.check("the answer does not depend on ranks or halo, to the last digit", len(set(answers.values())) == 1, answers)

with suite.case("blocks of unequal size on a grid of the user's"):
    suite.expect(solve(6, "-n", "17", "--grid", "3x2x1"), out="3 x 2 x 1(.|\n)*correct$")
with suite.case("plain Jacobi contracts as theory says"):
    suite.expect(solve(2, "-n", "12", "--method", "jacobi", "--check"), out="theoretical rate: correct")
with suite.case("large faces"):
    suite.expect(solve(2, "-n", "200", "--grid", "1x1x2", "--iterations", "3", "--tolerance", "0"), out="within the bound")
with suite.case("--json: the result as one object, with what --check finds"):
    outcome = json.loads(suite.expect(suite.run([MPIEXEC, "-n", 2, solver, "-n", "24", "--json", "--check"], timeout=120)).out)
    (form,) = outcome["forms"]
    assert outcome["correct"] is True and form["form"] == "sync" and form["error"] <= form["bound"] and 1.8 < form["order"] < 2.3, outcome
    assert float(answers[2, "datatype"]) == float(f"{form['error']:.9e}") and 0 < form["halo_percent"] < 100, outcome
with suite.case("progress comes in lines where there is no terminal; Ctrl-C says how far it was"):
    command = [MPIEXEC, "-n", 2, solver, "-n", "16", "--tolerance", "0", "--iterations", "1000000000"]
    line = r"^jacobi3d: interrupted after \d+ of about \d+ iterations$"
    text = jobs.interrupt(command, suite.tmp / "running", said="s to go", line=line)
    assert re.search(r"^  iteration +\d+ of about \d+ +residual .* ms each .* s to go$", text, re.MULTILINE), text
with suite.case("without mpiexec it is a job of one"):
    suite.expect(suite.run([solver, "-q", "-n", "16"]), out="1 as 1 x 1 x 1")
with suite.case("too many ranks for the points"):
    suite.expect(solve(7, "-n", "3"), status=2, err="there is no grid of 7 processes")
with suite.case("a grid for another number of ranks"):
    suite.expect(solve(2, "--grid", "3x1x1"), status=2, err="is for 3 processes, but there are 2")
with suite.case("a word that is no option's value, said once"):
    result = suite.expect(solve(3, "--halo", "magic"), status=2, err="magic not in")
    assert result.err.count("magic") == 1, f"said more than once\n{result}"
suite.finish()
