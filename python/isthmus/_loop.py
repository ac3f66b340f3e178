"""The event loop: asyncio's, whose wait for descriptors and times is the scheduler of chares."""

from __future__ import annotations

import asyncio
import collections
import selectors
from typing import Any

from . import _core

# The loop's own pipe, by which threads and signals wake it.
_OWN_DESCRIPTORS = 1


class _Selector(selectors.EpollSelector):
    """Looks for messages while asyncio waits. All entries are called from here."""

    ready: Any = collections.deque()
    at_end: Any = None

    def select(self, timeout: float | None = None) -> Any:
        if not _core.is_open() or _core.has_ended():
            return super().select(timeout)
        seconds = -1.0 if timeout is None else max(timeout, 0.0)
        naps = timeout is not None or len(self.get_map()) > _OWN_DESCRIPTORS
        readable = _core.drive(self.ready, seconds, self.fileno(), naps)
        if _core.has_ended():
            self.at_end()
        return super().select(0) if readable else []


class Loop(asyncio.SelectorEventLoop):
    """An event loop of asyncio that calls entries of chares between its own callbacks."""

    def __init__(self) -> None:
        selector = _Selector()
        super().__init__(selector)
        selector.ready = self._ready  # type: ignore[attr-defined]
        selector.at_end = self.stop
        self.ready = selector.ready
