# title: several ranks in a process: globals of their own, turns, endings, refusals, several hosts
# timeout: 600
# runs: mpi_abi mpiexec isthmus isthmus_network isthmus_virtual_ranks isthmus_migratable_ranks isthmus_unit_vrank emulated_cuda integer_sort fft3d
# about: src/vrank/* src/vrank/*/* src/abi/core/runtime* src/abi/vrank/* src/p2p/* !src/p2p/protocol/* src/launch/job* src/launch/beside_turns* tools/virtual_ranks/* tools/mpiexec/*
# reads: test/mpi/*
import contextlib
import json
import os
import re
import resource
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, "tools/dev")
from jobs import marked_processes, running, segments, shared_files, vanish
from namespaces import Hosts, why_not
from suite import BUILT, PREFIX, ROOT, Suite, need

suite = Suite("vrank")
MPIEXEC = PREFIX / "bin/mpiexec"
FOLDER = BUILT / "test-vrank"
FOLDER.mkdir(parents=True, exist_ok=True)


def compile_program(source, name="", *flags):
    wrapper, standard = ("mpicc", "-std=gnu11") if source.suffix == ".c" else ("mpicxx", "-std=c++20")
    program = FOLDER / (name or source.stem)
    command = [PREFIX / "bin" / wrapper, standard, "-O1", "-Wall", *flags, source, "-o", program]
    suite.expect(suite.run(command, timeout=120))
    return program


def several(ranks, each, program, *arguments, options=(), **more):
    more.setdefault("timeout", 60)
    return suite.run([MPIEXEC, "-n", ranks, "--ranks-per-process", each, *options, program, *arguments], **more)


def children(pid):
    """The processes that hold ranks."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(word) for word in words if re.search(rb"/(virtual|migratable)_ranks$", Path(f"/proc/{word}/cmdline").read_bytes().split(b"\0")[0])]
    return []


def marked_children(pid):
    """All children, and theirs: agents, and what launchers have started them by."""
    found = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return found + [below for child in found for below in marked_children(child)]


def wait_for_line(ask, line, seconds=10.0):
    """What `ask` answers, once it has such a line."""
    end = time.monotonic() + seconds
    while not re.search(line, (result := ask()).out):
        assert time.monotonic() < end, result
        time.sleep(0.05)
    return result


OWN = ROOT / "test/vrank"
MPI = ROOT / "test/mpi"

with suite.case("unit tests: turns, sleeping, the program's file"):
    suite.expect(suite.run([BUILT / "test/isthmus_unit_vrank"], timeout=120))

# --- what a rank has of its own ------------------------------------------------------------------------------------------------------

KINDS = {"as it is": (), "-fPIC": ("-fPIC",), "-rdynamic": ("-rdynamic",), "stripped": ("-s",), "a shared object": ("-fPIC", "-shared")}
for kind, flags in KINDS.items():
    with suite.case(f"globals, statics, thread-local variables, options, environment, exceptions in flight: {kind}"):
        program = compile_program(OWN / "globals.cpp", "globals " + kind, *flags)
        for ranks, each in ((4, 2), (5, 3), (8, 8)):
            result = several(ranks, each, program, "-vvn", "42", "rest", "-v", options=["-x", "TEST_FUNNELED=yes"])
            suite.expect(result)
            for rank in range(ranks):
                assert f"rank {rank} of {ranks}: 0 failures" in result.out, result
                assert f"atexit of rank {rank}\n" in result.out, result
                assert f"destroyed by rank {rank} after 20 steps" in result.out, result

with suite.case("a rank has the same addresses in whichever process it runs, and no other rank has them"):
    for kind, flags in {**KINDS, "with packed relocations": ("-Wl,-z,pack-relative-relocs",), "with a table of names as of old": ("-Wl,--hash-style=sysv",)}.items():
        program, seen = compile_program(OWN / "addresses.c", "addresses " + kind, *flags), set()
        for each in (2, 3, 6):
            result = several(6, each, program, "some", "words" * each)
            suite.expect(result)
            text = "\n".join(sorted(result.out.splitlines()))
            # Those of a shared object lie where the linker has room.
            seen.add(re.sub(r" local \S+", "", text) if kind == "a shared object" else text)
        assert len(seen) == 1, seen
        assert len(set(re.findall(r"\b(?:data|stack) (0x\w+)", min(seen)))) == 12, seen
with suite.case("a stack that is too large for the addresses of a rank"):
    result = several(4, 2, FOLDER / "globals as it is", options=["-x", "ISTHMUS_RANK_STACK=200G"])
    suite.expect(result, status=1, err=r"ISTHMUS_RANK_STACK: a stack of 204800 MiB is too large for a rank of 4; it may have 32768")

for name, what in {"f90.c": "the types of Fortran's kinds: handles", "labels.c": "names and attributes of predefined datatypes"}.items():
    with suite.case(f"each rank has its own: {what}"):
        program = compile_program(OWN / name)
        for ranks, each in ((1, 4), (2, 2), (5, 3), (8, 8)):
            suite.expect(several(ranks, each, program), out=f"{ranks} ranks, 0 failures")
        for ranks, each, workers in ((2, 2, 2), (4, 4, 3), (8, 4, 2)):
            suite.expect(several(ranks, each, program, options=["--workers-per-process", workers]), out=f"{ranks} ranks, 0 failures")

# --- turns ------------------------------------------------------------------------------------------------------------------------------

with suite.case("polling in every way, waiting, and messages of all lengths"):
    polling = compile_program(OWN / "polling.c")
    for ranks, each in ((1, 4), (2, 2), (3, 2), (8, 4), (8, 1), (16, 16)):
        suite.expect(several(ranks, each, polling), out=f"{ranks} ranks, 0 failures")
with suite.case("the same where the processes spin"):
    suite.expect(several(4, 2, polling, options=["-x", "ISTHMUS_IDLE=spin"]), out="4 ranks, 0 failures")
with suite.case("a process whose ranks all wait sleeps"):
    ending = compile_program(OWN / "ending.c")
    result = several(4, 4, ending, "stuck", options=["--timeout", "3"], timeout=30)
    suite.expect(result, status=124, err=r"rank 2")
    assert "MPI_Recv" in result.err and "MPI_Barrier" in result.err, result

SELECTION = [
    "p2p/sendrecv.c", "p2p/modes.c", "p2p/order.c", "p2p/probe.c", "p2p/persistent.c", "p2p/cancel.c", "p2p/alloc_mem.c",
    "coll/reduce.cpp", "coll/move.cpp", "coll/vector.cpp", "coll/neighbor.cpp", "coll/lanes.cpp", "coll/check.cpp", "coll/requests.c",
    "comm/make.c", "comm/inter.c", "comm/idup.c", "comm/topology.c", "comm/split_type.c", "comm/attributes.c", "datatype/transfer.c",
    "request/completion.c", "request/generalized.c", "env/basic.c", "env/fork.c", "error/handlers.c",
]
for name in SELECTION:
    with suite.case(f"test/mpi/{name}"):
        program = compile_program(MPI / name, "", "-Wno-unused")
        head = "\n".join((MPI / name).read_text().splitlines()[:12])
        said = re.search(r"\branks: *((?:\d+ *)+)", head)
        allowed = [int(number) for number in said[1].split()] if said else [2, 3, 5]  # as suite mpi has it
        for ranks, each in ((2, 2), (3, 2), (4, 2), (5, 3)):
            if ranks in allowed:
                suite.expect(several(ranks, each, program))

# --- several workers --------------------------------------------------------------------------------------------------------------------

moving = compile_program(OWN / "moving.cpp")
WORKERS = ((2, 2, 2), (8, 8, 2), (8, 4, 3), (7, 4, 4), (4, 4, 1), (3, 1, 1))


def on_workers(workers, options=()):
    return ["--workers-per-process", workers, *options]


def said_workers(ranks, each, workers):
    return rf"{ranks} ranks, {min(ranks, each, workers)} workers, 0 failures"


for ranks, each, workers in WORKERS:
    with suite.case(f"{ranks} ranks, {each} in a process of {workers} threads, move with all that they have"):
        suite.expect(several(ranks, each, moving, "-a", "-n42", "-a", "move", options=on_workers(workers)), out=said_workers(ranks, each, workers))
with suite.case("a rank cannot move to a worker that is not there"):
    for ranks, each, workers in WORKERS:
        suite.expect(several(ranks, each, moving, "errors", options=on_workers(workers)), out=said_workers(ranks, each, workers))
    suite.expect(suite.run([MPIEXEC, "-n", 2, moving, "errors"], timeout=60), out="2 ranks, 1 workers, 0 failures")
with suite.case("ranks that work are dealt out among the workers"):
    for workers in (2, 4):
        suite.expect(several(8, 8, moving, "balance", options=on_workers(workers)), out=said_workers(8, 8, workers))
with suite.case("polling in every way, waiting, and messages of all lengths, on several workers"):
    for ranks, each, workers in ((2, 2, 2), (3, 3, 2), (8, 4, 2), (16, 16, 3)):
        suite.expect(several(ranks, each, polling, options=on_workers(workers)), out=f"{ranks} ranks, 0 failures")
        suite.expect(several(ranks, each, polling, options=on_workers(workers, ["-x", "ISTHMUS_IDLE=spin"])), out=f"{ranks} ranks, 0 failures")
for kind in KINDS:
    with suite.case(f"globals, statics, thread-local variables, options, environment, exceptions in flight, on several workers: {kind}"):
        for ranks, each, workers in ((4, 2, 2), (8, 8, 3)):
            result = several(ranks, each, FOLDER / ("globals " + kind), "-vvn", "42", "rest", "-v", options=on_workers(workers, ["-x", "TEST_FUNNELED=yes"]))
            suite.expect(result)
            for rank in range(ranks):
                assert f"rank {rank} of {ranks}: 0 failures" in result.out, result
                assert f"destroyed by rank {rank} after 20 steps" in result.out, result
for name in SELECTION:
    with suite.case(f"test/mpi/{name}, on several workers"):
        program = FOLDER / Path(name).stem
        head = "\n".join((MPI / name).read_text().splitlines()[:12])
        said = re.search(r"\branks: *((?:\d+ *)+)", head)
        allowed = [int(number) for number in said[1].split()] if said else [2, 3, 5]
        for ranks, each, workers in ((2, 2, 2), (3, 3, 2), (4, 4, 3), (5, 3, 2)):
            if ranks in allowed:
                suite.expect(several(ranks, each, program, options=on_workers(workers)))
with suite.case("how many workers"):
    suite.expect(several(4, 2, ending, options=on_workers(0)), status=2, err="allowed: a whole number from 1 to")
    suite.expect(several(4, 2, ending, options=on_workers(3)), status=2, err="--workers-per-process: 3 threads are more than the ranks of a process, 2")
    suite.expect(suite.run([MPIEXEC, "-n", 2, *on_workers(2), ending], timeout=60), status=2, err="--ranks-per-process gives it more")
with suite.case("a process is bound to as many cores as it has workers"):
    result = several(4, 2, ending, "", options=on_workers(2, ["--bind-to", "core", "--report-bindings"]))
    suite.expect(result)
    with_one = several(4, 2, ending, "", options=["--bind-to", "core", "--report-bindings"])
    cpus = [len(re.findall(r"\d+", line)) for line in re.findall(r"rank \d+: .*CPU (\S+)", result.out + result.err)]
    cpus_of_one = [len(re.findall(r"\d+", line)) for line in re.findall(r"rank \d+: .*CPU (\S+)", with_one.out + with_one.err)]
    assert len(cpus) == len(cpus_of_one) == 4, (result, with_one)
    if len(os.sched_getaffinity(0)) > 1:
        assert all(many > one for many, one in zip(cpus, cpus_of_one)), (result, with_one)

# --- other processes of the host ---------------------------------------------------------------------------------------------------------

far_program = OWN / "far.cpp"
MIGRATABLE = ["--migratable"]
FAR_KINDS = {"as it is": (), "-fPIC": ("-fPIC",), "-rdynamic": ("-rdynamic",), "stripped": ("-s",)}
for kind, flags in FAR_KINDS.items():
    with suite.case(f"ranks go on in other processes, with all that they have: {kind}"):
        program = compile_program(far_program, "far " + kind, *flags)
        for ranks, each, workers in ((2, 2, 1), (4, 2, 1), (8, 4, 1), (6, 2, 2), (7, 3, 2)):
            suite.expect(several(ranks, each, program, 40, "about", options=on_workers(workers, MIGRATABLE), timeout=120), out=rf"{ranks} ranks, \d+ workers, 0 failures")
with suite.case("collectives, matched messages, buffered sends that begin in one process and end in another"):
    for ranks, each, workers in ((2, 2, 1), (4, 2, 1), (8, 4, 1), (6, 2, 2), (7, 3, 2)):
        suite.expect(several(ranks, each, FOLDER / "far as it is", 40, "calls", options=on_workers(workers, MIGRATABLE), timeout=120), out=rf"{ranks} ranks, \d+ workers, 0 failures")
with suite.case("options are parsed on in other processes"):
    for ranks, each, workers in ((4, 2, 1), (6, 2, 2), (6, 3, 1)):
        words = ("-ab", "-n42", "-c", "-da", 0, "options")
        suite.expect(several(ranks, each, FOLDER / "far as it is", *words, options=on_workers(workers, MIGRATABLE)), out=rf"{ranks} ranks, \d+ workers, 0 failures")
with suite.case("the answers with --migratable are those without"):
    for name in ("p2p/sendrecv.c", "coll/reduce.cpp", "comm/topology.c", "request/completion.c", "env/basic.c"):
        program = FOLDER / Path(name).stem
        for ranks, each in ((2, 2), (5, 3)):
            suite.expect(several(ranks, each, program, options=MIGRATABLE))
tied = compile_program(OWN / "tied.cpp")
TIES = ("file", "descriptor", "mapping", "specific", "locale", "thread", "library", "neighbour", "segment", "buffer", "wide", "memory file", "event", "protected", "semaphore", "fork", "at exit", "worker", "alone")
with suite.case("what keeps a rank in its process is said, and the others go"):
    for tie in TIES:
        for workers in (1, 2):
            suite.expect(several(4, 2, tied, "refuse", tie, options=on_workers(workers, MIGRATABLE)), out="4 ranks, 0 failures")
with suite.case("ranks stay whose library keeps for all what one of them has allocated"):
    source, library = FOLDER / "keeps.c", FOLDER / "libkeeps.so"
    source.write_text("#include <stdlib.h>\nstatic int* kept;\nint* keep(void) { if (!kept) { kept = malloc(sizeof *kept); *kept = 42; } return kept; }\n"
                      "void forget(void) { free(kept); kept = NULL; }\n")
    suite.expect(suite.run([PREFIX / "bin/mpicc", "-shared", "-fPIC", "-Wl,-z,lazy", source, "-o", library], timeout=60))
    keeping = compile_program(OWN / "tied.cpp", "keeping", f"-L{FOLDER}", "-Wl,--no-as-needed", "-lkeeps", f"-Wl,-rpath,{FOLDER}")
    for workers in (1, 2):
        suite.expect(several(4, 2, keeping, "refuse", "keeper", options=on_workers(workers, MIGRATABLE)), out="4 ranks, 0 failures")
with suite.case("what the dynamic linker keeps stays in the process of the rank that has had it do so"):
    for workers in (1, 2):
        suite.expect(several(4, 2, keeping, "refuse", "lazy", options=on_workers(workers, MIGRATABLE)), out="4 ranks, 0 failures")
with suite.case("a rank that uses CUDA stays"):
    drivers = {"LD_LIBRARY_PATH": f"{BUILT / 'test/emulated'}:{PREFIX / 'lib'}"}
    for workers in (1, 2):
        suite.expect(several(4, 2, tied, "refuse", "cuda", options=on_workers(workers, MIGRATABLE), env=drivers), out="4 ranks, 0 failures")
with suite.case("a rank that is traced stays"):
    timeline = suite.tmp / "stays.json"
    command = [PREFIX / "bin/isthmus", "trace", "-o", timeline, MPIEXEC, "-n", 4, "--ranks-per-process", 2, *MIGRATABLE]
    suite.expect(suite.run([*command, tied, "refuse", "traced"], timeout=60), out="4 ranks, 0 failures")
    names = {event["name"] for event in json.loads(timeline.read_text())["traceEvents"]}
    assert "MPI_Finalize" in names, names
FAR_ENDINGS = [
    ("exit", 7, r"rank 1 \(pid {}\) on host .* exited with code 7; ending the job"),
    ("segv", 139, r"rank 1 \(pid {}\) on host .* killed by signal 11"),
    ("kill", 137, r"ranks 1 to 2 \(pid {}\) on host .* killed by signal 9"),
    ("abort", 42, r"rank 1: MPI_Abort was called on MPI_COMM_WORLD with code 42"),
    ("late", 9, r"rank 1 \(pid {}\) on host .* exited with code 9 after MPI_Finalize"),
    ("stack", 139, r"isthmus: rank 1 has run over its stack of 8192 KiB; (.|\n)*rank 1 \(pid {}\) on host .* killed by signal 11"),
]
for way, status, line in FAR_ENDINGS:
    with suite.case(f"a rank ends in another process than it began in: {way}"):
        result = several(4, 2, tied, "end", way, options=[*MIGRATABLE, "-x", "ISTHMUS_RANK_STACK=8M"])
        process = re.search(r"rank 1 ends in (\d+)", result.out)
        assert process, result
        suite.expect(result, status=status, err=line.format(process[1]))
with suite.case("who waits in another process than it began in is named"):
    result = several(4, 2, tied, "end", "stuck", options=[*MIGRATABLE, "--timeout", "3"], timeout=30)
    suite.expect(result, status=124, err=r"rank 1: MPI_Recv for a message from rank 0, tag 99")
    command = [MPIEXEC, "-n", 4, "--ranks-per-process", 2, *MIGRATABLE, tied, "end", "stuck"]
    with running(command, suite.tmp / "stuck", said="", times=0) as (process, _):
        wait_for_line(lambda: suite.run([PREFIX / "bin/isthmus", "stuck", process.pid], timeout=20), r"rank 1: MPI_Recv for a message from rank 0, tag 99")
with suite.case("a process is killed while ranks go from one to another: the job ends"):
    files, memory = shared_files(), segments()
    for run in range(12):
        command = [MPIEXEC, "-n", 6, "--ranks-per-process", 2, *MIGRATABLE, tied, "end", "never"]
        with running(command, suite.tmp / "never", said="they go", times=1) as (process, out):
            time.sleep(0.003 * run)
            os.kill(children(process.pid)[run % 3], signal.SIGKILL)
            assert process.wait(20) == 137, out.read_text()
            assert re.search(r"(ranks? [\d, to]+|the process that rank \d was started in) \(pid \d+\) on host \S+ killed by signal 9", out.read_text()), out.read_text()
    vanish(lambda: shared_files() - files)
    vanish(lambda: segments() - memory)
with suite.case("all ranks of the host are dealt to all of its workers"):
    for workers in (1, 2):
        suite.expect(several(8, 4, tied, "refuse", "balance", options=on_workers(workers, MIGRATABLE), timeout=60), out="8 ranks, 0 failures")
with suite.case("what --migratable does not go with"):
    suite.expect(suite.run([MPIEXEC, "-n", 2, *MIGRATABLE, ending]), status=2, err="--migratable: ranks that are processes cannot move")
    suite.expect(several(4, 2, ending, options=[*MIGRATABLE, "--on-failure", "continue"]), status=2, err="--migratable does not go with --on-failure continue")
    suite.expect(several(4, 2, FOLDER / "globals a shared object", options=MIGRATABLE), status=126, err="link it as an executable")

# --- other hosts ------------------------------------------------------------------------------------------------------------------------

# Each of them is an agent of its own here, with a region of its own.
launcher = suite.tmp / "launcher"
launcher.write_text('#!/bin/sh\nexec sh -c "$2"\n')
launcher.chmod(0o755)


def on_hosts(hosts, workers=1, *more):
    return [*MIGRATABLE, "--launcher", launcher, "--hosts", hosts, "--workers-per-process", workers, *more]


for what, steps in (("about", 40), ("calls", 40), ("waiting", 15)):
    with suite.case(f"ranks go on on other hosts, with all that they have, there and back: {what}"):
        for hosts, each, workers in (("a:2,b:2", 2, 1), ("a:4,b:4", 2, 1), ("a:3,b:2", 3, 2), ("a:2,b:2,c:2", 2, 2)):
            ranks = sum(int(host[2:]) for host in hosts.split(","))
            suite.expect(several(ranks, each, FOLDER / "far as it is", steps, what, options=on_hosts(hosts, workers), timeout=120), out=rf"{ranks} ranks, \d+ workers, 0 failures")
with suite.case("the same of programs that are compiled otherwise, and options that are parsed on"):
    for kind in FAR_KINDS:
        suite.expect(several(4, 2, FOLDER / f"far {kind}", 20, "about", options=on_hosts("a:2,b:2"), timeout=120), out="4 ranks, 2 workers, 0 failures")
    suite.expect(several(6, 3, FOLDER / "far as it is", "-ab", "-n42", "-c", "-da", 0, "options", options=on_hosts("a:3,b:3")), out="6 ranks, 2 workers, 0 failures")
with suite.case("ranks that are held back for want of memory let all arrive before they go"):
    for limit in ("192K", "512K"):
        suite.expect(several(4, 2, FOLDER / "far as it is", 15, "waiting", options=on_hosts("a:2,b:2", 1, "-x", f"ISTHMUS_UNEXPECTED_LIMIT={limit}"), timeout=120), out="4 ranks, 2 workers, 0 failures")
with suite.case("the answers on several hosts are those without"):
    for name in ("p2p/sendrecv.c", "p2p/modes.c", "p2p/order.c", "p2p/cancel.c", "coll/reduce.cpp", "coll/move.cpp", "comm/topology.c", "comm/split_type.c", "request/completion.c"):
        for hosts, each in (("a:2,b:2", 2), ("a:3,b:2", 3)):
            suite.expect(several(4 if each == 2 else 5, each, FOLDER / Path(name).stem, options=on_hosts(hosts), timeout=120))
with suite.case("what keeps a rank in its process is said on several hosts, too, and the others go"):
    for tie in ("file", "descriptor", "mapping", "thread", "event"):
        suite.expect(several(4, 2, tied, "refuse", tie, options=on_hosts("a:2,b:2")), out="4 ranks, 0 failures")
for way, status, line in FAR_ENDINGS:
    with suite.case(f"a rank ends on another host than it began on: {way}"):
        result = several(4, 2, tied, "end", way, options=[*on_hosts("a:2,b:2"), "-x", "ISTHMUS_RANK_STACK=8M"])
        process = re.search(r"rank 1 ends in (\d+)", result.out)
        assert process, result
        suite.expect(result, status=status, err=line.format(process[1]))
with suite.case("who waits on another host than it began on is named"):
    result = several(4, 2, tied, "end", "stuck", options=[*on_hosts("a:2,b:2"), "--timeout", "3"], timeout=30)
    suite.expect(result, status=124, err=r"rank 1: MPI_Recv for a message from rank 0, tag 99")
with suite.case("a process is killed while ranks go from one host to another: the job ends"):
    files, memory = shared_files(), segments()
    for run in range(8):
        command = [MPIEXEC, "-n", 6, "--ranks-per-process", 2, *on_hosts("a:2,b:4"), tied, "end", "never"]
        with running(command, suite.tmp / "never far", said="they go", times=1) as (process, out):
            time.sleep(0.003 * run)
            ranks = [pid for agent in marked_children(process.pid) for pid in children(agent)]
            assert len(ranks) == 3, ranks
            os.kill(ranks[run % 3], signal.SIGKILL)
            assert process.wait(20) == 137, out.read_text()
            assert re.search(r"(ranks? [\d, to]+|the process that rank \d was started in) \(pid \d+\) on host \S+ killed by signal 9", out.read_text()), out.read_text()
    vanish(lambda: shared_files() - files)
    vanish(lambda: segments() - memory)
with suite.case("ranks of several hosts are dealt to all workers of the job"):
    for workers in (1, 2):
        suite.expect(several(8, 4, tied, "refuse", "balance", options=on_hosts("a:4,b:4", workers), timeout=60), out="8 ranks, 0 failures")
with suite.case("ranks that go to other hosts talk over TCP alone"):
    suite.expect(several(4, 2, ending, options=[*on_hosts("a:2,b:2"), "--transport", "ud"]), status=None, err="talk over TCP, and ISTHMUS_TRANSPORT=ud asks for something else")

# --- endings ----------------------------------------------------------------------------------------------------------------------------

ENDINGS = [
    ("exit", 7, r"rank 6 \(pid \d+\) on host .* exited with code 7; ending the job"),
    ("return", 8, r"rank 6 \(pid \d+\) on host .* exited with code 8; ending the job"),
    ("silent", 1, r"rank 6 \(pid \d+\) on host .* exited without MPI_Finalize"),
    ("abort", 42, r"rank 6: MPI_Abort was called on MPI_COMM_WORLD with code 42"),
    ("late", 9, r"rank 6 \(pid \d+\) on host .* exited with code 9 after MPI_Finalize"),
    ("segv", 139, r"rank 6 \(pid \d+\) on host .* killed by signal 11"),
    ("kill", 137, r"ranks 4 to 7 \(pid \d+\) on host .* killed by signal 9"),
    ("stack", 139, r"isthmus: rank 6 has run over its stack of 8192 KiB; -x ISTHMUS_RANK_STACK=32M or a higher `ulimit -s`"),
    ("rank-error", 4, r"rank 6: MPI_Send: tag -7 is negative"),
    ("before-init", 5, r"rank \d \(pid \d+\) on host .* exited with code 5"),
]
for way, status, line in ENDINGS:
    with suite.case(f"one rank of a process ends: {way}"):
        suite.expect(several(8, 4, ending, way, options=["-x", "ISTHMUS_RANK_STACK=8M"]), status=status, err=line)
        result = several(8, 4, ending, way, options=on_workers(2, ["-x", "ISTHMUS_RANK_STACK=8M"]))
        suite.expect(result, status=status, err=line)
with suite.case("a stack that is large enough"):
    suite.expect(several(8, 4, ending, "deep", options=["-x", "ISTHMUS_RANK_STACK=256M"]))
with suite.case("the child of a rank ends, and the rank does not"):
    suite.expect(several(8, 4, ending, "fork"))
    suite.expect(several(8, 4, ending, "fork", options=on_workers(3)))
with suite.case("what ranks have printed is not lost, and lines say whose process they are of"):
    result = several(4, 2, ending, "", options=["--tag-output"])
    suite.expect(result)
    assert sorted(result.out.splitlines()) == [f"[{'0-1' if rank < 2 else '2-3'}] rank {rank} is here" for rank in range(4)], result
with suite.case("the others outlive a process that dies"):
    result = several(8, 4, ending, "before-init", options=["--on-failure", "continue"])
    suite.expect(result, status=5)

# --- what cannot be loaded several times --------------------------------------------------------------------------------------------------

REFUSED = {
    "at one address": (("-no-pie", "-fno-pie"), r"can lie at one address only; compile it with -fPIE and link it with -pie"),
}
for kind, (flags, line) in REFUSED.items():
    with suite.case(f"refused: {kind}"):
        program = compile_program(OWN / "ending.c", "refused " + kind, *flags)
        suite.expect(several(4, 2, program), status=126, err=line)
with suite.case("refused: a script"):
    script = FOLDER / "script"
    script.write_text("#!/bin/sh\nexec true\n")
    script.chmod(0o755)
    suite.expect(several(4, 2, script), status=126, err="it is a script, and only compiled programs can be")
with suite.case("refused: too much thread-local storage, and as a shared object it is none too much"):
    source = FOLDER / "large.c"
    source.write_text("#include <mpi.h>\n_Thread_local char large[100000];\n"
                      "int main(int c, char** v) { MPI_Init(&c, &v); large[c] = 1; MPI_Barrier(MPI_COMM_WORLD); MPI_Finalize(); return large[c] != 1; }\n")
    suite.expect(several(4, 2, compile_program(source, "large")), status=126, err="its thread-local variables take 100000 bytes|-fPIC -shared")
    suite.expect(several(4, 2, compile_program(source, "large shared", "-fPIC", "-shared")))
with suite.case("thread-local variables of a program that fill the room are no library's"):
    suite.expect(several(4, 2, compile_program(OWN / "thread_locals.cpp")), out="4 ranks, 0 failures")
with suite.case("refused: a variable of a library that each copy would have for itself"):
    source = FOLDER / "zone.c"
    source.write_text("#include <mpi.h>\n#include <time.h>\nint main(int c, char** v) { MPI_Init(&c, &v); tzset(); MPI_Finalize(); return timezone != 0 && c < 0; }\n")
    suite.expect(several(4, 2, compile_program(source, "zone", "-fPIE", "-pie")), status=126, err="'timezone'|'__timezone'")
    suite.expect(several(4, 2, compile_program(source, "zone pic", "-fPIC")))
with suite.case("the program that holds the ranks, without mpiexec"):
    suite.expect(suite.run([PREFIX / "libexec/isthmus/virtual_ranks", ending, ending]), status=2, err="is started by Isthmus' own mpiexec")
with suite.case("a progress thread beside ranks that take turns"):
    suite.expect(several(4, 2, ending, "", options=["-x", "ISTHMUS_PROGRESS=thread"]), status=None, err="ISTHMUS_PROGRESS=thread does not go with")
with suite.case("how many"):
    suite.expect(several(4, 0, ending), status=2, err="allowed: a whole number from 1 to")

# --- programs -------------------------------------------------------------------------------------------------------------------------------

with suite.case("integer_sort"):
    suite.expect(several(8, 4, BUILT / "apps/integer_sort/integer_sort", "--class", "S", "-q"), out="as published: correct\n.*sorted: correct")
with suite.case("fft3d"):
    result = several(6, 3, BUILT / "apps/fft3d/fft3d", "-q", "-n", "30x21x16", "--plan", "estimate", "--iterations", "3")
    suite.expect(result, out="of the exact transform.*: correct\n.*came back.*: correct")
# --- several hosts ---------------------------------------------------------------------------------------------------------------------------

# A launcher whose hosts are all this one, and one whose host b is slow. Ranks meet in one region, or stay apart as between machines.
HERE, SLOW = suite.tmp / "here", suite.tmp / "slow"
HERE.write_text('#!/bin/sh\nexec sh -c "$2"\n')
SLOW.write_text('#!/bin/sh\n[ $1 = a ] || sleep 3\nexec sh -c "$2"\n')
for each in (HERE, SLOW):
    each.chmod(0o755)
PLACES = {"who meet": (), "apart": ("-x", "ISTHMUS_LOCALITY=static")}


def far(hosts, ranks, each, program, *arguments, launcher=HERE, options=(), **more):
    return several(ranks, each, program, *arguments, options=["--launcher", launcher, "--hosts", hosts, *options], **more)


with suite.case("a host's ranks are dealt to its processes, and none spans two"):
    result = far("a:3,b:4", 7, 2, ending, "", options=["--tag-output"])
    suite.expect(result)
    processes = ("0-1", "0-1", "2", "3-4", "3-4", "5-6", "5-6")
    assert sorted(result.out.splitlines()) == [f"[{name}] rank {rank} is here" for rank, name in enumerate(processes)], result
for where, options in PLACES.items():
    with suite.case(f"ranks of two hosts {where}: polling, waiting, and messages of all lengths"):
        for hosts, ranks, each in (("a:2,b:2", 4, 2), ("a:1,b:3", 4, 2), ("a:4,b:4", 8, 4), ("a:8,b:3", 11, 8), ("a:2,b:2,c:2", 6, 2)):
            suite.expect(far(hosts, ranks, each, polling, options=options), out=f"{ranks} ranks, 0 failures")
for name in SELECTION:
    if name == "comm/split_type.c":  # it says what is on one host
        continue
    with suite.case(f"test/mpi/{name}, on two hosts"):
        program = FOLDER / Path(name).stem
        head = "\n".join((MPI / name).read_text().splitlines()[:12])
        said = re.search(r"\branks: *((?:\d+ *)+)", head)
        allowed = [int(number) for number in said[1].split()] if said else [2, 3, 5]
        for hosts, ranks, each in (("a:2,b:2", 4, 2), ("a:3,b:2", 5, 3), ("a:2,b:1", 3, 2)):
            if ranks in allowed:
                suite.expect(far(hosts, ranks, each, program, options=PLACES["apart"]))
with suite.case("ranks of two hosts on several workers: moving, polling, waiting"):
    for options in PLACES.values():
        result = far("a:4,b:3", 7, 4, moving, "-a", "-n42", "-a", "move", options=on_workers(2, options), timeout=120)
        suite.expect(result, out=said_workers(7, 4, 2))
        suite.expect(far("a:4,b:4", 8, 4, polling, options=on_workers(3, options)), out="8 ranks, 0 failures")
with suite.case("who waits for a host that begins late sleeps"):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    suite.expect(far("a:4,b:4", 8, 4, polling, launcher=SLOW, options=PLACES["apart"]), out="8 ranks, 0 failures")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert seconds < 2, f"{seconds} s of processor time: one process waits for 3 s"
for way, status, line in ENDINGS:
    with suite.case(f"one rank of a process on another host ends: {way}"):
        line = line if way == "before-init" else line.replace("on host .*", "on host b")
        result = far("a:4,b:4", 8, 4, ending, way, options=["-x", "ISTHMUS_RANK_STACK=8M", *PLACES["apart"]])
        suite.expect(result, status=status, err=line)
with suite.case("who waits on two hosts is named, and sleeps"):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = far("a:2,b:2", 4, 2, ending, "stuck", options=["--timeout", "4", *PLACES["apart"]], timeout=30)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    suite.expect(result, status=124, err=r"rank 2")
    assert "MPI_Recv" in result.err and "MPI_Barrier" in result.err, result
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert seconds < 2, f"{seconds} s of processor time: two processes wait for 4 s"
with suite.case("workers whose ranks all wait sleep, and one that has no ranks"):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = several(4, 4, ending, "stuck", options=on_workers(3, ["--timeout", "4"]), timeout=30)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    suite.expect(result, status=124, err=r"rank 2")
    assert "MPI_Recv" in result.err and "MPI_Barrier" in result.err, result
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert seconds < 2, f"{seconds} s of processor time: two workers wait for 4 s"
with suite.case("explain says which way messages within a process take, and which between hosts"):
    command = [PREFIX / "bin/isthmus", "explain", "--full", MPIEXEC, "--launcher", HERE, "--hosts", "a:2,b:2", "-n", "4", "--ranks-per-process", "2"]
    result = suite.run([*command, *PLACES["apart"], polling], timeout=60)
    text = result.out + result.err
    assert "rendezvous, copied within the process" in text and "network rendezvous" in text, result
with suite.case("refused on another host, by its name: a program at one address"):
    suite.expect(far("a:2,b:2", 4, 2, FOLDER / "refused at one address"), status=126, err=r"can lie at one address only")
with suite.case("refused: containers on several hosts"):
    result = far("a:2,b:2", 4, 2, polling, options=["--container", "sh -c '\"$@\"' sh"])
    suite.expect(result, status=2, err="several ranks of a process in a container work on one host so far")
with suite.case("each rank is traced, on all hosts"):
    timeline = suite.tmp / "trace.json"
    command = [PREFIX / "bin/isthmus", "trace", "-o", timeline, MPIEXEC, "--launcher", HERE, "--hosts", "a:3,b:2", "-n", 5]
    suite.expect(suite.run([*command, "--ranks-per-process", 2, *PLACES["apart"], polling], timeout=60), out="5 ranks, 0 failures")
    events = json.loads(timeline.read_text())["traceEvents"]
    assert {event["pid"] for event in events if event["ph"] == "X" and event["name"] == "MPI_Finalize"} == set(range(5)), events[:20]
# --- a death while the job starts ------------------------------------------------------------------------------------------------------------

starting = FOLDER / "starting"
MOMENTS = ("constructor", "main", "init")


def dies(command, env=None, **expected):
    """Runs a job of which a process is killed: it ends, says whose, and leaves nothing."""
    files, memory = shared_files(), segments()
    mark = f"TEST_STARTING={os.getpid()}"
    result = suite.expect(suite.run(command, env={**(env or {}), **dict([mark.split("=")])}, timeout=30), **expected)
    vanish(lambda: marked_processes(mark))
    vanish(lambda: shared_files() - files)
    vanish(lambda: segments() - memory)
    return result


with suite.case("the program that is killed while it starts compiles"):
    compile_program(OWN / "starting.c")
for each, workers in ((2, 1), (4, 1), (4, 2)):
    with suite.case(f"a rank is killed before MPI_Init or in a constructor, {each} a process with {workers} workers: the job ends, and its process is named"):
        for moment in MOMENTS:
            for victim in (0, 3):
                first = victim // each * each
                said = rf"mpiexec: ranks {first} to {first + each - 1} \(pid \d+\) on host \S+ killed by signal 9"
                command = [MPIEXEC, "-n", 4, "--ranks-per-process", each, "--workers-per-process", workers, starting]
                dies(command, {"MOMENT": moment, "VICTIM": victim}, status=137, err=said)
with suite.case("the same with --on-failure continue: those who meet the dead end the job, and the dead are named too"):
    for moment in MOMENTS:
        for victim in (0, 3):
            first = victim // 2 * 2
            command = [MPIEXEC, "--on-failure", "continue", "-n", 4, "--ranks-per-process", 2, starting]
            result = dies(command, {"MOMENT": moment, "VICTIM": victim}, status=None, err=rf"ranks {first} to {first + 1} \(pid \d+\) .*killed by signal 9")
            assert result.status != 0 and "MPI_ERR_PROC_ABORTED" in result.err and "rank -1" not in result.err, result
with suite.case("the same on two hosts"):
    for moment in MOMENTS:
        for where in PLACES.values():
            command = [MPIEXEC, "--launcher", HERE, "--hosts", "a:2,b:2", *where, "-n", 4, "--ranks-per-process", 2, starting]
            dies(command, {"MOMENT": moment, "VICTIM": 3}, status=137, err=r"ranks 2 to 3 \(pid \d+\) on host \S+ killed by signal 9")
with suite.case("a process is killed at any moment while it loads the copies of its ranks"):
    files, killed = shared_files(), 0
    for run in range(20):
        out = suite.tmp / "starting"
        with running([MPIEXEC, "-n", 16, "--ranks-per-process", 8, starting], out, said="", times=0) as (process, _):
            end = time.monotonic() + 10
            while not (found := children(process.pid)) and process.poll() is None and time.monotonic() < end:
                time.sleep(0.0005)
            time.sleep(0.002 * run)
            with contextlib.suppress(OSError, IndexError):
                os.kill(found[run % len(found)], signal.SIGKILL)
            status = process.wait(20)
        text = out.read_text()
        assert status in (0, 137), (status, text)
        assert status == 0 or re.search(r"ranks (0 to 7|8 to 15) \(pid \d+\) on host \S+ killed by signal 9", text), text
        killed += status == 137
    assert killed > 0, "no process was killed before its end"
    vanish(lambda: shared_files() - files)
with suite.case("hosts with networks of their own"):
    need(why_not())
    with Hosts(2) as hosts:
        for ranks, each in ((4, 2), (8, 4), (7, 3)):
            command = [*hosts.head, MPIEXEC, "--hosts", "h1,h2", "--launcher", hosts.launcher, "-n", ranks, "--ranks-per-process", each, polling]
            suite.expect(suite.run(command, timeout=60), out=f"{ranks} ranks, 0 failures")

with suite.case("explain says which way messages within a process take"):
    result = suite.run([PREFIX / "bin/isthmus", "explain", "--full", MPIEXEC, "-n", "4", "--ranks-per-process", "2", polling], timeout=60)
    text = result.out + result.err
    assert "rendezvous, copied within the process" in text, result
suite.finish()
