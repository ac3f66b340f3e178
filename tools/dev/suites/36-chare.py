# title: chares: the programs of test/chare at several numbers of ranks, over each path, in containers and on two hosts
# timeout: 600
# under: asan
# runs: mpi_abi mpiexec isthmus_network jacobi3d jacobi3d_chares
# about: apps/jacobi3d* src/chare/* src/abi/chare/* src/coll/agree/* include/isthmus/* src/p2p/* !src/p2p/protocol/* src/launch/* tools/mpiexec/*
# reads: docs/chares.md test/mpi/check.h
"""A program of test/chare checks itself (test/mpi/check.h), prints nothing and exits with 0 if all is right. A file that begins
with `program_` is run here with a fault, which must end the job with a sentence. The programs of docs/chares.md run too."""

import os
import re
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, "tools/dev")
from jobs import segments, shared_files, vanish
from suite import BUILT, PREFIX, ROOT, Skip, Suite

SANITIZER = os.environ.get("DEV_SANITIZER", "")
TIMEOUT = 240 if SANITIZER else 60
# Paths that are not the first choice here.
VARIANTS = {
    "": {},
    ", no process_vm_*": {"ISTHMUS_CMA": "off"},
    ", everything by rendezvous": {"ISTHMUS_EAGER_LIMIT": "1"},
    ", sleeping": {"ISTHMUS_IDLE": "sleep"},
}

suite = Suite("chare")
FOLDER = BUILT / "test-chare"
MPIEXEC = PREFIX / "bin/mpiexec"


def compile_program(source, program, *options):
    """Compiled anew only if something changed. g++ 12 takes what only a failing CHECK leaves unset for a fault."""
    inputs = [source, ROOT / "test/mpi/check.h", *PREFIX.glob("include/**/*.h*"), PREFIX / "bin/mpicxx", *source.parent.glob("*.h")]
    if program.exists() and program.stat().st_mtime > max(path.stat().st_mtime for path in inputs):
        return None
    # Under a sanitizer the compiler is clang, which does not know the last.
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", *([] if os.environ.get("DEV_SANITIZER") else ["-Wno-maybe-uninitialized"])]
    return suite.run([PREFIX / "bin/mpicxx", "-std=c++20", "-O1", "-g", *warnings, *options, source, "-o", program], timeout=300)


def run_program(command, ranks, environment=None, timeout=TIMEOUT):
    """Quiet, and with something checked."""
    counts = suite.tmp / "counts"
    counts.unlink(missing_ok=True)
    result = suite.run(command, env={**(environment or {}), "CHECK_COUNTS": counts}, timeout=timeout)
    suite.expect(result)
    assert not result.text.strip(), f"it printed something\n{result}"
    checked = [int(line) for line in counts.read_text().split()] if counts.exists() else []
    assert len(checked) == ranks and sum(checked) > 0, f"the ranks made {checked} checks\n{result}"


FOLDER.mkdir(parents=True, exist_ok=True)
sources = sorted((ROOT / "test/chare").glob("*.cpp"))
jobs = [(source, FOLDER / source.stem, ()) for source in sources]
jobs.append((ROOT / "test/chare/program_faults.cpp", FOLDER / "program_other", ("-DOTHER_PROGRAM",)))
jobs.append((ROOT / "test/chare/program_checkpoint.cpp", FOLDER / "program_elsewhere", ("-DOTHER_PROGRAM",)))
with ThreadPoolExecutor(int(os.environ.get("DEV_JOBS", "1"))) as pool:
    compiled = list(pool.map(lambda job: compile_program(job[0], job[1], *job[2]), jobs))
for (_, program, _), result in zip(jobs, compiled):
    if result is not None and (result.status != 0 or result.text.strip()):
        suite.fail(f"{program.name} compiles without a warning", result)

for source in sources:
    if source.name.startswith("program_"):
        continue
    for ranks in (1, 2, 3, 4):
        for name, environment in VARIANTS.items():
            if name and (ranks % 2 == 1 or SANITIZER):
                continue
            with suite.case(f"{source.stem} at {ranks}{name}"):
                run_program([MPIEXEC, "-n", ranks, FOLDER / source.stem], ranks, environment)

# --- faults: what the line on stderr says, at two ranks

CELL = r"\(anonymous namespace\)::Cell"
LOAD = r"\(anonymous namespace\)::Load"
SYNCED = r"\(anonymous namespace\)::"
FAULTS = {
    "throw": rf"rank 1: chare {CELL}\[3, 4\], entry {CELL}::fails, invoked by rank 0: it has thrown: seven is too many",
    "throw_late": rf"rank 1: chare {CELL}\[4\], coroutine {CELL}::fails_late: it has thrown: it was late",
    "throw_in_constructor": rf"rank \d: chare {CELL}\[\d\], its constructor.*: it has thrown: thirteen is refused",
    "beyond": r"rank 0: coordinate 5 is beyond the array's extent 5",
    "ended": rf"rank 1: chare {CELL}\[4\], entry {CELL}::fails, invoked by rank 0: there is no such chare: it has ended",
    "end_with_coroutine": rf"rank 1: .*{CELL}\[4\] ends while 1 of its coroutines wait",
    "never_inserted": rf"nothing moves any more; {CELL}::fails invoked by rank 0 waits for chare {CELL}\[key 0x.*2\], which is not there",
    "ended_elsewhere": rf"nothing moves any more; {CELL}::fails invoked by rank 0 waits for chare {CELL}\[key",
    "migrate_with_coroutine": rf"rank 1: .*{CELL}\[4\] moves while 1 of its coroutines wait",
    "inserted_twice": rf"chare {CELL}\[key 0x.*1\], its insertion, invoked by rank 0: it is there already",
    "before_run": "chares are used before `run`, or after it has returned",
    "made_before_run": "chares are used before `run`, or after it has returned",
    "after_run": "chares are used before `run`, or after it has returned",
    "two_reducers": rf"reduction 0 of {CELL} is given parts for .* and for ",
    "cut_off": rf"rank 1: chare {CELL}\[1\], entry {CELL}::texts, invoked by rank 0: the arguments are cut off: 8 bytes are wanted, and 1 are left",
    "too_long": rf"rank 1: .*entry {CELL}::numbers, invoked by rank 0: a length of 9223372036854775807 does not fit into 0 bytes",
    "left_over": rf"rank 1: .*entry {CELL}::fails, invoked by rank 0: 36 bytes are left over",
    "unknown_entry": r"rank 1: .*invoked by rank 0: there is no entry 60000 among the program's \d+ items",
    "no_entry": r"rank 1: .*invoked by rank 0: there is no entry \d+ among",
    "unknown_collection": rf"nothing moves any more; {CELL}::fails invoked by rank 0 waits for collection 77 of rank 1",
    "balancer_throws": rf"rank 0: chares of {LOAD}, balancer {SYNCED}throwing.*: it has thrown: the weights are wrong",
    "balancer_too_far": rf"rank 0: chares of {LOAD}, balancer {SYNCED}too_far.*: it moves {LOAD}\[\d\] to rank 2 of 2",
    "balancer_moves_fixed": rf"rank 0: chares of {LOAD}, balancer {SYNCED}to_the_last.*: it moves {LOAD}\[0\], which cannot move",
    "cannot_be_packed": rf"rank 0: chare {LOAD}\[1\], its serialize, invoked by rank 0: it has thrown: it has a file open",
    "sync_twice": rf"rank 0: chare {LOAD}\[1\], entry {LOAD}::sync_twice, .*: {LOAD}\[1\] waits to be balanced already",
    "sync_and_move": rf"rank 1: .*{LOAD}\[4\] moves by itself while it waits to be balanced",
    "sync_with_two": rf"chares of {LOAD} are to be balanced together by .*greedy.* and by .*refine",
    "sync_with_coroutine": rf"rank 0: chares of {LOAD}, balancer {SYNCED}to_the_last, .*: it moves {LOAD}\[0\], which cannot move",
    "balanced_twice": rf"rank 0: .*chares of {LOAD} are being balanced already",
    "no_load": rf"rank 0: chare {LOAD}\[2\], entry {LOAD}::heavy, .*: its load is said to be -1 seconds",
    "resized_to_nothing": r"rank 0: chares are to be in 0 of 2 processes",
    "resized_too_far": r"rank 0: chares are to be in 3 of 2 processes",
    "begins_in_too_many": r"rank \d: chares are to begin in 3 of 2 processes",
    "begins_in_different": r"rank 1: chares are to begin in 2 processes, and rank 0 says in 1",
    "node_of_nobody": r"rank 0: the node of rank 7 is asked for, and 2 processes have chares",
    "section_of_no_node": "a section names node 5",
    "section_with_node_twice": "a section has a member twice",
    "no_such_node": rf"rank 0: there is no chare {CELL}\[5\]",
    "node_chare_moves": rf"rank 0: .*{LOAD}\[0\] is of a group, and does not move",
    "beyond_those_in_use": r"rank 0: there is no rank 1 to call a function of",
    "unknown_root": r"its collection is said to be of rank 1000",
}
for fault, text in FAULTS.items():
    with suite.case(f"fault {fault} ends the job, and is named"):
        suite.expect(suite.run([MPIEXEC, "-n", 2, FOLDER / "program_faults", fault], timeout=TIMEOUT), status=1, err=text)
TAKE = rf"entry {CELL}::take, invoked by rank 0: "
BUFFER_FAULTS = {
    "throws": rf"rank 1: chare {CELL}\[1\], {TAKE}it has thrown: the post entry is wrong",
    "too_small": rf"rank 1: chare {CELL}\[1\], {TAKE}its post entry names 72 bytes for buffer 1, which has 80",
    "nowhere": rf"rank 1: chare {CELL}\[1\], {TAKE}its post entry names no memory for buffer 1, which has 80 bytes",
    "into_freed": rf"rank 1: chare {CELL}\[1\], {TAKE}a buffer of 8000 bytes at 0x\w+ is not there: it has been freed",
    "from_freed": r"rank 0: a buffer of 262144 bytes at 0x\w+ is not there: it has been freed",
    "from_nothing": r"rank 0: a buffer of 80 bytes is at no address",
    # The sender may be told first, or the receiver, whose post entry names less.
    "from_shorter": r"rank 0: a buffer of 266240000 bytes at 0x\w+ is not there: it has been freed, or is shorter|rank 1: .*its post entry names 800000 bytes",
    "without": rf"rank 1: .*{TAKE}an entry with buffers is invoked without them",
    "with": rf"rank 1: .*entry {CELL}::other, invoked by rank 0: an entry without buffers is invoked with some",
    "cut_off": rf"rank 1: .*{TAKE}an invocation with 1 buffers has 12 bytes",
    "any_without": r"rank 1: .*takes any number of buffers.*an invocation with buffers has 4 bytes",
    "any_none": r"rank 1: .*takes any number of buffers.*an invocation is said to have 0 buffers",
    "any_too_many": r"rank 1: .*takes any number of buffers.*an invocation is said to have 65 buffers",
    "any_cut_off": r"rank 1: .*takes any number of buffers.*an invocation with 2 buffers has 28 bytes",
    "no_type": rf"rank 1: .*{TAKE}there is no tag of type 0",
    "other_type": rf"rank 1: .*{TAKE}there is no tag of type 9",
    "of_a_mailbox": rf"rank 1: .*{TAKE}its data has the tag of a mailbox",
    "of_another": rf"rank 1: .*{TAKE}rank 0 says that its data comes from rank 1",
    "of_nobody": rf"rank 1: .*{TAKE}a tag names process 77 of 2 as its source",
    "too_long": rf"rank 1: .*{TAKE}its data is said to have 1152921504606846976 bytes",
    "half_an_item": rf"rank 1: .*{TAKE}data of 12 bytes comes for items of 8",
    "longer": rf"rank 1: chare {CELL}\[1\], {TAKE}rank 0 has announced data of 8 bytes, and sent more",
    "shorter": rf"rank 1: chare {CELL}\[1\], {TAKE}rank 0 has announced data of 800 bytes, and sent 80",
    "box_too_small": r"rank 1: rank 0 has sent more to mailbox 1 than the 80 bytes that are posted",
    "box_of_halves": r"rank 1: rank 0 has sent 12 bytes to mailbox 1, whose items have 8",
    "no_box": r"rank 0: a mailbox that names none was used",
    "box_of_another": r"rank 0: memory is posted to a mailbox of another process",
    "checkpoint": r"no checkpoint: rank 0: memory is posted to mailbox 1",
}
for fault, text in BUFFER_FAULTS.items():
    with suite.case(f"fault {fault} of data that goes apart ends the job, and is named"):
        suite.expect(suite.run([MPIEXEC, "-n", 2, FOLDER / "program_buffer_faults", fault], timeout=TIMEOUT), status=1, err=text)
HERE = suite.tmp / "here"
HERE.write_text('#!/bin/sh\nexec sh -c "$2"\n')
HERE.chmod(0o755)
TWO_HOSTS = (MPIEXEC, "--launcher", HERE, "--hosts", "a:2,b:1", "-n", 3)
for fault, status, text in (
    ("killed", 137, r"rank 2 .* killed by signal 9 \(Killed\); ending the job"),
    ("killed_in_talk", 137, r"rank 2 .* killed by signal 9 \(Killed\); ending the job"),
    ("killed_in_moves", 137, r"rank 2 .* killed by signal 9 \(Killed\); ending the job"),
    ("leaves", 7, r"rank 2 .* exited with code 7; ending the job"),
    ("leaves_well", 1, r"rank 2 .* exited without MPI_Finalize; ending the job"),
):
    with suite.case(f"a process that is no more ends the job, and is named: {fault}"):
        suite.expect(suite.run([MPIEXEC, "-n", 3, FOLDER / "program_faults", fault], timeout=TIMEOUT), status=status, err=text)
        if (PREFIX / "lib/isthmus/libisthmus_network.so").exists():
            result = suite.run([*TWO_HOSTS, FOLDER / "program_faults", fault], env={"ISTHMUS_LOCALITY": "static"}, timeout=TIMEOUT)
            # Who is first to notice says so: mpiexec, or a rank that can no more be reached.
            assert result.status in (status, 1) and re.search(rf"{text}|has lost rank 2", result.err), result
with suite.case("a process with nothing to do that nobody can wake ends with a sentence"):
    suite.expect(suite.run([MPIEXEC, "-n", 1, FOLDER / "program_faults", "idle"], timeout=TIMEOUT), status=1, err="nothing is left to do")
with suite.case("chares that wait to be balanced for ever are named"):
    suite.expect(
        suite.run([MPIEXEC, "-n", 1, FOLDER / "program_faults", "never_balanced"], timeout=TIMEOUT),
        status=1, err=rf"nothing is left to do, and nobody has called exit; 1 of the 5 chares of {LOAD} here wait to be balanced",
    )  # fmt: skip
with suite.case("two programs with other entries are refused, and the entry is named"):
    one, other = FOLDER / "program_faults", FOLDER / "program_other"
    suite.expect(
        suite.run([MPIEXEC, "-n", 1, one, "idle", ":", "-n", 1, other, "idle"], timeout=TIMEOUT),
        status=1, err=rf"rank 1: this process and rank 0 run programs with other chares: {CELL}::only_here is here alone",
    )  # fmt: skip
    suite.expect(
        suite.run([MPIEXEC, "-n", 1, other, "idle", ":", "-n", 1, one, "idle"], timeout=TIMEOUT),
        status=1, err=rf"rank 1: .*{CELL}::only_here is not here",
    )  # fmt: skip

# --- checkpoints: the same answer from any number of processes; damage, which is refused

CHECKPOINT = FOLDER / "program_checkpoint"


def files_of(path):
    return sorted(path.parent.glob(path.name + "*"))


def checkpoint_run(ranks, mode, path, *options, **expected):
    return suite.expect(suite.run([MPIEXEC, *options, "-n", ranks, CHECKPOINT, mode, path], timeout=2 * TIMEOUT), **expected)


with suite.case("a restart with 1 to 4 processes goes on as 1 to 4 have left off"):
    answers = set()
    for writers in (1, 2, 3, 4):
        path = suite.tmp / f"by{writers}"
        answers.add(checkpoint_run(writers, "write", path).out)
        assert len(files_of(path)) == 1 + writers, files_of(path)
        for ranks in (1, 2, 3, 4):
            answers.add(checkpoint_run(ranks, "restart", path).out)
    assert len(answers) == 1 and "well" in answers.pop(), answers

with suite.case("a checkpoint takes the place of another, whose files are removed; one that fails leaves it as it is"):
    path = suite.tmp / "twice"
    answer = checkpoint_run(3, "write", path).out
    checkpoint_run(2, "write", path)
    before = {file: file.read_bytes() for file in files_of(path)}
    assert len(before) == 3, before
    for fault, ranks, text in (
        ("full", 2, r"no checkpoint: rank \d: .*twice\.\w+\.\d: it cannot be written: File too large"),
        ("coroutine", 2, rf"no checkpoint: rank 0: 1 coroutines of {CELL}\[3\] wait"),
        ("reduction", 2, rf"no checkpoint: rank \d: reduction 5 of {CELL} is under way"),
        ("no_serialize", 2, r"no checkpoint: rank \d: chares of .*Plain cannot be written: the class needs"),
        ("twice", 2, r"no checkpoint: another checkpoint is being written"),
    ):
        checkpoint_run(ranks, fault, path, status=3, out=text)
        if fault != "twice":
            assert {file: file.read_bytes() for file in files_of(path)} == before, (fault, files_of(path))
    assert checkpoint_run(2, "restart", path).out == answer
    checkpoint_run(2, "throw", path, status=1, err=rf"chare {CELL}\[\d+\], its serialize.*: it has thrown: it has a file open")

with suite.case("a path that cannot be written gives no checkpoint"):
    checkpoint_run(2, "write", suite.tmp / "nowhere/at", status=3, out="no checkpoint: rank 0: .*cannot be made: No such file")

with suite.case("files that are cut off, damaged, foreign or not there are refused, and named"):
    path = suite.tmp / "whole"
    checkpoint_run(3, "write", path)
    head, *parts = files_of(path)
    assert head == path and len(parts) == 3, parts
    part = max(parts, key=lambda file: file.stat().st_size)
    for file, change, text in (
        (part, lambda data: data[:-1], rf"no restart: .*{part.name}: it has \d+ bytes, and not the \d+ that"),
        (part, lambda data: data + b"x", r"no restart: .*it has \d+ bytes, and not the"),
        (part, lambda data: data[:600] + bytes([data[600] ^ 4]) + data[601:], r"no restart: .*(is damaged: its checksum|is cut off)"),
        (part, lambda data: b"#!" + data[2:], r"no restart: .*it is no part of a checkpoint of chares"),
        (part, None, rf"no restart: .*{part.name}: it cannot be opened: No such file"),
        (head, lambda data: data[:20], r"no restart: .*whole: it is no checkpoint of chares: it is too short"),
        (head, lambda data: data[:-3], r"no restart: .*whole: it has \d+ bytes, and not the"),
        (head, lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:], r"no restart: .*whole: it is damaged: its checksum"),
        (head, lambda data: b"A text of somebody else, which is no checkpoint", r"no restart: .*whole: it is no checkpoint of chares"),
        (head, None, r"no restart: .*whole: it cannot be opened: No such file"),
    ):  # fmt: skip
        whole = file.read_bytes()
        if change:
            file.write_bytes(change(whole))
        else:
            file.unlink()
        checkpoint_run(2, "restart", path, status=1, err=text)
        file.write_bytes(whole)
    checkpoint_run(2, "restart", suite.tmp, status=1, err="it is no file of a checkpoint: no regular file")
    checkpoint_run(2, "restart", path)
    other = suite.run([MPIEXEC, "-n", 2, FOLDER / "program_elsewhere", "restart", path], timeout=TIMEOUT)
    suite.expect(other, status=1, err="no restart: the checkpoint has chares of .*, which this program does not have")

# --- checkpoints in memory: processes are killed, and the answer is the same

SURVIVAL = FOLDER / "program_survival"
SPLIT_HOSTS = ("--launcher", HERE, "--hosts", "a:2,b:2")
KILLED = 128 + 9


def survive(ranks, steps, size, *deaths, options=(), environment=None, **expected):
    command = [MPIEXEC, "--on-failure", "continue", *options, "-n", ranks, SURVIVAL, steps, size, *deaths]
    result = suite.run(command, env=environment, timeout=2 * TIMEOUT)
    return suite.expect(result, **expected) if expected else result


def right(steps):
    """The answer, which does not depend on the number of processes."""
    answers = {survive(ranks, steps, 100, status=0).out for ranks in (1, 2, 4)}
    assert len(answers) == 1, answers
    return answers.pop()


RIGHT = {}
with suite.case("checkpoints in memory, and nobody dies"):
    RIGHT = {steps: right(steps) for steps in (20, 21, 60)}
for moment in ("step:0", "step:5", "step:19", "write:20", "write:30", "write:45", "went_back:9"):
    for victim in (0, 1, 3):
        with suite.case(f"rank {victim} of 4 is killed: {moment}"):
            status = KILLED if re.search("step|write:[34]", moment) else None
            result = survive(4, 20, 1000, f"{victim}:{moment}")
            assert status is None or result.status == status, result
            early = "before a checkpoint in memory was whole|chares have no checkpoint in memory"
            assert result.out == RIGHT[20] or (moment == "write:20" and re.search(early, result.err)), result
# Wherever it is then: a run takes 15 ms, and with states of 200 KB 60 to 1000 ms.
for number, (name, environment) in enumerate(VARIANTS.items()):
    with suite.case(f"ranks are killed at any time{name}"):
        for size, longest, runs in ((100, 12000, 4 if SANITIZER else 12), (200000, 60000, 2 if SANITIZER else 4)):
            for run in range(runs):
                victim, ranks = (run + number) % 4, 4
                moments = [f"{victim}:time:{longest * run // runs}"]
                if run % 3 == 2:
                    # After a new checkpoint, or before it, but not the buddy.
                    moments.append(f"{(victim + 2) % 4}:time:{longest * run // runs + 1000}")
                result = survive(ranks, 20, size, *moments, environment=environment)
                assert result.status in (0, KILLED) and set(result.out.split()) == set(RIGHT[20].split()), (moments, result)
with suite.case("a second death, before the next checkpoint: well if it was not of the buddy at the same moment, and else those whose state is lost are named"):
    survive(4, 20, 100, "1:step:6", "3:step:6", status=KILLED, out=RIGHT[20])
    survive(4, 20, 100, "1:step:6", "3:went_back:1", status=KILLED, out=RIGHT[20])
    survive(4, 20, 100, "1:step:6", "2:step:10", "0:step:15", status=KILLED, out=RIGHT[20])
    lost = "chares are lost for whom both processes that kept their state are no more: those of rank 1, of which rank 2 kept the copy"
    result = survive(4, 20, 100, "1:pair:6", status=1, err=lost)
    assert result.err.count("both processes") == 1, result
with suite.case("what one process alone has kept after a death is kept twice again: the buddies die one after the other, without a checkpoint between"):
    for size in (100, 200000):
        for victims in ((1, 2), (2, 1), (1, 2, 3), (1, 0, 2), (0, 1, 2), (3, 0, 1)):
            deaths = [f"{victims[0]}:step:6", *(f"{victim}:went_back:{number}" for number, victim in enumerate(victims[1:], 1))]
            survive(4, 20, size, *deaths, status=KILLED, out=RIGHT[20])
    for begin in (2, 3):
        survive(4, 20, 100, "1:step:6", "2:went_back:1", environment={"CHARES_BEGIN_IN": str(begin)}, status=KILLED, out=RIGHT[20])
with suite.case("all but one process die, one after the other"):
    survive(3, 20, 100, "2:step:6", "0:step:12", status=KILLED, out=RIGHT[20])
with suite.case("a function of a process that has died goes on in process 0, of others where they are"):
    for victim in (1, 3):
        survive(4, 21, 100, f"{victim}:step:9", status=KILLED, out=RIGHT[21])
with suite.case("a death before the first checkpoint, and a future of before a death, end the job with a sentence"):
    survive(4, 20, 100, "1:start:0", status=1, err="has lost ranks? .*1.*, and chares have no checkpoint in memory")
    survive(4, 20, 100, "1:step:9", "0:future:0", status=1, err="a future gets a value that was made before a process died")
with suite.case("a process is killed before its MPI_Init: the job ends and names it, also where a death can be survived later"):
    for victim in (0, 2):
        early = f'test $ISTHMUS_WORLD_RANK = {victim} && kill -9 $$; exec {shlex.quote(str(SURVIVAL))} 20 100'
        named = rf"rank {victim} \(pid \d+\) on host \S+ killed by signal 9"
        files, memory = shared_files(), segments()
        for options in ((), ("--on-failure", "continue"), ("--on-failure", "continue", *SPLIT_HOSTS)):
            result = suite.run([MPIEXEC, *options, "--timeout", 20, "-n", 4, "sh", "-c", early], timeout=2 * TIMEOUT)
            suite.expect(result, status=None, err=named)
            assert result.status not in (0, 124) and not result.out, result
        vanish(lambda: shared_files() - files)
        vanish(lambda: segments() - memory)
with suite.case("a job goes back with one line that says so"):
    survive(4, 20, 100, "1:step:9", status=KILLED, err="^isthmus: chares have lost rank 1, and go back to checkpoint 3 in memory, in 3 processes$")
BEGIN_IN_TWO, RESIZED = {"CHARES_BEGIN_IN": "2"}, {"CHARES_RESIZE": "1"}
with suite.case("processes without chares take the place of those that die, with their ranks"):
    for deaths in (("1:step:5",), ("0:step:6",), ("0:step:5", "2:step:9"), ("0:step:3", "2:step:5", "1:step:9")):
        processes = 1 if len(deaths) == 3 else 2
        said = f"go back to checkpoint \\d in memory, in {processes} processes"
        survive(4, 20, 100, *deaths, environment=BEGIN_IN_TWO, status=KILLED, out=RIGHT[20], err=said)
    survive(4, 20, 100, "3:clock:100000", environment={**BEGIN_IN_TWO, "CHARES_BEGIN_IN": "3"}, status=None, out=RIGHT[20])
    # A function of the process that has died is called where its place is now.
    survive(4, 21, 100, "1:step:9", environment=BEGIN_IN_TWO, status=KILLED, out=RIGHT[21])
with suite.case("the number of processes changes now and then, and ranks are killed, with chares or without"):
    for begin in (1, 2, 4):
        survive(4, 20, 100, environment={**RESIZED, "CHARES_BEGIN_IN": str(begin)}, status=0, out=RIGHT[20])
    early = "no checkpoint in memory|before a checkpoint in memory was whole|is no more$|did not arrive$|MPI_Init"
    for run in range(8 if SANITIZER else 24):
        environment = {**RESIZED, "CHARES_BEGIN_IN": str(1 + run % 4), **list(VARIANTS.values())[run % len(VARIANTS)]}
        result = survive(4, 60, 100, f"{run * 7 % 4}:clock:{20000 + 2000 * run}", environment=environment)
        well = result.status in (0, KILLED) and set(result.out.split()) == set(RIGHT[60].split())
        assert well or (result.status == 1 and re.search(early, result.err, re.MULTILINE)), result
with suite.case("two hosts: a rank is killed, and both of one host, whose copies are on the other"):
    if not (PREFIX / "lib/isthmus/libisthmus_network.so").exists():
        raise Skip("the network library was not built")
    apart = {"ISTHMUS_LOCALITY": "static"}
    for deaths in (("2:step:6",), ("0:step:9",), ("2:step:6", "3:step:6"), ("1:step:6", "0:step:6")):
        survive(4, 20, 1000, *deaths, options=SPLIT_HOSTS, environment=apart, status=KILLED, out=RIGHT[20])

with suite.case("memory that fails, at each allocation of a process, ends the job with a sentence or is got over"):
    program = FOLDER / "program_memory"
    count = int(suite.expect(suite.run([MPIEXEC, "-n", 2, program, suite.tmp / "memory"], timeout=TIMEOUT)).out)
    assert count > 50, count
    for number in range(1, count + 1, 8 if SANITIZER else 1):
        result = suite.run([MPIEXEC, "-n", 2, program, suite.tmp / "memory", number], timeout=TIMEOUT)
        well = result.status == 0 and not result.text.strip()
        named = result.status == 1 and re.search(r"rank 1: (chare.* it has thrown|chares cannot go on): std::bad_alloc", result.err)
        told = result.status == 0 and re.fullmatch(r"no checkpoint: .*", result.out.strip())
        assert well or named or told, (number, result)

# --- an application: in chares as in MPI

with suite.case("jacobi3d in chares has the answer of jacobi3d, to the last digit, in any number of parts"):

    def answer(ranks, program, *words):
        command = [MPIEXEC, "-n", ranks, BUILT / "apps" / program / program, *words, "-n", 24, "-q"]
        found = re.search(r"(converged .*)\n(?:.*\n)* +error +(\S+) .*: correct", suite.expect(suite.run(command, timeout=TIMEOUT)).out)
        assert found, command
        return found[1], found[2]

    answers = {answer(2, "jacobi3d")}
    for ranks, *words in ((1,), (3,), (4, "--parts", 8), (2, "--carrier", "mailbox"), (3, "--parts", 27, "--carrier", "mailbox")):
        answers.add(answer(ranks, "jacobi3d_chares", *words))
    assert len(answers) == 1, answers
    chares = BUILT / "apps/jacobi3d_chares/jacobi3d_chares"
    suite.expect(suite.run([MPIEXEC, "-n", 3, chares, "--parts", 2], timeout=TIMEOUT), status=2, err="2 parts are too few for 3 processes")
    suite.expect(suite.run([MPIEXEC, "-n", 1, chares, "--carrier", "pigeon"], timeout=TIMEOUT), status=2, err="expected entry or mailbox")

# --- across hosts: as between machines, by the network

with suite.case("on two hosts, two ranks each, by the network"):
    if not (PREFIX / "lib/isthmus/libisthmus_network.so").exists():
        raise Skip("the network library was not built")
    for name in ("first", "arrays", "arguments", "buffers", "migration", "balance", "sections", "node_groups", "resize"):
        command = [MPIEXEC, "--launcher", HERE, "--hosts", "a:2,b:2", "-n", 4, FOLDER / name]
        run_program(command, 4, {"ISTHMUS_LOCALITY": "static"}, timeout=2 * TIMEOUT)

with suite.case("a checkpoint of two hosts goes on with one process"):
    if not (PREFIX / "lib/isthmus/libisthmus_network.so").exists():
        raise Skip("the network library was not built")
    path = suite.tmp / "hosts"
    command = [MPIEXEC, "--launcher", HERE, "--hosts", "a:2,b:2", "-n", 4, CHECKPOINT, "write", path]
    answer = suite.expect(suite.run(command, env={"ISTHMUS_LOCALITY": "static"}, timeout=2 * TIMEOUT)).out
    assert checkpoint_run(1, "restart", path).out == answer and "well" in answer

with suite.case("in containers with every namespace private"):
    inside = "unshare -Urmpuinf --mount-proc"
    if suite.run([*inside.split(), "true"]).status != 0:
        raise Skip("no namespaces may be made here")
    for name in ("arguments", "buffers", "migration", "node_groups"):
        run_program([MPIEXEC, "-n", 3, "--container", inside, FOLDER / name], 3)

# --- what does not compile

with suite.case("views as arguments are refused by the compiler, with a sentence"):
    for view in ("std::string_view", "std::span<const int>"):
        source = suite.tmp / "view.cpp"
        source.write_text(
            "#include <isthmus/chare.hpp>\n#include <span>\n#include <string_view>\n"
            f"struct Cell : isthmus::chare::Chare {{ void take({view}) {{}} }};\n"
            f"int main() {{ return isthmus::chare::run([] {{ isthmus::chare::Group<Cell>::create()[0].invoke<&Cell::take>({view}()); }}); }}\n"
        )
        result = compile_program(source, suite.tmp / "view")
        assert result.status != 0 and "a view is the address of what others own" in result.text, result
# --- the page

page = (ROOT / "docs/chares.md").read_text()
programs = re.findall(r"^```cpp\n(.*?)^```\n+prints, with `(mpiexec [^`]*)`:\n+```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
with suite.case("the programs of docs/chares.md print what the page says"):
    assert programs, "no program was found in docs/chares.md"
    for number, (text, command, printed) in enumerate(programs):
        source = suite.tmp / f"page{number}.cpp"
        source.write_text(text)
        program = suite.tmp / f"page{number}"
        suite.expect(compile_program(source, program))
        words = [MPIEXEC, *shlex.split(command)[1:], program]
        result = suite.expect(suite.run(words, timeout=TIMEOUT), status=KILLED if "SIGKILL" in text else 0)
        assert sorted(result.out.splitlines()) == sorted(printed.splitlines()), result
suite.finish()
