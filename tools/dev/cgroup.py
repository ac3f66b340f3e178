"""A control group for what a test starts, gone at the end.

    with Cgroup("pids", {"pids.max": 8}) as group:
        run([*group.inside, mpiexec, "-n", 8, program])
"""

import contextlib
import os
import time
from pathlib import Path

from closing import Closing

ROOT = Path("/sys/fs/cgroup")


class CgroupRefused(Exception):
    pass


class Cgroup(Closing):
    """`limits`: values by file. Files of version 1, whose controllers have hierarchies of their own, and of version 2 have different names
    for memory alone: `memory.max` stands for both."""

    def __init__(self, controller, limits):
        self._controller, self._limits = controller, limits
        self._folder = None

    @property
    def inside(self):
        """What to put before a command that shall run in it."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self._folder / "cgroup.procs")]

    def close(self):
        """What still runs in it is killed."""
        if not self._folder:
            return
        end = time.monotonic() + 10
        while self._folder.exists() and time.monotonic() < end:
            for pid in (self._folder / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), 9)
            with contextlib.suppress(OSError):
                self._folder.rmdir()
            time.sleep(0.01)

    def _open(self):
        is_old = (ROOT / self._controller).is_dir()
        folder = ROOT / (self._controller if is_old else "") / f"isthmus-test.{os.getpid()}"
        try:
            folder.mkdir()
            self._folder = folder
            for name, value in self._limits.items():
                old_name = {"memory.max": "memory.limit_in_bytes"}.get(name, name)
                (folder / (old_name if is_old else name)).write_text(str(value))
        except OSError as why:
            raise CgroupRefused(f"no control group for {self._controller} can be made here: {why}") from None
