# title: the integer sort and the Fourier transform: right answers on any number of ranks and in containers, wrong ones found
# timeout: 180
# under: asan
# runs: integer_sort fft3d mpi_abi
# about: apps/*
import json
import os
import re
import sys

sys.path.insert(0, "tools/dev")
import jobs
from suite import BUILT, PREFIX, Skip, Suite

suite = Suite("apps")
MPIEXEC = PREFIX / "bin/mpiexec"
SORT = BUILT / "apps/integer_sort/integer_sort"
TRANSFORM = BUILT / "apps/fft3d/fft3d"
# Every namespace private, with a /dev/shm of its own: all ranks are process 1.
ALONE = "unshare -Urmpuinf --mount-proc sh -c 'mount -t tmpfs shm /dev/shm; exec \"$@\"' sh"


def job(ranks, program, *arguments, options=(), timeout=60):
    return suite.run([MPIEXEC, "-n", ranks, *options, program, *arguments], timeout=timeout)


def sort(ranks, *arguments, **more):
    return job(ranks, SORT, "--class", "S", *arguments, **more)


def transform(ranks, *arguments, **more):
    return job(ranks, TRANSFORM, "--plan", "estimate", "--iterations", "3", *arguments, **more)


# --- right answers ---------------------------------------------------------------------------------------------------------------

for ranks in (1, 2, 3, 4):
    with suite.case(f"class S on {ranks} ranks: the ranks are those published, the keys come in order"):
        suite.expect(sort(ranks, "-q"), out=r"50 of 50 test keys as published: correct\n.*the same keys and sorted: correct$")
with suite.case("class W on 2 ranks, in JSON"):
    outcome = json.loads(suite.expect(job(2, SORT, "-c", "W", "--json")).out)
    assert outcome["correct"] is True and outcome["right_tests"] == 50 and outcome["keys"] == 2**20, outcome
    assert 0 < outcome["seconds_mean"]["alltoallv"] < outcome["seconds_mean"]["total"] <= outcome["seconds"], outcome

errors = set()
for ranks, size, grid in ((1, "30x21x16", ""), (2, "30x21x16", "2x1"), (4, "30x21x16", ""), (6, "30x21x16", "3x2"), (6, "30x21x16", "1x6")):
    for exchange in ("alltoallv", "alltoall"):
        with suite.case(f"{size} points on {ranks} ranks{grid and ' as ' + grid}, {exchange}: the exact transform, and the same noise again"):
            result = transform(ranks, "-q", "-n", size, "--exchange", exchange, *(["--grid", grid] if grid else []))
            suite.expect(result, out=r"of the exact transform.*: correct\n.*came back.*: correct$")
            errors.add(re.search(r"came back with an error of (\S+),", result.out)[1])
for ranks, pieces, *progress in ((1, 4), (2, 3), (4, 5), (6, 1000), (4, 3, "thread")):
    for exchange in ("alltoallv", "alltoall"):
        with suite.case(f"{pieces} pieces of each transpose under way on {ranks} ranks, {exchange}{', with a thread' if progress else ''}: the same"):
            thread = ["env", "ISTHMUS_PROGRESS=thread"] if progress else []
            command = [*thread, MPIEXEC, "-n", ranks, TRANSFORM, "--plan", "estimate", "--iterations", "3", "-q", "-n", "30x21x16"]
            result = suite.run([*command, "--exchange", exchange, "--overlap", pieces])
            suite.expect(result, out=r"of the exact transform.*: correct\n.*came back.*: correct$")
            errors.add(re.search(r"came back with an error of (\S+),", result.out)[1])
suite.check("the answer does not depend on ranks, grid, exchange or pieces", len(errors) == 1, errors)
with suite.case("edges that are prime, and shares that differ"):
    suite.expect(transform(4, "-q", "-n", "13x17x19"), out="2 in a row and 2 in a column(.|\n)*: correct\n(.|\n)*: correct$")
with suite.case("a box of one point"):
    suite.expect(transform(1, "-q", "-n", "1"), out="came back.*: correct$")
with suite.case("parts of 256 KiB, FFTW measuring, in JSON"):
    outcome = json.loads(suite.expect(job(2, TRANSFORM, "-n", "62x32x64", "--grid", "2x1", "--iterations", "2", "--json")).out)
    assert outcome["correct"] is True and outcome["bytes_to_each"]["row"] == 2**18, outcome
    assert min(outcome["seconds_mean"].values()) > 0 and outcome["megaflops"] > 0, outcome
for program, *arguments in ((SORT, "-c", "S"), (TRANSFORM, "-n", "16")):
    with suite.case(f"{program.name} without mpiexec is a job of one"):
        suite.expect(suite.run([program, "-q", *arguments]), out=r"processes +1,(.|\n)*correct")

can_unshare = suite.run(["sh", "-c", ALONE + " true"]).status == 0
for program, run, *arguments in (("integer_sort", sort), ("fft3d", transform, "-n", "30x21x16")):
    with suite.case(f"{program} with each of 4 ranks in a container, all namespaces private"):
        if not can_unshare:
            raise Skip("namespaces cannot be made here")
        suite.expect(run(4, "-q", *arguments, options=["--container", ALONE]), out=r"processes +4,(.|\n)*: correct\n(.|\n)*: correct$")

# --- wrong ones ------------------------------------------------------------------------------------------------------------------

for program, offset, status, found in (
    (SORT, 0, 1, "not sorted or not the same keys: WRONG"),  # the lowest bit of a key: it stays in its bucket
    (SORT, 3, None, "arrived at a process that ranks those from"),  # a high bit
    (TRANSFORM, 6, 1, "WRONG"),  # a bit of an exponent
):
    with suite.case(f"{program.name} finds a wrong bit in byte {offset} of what alltoallv brought"):
        if os.environ.get("DEV_SANITIZER"):
            raise Skip("a sanitizer must be loaded first")
        spoiler = suite.preload("test/apps/spoiler.c", f"-DSPOILED={offset}")
        arguments = ["-c", "S"] if program == SORT else ["-n", "16", "--iterations", "3"]
        result = suite.run([MPIEXEC, "-n", 2, "env", f"LD_PRELOAD={spoiler}", program, "-q", *arguments])
        suite.expect(result, status=status)
        assert result.status != 0 and found in result.text, result

# --- what the user sees ----------------------------------------------------------------------------------------------------------

for program, arguments, why in (
    (SORT, ("--class", "Q"), "Q not in {S,W,A,B,C}"),
    (SORT, ("--class", "AB"), "AB not in"),
    (TRANSFORM, ("-n", "4x4"), "--size 4x4: expected one number of points or three"),
    (TRANSFORM, ("-n", "-5"), "--size -5: expected"),
    (TRANSFORM, ("-n", "0x4x4"), "--size 0x4x4: expected"),
    (TRANSFORM, ("-n", "999999"), "is too large for 2 processes"),
    (TRANSFORM, ("-n", "1"), "is too small for 2 processes"),
    (TRANSFORM, ("-n", "1x8x8", "--grid", "2x1"), "rows can be of 1 processes"),
    (TRANSFORM, ("--grid", "3x1"), "is for 3 processes, but there are 2"),
    (TRANSFORM, ("--grid", "two"), "--grid two: expected two numbers of processes"),
    (TRANSFORM, ("--exchange", "magic"), "magic not in"),
    (TRANSFORM, ("--overlap", "0"), "--overlap: Value 0 not in range"),
):
    with suite.case(f"{program.name} {' '.join(arguments)}: said once, with status 2"):
        result = suite.expect(job(2, program, *arguments), status=2)
        assert result.err.count(why) == 1 and not result.out, result

with suite.case("--help names every option, once, with status 0"):
    for program, option in ((SORT, "--class"), (TRANSFORM, "--exchange")):
        result = suite.expect(job(2, program, "--help"))
        assert result.out.count(option) == 1 and result.out.count("--json") == 1, result

with suite.case("progress comes in lines; Ctrl-C says how far it was, and ends the job as Ctrl-C does"):
    command = [MPIEXEC, "-n", 2, TRANSFORM, "-n", "24", "--plan", "estimate", "--iterations", "1000000"]
    line = r"^fft3d: interrupted after \d+ of 1000000 iterations$"
    text = jobs.interrupt(command, suite.tmp / "running", said="s to go", line=line)
    assert re.search(r"^  iteration +\d+ of 1000000 .* ms each .* s to go$", text, re.MULTILINE), text
suite.finish()
