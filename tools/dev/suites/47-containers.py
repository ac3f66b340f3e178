# title: ranks in containers: unshare, podman, and a socket in place of a descriptor
# timeout: 180
# under: asan
# about: src/channel/* src/launch/* src/place/* tools/mpiexec/*
import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, "tools/dev")
import jobs
from jobs import vanish
from podman import Podman
from suite import PREFIX, Skip, Suite

suite = Suite("containers")
MPIEXEC = PREFIX / "bin/mpiexec"
# Every namespace private, with a /dev/shm of its own: both ranks are process 1.
ALONE = "unshare -Urmpuinf --mount-proc sh -c 'mount -t tmpfs shm /dev/shm; exec \"$@\"' sh"
EXPLAIN = {"ISTHMUS_EXPLAIN": "full"}
ALLOCATED = {"ALLOCATED": "1", "ISTHMUS_EXPLAIN": "json"}  # buffers of MPI_Alloc_mem
LONG = 47 << 20  # less than what a rank gets in messages of 16 and 32 MiB
FIRST = 6 << 20  # more than all others have: on a busy machine, some come before the descriptor has
program = suite.tmp / "exchange"
os.chmod(suite.tmp, 0o755)


def job(container, *arguments, options=(), env=None, timeout=30, stdin=""):
    command = [MPIEXEC, "-n", 2, *options, "--container", container, program, *arguments]
    return suite.run(command, env=env, timeout=timeout, stdin=stdin)


def running(container, *arguments, options=(), env=None):
    """A job whose ranks have exchanged all messages and go on with what `arguments` say."""
    command = [MPIEXEC, "-n", 2, *options, "--container", container, program, *arguments]
    return jobs.running(command, suite.tmp / "running", said="is process", times=2, env=env)


def folders():
    return sorted(suite.tmp.glob("isthmus.*"))


def expect_mapped(result, is_mapped=True):
    """The data was right, and the long messages of both ranks came out of mapped memory, or none did."""
    suite.expect(result, out=r"2 ranks, 0 failures")
    report = [json.loads(line) for line in result.err.splitlines() if line.startswith('{"isthmus_explain"')]
    assert len(report) == 1, result
    for rank in (0, 1):
        peer = report[0]["ranks"][rank]["peers"][1 - rank]
        received = {way["protocol"]: way["received"]["bytes"] for way in peer["traffic"]}
        by_mapping = received.get("rendezvous, receiver copies from mapped memory", 0)
        by_ring = received.get("rendezvous, pipelined through the ring", 0)
        other = by_ring if is_mapped else by_mapping
        # While one rank takes its descriptor out of the box, the other may not see its own: the first messages have another way.
        assert peer["pull_refused"] and other <= (FIRST if is_mapped else 0), f"rank {rank}: {received}\n{result}"
        assert (by_mapping if is_mapped else by_ring) > LONG, f"rank {rank}: {received}\n{result}"
        assert ("mapped" in peer) == is_mapped, f"rank {rank}: {peer}"


with suite.case("the program is compiled"):
    suite.expect(suite.run([PREFIX / "bin/mpicc", "-O1", "test/launch/exchange.c", "-o", program]))

# --- namespaces ------------------------------------------------------------------------------------------------------------------

can_unshare = suite.run(["sh", "-c", ALONE + " true"]).status == 0


def need_unshare():
    if not can_unshare:
        raise Skip("namespaces cannot be made here")


with suite.case("two ranks, both process 1, all namespaces private: verified data, and CMA refused for the right reason"):
    need_unshare()
    result = job(ALONE, env=EXPLAIN)
    suite.expect(result, out=r"2 ranks, 0 failures", err=r"refused: reading the peer's memory: .*pid")
    suite.expect(result, err=r"rendezvous, pipelined through the ring +sent [1-9]")
    assert result.out.count("is process 1\n") == 2, result.out

with suite.case("the same over a socket, in one namespace of its own each"):
    need_unshare()
    suite.expect(job(ALONE, options=["--rendezvous", suite.tmp]), out=r"2 ranks, 0 failures")
    assert not folders(), folders()

with suite.case("out of memory of MPI_Alloc_mem there is one copy, where CMA is refused"):
    need_unshare()
    expect_mapped(job(ALONE, env=ALLOCATED))
    expect_mapped(job(ALONE, env={**ALLOCATED, "ISTHMUS_IDLE": "sleep"}))

with suite.case("the same where the region came over a socket"):
    need_unshare()
    expect_mapped(job(ALONE, options=["--rendezvous", suite.tmp], env=ALLOCATED))

with suite.case("and not where it is switched off"):
    need_unshare()
    expect_mapped(job(ALONE, env={**ALLOCATED, "ISTHMUS_MAPPING": "off"}), is_mapped=False)

with suite.case("ISTHMUS_RENDEZVOUS_DIR says the same, without a warning"):
    need_unshare()
    strace = job(ALONE, env={"ISTHMUS_RENDEZVOUS_DIR": suite.tmp})
    suite.expect(strace, out=r"2 ranks, 0 failures")
    assert not folders(), folders()

with suite.case("the exit status of a rank comes through, and the job ends with it"):
    need_unshare()
    suite.expect(job(ALONE, "exit"), status=7, err=r"rank 1 \(pid \d+\) on host \S+ exited with code 7; ending the job")

with suite.case("a rank that is killed in its container ends the job within two seconds"):
    need_unshare()
    with running(ALONE, "sleep") as (process, out):
        ranks = suite.run(["pgrep", "-x", "-P", str(process.pid), "unshare"]).out.split()
        inner = suite.run(["pgrep", "-P", ranks[-1]]).out.split()
        begin = time.monotonic()
        os.kill(int(inner[0]), signal.SIGKILL)
        status = process.wait(10)
        assert time.monotonic() - begin < 2, time.monotonic() - begin
        assert status in (1, 137), status  # 1 from unshare of util-linux 2.38: it fails to pass the signal on
        assert "; ending the job" in out.read_text(), out.read_text()

# The ranks read each other's memory in the first, send long messages through their ring in the second, and map it in the third.
for walls, env in (("unshare -m --propagation private env", {}), (ALONE, {}), (ALONE, {"ALLOCATED": "1"})):
    with suite.case(f"kill -9 in mid-transfer, {walls.split(' --')[0]}{', '.join(['', *env])}: the peer ends within two seconds, and nothing is left"):
        need_unshare()
        segments = jobs.segments()
        with running(walls, "transfer", env=env) as (process, out):
            inside = suite.run(["pgrep", "-f", f"^{program} transfer"]).out.split()
            assert len(inside) == 2, inside
            begin = time.monotonic()
            os.kill(int(inside[1]), signal.SIGKILL)
            status = process.wait(10)
            assert time.monotonic() - begin < 2, time.monotonic() - begin
            assert status in (1, 137) and out.read_text().count("; ending the job") == 1, (status, out.read_text())
            assert "is wrong" not in out.read_text(), out.read_text()
        vanish(lambda: suite.run(["pgrep", "-f", f"^{program} transfer"]).out)
        assert jobs.segments() <= segments and not jobs.shared_files(), (jobs.segments(), jobs.shared_files())

with suite.case("{rank} and {job} in the command, quotes, and the program's own braces left alone"):
    result = suite.run(
        [MPIEXEC, "-n", 2, "--container", "env 'A=rank {rank}' B={job} sh -c 'echo \"$A\" \"$B\" \"$@\"' sh", "x", "{rank}"]
    )
    suite.expect(result, out=r"^rank 1 env\.\d+ x \{rank\}$" if "env." in result.out else r"^rank 1 x\.\d+ x \{rank\}$")

with suite.case("engines are told to hand on the variables of other launchers, unless there shall be none"):
    engines = suite.tmp / "engines"
    engines.mkdir()
    for name, body in (("podman", 'echo "$@"'), ("apptainer", "env")):  # stand-ins that say what they were told
        (engines / name).write_text(f"#!/bin/sh\n{body}\n")
        (engines / name).chmod(0o755)
    for options, there in (((), True), (("--no-compat-env",), False)):
        told = suite.run([MPIEXEC, "-n", 1, *options, "--container", f"{engines}/podman run image", "true"]).out
        assert ("--env OMPI_COMM_WORLD_LOCAL_RANK " in told) == there, told
        told = suite.run([MPIEXEC, "-n", 1, *options, "--container", f"{engines}/apptainer exec image", "true"]).out
        assert ("APPTAINERENV_MPI_LOCALRANKID=0\n" in told) == there, told

with suite.case("a command without an end of its quote, and one that does not exist, are said so"):
    suite.expect(suite.run([MPIEXEC, "-n", 1, "--container", "sh 'x", "true"]), status=2, err=r"--container .*quote")
    suite.expect(suite.run([MPIEXEC, "-n", 1, "--container", "no-such-engine run", "true"]), status=127, err=r"no-such-engine")

# --- the socket ------------------------------------------------------------------------------------------------------------------

with suite.case("the socket gives nothing to a wrong key, to garbage, and to who is silent, and serves the ranks meanwhile"):
    need_unshare()
    with running("env", "sleep", options=["--rendezvous", suite.tmp]) as (process, out):
        path = str(folders()[0] / "region")
        answers = []
        silent = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(3)]
        for each in silent:
            each.connect(path)
        for shown in (b"\0" * 16, b"GET / HTTP/1.1\r\n\r\n" * 10):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
                stranger.settimeout(5)
                stranger.connect(path)
                assert len(stranger.recv(1000)) == 32, "the greeting"
                stranger.sendall(shown)
                with contextlib.suppress(ConnectionResetError):
                    data, descriptors, _, _ = socket.recv_fds(stranger, 16, 4)
                    answers.append((data, descriptors))
        assert all(not data and not descriptors for data, descriptors in answers), answers
        key = None
        for pid in suite.run(["pgrep", "-P", str(process.pid), "-x", "exchange"]).out.split():
            for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                if entry.startswith(b"ISTHMUS_KEY="):
                    key = entry.split(b"=")[1].decode()
        # It gets as far as the region.
        late = suite.run([program], env={"ISTHMUS_RANK": "99", "ISTHMUS_REGION": path, "ISTHMUS_KEY": key}, timeout=5)
        suite.expect(late, status=None, err=r"ISTHMUS_RANK='99' is not a rank of the job")
        for each in silent:
            each.close()
        process.send_signal(signal.SIGTERM)
        process.wait(10)
    vanish(folders)

with suite.case("a rank whose key is wrong says so"):
    with running("env", "sleep", options=["--rendezvous", suite.tmp]) as (process, out):
        env = {"ISTHMUS_RANK": "0", "ISTHMUS_REGION": folders()[0] / "region"}
        suite.expect(suite.run([program], env=env | {"ISTHMUS_KEY": "0" * 32}), status=None, err=r"hangs up without an answer .*is ISTHMUS_KEY that of its job")
        suite.expect(suite.run([program], env=env), status=None, err=r"ISTHMUS_KEY is not set")
        suite.expect(suite.run([program], env=env | {"ISTHMUS_KEY": "k"}), status=None, err=r"ISTHMUS_KEY is not 32 hexadecimal")
        process.kill()
        process.wait()
    vanish(folders)

# --- podman ----------------------------------------------------------------------------------------------------------------------

engine = Podman(suite.tmp / "engine", [program, PREFIX / "lib/libmpi_abi.so.1"])
RUN = " ".join(engine.run("--name", "r{rank}-{job}", "--network", "none", "--volume", f"{suite.tmp}:{suite.tmp}"))


@contextlib.contextmanager
def podman_case(name):
    with suite.case(name):
        if engine.why_not:
            raise Skip(engine.why_not)
        yield
        vanish(engine.containers)


with podman_case("podman: verified data between two containers; CMA refused, and why"):
    result = job(RUN, env=EXPLAIN)
    suite.expect(result, out=r"2 ranks, 0 failures", err=r"refused: reading the peer's memory")

with podman_case("podman: out of memory of MPI_Alloc_mem there is one copy"):
    expect_mapped(job(RUN, options=["-x", "ALLOCATED=1"], env={"ISTHMUS_EXPLAIN": "json"}))

with podman_case("podman: standard input, variables, and the exit status"):
    suite.expect(job(RUN, "input", stdin="to rank 0\n"), out=r"^to rank 0$")
    result = suite.run([MPIEXEC, "-n", 2, "-x", "WHO=me and you", "--container", RUN, "sh", "-c", 'echo "$WHO"; exit 7'])
    suite.expect(result, status=7, out=r"^me and you$", err=r"rank [01] \(pid \d+\) on host \S+ exited with code 7")

with podman_case("podman: the region over a socket in a mounted folder, as docker gets it"):
    suite.expect(job(RUN, options=["--rendezvous", suite.tmp]), out=r"2 ranks, 0 failures")
    assert not folders(), folders()

for name, into in (("podman: what traced ranks write comes back", []), ("podman: the same where they inherit no descriptor", ["--rendezvous", suite.tmp])):
    with podman_case(name):
        timeline = suite.tmp / "trace.json"
        command = [PREFIX / "bin/isthmus", "trace", "-o", timeline, MPIEXEC, "-n", 2, *into, "--container", RUN, program]
        suite.expect(suite.run(command, timeout=60), out=r"2 ranks, 0 failures", err=r"(?ms)rank +in MPI.*^0 .*^1 ")
        assert {event["pid"] for event in json.loads(timeline.read_text())["traceEvents"]} == {0, 1}
        assert not folders(), folders()

with podman_case("podman: a cpuset of one core for both makes them take turns"):
    suite.expect(job(RUN.replace(" run ", " run --cpuset-cpus 0 "), env=EXPLAIN), out="0 failures", err=r"idle policy: yield, then sleep")

with podman_case("podman: a container that is killed ends the job within two seconds"):
    with running(RUN, "sleep") as (process, out):
        begin = time.monotonic()
        suite.run([*engine.words, "kill", engine.containers()[0]])
        status = process.wait(10)
        assert status == 137 and time.monotonic() - begin < 2.5, (status, time.monotonic() - begin)
        assert "exited with code 137" in out.read_text(), out.read_text()

with podman_case("podman: a container that is killed in mid-transfer ends the job within two seconds"):
    with running(RUN, "transfer") as (process, out):
        begin = time.monotonic()
        suite.run([*engine.words, "kill", engine.containers()[0]])
        status = process.wait(10)
        assert status == 137 and time.monotonic() - begin < 2.5, (status, time.monotonic() - begin)
        assert "exited with code 137" in out.read_text() and "is wrong" not in out.read_text(), out.read_text()

with podman_case("podman: Ctrl-C, a second one, and kill -9 of mpiexec leave no container"):
    with running(RUN, "sleep") as (process, out):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == -signal.SIGINT, process.returncode
    assert not engine.containers(), engine.containers()
    with running(RUN, "sleep") as (process, out):
        process.kill()
        process.wait()

with suite.case("docker is told to mount the folder, and apptainer to bind the prefix"):
    fake = suite.tmp / "fake"
    fake.mkdir()
    for name in ("docker", "apptainer"):
        (fake / name).write_text('#!/bin/sh\n[ "$1" = ps ] && exit; printf "%s " "$0" "$@"; echo "$ISTHMUS_REGION"\n')
        (fake / name).chmod(0o755)
    result = suite.run([MPIEXEC, "-n", 1, "--container", f"{fake}/docker run img", "prog"])
    suite.expect(result, out=r"run --interactive .*--env ISTHMUS_KEY .*--rm .*--volume (/tmp/isthmus\.\w+):\1 img prog \1/region$")
    suite.expect(result, out=rf"--volume {PREFIX}:{PREFIX}:ro")
    result = suite.run([MPIEXEC, "-n", 1, "--wdir", "/w", "--container", f"{fake}/apptainer exec img", "prog"])
    suite.expect(result, out=rf"exec --bind {PREFIX}:{PREFIX}:ro --pwd /w img prog 3$")

if engine.why_not is None:
    engine.reset()
suite.finish()
