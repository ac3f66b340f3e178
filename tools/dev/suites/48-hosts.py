# title: ranks on several hosts, through a launcher, with PMI-1
# timeout: 240
# under: asan
# runs: mpi_abi mpiexec isthmus_network launch_probe
# about: src/channel/network/* src/launch/* src/p2p/*network* src/coll/*host* tools/mpiexec/*
import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, "tools/dev")
import jobs
from cable import CableRefused
from cgroup import Cgroup, CgroupRefused
from namespaces import Hosts, why_not
from suite import BUILT, PREFIX, ROOT, Skip, Suite, need

suite = Suite("hosts")
MPIEXEC = PREFIX / "bin/mpiexec"
PROBE = BUILT / "test/launch/launch_probe"
no_hosts = why_not()


def script(name, text):
    path = suite.tmp / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


# A launcher whose hosts are all this one; the words of each call are kept in files.
HERE = script("here", f'echo "$2" > {suite.tmp}/call.$1; exec sh -c "$2"\n')


def expect_lines(result, lines, **options):
    suite.expect(result, **options)
    assert sorted(result.out.splitlines()) == sorted(lines), result


def running(command, ranks):
    """A job whose ranks each say "up" and a number of theirs."""
    return jobs.running(command, suite.tmp / "running", said="up ", times=ranks)


def vanish(command, seconds=5.0):
    """Waits until `command` (a pgrep) finds nothing."""
    jobs.vanish(lambda: suite.run(command).out, seconds)


def marked(seconds):
    """A program that says "up" and sleeps, and how to find it: nobody else sleeps that long, another run of this suite neither."""
    seconds = f"{seconds}.{os.getpid()}"
    return ["sh", "-c", f"echo up $$; exec sleep {seconds}"], ["pgrep", "-f", f"^sleep {seconds}$"]


# --- without hosts -------------------------------------------------------------------------------------------------------------------


def local(*words, launcher=HERE, timeout=20, **options):
    return suite.run([MPIEXEC, "--launcher", launcher, *words], timeout=timeout, **options)


with suite.case("ranks go in blocks by the hosts' slots, several programs too"):
    show = ["sh", "-c", "echo $0 $ISTHMUS_WORLD_RANK/$ISTHMUS_WORLD_SIZE $ISTHMUS_LOCAL_RANK/$ISTHMUS_LOCAL_SIZE"]
    expect_lines(local("-n", 3, "--hosts", "a,b:2", *show, "x"), ["x 0/3 0/1", "x 1/3 0/2", "x 2/3 1/2"])
    expect_lines(local("-n", 4, "--hosts", "a,b", *show, "x"), ["x 0/4 0/2", "x 1/4 1/2", "x 2/4 0/2", "x 3/4 1/2"])
    expect_lines(local("--hosts", "a,b:2", *show, "x"), ["x 0/3 0/1", "x 1/3 0/2", "x 2/3 1/2"])
    expect_lines(local("-n", 1, "--hosts", "a:3,b", *show, "x"), ["x 0/1 0/1"])
    result = local("--hosts", "a:2,b:2", "-n", 1, *show, "x", ":", "-n", 3, *show, "y")
    expect_lines(result, ["x 0/4 0/2", "y 1/4 1/2", "y 2/4 0/2", "y 3/4 1/2"])

with suite.case("so do the variables of other launchers, and how many ranks each program has on all hosts"):
    numbers = "$OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK/$OMPI_COMM_WORLD_LOCAL_SIZE"
    numbers += " $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS $ISTHMUS_APP_SIZE"
    result = local("--hosts", "a:2,b:2", "-n", 1, "sh", "-c", f"echo {numbers}", ":", "-n", 3, "sh", "-c", f"echo {numbers}")
    expect_lines(result, [f"{rank}/4 {rank % 2}/2 {rank}/4 {rank % 2}/2 {3 if rank else 1}" for rank in range(4)])
    result = local("--hosts", "a,b", "--no-compat-env", "sh", "-c", "echo x$OMPI_COMM_WORLD_RANK$MPI_LOCALRANKID")
    expect_lines(result, ["x", "x"])

with suite.case("the same from a host file"):
    (suite.tmp / "hosts").write_text("# ours\n\na slots=2 # two\nb:1\n")
    show = ["sh", "-c", "echo $ISTHMUS_WORLD_RANK $ISTHMUS_LOCAL_SIZE"]
    expect_lines(local("--hostfile", suite.tmp / "hosts", *show), ["0 2", "1 2", "2 1"])

with suite.case("names, slots, files and commands that make no sense are refused"):
    for words, text in (
        (["--hosts", "a,,b"], "not the name of a host"),
        (["--hosts", "a:0"], "slots are a whole number"),
        (["--hosts", "a:x"], "slots are a whole number"),
        (["--hosts", "-oProxyCommand=x"], "not the name of a host"),
        (["--hostfile", "/nowhere"], "No such file"),
        (["--launcher", "x '"], "not closed"),
    ):
        suite.expect(suite.run([MPIEXEC, *words, "true"]), status=2, err=text)
    suite.expect(suite.run([MPIEXEC, "--agent", "0"]), status=1, err="see --hosts")

with suite.case("arguments, variables and the folder arrive as they are"):
    words = ["a b", "'", '"$HOME"', "*", "", "\\n;&|"]
    result = local("-n", 2, "--hosts", "a,b", "-x", "ODD=it's $x", "sh", "-c", 'printf "<%s>" "$@" "$ODD" "$PWD"; echo', "sh", *words)
    expect_lines(result, ["".join(f"<{w}>" for w in [*words, "it's $x", os.getcwd()])] * 2)
    folder = suite.tmp / "it's a folder"
    folder.mkdir()
    expect_lines(local("-n", 1, "--hosts", "a", "pwd", cwd=folder), [str(folder)])

with suite.case("a nameserver that does not answer holds no job up"):
    need(no_hosts)
    nameservers = suite.tmp / "resolv.conf"
    nameservers.write_text("nameserver 127.0.0.2\n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.2", 53))
        inside = ["unshare", "--mount", "sh", "-c", f'mount --bind {nameservers} /etc/resolv.conf && exec "$@"', "sh"]
        begun = time.monotonic()
        result = suite.run([*inside, MPIEXEC, "--launcher", HERE, "-n", 3, "--hosts", "a,b,c", "sh", "-c", "echo $ISTHMUS_WORLD_RANK"], timeout=60)
        took = time.monotonic() - begun
    expect_lines(result, ["0", "1", "2"])
    # It answers none of three names, each of which is asked for twice, for 5 s.
    assert took < 8, took

with suite.case("the key is on no command line"):
    for call in suite.tmp.glob("call.*"):
        assert not re.search(r"[0-9a-f]{32}", call.read_text()), call.read_text()

with suite.case("rank 0 gets the standard input, all of it, the others none"):
    text = "".join(f"line {i}\n" for i in range(30000))
    result = local("-n", 2, "--hosts", "a,b", "sh", "-c", "cat | cksum", stdin=text)
    empty = suite.run(["cksum"]).out
    expect_lines(result, [suite.run(["cksum"], stdin=text).out.strip(), empty.strip()])

with suite.case("much output arrives whole, with tags where they are wanted"):
    result = local("-n", 4, "--hosts", "a:2,b:2", "--tag-output", PROBE, "flood=300000")
    suite.expect(result)
    lines = result.out.splitlines()
    assert len(lines) >= 4 * 3000 and all(re.fullmatch(r"\[(\d)\] ([a-d])\2* rank 10\1", line) for line in lines), lines[:5]

for reader in (["cat"], ["sleep", "100"]):
    with suite.case(f"ranks that print at full speed to {reader[0]} do not keep --timeout: the end within 4 s, in 200 MiB, with all agents"):
        for mode in ("--tag-output", "--output=lines"):
            for attempt in range(3):  # a busy machine gets several tries
                command = [MPIEXEC, "--launcher", HERE, "--hosts", "a,b", mode, "--timeout", 1, "-n", 8, "bash", "-c", f"exec -a loud.{os.getpid()} yes"]
                status, seconds, memory, err = jobs.printing(command, reader)
                assert status == 124 and re.search("--timeout", err) and memory < 200, (mode, status, seconds, memory, err)
                assert err.count("is lost") == (1 if reader[0] == "sleep" else 0), err
                if seconds < 4:
                    break
            assert seconds < 4, (mode, seconds)
            vanish(["pgrep", "-f", f"^loud.{os.getpid()}"])

with suite.case("a reader that pauses for longer than a silent agent is put up with gets all of an orderly job's output"):
    reader = f"import os, time\ntime.sleep(9)\nn = 0\nwhile part := os.read(0, 65536):\n  n += part.count(b'\\n')\nopen('{suite.tmp}/lines', 'w').write(str(n))"
    (suite.tmp / "pauses.py").write_text(reader)
    command = f"{MPIEXEC} --launcher {HERE} --hosts a,b --output lines -n 2 sh -c 'yes | head -n 2000000' | {sys.executable} {suite.tmp}/pauses.py; echo ${{PIPESTATUS[0]}}"
    suite.expect(suite.run(["bash", "-c", command]), out="^0$")
    assert (suite.tmp / "lines").read_text() == "4000000", (suite.tmp / "lines").read_text()

with suite.case("ranks find their places in regions of their own"):
    result = local("-n", 4, "--hosts", "a:2,b:2", PROBE, "join", "report", "finalize")
    suite.expect(result)
    for rank in range(4):
        suite.expect(result, out=rf"^rank={rank} size=4 singleton=0 .*appnum=0 .*pid_is_mine=1$")

with suite.case("a code after MPI_Finalize leaves the ranks of all hosts the time to print, whose region ever they have met in"):
    source = suite.tmp / "late.c"
    source.write_text(
        "#include <mpi.h>\n#include <stdio.h>\n#include <unistd.h>\n"
        "int main(int argc, char** argv) {\n  MPI_Init(&argc, &argv);\n  int rank;\n  MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n"
        '  MPI_Finalize();\n  if (rank != 2) usleep(300000);\n  printf("result of %d\\n", rank);\n  return rank == 2 ? 6 : 0;\n}\n'
    )
    suite.expect(suite.run([PREFIX / "bin/mpicc", source, "-o", suite.tmp / "late"]))
    has_network = (PREFIX / "lib/isthmus/libisthmus_network.so").exists()
    for locality in ("dynamic", "static") if has_network else ("dynamic",):
        result = local("--hosts", "a:2,b:2", "-n", 4, suite.tmp / "late", env={"ISTHMUS_LOCALITY": locality})
        suite.expect(result, status=6, err=r"rank 2 \(pid \d+\) on host b exited with code 6 after MPI_Finalize")
        assert sorted(result.out.splitlines()) == [f"result of {rank}" for rank in range(4)], result

with suite.case("exit statuses are those of one host, with the host that has failed in the line"):
    def fails(status, err, action, *, options=()):
        result = local("-n", 4, *options, "--hosts", "a:2,b:2", PROBE, "join", f"2:{action}", "sleep=30", timeout=10)
        suite.expect(result, status=status, err=err, within=5)
        assert result.err.count("mpiexec:") == 1, result

    fails(3, r"^mpiexec: rank 2 \(pid \d+\) on host b exited with code 3; ending the job$", "exit=3")
    fails(134, r"^mpiexec: rank 2 \(pid \d+\) on host b killed by signal 6 \(Aborted", "signal=6")
    fails(1, r"^mpiexec: rank 2 \(pid \d+\) on host b exited without MPI_Finalize; ending the job$", "exit=0")
    fails(7, r"^mpiexec: rank 2 \(pid \d+\) on host b aborted the job with code 7$", "abort=7")
    # A rank that has lost another aborts with this code, and may be heard of before the other one's end.
    lost = ("--hosts", "a,b", PROBE, "join", "1:abort=58", "0:sleep=0.4")
    suite.expect(local("-n", 2, *lost, "0:exit=7"), status=7, err=r"^mpiexec: rank 0 \(pid \d+\) on host a exited with code 7; ending the job$")
    suite.expect(local("-n", 2, *lost, "sleep=30", timeout=10), status=58, err=r"^mpiexec: rank 1 \(pid \d+\) on host b aborted the job with code 58$")
    suite.expect(local("-n", 2, "--hosts", "a,b", "no-such-program"), status=127, err=r"^mpiexec: host [ab]: no-such-program: command not found$")
    suite.expect(local("-n", 2, "--hosts", "a,b", "--wdir", "/nowhere", "true"), status=1, err=r"host [ab]: --wdir /nowhere: No such file")

with suite.case("--timeout, signals and two Ctrl-C end all ranks"):
    program, find = marked(1701)
    begin = time.monotonic()
    suite.expect(local("-n", 2, "--hosts", "a,b", "--timeout", 0.5, *program), status=124, err="--timeout", within=5)
    vanish(find)
    for signals, status in (([signal.SIGTERM], 143), ([signal.SIGINT], -signal.SIGINT)):
        with running([MPIEXEC, "--launcher", HERE, "--hosts", "a,b", *program], 2) as (process, out):
            for each in signals:
                process.send_signal(each)
            assert process.wait(5) == status, (process.returncode, out.read_text())
        vanish(find)
    stubborn = ["sh", "-c", f"trap '' INT; echo up $$; sleep 1702.{os.getpid()} & wait"]
    with running([MPIEXEC, "--launcher", HERE, "--hosts", "a,b", *stubborn], 2) as (process, out):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == -signal.SIGINT, (process.returncode, out.read_text())
    vanish(["pgrep", "-f", f"^sleep 1702.{os.getpid()}$"])

with suite.case("kill -9 of mpiexec leaves no agent and no rank"):
    program, find = marked(1703)
    with running([MPIEXEC, "--launcher", HERE, "--hosts", "a,b", *program], 2) as (process, out):
        process.kill()
        process.wait()
    vanish(find)

with suite.case("an agent that is killed ends the job, with its host's name"):
    program, find = marked(1704)
    with running([MPIEXEC, "--launcher", HERE, "--hosts", "a,b", *program], 2) as (process, out):
        agent = suite.run(["pgrep", "-P", process.pid, "-f", "mpiexec --agent 1 "]).out.split()
        begin = time.monotonic()
        os.kill(int(agent[0]), signal.SIGKILL)
        assert process.wait(10) == 1, process.returncode
        assert time.monotonic() - begin < 5, time.monotonic() - begin
        assert re.search(r"^mpiexec: host b: .*killed by signal 9|^mpiexec: host b: .*lost", out.read_text(), re.M), out.read_text()
    vanish(find)

with suite.case("an agent that is stopped ends the job within 10 s"):
    program, find = marked(1705)
    with running([MPIEXEC, "--launcher", HERE, "--hosts", "a,b", *program], 2) as (process, out):
        agent = int(suite.run(["pgrep", "-P", process.pid, "-f", "mpiexec --agent 1 "]).out.split()[0])
        os.kill(agent, signal.SIGSTOP)
        assert process.wait(10) == 1, process.returncode
        assert re.search(r"^mpiexec: host b: not heard of for 7 s", out.read_text(), re.M), out.read_text()
    vanish(find)

for most in range(4, 15, 2):
    with suite.case(f"where no more than {most} processes can be made, the job runs, or one line says what could not be started"):
        try:
            with Cgroup("pids", {"pids.max": most}) as group:
                result = suite.run([*group.inside, MPIEXEC, "--launcher", HERE, "--hosts", "a:4,b:4", "-n", 8, "sh", "-c", "exec sleep 0.1"], timeout=20)
        except CgroupRefused as why:
            raise Skip(why) from None
        if most < 12 or result.status != 0:  # two launchers are agents, each with its guard
            suite.expect(result, status=1, err=r"^mpiexec: (host [ab]: )?cannot (fork|start).*Resource temporarily unavailable")
            assert result.err.count("mpiexec:") == 1, result

with suite.case("a launcher that fails, is missing, or finds no mpiexec is said so, with the host's name"):
    suite.expect(local("-n", 2, "--hosts", "a,b", "true", launcher="sh -c 'exit 255'"), status=1, err=r"host [ab]: the launcher sh ended with status 255 before")
    suite.expect(local("-n", 1, "--hosts", "a", "true", launcher="no-such-launcher"), status=127, err=r"no-such-launcher: command not found")
    bare = script("bare", "echo not here >&2; exit 127\n")
    suite.expect(local("-n", 1, "--hosts", "a", "true", launcher=bare), status=1, err=rf"host a: .*is Isthmus installed there as here, in {PREFIX}\?")
    suite.expect(local("-n", 1, "--hosts", "a", "--head-address", "127.0.0.2:x", "true"), status=1, err=r"cannot connect to port \d+ .*--head-address")

with suite.case("ssh is asked without a password, for another host only"):
    (suite.tmp / "path").mkdir()
    shutil.move(script("ssh", f'echo "$@" > {suite.tmp}/asked; for last; do :; done; exec sh -c "$last"\n'), suite.tmp / "path")
    env = {"PATH": f"{suite.tmp}/path:{os.environ['PATH']}"}
    expect_lines(suite.run([MPIEXEC, "-n", 2, "--hosts", "localhost,n.example", "echo", "x"], env=env, timeout=20), ["x", "x"])
    asked = (suite.tmp / "asked").read_text()
    assert re.match(rf"-x -o BatchMode=yes -o ConnectTimeout=10 n\.example exec {MPIEXEC} --agent 1 \d+ ", asked), asked
    (suite.tmp / "asked").unlink()
    expect_lines(suite.run([MPIEXEC, "-n", 2, "--hosts", "localhost:2", "echo", "x"], env=env), ["x", "x"])
    assert not (suite.tmp / "asked").exists()

FAKE = """import ctypes, hashlib, os, re, socket, struct, sys, time
sodium = ctypes.CDLL("libsodium.so.23")
host, port = re.search(r"--agent (\\d+) (\\d+)", sys.argv[2]).groups()
key = sys.stdin.readline().strip()
text = lambda s: struct.pack("I", len(s)) + s.encode()
digest = lambda key, purpose, said: hashlib.blake2b(purpose + bytes(1) + said, key=bytes.fromhex(key), digest_size=32).digest()
said = b"isthlnk\\n" + struct.pack("II", 1, int(host)) + os.urandom(32)
def opening(key):
    return said + digest(key, b"isthmus opening", said)
def hello(key, version, protocol=3):
    s.sendall(opening(key))
    answer = s.recv(56, socket.MSG_WAITALL)
    state, header = ctypes.create_string_buffer(52), ctypes.create_string_buffer(24)
    sodium.crypto_secretstream_xchacha20poly1305_init_push(state, header, digest(key, b"isthmus agent", said + answer[:32]))
    body = b"\\1" + text("isthmus agent") + struct.pack("II", protocol, int(host)) + text(version)
    sealed = ctypes.create_string_buffer(len(body) + 17)
    sodium.crypto_secretstream_xchacha20poly1305_push(
        state, sealed, None, body, ctypes.c_ulonglong(len(body)), None, ctypes.c_ulonglong(0), ctypes.c_ubyte(0))
    return header.raw + struct.pack("I", len(sealed.raw)) + sealed.raw
s = socket.create_connection(("127.0.0.1", int(port)))
"""


def impostor(name, lines):
    path = suite.tmp / f"{name}.py"
    path.write_text(FAKE + lines)
    return f"{sys.executable} {path}"


with suite.case("an agent of another version is refused by name; one with a wrong key, garbage or a cut frame gets no answer"):
    fake = impostor("version", 's.sendall(hello(key, "99.1")); time.sleep(20)\n')
    suite.expect(local("-n", 1, "--hosts", "a", "true", launcher=fake), status=1, err=r"host a: there is mpiexec \(Isthmus\) 99\.1 \(protocol \d+\), here \d", within=10)
    fake = impostor("no-hello", 's.sendall(hello(key, "99.1")[:40]); s.settimeout(5); sys.exit(0)\n')
    suite.expect(local("-n", 1, "--hosts", "a", "true", launcher=fake), status=1, err="ended with status 0 before")
    for name, bytes_sent in (
        ("key", 'opening("0" * 32)'),
        ("changed", 'opening(key).replace(b"isthlnk", b"isthlnK")'),
        ("host", 'opening(key)[:12] + struct.pack("I", 7) + opening(key)[16:]'),
        ("garbage", 'b"GET / HTTP/1.1\\r\\n\\r\\n" * 500'),
        ("huge", 'struct.pack("I", 2**32 - 1) * 20'),
    ):
        fake = impostor(name, f"s.sendall({bytes_sent})\ns.settimeout(5)\nsys.exit(17 if not s.recv(100) else 18)\n")
        result = local("-n", 1, "--hosts", "a", "true", launcher=fake)
        suite.expect(result, status=1, err=r"somebody without the job's key has connected")
        suite.expect(result, status=1, err=r"host a: the launcher \S+ ended with status 17")
    # After an opening with proof: a hello that was changed on its way, and the head's own words sent back to it.
    for name, bytes_sent in (
        ("changed-hello", 'bytearray(hello(key, "1")[:-1]) + b"x"'),
        ("reflected", "(s.sendall(opening(key)), s.recv(56, socket.MSG_WAITALL)[32:] + struct.pack('I', 20) + bytes(20))[1]"),
    ):
        fake = impostor(name, f"s.sendall({bytes_sent})\ns.settimeout(5)\nsys.exit(17 if not s.recv(100) else 18)\n")
        suite.expect(local("-n", 1, "--hosts", "a", "true", launcher=fake), status=1, err=r"host a: the launcher \S+ ended with status 17")
    fake = impostor("cut", "s.sendall(opening(key)[:20])\n")
    suite.expect(local("-n", 1, "--hosts", "a", "true", launcher=fake), status=1, err="ended with status 0 before")

# Stands between an agent and the head, and keeps what it passes on.
LISTENER = """import re, select, socket, subprocess, sys
host, port = re.search(r"--agent (\\d+) (\\d+)", sys.argv[2]).groups()
listener = socket.create_server(("127.0.0.1", 0))
agent = subprocess.Popen(["sh", "-c", re.sub(r"(--agent \\d+) \\d+", rf"\\1 {listener.getsockname()[1]}", sys.argv[2])])
near, far = listener.accept()[0], socket.create_connection(("127.0.0.1", int(port)))
ways, heard = {near: far, far: near}, open(f"{sys.argv[0]}.heard.{host}", "wb")
while ways:
    for each in select.select(list(ways), [], [])[0]:
        data = each.recv(65536)
        heard.write(data)
        ways[each].sendall(data)
        if not data:
            ways.pop(each).shutdown(socket.SHUT_WR)
heard.close()
sys.exit(agent.wait())
"""

with suite.case("who listens between head and agents sees neither variables nor arguments nor what ranks publish"):
    (suite.tmp / "listener.py").write_text(LISTENER)
    env = {"SOME_TOKEN": "token-0123456789"}
    words = ["-n", 2, "--hosts", "a,b", "sh", "-c", 'echo "$SOME_TOKEN $0"', "argument-0123456789"]
    result = local(*words, launcher=f"{sys.executable} {suite.tmp / 'listener.py'}", env=env)
    expect_lines(result, ["token-0123456789 argument-0123456789"] * 2)
    for host in range(2):
        heard = (suite.tmp / f"listener.py.heard.{host}").read_bytes()
        assert len(heard) > 500, f"only {len(heard)} bytes were heard: this proves nothing"
        for word in (b"0123456789", b"SOME_TOKEN", b"PATH="):
            assert word not in heard, (host, word)

with suite.case("strangers at the port, loud or silent, do not disturb a job"):
    slow = script("slow", f'echo "$2" > {suite.tmp}/call.$1; sleep 0.7; exec sh -c "$2"\n')
    call = suite.tmp / "call.s"
    process = subprocess.Popen(
        list(map(str, [MPIEXEC, "--launcher", slow, "--hosts", "s", "echo", "fine"])), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    end = time.monotonic() + 5
    while not (call.exists() and call.read_text()) and time.monotonic() < end:
        time.sleep(0.01)
    port = int(call.read_text().split()[4])
    strangers = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
    for each in strangers[:10]:
        each.sendall(os.urandom(3000))
    assert process.communicate(timeout=10)[0] == "fine\n" and process.returncode == 0, process.returncode
    for each in strangers:
        each.close()

with suite.case("ISTHMUS_CHECK names calls that do not fit between hosts, in all forms"):
    if not (PREFIX / "lib/isthmus/libisthmus_network.so").exists():
        raise Skip("the network library was not built")
    checks = suite.tmp / "coll_check"
    suite.expect(suite.run([PREFIX / "bin/mpicxx", "-std=c++20", "-O1", "-pthread", "test/mpi/coll/check.cpp", "-o", checks], timeout=100))
    result = local("--hosts", "a:2,b:1", "-n", 3, checks, env={"ISTHMUS_LOCALITY": "static"}, timeout=60)
    suite.expect(result)
    assert not result.text.strip(), result

SILENT = suite.tmp / "silent"
suite.expect(suite.run([PREFIX / "bin/mpicc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "test/mpi/program/silent.c", "-o", SILENT]))
SILENT_CALLS = ("receive", "send", "exchange", "allreduce")


def expect_losses(process, out, begin, ranks):
    """Those `ranks` of a job that goes on hear of the silent host within 10 s of its silence."""
    while not all(re.search(rf"^rank {rank} has lost ", out.read_text(), re.M) for rank in ranks):
        assert time.monotonic() - begin < 10 and (process.poll() is None or process.wait() == 0), out.read_text()
        time.sleep(0.02)
    # The status is that of a job whose ranks have died: somebody has killed them.
    assert process.wait(20) != 0, out.read_text()
    assert "not MPI_ERR" not in out.read_text() and "program/silent.c" not in out.read_text(), out.read_text()


# A launcher whose agents run on when it is ended, as those of ssh do.
FAR = script("far", 'exec 3<&0\nsetsid sh -c "$2" <&3 3<&- &\nwait\n')
# As between machines; and where the ranks of several agents have met in a region of their own.
SILENCES = [(call, HERE, {"ISTHMUS_LOCALITY": "static"}) for call in SILENT_CALLS] + [(call, FAR, {}) for call in ("receive", "allreduce")]
for call, launcher, variables in SILENCES:
    where = "" if variables else ", whose ranks share memory with theirs,"
    with suite.case(f"a host{where} whose agent and ranks are stopped is lost to the others within 10 s, in a job that goes on: {call}"):
        if not (PREFIX / "lib/isthmus/libisthmus_network.so").exists():
            raise Skip("the network library was not built")
        command = [MPIEXEC, "--on-failure", "continue", "--launcher", launcher, "--hosts", "a:2,b:2", "-n", 4, SILENT, call]
        with jobs.running(command, suite.tmp / "stopped", said="up ", times=4, env=variables) as (process, out):
            above = process.pid if launcher == HERE else int(suite.run(["pgrep", "-P", process.pid, "-f", f"{FAR} b "]).out)
            agent = int(suite.run(["pgrep", "-P", above, "-f", "mpiexec --agent 1 "]).out)
            stopped = [*map(int, suite.run(["pgrep", "-P", agent, "-f", str(SILENT)]).out.split()), agent]
            assert len(stopped) == 3, stopped
            try:
                for pid in stopped:
                    os.kill(pid, signal.SIGSTOP)
                expect_losses(process, out, time.monotonic(), (0, 1))
            finally:
                for pid in stopped:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            # mpiexec tells of it, so that ranks that share memory need not.
            assert variables or "isthmus: " not in out.read_text(), out.read_text()

# --- hosts -------------------------------------------------------------------------------------------------------------------------

MPICH = suite.tmp / "exchange-mpich"
if shutil.which("mpicc.mpich"):
    suite.expect(suite.run(["mpicc.mpich", "-O1", "test/launch/exchange.c", "-o", MPICH]))


EXCHANGE, PLACES, FEW_FILES = suite.tmp / "exchange", suite.tmp / "places", suite.tmp / "few_files"
for program, source in ((EXCHANGE, "test/launch/exchange.c"), (PLACES, "test/places/exchange.c"), (FEW_FILES, "test/launch/few_files.c")):
    suite.expect(suite.run([PREFIX / "bin/mpicc", "-O1", source, "-o", program]))


has_network = (PREFIX / "lib/isthmus/libisthmus_network.so").exists()


def need_network():
    if not has_network:
        raise Skip("the network library was not built")


def need_mpich():
    if not MPICH.exists():
        raise Skip("MPICH's compiler is not installed")


with suite.case("sessions without MPI_Init end well; behind MPI_Finalize, whose network is closed, they are refused, and told before"):
    need_network()
    sessions = suite.tmp / "sessions"
    suite.expect(suite.run([PREFIX / "bin/mpicc", "-std=gnu11", ROOT / "test/mpi/program/sessions.c", "-o", sessions], timeout=60))
    static = ("-x", "ISTHMUS_LOCALITY=static", "-x", "UCX_TLS=tcp")
    # A sanitizer does not let a process have copies of its program.
    several = [] if os.environ.get("DEV_SANITIZER") else [("--ranks-per-process", 2)]
    for options in ((), *several):
        result = local("-n", 4, "--hosts", "a:2,b:2", *static, *options, sessions, "alone")
        expect_lines(result, ["sum 4"] * 4)
    # Who leaves is no loss to those that go on, nor to those that are still in the last sum of all.
    result = local("-n", 4, "--hosts", "a:2,b:2", *static, sessions, "early")
    expect_lines(result, ["sum 4"] * 4)
    assert "has lost rank" not in result.text, result
    result = suite.expect(local("-n", 4, "--hosts", "a:2,b:2", *static, sessions, "exits"), status=7, err="exited with code 7")
    assert "has lost rank" not in result.text, result
    result = suite.expect(local("-n", 4, "--hosts", "a:2,b:2", *static, sessions, "after"))
    assert result.out.count("refused: ") == 4 and result.out.count("open the session before MPI_Finalize") == 4, result

APART = {"ISTHMUS_LOCALITY": "static"}

with suite.case("where a rank may open few files, it reaches another host, or says what it lacks"):
    need_network()
    if os.environ.get("DEV_SANITIZER"):
        raise Skip("a sanitizer opens files of its own")
    nobody = 2
    for most in (*range(4, 24), 30, 40, 60, 100, 200):
        result = local("-n", 2, "--hosts", "a,b", "sh", "-c", f"ulimit -n {most}; exec {FEW_FILES} {nobody}", env=APART)
        if result.status != 0:
            assert most < 40, result
            suite.expect(result, status=39, err="this process may not open [0-9]+ more files, which (the network|meeting the other ranks) needs")

for who in ("0", "1", "both"):
    with suite.case(f"a rank that has opened all files that it may reaches another host: {who}"):
        need_network()
        if os.environ.get("DEV_SANITIZER"):
            raise Skip("a sanitizer opens files of its own")
        suite.expect(local("-n", 2, "--hosts", "a,b", FEW_FILES, who, env=APART), out=r"^$")

with suite.case("programs of MPICH run on this host, by PMI-1"):
    need_mpich()
    suite.expect(suite.run([MPIEXEC, "-n", 2, MPICH], timeout=60), out="2 ranks, 0 failures")
    suite.expect(suite.run([MPIEXEC, "-n", 2, MPICH, "abort"], timeout=60), status=9, err=r"rank 1 .*aborted the job with code 9")


with contextlib.ExitStack() as stack:
    hosts = None if no_hosts else stack.enter_context(Hosts(4))

    def over(names, *words):
        return [*hosts.head, MPIEXEC, "--hosts", names, "--launcher", hosts.launcher, *words]

    with suite.case("four hosts: each rank is where it should be, and found the head by itself"):
        need(no_hosts)
        result = suite.run(over("h1,h2,h3,h4", "-n", 8, "sh", "-c", "echo $(hostname) $ISTHMUS_WORLD_RANK"), timeout=20)
        expect_lines(result, [f"h{rank // 2 + 1} {rank}" for rank in range(8)])

    with suite.case("programs of MPICH run on two hosts, two ranks each"):
        need(no_hosts)
        need_mpich()
        # UCX, below MPICH, takes processes of equal number for one where the hosts' boot ids are equal, as those of namespaces are.
        # Ended by MPI_Abort: in MPI_Finalize, one in ten runs of MPICH 4.0.2 waits for ever for answers of peers that have stopped to look.
        suite.run([*hosts.on("h2"), "sh", "-c", "for i in $(seq 100); do /bin/true; done"])
        suite.expect(suite.run(over("h1,h2", "-n", 4, MPICH, "abort"), env={"UCX_TLS": "tcp,self"}, timeout=60), status=9, out="4 ranks, 0 failures")

    with suite.case("an MPI program on two hosts: shared memory within each, the network between them, verified data"):
        need(no_hosts)
        need_network()
        result = suite.run(over("h1,h2", "-n", 4, "-x", "ISTHMUS_EXPLAIN=full", EXCHANGE), timeout=40)
        suite.expect(result, out="4 ranks, 0 failures", err="network rendezvous")
        suite.expect(suite.run(over("h1,h2", "-n", 4, EXCHANGE, "exit"), timeout=20), status=7, err=r"rank 1 \(pid \d+\) on host h1 exited with code 7; ending")

    with suite.case("containers on hosts"):
        need(no_hosts)
        inside = "unshare -Urmpuinf --mount-proc sh -c 'echo $$ \"$@\"' sh"
        expect_lines(suite.run(over("h1,h2", "-n", 2, "--container", inside, "x"), timeout=20), ["1 x"] * 2)

    @contextlib.contextmanager
    def bad_cable(**faults):
        try:
            with hosts.bad_cable("h2", **faults):
                yield
        except CableRefused as why:
            raise Skip(why) from None

    # The sizes are what the line carries in some seconds: TCP alone gets 80 KB/s through the last one.
    for cable, faults, most in (
        ("loses 5 % of all frames", {"loss": 0.05}, 1 << 20),
        ("takes 50 ms each way", {"delay": 0.05}, 1 << 20),
        ("brings every fifth frame out of order", {"reorder": 0.2}, 16 << 20),
        ("does all that", {"loss": 0.05, "delay": 0.05, "reorder": 0.2}, 1 << 17),
    ):
        with suite.case(f"a network that {cable}: verified data from an MPI program, and all output"):
            need(no_hosts)
            need_network()
            with bad_cable(**faults, seed=1):
                result = suite.run(over("h1,h2", "-n", 2, PLACES, most), timeout=40)
                suite.expect(result)
                assert result.out.count(" 0 wrong, shares memory with 1 of 2") == 2, result
                result = suite.run(over("h1,h2", "-n", 2, PROBE, "flood=100000", "exit=0"), timeout=40)
                suite.expect(result)
                assert len(result.out.splitlines()) >= 2000, len(result.out.splitlines())

    with suite.case("a host that is not there is named"):
        need(no_hosts)
        suite.expect(suite.run(over("h1,h9", "-n", 2, "sleep", "1706"), timeout=20), status=1, err=r"host h9: the launcher .* ended with status 255", within=8)

    with suite.case("a cut network ends jobs within 10 s, on both sides: one of sleepers, and one of MPI in mid-transfer"):
        need(no_hosts)
        program, find = marked(1707)
        transfer = ["pgrep", "-f", f"^{EXCHANGE} transfer"]
        mpi = over("h1,h2", "-n", 2, EXCHANGE, "transfer")
        with contextlib.ExitStack() as both:
            sleepers, out = both.enter_context(running(over("h1,h2", "-n", 2, *program), 2))
            if has_network:
                mpi, said = both.enter_context(jobs.running(mpi, suite.tmp / "mpi", said="is process", times=2))
            begin = time.monotonic()
            hosts.cut("h2")
            assert sleepers.wait(12) == 1 and time.monotonic() - begin < 10, (sleepers.returncode, time.monotonic() - begin)
            # Each side counts for itself: the other may be the first to give up, and end with its launcher.
            lost = r"not heard of for 7 s: the connection is lost|the launcher \S+ ended with status \d+ before the ranks did"
            assert re.search(rf"^mpiexec: host h2: ({lost})", out.read_text(), re.M), out.read_text()
            assert out.read_text().count("mpiexec:") == 1, out.read_text()
            if has_network:
                assert mpi.wait(12) != 0 and time.monotonic() - begin < 10, (mpi.returncode, time.monotonic() - begin)
                assert re.search(r"has lost rank|not heard of for 7 s|before the ranks did", said.read_text()), said.read_text()
                assert "is wrong" not in said.read_text(), said.read_text()
        vanish([*hosts.on("h1"), *find])
        vanish([*hosts.on("h2"), *find], seconds=10)
        vanish(transfer, seconds=10)
        hosts.mend("h2")

    for other, call in (("h3", "exchange"), ("h4", "allreduce")):
        with suite.case(f"a cut network is MPI_ERR_PROC_ABORTED within 10 s in a job that goes on: {call}"):
            need(no_hosts)
            need_network()
            command = over(f"h1:2,{other}:2", "--on-failure", "continue", "-n", 4, SILENT, call)
            # As between machines: the ranks stay in the region that their mpiexec has made and writes into.
            variables = {"ISTHMUS_LOCALITY": "static"}
            with jobs.running(command, suite.tmp / "silence", said="up ", times=4, env=variables) as (process, out):
                begin = time.monotonic()
                hosts.cut(other)
                expect_losses(process, out, begin, (0, 1))
            vanish(["pgrep", "-f", f"^{SILENT} {call}"], seconds=20)

suite.finish()
