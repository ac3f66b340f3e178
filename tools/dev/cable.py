"""An Ethernet cable between two network namespaces that loses, delays and reorders frames: for kernels without netem.

    with Cable("/proc/1/ns/net", "tap0", "/proc/2/ns/net", "eth0", loss=0.05, delay=0.05, reorder=0.1, seed=1):
        ...  # both devices are there, without addresses, and down

Two TAP devices and a process that carries frames from one to the other; with the process, they go.
"""

import argparse
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

from closing import Closing

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
ARP = b"\x08\x06"  # the type of a frame
OVERTAKING = 0.005  # seconds by which a frame that shall be overtaken is later than it would be
REFUSED = 77  # exit status: this kernel, or this user's rights, have no TAP devices


class CableRefused(Exception):
    """TAP devices cannot be made here; the text says why."""


class Cable(Closing):
    """`loss` and `reorder` are shares of the frames, `delay` is in seconds, each way. What asks for Ethernet addresses is not lost: after
    three questions without an answer, in three seconds, a kernel takes the host for unreachable, and ends what connects to it."""

    def __init__(self, one_namespace, one, other_namespace, other, *, loss=0.0, delay=0.0, reorder=0.0, seed=1):
        ends = [one_namespace, one, other_namespace, other]
        faults = ["--loss", loss, "--delay", delay, "--reorder", reorder, "--seed", seed]
        self._command = list(map(str, [sys.executable, __file__, *ends, *faults]))
        self._process = None

    def _open(self):
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if self._process.stdout.readline() != "ready\n":
            why = self._process.stderr.read().strip()
            raise (CableRefused if self._process.wait() == REFUSED else RuntimeError)(why)

    def close(self):
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None


class Line:
    """One direction: a frame that comes out of `source` goes into `target` later, or never."""

    def __init__(self, source, target, faults, chance):
        self.source = source
        self._target = target
        self._faults = faults
        self._chance = chance
        self._under_way = []  # (when it arrives, its number, the frame)
        self._count = 0

    def take(self):
        """All frames that wait to be carried."""
        while True:
            try:
                frame = os.read(self.source, 65536)
            except BlockingIOError:
                return
            except OSError:  # the device is down
                return
            if self._chance.random() < self._faults.loss and frame[12:14] != ARP:
                continue
            late = OVERTAKING if self._chance.random() < self._faults.reorder else 0
            self._count += 1
            heapq.heappush(self._under_way, (time.monotonic() + self._faults.delay + late, self._count, frame))

    def deliver(self):
        """The frames whose time has come; the seconds until the next one's, None where there is none."""
        while self._under_way:
            left = self._under_way[0][0] - time.monotonic()
            if left > 0:
                return left
            try:
                os.write(self._target, heapq.heappop(self._under_way)[2])
            except OSError:  # full or down: lost, as on a cable
                pass
        return None


def open_tap(namespace, name):
    with open(namespace) as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), namespace)
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return tap


def carry(faults):
    try:
        ends = open_tap(faults.one_namespace, faults.one), open_tap(faults.other_namespace, faults.other)
    except OSError as error:
        print(f"TAP devices cannot be made here: {error}", file=sys.stderr)
        return REFUSED
    chance = random.Random(faults.seed)
    lines = [Line(*ends, faults, chance), Line(*reversed(ends), faults, chance)]
    poll = select.poll()
    for fd in (*ends, sys.stdin.fileno()):
        poll.register(fd, select.POLLIN)
    print("ready", flush=True)
    while True:
        waits = [wait for line in lines if (wait := line.deliver()) is not None]
        ready = poll.poll(max(1, min(waits) * 1000) if waits else None)
        if any(fd == sys.stdin.fileno() for fd, _ in ready):
            return 0  # whoever has laid the cable is gone
        for line in lines:
            line.take()


def main():
    parser = argparse.ArgumentParser()
    for end in ("one_namespace", "one", "other_namespace", "other"):
        parser.add_argument(end)
    for fault in ("--loss", "--delay", "--reorder"):
        parser.add_argument(fault, type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    return carry(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
