"""Says what is being measured and how long it will still take: one line that is rewritten on a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Hashable


class Progress:
    """Learns from the steps that are done how long those of the same kind will take."""

    def __init__(self, steps: list[tuple[Hashable, float]]) -> None:
        """`steps`: the kind of each step to come, and a first guess in seconds."""
        self._left = list(steps)
        self._seen: dict[Hashable, float] = {}
        self._terminal = sys.stderr.isatty()
        self._start = time.monotonic()

    @property
    def shown(self) -> bool:
        """Somebody sees it."""
        return self._terminal

    def say(self, text: str) -> None:
        self.clear()
        print(text, file=sys.stderr, flush=True)

    def begin(self, what: str) -> None:
        if not self._terminal:
            return
        line = f"{what} - {_duration(self.seconds_left())} left"
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[K{line[:width]}", end="", file=sys.stderr, flush=True)

    def end(self, kind: Hashable, seconds: float) -> None:
        self._seen[kind] = seconds
        self.drop(kind)

    def drop(self, kind: Hashable) -> None:
        """A step of that kind that will not be done after all, or is done."""
        for i, (left, _) in enumerate(self._left):
            if left == kind:
                del self._left[i]
                return

    def clear(self) -> None:
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def seconds_left(self) -> float:
        return sum(self._seen.get(kind, guess) for kind, guess in self._left)

    def elapsed(self) -> float:
        return time.monotonic() - self._start


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
