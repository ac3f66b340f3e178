"""The start and end of chares in a process, and what belongs to the job as a whole."""

from __future__ import annotations

import asyncio
import atexit
import inspect
import traceback
from typing import Any, Callable

from . import _arrays, _chare, _core, _future
from ._chare import TO_FUNCTION, target_of
from ._future import Future
from ._loop import Loop

_APPLY = 1  # the place of `_apply` among the items

_loop: Loop | None = None
_tasks: set[asyncio.Task[Any]] = set()


def loop() -> Loop:
    if _loop is None:
        raise RuntimeError("there is no loop: isthmus.run is not at work")
    return _loop


def rank() -> int:
    """The number of this process, from 0. While `run` is at work."""
    return _core.rank()


def size() -> int:
    """How many processes the job has. While `run` is at work."""
    return _core.size()


def exit(code: int = 0) -> None:  # noqa: A001
    """All processes leave `run`; where `code` is not 0, by SystemExit. What is under way is dropped."""
    _core.exit(code)


def flush() -> None:
    """Sends what waits to be sent together with more: for an entry that goes on for long, or waits for others in MPI."""
    _core.flush()


def quiescence(target: Any = None) -> Future | None:
    """A Future of None, when no invocation is under way or waits in any process; or `target` gets it.

    Counted are invocations, and what is ready in the loops; not what waits for times, descriptors, threads or channels.
    """
    if target is not None:
        _core.quiescence(target_of(target))
        return None
    future = Future()
    _core.quiescence(future._target())
    return future


def call(rank: int, function: Callable[..., Any], *arguments: Any, ret: bool = False) -> Future | None:
    """Calls a function, which the top of a module has, in process `rank`; it may be `async def`.

    With `ret` a Future of what it returns or raises.
    """
    if not 0 <= rank < _core.size():
        raise IndexError(f"there is no process {rank}")
    proxy = _core.Proxy(0, 0, 0, TO_FUNCTION, rank)
    if not ret:
        _core.invoke(proxy, _APPLY, (function, *arguments), None)
        return None
    future = Future()
    _core.invoke_for(proxy, _APPLY, (function, *arguments), None, future._number, False)
    return future


def _apply(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _start_task(coroutine: Any, chare: Any, number: int, rank: int, index: int | None, name: str) -> None:
    """An entry is a coroutine: it goes on beside others, and its chare neither moves nor ends meanwhile."""
    if chare is not None:
        chare._element.hold(1)
    task = loop().create_task(coroutine)
    _tasks.add(task)

    def ended(task: asyncio.Task[Any]) -> None:
        _tasks.discard(task)
        if not _core.is_open() or _core.has_ended():
            if not task.cancelled():
                task.exception()  # looked at: nobody is told that it was not
            return
        if chare is not None:
            chare._element.hold(-1)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None and number:
            try:
                _core.reply(number, rank, (task.result(),), index)
            except Exception as cannot_be_sent:  # noqa: BLE001
                error = cannot_be_sent
        if error is None:
            return
        if number:
            _core.reply_error(number, rank, error, index)
        else:
            _core.fail("".join(traceback.format_exception(error)), name)

    task.add_done_callback(ended)


class _Main:
    """What process 0 begins with, and what came of it."""

    def __init__(self, main: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.main = main
        self.arguments = arguments
        self.result: Any = None
        self.error: BaseException | None = None

    def start(self) -> None:
        try:
            result = self.main(*self.arguments)
        except BaseException as error:  # noqa: BLE001
            self.fail(error)
            return
        if inspect.iscoroutine(result):
            task = loop().create_task(result)
            _tasks.add(task)
            task.add_done_callback(self.ended)

    def fail(self, error: BaseException) -> None:
        self.error = error
        code = error.code if isinstance(error, SystemExit) else 1
        _core.exit(code if isinstance(code, int) else 0 if code is None else 1)

    def ended(self, task: asyncio.Task[Any]) -> None:
        _tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if _core.has_ended():
            self.error = error
        elif error is not None:
            self.fail(error)
        else:
            self.result = task.result()
            _core.exit(0)


def run(main: Callable[..., Any], *arguments: Any) -> Any:
    """Starts chares in all processes of the job, which all call this; process 0 alone calls `main(*arguments)`.

    Where `main` is `async def`, its end ends the chares of all processes, and its result is returned in
    process 0; the others
    return None. Else `isthmus.exit` ends them. An exception of `main` is raised in process 0, and SystemExit
    in the others.

    All processes need the same classes of chares and the same reducers, in modules that they have imported
    before. MPI is
    started if nobody has, and then ended with the process. Called in one thread, which may not have a running loop.
    """
    global _loop
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("isthmus.run has a loop of its own: it cannot be called in a coroutine")
    if _core.begin_mpi():
        atexit.register(_core.end_mpi)
    made = _loop = Loop()
    begun = _Main(main, arguments)
    try:
        _core.open(_chare.items([("isthmus.call", _apply)]), _start_task, _future.resolve, _future.hold, _arrays.of_gpu, _arrays.new, _arrays.Coming)
        if _core.rank() == 0:
            made.call_soon(begun.start)
        try:
            made.run_forever()
        except BaseException as error:  # noqa: BLE001
            # Ctrl-C, or what the loop itself raises: the other processes cannot go on without this one.
            _core.fail("".join(traceback.format_exception(error)), "")
        rest = asyncio.all_tasks(made)
        for task in rest:
            task.cancel()
        if rest:
            made.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        code = _core.finish()
        _core.close()
        made.run_until_complete(made.shutdown_asyncgens())
        made.run_until_complete(made.shutdown_default_executor())
    finally:
        _loop = None
        _tasks.clear()
        _future.forget_all()
        made.close()
    if begun.error is not None:
        raise begun.error
    if code != 0:
        raise SystemExit(code)
    return begun.result
