"""What a later suite asks for, made while others wait: with what of the processors nobody else wants."""

import contextlib
import os
import signal
import subprocess
import threading

LEAST_SHARE = "if [ -w /proc/self/autogroup ]; then echo 19 2>/dev/null >/proc/self/autogroup; fi; "


class Ahead:
    """Runs commands one after the other in a thread, at SCHED_IDLE (sched(7)): a process of a suite that wants the processor has it at once.
    Where the kernel groups sessions (autogroup), the session too has the least share: else it would have as much as the suites.
    Nothing depends on their outcome: the suite runs the same again, waits for what is under way, and tells its failures."""

    def __init__(self, root, log):
        self._root, self._log = root, log
        self._mutex = threading.Lock()
        self._waiting = []
        self._process = None
        self._thread = None

    def start(self, commands):
        self._waiting = list(commands)
        if self._waiting:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()

    def drop(self, command):
        """Who asks for it runs it now: not begun any more."""
        with self._mutex:
            if command in self._waiting:
                self._waiting.remove(command)

    def stop(self):
        """Ends what is under way; begins nothing more."""
        with self._mutex:
            self._waiting.clear()
            if self._process:
                with contextlib.suppress(ProcessLookupError):  # it may have ended in this moment
                    os.killpg(self._process.pid, signal.SIGTERM)
        if self._thread:
            self._thread.join()

    def _work(self):
        with self._log.open("w") as log:
            while True:
                with self._mutex:
                    if not self._waiting:
                        return
                    command = self._waiting.pop(0)
                    self._process = subprocess.Popen(
                        ["chrt", "--idle", "0", "bash", "-c", f"{LEAST_SHARE}{command}"],
                        cwd=self._root, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                    )  # fmt: skip
                self._process.wait()
                with self._mutex:
                    self._process = None
