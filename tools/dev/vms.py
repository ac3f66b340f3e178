"""Two virtual machines for tests, which have the memory of one ivshmem device and an Ethernet cable between them.

    from vms import Machines, why_not
    with Machines(folder, cache) as machines:        # `folder` is /mnt in both; their addresses are machines.addresses
        status, text = machines.run("exec mpiexec ...", timeout=60)   # in the first, as root, in this host's files (read-only)

QEMU emulates them, so that they run where virtual machines cannot be nested. A Debian kernel and a busybox are downloaded into
`cache` once; nothing is installed. `machines.launcher` starts commands in both, as `mpiexec --launcher` wants it.
`rdma link add rxe0 type rxe netdev eth0` makes a RoCE device of a machine's end of the cable.
"""

import contextlib
import lzma
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from closing import Closing

# With what they need; those that a kernel has built in are not there. rdma_rxe asks for the checksum by its name.
MODULES = "virtio_pci virtio_net 9pnet_virtio 9p crc32_generic ib_uverbs rdma_rxe".split()

INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /host
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for word in $(cat /proc/cmdline); do case $word in vmid=*) id=${word#vmid=} ;; esac; done
for module in $(cat /modules/order); do insmod /modules/$module; done
hostname vm$id; ip link set lo up; ip link set eth0 up; ip addr add 10.77.0.$id/24 dev eth0
options=trans=virtio,version=9p2000.L,msize=262144
mount -t 9p -o $options,ro host /host
mount -t proc proc /host/proc; mount -t sysfs sys /host/sys; mount -o bind /dev /host/dev
mkdir -p /dev/shm; mount -t tmpfs shm /host/dev/shm
mount -t 9p -o $options lab /host/mnt
export PATH=/usr/bin:/bin:/usr/sbin:/sbin TMPDIR=/dev/shm HOME=/
chroot /host /bin/sh /mnt/serve vm$id
poweroff -f
"""

# What a machine does: whatever stands in its order, one after the other. Files appear by renaming, so whole.
SERVE = """cd /mnt; : > $1.up
while [ ! -e end ]; do
  if [ -e $1.order ]; then
    mv $1.order $1.taken
    [ -e $1.in ] || : > $1.in
    sh $1.taken < $1.in > $1.out 2>&1
    echo $? > $1.status; mv $1.status $1.done
  else sleep 0.05
  fi
done
"""

# HOST COMMAND, in the first machine; a line of stdin is the job's key.
LAUNCHER = """#!/bin/sh
host=$1; shift
case $host in
10.77.0.1) exec sh -c "$*" ;;
10.77.0.2) ;;
*) echo "unknown host $host" >&2; exit 255 ;;
esac
cd /mnt; rm -f vm2.done
head -n 1 > vm2.in
echo "$*" > vm2.new; mv vm2.new vm2.order
until [ -e vm2.done ]; do sleep 0.05; done
cat vm2.out
exit $(cat vm2.done)
"""


def why_not():
    """Why machines cannot be made here, or None."""
    for program in ("qemu-system-x86_64", "apt-get", "dpkg-deb"):
        if not shutil.which(program):
            return f"{program} is not installed"
    if os.uname().machine != "x86_64":
        return "the machines are for x86-64 alone"
    return None


def _download(cache, package):
    """Unpacks a Debian package into `cache`/NAME, once."""
    folder = cache / package
    if folder.exists():
        return folder
    getting = cache / "getting"
    shutil.rmtree(getting, ignore_errors=True)
    getting.mkdir(parents=True)
    got = subprocess.run(["apt-get", "-q", "download", package], cwd=getting, capture_output=True, text=True, timeout=120)
    if got.returncode != 0:
        raise OSError(f"apt-get download {package}: {got.stderr.strip()}")
    (deb,) = getting.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", deb, getting / "unpacked"], check=True)
    (getting / "unpacked").rename(folder)
    shutil.rmtree(getting)
    return folder


def _kernel_package():
    shown = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True, timeout=60).stdout
    for word in shown.split():
        if word.startswith("linux-image-6") or word.startswith("linux-image-5"):
            return word
    raise OSError("apt-cache knows no linux-image-amd64")


def _archive(files):
    """A cpio archive (newc) of {name: (mode, bytes)}."""
    out = b""
    for inode, (name, (mode, data)) in enumerate({**files, "TRAILER!!!": (0, b"")}.items(), 1):
        fields = [inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        out += head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)
    return out


def _in_order(modules, wanted):
    """The names of `wanted` and of what they need, each after what it needs."""
    order = []
    for name in filter(modules.get, wanted):
        needs = re.search(rb"\0depends=([^\0]*)\0", modules[name].read_bytes())[1].decode().replace("-", "_")
        order += [each for each in [*_in_order(modules, needs.split(",")), name] if each not in order]
    return order


def prepare(cache):
    """The kernel and the initial file system, made once a kernel; raises OSError where they cannot be had."""
    known = list(cache.glob("linux-image-*"))
    kernel = known[0] if known else _download(cache, _kernel_package())
    busybox = _download(cache, "busybox-static")
    image, files = cache / "vmlinux", {}
    if not image.exists():
        packed = next((kernel / "boot").glob("vmlinuz-*")).read_bytes()
        # Uncompressed it boots 2 s sooner under emulation.
        image.write_bytes(lzma.LZMADecompressor().decompress(packed[packed.index(b"\xfd7zXZ\0") :]))
    modules = {path.name.partition(".")[0].replace("-", "_"): path for path in (kernel / "lib/modules").rglob("*.ko")}
    names = _in_order(modules, MODULES)
    for folder in ("bin", "modules", "dev"):
        files[folder] = (0o40755, b"")
    for name in names:
        files["modules/" + name] = (0o100644, modules[name].read_bytes())
    files["modules/order"] = (0o100644, "\n".join(names).encode())
    files["bin/busybox"] = (0o100755, (busybox / "bin/busybox").read_bytes())
    files["init"] = (0o100755, INIT.encode())
    (cache / "initrd").write_bytes(_archive(files))
    return image, cache / "initrd"


class Machines(Closing):
    addresses = ["10.77.0.1", "10.77.0.2"]
    launcher = "/mnt/launcher"

    def __init__(self, folder, cache, memory_bytes=64 << 20):
        self._folder = Path(folder)
        self._cache = Path(cache)
        self._bytes = memory_bytes
        self._processes = []

    def _open(self):
        kernel, files = prepare(self._cache)
        self._folder.mkdir(exist_ok=True)
        (self._folder / "serve").write_text(SERVE)
        (self._folder / "launcher").write_text(LAUNCHER)
        (self._folder / "launcher").chmod(0o755)
        for number in (1, 2):
            self._boot(number, kernel, files)
        self._wait(lambda: all(self._file(f"vm{i}.up").exists() for i in (1, 2)), 90, "boot")

    def close(self):
        if self._processes:
            self._file("end").touch()
        end = time.monotonic() + 10
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0, end - time.monotonic()))
            if process.poll() is None:
                process.kill()
                process.wait()

    def run(self, script, timeout):
        """Exit status and output of a shell script in the first machine."""
        for name in ("vm1.done", "vm1.out"):
            self._file(name).unlink(missing_ok=True)
        self._file("vm1.new").write_text(script + "\n")
        self._file("vm1.new").rename(self._file("vm1.order"))
        self._wait(lambda: self._file("vm1.done").exists(), timeout, script)
        return int(self._file("vm1.done").read_text()), self._file("vm1.out").read_text()

    def _file(self, name):
        return self._folder / name

    def _boot(self, number, kernel, files):
        cable = [f"unix,local.path={self._folder}/cable{number}", f"unix,remote.path={self._folder}/cable{3 - number}"]
        memory = f"share=on,mem-path={self._folder}/memory,size={self._bytes}"
        command = ["qemu-system-x86_64", "-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "512"]
        # With maxcpus=1 QEMU emits plain loads and stores for atomics, which then are none between machines.
        command += ["-smp", "1,maxcpus=2", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        command += ["-kernel", kernel, "-initrd", files, "-serial", f"file:{self._folder}/vm{number}.log"]
        command += ["-append", f"console=ttyS0 quiet panic=-1 nokaslr mitigations=off vmid={number}"]
        command += ["-virtfs", "local,path=/,mount_tag=host,security_model=none,multidevs=remap,readonly=on"]
        command += ["-virtfs", f"local,path={self._folder},mount_tag=lab,security_model=none,multidevs=remap"]
        command += ["-object", f"memory-backend-file,id=shared,{memory}", "-device", "ivshmem-plain,memdev=shared"]
        command += ["-netdev", f"dgram,id=net,local.type={cable[0]},remote.type={cable[1]}"]
        command += ["-device", f"virtio-net-pci,netdev=net,mac=52:54:00:77:00:0{number},romfile="]
        with open(self._folder / f"vm{number}.err", "w") as err:
            self._processes.append(subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=err, stderr=err))

    def _wait(self, happened, seconds, what):
        end = time.monotonic() + seconds
        while not happened():
            if time.monotonic() > end or any(process.poll() is not None for process in self._processes):
                names = [name for i in (1, 2) for name in (f"vm{i}.log", f"vm{i}.err", f"vm{i}.out")]
                told = "".join(f"{name}:\n{self._file(name).read_text()[-2000:]}\n" for name in names if self._file(name).exists())
                raise AssertionError(f"the machines did not do this in {seconds} s: {what}\n{told}")
            time.sleep(0.05)
