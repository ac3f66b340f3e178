# title: ranks in containers: every namespace, user and permission private or shared
# timeout: 300
# about: src/channel/* src/launch/* src/place/* src/route/* tools/mpiexec/*
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, "tools/dev")
from suite import PREFIX, ROOT, Skip, Suite

suite = Suite("places")
suite.tmp.chmod(0o755)  # ranks of other users look in
program = suite.tmp / "exchange"
folder = suite.tmp / "meet"
MPIEXEC = PREFIX / "bin/mpiexec"
hydra = shutil.which("mpiexec.hydra")
flags = {"user": "-Ur", "pid": "-pf --mount-proc --kill-child", "ipc": "-i", "shm": "", "net": "-n", "uts": "-u"}
LONGEST = 32 << 20


def rank_words(private, identity):
    """A rank that is who `identity` makes it, with the `private` namespaces to itself, and 64 KB of /dev/shm where that is one."""
    walls = ["unshare", "-m", *" ".join(flags[name] for name in private).split()]
    inside = "mount -t tmpfs -o size=64k,mode=1777 shm /dev/shm; " if "shm" in private else ""
    inside += "ip link set lo up; " if "net" in private else ""
    if "user" in private:  # whoever it was outside, it is root inside
        return [*identity.split(), *walls, "sh", "-c", inside + 'exec "$0"', program]
    return [*walls, "sh", "-c", inside + 'exec "$0" "$@"', *identity.split(), program]


def start(private, *, other=None, identities=("", ""), launcher=hydra, around=(), **env):
    """Two ranks, the second with the `other` namespaces private where those are not the same; the launcher runs `around` them."""
    first = rank_words(private, identities[0])
    second = rank_words(private if other is None else other, identities[1])
    command = [*around, launcher, "-n", "1", *first, ":", "-n", "1", *second]
    return suite.run(command, timeout=60, env={"ISTHMUS_IDLE": "sleep", "ISTHMUS_EXPLAIN": "json", **env})


def expect_exchange(result, refused=(None, None)):
    """All contents were right, in shared memory; of each rank, why it may not touch the other's memory (a regular expression, None: it
    may) is what `explain` says, and the long messages that it received have taken the way that follows."""
    suite.expect(result, status=0)
    assert result.out.count(" 0 wrong, shares memory with 2 of 2") == 2, result
    report = [json.loads(line) for line in result.err.splitlines() if line.startswith('{"isthmus_explain"')]
    assert len(report) == 1 and "warning" not in result.err, result
    for rank, why in enumerate(refused):
        peer = report[0]["ranks"][rank]["peers"][1 - rank]
        for said in (peer["pull_refused"], peer["push_refused"]):
            assert (said is None) == (why is None), f"rank {rank}: expected {why}, found {said}\n{result}"
            assert why is None or re.search(why, said), f"rank {rank}: expected {why}, found {said}\n{result}"
        received = {way["protocol"]: way["received"]["bytes"] for way in peer["traffic"]}
        through_ring = received.get("rendezvous, pipelined through the ring", 0)
        assert through_ring >= LONGEST if why else through_ring == 0, f"rank {rank} received {received}\n{result}"
    return report[0]


def expect_advice(result):
    """The ranks share no memory and no network: one warning with the remedy, and an end."""
    assert result.status != 0 and not result.timed_out, result
    assert result.err.count("set ISTHMUS_RENDEZVOUS_DIR to a folder that all of them see") == 1, result


SAME_PID = r"the pid of this process, 1, in a pid namespace of its own"
OTHER_PID = r"in another pid namespace.*\(process_vm_readv|in another pid namespace.*names (another|no) process"
OTHER_USERS = r"in another user namespace \(process_vm_readv of process \d+: Operation not permitted\)"
FORBIDDEN = r"lacks a capability .*\(process_vm_readv of process \d+: Operation not permitted\)"


def other_user(theirs, mine):
    return rf"runs as user {theirs}, and this process as user {mine} \(.*Operation not permitted\)"


def why_refused(private):
    return SAME_PID if "pid" in private else OTHER_USERS if "user" in private else None


def why_no_namespaces():
    if not hydra:
        return "mpiexec.hydra is missing"
    if os.geteuid() != 0:
        return "needs root"
    if subprocess.run(["unshare", "-mpfuinUr", "--mount-proc", "true"], capture_output=True, check=False).returncode != 0:
        return "this user may not make namespaces"
    return None


def why_one_user():
    """Why ranks cannot be given other users and capabilities here, or None."""
    if why_no_namespaces():
        return why_no_namespaces()
    if not shutil.which("setpriv"):
        return "setpriv is missing"
    effective = int(re.search(r"CapEff:\s*(\w+)", Path("/proc/self/status").read_text())[1], 16)
    if not effective >> 19 & 1:
        return "root has no CAP_SYS_PTRACE here"
    yama = Path("/proc/sys/kernel/yama/ptrace_scope")
    if yama.exists() and int(yama.read_text()) > 1:
        return "Yama allows tracing to root alone"
    reads = ["setpriv", *"--reuid=54321 --regid=54321 --clear-groups".split(), "test", "-r", PREFIX / "lib/libmpi_abi.so.1"]
    if subprocess.run(reads, capture_output=True, check=False).returncode != 0:
        return f"another user cannot read {PREFIX}"
    return None


with suite.case("the program is built"):
    suite.expect(suite.run([PREFIX / "bin/mpicc", "-O2", ROOT / "test/places/exchange.c", "-o", program], timeout=60))
    folder.mkdir()
    folder.chmod(0o1777)

# --- namespaces: each private to both ranks, or shared ---------------------------------------------------------------------------------

no_namespaces = why_no_namespaces()
if no_namespaces:
    suite.skip("the namespaces", no_namespaces)
else:
    names = list(flags)
    for size in range(len(names) + 1):
        for private in itertools.combinations(names, size):
            nothing = {"ipc", "shm", "net"} <= set(private)
            with suite.case("private: " + (", ".join(private) or "none") + (", a folder shared" if nothing else "")):
                # A System V segment is for one user: with a user namespace of its own, root is still the same one.
                result = start(private, **({"ISTHMUS_RENDEZVOUS_DIR": folder} if nothing else {}))
                expect_exchange(result, (why_refused(private),) * 2)
    with suite.case("a rank that shares nothing is told the remedy"):
        expect_advice(start(("ipc", "shm", "net")))

# --- users, capabilities, and who may read whose memory --------------------------------------------------------------------------------
#
# Whether the kernel lets one process read another's memory follows from the users, the capabilities and the user and pid namespaces of
# the two; how they meet follows from the net and ipc namespaces, /dev/shm, the folder, and from the user alone where it is a System V
# segment. So each pair of an identity and what the kernel then allows is crossed with every way of meeting, each in the namespaces
# which leave that way alone; the user and pid namespaces, which forbid reading by themselves, with every identity.


def user(number, *capabilities):
    words = f"setpriv --reuid={number} --regid={number} --clear-groups"
    wanted = ",".join("+" + each for each in capabilities)
    return words + (f" --inh-caps {wanted} --ambient-caps {wanted}" if wanted else "")


def root_with(*capabilities):
    return "setpriv --bounding-set " + ",".join(["-all", *("+" + each for each in capabilities)])


HIDDEN = " env HIDDEN=1"  # not dumpable: for CAP_SYS_PTRACE alone
# who, who may read whom, the ranks, why rank 0 may not, why rank 1 may not
PERMISSIONS = [
    ("the same user", "both ways", ("", ""), (None, None)),
    ("the same user", "one way", (user(54321), user(54321) + HIDDEN), (FORBIDDEN, None)),
    ("the same user", "not at all", (user(54321) + HIDDEN,) * 2, (FORBIDDEN, FORBIDDEN)),
    ("another user", "both ways", ("", user(54321, "sys_ptrace")), (None, None)),
    ("another user", "one way", ("", user(54321)), (None, other_user(0, 54321))),
    ("another user", "not at all", (user(54320), user(54321)), (other_user(54321, 54320), other_user(54320, 54321))),
    ("fewer capabilities", "both ways", ("", root_with("sys_ptrace")), (None, None)),
    ("fewer capabilities", "one way", ("", root_with()), (None, FORBIDDEN)),
    ("fewer capabilities", "not at all", (root_with("kill"), root_with("chown")), (FORBIDDEN, FORBIDDEN)),
]
# the namespaces that leave this way alone, and the launcher
MEETINGS = {
    "an inherited descriptor": (("ipc", "shm", "net", "uts"), MPIEXEC),
    "an abstract socket": (("ipc", "shm", "uts"), hydra),
    "/dev/shm": (("ipc", "net"), hydra),
    "a folder": (("ipc", "shm", "net", "uts"), hydra),
    "a System V segment": (("shm", "net"), hydra),
}
# Root without CAP_SETFCAP may not be root in a user namespace that it makes (Linux 5.12).
IDENTITIES = {"the same user": ("", ""), "another user": ("", user(54321)), "fewer capabilities": ("", root_with("setfcap"))}
# Of the second rank alone: whoever has made a user namespace, or is root outside, may look in; nobody may look out.
ONE_SIDED = {("user",): (None, OTHER_USERS), ("pid",): (OTHER_PID, OTHER_PID), ("user", "pid"): (OTHER_PID, OTHER_PID)}

one_user = why_one_user()
if one_user:
    suite.skip("users and capabilities", one_user)
else:
    for who, allowed, ranks, refused in PERMISSIONS:
        for meeting, (private, launcher) in MEETINGS.items():
            with suite.case(f"{who}, memory read {allowed}, met through {meeting}"):
                env = {"ISTHMUS_RENDEZVOUS_DIR": folder} if meeting == "a folder" else {}
                result = start(private, identities=ranks, launcher=launcher, **env)
                if meeting == "a System V segment" and who == "another user":
                    expect_advice(result)
                else:
                    expect_exchange(result, refused)
    for who, ranks in IDENTITIES.items():
        for private in (("user",), ("pid",), ("user", "pid")):
            with suite.case(f"{who}, private to both: {', '.join(private)}"):
                expect_exchange(start(private, identities=ranks), (why_refused(private),) * 2)
            with suite.case(f"{who}, private to one: {', '.join(private)}"):
                expect_exchange(start((), other=private, identities=ranks), ONE_SIDED[private])

# --- memory that both ranks map: whatever forbids reading the other's ------------------------------------------------------------------


def expect_mapped(result, is_mapped):
    """All contents were right; the long messages came out of mapped memory, or the ranks say why not."""
    suite.expect(result, status=0)
    assert result.out.count(" 0 wrong, shares memory with 2 of 2") == 2, result
    report = next(json.loads(line) for line in result.err.splitlines() if line.startswith('{"isthmus_explain"'))
    for rank in (0, 1):
        traffic = report["ranks"][rank]["peers"][1 - rank]["traffic"]
        received = {way["protocol"]: way["received"]["bytes"] for way in traffic}
        by_mapping = received.get("rendezvous, receiver copies from mapped memory", 0)
        assert by_mapping >= LONGEST if is_mapped else by_mapping == 0, f"rank {rank} received {received}\n{result}"


if one_user:
    suite.skip("mapped memory", one_user)
else:
    for meeting, (private, launcher) in MEETINGS.items():
        env = {"ISTHMUS_RENDEZVOUS_DIR": folder} if meeting == "a folder" else {}
        for who in ("the same user", "another user"):
            is_mapped = meeting != "a System V segment"
            if not is_mapped and who == "another user":
                continue
            with suite.case(f"memory of MPI_Alloc_mem is {'' if is_mapped else 'not '}mapped: {who}, met through {meeting}"):
                expect_mapped(start(private, identities=IDENTITIES[who], launcher=launcher, ALLOCATED=1, **env), is_mapped)
    with suite.case("memory of MPI_Alloc_mem is mapped: every namespace private"):
        expect_mapped(start(tuple(flags), ALLOCATED=1, ISTHMUS_RENDEZVOUS_DIR=folder), True)

# --- little of everything --------------------------------------------------------------------------------------------------------------

cores = sorted(os.sched_getaffinity(0))
if no_namespaces:
    suite.skip("one core, little memory", no_namespaces)
else:
    for private in ((), tuple(flags)):
        where = "in containers" if private else "on the host"
        env = {"ISTHMUS_IDLE": "auto", "ISTHMUS_RENDEZVOUS_DIR": folder}
        with suite.case(f"both ranks on one core, {where}: they take turns"):
            result = start(private, identities=(f"taskset -c {cores[0]}",) * 2, **env)
            report = expect_exchange(result, (why_refused(private),) * 2)
            assert (report["cores"], report["idle"]) == (1, "sleep"), report
        with suite.case(f"each rank on one core, {where}: together they know of two"):
            if len(cores) < 2:
                raise Skip("needs two cores")
            result = start(private, identities=[f"taskset -c {core}" for core in cores[:2]], **env)
            report = expect_exchange(result, (why_refused(private),) * 2)
            assert (report["cores"], report["idle"]) == (2, "spin"), report
    with suite.case("ranks that meet in a /dev/shm of 64 KB, with nothing else in common, need no more of it"):
        small = ["unshare", "-Urm", "sh", "-c", 'mount -t tmpfs -o size=64k,mode=1777 shm /dev/shm; exec "$0" "$@"']
        expect_exchange(start(("ipc", "net"), around=small))

# --- what is left ----------------------------------------------------------------------------------------------------------------------

suite.check("nothing is left in the folder", not list(folder.iterdir()), list(folder.iterdir()))
suite.finish()
