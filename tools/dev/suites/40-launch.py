# title: mpiexec starts, watches and ends jobs as it says
# timeout: 600
# under: asan tsan
# runs: mpi_abi mpiexec isthmus launch_probe
# about: src/launch/* src/place/* src/base/* tools/mpiexec/* test/launch/*
import contextlib
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

sys.path.insert(0, "tools/dev")
import jobs
from cgroup import Cgroup, CgroupRefused
from suite import BUILT, PREFIX, ROOT, Skip, Suite

MPIEXEC = Path(os.environ.get("LAUNCH_MPIEXEC") or PREFIX / "bin/mpiexec")
ISTHMUS = Path(os.environ.get("LAUNCH_ISTHMUS") or PREFIX / "bin/isthmus")
PROBE = Path(os.environ.get("LAUNCH_PROBE") or BUILT / "test/launch/launch_probe")
MARK = f"LAUNCH_SUITE_MARK={uuid.uuid4()}"  # in the environment of all that this suite starts
os.environ.update([MARK.split("=")])

suite = Suite("launch")
# What ignores it here is ignored in every job, as under nohup.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


# --- what is left -----------------------------------------------------------------------------------------------------


def marked_processes():
    """Processes that this suite has started, directly or not, and that still run: {pid: command line}."""
    return jobs.marked_processes(MARK)


def wait_until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@contextlib.contextmanager
def case(name):
    """A case after which nothing may be left."""
    with suite.case(name):
        try:
            yield
            wait_until(lambda: not marked_processes())
            left = marked_processes()
            assert not left, f"processes are left: {left}"
            assert not jobs.shared_files(), f"files are left in /dev/shm: {jobs.shared_files()}"
        finally:
            for pid in marked_processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


# --- running ----------------------------------------------------------------------------------------------------------


def mpiexec(*arguments, **options):
    return suite.run([MPIEXEC, *arguments], **options)


def expect(result, **expected):
    return suite.expect(result, **expected)


def expect_lines(result, lines):
    expect(result, status=0)
    assert sorted(result.out.splitlines()) == sorted(lines), str(result)


def own_lines(result):
    """What mpiexec itself says."""
    return [line for line in result.err.splitlines() if line.startswith("mpiexec: ")]


def fails_within(seconds, *arguments, attempts=3, env=None, **expected):
    """The job ends as expected within that time; a busy machine gets several tries."""
    for attempt in range(attempts):
        result = mpiexec(*arguments, env=env)
        expect(result, **expected)
        lines = own_lines(result)
        assert len(lines) == 1, f"one line was expected:\n{result}"
        if result.seconds <= seconds:
            return result
    raise AssertionError(f"took more than {seconds} s in each of {attempts} tries\n{result}")


class Running:
    """An mpiexec that goes on running, in a session of its own."""

    def __init__(self, *arguments, **options):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        self.process = subprocess.Popen(
            [str(MPIEXEC), *map(str, arguments)], text=True, start_new_session=True, **options
        )
        self.pid = self.process.pid

    def wait_for_lines(self, count):
        """The first lines of stdout."""
        return [self.process.stdout.readline().strip() for _ in range(count)]

    def finish(self, timeout=20):
        out, err = self.process.communicate(timeout=timeout)
        return self.process.returncode, out, err


def interrupted(status):
    """Died of SIGINT, or exited with 130 as a shell has it."""
    return status in (-signal.SIGINT, 130)


WORLD = 'echo "$ISTHMUS_WORLD_RANK/$ISTHMUS_WORLD_SIZE $ISTHMUS_LOCAL_RANK/$ISTHMUS_LOCAL_SIZE"'


APP = ("sh", "-c", "echo $ISTHMUS_APP_SIZE")


# --- starting ---------------------------------------------------------------------------------------------------------


def test_starting():
    with case("programs that are not MPI run, once for each rank"):
        result = mpiexec("-n", "4", "hostname")
        expect(result, status=0)
        assert result.out.splitlines() == [os.uname().nodename] * 4, str(result)
        assert result.err == "", str(result)

    with case("scripts find their rank and size, in the world and on the host"):
        expect_lines(mpiexec("-n", "3", "sh", "-c", WORLD), ["0/3 0/3", "1/3 1/3", "2/3 2/3"])

    with case("programs of Open MPI and MPICH find them too, unless --no-compat-env is given"):
        ompi = "$OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK/$OMPI_COMM_WORLD_LOCAL_SIZE"
        mpich = "$PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS"
        lines = [f"{rank}/3 {rank}/3 {rank}/3 {rank}/3" for rank in range(3)]
        expect_lines(mpiexec("-n", "3", "sh", "-c", f'echo "{ompi} {mpich}"'), lines)
        bare = mpiexec("-n", "2", "--no-compat-env", "sh", "-c", f'echo "{ompi} $MPI_LOCALRANKID/$MPI_LOCALNRANKS"; {WORLD}')
        expect_lines(bare, ["/ / /", "0/2 0/2", "/ / /", "1/2 1/2"])

    with case("and MPI_INFO_ENV says how many ranks were asked for of each program, as the standard's example has it"):
        program = suite.tmp / "comm_info"
        expect(suite.run([PREFIX / "bin/mpicc", ROOT / "test/mpi/comm/info.c", "-o", program]))
        expect(mpiexec("-n", "1", program, "1", ":", "-n", "2", program, "2"))
        expect_lines(mpiexec("-n", "1", *APP, ":", "-n", "2", *APP), ["1", "2", "2"])

    with case("-np is -n, and mpirun is mpiexec"):
        expect_lines(suite.run([MPIEXEC.with_name("mpirun"), "-np", "2", "echo", "x"]), ["x", "x"])

    with case("without -n, one rank for each core that may be used"):
        cores = len(mpiexec("true").out)  # no output: only that it runs
        assert cores == 0
        result = mpiexec("echo", "x", env={"HWLOC_SYNTHETIC": "pack:2 core:3 pu:2", "HWLOC_THISSYSTEM": "0"})
        expect_lines(result, ["x"] * 6)

    with case("ranks join the region, know the job, and their place is theirs"):
        result = mpiexec("-n", "3", PROBE, "join", "report", "finalize")
        expect(result, status=0)
        for rank in range(3):
            pattern = rf"^rank={rank} size=3 singleton=0 job=launch_probe\.\d+ host=\S+ appnum=0 .*pid_is_mine=1$"
            expect(result, out=pattern)

    with case("several programs make one world, each with its number"):
        result = mpiexec("-n", "1", PROBE, "join", "report", "finalize", ":", "-n", "2", PROBE, "join", "report", "finalize")
        expect(result, status=0, out=r"^rank=0 size=3 .*appnum=0 ")
        expect(result, out=r"^rank=1 size=3 .*appnum=1 ")
        expect(result, out=r"^rank=2 size=3 .*appnum=1 ")

    with case("256 ranks, each with its own number"):
        result = mpiexec("-n", "256", "sh", "-c", "echo $ISTHMUS_WORLD_RANK", timeout=120)
        expect_lines(result, [str(rank) for rank in range(256)])
        expect(mpiexec("-n", "256", "/bin/true", timeout=120), status=0)

    with case("256 ranks join one region"):
        result = mpiexec("-n", "256", PROBE, "join", "report", "finalize", timeout=120)
        expect(result, status=0)
        ranks = sorted(int(rank) for rank in re.findall(r"^rank=(\d+) size=256 ", result.out, re.M))
        assert ranks == list(range(256)), str(result)

    with case("more ranks than a soft limit of open files allows pipes for"):
        command = f'ulimit -S -n 64; exec "{MPIEXEC}" -n 100 sh -c "ulimit -S -n"'
        result = suite.run(["bash", "-c", command])
        expect_lines(result, ["64"] * 100)  # and the ranks keep the limit as it was

    with case("--wdir: the folder, and relative programs from there"):
        folder = suite.tmp / "a folder"
        folder.mkdir()
        script = folder / "here.sh"
        script.write_text("#!/bin/sh\npwd\n")
        script.chmod(0o755)
        expect_lines(mpiexec("-n", "1", "-wdir", folder, "pwd", ":", "-n", "1", "pwd"), [str(folder), os.getcwd()])
        expect_lines(mpiexec("-n", "2", f"--wdir={folder}", "./here.sh"), [str(folder)] * 2)

    with case("a script without #! runs as in a shell"):
        script = suite.tmp / "plain"
        script.write_text('echo "plain $1"\n')
        script.chmod(0o755)
        expect_lines(mpiexec("-n", "2", script, "one"), ["plain one"] * 2)

    with case("arguments arrive as they are"):
        result = mpiexec("-n", "1", "printf", "%s|", "a b", "", "$HOME", "--", "-n")
        expect(result, status=0)
        assert result.out == "a b||$HOME|--|-n|", str(result)


def test_environment():
    show = 'echo "$ISTHMUS_WORLD_RANK:$LS_A:$LS_B"'
    with case("-x before the first program is for all, later for its own; -env for its own, -genv for all"):
        result = mpiexec("-n", "1", "-x", "LS_A=1", "-env", "LS_B", "x y", "sh", "-c", show, ":",
                         "-n", "1", "-x", "LS_A=2", "sh", "-c", show, ":", "-n", "1", "sh", "-c", show)  # fmt: skip
        expect_lines(result, ["0:1:x y", "1:2:", "2:1:"])
        expect_lines(mpiexec("-genv", "LS_B", "3", "-n", "2", "sh", "-c", show), ["0::3", "1::3"])

    with case("-x NAME hands on, and says so when there is nothing to hand on"):
        expect_lines(mpiexec("-n", "1", "-x", "LS_A", "sh", "-c", show, env={"LS_A": "here"}), ["0:here:"])
        expect(mpiexec("-n", "1", "-x", "NOSUCH", "true"), status=0, err=r"^mpiexec: warning: -x NOSUCH: ")

    with case("-x sets what Isthmus itself reads"):
        result = mpiexec("-n", "2", "-x", "ISTHMUS_IDLE=sleep", "-x", "ISTHMUS_RING_CELLS=64", "-x", "ISTHMUS_RING_BYTES=8K",
                         PROBE, "join", "0:report", "finalize")  # fmt: skip
        expect(result, status=0, out=r"idle=sleep .*cells=64 bytes=8192 ")

    with case("ranks in excess of processors sleep when they wait, others spin"):
        synthetic = {"HWLOC_SYNTHETIC": "pack:1 core:4 pu:1", "HWLOC_THISSYSTEM": "0"}
        expect(mpiexec("-n", "4", PROBE, "join", "0:report", "finalize", env=synthetic), out="idle=spin cores=4 universe=4 ")
        expect(mpiexec("-n", "5", PROBE, "join", "0:report", "finalize", env=synthetic), out="idle=sleep cores=4 universe=5 ")

    with case("PATH of the ranks is where programs are looked for"):
        folder = suite.tmp / "programs"
        folder.mkdir()
        (folder / "only-here").write_text("#!/bin/sh\necho found\n")
        (folder / "only-here").chmod(0o755)
        expect_lines(mpiexec("-n", "1", "-x", f"PATH={folder}:{os.environ['PATH']}", "only-here"), ["found"])

    with case("programs that a rank starts are singletons, also an mpiexec within a rank makes its own job"):
        result = mpiexec("-n", "2", PROBE, "join", f"shell={PROBE} join report", "finalize")
        expect(result, status=0)
        assert result.out.count("singleton=1") == 2, str(result)
        result = mpiexec("-n", "2", "sh", "-c", f"{MPIEXEC} -n 3 {PROBE} join report finalize")
        expect(result, status=0)
        assert result.out.count("size=3 singleton=0") == 6, str(result)


def test_placement():
    machine = {"HWLOC_SYNTHETIC": "pack:2 core:2 pu:2", "HWLOC_THISSYSTEM": "0"}

    def report(*arguments, env=machine):
        result = mpiexec(*arguments, "--report-bindings", "true", env=env)
        expect(result, status=0)
        return re.findall(r"^rank \d+: (.*)$", result.err, re.M)

    with case("by default each rank gets a core if there are enough, and none is bound otherwise"):
        assert report("-n", "4") == [
            "core 0, socket 0, NUMA node 0: CPU 0-1", "core 1, socket 0, NUMA node 0: CPU 2-3",
            "core 2, socket 1, NUMA node 0: CPU 4-5", "core 3, socket 1, NUMA node 0: CPU 6-7"], report("-n", "4")  # fmt: skip
        assert report("-n", "5") == ["not bound"] * 5

    with case("--map-by socket deals to the sockets in turn"):
        places = report("-n", "3", "--map-by", "socket")
        assert [place.split(",")[0] for place in places] == ["core 0", "core 2", "core 1"], places

    with case("--bind-to socket, numa, none, and core past the last core"):
        places = report("-n", "3", "--bind-to", "socket", "--map-by", "socket")
        assert [place.split(": ")[1] for place in places] == ["CPU 0-3", "CPU 4-7", "CPU 0-3"], places
        assert report("-n", "1", "--bind-to", "numa") == ["NUMA node 0: CPU 0-7"], report("-n", "1", "--bind-to", "numa")
        assert report("-n", "2", "--bind-to", "none") == ["not bound"] * 2
        assert report("-n", "6", "--bind-to", "core")[4:] == report("-n", "2", "--bind-to", "core")

    with case("several NUMA nodes"):
        env = machine | {"HWLOC_SYNTHETIC": "pack:1 [numa] [numa] core:2 pu:1"}
        env["HWLOC_SYNTHETIC"] = "pack:2 group:2 [numa] core:1 pu:1"
        places = report("-n", "4", "--map-by", "numa", env=env)
        assert [place.split(": ")[0] for place in places] == [
            f"core {n}, socket {n // 2}, NUMA node {n}" for n in range(4)
        ], places

    with case("the kernel confines ranks to what the report says"):
        allowed = sorted(os.sched_getaffinity(0))
        if len(allowed) < 2:
            raise Skip("needs two processors")
        show = "grep -h Cpus_allowed_list /proc/self/status"
        result = mpiexec("-n", "2", "--bind-to", "core", "--report-bindings", "sh", "-c", show)
        expect(result, status=0)
        reported = re.findall(r"CPU (\S+)$", result.err, re.M)
        assert sorted(reported) == sorted(re.findall(r"Cpus_allowed_list:\s*(\S+)", result.out)), str(result)
        result = mpiexec("-n", "2", "--bind-to", "none", "grep", "-h", "Cpus_allowed_list", "/proc/self/status")
        assert len(set(result.out.splitlines())) == 1, str(result)

    with case("threads of the library's own leave the core of their rank, where there are others"):
        allowed = sorted(os.sched_getaffinity(0))
        if len(allowed) < 2:
            raise Skip("needs two processors")
        beside = suite.tmp / "beside"
        expect(suite.run([PREFIX / "bin/mpicc", "-Wall", "-Wextra", "-Werror", "test/launch/beside.c", "-o", beside]), status=0)
        result = mpiexec("-n", "1", "--bind-to", "core", "-x", "ISTHMUS_PROGRESS=thread", beside)
        expect(result, status=0)
        (own,) = re.findall("the program's: (.*)", result.out)
        others = re.findall("the library's: (.*)", result.out)
        assert any(other != own for other in others), str(result)  # a sanitizer's own thread stays
        result = mpiexec("-n", "1", "--bind-to", "none", "-x", "ISTHMUS_PROGRESS=thread", beside)
        assert len(set(re.findall("s: (.*)", result.out))) == 1, str(result)

    with case("jobs at the same time are not bound to the same cores, unless told to"):
        cores = len(os.sched_getaffinity(0))
        if cores < 2 or suite.run(["unshare", "-n", "true"]).status != 0:
            raise Skip("needs two processors and a network namespace of its own")
        first = suite.tmp / "first-job"
        report = f'"{MPIEXEC}" --report-bindings -n'
        script = f"""
            {report} 1 sleep 60 2>"{first}" & job=$!
            until test -s "{first}"; do sleep 0.05; done
            cat "{first}"
            {report} 1 true 2>&1
            {report} {cores} true 2>&1
            {report} 1 --bind-to core true 2>&1
            kill $job; wait $job"""
        result = suite.run(["unshare", "-n", "sh", "-c", script])
        reports = [line.split(": ", 1)[1] for line in result.out.splitlines()]
        assert reports[0] != reports[1] and reports[1].startswith("core "), str(result)
        assert reports[2 : 2 + cores] == ["not bound"] * cores and reports[-1] == reports[0], str(result)

    with case("affinity of mpiexec itself bounds its ranks"):
        first = min(os.sched_getaffinity(0))
        result = suite.run(["taskset", "-c", first, MPIEXEC, "-v", PROBE, "join", "report", "finalize"])
        expect(result, status=0, out=r"^rank=0 size=1 .*cores=1 ", err=rf"CPU {first}\b")

    with case("a synthetic topology that stands for this machine is bound to"):
        first = min(os.sched_getaffinity(0))
        if first != 0:
            raise Skip("needs CPU 0")
        env = {"HWLOC_SYNTHETIC": "pack:1 core:64 pu:1", "HWLOC_THISSYSTEM": "1"}
        result = mpiexec("-n", "1", "--bind-to", "core", "--report-bindings", "grep", "Cpus_allowed_list", "/proc/self/status", env=env)
        expect(result, status=0, out=r":\s*0$", err=r"^rank 0: core 0, .*CPU 0$")


# --- GPUs -------------------------------------------------------------------------------------------------------------

# Listed in another order than that of their addresses.
GPUS = {"0000:3b:00.0": "GPU-bbbb", "0000:19:00.0": "GPU-aaaa"}


def machine_with_gpus(near):
    """Words before a command that is to see what NVIDIA's driver shows of two GPUs; `near`: the processors beside each."""
    for bus, uuid in GPUS.items():
        for name, text in (
            (f"driver/nvidia/gpus/{bus}/information", f"Model: \t\t NVIDIA Fake\nGPU UUID: \t {uuid}\n"),
            (f"sys/bus/pci/devices/{bus}/local_cpulist", f"{near[uuid]}\n"),
        ):
            path = suite.tmp / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    (suite.tmp / "driver/nvidia/version").write_text("")
    pci = f"mount --bind {suite.tmp}/sys/bus/pci/devices /sys/bus/pci/devices"
    script = f'{pci} && mount --bind {suite.tmp}/driver /proc/driver && exec "$@"'
    return ["unshare", "-rm", "sh", "-c", script, "sh"]


def test_gpus():
    cpus = sorted(os.sched_getaffinity(0))
    near = {"GPU-aaaa": cpus[0], "GPU-bbbb": cpus[-1]}
    elsewhere = machine_with_gpus(near)
    show = ("sh", "-c", "echo $ISTHMUS_LOCAL_RANK ${CUDA_VISIBLE_DEVICES-unset}")

    def bound(*options, program=show, ranks=4, env=None):
        if suite.run([*elsewhere, "true"]).status != 0:
            raise Skip("this user may not mount")
        if suite.run([ISTHMUS, "info", "--json"]).out.count('"GPU-'):
            raise Skip("this machine has a GPU of its own")
        environment = {"CUDA_VISIBLE_DEVICES": None, **(env or {})}
        return suite.run([*elsewhere, MPIEXEC, "-n", ranks, *options, *program], env=environment)

    with case("--gpu-bind closest gives each rank one GPU, as many ranks to each"):
        result = bound("--gpu-bind", "closest", "--bind-to", "none")
        expect_lines(result, ["0 GPU-aaaa", "1 GPU-bbbb", "2 GPU-aaaa", "3 GPU-bbbb"])
        expect_lines(bound("--gpu-bind", "none"), [f"{rank} unset" for rank in range(4)])
        expect_lines(bound(), [f"{rank} unset" for rank in range(4)])
    with case("--gpu-bind closest takes the GPU beside a rank's processors, and says which"):
        if len(cpus) < 2:
            raise Skip("there is one processor")
        beside = {str(cpu): uuid for uuid, cpu in near.items()}
        say = ("sh", "-c", "echo $(taskset -cp $$ | sed 's/.*: //') $CUDA_VISIBLE_DEVICES")
        result = bound("--gpu-bind", "closest", "--bind-to", "core", "--report-bindings", program=say, ranks=2)
        expect(result, status=0, err=r"^rank 0: .*, GPU 0000:(19|3b):00\.0 \(NVIDIA Fake, GPU-(aaaa|bbbb)\)$")
        told = dict(line.split() for line in result.out.splitlines())
        assert len(result.out.splitlines()) == 2, result
        assert all(uuid == beside[cpu] for cpu, uuid in told.items() if cpu in beside), (told, beside)
    with case("--gpu-bind with a list, and with the others behind"):
        expect_lines(bound("--gpu-bind", "1,0,0"), ["0 GPU-bbbb", "1 GPU-aaaa", "2 GPU-aaaa", "3 GPU-bbbb"])
        expect_lines(bound("--gpu-bind", "GPU-bb", ranks=1), ["0 GPU-bbbb"])
        result = bound("--gpu-bind", "closest:order", "--bind-to", "none", ranks=2)
        expect_lines(result, ["0 GPU-aaaa,GPU-bbbb", "1 GPU-bbbb,GPU-aaaa"])
        expect_lines(bound("--gpu-bind", "1:order", ranks=1), ["0 GPU-bbbb,GPU-aaaa"])
    with case("--gpu-bind deals out what CUDA_VISIBLE_DEVICES leaves, in its order"):
        expect_lines(bound("--gpu-bind", "closest", ranks=2, env={"CUDA_VISIBLE_DEVICES": "1"}), ["0 GPU-bbbb", "1 GPU-bbbb"])
        expect_lines(bound("--gpu-bind", "0", ranks=1, env={"CUDA_VISIBLE_DEVICES": "GPU-b,0"}), ["0 GPU-bbbb"])
        result = bound("--gpu-bind", "closest", ranks=1, env={"CUDA_VISIBLE_DEVICES": ""})
        expect(result, err=r"warning: --gpu-bind has no effect: CUDA_VISIBLE_DEVICES leaves no GPU$")
    with case("isthmus explain says which GPU it is"):
        program = suite.tmp / "program"
        expect(suite.run([PREFIX / "bin/mpicc", ROOT / "test/mpi/comm/topology.c", "-o", program]))
        for json, said in (("full", r"^rank 1 \(.*, GPU 0000:3b:00\.0 \(NVIDIA Fake, GPU-bbbb\)\)$"), ("json", r'"gpu":"0000:3b:00\.0 ')):
            result = bound("--gpu-bind", "0,1", program=[program], ranks=2, env={"ISTHMUS_EXPLAIN": json})
            expect(result, err=said)
    with case("--gpu-bind to what is not there, or makes no sense"):
        expect(bound("--gpu-bind", "0,7", ranks=2), status=1, err=r"there is no GPU 7 for local rank 1: 2 can be used$")
        for wrong in ("near", "", "1,", ",", "none:order", "-1", "GPU-", "0:ordered"):
            expect(mpiexec("--gpu-bind", wrong, "true"), status=2, err=r"--gpu-bind .*allowed: closest, none or a list")
        if not Path("/proc/driver/nvidia").exists():
            expect(mpiexec("-n", "1", "--gpu-bind", "closest", "true"), err=r"warning: --gpu-bind has no effect: no GPU is found")


# --- input and output -------------------------------------------------------------------------------------------------


def test_output():
    with case("rank 0 alone gets the standard input"):
        result = mpiexec("-n", "3", "--tag-output", "sh", "-c", "cat; echo end", stdin="one\ntwo\n")
        expect_lines(result, ["[0] one", "[0] two", "[0] end", "[1] end", "[2] end"])

    with case("megabytes of input"):
        text = "0123456789abcdef\n" * 300_000
        result = mpiexec("-n", "2", "sh", "-c", "wc -c", stdin=text)
        expect_lines(result, ["0", str(len(text))])

    with case("--tag-output names rank and stream of each line, also of one without end"):
        result = mpiexec("-n", "2", "--tag-output", "sh", "-c", "echo out; echo err >&2; printf unended")
        expect_lines(result, ["[0] out", "[0] unended", "[1] out", "[1] unended"])
        assert sorted(result.err.splitlines()) == ["[0 stderr] err", "[1 stderr] err"], str(result)

    with case("lines of different ranks never mix when output is a file or a pipe"):
        result = mpiexec("-n", "4", PROBE, "flood=400000", timeout=120)
        expect(result, status=0)
        lines = result.out.splitlines()
        wrong = [line for line in lines if not re.fullmatch(r"([a-d])\1{89} rank 10[0-3]", line)]
        assert not wrong, f"{len(wrong)} broken lines, the first: {wrong[0]}"
        assert {lines.count(chr(ord("a") + rank) * 90 + f" rank {100 + rank}") for rank in range(4)} == {len(lines) // 4}

    with case("and arrive whole where stdout and stderr are the same file"):
        command = f"{MPIEXEC} -n 4 sh -c '{PROBE} flood=100000; {PROBE} flood=100000 >&2' 2>&1"
        result = suite.run(["bash", "-c", command])
        wrong = [line for line in result.out.splitlines() if not re.fullmatch(r"([a-d])\1{89} rank 10[0-3]", line)]
        assert result.status == 0 and not wrong, f"{wrong[:1]}\n{result}"

    with case("--output direct and lines bring the same bytes"):
        for mode in ("direct", "lines"):
            result = mpiexec("-n", "1", "--output", mode, PROBE, "flood=3000000", "start=no newline")
            expect(result, status=0)
            assert len(result.out) > 3_000_000 and result.out.endswith("no newline"), f"{mode}: {len(result.out)} bytes"

    with case("the start of a line is shown before its end comes"):
        job = Running("-n", "2", PROBE, "0:start=name? ", "sleep=60")
        with contextlib.closing(job.process.stdout):
            assert os.read(job.process.stdout.fileno(), 100) == b"name? "
            os.kill(job.pid, signal.SIGTERM)
            job.process.wait(20)
            job.process.stderr.close()

    with case("ranks that close their output do not disturb"):
        result = mpiexec("-n", "3", PROBE, "1:close=1", "1:close=2", "0:say=zero", "2:say=two")
        expect_lines(result, ["zero", "two"])

    with case("a reader that goes away ends the job, as in a shell"):
        command = f"{MPIEXEC} -n 2 yes 2>{suite.tmp}/err | head -n 1; echo ${{PIPESTATUS[0]}}"
        result = suite.run(["bash", "-c", command])
        expect(result, status=0, out=r"^y\n141$")

    with case("a slow reader holds the ranks, not mpiexec: it still answers"):
        reader, writer = os.pipe()
        job = Running("-n", "2", "yes", stdout=writer)
        os.close(writer)
        time.sleep(0.5)
        os.kill(job.pid, signal.SIGTERM)
        wait_until(lambda: len(marked_processes()) <= 1)  # the ranks are gone, mpiexec waits for the reader
        assert len(marked_processes()) <= 1, marked_processes()
        while os.read(reader, 1 << 16):
            pass
        os.close(reader)
        assert job.finish()[0] == 143

    # AddressSanitizer keeps what was freed for a while.
    most = 200 if BUILT.name == "release" else 800
    loud = 'trap "" TERM; test $ISTHMUS_WORLD_RANK = 3 && { sleep 1; exit 7; }; yes'
    for end, words, expected, why in (
        ("--timeout", ["--timeout", 1, "-n", 8, "yes"], 124, "--timeout"),
        ("a failure", ["-n", 8, "sh", "-c", loud], 7, "rank 3 .* exited with code 7"),
    ):
        for reader in (["cat"], ["sleep", "100"]):
            with case(f"ranks that print at full speed to {reader[0]} do not hold up {end}: the end within 4 s, in {most} MiB"):
                for mode in ("--tag-output", "--output=lines"):
                    for attempt in range(3):  # a busy machine gets several tries
                        status, seconds, memory, err = jobs.printing([MPIEXEC, mode, *words], reader)
                        assert status == expected and re.search(why, err) and memory < most, (mode, status, seconds, memory, err)
                        assert ("is lost" in err) == (reader[0] == "sleep"), err
                        if seconds < 4:
                            break
                    assert seconds < 4, (mode, seconds)

    with case("a slow reader of a job that has failed gets all of its output"):
        script = "i=0; while test $i -lt 3000; do echo $ISTHMUS_WORLD_RANK 0123456789012345678901234567890123456789; i=$((i+1)); done; exit 3"
        reader = f"import os, time\nn = 0\nwhile part := os.read(0, 8192):\n  n += part.count(b'\\n'); time.sleep(0.05)\nopen('{suite.tmp}/lines', 'w').write(str(n))"
        command = f"{MPIEXEC} -n 1 --tag-output sh -c '{script}' | {sys.executable} -c \"{reader}\"; echo ${{PIPESTATUS[0]}}"
        result = suite.run(["bash", "-c", command])
        expect(result, status=0, out="^3$")
        assert (suite.tmp / "lines").read_text() == "3000", (suite.tmp / "lines").read_text()

    with case("what a rank has written before it dies comes before the line about it"):
        for _ in range(5):
            result = mpiexec("-n", "2", "sh", "-c", "test $ISTHMUS_WORLD_RANK = 1 || sleep 20; echo last words >&2; kill -9 $$")
            expect(result, status=137)
            assert result.err.splitlines()[0] == "last words" and len(result.err.splitlines()) == 2, str(result)

    with case("standard descriptors that are closed"):
        result = suite.run(["bash", "-c", f"{MPIEXEC} -n 2 true <&- >&- 2>&-"])
        expect(result, status=0)


def test_terminal():
    """mpiexec on a terminal of its own, as a user has it."""

    def on_terminal(command, typed, until):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(command[0], list(map(str, command)))
        text = b""
        end = time.monotonic() + 20
        sent = False
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    part = os.read(terminal, 4096)
                except OSError:
                    break
                if not part:
                    break
                text += part
            if not sent and re.search(until, text):
                os.write(terminal, typed)
                sent = True
        os.close(terminal)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status), text.decode(errors="replace")
            time.sleep(0.02)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise AssertionError(f"did not end; terminal: {text!r}")

    with case("what is typed reaches rank 0, and the ranks write to the terminal itself"):
        script = 'test -t 1 && echo terminal; test $ISTHMUS_WORLD_RANK = 1 || { read word; echo "got $word"; }'
        status, text = on_terminal([str(MPIEXEC), "-n", "2", "sh", "-c", script], b"hello\n", b"terminal")
        assert status == 0 and "got hello" in text and text.count("terminal") == 2, text

    with case("Ctrl-D ends the input"):
        status, text = on_terminal([str(MPIEXEC), "-n", "1", "sh", "-c", "echo ready; cat; echo after"], b"line\n\x04", b"ready")
        assert status == 0 and "after" in text, text

    with case("a terminal that stops background writers does not stop the ranks"):
        script = f"stty tostop; exec {MPIEXEC} -n 2 sh -c 'echo shown'"
        status, text = on_terminal(["/bin/sh", "-c", script], b"", b"never")
        assert status == 0 and text.count("shown") == 2, text

    with case("Ctrl-C ends the job without further words"):
        # No shell: dash loses a SIGINT that comes while it starts a program. Two ranks' lines may run into each other on a terminal.
        status, text = on_terminal([str(MPIEXEC), "-n", "2", str(PROBE), "say=ready", "sleep=60"], b"\x03", rb"ready\s*ready")
        assert interrupted(status), (status, text)
        assert "mpiexec" not in text, text


# --- ends -------------------------------------------------------------------------------------------------------------


def test_failures():
    with case("kill -9 of a rank ends the job within 2 s, in one line with rank, pid, host and signal"):
        host = re.escape(os.uname().nodename)
        fails_within(2, "-n", "3", PROBE, "join", "1:signal=9", "sleep=60", status=137,
                     err=rf"^mpiexec: rank 1 \(pid \d+\) on host {host} killed by signal 9 \(Killed\); ending the job$")  # fmt: skip

    with case("and before joining, and after finalizing"):
        fails_within(2, "-n", "3", PROBE, "2:signal=9", "sleep=60", status=137, err="^mpiexec: rank 2 .* signal 9 ")
        fails_within(2, "-n", "3", PROBE, "join", "finalize", "0:signal=6", "sleep=60", status=134,
                     err=r"^mpiexec: rank 0 .* killed by signal 6 \(Aborted")  # fmt: skip

    with case("and the pid is the rank's"):
        job = Running("-n", "2", "--tag-output", "sh", "-c", "echo $$; exec sleep 60")
        pids = dict(line.split() for line in job.wait_for_lines(2))
        os.kill(int(pids["[1]"]), signal.SIGKILL)
        status, _, err = job.finish()
        assert status == 137 and f"rank 1 (pid {pids['[1]']})" in err, err

    with case("ranks that ignore SIGTERM are killed within 2 s too"):
        fails_within(2, "-n", "3", "sh", "-c", 'trap "" TERM; test $ISTHMUS_WORLD_RANK = 1 && exit 4; sleep 60 & wait; sleep 60',
                     status=4, err=r"^mpiexec: rank 1 .* exited with code 4; ending the job$")  # fmt: skip

    with case("stopped ranks as well"):
        fails_within(2, "-n", "2", PROBE, "0:signal=19", "sleep=0.2", "1:exit=5", status=5, err="exited with code 5")

    with case("SIGTERM gives ranks the time to tidy up"):
        result = mpiexec("-n", "2", "sh", "-c",
                         'trap "echo tidied; exit 0" TERM; test $ISTHMUS_WORLD_RANK = 1 && { sleep 0.3; exit 3; }; sleep 60 & wait')  # fmt: skip
        expect(result, status=3, out="^tidied$")

    with case("the exit status is that of the first rank that failed"):
        fails_within(10, "-n", "3", PROBE, "0:sleep=60", "1:exit=9", "2:sleep=0.7", "2:exit=8", status=9, err="rank 1 .* code 9")

    with case("a rank that leaves after MPI_Init without MPI_Finalize fails"):
        fails_within(2, "-n", "2", PROBE, "join", "1:exit=0", "sleep=60", status=1,
                     err=r"^mpiexec: rank 1 .* exited without MPI_Finalize; ending the job$")  # fmt: skip

    with case("a rank that never was MPI may end when it likes"):
        result = mpiexec("-n", "3", PROBE, "0:exit=0", "sleep=0.3", "say=done")
        expect_lines(result, ["done", "done"])

    with case("a code after MPI_Finalize leaves the others the time to print their results"):
        result = mpiexec("-n", "2", PROBE, "join", "finalize", "1:exit=6", "sleep=0.4", "say=result")
        expect(result, status=6, out="^result$", err=r"code 6 after MPI_Finalize")

    with case("a limit of open files that leaves no room for the job's descriptors is named"):
        result = suite.run(["sh", "-c", f"ulimit -n 20 && exec {MPIEXEC} -n 2 true"], timeout=20)
        expect(result, status=1, err=r"cannot hand the region on: .*\(ulimit -n\)")

    with case("MPI_Abort: its rank and code, and the code as exit status"):
        fails_within(2, "-n", "3", PROBE, "join", "2:abort=7", "sleep=60", status=7,
                     err=r"^mpiexec: rank 2 \(pid \d+\) on host \S+ aborted the job with code 7$")  # fmt: skip
        fails_within(2, "-n", "2", PROBE, "join", "0:abort=-1", "sleep=60", status=255, err="aborted the job with code -1$")
        fails_within(2, "-n", "2", PROBE, "join", "0:abort=256", "sleep=60", status=1, err="aborted the job with code 256$")

    with case("a region full of rubbish does not mislead mpiexec"):
        for byte in (0, 1, 127, 255):
            result = mpiexec("-n", "3", PROBE, "join", "sleep=0.2", f"1:scribble={byte}", "1:exit=3", "sleep=60", timeout=20)
            assert result.status != 0 and not result.timed_out and result.seconds < 15, str(result)

    with case("two MPI programs in one rank: the second is told so"):
        result = mpiexec("-n", "1", "sh", "-c", f"{PROBE} join finalize; {PROBE} join")
        expect(result, status=3, err=r"rank 0 has already been joined and finalized by process \d+")

    with case("--timeout ends the job with 124"):
        fails_within(4, "-n", "2", "--timeout", "0.5", "sleep", "60", status=124, err=r"^mpiexec: .*--timeout")
        expect(mpiexec("-n", "2", "--timeout", "30", "true"), status=0)
        fails_within(4, "-n", "2", "sleep", "60", env={"MPIEXEC_TIMEOUT": "0.5"}, status=124, err=r"^mpiexec: .*--timeout")
        expect(mpiexec("-n", "2", "--timeout", "30", "sleep", "1", env={"MPIEXEC_TIMEOUT": "0.5"}), status=0)

    with case("a job whose processes fill the limit is not left half"):
        if os.getuid() != 0 or not shutil.which("setpriv"):
            raise Skip("needs root and setpriv, to run as a user with few processes")
        command = f'ulimit -u 20; exec setpriv --reuid=54321 --clear-groups "{MPIEXEC}" --output direct -n 64 sleep 60'
        result = suite.run(["bash", "-c", command])
        if "Permission denied" in result.err or result.status == 127:
            raise Skip("that user cannot reach the build")
        expect(result, status=1, err=r"^mpiexec: cannot start rank \d+: .*limit of processes", within=20)

    def in_cgroup(controller, limits, *words):
        try:
            with Cgroup(controller, limits) as group:
                return suite.run([*group.inside, MPIEXEC, *words], timeout=60)
        except CgroupRefused as why:
            raise Skip(why) from None

    for most in (3, 5, 8):
        with case(f"where a control group allows {most} processes, one line says which rank is one too many"):
            result = in_cgroup("pids", {"pids.max": most}, "-n", 8, "sleep", 60)
            expect(result, status=1, err=r"^mpiexec: cannot start rank \d+: .*pids.max")
            assert result.err.count("mpiexec:") == 1, result

    with case("where a control group's memory is full, one line says whom the kernel has killed"):
        result = in_cgroup("memory", {"memory.max": 300 << 20}, "-n", 4, sys.executable, "-c", "x = bytearray(1 << 30); import time; time.sleep(60)")
        expect(result, status=137, err=r"^mpiexec: rank \d+ .*killed by signal 9 .*ending the job$")
        assert result.err.count("mpiexec:") == 1, result


PHASES = ("before-init", "init", "eager", "rendezvous", "allreduce", "large allreduce", "barrier", "receive", "finalize",
          "after-finalize")  # fmt: skip


def kill_in_phase(program, phase, ranks, victim):
    """Seconds from the kill of that rank to the end of mpiexec."""
    job = Running("-n", ranks, program, phase)
    pids = dict(line.split() for line in job.wait_for_lines(ranks))
    time.sleep(0.2)  # to be well inside
    begin = time.monotonic()
    os.kill(int(pids[str(victim)]), signal.SIGKILL)
    status, _, err = job.finish()
    seconds = time.monotonic() - begin
    line = rf"mpiexec: rank {victim} \(pid {pids[str(victim)]}\) on host \S+ killed by signal 9 \(Killed\); ending the job\n"
    assert status == 137 and re.fullmatch(line, err), (status, err)
    return seconds


def test_phases():
    """kill -9 of a rank of a real MPI job, wherever it is."""
    program = suite.tmp / "phases"
    with case("the program for the phases compiles"):
        expect(suite.run([PREFIX / "bin/mpicc", "-Wall", "-Wextra", "-Werror", "test/launch/phases.c", "-o", program]), status=0)
    for phase in PHASES:
        for ranks, victim in ((3, 1), (8, 0)):
            with case(f"kill -9 of rank {victim} of {ranks} in phase {phase}: the job ends within 2 s"):
                seconds = [kill_in_phase(program, phase, ranks, victim)]
                while seconds[-1] > 2 and len(seconds) < 3:  # a busy machine gets several tries
                    seconds.append(kill_in_phase(program, phase, ranks, victim))
                assert seconds[-1] <= 2, f"took {seconds} s"
    for phase in ("before-init", "init", "finalize", "after-finalize"):
        with case(f"a rank that is stopped in phase {phase} does not keep --timeout from ending the job"):
            for attempt in range(3):  # a busy machine gets several tries
                begin = time.monotonic()
                job = Running("-n", 3, "--timeout", 2, program, phase)
                pids = dict(line.split() for line in job.wait_for_lines(3))
                os.kill(int(pids["1"]), signal.SIGSTOP)
                status, _, err = job.finish()
                said = r"mpiexec: [^\n]*--timeout[^\n]*\nWhat the ranks do .*\b1: [^\n]*stopped by a signal\n"
                assert status == 124 and re.match(said, err, re.DOTALL), (status, err)
                seconds = time.monotonic() - begin
                if seconds < 4:
                    break
            assert seconds < 4, seconds
    for phase in ("rendezvous", "barrier"):
        with case(f"kill -9 of mpiexec in phase {phase} leaves nothing"):
            job = Running("-n", 4, program, phase)
            job.wait_for_lines(4)
            os.kill(job.pid, signal.SIGKILL)
            job.finish()
            assert wait_until(lambda: not marked_processes()), marked_processes()


def test_leftovers():
    with case("descendants of a rank that fails go with it, daemons too"):
        script = "(sleep 61 &); setsid sleep 62 & sleep 0.3; exit 3"
        expect(mpiexec("-n", "2", "sh", "-c", script), status=3, within=10)

    with case("what a rank leaves in the background ends with the job"):
        expect(mpiexec("-n", "2", "sh", "-c", "sleep 61 & exit 0"), status=0, within=10)

    with case("a daemon outlives an orderly end"):
        result = mpiexec("-n", "1", "sh", "-c", f"setsid sleep 63 </dev/null >/dev/null 2>&1 & sleep 0.3")
        expect(result, status=0)
        daemons = [pid for pid, command in marked_processes().items() if "sleep 63" in command]
        assert len(daemons) == 1, marked_processes()
        os.kill(daemons[0], signal.SIGKILL)

    with case("kill -9 of mpiexec leaves no rank and no child of one"):
        job = Running("-n", "3", "sh", "-c", "sleep 60 & echo started; wait")
        job.wait_for_lines(3)
        os.kill(job.pid, signal.SIGKILL)
        job.finish()
        assert wait_until(lambda: not marked_processes()), marked_processes()

    with case("kill -9 of mpiexec and its guard at once leaves no rank"):
        job = Running("-n", "3", PROBE, "join", "say=started", "sleep=60")
        job.wait_for_lines(3)
        children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        guards = [pid for pid in children if Path(f"/proc/{pid}/comm").read_text().strip() == "isthmus-guard"]
        assert len(guards) == 1, children
        for pid in (*guards, job.pid):
            os.kill(int(pid), signal.SIGKILL)
        job.finish()
        assert wait_until(lambda: not marked_processes()), marked_processes()

    with case("kill -9 of mpiexec while it starts ranks"):
        for delay in (0.005, 0.02, 0.05, 0.1):
            job = Running("-n", "128", "sleep", "60")
            time.sleep(delay)
            os.kill(job.pid, signal.SIGKILL)
            job.finish()
            assert wait_until(lambda: not marked_processes()), marked_processes()

    with case("a child that the shell had before it became mpiexec is none of its business"):
        result = suite.run(["bash", "-c", f"sleep 3 & echo $!; exec {MPIEXEC} -n 1 sh -c 'exit 2'"])
        expect(result, status=2, within=2.9)
        os.kill(int(result.out), 0)  # still there
        os.kill(int(result.out), signal.SIGKILL)


def test_signals():
    with case("SIGINT, SIGTERM, SIGHUP and SIGUSR1 reach all ranks, once"):
        for name in ("INT", "TERM", "HUP", "USR1"):
            script = f'trap "echo got {name}" {name}; echo ready; for i in 1 2 3 4 5 6 7 8; do sleep 0.1; done; exit 0'
            job = Running("-n", "3", "bash", "-c", script)
            job.wait_for_lines(3)
            os.kill(job.pid, getattr(signal, f"SIG{name}"))
            status, out, err = job.finish()
            assert (status, out.split("\n").count(f"got {name}")) == (0, 3), (name, status, out, err)
            assert "mpiexec" not in err, (name, err)

    with case("ranks that die of a signal passed on need no explanation"):
        for name, number in (("TERM", 15), ("USR1", 10), ("HUP", 1)):
            job = Running("-n", "2", PROBE, "join", "say=ready", "sleep=60")
            job.wait_for_lines(2)
            os.kill(job.pid, getattr(signal, f"SIG{name}"))
            status, _, err = job.finish()
            assert (status, err) == (128 + number, ""), (name, status, err)

    with case("SIGINT ends mpiexec as it ends any program"):
        job = Running("-n", "2", PROBE, "say=ready", "sleep=60")
        job.wait_for_lines(2)
        os.kill(job.pid, signal.SIGINT)
        status, _, err = job.finish()
        assert interrupted(status) and err == "", (status, err)

    with case("a second SIGINT kills ranks that ignore the first, after advice to try it"):
        job = Running("-n", "2", "sh", "-c", 'trap "" INT; echo ready; sleep 60')
        job.wait_for_lines(2)
        os.kill(job.pid, signal.SIGINT)
        advice = job.process.stderr.readline()
        assert "2 of 2 ranks still run; interrupt once more" in advice, advice
        os.kill(job.pid, signal.SIGINT)
        status, _, err = job.finish(5)
        assert interrupted(status) and err == "", (status, err)

    with case("a script's background job ignores Ctrl-C, and so do its ranks"):
        job = subprocess.Popen(["bash", "-c", f'trap "" INT; exec {MPIEXEC} -n 2 sh -c "echo ready; sleep 1; echo end"'],
                               stdout=subprocess.PIPE, text=True, start_new_session=True)  # fmt: skip
        job.stdout.readline()
        os.killpg(job.pid, signal.SIGINT)
        out, _ = job.communicate(timeout=20)
        assert job.returncode == 0 and out.count("end") == 2, (job.returncode, out)

    with case("stop and go on: SIGTSTP and SIGCONT stop and wake ranks and mpiexec"):
        job = Running("-n", "2", "sh", "-c", "echo $$; exec sleep 60")
        pids = [job.pid, *map(int, job.wait_for_lines(2))]
        state = lambda pid: Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]  # noqa: E731
        os.kill(job.pid, signal.SIGTSTP)
        assert wait_until(lambda: all(state(pid) == "T" for pid in pids)), [state(pid) for pid in pids]
        os.kill(job.pid, signal.SIGCONT)
        assert wait_until(lambda: all(state(pid) != "T" for pid in pids)), [state(pid) for pid in pids]
        os.kill(job.pid, signal.SIGTERM)
        assert job.finish()[0] == 143

    with case("waiting costs no processor time"):
        job = Running("-n", "2", "sleep", "60")
        time.sleep(1.5)
        fields = Path(f"/proc/{job.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks = int(fields[11]) + int(fields[12])
        os.kill(job.pid, signal.SIGTERM)
        job.finish()
        assert ticks <= 0.1 * os.sysconf("SC_CLK_TCK"), f"{ticks} ticks in 1.5 s"


# --- bad input --------------------------------------------------------------------------------------------------------


def test_bad_input():
    def refuses(status, message, *arguments, **options):
        result = mpiexec(*arguments, timeout=20, **options)
        expect(result, status=status, err=message)
        assert len(result.err.splitlines()) == 1 and result.out == "", str(result)

    with case("programs that cannot be run: 127 and 126, as in a shell"):
        refuses(127, r"^mpiexec: no-such-program: command not found$", "-n", "2", "no-such-program")
        refuses(127, r"^mpiexec: \./no-such: No such file or directory$", "-n", "2", "./no-such")
        refuses(126, r"^mpiexec: \./src: Is a directory$", "-n", "2", "./src")
        refuses(126, r"^mpiexec: \./README.md: Permission denied$", "-n", "2", "./README.md")
        refuses(127, r"did you mean \./dev\?", "-n", "1", "dev")

    with case("files that the kernel cannot run"):
        binary = suite.tmp / "binary"
        binary.write_bytes(b"\0\1\2\3" * 100)
        binary.chmod(0o755)
        refuses(126, "Exec format error", "-n", "2", binary)
        script = suite.tmp / "bad-interpreter"
        script.write_text("#!/no/such/shell\n")
        script.chmod(0o755)
        refuses(126, "its interpreter /no/such/shell does not exist", "-n", "2", script)

    with case("of several programs a missing one keeps all from starting"):
        result = mpiexec("-n", "1", "echo", "started", ":", "-n", "1", "no-such-program")
        expect(result, status=127)
        assert result.out == "", str(result)

    with case("--wdir that is no folder"):
        refuses(1, r"^mpiexec: --wdir /no/such/folder: No such file", "-n", "1", "--wdir", "/no/such/folder", "true")
        refuses(1, r"Not a directory", "-n", "1", "--wdir", "/etc/passwd", "true")

    with case("numbers of ranks that make no sense"):
        for number in ("0", "-1", "x", "", "1.5", "16385", "99999999999999999999"):
            refuses(2, r"^mpiexec: -n .*: allowed: a whole number from 1 to 16384$", "-n", number, "true")
        refuses(2, "16385 ranks in all; at most 16384", "-n", "16384", "true", ":", "-n", "1", "true")

    with case("options that are unknown, unfinished or out of place"):
        refuses(2, r"unknown option '--bindto'; the nearest is --bind-to", "--bindto", "core", "true")
        refuses(2, r"option '-n' needs N", "-n")
        refuses(2, r"option '-env' needs NAME VALUE", "-env", "A")
        refuses(2, r"no program is given", "-n", "2")
        refuses(2, r"no program is given after ':'", "-n", "2", "true", ":")
        refuses(2, r"each needs its -n; 'false' has none", "-n", "2", "true", ":", "false")
        refuses(2, r"'--timeout' holds for the whole job", "-n", "1", "true", ":", "--timeout", "3", "-n", "1", "true")
        refuses(2, r"--bind-to cpu: allowed: core, socket, numa or none", "--bind-to", "cpu", "true")
        refuses(2, r"--timeout soon: allowed: a number of seconds", "--timeout", "soon", "true")
        refuses(2, r"MPIEXEC_TIMEOUT='soon': allowed: a number of seconds", "true", env={"MPIEXEC_TIMEOUT": "soon"})
        refuses(2, r"--timeout nan: allowed: a number of seconds", "--timeout", "nan", "true")
        refuses(2, r"-x =1: allowed: NAME or NAME=VALUE", "-x", "=1", "true")
        expect(mpiexec(), status=2, err="no program is given")

    with case("options that other launchers' scripts carry"):
        expect_lines(mpiexec("--oversubscribe", "--allow-run-as-root", "-n", "2", "--host", "localhost:8", "echo", "x"), ["x"] * 2)
        result = mpiexec("--mca", "btl", "self,vader", "-n", "1", "true")
        expect(result, status=0, err=r"^mpiexec: note: 'btl' is a parameter of Open MPI and has no effect$")

    with case("settings that make no sense are named once, with what is allowed"):
        refuses(2, r"^mpiexec: ISTHMUS_IDLE='lazy' is not understood; allowed: auto, spin or sleep$", "-n", "4", "true",
                env={"ISTHMUS_IDLE": "lazy"})  # fmt: skip
        refuses(2, r"ISTHMUS_RING_CELLS='100' is not understood; allowed: a power of two", "-n", "1", "-x",
                "ISTHMUS_RING_CELLS=100", "true")  # fmt: skip
        result = mpiexec("-n", "4", "true", env={"ISTHMUS_EAGER": "1"})
        expect(result, status=0, err="^mpiexec: warning: the variable ISTHMUS_EAGER means nothing .* ISTHMUS_EAGER_LIMIT ")
        assert len(result.err.splitlines()) == 1, str(result)
        result = mpiexec("-n", "1", "true", env={"ISTHMUS_EAGER": "1", "ISTHMUS_WARN": "off"})
        assert result.status == 0 and result.err == "", str(result)

    with case("a limit on memory that the region does not fit in"):
        if os.environ.get("DEV_SANITIZER"):
            raise Skip("sanitizers want all address space")
        result = suite.run(["bash", "-c", f"ulimit -v 400000; exec {MPIEXEC} --bind-to none -n 256 true"])
        expect(result, status=1, err=r"^mpiexec: cannot make the job's shared region .*ulimit -v")

    with case("a limit on file sizes that the region does not fit in"):
        result = suite.run(["bash", "-c", f"ulimit -f 1000; exec {MPIEXEC} -n 8 true"])
        expect(result, status=1, err=r"^mpiexec: cannot make the job's shared region .*ulimit -f")

    with case("the launcher's variables, set by hand or half, are refused with reasons"):
        def joins(message, **variables):
            expect(suite.run([PROBE, "join"], env=variables), status=3, err=message)

        joins("ISTHMUS_RANK='1' is set, but ISTHMUS_REGION is not", ISTHMUS_RANK="1")
        joins("ISTHMUS_REGION='5' is set, but ISTHMUS_RANK is not", ISTHMUS_REGION="5")
        joins("ISTHMUS_RANK='first' is not a rank", ISTHMUS_RANK="first", ISTHMUS_REGION="5")
        joins("ISTHMUS_RANK='-1' is not a rank", ISTHMUS_RANK="-1", ISTHMUS_REGION="5")
        joins("ISTHMUS_REGION='x' is not the number of a file descriptor", ISTHMUS_RANK="0", ISTHMUS_REGION="x")
        joins("descriptor 500 is not open", ISTHMUS_RANK="0", ISTHMUS_REGION="500")
        joins("descriptor 1 is not a region of Isthmus", ISTHMUS_RANK="0", ISTHMUS_REGION="1")

    with case("a rank beyond the job's size"):
        result = mpiexec("-n", "2", "env", "ISTHMUS_RANK=2", PROBE, "join")
        expect(result, status=3, err="ISTHMUS_RANK='2' is not a rank of the job: it has 2 ranks")

    with case("a wrapper that closes inherited descriptors"):
        result = mpiexec("-n", "1", "bash", "-c", f'eval "exec $ISTHMUS_REGION>&-"; {PROBE} join')
        expect(result, status=3, err=r"ISTHMUS_REGION='\d+': descriptor \d+ is not open: something .* closed")


# --- the tools' words -------------------------------------------------------------------------------------------------


def test_tools():
    with case("mpiexec --help and --version"):
        result = mpiexec("--help")
        expect(result, status=0, out=r"^  -n, -np N ")
        for word in ("--bind-to", "--map-by", "--wdir", "-x NAME", "-env NAME", "--tag-output", "--timeout", "Examples"):
            assert word in result.out, word
        assert max(map(len, result.out.splitlines())) <= 110, "lines are too long"
        assert "--memory-alloc-kinds KINDS\n" in result.out, "a long name and its text are one word"
        expect(mpiexec("--version"), status=0, out=r"^mpiexec \(Isthmus\) \d+\.\d+\.\d+$")

    with case("isthmus info tells about this machine"):
        result = suite.run([ISTHMUS, "info"], timeout=20)
        expect(result, status=0, out=rf"name +{re.escape(os.uname().nodename)}$")
        for word in ("process_vm_readv", "Yama", "memfd", "namespaces", "Channels"):
            assert word in result.out, str(result)
        machine = {"HWLOC_SYNTHETIC": "pack:2 core:4 pu:2", "HWLOC_THISSYSTEM": "0"}
        result = suite.run([ISTHMUS, "info"], env=machine, timeout=20)
        expect(result, status=0, out=r"hardware threads +16 hardware threads$")

    with case("isthmus info --settings tells value and origin"):
        result = suite.run([ISTHMUS, "info", "--settings"], env={"ISTHMUS_EAGER_LIMIT": "16K"})
        expect(result, status=0, out=r"^ISTHMUS_EAGER_LIMIT +16384 +environment ")
        expect(result, out=r"^ISTHMUS_IDLE +auto +default ")
        expect(suite.run([ISTHMUS, "info", "--settings"], env={"ISTHMUS_IDLE": "x"}), status=1, err="allowed: auto, spin or sleep")

    with case("isthmus info --coverage counts what mpi.h has"):
        result = suite.run([ISTHMUS, "info", "--coverage"])
        expect(result, status=0)
        rows = re.findall(r"^(\S.*?) +(\d+) of (\d+) +\d+ %$", result.out, re.M)
        names, done, all_of = zip(*((name, int(a), int(b)) for name, a, b in rows))
        assert sum(done[:-1]) == done[-1] and sum(all_of[:-1]) == all_of[-1] and all_of[-1] > 600, str(result)
        header = (PREFIX / "include/mpi.h").read_text() if (PREFIX / "include/mpi.h").exists() else None
        if header:
            functions = set(re.findall(r"\bMPI_[A-Z]\w*(?=\s*\()", re.sub(r"/\*.*?\*/|//[^\n]*|#[^\n]*", "", header, flags=re.S)))
            functions = {name for name in functions if not name.endswith("_fn") and "_function" not in name}
            assert abs(len(functions) - all_of[-1]) <= 2, f"{len(functions)} functions in mpi.h, {all_of[-1]} in the table"
        missing = suite.run([ISTHMUS, "info", "--coverage", "all"]).out.count("not yet: ")
        assert missing == all_of[-1] - done[-1], missing

    with case("isthmus explain runs the command with our mpiexec"):
        result = suite.run([ISTHMUS, "explain", "mpiexec", "-n", "2", "sh", "-c", "echo $ISTHMUS_EXPLAIN"])
        expect_lines(result, ["on", "on"])
        expect(suite.run([ISTHMUS, "explain", "no-such-program"]), status=127, err="command not found")
        expect(suite.run([ISTHMUS, "explain"]), status=2, err="needs a command")

    with case("isthmus version, and words it does not know"):
        expect(suite.run([ISTHMUS, "version"]), status=0, out=r"^Isthmus \d+\.\d+\.\d+")
        expect(suite.run([ISTHMUS, "nonsense"]), status=2)


HAS_TOOL = ISTHMUS.exists()  # it has one thread, and is not built with ThreadSanitizer
assert HAS_TOOL or os.environ.get("DEV_SANITIZER") == "tsan", f"{ISTHMUS} is missing"

test_starting()
test_environment()
test_placement()
if HAS_TOOL:
    test_gpus()
test_output()
test_terminal()
test_failures()
test_phases()
test_leftovers()
test_signals()
test_bad_input()
if HAS_TOOL:
    test_tools()
suite.finish()
