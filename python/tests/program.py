"""What the tests run in processes of a job: `program.py NAME`. Asserts by itself; the chares' exceptions end the
job."""

import asyncio
import pickle
import sys
import threading

import numpy

import isthmus

STEPS = 20


class Cell(isthmus.Chare):
    def __init__(self, value=0.0):
        self.value = value

    @isthmus.entry
    def scale(self, by, target):
        self.contribute(target, by * self.value * numpy.sum(self.index), isthmus.reduce.sum)

    @isthmus.entry
    def where(self, *arguments, **keywords):
        return self.index, isthmus.rank(), arguments, keywords

    @isthmus.entry
    async def later(self, value):
        await asyncio.sleep(0.001)
        return 2 * value

    @isthmus.entry
    def fail(self, text):
        raise KeyError(text)

    @isthmus.entry
    async def fail_later(self, text):
        await asyncio.sleep(0)
        raise Stubborn(text)

    @isthmus.entry
    def not_to_be_sent(self):
        return threading.Lock()

    @isthmus.entry
    def give(self, future):
        future.set_result(self.index)

    @isthmus.entry
    def keep(self, array):
        self.array = array

    @isthmus.entry
    def kept(self):
        return self.array

    @isthmus.entry
    def move(self, rank):
        self.migrate(rank)

    @isthmus.entry
    def all_parts(self, target):
        self.contribute(target, [(self.index, isthmus.rank())], isthmus.reduce.concatenate)

    @isthmus.entry
    def own(self, target):
        self.contribute(target, self.index, longest)

    @isthmus.entry
    def come_here(self, target):
        self.contribute(target)

    @isthmus.entry
    def synced(self, load):
        self.set_load(load)
        self.at_sync(self.go_on, "greedy")

    @isthmus.entry
    def go_on(self):
        self.went_on = isthmus.rank()

    @isthmus.entry
    async def talk(self, other, name=0):
        channel = isthmus.Channel(self, other, name)
        heard = []
        first = self.index == 0
        for step in range(STEPS):
            array = numpy.full(3 * 10 ** (step % 7), step, dtype="<i4")
            if first:
                await channel.send(step, array, {"strided": array[::3]})
                heard.append(await channel.recv())
                await channel.send(array)
            else:
                number, came, inside = await channel.recv()
                assert number == step and numpy.array_equal(came, array) and numpy.array_equal(inside["strided"], array[::3])
                came[:] = 0  # it is the receiver's own
                channel.send("text" * step)
                target = numpy.empty_like(array)
                assert await channel.recv(into=target) is target and numpy.array_equal(target, array)
        channel.close()
        return heard

    @isthmus.entry
    async def misfits(self, other):
        channel = isthmus.Channel(self, other)
        if self.index == 0:
            for each in (numpy.zeros(8), numpy.zeros(100_000), "no array", numpy.zeros(100_000, "f4"), numpy.arange(5)):
                await channel.send(each)
            await channel.recv()
            return None
        problems = []
        for size in (4, 4, 4, 50_000):
            try:
                await channel.recv(into=numpy.zeros(size))
            except ValueError as error:
                problems.append(str(error))
        assert numpy.array_equal(await channel.recv(), numpy.arange(5))  # what comes behind is as it was
        try:
            await asyncio.wait_for(channel.recv(), 0.01)
        except TimeoutError:
            problems.append("time")
        await channel.send(None)
        return problems


class Stubborn(Exception):
    """Cannot be unpickled."""

    def __reduce__(self):
        raise TypeError("not this one")


class Growing:
    """Takes more bytes each time that it is pickled, and comes as bytes."""

    byte = ord("g")

    def __init__(self):
        self.size = 1000

    def __reduce__(self):
        self.size *= 100
        return bytes, (bytes([self.byte]) * self.size,)


@isthmus.reducer
def longest(a, b):
    return max(a, b)


def product(a, b):
    return a * b, isthmus.rank()


async def entries():
    last = isthmus.size() - 1
    cells = isthmus.Array(Cell, 10, 0.5)
    total = isthmus.Future()
    cells.scale(2.0, total)
    assert await total == 45.0
    assert await cells[9].where(1, key="x", ret=True) == (9, last, (1,), {"key": "x"})
    assert await cells[9].where(b"bytes", ret=True) == (9, last, (b"bytes",), {})
    assert [each[0] for each in await cells.where(ret=True)] == list(range(10))
    grid = isthmus.Array(Cell, (2, 3, 4), 1.0)
    assert (await grid[1, 2, 3].where(ret=True))[:2] == ((1, 2, 3), last)
    group = isthmus.Group(Cell)
    assert [each[:2] for each in await group.where(ret=True)] == [(rank, rank) for rank in range(isthmus.size())]
    for index in (10, -1, (1, 1)):
        try:
            cells[index]
        except IndexError:
            continue
        raise AssertionError(index)
    future = isthmus.Future()
    cells[9].give(future)
    assert await future == 9
    assert await isthmus.call(last, product, 3, 4, ret=True) == (12, last)
    low = cells[9].with_priority(-1)
    assert pickle.loads(pickle.dumps(low)) == cells[9] and low.priority == -1
    await isthmus.quiescence()


async def arrays():
    cells = isthmus.Array(Cell, 10)
    for cell in (cells[0], cells[9]):
        for array in (numpy.arange(6.0).reshape(2, 3), numpy.zeros(0), numpy.arange(10)[::2], numpy.array(["a", "bc"]),
                      numpy.arange(4, dtype=">i4"), numpy.ones((3, 2), "c16"), numpy.float64(3), numpy.arange(100_000),
                      numpy.zeros((0, 3)), numpy.array(2.5)):  # fmt: skip
            await cell.keep(array, ret=True)
            back = await cell.kept(ret=True)
            assert back.dtype == array.dtype and back.shape == array.shape and numpy.array_equal(back, array), (back, array)
        # What the chare has kept does not change with later messages.
        await cell.keep(numpy.arange(100_000), ret=True)
        for _ in range(20):
            cell.where(numpy.zeros(100_000))
        back = await cell.kept(ret=True)
        assert numpy.array_equal(back, numpy.arange(100_000))
    await cells.keep([numpy.arange(50_000), "text"], ret=True)  # a broadcast: one message for several
    assert all(numpy.array_equal(each[0], numpy.arange(50_000)) for each in await cells.kept(ret=True))


async def errors():
    cells = isthmus.Array(Cell, 10)
    for cell in (cells[0], cells[9]):
        try:
            await cell.fail("this", ret=True)
        except KeyError as error:
            assert error.args == ("this",) and "in fail" in str(error.__cause__), error.__cause__
        else:
            raise AssertionError("nothing was raised")
        calls = [(cell.fail_later("that", ret=True), "that")]
        if cell.local is None:  # within a process nothing is pickled
            calls.append((cell.not_to_be_sent(ret=True), "pickle"))
        for call, text in calls:
            try:
                await call
            except Exception as error:
                assert text in str(error), error
            else:
                raise AssertionError("nothing was raised")
    try:
        cells[9].where(threading.Lock())
    except TypeError:
        pass
    else:
        assert isthmus.size() == 1, "a lock was sent"
    thread_error = []

    def elsewhere():
        try:
            cells[9].where()
        except RuntimeError as error:
            thread_error.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "another thread" in thread_error[0]


async def reductions():
    last = isthmus.size() - 1
    cells = isthmus.Array(Cell, 10)
    for _ in range(5):
        parts, largest, here = isthmus.Future(), isthmus.Future(), isthmus.Future()
        cells.all_parts(parts)
        assert [each[0] for each in await parts] == list(range(10))
        cells.own(largest)
        cells.come_here(here)
        assert await largest == 9 and await here is None
    things = isthmus.Map(Cell)
    things["late"].where()
    for number, key in enumerate(("a", 7, (1, "b"), "late")):
        things.insert(key, rank=number % isthmus.size())
    things.done_inserting()
    assert (await things[(1, "b")].where(ret=True))[:2] == ((1, "b"), 2 % isthmus.size())
    await isthmus.quiescence()
    cells[0].move(last)
    cells[0].keep(Growing())  # goes along: it was meant for a chare of this process, and is pickled now
    await isthmus.quiescence()
    assert (await cells[0].where(ret=True))[1] == last
    assert isthmus.size() == 1 or set(await cells[0].kept(ret=True)) == {Growing.byte}
    for cell in cells:
        cell.synced(1.0)
    await isthmus.quiescence()
    homes = sorted(each[1] for each in await cells.where(ret=True))
    least, rest = divmod(10, isthmus.size())
    assert all(least <= homes.count(rank) <= least + (rest > 0) for rank in range(isthmus.size())), homes


async def channels():
    cells = isthmus.Array(Cell, 10)
    for name in (0, "again"):
        heard, _ = await asyncio.gather(cells[0].talk(cells[9], name, ret=True), cells[9].talk(cells[0], name, ret=True))
        assert heard == ["text" * step for step in range(STEPS)]
    many = [cells[i].talk(cells[0], "all", ret=True) for i in range(1, 10)]
    many += [cells[0].talk(cells[i], "all", ret=True) for i in range(1, 10)]
    await asyncio.gather(*many)
    _, problems = await asyncio.gather(cells[0].misfits(cells[9], ret=True), cells[9].misfits(cells[0], ret=True))
    assert len(problems) == 5 and "64 bytes" in problems[0] and "800000 bytes" in problems[1], problems
    assert "no array" in problems[2] and "'f'" in problems[3] and problems[4] == "time"


async def beside():
    """Other tasks of asyncio go on: times, descriptors, threads."""
    loop = asyncio.get_running_loop()
    server_heard = loop.create_future()

    async def serve(reader, writer):
        server_heard.set_result(await reader.readline())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hello\n")
    cells = isthmus.Array(Cell, 10)
    assert await asyncio.gather(*(cell.later(1, ret=True) for cell in cells)) == [2] * 10
    assert await server_heard == b"hello\n"
    assert await asyncio.to_thread(lambda: 5) == 5
    writer.close()
    server.close()
    try:
        async with asyncio.timeout(0.01):
            await isthmus.Future()
    except TimeoutError:
        return
    raise AssertionError("no time was over")


async def raises():
    raise ValueError("of main")


async def lost():
    isthmus.Array(Cell, 10)[9].fail("nobody waits")
    await isthmus.Future()


async def lost_later():
    isthmus.Array(Cell, 10)[9].fail_later("nobody waits either")
    await isthmus.Future()


def leaves():
    isthmus.exit(7)


async def mpi():
    from mpi4py import MPI

    cells = isthmus.Array(Cell, 10)
    assert await cells[9].later(4, ret=True) == 8
    assert await asyncio.gather(*(isthmus.call(rank, sum_of_ranks, ret=True) for rank in range(isthmus.size()))) == [
        sum(range(isthmus.size()))
    ] * isthmus.size()
    assert MPI.COMM_WORLD.size == isthmus.size()


def sum_of_ranks():
    from mpi4py import MPI

    isthmus.flush()  # the others' invocations may wait here to be sent
    return MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank)


if __name__ == "__main__":
    if sys.argv[1] == "mpi" and len(sys.argv) > 2:
        import mpi4py.MPI  # noqa: F401  it starts MPI, and ends it
    for name in sys.argv[1].split(","):
        isthmus.run(globals()[name])
