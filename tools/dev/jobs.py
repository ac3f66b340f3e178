"""Jobs that run on while a test does something to them, and what is left of them.

    with running([mpiexec, ...], suite.tmp / "out", said="up ", times=2) as (process, out):
        process.kill()
    vanish(lambda: marked_processes("MARK=1"))
"""

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path


@contextlib.contextmanager
def running(command, output, *, said, times, seconds=20.0, env=None):
    """The process of a job, as soon as it has `said` something so many `times`, and the file `output` to which all goes that it
    says. Killed at the end if it still runs. `env` adds to the environment."""
    out = Path(output)
    with open(out, "w") as file:
        variables = {**os.environ, **{name: str(value) for name, value in (env or {}).items()}}
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=variables)
    try:
        end = time.monotonic() + seconds
        while out.read_text().count(said) < times:
            assert time.monotonic() < end and process.poll() is None, out.read_text()
            time.sleep(0.02)
        yield process, out
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def interrupt(command, output, *, said, line):
    """What a job has printed that is interrupted (Ctrl-C) once it has `said` something: `line`, a regular expression, is in it
    once, and the job ends as one that Ctrl-C ends."""
    with running(command, output, said=said, times=1) as (process, out):
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == -signal.SIGINT, process.returncode
        text = out.read_text()
    assert len(re.findall(line, text, re.MULTILINE)) == 1, text
    return text


def printing(command, reader, patience=60.0):
    """Runs a job into `reader`: its exit status, the seconds that it took, the most memory in MiB that one of its processes had,
    and what it said on stderr. A job that goes on for longer than `patience` is killed."""
    with tempfile.TemporaryFile() as err, subprocess.Popen(reader, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as other:
        begin = time.monotonic()
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=other.stdin, stderr=err, start_new_session=True)
        other.stdin.close()
        watch = threading.Timer(patience, process.kill)
        watch.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        watch.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        other.kill()
        err.seek(0)
        return process.returncode, seconds, usage.ru_maxrss / 1024, err.read().decode(errors="replace")


def vanish(find, seconds=5.0):
    """Waits until `find()` finds nothing."""
    end = time.monotonic() + seconds
    while (found := find()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not found, found


def marked_processes(mark):
    """Processes with `mark` ("NAME=VALUE") in their environment that still run: {pid: command line}."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def shared_files():
    """Files of ours in /dev/shm."""
    return {path for path in Path("/dev/shm").iterdir() if "isthmus" in path.name} if Path("/dev/shm").exists() else set()


def segments():
    """The ids of the System V segments of this IPC namespace."""
    table = Path("/proc/sysvipc/shm")
    return {line.split()[1] for line in table.read_text().splitlines()[1:]} if table.exists() else set()
