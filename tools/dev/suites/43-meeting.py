# title: the meeting of ranks under faults: a rank killed in each phase, strangers at its sockets
# timeout: 300
# under: asan
# about: src/launch/* src/place/* src/wire/* tools/mpiexec/*
import contextlib
import os
import random
import re
import socket
import struct
import sys
import time
import uuid
from pathlib import Path

sys.path.insert(0, "tools/dev")
import jobs
from suite import PREFIX, ROOT, Skip, Suite

suite = Suite("meeting")
MPIEXEC = PREFIX / "bin/mpiexec"
MARK = f"MEETING_SUITE_MARK={uuid.uuid4()}"  # in the environment of all that this suite starts
os.environ.update([MARK.split("=")])
program = suite.tmp / "exchange"
library = suite.tmp / "fault.so"
folder = suite.tmp / "meet"
folder.mkdir()
# Each agent of mpiexec makes memory for its ranks alone, so those of two on one machine have to meet.
launcher = suite.tmp / "here"
launcher.write_text('#!/bin/sh\nexec sh -c "$2"\n')
launcher.chmod(0o755)

# What the namespaces of the ranks leave them to meet through.
WALLS = {
    "an abstract socket": None,
    "a folder": "unshare -nim sh -c 'mount -t tmpfs shm /dev/shm; exec \"$@\"' sh",
    "a System V segment": "unshare -nm sh -c 'mount -t tmpfs shm /dev/shm; exec \"$@\"' sh",
}


def command(meeting, **faults):
    """Two ranks that exchange contents up to 64 KiB; FAULT_0 and FAULT_1 say what happens to them, see fault.c."""
    words = [MPIEXEC, "--launcher", launcher, "--hosts", "a,b", "--head-address", "127.0.0.1", "-x", f"LD_PRELOAD={library}"]
    for name, value in faults.items():
        words += ["-x", f"{name}={value}"]
    if meeting == "a folder":
        words += ["-x", f"ISTHMUS_RENDEZVOUS_DIR={folder}"]
    if WALLS[meeting]:
        words += ["--container", WALLS[meeting]]
    return [*words, program, 65536]


def need(meeting):
    if WALLS[meeting] and suite.run(["unshare", "-nim", "true"]).status != 0:
        raise Skip("namespaces cannot be made here")


def expect_exchange(result):
    suite.expect(result, status=0)
    assert result.out.count(" 0 wrong, shares memory with 2 of 2") == 2, result


@contextlib.contextmanager
def nothing_left():
    """No process, file or segment but for sockets in the folder: nobody is left who could remove those, so the next job does."""
    segments = jobs.segments()
    yield
    jobs.vanish(lambda: jobs.marked_processes(MARK))
    assert not jobs.shared_files(), jobs.shared_files()
    assert jobs.segments() <= segments, jobs.segments() - segments
    others = [path for path in folder.iterdir() if not path.is_socket()]
    assert not others, others


with suite.case("the program and the faults are built"):
    suite.expect(suite.run([PREFIX / "bin/mpicc", "-O1", ROOT / "test/places/exchange.c", "-o", program], timeout=60))
    flags = "-O1 -fPIC -shared -Wall -Wextra -Werror".split()
    suite.expect(suite.run(["cc", *flags, ROOT / "test/places/fault.c", "-o", library, "-ldl"], timeout=60))

# --- kill -9 -----------------------------------------------------------------------------------------------------------------------------

KILLS = [
    ("an abstract socket", 0, "opens its broker", "listen:1"),
    ("an abstract socket", 1, "publishes its place", "send:6"),
    ("an abstract socket", 0, "waits for the others' places", "recv:7"),
    ("an abstract socket", 1, "asks", "connect:1"),
    ("an abstract socket", 1, "has asked", "recvmsg:1"),
    ("an abstract socket", 0, "is asked", "recvmsg:1"),
    ("an abstract socket", 0, "founds the region", "memfd_create:1"),
    ("an abstract socket", 0, "has founded half of it", "ftruncate:1"),
    ("an abstract socket", 0, "hands the region on", "sendmsg:1"),
    ("a folder", 0, "opens its broker there", "bind:2"),
    ("a folder", 1, "has a file there that nobody serves", "listen:2"),
    ("a folder", 1, "asks there", "connect:2"),
    ("a folder", 0, "hands the region on", "sendmsg:1"),
    ("a folder", 0, "clears its socket away", "unlink:1"),
    ("a System V segment", 0, "makes the segment", "shmget:1"),
    ("a System V segment", 1, "looks at it", "shmctl:1"),
    ("a System V segment", 1, "enters it", "shmat:1"),
]


def expect_killed(meeting, victim, **faults):
    """Several tries on a busy machine for an end within 3 s."""
    for attempt in range(3):
        result = suite.run(command(meeting, **faults), timeout=30)
        line = rf"mpiexec: rank {victim} \(pid \d+\) on host [ab] killed by signal 9 \(Killed\); ending the job\n"
        if WALLS[meeting]:  # the container's own process is what mpiexec sees, and it may have its own status for that
            line = rf"mpiexec: rank {victim} \(pid \d+\) on host [ab] (killed by signal 9 \(Killed\)|exited with code \d+); ending the job\n"
        assert result.status == 137 and re.fullmatch(line, result.err) and not result.out, result
        if result.seconds < 3:
            return
    raise AssertionError(result)


for meeting in WALLS:
    with suite.case(f"ranks meet through {meeting}"):
        need(meeting)
        with nothing_left():
            expect_exchange(suite.run(command(meeting), timeout=30))
        assert not list(folder.iterdir()), list(folder.iterdir())

for meeting, victim, doing, call in KILLS:
    with suite.case(f"through {meeting}: kill -9 of rank {victim} as it {doing} ends the job in one line"):
        need(meeting)
        with nothing_left():
            expect_killed(meeting, victim, **{f"FAULT_{victim}": f"{call}:kill"})

for meeting in WALLS:
    with suite.case(f"where a rank may open few files, it meets the others through {meeting}, or says what it lacks"):
        need(meeting)
        if os.environ.get("DEV_SANITIZER"):
            raise Skip("a sanitizer opens files of its own")
        for most in (*range(8, 24), 30, 40):
            *before, exchange, bytes_of_content = command(meeting)
            result = suite.run([*before, "sh", "-c", f"ulimit -n {most}; exec {exchange} {bytes_of_content}"], timeout=20)
            if result.status != 0:
                assert most < 30, result
                suite.expect(result, status=39, err="this process may not open 16 more files, which meeting the other ranks needs")

with suite.case("kill -9 of rank 1 as it waits for the roster, which rank 0 has not entered, ends the job in one line"):
    need("a folder")
    with nothing_left():
        expect_killed("a folder", 1, FAULT_0="unlink:1:wait", FAULT_1="nanosleep:1:kill")

with suite.case("kill -9 of rank 0 while rank 1 waits for it in the roster ends the job in one line"):
    need("a folder")
    with nothing_left():
        expect_killed("a folder", 0, FAULT_0="unlink:2:kill", FAULT_1="nanosleep:1:wait")

with suite.case("sockets that killed ranks have left in the folder are removed by the next job"):
    need("a folder")
    left = list(folder.iterdir())
    assert left, "no killed rank has left one: this proves nothing"
    for path in left:
        os.utime(path, (time.time() - 60,) * 2)  # younger ones may be sockets whose owner is about to listen
    expect_exchange(suite.run(command("a folder"), timeout=30))
    assert not list(folder.iterdir()), list(folder.iterdir())

# --- strangers ---------------------------------------------------------------------------------------------------------------------------

GARBAGE = b"GET / HTTP/1.1\r\n\r\n" * 100


def visit(path, reply, greeting):
    """What a rank says to a broker (wire/visit.hpp), but for the proof that it has the key. Magic number and version are those of
    the broker's greeting: only what the stranger cannot know is wrong."""
    magic, version = struct.unpack_from("<QI", greeting)
    number = int(re.search(r"isthmus-([0-9a-f]{16})", path.name)[1], 16)
    inode = os.fstat(reply.fileno()).st_ino
    request = struct.pack("<QIIQII16sQQ", magic, version, 1, number, 1, 0, os.urandom(16), inode, random.getrandbits(64))
    assert len(greeting) == 32 and len(request) == 64, (greeting, request)
    return request


def knock(path, said=b"", reply=None):
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stranger.settimeout(5)
    stranger.connect(str(path))
    if said:
        socket.send_fds(stranger, [said], [reply] if reply is not None else [])
    return stranger


def heard(stranger):
    """All that comes until the other side hangs up: packets, and descriptors beside them."""
    packets, descriptors = [], []
    with contextlib.suppress(ConnectionResetError):
        while True:
            data, found, _, _ = socket.recv_fds(stranger, 4096, 4)
            descriptors += found
            if not data:
                break
            packets.append(data)
    return packets, descriptors


with suite.case("strangers without the key, with garbage, or silent get nothing, and the ranks meet all the same"):
    need("a folder")
    with nothing_left(), contextlib.ExitStack() as stack:
        # Rank 0 is held before it makes the region, both with their sockets open.
        held = command("a folder", FAULT_0="memfd_create:1:wait")
        process, out = stack.enter_context(jobs.running(held, suite.tmp / "out", said="", times=1))
        jobs.vanish(lambda: len(list(folder.glob("*.meet"))) < 2)
        loud = []
        for path in folder.glob("*.meet"):
            mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            mine.settimeout(5)
            stack.enter_context(mine)
            stack.enter_context(knock(path))
            visitor = stack.enter_context(knock(path))
            request = visit(path, theirs, visitor.recv(4096))
            socket.send_fds(visitor, [request], [theirs.fileno()])
            loud.append((visitor, mine))
            loud.append((stack.enter_context(knock(path, GARBAGE)), None))
            theirs.close()
        for stranger, reply in loud:
            packets, descriptors = heard(stranger)
            assert not descriptors, packets
            # Brokers greet whoever comes.
            assert all(len(packet) == 32 for packet in packets) and len(packets) <= 1, packets
            assert reply is None or heard(reply) == ([], []), "a stranger was answered"
        assert process.wait(20) == 0, out.read_text()
        text = Path(out).read_text()
        assert text.count(" 0 wrong, shares memory with 2 of 2") == 2 and "warning" not in text, text
    assert not list(folder.iterdir()), list(folder.iterdir())

suite.finish()
