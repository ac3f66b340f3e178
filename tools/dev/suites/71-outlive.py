# title: jacobi3d --survive: ranks are killed at random moments, on one host, in private containers and on two hosts
# timeout: 600
# under: asan
# runs: jacobi3d mpiexec mpi_abi isthmus_network
# about: apps/jacobi3d/* src/abi/* src/coll/* src/comm/* src/launch/* src/p2p/* !src/p2p/protocol/* tools/mpiexec/*
"""A rank, drawn with a seed, is killed with -9 at a moment, drawn too, of a run; the others come to the same answer, to the
last digit. OUTLIVE_RUNS says how many runs of each kind; some of them end before the moment comes."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, "tools/dev")
from namespaces import Hosts, why_not
from suite import BUILT, PREFIX, Suite

suite = Suite("outlive")
MPIEXEC = PREFIX / "bin/mpiexec"
SOLVER = BUILT / "apps/jacobi3d/jacobi3d"
RUNS = int(os.environ.get("OUTLIVE_RUNS", "1"))
LIMIT = 120
WORK = ["--survive", "-q", "-n", "32", "--tolerance", "0", "--iterations", "6000"]
CONTAINER = ["--container", "unshare --user --map-root-user --ipc --net --uts --mount --pid --fork"]


def descendants(pid):
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield int(child)
        yield from descendants(int(child))


def ranks_of(pid):
    """The processes of the ranks under `pid`, in no order: those that have begun to solve."""
    found = []
    for each in descendants(pid):
        try:
            if Path(os.readlink(f"/proc/{each}/exe")).name == SOLVER.name:
                found.append(each)
        except OSError:
            pass
    return found


def digits(text):
    found = re.search(r"residual (\S+), error (\S+) against", text)
    return found and found.groups()


def run_and_kill(command, moment, draw, victims=1):
    """What the job printed, and whether anybody was killed before it had ended."""
    printed = suite.tmp / "printed"
    with printed.open("w") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True) as job:
        end = time.monotonic() + LIMIT
        while "some may die" not in printed.read_text() and job.poll() is None and time.monotonic() < end:
            time.sleep(0.01)  # until all are through MPI_Init
        time.sleep(moment)
        killed = 0
        for pid in draw.sample(sorted(ranks_of(job.pid)), k=min(victims, len(ranks_of(job.pid)))):
            os.kill(pid, signal.SIGKILL)
            killed += 1
        try:
            job.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            raise AssertionError(f"{command} hangs\n{printed.read_text()}") from None
    return printed.read_text(), killed, job.returncode


def check(kind, command, ranks, expected, seed, victims=1):
    draw = random.Random(f"{kind} {ranks} {seed}")
    moment = draw.random()
    with suite.case(f"{kind}: {ranks} ranks, seed {seed}: {victims} killed after {moment:.2f} s"):
        out, killed, _ = run_and_kill(command, moment, draw, victims)
        assert digits(out) == expected and re.search("correct$", out, re.MULTILINE), f"expected {expected}\n{out}"
        recovered.append(killed > 0 and re.search(r", [1-9]\d* recover", out) is not None)


recovered = []
command = [MPIEXEC, "--on-failure", "continue", "--timeout", "100"]
with suite.case("the answer when nobody dies"):
    result = suite.run([*command, "-n", 3, SOLVER, *WORK], timeout=LIMIT)
    suite.expect(result, out="3 of 3 processes have come to the end(.|\n)*correct$")
expected = digits(result.out)
for ranks in (3, 8, 32):
    for seed in range(RUNS):
        check("one host", [*command, "-n", str(ranks), SOLVER, *WORK], ranks, expected, seed)
check("one host", [*command, "-n", "8", SOLVER, *WORK], 8, expected, 0, victims=3)
for ranks in (3, 8):
    for seed in range(RUNS):
        check("private containers", [*command, *CONTAINER, "-n", str(ranks), SOLVER, *WORK], ranks, expected, seed)
if (why := why_not()) is not None:
    suite.skip("two hosts", why)
else:
    with Hosts(2) as hosts:
        across = [*hosts.head, *command, "--hosts", "h1,h2", "--launcher", str(hosts.launcher)]
        for ranks in (3, 8):
            for seed in range(RUNS):
                check("two hosts", [*across, "-n", str(ranks), SOLVER, *WORK], ranks, expected, seed)
suite.check(f"{sum(recovered)} of {len(recovered)} runs have lost a rank in the middle", any(recovered))
suite.finish()
