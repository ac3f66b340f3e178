"""Runs a command with a time limit, measures it to the moment it ends, and leaves no process behind."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@dataclass(frozen=True)
class Finished:
    status: int  # of the exit; negative: the signal
    seconds: float
    timed_out: bool
    output: str
    errors: str


def begin_clean() -> None:
    """Makes this process the parent of what a killed launcher leaves behind, so that it can be found and ended; and SIGTERM ends it
    as Ctrl-C does, so that it is."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run(
    command: list[str], environment: dict[str, str], folder: Path, limit: float, spared: frozenset[int] = frozenset(),
    watch: Callable[[str], None] | None = None,
) -> Finished:
    """`spared`: children of this process that are to live on. `watch` is shown, twice a second, all that has been printed so far."""
    # Files, not pipes: a process that outlives the launcher with its output open must not hold us up.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        start = time.monotonic()
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
            start_new_session=True,
        )
        try:
            ended = _wait(process.pid, limit) if watch is None else _watch(process.pid, limit, lambda: watch(_peek(output)))
            seconds = time.monotonic() - start
            if not ended:
                process.terminate()
                _wait(process.pid, 3)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            _end_orphans(spared)
        return Finished(process.returncode, seconds, not ended, _text(output), _text(errors))


def _wait(pid: int, limit: float) -> bool:
    """Whether the process ended within the limit. Popen.wait polls with sleeps of up to 50 ms, which would show."""
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(limit * 1000))
    finally:
        os.close(descriptor)


def _watch(pid: int, limit: float, look: Callable[[], None]) -> bool:
    deadline = time.monotonic() + limit
    while (left := deadline - time.monotonic()) > 0:
        if _wait(pid, min(0.5, left)):
            return True
        look()
    return False


def _peek(file) -> str:
    """Without moving the offset, which the process writes at."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")


def _text(file) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _end_orphans(spared: frozenset[int]) -> None:
    """Kills and reaps every process that has become our child; their children become ours in turn."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        children = [pid for pid in _children() if pid not in spared]
        if not children:
            return
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass


def _children() -> list[int]:
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        try:
            found += [int(pid) for pid in (task / "children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
