"""Isthmus: message-driven objects (chares), channels and futures over the shortest way between two memories.

    import isthmus

    class Cell(isthmus.Chare):
        def __init__(self, value):
            self.value = value

        @isthmus.entry
        def scale(self, by, target):
            self.contribute(target, by * self.index * self.value, isthmus.reduce.sum)

    async def main():
        cells = isthmus.Array(Cell, 10, 0.5)
        total = isthmus.Future()
        cells.scale(2.0, total)
        print(await total)

    isthmus.run(main)

and `mpiexec -n 2 python prog.py`. docs/python.md has the whole story.
"""

from . import _reduce as reduce
from ._arrays import Coming
from ._channel import Channel
from ._chare import Array, Chare, Collection, ElementProxy, Group, Map, entry, post
from ._future import Future, RemoteError, RemoteFuture, RemoteTraceback
from ._gpu_array import GpuArray
from ._reduce import reducer
from ._run import call, exit, flush, quiescence, rank, run, size

__version__ = "0.1.0"
__all__ = [
    "Array",
    "Channel",
    "Chare",
    "Collection",
    "Coming",
    "ElementProxy",
    "Future",
    "GpuArray",
    "Group",
    "Map",
    "RemoteError",
    "RemoteFuture",
    "RemoteTraceback",
    "call",
    "entry",
    "exit",
    "flush",
    "post",
    "quiescence",
    "rank",
    "reduce",
    "reducer",
    "run",
    "size",
]
