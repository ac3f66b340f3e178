"""Channels: ordered streams of values between two chares."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Awaitable, Generator

import numpy

from . import _arrays, _core

if TYPE_CHECKING:
    from ._chare import Chare


class _Done:
    """What a send returns whose memory is free already."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        return iter(())  # type: ignore[return-value]


_DONE = _Done()


class Channel:
    """One end of a stream of values between two chares, which both make: `Channel(self, other)`.

    Values come in the order in which they were sent. Several channels between the same two have names. An array goes
    straight from the sender's memory, of the host or a GPU, to the receiver's: NumPy's, CuPy's, PyTorch's,
    and all that have
    `__cuda_array_interface__` or DLPack in memory of the host. Other values are pickled, and the arrays in
    them go apart.

    A chare with an open channel does not move. Used by the thread of `isthmus.run`.
    """

    def __init__(self, chare: Chare, remote: Any, name: Any = 0) -> None:
        self._end = _core.Endpoint()
        self._loop = _loop()
        self._chare = chare
        self._is_receiving = False
        self._is_open = True
        chare._open_channel(self, remote, name)

    def send(self, *values: Any) -> Awaitable[None]:
        """Sends one value, or several as a tuple; it has begun when this returns.

        Awaited, it waits until the arrays in it may be changed. Until then they must stay as they are.
        Raises ValueError for an
        array of a GPU that is not contiguous.
        """
        future: Any
        if len(values) == 1 and type(values[0]) is not numpy.ndarray and (found := _arrays.view(values[0])) is not None:
            future = self._end.send_array(*found, self._loop.create_future)
        else:
            future = self._end.send(values, self._loop.create_future)
        return _DONE if future is None else future

    async def recv(self, into: Any = None) -> Any:
        """The next value; a tuple where several were sent together.

        `into`: an array whose memory gets the data, and which is returned: as many bytes, and the same
        type of elements, as come,
        or ValueError is raised and the message is gone. One task receives at a time.
        """
        if self._is_receiving:
            raise RuntimeError("another task receives from this channel")
        end = self._end
        target = None if into is None else (into, _arrays.target(into))
        self._is_receiving = True
        try:
            if not end.look(self._loop.ready):
                future = self._loop.create_future()
                end.wait(future)
                try:
                    await future
                except BaseException:
                    end.stop_waiting()
                    raise
                end.look(self._loop.ready)
            is_there, value = end.take(target, _arrays.new, self._loop.create_future)
            # A message that has begun to come is received to its end, so that the next one is the next.
            return value if is_there else await asyncio.shield(value)
        finally:
            self._is_receiving = False

    def close(self) -> None:
        """Ends this end: what it has not received is lost. The chare may move again when all of its
        channels are closed."""
        if self._is_open:
            self._is_open = False
            self._end.close()
            self._chare._close_channel(self)


def _loop() -> Any:
    from . import _run

    return _run.loop()
