# title: why a job hangs: mpiexec --timeout, SIGQUIT to mpiexec, isthmus stuck
# timeout: 90
# about: src/p2p/progress/* src/p2p/waits.cpp src/wire/wait* src/abi/core/wait* src/coll/call/describe* tools/mpiexec/* tools/isthmus/stuck*
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, "tools/dev")
from suite import BUILT, PREFIX, ROOT, Suite

suite = Suite("stuck")
MPIEXEC, ISTHMUS = PREFIX / "bin/mpiexec", PREFIX / "bin/isthmus"
PROGRAM = BUILT / "test-mpi/program_stuck"
LATE = (0.4, 2, 8)  # seconds: a rank tells of a wait of 50 ms. A busy machine, whose ranks have not come so far, gets several tries

# A launcher whose hosts are all this one.
HERE = suite.tmp / "here"
HERE.write_text('#!/bin/sh\nexec sh -c "$2"\n')
HERE.chmod(0o755)

# way to hang, ranks, what the report says, each on a line
WAYS = [
    ("tag", 2, [r"rank 0 has sent tag 8 \(8 bytes\) to rank 1; rank 1 waits for tag 7 from rank 0"]),
    ("circle", 3, [r"circle.*rank 0 waits for rank 1 \(MPI_Recv\), rank 1 waits for rank 2 .*rank 2 waits for rank 0"]),
    ("sends", 2, [r"MPI_Ssend for a send of 1048576 bytes to rank 1, tag 4 on MPI_COMM_WORLD", r"circle"]),
    ("probe", 2, [r"ranks 0, 1: MPI_Probe for a message from any rank, tag 5", r"circle"]),
    ("waitany", 2, [r"rank 0: MPI_Waitany for .*tag 10.* or .*tag 11", r"circle"]),
    ("waitall", 2, [r"rank 0: MPI_Waitall for .*tag 10.*; 1 other message", r"circle"]),
    ("persistent", 2, [r"rank 0: MPI_Wait for a message from rank 1, tag 12", r"circle"]),
    ("comm", 2, [r"rank 0 has sent tag 6 to rank 1 on the \?\[31mother\?; rank 1 waits for it from rank 0 on MPI_COMM_WORLD"]),
    ("late", 4, [r"ranks 0-2 \(3\): MPI_Allreduce, collective 2 on MPI_COMM_WORLD, 4 bytes", r"has not come: rank 3: .*it computes"]),
    ("stopped", 3, [r"ranks 0, 1 wait in MPI_Allreduce .*rank 2: .*stopped by a signal"]),
    ("crossed", 3, [r"circle.*rank 0 waits for rank 1 \(MPI_Recv\), rank 1 waits for rank 0 \(MPI_Barrier\)"]),
    ("icollective", 2, [r"rank 1: MPI_Wait for a nonblocking or persistent collective on MPI_COMM_WORLD"]),
    ("bcast", 3, [r"ranks 1, 2: MPI_Bcast, collective 2 on MPI_COMM_WORLD, root rank 0, 1000 bytes", r"rank 0: .*it sleeps"]),
    ("split", 3, [r"MPI_Comm_split for a message from rank 0", r"ranks 1, 2 wait, directly or through others, for rank 0"]),
    ("misfit", 4, [r"does not fit: rank 0 in MPI_Allgather, ranks 1-3 in MPI_Barrier"]),
    ("threads", 2, [r"MPI_Recv for a message from rank 0, tag 2\d .*2 other threads of it in MPI"]),
    ("finalize", 3, [r"ranks 1, 2: MPI_Finalize", r"circle"]),
    ("before", 2, [r"ranks 0, 1: has not called MPI_Init"]),
]


def hang(way, ranks, lines, *options, **environment):
    """The job is ended, and the report says all of `lines`."""
    for seconds in LATE:
        result = suite.run([MPIEXEC, "-n", ranks, "--timeout", seconds, *options, PROGRAM, way], timeout=30, env=environment)
        suite.expect(result, status=124, err="has not ended in the time that --timeout gives it")
        missing = [line for line in lines if not re.search(line, result.err)]
        if not missing:
            return result
    raise AssertionError(f"nothing says {missing[0]}\n{result}")


with suite.case("the program compiles"):
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    command = [PREFIX / "bin/mpicc", "-g", "-Wall", "-Wextra", "-Werror", ROOT / "test/mpi/program/stuck.c", "-o", PROGRAM, "-lpthread"]
    suite.expect(suite.run(command, timeout=120))

for way, ranks, lines in WAYS:
    with suite.case(f"--timeout: {way}"):
        result = hang(way, ranks, lines)
        assert "\033" not in result.err, result

for idle in ("spin", "sleep"):
    for way, ranks, lines in (WAYS[0], WAYS[1], WAYS[8]):
        with suite.case(f"ranks that {idle}: {way}"):
            hang(way, ranks, lines, ISTHMUS_IDLE=idle)

for way, ranks, lines in (WAYS[0], WAYS[1], WAYS[8], WAYS[16]):
    with suite.case(f"over hosts: {way}"):
        hosts = ",".join(f"{host}:1" for host in "abcd"[:ranks])
        hang(way, ranks, lines, "--hosts", hosts, "--launcher", HERE)

for seconds in ("0", "-1", "soon", "", "1s", "nan"):
    with suite.case(f"--timeout {seconds!r} is refused"):
        suite.expect(suite.run([MPIEXEC, "-n", 1, "--timeout", seconds, "true"]), status=2, err="a number of seconds above 0")

with suite.case("--timeout of a job that ends in time says nothing"):
    result = suite.run([MPIEXEC, "-n", 2, "--timeout", "30", "true"])
    suite.expect(result, status=0)
    assert not result.err, result


class Running:
    """A job that hangs."""

    def __init__(self, way="circle", ranks=2, *options):
        self.err = open(suite.tmp / "err", "w+", encoding="utf-8")
        self.process = subprocess.Popen([MPIEXEC, "-n", str(ranks), *map(str, options), PROGRAM, way], stderr=self.err, cwd=ROOT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.err.close()

    def ask(self, pid=None):
        return suite.run([ISTHMUS, "stuck", pid or self.process.pid], timeout=20)

    def ask_until(self, line, seconds=10.0):
        end = time.monotonic() + seconds
        while True:
            result = self.ask()
            if re.search(line, result.out) or time.monotonic() > end:
                return result
            time.sleep(0.05)


for options in ([], ["--hosts", "a:1,b:1", "--launcher", HERE]):
    where = "over hosts" if options else "on one host"
    with suite.case(f"isthmus stuck {where}"), Running("circle", 2, *options) as job:
        result = job.ask_until("circle")
        suite.expect(result, status=0, out="rank 0 waits for rank 1")
        assert job.process.poll() is None, "the job has ended"
    with suite.case(f"SIGQUIT {where}: a report, and the job goes on"), Running("circle", 2, *options) as job:
        job.ask_until("circle")
        job.process.send_signal(signal.SIGQUIT)
        end = time.monotonic() + 10
        text = ""
        while "circle" not in text and time.monotonic() < end:
            time.sleep(0.05)
            with open(suite.tmp / "err", encoding="utf-8") as file:
                text = file.read()
        assert "circle of waiting" in text, text
        assert job.process.poll() is None, "the job has ended"

with suite.case("isthmus stuck of what is no mpiexec"):
    suite.expect(suite.run([ISTHMUS, "stuck", os.getpid()]), status=1, err="is no mpiexec of Isthmus")
for word in ("0", "-1", "word", "99999999999"):
    with suite.case(f"isthmus stuck {word}"):
        result = suite.run([ISTHMUS, "stuck", "--", word])
        suite.expect(result, status=2, err="is no process id")
with suite.case("isthmus stuck of a process that there is not"):
    suite.expect(suite.run([ISTHMUS, "stuck", "4194304"]), status=1, err="there is no process 4194304")
with suite.case("isthmus stuck of mpiexec that is stopped"), Running() as job:
    job.ask_until("circle")
    job.process.send_signal(signal.SIGSTOP)
    result = job.ask()
    job.process.send_signal(signal.SIGCONT)
    suite.expect(result, status=1, err="has not answered")
suite.finish()
