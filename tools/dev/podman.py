"""Podman for tests and benchmarks: an engine with storage and configuration of its own, and one small image.

    from podman import Podman
    engine = Podman(folder, programs=[program])      # folder: for images and containers; whoever makes it removes it
    if engine.why_not: ...                           # why there is none here, or None
    engine.run("--network", "none")                  # the words up to the image, for `sh -c` or a program

Uses runc and cgroupfs, which work as root without systemd.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

IMAGE = "isthmus-test"


class Podman:
    def __init__(self, folder, programs=()):
        self.folder = Path(folder)
        self.words = ["podman", "--root", f"{self.folder}/store", "--runroot", f"{self.folder}/run"]
        self.environment = {"CONTAINERS_CONF": f"{self.folder}/containers.conf"}  # what its words need; this process has it
        self.why_not = self._prepare(programs)

    def _prepare(self, programs):
        if not shutil.which("podman") or not shutil.which("runc"):
            return "podman and runc are not installed"
        if os.geteuid() != 0:
            return "needs root"
        self.folder.mkdir(parents=True, exist_ok=True)
        Path(self.environment["CONTAINERS_CONF"]).write_text(
            '[containers]\ndefault_ulimits=["nofile=1024:1024","nproc=1024:1024"]\n'
            '[engine]\nruntime="runc"\ncgroup_manager="cgroupfs"\nevents_logger="file"\n'
        )
        os.environ.update(self.environment)
        made = self._import(programs)
        trial = _call([*self.run("--rm", "--network", "none"), "sh", "-c", "exit 5"])
        if made.returncode == 0 and trial.returncode == 5:
            return None
        return "podman does not work here: " + (made.stderr + trial.stderr).strip().replace("\n", " ")[-200:]

    def _import(self, programs):
        """A shell and what the programs need of this host's libraries: half a second, where a whole system takes a minute."""
        root = self.folder / "image"
        for name in ("bin", "lib", "lib64", "usr", "proc", "sys", "dev", "tmp", "etc"):
            (root / name).mkdir(parents=True)
        needed = re.findall(r"(?<=\s)/lib\S+(?= \()", _call(["ldd", "/bin/sh", *map(str, programs)]).stdout)
        for source in {"/bin/sh", *needed}:
            target = root / source[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copy(os.path.realpath(source), target)
        archive = self.folder / "image.tar"
        _call(["tar", "-C", str(root), "-cf", str(archive), "."])
        return _call([*self.words, "import", str(archive), IMAGE])

    def run(self, *options):
        """The words that run a program, which follows them, in a container."""
        return [*self.words, "run", *options, IMAGE]

    def containers(self):
        return _call([*self.words, "ps", "--all", "--quiet"]).stdout.split()

    def reset(self):
        """Removes all that this engine has."""
        _call([*self.words, "system", "reset", "--force"])


def _call(command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
