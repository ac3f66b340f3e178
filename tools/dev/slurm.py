"""A Slurm of this machine alone, for suites: its own munged, slurmctld and slurmd, with configuration, state, key and sockets in one
folder and on ports of their own, ended by their process ids. Needs root, as slurmd does, and Debian's munge, slurmctld, slurmd,
slurm-client and slurm-wlm-basic-plugins.

    with slurm.running(suite.tmp / "slurm", cpus=8) as cluster:
        suite.run(["srun", "--mpi=pmix", "-n", "4", program], env=cluster.environment)
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
PROGRAMS = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "srun": "slurm-client",
    "scontrol": "slurm-client",
    "scancel": "slurm-client",
}
START_SECONDS = 30.0

# pmix looks for its own port range and writes below the spool folder; nothing here limits or counts what a task uses.
CONFIGURATION = """\
ClusterName=isthmus
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={slurmctld_port}
SlurmdPort={slurmd_port}
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/linear
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
MailProg=/bin/true
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


class Unavailable(Exception):
    """Why there can be no Slurm here, for people."""


class Cluster:
    """A running Slurm. `environment` is what its commands need."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": PATH}
        self._daemons = []

    def start_daemon(self, name, *arguments):
        log = open(self.folder / f"{name}.out", "wb")
        with log:
            process = subprocess.Popen(
                [find(name), *map(str, arguments)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.environment},
                start_new_session=True, preexec_fn=end_with_parent,
            )  # fmt: skip
        self._daemons.append((name, process))

    def wait_until(self, ready, what):
        end = time.monotonic() + START_SECONDS
        while not ready():
            for name, process in self._daemons:
                if process.poll() is not None:
                    raise Unavailable(f"{name} has ended with status {process.returncode}: {self.last_words(name)}")
            if time.monotonic() > end:
                logs = "; ".join(f"{name}: {self.last_words(name)}" for name, _ in self._daemons)
                raise Unavailable(f"{what} after {START_SECONDS:.0f} s; {logs}")
            time.sleep(0.05)

    def last_words(self, name):
        lines = (self.folder / f"{name}.out").read_text(errors="replace").splitlines()
        return " | ".join(lines[-3:]) or "it says nothing"

    def command(self, *words):
        return subprocess.run(
            words, capture_output=True, text=True, timeout=20, env={**os.environ, **self.environment}, check=False
        )

    def node_is_up(self):
        return "State=IDLE" in self.command("scontrol", "show", "node", "--oneliner").stdout.replace("*", " ")

    def stop(self):
        with contextlib.suppress(subprocess.TimeoutExpired, OSError):
            self.command("scancel", "--signal=KILL", "--user=root")
        for _, process in reversed(self._daemons):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def find(name):
    return shutil.which(name, path=PATH)


def end_with_parent():
    """The daemons end with a suite that is killed."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("", 0))
        return [one.getsockname()[1] for one in sockets]


def check_available():
    missing = sorted({package for name, package in PROGRAMS.items() if not find(name)})
    if missing:
        raise Unavailable(f"Debian packages are missing: {' '.join(missing)}")
    if os.geteuid() != 0:
        raise Unavailable("slurmd must be root to start tasks")


@contextlib.contextmanager
def running(folder, cpus=8):
    """A cluster of this machine with `cpus` processors, whatever it has, until the block ends. Raises Unavailable."""
    check_available()
    folder = Path(folder)
    for part in (folder, folder / "state", folder / "spool"):
        part.mkdir(mode=0o755)
    folder.parent.chmod(0o755)  # munged wants a socket that everybody reaches
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    ports = free_ports(2)
    (folder / "slurm.conf").write_text(
        CONFIGURATION.format(
            host=socket.gethostname().partition(".")[0], folder=folder, cpus=cpus, slurmctld_port=ports[0], slurmd_port=ports[1]
        )
    )
    cluster = Cluster(folder)
    try:
        cluster.start_daemon(
            "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder / 'munge.socket'}",
            f"--pid-file={folder / 'munged.pid'}", f"--log-file={folder / 'munged.log'}", f"--seed-file={folder / 'munged.seed'}",
        )  # fmt: skip
        cluster.wait_until((folder / "munge.socket").exists, "munged has no socket")
        cluster.start_daemon("slurmctld", "-D", "-c", "-f", folder / "slurm.conf")
        cluster.start_daemon("slurmd", "-D", "-f", folder / "slurm.conf")
        cluster.wait_until(cluster.node_is_up, "the node is not idle")
        yield cluster
    finally:
        cluster.stop()
