# title: why a job is slow: isthmus trace
# timeout: 180
# about: src/trace/* src/p2p/* !src/p2p/protocol/* src/abi/core/call* src/coll/call/describe* tools/isthmus/* tools/mpiexec/* test/mpi/program/trace.c
import contextlib
import json
import os
import re
import signal
import struct
import subprocess
import sys

sys.path.insert(0, "tools/dev")
import namespaces
from suite import BUILT, PREFIX, ROOT, Skip, Suite, need

suite = Suite("trace")
MPIEXEC, ISTHMUS = PREFIX / "bin/mpiexec", PREFIX / "bin/isthmus"
PROGRAM = BUILT / "test-mpi/program_trace"
FILE = suite.tmp / "trace.json"
LATE = 60000  # us that somebody is late, in the program
BOOT = 56  # where the header of a rank's file names its kernel


def trace(way, ranks=2, *options, status=0, before=(), to_mpiexec=(), **environment):
    """What the terminal shows, and the events. `status`: None is any but 0."""
    FILE.unlink(missing_ok=True)
    command = [*before, ISTHMUS, "trace", "-o", FILE, *options, MPIEXEC, "-n", ranks, *to_mpiexec, PROGRAM, way]
    result = suite.run(command, timeout=60, env=environment)
    suite.expect(result, status=status if status is not None else result.status or 1)
    events = json.loads(FILE.read_text())["traceEvents"]
    check(events)
    return result.err, events


def check(events):
    """What holds for every timeline."""
    ends, open_slices = {}, {}
    for event in events:
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int), event
        if event["ph"] in "sf":
            assert event["ph"] not in ends.setdefault(event["id"], {}), f"twice: {event}"
            ends[event["id"]][event["ph"]] = event
        elif event["ph"] == "X":
            assert event["ts"] >= 0 and event["dur"] >= 0, event
            open_slices.setdefault((event["pid"], event["tid"]), []).append((event["ts"], -event["dur"], event["name"]))
        else:
            assert event["ph"] == "M", event
    for number, pair in ends.items():
        assert set(pair) == {"s", "f"}, f"arrow {number} has one end: {pair}"
        assert pair["s"]["ts"] <= pair["f"]["ts"], f"arrow {number} goes back in time: {pair}"
    for slices in open_slices.values():  # a slice of a thread lies within another, or beside it
        stack = []
        for begin, minus, name in sorted(slices):
            end = begin - minus
            while stack and stack[-1] <= begin + 0.0005:
                stack.pop()
            assert not stack or end <= stack[-1] + 0.0015, f"{name} at {begin} overlaps another"
            stack.append(end)


def named(events, pattern, rank=None):
    return [event for event in events if event["ph"] == "X" and re.fullmatch(pattern, event["name"]) and rank in (None, event["pid"])]


def messages(events, **arguments):
    """Messages that have arrived, each once."""
    return [event["args"] for event in named(events, r"from rank \d+") if arguments.items() <= event["args"].items()]


with suite.case("the program compiles"):
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    command = [PREFIX / "bin/mpicc", "-g", "-Wall", "-Wextra", "-Werror", ROOT / "test/mpi/program/trace.c", "-o", PROGRAM, "-lpthread"]
    suite.expect(suite.run(command, timeout=120))

with suite.case("a late sender: who waited for whom, how long, and the copy apart"):
    text, events = trace("sender")
    assert re.search(r"ms  rank 0 for rank 1 \(late sender\), in MPI_Recv", text), text
    (wait,) = named(events, r"waits for rank 1 \(late sender\)", 0)
    assert wait["dur"] > LATE / 2, wait
    (copy,) = [each for each in named(events, "copies", 0) if abs(each["ts"] - wait["ts"] - wait["dur"]) < 0.01]
    assert copy["dur"] > 0, copy
    (message,) = messages(events, tag=7)
    assert (message["from"], message["to"], message["bytes"], message["communicator"]) == (1, 0, 4 << 20, "MPI_COMM_WORLD"), message

with suite.case("the way of a message is the one that it took"):
    _, events = trace("sender", ISTHMUS_CMA="off", ISTHMUS_MAPPING="off")
    (by_ring,) = messages(events, tag=7)
    assert by_ring["way"] == "rendezvous, pipelined through the ring", by_ring
    _, events = trace("receiver")
    (short,) = messages(events, tag=7)
    assert short["way"].startswith("eager"), short

with suite.case("a late sender, in MPI_Probe"):
    text, events = trace("probed")
    assert re.search(r"rank 0 for rank 1 \(late sender\), in MPI_Probe", text), text
    (wait,) = named(events, r"waits for rank 1 \(late sender\)", 0)
    assert wait["dur"] > LATE / 2, wait

with suite.case("a late receiver"):
    text, events = trace("receiver")
    assert re.search(r"rank 0 for rank 1 \(late receiver\), in MPI_Ssend", text), text
    (wait,) = named(events, r"waits for rank 1 \(late receiver\)", 0)
    assert wait["dur"] > LATE / 2, wait

with suite.case("a late member of a collective, whose number and communicator are told"):
    text, events = trace("member", 3)
    assert re.search(r"rank [01] for rank 2 \(came last\), in MPI_Allreduce 1 on the \?others\?", text), text
    assert len(named(events, r"waits for rank 2 \(came last\)")) >= 2
    calls = named(events, "MPI_Allreduce")
    assert [call["args"]["number"] for call in calls] == [1, 1, 1], calls
    assert not [event for event in named(events, r"waits for .*", 2) if event["dur"] > LATE / 2]



def long_waits(events):
    """(who, what) of waits that are as long as the program's lateness."""
    waits = [event for event in named(events, "waits for .*") if event["dur"] > LATE / 2]
    return sorted((event["pid"], event["name"]) for event in waits)


with suite.case("a late member of a scan makes those above it wait, and no others"):
    text, events = trace("scan", 3)
    assert re.search(r"rank 2 for rank 1 \(came last\), in MPI_Scan 2 on ", text), text
    assert long_waits(events) == [(2, "waits for rank 1 (came last)")], long_waits(events)

for way, call in (("neighbour", "MPI_Neighbor_allgather"), ("neighbour of wait", "MPI_Wait")):
    with suite.case(f"a late neighbour makes those wait that have data of it: {call}"):
        text, events = trace(way, 4)
        assert re.search(rf"rank 2 for rank 1 \(late neighbour\), in {call}", text), text
        waits = [wait for wait in long_waits(events) if "neighbour" in wait[1]]
        assert waits == [(2, "waits for rank 1 (late neighbour)")], waits

NETWORK = {"ISTHMUS_LOCALITY": "static"}
for name, into, environment in (("in shared memory", [], {}), ("over the network", ["--hosts", "a,b,c", "--launcher", suite.tmp / "here"], NETWORK)):
    with suite.case(f"waits for collectives that do not block have their causes, {name}"):
        if into and not (PREFIX / "lib/isthmus/libisthmus_network.so").exists():
            raise Skip("the network library was not built")
        here = suite.tmp / "here"
        here.write_text('#!/bin/sh\nexec sh -c "$2"\n')
        here.chmod(0o755)
        text, events = trace("nonblocking", 3, to_mpiexec=into, **environment)
        assert re.search(r"rank [01] for rank 2 \(came last\), in MPI_Wait,", text), text
        assert re.search(r"rank [12] for rank 0 \(late root\), in MPI_Waitall,", text), text
        last, root = "waits for rank 2 (came last)", "waits for rank 0 (late root)"
        assert long_waits(events) == [(0, last), (1, root), (1, last), (2, root)], long_waits(events)

with suite.case("each start of a persistent collective is one of its own, whatever the length of the function's name"):
    text, events = trace("persistent", 3)
    assert long_waits(events) == [(rank, "waits for rank 1 (came last)") for rank in (0, 2)], long_waits(events)
    second = [named(events, "MPI_Start", rank)[1]["ts"] for rank in (0, 2)]
    third = [named(events, "MPI_Start", rank)[2]["ts"] for rank in (0, 2)]
    for event in named(events, r"waits for rank 1 .*"):
        if event["dur"] > LATE / 2:
            index = (0, 2).index(event["pid"])
            assert second[index] < event["ts"] < third[index], event
    assert len(named(events, "MPI_Reduce_scatter_block_init")) == 3

with suite.case("messages of one envelope are paired in their order, whatever completes first"):
    _, events = trace("crossed")
    sent = {event["args"]["bytes"] for event in named(events, "to rank 1", 0) if event["args"]["tag"] in (3, 4)}
    assert sent == {4 << 20, 8, 100, 200}, sent
    arrows = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    at = {event["ts"]: event["args"]["bytes"] for event in named(events, "from rank 0", 1)}
    by_send = {event["ts"]: event["args"]["bytes"] for event in named(events, "to rank 1", 0)}
    assert all(at[ends[number]["ts"]] == by_send[arrow["ts"]] for number, arrow in arrows.items() if arrow["ts"] in by_send)
    took = [event for event in named(events, "from rank 0", 1) if event["args"]["tag"] == 4]
    assert [event["args"]["bytes"] for event in sorted(took, key=lambda event: event["ts"])] == [200, 100], took

with suite.case("MPI_THREAD_MULTIPLE: each thread has a line, and all messages are paired"):
    _, events = trace("threads")
    assert {event["tid"] for event in named(events, "MPI_Send", 0)} == {1, 2}
    assert len(messages(events, tag=20)) == len(messages(events, tag=21)) == 50

with suite.case("a job that is killed can be read up to there"):
    text, events = trace("killed", status=3)
    assert re.search(r"rank 0 for rank 1 \(late sender\), in MPI_Recv", text), text
    (call,) = named(events, "MPI_Recv", 0)
    assert "no" in call["args"]["ended"], call

with suite.case("a full file says what is missing, and what there is is paired"):
    text, events = trace("many", 2, "--limit", "64K")
    assert re.search(r"rank 0: \d+ events are missing", text), text
    assert len(messages(events, tag=1)) > 100

with suite.case("--summary-only, --from and --to"):
    _, events = trace("sender", 2, "--from", 100)
    assert not named(events, ".*")
    FILE.unlink()
    result = suite.run([ISTHMUS, "trace", "--summary-only", MPIEXEC, "-n", 2, PROGRAM, "sender"], timeout=60, cwd=suite.tmp)
    suite.expect(result, err="in MPI")
    assert not list(suite.tmp.glob("*.json"))

with suite.case("clocks of several kernels are aligned by the messages, whatever the time of day says"):
    apart = suite.tmp / "apart"
    apart.mkdir()
    suite.expect(suite.run([MPIEXEC, "-n", 2, PROGRAM, "pingpong"], timeout=60, env={"ISTHMUS_TRACE": apart}))
    file = apart / "rank-1.trace"
    for ahead in (5 * 10**9, -3 * 10**5):
        whole = bytearray(file.read_bytes())
        whole[BOOT] = ord("x")
        for at in range(4096, len(whole), 64):  # kind, thread, time
            kind, thread, time = struct.unpack_from("<IIq", whole, at)
            if kind == 0:
                break
            struct.pack_into("<q", whole, at + 8, time + ahead)
        (apart / "rank-1.trace").write_bytes(whole)
        result = suite.run([ISTHMUS, "trace", "-o", FILE, "--read", apart])
        suite.expect(result, err=r"on 2 kernels: their clocks are aligned by the messages between them, to \d+\.\d us\.$")
        events = json.loads(FILE.read_text())["traceEvents"]
        check(events)
        (label,) = [event["args"]["labels"] for event in events if event["name"] == "process_labels"]
        error = float(re.fullmatch(r"clock to ([\d.]+) us", label)[1])
        spans = [[event["ts"] for event in named(events, "MPI_Send|MPI_Recv", rank)] for rank in (0, 1)]
        assert error < LATE / 10 and abs(min(spans[0]) - min(spans[1])) < LATE, (error, spans[0][:2], spans[1][:2])

with suite.case("files that a job has left, whole, cut, damaged and of something else"):
    left = suite.tmp / "left"
    left.mkdir()
    suite.expect(suite.run([MPIEXEC, "-n", 2, PROGRAM, "sender"], timeout=60, env={"ISTHMUS_TRACE": left}))
    read = [ISTHMUS, "trace", "-o", FILE, "--read", left]
    suite.expect(suite.run(read), err="late sender")
    check(json.loads(FILE.read_text())["traceEvents"])
    whole = (left / "rank-0.trace").read_bytes()
    for name, content, sentence in (
        ("cut", whole[: 4096 + 64 * 5 + 17], "no other end in the trace"),
        ("damaged", whole[:4160] + b"\xff" * 64 + whole[4224:], "is damaged"),
        ("short", whole[:100], "too short"),
        ("other", b"x" * 5000, "no trace of a rank"),
        ("empty", b"", "too short"),
    ):
        (left / "rank-0.trace").write_bytes(content)
        result = suite.run(read)
        suite.expect(result, err=sentence)
        check(json.loads(FILE.read_text())["traceEvents"])
    # Not overwritten: a second job is not traced there, says so, and runs.
    suite.expect(suite.run([MPIEXEC, "-n", 2, PROGRAM, "sender"], timeout=60, env={"ISTHMUS_TRACE": left}), err="is not traced: cannot make")

# --- ranks that do not see the folder ----------------------------------------------------------------------------------------------

# Where `isthmus trace` makes its folder. Hosts and containers have another one there.
PRIVATE = suite.tmp / "private"
PRIVATE.mkdir()
ALONE = f"unshare -Urmpuinf --mount-proc sh -c 'mount -t tmpfs mine {PRIVATE}; exec \"$@\"' sh"
NOWHERE = {"ISTHMUS_TRACE": "/nowhere"}
can_unshare = suite.run(["sh", "-c", ALONE + " true"]).status == 0
has_network = (PREFIX / "lib/isthmus/libisthmus_network.so").exists()
no_hosts = namespaces.why_not() if has_network else "the network library was not built"


def expect_both_ranks(text, events):
    assert not re.search(r"Only \d|not traced|damaged", text), text
    for rank in (0, 1):
        assert named(events, "MPI_.*", rank), (rank, text)
    assert not list(PRIVATE.iterdir())


for name, options in (("inherits a descriptor", []), ("gets a file in the folder of --rendezvous", ["--rendezvous", suite.tmp])):
    with suite.case(f"ranks in containers with folders of their own: each {name}"):
        if not can_unshare:
            raise Skip("namespaces cannot be made here")
        into = [*options, "--container", ALONE]
        text, events = trace("sender", to_mpiexec=into, TMPDIR=str(PRIVATE))
        assert re.search(r"rank 0 for rank 1 \(late sender\), in MPI_Recv", text), text
        expect_both_ranks(text, events)
        text, events = trace("killed", status=3, to_mpiexec=into, TMPDIR=str(PRIVATE))
        expect_both_ranks(text, events)
        result = suite.run([MPIEXEC, "-n", 2, *into, PROGRAM, "sender"], timeout=60, env=NOWHERE)
        suite.expect(result, err=r"rank 0 is not traced: cannot make /nowhere/rank-0\.trace: No such file or directory \(ISTHMUS_TRACE\)")
        assert result.err.count("not traced") == 2, result
        assert not list(suite.tmp.glob("isthmus.*"))

with contextlib.ExitStack() as stack:
    hosts = None if no_hosts else stack.enter_context(namespaces.Hosts(2))

    def over(way, **more):
        to = ["--hosts", "h1,h2", "--launcher", hosts.launcher]
        return trace(way, before=hosts.head, to_mpiexec=to, TMPDIR=str(PRIVATE), **more)

    def left_on_hosts():
        return [suite.run([*hosts.on(name), "find", PRIVATE, "-mindepth", "1"]).out for name in hosts.names]

    with suite.case("ranks on other hosts, whose folders are their own: all that they have written comes back"):
        need(no_hosts)
        for name in hosts.names:
            suite.expect(suite.run([*hosts.on(name), "mount", "-t", "tmpfs", "mine", PRIVATE]))
        text, events = over("sender")
        assert re.search(r"rank 0 for rank 1 \(late sender\), in MPI_Recv", text), text
        expect_both_ranks(text, events)
        (message,) = messages(events, tag=7)
        assert (message["from"], message["to"], message["bytes"]) == (1, 0, 4 << 20), message
        text, events = over("many")
        expect_both_ranks(text, events)
        assert len(messages(events, tag=1, bytes=8)) == 3000, text
        assert left_on_hosts() == ["", ""], left_on_hosts()

    with suite.case("a rank that ends without MPI_Finalize on another host has written up to there"):
        need(no_hosts)
        text, events = over("killed", status=None)  # whoever hears of it first ends the job
        expect_both_ranks(text, events)
        assert named(events, "MPI_Barrier", 1), text
        assert left_on_hosts() == ["", ""], left_on_hosts()

    with suite.case("a folder in which mpiexec cannot write is named, and the job goes on"):
        need(no_hosts)
        command = [*hosts.head, MPIEXEC, "-n", 2, "--hosts", "h1,h2", "--launcher", hosts.launcher, PROGRAM, "sender"]
        result = suite.run(command, timeout=60, env=NOWHERE)
        suite.expect(result, err=r"rank 1 is not traced: cannot make /nowhere/rank-1\.trace: No such file or directory \(ISTHMUS_TRACE\)")
        assert result.err.count("not traced") == 2, result

with suite.case("what cannot be done is said"):
    suite.expect(suite.run([ISTHMUS, "trace"]), status=2, err="needs a command")
    suite.expect(suite.run([ISTHMUS, "trace", "--read", "/nowhere"]), status=1, err="No such file")
    suite.expect(suite.run([ISTHMUS, "trace", "-o", FILE, "true"]), status=1, err="no rank has written anything")
    suite.expect(suite.run([ISTHMUS, "trace", "-o", FILE, "/nowhere/x"]), status=127)
    result = suite.run([ISTHMUS, "trace", "-o", "/nowhere/x", MPIEXEC, "-n", 2, PROGRAM, "receiver"], timeout=60)
    suite.expect(result, status=1, err="cannot write /nowhere/x")

with suite.case("SIGTERM to isthmus ends the job, whose trace is read; nothing is left behind"):
    command = [ISTHMUS, "trace", "-o", FILE, "sh", "-c", f"{MPIEXEC} -n 2 {PROGRAM} receiver; trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done"]
    folder = suite.tmp / "folder"
    folder.mkdir()
    job = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder)})
    while "ready" not in (line := job.stdout.readline()):
        assert line, job.communicate()
    assert list(folder.iterdir())
    job.send_signal(signal.SIGTERM)
    _, said = job.communicate(timeout=20)
    assert job.returncode == 3 and "open it with https://ui.perfetto.dev" in said, (job.returncode, said)
    assert not list(folder.iterdir())

suite.finish()
