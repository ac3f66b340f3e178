# title: ranks in virtual machines of one host, through the memory of an ivshmem device and over InfiniBand verbs
# timeout: 400
# about: src/channel/network/ucx/* src/launch/* src/place/* src/wire/device*
import os
import re
import shutil
import subprocess
import sys
import uuid

sys.path.insert(0, "tools/dev")
from suite import BUILD, BUILT, PREFIX, Skip, Suite
from vms import Machines, prepare, why_not

suite = Suite("vms")
MPIEXEC = PREFIX / "bin/mpiexec"
PROGRAM = suite.tmp / "apart"
CACHE = BUILD / "vms"

with suite.case("the program that the ranks run"):
    suite.expect(suite.run([PREFIX / "bin/mpicc", "-O2", "-o", PROGRAM, "test/launch/apart.c"]))

# --- a file instead of the device, and boot ids that differ ------------------------------------------------------------------------


def pretended_machines(count):
    """A launcher of hosts m1, m2, ... that see boot ids of their own."""
    for i in range(1, count + 1):
        (suite.tmp / f"boot.m{i}").write_text(f"{uuid.uuid4()}\n")
    path = suite.tmp / "pretend"
    path.write_text(
        f'#!/bin/sh\nboot={suite.tmp}/boot.$1; shift; export boot command="$*"\n'
        "exec unshare -m sh -c 'mount --bind $boot /proc/sys/kernel/random/boot_id && exec sh -c \"$command\"'\n"
    )
    path.chmod(0o755)
    return path


def pretend(*words, memory="64M", **options):
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        raise Skip("mount namespaces cannot be made here")
    path = suite.tmp / "memory"
    path.unlink(missing_ok=True)
    subprocess.run(["truncate", "-s", memory, path], check=True)
    launcher = pretended_machines(3)
    return suite.run([MPIEXEC, "--launcher", launcher, *words], env={"ISTHMUS_IVSHMEM": path}, timeout=60, **options)


with suite.case("ranks with different boot ids share the memory of a file"):
    result = pretend("--hosts", "m1:2,m2:2,m3", "-n", 5, PROGRAM)
    suite.expect(result, out="^all right$")

with suite.case("what explain says of it"):
    result = pretend("--hosts", "m1,m2", "-n", 2, "env", "ISTHMUS_EXPLAIN=full", PROGRAM)
    suite.expect(result, err=rf"shared memory: ivshmem device {re.escape(str(suite.tmp))}/memory")
    suite.expect(result, err="reading the peer's memory: it is in another virtual machine")

with suite.case("without room in it, the network is used, and a warning says why"):
    result = pretend("--hosts", "m1:2,m2:2", "-n", 4, PROGRAM, memory="192K")
    suite.expect(result, out="^all right$", err=r"cannot meet in it: 4 ranks need \d+ KiB")

# --- two machines -----------------------------------------------------------------------------------------------------------------

missing = why_not()
if not missing:
    try:
        prepare(CACHE)
    except (OSError, subprocess.SubprocessError, StopIteration) as error:
        missing = f"the machines' kernel cannot be downloaded: {error}"

if missing:
    suite.skip("two virtual machines", missing)
    suite.finish()


def job(slots, words, settings, options=""):
    hosts = ",".join(f"{address}:{slots}" for address in Machines.addresses)
    variables = "".join(f"{name}={value} " for name, value in settings.items())
    words = " ".join(map(str, words))
    return f"{variables}{MPIEXEC} {options} --hosts {hosts} --launcher {Machines.launcher} -n {2 * slots} /mnt/apart {words}"


def gpu_job(*words, **settings):
    """A program of test/gpu on the emulated CUDA driver, a rank on each machine, over rc."""
    emulated = BUILT / "test/emulated"
    variables = {"LD_LIBRARY_PATH": f"{emulated}:{PREFIX / 'lib'}", "EMULATED_CUDA_LEAKS": "fail", "EMULATED_GDR": "absent",
                 "EMULATED_CUDA_TWINS": emulated / "libemulated_kernels.so", "ISTHMUS_IVSHMEM": "off", "ISTHMUS_EXPLAIN": "full", **settings}  # fmt: skip
    env = " ".join(f"{name}={value}" for name, value in variables.items())
    program = " ".join(map(str, [BUILT / "test/gpu" / words[0], *words[1:]]))
    hosts = ",".join(Machines.addresses)
    return f"{MPIEXEC} --transport rc --hosts {hosts} --launcher {Machines.launcher} -n 2 env {env} {program} && echo all right"


def expect_right(script, *patterns):
    """The output of a job that ends well and says something for each of the patterns."""
    status, text = machines.run(script, timeout=100)
    assert status == 0 and "all right" in text, f"exit status {status}\n{text}"
    for pattern in patterns:
        assert re.search(pattern, text), f"nothing here is {pattern}\n{text}"
    return text


def figure(name, text):
    return float(re.search(rf"^{name} ([\d.]+)$", text, re.MULTILINE)[1])


def boot():
    folder = suite.tmp / "lab"
    folder.mkdir()
    shutil.copy(PROGRAM, folder / "apart")
    return Machines(folder, CACHE)


machines = None
with suite.case("two virtual machines boot"):
    machines = boot().__enter__()
if machines is None:
    suite.finish()

try:
    results = {}
    jobs = {
        "two ranks share the memory of the ivshmem device": (1, [300], {"ISTHMUS_EXPLAIN": "full"}),
        "without the device they take the network": (1, [100], {"ISTHMUS_EXPLAIN": "full", "ISTHMUS_IVSHMEM": "off"}),
        "four ranks share it within a machine too": (2, [], {"ISTHMUS_EXPLAIN": "full"}),
    }
    for name, (slots, words, settings) in jobs.items():
        with suite.case(name):
            results[name] = text = expect_right(job(slots, words, settings))
            through_device = "shared memory: ivshmem device 0000:" in text
            assert through_device == ("ISTHMUS_IVSHMEM" not in settings), text
    with suite.case("what both ways cost is printed"):
        device, network = list(results.values())[:2]
        for name, unit in (("latency", "us for 8 B"), ("bandwidth", "MB/s with 1 MiB")):
            print(f"{name}: ivshmem {figure(name, device)} {unit}, network {figure(name, network)}")
    # Soft-RoCE: the kernel's InfiniBand verbs over the cable.
    apart = {"ISTHMUS_EXPLAIN": "full", "ISTHMUS_IVSHMEM": "off"}
    verified, few = [0, 1 << 20], [0, 256]
    with suite.case("a transport that one of two machines lacks is an error that says what there is"):
        status, text = machines.run("rdma link add rxe0 type rxe netdev eth0; " + job(1, verified, apart, "--transport rc"), timeout=60)
        assert status != 0 and "all right" not in text, text
        assert re.search(r"\[vm2:.*no device for the transport rc .*InfiniBand or RoCE.*; there is: .*tcp on eth0", text), text
    with suite.case("both machines get a RoCE device"):
        status, text = machines.run(f"{Machines.launcher} 10.77.0.2 rdma link add rxe0 type rxe netdev eth0 < /dev/null", timeout=20)
        assert status == 0, text
    with suite.case("ranks exchange verified data over rc"):
        expect_right(job(1, verified, apart, "--transport rc"), "transport: rc_verbs on rxe0:1, ud_verbs on rxe0:1\n", "up to 16 KiB +network eager")
    with suite.case("messages between GPUs, and from a host to a GPU, go in chunks over rc"):
        text = expect_right(gpu_job("gpu_p2p", "short", ISTHMUS_GPU_CHUNK="32K"), "transport: rc_verbs on rxe0:1")
        counts = re.findall(r"GPU memory to another host, in chunks +sent (\d+) messages, \d+ bytes; received (\d+)", text)
        sent, received = (sum(map(int, each)) for each in zip(*counts, strict=True))
        assert 0 < sent < received, f"what GPUs have sent: {sent}; with what hosts have, for GPUs: {received}\n{text}"
    with suite.case("ranks exchange verified data over ud, which a variable asks for"):
        expect_right(job(1, verified, {**apart, "ISTHMUS_TRANSPORT": "ud"}), "transport: ud_verbs on rxe0:1\n")
    with suite.case("unasked they take the fastest that both have, and four ranks that share two cores sleep on it"):
        expect_right(job(2, few, apart), "transport: rc_verbs on rxe0:1", "idle policy: yield, then sleep")
    with suite.case("with the device's memory in common, the transport makes no difference"):
        for transport in ("rc", "ud"):
            text = expect_right(job(1, few, {"ISTHMUS_EXPLAIN": "full"}, f"--transport {transport}"), "shared memory: ivshmem device 0000:")
            assert "network" not in text, text
finally:
    machines.close()
suite.finish()
