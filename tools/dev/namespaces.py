"""Hosts for tests: containers with every namespace but the user's private, joined by a bridge, all gone at the end.

    from namespaces import Hosts
    with Hosts(2) as hosts:                                     # h1 and h2, 10.77.0.1 and 10.77.0.2
        run([*hosts.head, mpiexec, "--hosts", "h1,h2", "--launcher", hosts.launcher, program])
        with hosts.bad_cable("h1", delay=0.05, loss=0.05):
            ...
        hosts.cut("h2")

The head, 10.77.0.254, is a network namespace with the bridge in it and this host's everything else. Needs root.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from cable import Cable
from closing import Closing

HEAD_ADDRESS = "10.77.0.254"


def why_not():
    """Why hosts cannot be made here, or None."""
    for program in ("ip", "nsenter", "unshare"):
        if not shutil.which(program):
            return f"{program} is not installed"
    if os.geteuid() != 0:
        return "needs root"
    made = subprocess.run(
        ["unshare", "-muinpf", "sh", "-c", "ip link add isthmus type bridge"], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    return None if made.returncode == 0 else "network namespaces cannot be made here: " + made.stderr.strip()


class Hosts(Closing):
    def __init__(self, count):
        self.names = [f"h{i}" for i in range(1, count + 1)]
        self.addresses = {name: f"10.77.0.{i}" for i, name in enumerate(self.names, 1)}
        self._pids = {}
        self._folder = None
        self._sleepers = []

    def close(self):
        """Ends the hosts with all that runs on them: process 1 of each takes the others with it."""
        for sleeper in self._sleepers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(sleeper.pid, signal.SIGKILL)
            sleeper.wait()
        self._sleepers.clear()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    @property
    def keepers(self):
        """Our children that keep the namespaces."""
        return [sleeper.pid for sleeper in self._sleepers]

    @property
    def head(self):
        """What to put before a command that shall run on the head."""
        return ["nsenter", f"--net={self._network('head')}", "--"]

    def on(self, name):
        """What to put before a command that shall run on a host."""
        return ["nsenter", "-t", str(self._pids[name]), "-m", "-u", "-i", "-n", "-p", "--"]

    @property
    def launcher(self):
        """The path of a stand-in for ssh."""
        return self._folder / "launcher"

    def cut(self, name):
        """Pulls the plug; the host runs on."""
        self._run([*self.head, "ip", "link", "set", self._port(name), "down"])

    def mend(self, name):
        self._run([*self.head, "ip", "link", "set", self._port(name), "up"])

    @contextlib.contextmanager
    def bad_cable(self, name, **faults):
        """Meanwhile the host hangs on a `Cable` with these faults. Raises CableRefused."""
        self._run([*self.head, "ip", "link", "del", self._port(name)])
        try:
            with Cable(self._network("head"), self._port(name), self._network(name), "eth0", **faults):
                self._bring_up(name)
                yield
        finally:
            self._plug_in(name)

    def _network(self, name):
        return f"/proc/{self._pids[name]}/ns/net"

    def _plug_in(self, name):
        peer = ["peer", "name", "eth0", "netns", str(self._pids[name])]
        self._run([*self.head, "ip", "link", "add", self._port(name), "type", "veth", *peer])
        self._bring_up(name)

    def _bring_up(self, name):
        """Both ends of the host's cable; its Ethernet address stays, and the bridge's too, or others would talk to the old ones."""
        address = self.addresses[name]
        self._run([*self.head, "ip", "link", "set", self._port(name), "master", "br0", "up"])
        self._run([*self.on(name), "ip", "link", "set", "eth0", "address", f"02:77:00:00:00:{int(address.split('.')[-1]):02x}"])
        self._run([*self.on(name), "ip", "addr", "add", f"{address}/24", "dev", "eth0"])
        self._run([*self.on(name), "ip", "link", "set", "eth0", "up"])

    def _port(self, name):
        return "v" + name[1:]

    def _run(self, command):
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)

    def _sleep_in(self, name, flags, script):
        """A process that keeps the namespaces of `name`, as soon as `script` has run in them."""
        ready = self._folder / f"{name}.ready"
        words = ["unshare", *flags, "sh", "-ec", f"{script}\ntouch {ready}\nexec sleep 100000"]
        sleeper = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
        self._sleepers.append(sleeper)
        end = time.monotonic() + 10
        while not ready.exists():
            if sleeper.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the host {name} cannot be made")
            time.sleep(0.01)
        if "--fork" in flags:
            return int(Path(f"/proc/{sleeper.pid}/task/{sleeper.pid}/children").read_text())
        return sleeper.pid

    def _open(self):
        self._folder = Path(tempfile.mkdtemp(prefix="isthmus-hosts."))
        names = {"localhost": "127.0.0.1", "head": HEAD_ADDRESS, **self.addresses}
        known = self._folder / "hosts"
        known.write_text("".join(f"{address} {name}\n" for name, address in names.items()))
        bridge = f"ip link set lo up; ip link add br0 address 02:77:00:00:00:fe type bridge; ip addr add {HEAD_ADDRESS}/24 dev br0; ip link set br0 up"
        self._pids["head"] = self._sleep_in("head", ["-n"], bridge)
        for name in self.names:
            script = (
                f"hostname {name}; mount --bind {known} /etc/hosts; mount -t tmpfs -o mode=1777 shm /dev/shm\n"
                "ip link set lo up"
            )
            flags = ["-m", "-u", "-i", "-n", "-p", "--fork", "--mount-proc", "--kill-child"]
            self._pids[name] = self._sleep_in(name, flags, script)
            self._plug_in(name)
        cases = "".join(f"{name}) pid={self._pids[name]} ;;\n" for name in self.names)
        self.launcher.write_text(
            f'#!/bin/sh\ncase $1 in\n{cases}*) echo "unknown host $1" >&2; exit 255 ;;\nesac\nshift\n'
            'exec nsenter -t $pid -m -u -i -n -p -- sh -c "$*"\n'
        )
        self.launcher.chmod(0o755)
