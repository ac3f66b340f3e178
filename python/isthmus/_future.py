"""Futures: values that will be there, given by any process."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from . import _core


class RemoteError(RuntimeError):
    """What an entry has raised, where the exception itself cannot come here. Its text has the traceback."""


class RemoteTraceback(Exception):
    """The traceback of an exception in the process where it was raised: the cause of the exception that is
    raised here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return "\n" + self.text


_numbers = itertools.count(1)
_waiting: dict[int, "Future | Held"] = {}


class Future(asyncio.Future):  # type: ignore[type-arg]
    """A value that will be there; a future of asyncio that may be sent.

    In the process that has made it, it is awaited (any number of times, in any tasks). A copy that was sent
    elsewhere, or is
    the target of a reduction, gives the value: `set_result` or `set_exception`, once.
    """

    def __init__(self, *, parts: int = 1, gather: bool = False, loop: asyncio.AbstractEventLoop | None = None) -> None:
        super().__init__(loop=loop if loop is not None else asyncio.get_running_loop())
        self._number = next(_numbers)
        self._parts: dict[int, Any] | None = {} if gather else None
        self._missing = parts
        _waiting[self._number] = self

    def set_result(self, result: Any) -> None:
        _waiting.pop(self._number, None)
        super().set_result(result)

    def set_exception(self, exception: Any) -> None:
        _waiting.pop(self._number, None)
        super().set_exception(exception)

    def __reduce__(self) -> Any:
        return RemoteFuture, (self._number, _core.rank())

    def _target(self) -> tuple[int, int]:
        return self._number, _core.rank()

    def _forget(self) -> None:
        """Nobody will give it a value."""
        _waiting.pop(self._number, None)

    def _give(self, arguments: tuple[Any, ...], is_error: bool) -> None:
        if self.done():  # it has been cancelled
            _waiting.pop(self._number, None)
        elif is_error:
            self.set_exception(exception_of(*arguments[:2]))
        elif self._parts is not None:
            self._parts[arguments[1]] = arguments[0]
            self._missing -= 1
            if self._missing == 0:
                self.set_result([self._parts[index] for index in sorted(self._parts)])
        else:
            self.set_result(arguments[0] if len(arguments) == 1 else None if not arguments else arguments)


class RemoteFuture:
    """A future of another process: it can be given its value, and sent on."""

    __slots__ = ("_number", "_rank")

    def __init__(self, number: int, rank: int) -> None:
        self._number = number
        self._rank = rank

    def set_result(self, value: Any) -> None:
        _core.reply(self._number, self._rank, (value,), None)

    def set_exception(self, exception: BaseException) -> None:
        _core.reply_error(self._number, self._rank, exception, None)

    def __reduce__(self) -> Any:
        return RemoteFuture, (self._number, self._rank)

    def _target(self) -> tuple[int, int]:
        return self._number, self._rank


class Held:
    """Arrays that are being sent: kept until they have been. Then a future gets None."""

    __slots__ = ("_arguments", "_future", "_missing", "_number")

    def __init__(self, future: Future | RemoteFuture | None, missing: int, arguments: tuple[Any, ...]) -> None:
        self._future = future
        self._missing = missing
        self._arguments: tuple[Any, ...] | None = arguments
        self._number = next(_numbers)
        _waiting[self._number] = self

    def _give(self, arguments: tuple[Any, ...], is_error: bool) -> None:
        self._missing -= 1
        if self._missing > 0:
            return
        _waiting.pop(self._number, None)
        self._arguments = None
        future = self._future
        if future is not None and not (isinstance(future, Future) and future.done()):
            future.set_result(None)


def hold(future: Future | RemoteFuture | None, missing: int, arguments: tuple[Any, ...]) -> int:
    """The number by which `resolve` is told, `missing` times, that an array has been sent. With none, it is done."""
    held = Held(future, missing, arguments)
    if missing == 0:
        held._give((), False)
    return held._number


def exception_of(exception: Any, text: str) -> BaseException:
    """What is raised here for an exception that was raised elsewhere."""
    if not isinstance(exception, BaseException) or isinstance(exception, (StopIteration, asyncio.CancelledError)):
        exception = RemoteError(text)
    exception.__cause__ = RemoteTraceback(text)
    return exception


def resolve(number: int, arguments: tuple[Any, ...], is_error: bool) -> None:
    """A reply has come."""
    future = _waiting.get(number)
    if future is not None:  # else it has been cancelled, or has had its value
        future._give(arguments, is_error)


def forget_all() -> None:
    _waiting.clear()
