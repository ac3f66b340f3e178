# title: ranks that die, and programs that go on without them: errors, agreements, mpiexec --on-failure continue
# timeout: 300
# under: asan
# runs: mpiexec mpi_abi isthmus_network
# about: src/abi/* src/coll/* src/comm/* src/launch/* src/p2p/* tools/mpiexec/*
import re
import sys

sys.path.insert(0, "tools/dev")
from suite import BUILT, PREFIX, ROOT, Suite

suite = Suite("survival")
MPIEXEC = PREFIX / "bin/mpiexec"
PROGRAM = BUILT / "test-mpi/program_survival"
KILLED = 128 + 9
COLLECTIVES = "barrier bcast bcast-victim reduce allreduce gather scatter allgather alltoall scan reduce_scatter".split()
SLEEP, SPIN = {"ISTHMUS_IDLE": "sleep"}, {"ISTHMUS_IDLE": "spin"}
RING = {"ISTHMUS_IDLE": "sleep", "ISTHMUS_CMA": "off"}  # every copy through the ring


def compile_program():
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    source = ROOT / "test/mpi/program/survival.c"
    command = [PREFIX / "bin/mpicc", "-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", source, "-o", PROGRAM]
    return suite.run(command, timeout=120)


def survive(ranks, *words, environment=None, options=(), status=KILLED):
    """Nobody hangs, and all who live come to the end."""
    command = [MPIEXEC, "--on-failure", "continue", *options, "--timeout", "60", "-n", ranks, PROGRAM, *words]
    result = suite.run(command, env=environment, timeout=90)
    suite.expect(result, status=status, out="^survived$")
    return result


def measure(name, *words):
    """What it took depends on the machine: only that it was measured is a condition."""
    with suite.case(f"{name}, measured"):
        lines = re.findall(r"^(.*: .* ms)$", survive(*words).out, re.MULTILINE)
        assert lines
        for line in lines:
            suite.ok(f"{name}: {line}")


with suite.case("the program compiles"):
    suite.expect(compile_program())

for setting in (SLEEP, SPIN, RING):
    said = " ".join(f"{name}={value}" for name, value in setting.items())
    for way in ("messages", "long-messages", "pending", "last-words", "any-source"):
        with suite.case(f"{way}: 5 ranks, 2 dies, {said}"):
            survive(5, way, 2, environment=setting)
for setting in (SLEEP, SPIN, RING):
    for moment in (0, 2000, 20000):
        with suite.case(f"mapped memory: 4 ranks, 2 dies {moment} us into long messages, {' '.join(setting.values())}"):
            survive(4, "mapped", 2, moment, environment=setting)
for way in ("messages", "pending", "last-words"):
    with suite.case(f"{way}: 2 ranks, 0 dies"):
        survive(2, way, 0)
with suite.case("groups: who is known to be dead, who is acknowledged, a group of those who live"):
    survive(4, "groups", 0)

# The victim dies as its 20th begins, or after 3 ms, wherever it is then.
for name in COLLECTIVES:
    for size, moment, setting in ((64, 0, SLEEP), (64, 3000, SPIN), (1 << 20, 3000, SLEEP), (65536, 3000, RING)):
        with suite.case(f"{name} of {size} bytes, {moment} us, {' '.join(setting.values())}"):
            survive(4, "collective", 2, name, size, moment, environment=setting)
    for size, moment in ((64, 0), (65536, 3000)):
        with suite.case(f"nonblocking {name} of {size} bytes, {moment} us"):
            survive(4, "nonblocking", 2, name, size, moment)
for size in (8, 1 << 20):
    with suite.case(f"a persistent allreduce of {size} bytes"):
        survive(4, "persistent", 1, size)
with suite.case("a barrier of more ranks than look at each other's lines"):
    survive(18, "collective", 7, "barrier", 64, 3000)

# In two levels: a leader loses a rank of another host, its neighbours wait for the leader.
here = suite.tmp / "here"
here.write_text('#!/bin/sh\nexec sh -c "$2"\n')
here.chmod(0o755)
hosts = ["--launcher", here, "--hosts", "a:2,b:2"]
for name in ("barrier", "bcast", "reduce", "allreduce"):
    for victim, size in ((2, 64), (3, 1 << 20)):
        with suite.case(f"two hosts: {name} of {size} bytes, {victim} dies"):
            survive(4, "collective", victim, name, size, 3000, options=hosts, environment={"ISTHMUS_LOCALITY": "static"})

for ranks, options, setting in ((4, (), {}), (5, hosts[:2] + ["--hosts", "a:3,b:2"], {"ISTHMUS_LOCALITY": "static"})):
    for victim in (0, 2, ranks - 1):
        with suite.case(f"{victim} of {ranks} revokes instead of taking part, {' '.join(setting.values()) or 'one host'}"):
            survive(ranks, "revoke-apart", victim, options=options, environment=setting, status=0)
with suite.case("two hosts: all ranks of one die before MPI_Init, in which the others wait for them"):
    script = f"test $ISTHMUS_WORLD_RANK = 0 && exec {PROGRAM} finalize 0; sleep 0.5; kill -9 $$"
    command = [MPIEXEC, "--on-failure", "continue", *hosts, "--timeout", "20", "-n", 3, "sh", "-c", script]
    result = suite.run(command, env={"ISTHMUS_LOCALITY": "static"}, timeout=30)
    suite.expect(result, status=1, err="rank 0: MPI_Barrier.*MPI_ERR_PROC_ABORTED")

for seed in range(4):
    with suite.case(f"agreements in which the coordinator dies, seed {seed}"):
        survive(4, "agree", 0, seed)
    with suite.case(f"agreements in which another dies, seed {seed}"):
        survive(4, "agree", 2, seed)
with suite.case("a communicator is revoked"):
    survive(5, "revoke", 2, status=0)
for ranks in (2, 4):
    with suite.case(f"a communicator of {ranks} is revoked while data moves straight between buffers"):
        survive(ranks, "revoke-under-way", 0, status=0)
with suite.case("MPI_Finalize does not wait for a rank that has died; the last line says who died, the exit status of what"):
    result = survive(3, "finalize", 1)
    suite.expect(
        result, status=KILLED, err=r"1 of 3 ranks has not lived to the end: rank 1 \(pid \d+\) on host \S+ killed by signal 9"
    )
for call in ("receive", "agree", "barrier"):
    with suite.case(f"a rank that is stopped for a second is not dead: {call}"):
        survive(4, "stopped", 1, call, status=0)

for call in ("receive", "send", "probe", "test", "barrier"):
    measure(call, 4, "death-to-error", 1, call)
measure("32 ranks", 32, "time-agreement", 1)

with suite.case("without --on-failure a rank that dies ends the job"):
    result = suite.run([MPIEXEC, "-n", 3, PROGRAM, "finalize", 1], timeout=30)
    suite.expect(result, status=KILLED, err="killed by signal 9 .*ending the job")
with suite.case("an unknown word after --on-failure"):
    suite.expect(suite.run([MPIEXEC, "--on-failure", "perhaps", "true"]), status=2, err="allowed: abort or continue")
suite.finish()
