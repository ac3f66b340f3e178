# title: ranks in virtual machines of one host, through the memory of an ivshmem device
# timeout: 400
import os
import re
import shutil
import subprocess
import sys
import uuid

sys.path.insert(0, "tools/dev")
from suite import BUILD, PREFIX, Skip, Suite
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
    result = pretend("--hosts", "m1,m2", "-n", 2, "env", "ISTHMUS_EXPLAIN=1", PROGRAM)
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


def job(slots, words, settings):
    hosts = ",".join(f"{address}:{slots}" for address in Machines.addresses)
    variables = "".join(f"{name}={value} " for name, value in settings.items())
    words = " ".join(map(str, words))
    return f"{variables}{MPIEXEC} --hosts {hosts} --launcher {Machines.launcher} -n {2 * slots} /mnt/apart {words}"


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
        "two ranks share the memory of the ivshmem device": (1, [300], {"ISTHMUS_EXPLAIN": 1}),
        "without the device they take the network": (1, [100], {"ISTHMUS_EXPLAIN": 1, "ISTHMUS_IVSHMEM": "off"}),
        "four ranks share it within a machine too": (2, [], {"ISTHMUS_EXPLAIN": 1}),
    }
    for name, (slots, words, settings) in jobs.items():
        with suite.case(name):
            status, text = machines.run(job(slots, words, settings), timeout=100)
            assert status == 0 and "all right" in text, f"exit status {status}\n{text}"
            through_device = "shared memory: ivshmem device 0000:" in text
            assert through_device == ("ISTHMUS_IVSHMEM" not in settings), text
            results[name] = text
    with suite.case("what both ways cost is printed"):
        device, network = list(results.values())[:2]
        for name, unit in (("latency", "us for 8 B"), ("bandwidth", "MB/s with 1 MiB")):
            print(f"{name}: ivshmem {figure(name, device)} {unit}, network {figure(name, network)}")
finally:
    machines.close()
suite.finish()
