# title: what isthmus info says of a machine is true, in words and as JSON
# timeout: 120
# about: src/base/* src/launch/* src/place/* src/route/* tools/isthmus/*
import json
import os
import resource
import shutil
import sys
from pathlib import Path

sys.path.insert(0, "tools/dev")
from suite import PREFIX, Skip, Suite

suite = Suite("info")
ISTHMUS = PREFIX / "bin/isthmus"
SECTIONS = ("host", "processors", "place", "limits", "permissions", "devices", "libraries", "channels")


def info(*before, program=ISTHMUS, env=None):
    """The whole object; `before` are words before the command."""
    return json.loads(suite.expect(suite.run([*before, program, "info", "--json"], env=env, timeout=20), status=0).out)


def value(report, section, fact):
    return report[section][fact]["value"]


with suite.case("--json is one object with a value and a text for each fact, and the text of people has them all"):
    report = info()
    assert tuple(report) == ("isthmus_info", *SECTIONS) and report["isthmus_info"] == 1, report
    shown = suite.expect(suite.run([ISTHMUS, "info"], timeout=20), status=0).out
    for section in SECTIONS:
        for name, fact in report[section].items():
            assert set(fact) == {"value", "text"} and fact["text"], (name, fact)
            assert name in ("pid", "dev_shm") or fact["text"] in shown, (name, fact)
    suite.expect(suite.run([ISTHMUS, "info", "--json", "--settings"]), status=2, err="excludes")

with suite.case("it is the machine's: processors, namespaces, limits, interfaces"):
    usable = len(os.sched_getaffinity(0))
    assert value(report, "processors", "hardware_threads")["usable"] == usable, report["processors"]
    for name, number in value(report, "place", "namespaces").items():
        assert number == os.stat(f"/proc/self/ns/{name}").st_ino, name
    for fact, limit in (("open_files", resource.RLIMIT_NOFILE), ("locked_memory", resource.RLIMIT_MEMLOCK)):
        soft, hard = (None if one == resource.RLIM_INFINITY else one for one in resource.getrlimit(limit))
        assert value(report, "limits", fact) == {"soft": soft, "hard": hard}, report["limits"][fact]
    status = os.statvfs("/dev/shm")
    assert value(report, "limits", "dev_shm")["all"] == status.f_blocks * status.f_frsize
    there = {f"interface_{one.name}" for one in Path("/sys/class/net").iterdir() if one.is_dir()}
    assert there == {key for key in report["devices"] if key.startswith("interface_")}, report["devices"]

with suite.case("it follows what a process may do"):
    tight = info("prlimit", "--nofile=100:200", "--memlock=65536:65536")
    assert value(tight, "limits", "open_files") == {"soft": 100, "hard": 200}, tight["limits"]
    assert tight["limits"]["locked_memory"]["text"].startswith("64 KiB: InfiniBand and RoCE"), tight["limits"]
    one = info("taskset", "-c", min(os.sched_getaffinity(0)))
    assert value(one, "processors", "hardware_threads")["usable"] == value(one, "processors", "spinning_ranks") == 1, one

with suite.case("UCX is named with its version, and each transport with a device that is there"):
    network = value(report, "libraries", "network")
    if network is None:
        raise Skip("this build has no network")
    assert network["library"].startswith("UCX 1."), network
    devices = set(os.listdir("/sys/class/net"))
    if Path("/sys/class/infiniband").exists():
        devices |= set(os.listdir("/sys/class/infiniband"))
    assert network["transports"] and all(one["device"].split(":")[0] in devices for one in network["transports"]), network
    assert value(report, "channels", "network") is True

with suite.case("without the network's library it says so, and what to install"):
    (suite.tmp / "bin").mkdir()
    alone = shutil.copy(ISTHMUS, suite.tmp / "bin/isthmus")
    report = info(program=alone)
    assert value(report, "libraries", "network") is None and value(report, "channels", "network") is False, report["channels"]
    assert "libucx-dev" in report["libraries"]["network"]["text"], report["libraries"]

# A machine of other hardware: its /sys, and what the NVIDIA driver shows in /proc.
FILES = {
    "sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand",
    "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE",
    "sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)",
    "sys/class/infiniband/mlx5_1/ports/1/link_layer": "Ethernet",
    "sys/class/infiniband/mlx5_1/ports/1/state": "1: DOWN",
    "sys/class/infiniband/mlx5_1/ports/1/rate": "40 Gb/sec (4X QDR)",
    "sys/class/net/wire0/operstate": "up",
    "sys/class/net/wire0/speed": "25000",
    "sys/class/net/wire0/mtu": "9000",
    "sys/class/net/wire0/flags": "0x1003",
    "sys/class/net/dead0/operstate": "down",
    "sys/class/net/dead0/flags": "0x1002",
    "sys/class/net/bonding_masters": "",
    "sys/bus/pci/devices/0000:00:03.0/vendor": "0x1af4",
    "sys/bus/pci/devices/0000:00:03.0/device": "0x1110",
    "sys/bus/pci/devices/0000:00:03.0/resource2": "x" * 4096,
    "sys/bus/pci/devices/0000:00:04.0/vendor": "0x1af4",
    "sys/bus/pci/devices/0000:00:04.0/device": "0x1041",
    "driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024",
    "driver/nvidia/gpus/0000:19:00.0/information": "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 100\nGPU UUID: \t GPU-aa-bb",
}

with suite.case("another machine's GPU, InfiniBand, ivshmem device and interfaces are told, and what they mean"):
    for name, text in FILES.items():
        path = suite.tmp / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n" * (not text.startswith("x")))
    script = f"mount --bind {suite.tmp}/sys /sys && mount --bind {suite.tmp}/driver /proc/driver && exec \"$@\""
    elsewhere = ("unshare", "-rm", "sh", "-c", script, "sh")
    if suite.run([*elsewhere, "true"]).status != 0:
        raise Skip("this user may not mount")
    report = info(*elsewhere, env={"HWLOC_SYNTHETIC": "pack:1 core:2 pu:1"})
    devices = report["devices"]
    assert [(one["port"], one["active"]) for one in value(report, "devices", "infiniband")] == [("mlx5_0:1", True), ("mlx5_1:1", False)]
    assert "mlx5_0:1 (InfiniBand, ACTIVE, 400 Gb/sec (4X NDR)); mlx5_1:1 (RoCE, DOWN, " in devices["infiniband"]["text"], devices
    if not Path("/dev/infiniband").exists():
        assert "/dev/infiniband is not here" in devices["infiniband"]["text"], devices
    assert value(report, "devices", "ivshmem") == [{"address": "0000:00:03.0", "bytes": 4096, "usable": True}], devices
    assert value(report, "channels", "ivshmem") is True
    assert devices["interface_wire0"]["text"] == "up: transport tcp, 25 Gbit/s, MTU 9000", devices
    assert devices["interface_dead0"]["text"].startswith("down"), devices
    assert "interface_bonding_masters" not in devices
    gpus = value(report, "devices", "gpus")
    if any(gpu["bytes"] for gpu in gpus):
        raise Skip("this machine has a GPU of its own")
    assert gpus == [
        {"name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-aa-bb", "bus": "0000:19:00.0", "bytes": None, "driver": "550.54.15"}
    ], gpus

suite.finish()
