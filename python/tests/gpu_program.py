"""What the tests of arrays in GPU memory run in processes of a job: `gpu_program.py NAME`. Asserts by itself. Needs a
CUDA driver, a real one or the emulated one, and no package that knows GPUs: arrays are of the class `Own`."""

import asyncio
import ctypes
import math
import sys

import numpy

import isthmus
from isthmus import _arrays, _core, _future

SIZES = (0, 1, 3000, 400_000)
LEGACY_STREAM = 1

driver = ctypes.CDLL("libcuda.so.1")


def need(code):
    assert code == 0, f"CUDA error {code}"


def use_gpu():
    """Each process its own, where there are several."""
    need(driver.cuInit(0))
    count, context = ctypes.c_int(), ctypes.c_void_p()
    need(driver.cuDeviceGetCount(ctypes.byref(count)))
    need(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), isthmus.rank() % count.value))
    need(driver.cuCtxSetCurrent(context))


class Memory:
    """Of a GPU, by the driver alone."""

    def __init__(self, size):
        self.address = ctypes.c_uint64()
        if size:
            need(driver.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(size)))

    def free(self):
        if self.address.value:
            need(driver.cuMemFree_v2(self.address))
        self.address.value = 0

    def __del__(self):
        self.free()


class Own:
    """An array as any package may have one: it has `__cuda_array_interface__`, and nothing else."""

    def __init__(self, values, **description):
        host = numpy.ascontiguousarray(values).reshape(numpy.shape(values))
        self.dtype = host.dtype
        self.shape = host.shape
        self.memory = Memory(host.nbytes)
        self.description = description
        self.write(host)

    def write(self, host):
        host = numpy.ascontiguousarray(host)
        if host.nbytes:
            need(driver.cuMemcpyHtoD_v2(self.memory.address, ctypes.c_void_p(host.ctypes.data), ctypes.c_size_t(host.nbytes)))

    def numpy(self):
        return read(self)

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.memory.address.value, False),
            "version": 3,
            **self.description,
        }


class ByDlpack:
    """An array that has DLPack alone."""

    def __init__(self, values):
        self.array = Own(values)
        self.streams = []

    def __dlpack_device__(self):
        return 2, isthmus.rank() % 2

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        array = self.array
        return _core.make_dlpack(array, array.memory.address.value, list(array.shape), array.dtype.str, self.__dlpack_device__()[1])


def read(array):
    said = array.__cuda_array_interface__
    host = numpy.empty(said["shape"], said["typestr"])
    if host.nbytes:
        need(driver.cuMemcpyDtoH_v2(ctypes.c_void_p(host.ctypes.data), ctypes.c_uint64(said["data"][0]), ctypes.c_size_t(host.nbytes)))
    return host


def ascending(size, first=0, dtype="f8"):
    return numpy.arange(first, first + size).astype(dtype)


def same(array, values):
    got = array if isinstance(array, numpy.ndarray) else read(array)
    return got.dtype == values.dtype and got.shape == values.shape and numpy.array_equal(got, values)


class Cell(isthmus.Chare):
    def __init__(self):
        use_gpu()
        self.ghost = Own(numpy.zeros(3000))
        self.on_host = numpy.zeros(3000)
        self.asked = 0

    def __getstate__(self):
        return {"asked": self.asked}

    def __setstate__(self, state):
        self.__init__()
        self.asked = state["asked"]

    @isthmus.entry
    def take(self, first, array, text, *more, last=None):
        """Says what has come."""
        every = [array, *more] + ([last] if last is not None else [])
        assert text == "text" and all(hasattr(each, "__cuda_array_interface__") for each in every)
        for number, each in enumerate(every):
            values = read(each)
            assert numpy.array_equal(values.ravel(), ascending(values.size, first + number, values.dtype)), (number, values)
        return [(type(each).__name__, each.shape, str(each.dtype)) for each in every]

    @isthmus.entry
    def face(self, data, where, step=0):
        assert self.asked > 0
        assert data is {"gpu": self.ghost, "host": self.on_host}[where], data
        return same(data, ascending(3000, step))

    @isthmus.post(face)
    def post_face(self, data, where, step=0):
        assert data.shape == (3000,) and data.dtype == "f8" and data.nbytes == 24000
        self.asked += 1
        data.into(self.ghost if where == "gpu" else self.on_host)

    @isthmus.entry
    def wrong(self, data, how):
        raise AssertionError("it is called though its post entry has failed")

    @isthmus.post(wrong)
    def post_wrong(self, data, how):
        if how == "raises":
            raise KeyError("of the post entry")
        if how == "later":
            return self.later()
        if how == "read-only":
            return data.into(Own(numpy.zeros(3000), data=(self.ghost.memory.address.value, True)))
        if how == "read-only host":
            values = numpy.zeros(3000)
            values.flags.writeable = False
            return data.into(values)
        data.into({"shorter": Own(numpy.zeros(2999)), "type": Own(numpy.zeros(3000, "i8")), "gaps": numpy.zeros(6000)[::2]}[how])

    async def later(self):
        pass

    @isthmus.entry
    def partly(self, first, second):
        assert first is self.ghost and second is not self.ghost
        return same(first, ascending(3000)) and same(second, ascending(10, 5))

    @isthmus.post(partly)
    def post_partly(self, first, second):
        first.into(self.ghost)

    @isthmus.entry
    def move(self, rank):
        self.migrate(rank)

    @isthmus.entry
    def fails(self, array):
        raise LookupError("in the entry")

    @isthmus.entry
    def give(self):
        return isthmus.GpuArray.of(ascending(10))

    @isthmus.entry
    async def talk(self, other):
        channel = isthmus.Channel(self, other)
        for size in SIZES:
            if self.index == 0:
                await channel.send(Own(ascending(size, 1)))
                await channel.send(ByDlpack(ascending(size, 2)))
                await channel.send(Own(ascending(size, 3)))
            else:
                for first in (1, 2):
                    array = await channel.recv()
                    assert isinstance(array, isthmus.GpuArray) and same(array, ascending(size, first))
                target = Own(numpy.zeros(size))
                assert await channel.recv(into=target) is target and same(target, ascending(size, 3))
        channel.close()


def cells():
    """One of this process, and one of the last."""
    use_gpu()
    made = isthmus.Array(Cell, 4)
    return made, (made[0], made[3])


async def arrive():
    _, both = cells()
    for cell in both:
        is_here = cell.local is not None
        for size in SIZES:
            for values in (ascending(size), ascending(size, 0, "i4"), ascending(size, 0, "c16"), ascending(2 * size, 0, "f4").reshape(2, size)):
                array = Own(values)
                (said,) = await cell.take(0, array, "text", ret=True)
                assert said == ("Own" if is_here else "GpuArray", values.shape, str(values.dtype)), said
        arrays = [Own(ascending(10 * i, 7 + i)) for i in range(10)]
        said = await cell.take(7, arrays[0], "text", *arrays[1:], last=ByDlpack(ascending(5, 17)) if not is_here else Own(ascending(5, 17)), ret=True)
        assert len(said) == 11
        for array in (Own(numpy.array(0.0)), isthmus.GpuArray.of(ascending(3))):
            await cell.take(0, array, "text", ret=True)
        try:
            await cell.fails(arrays[0], ret=True)
        except LookupError as error:
            assert error.args == ("in the entry",)
        else:
            raise AssertionError("nothing was raised")
    await isthmus.quiescence()


async def sent():
    """An array may be changed when it has been sent."""
    _, both = cells()
    for cell in both:
        array = Own(numpy.zeros(400_000))
        for step in range(20):
            array.write(ascending(400_000, step))
            free, answer = isthmus.Future(), None
            answer = cell.take(step, array, "text", ret=True, sent=free)
            await free
            if cell.local is None:
                array.write(numpy.zeros(400_000))
            await answer
        free = isthmus.Future()
        cell.move(isthmus.size() - 1 if cell.local is None else 0, sent=free)  # no arrays at all
        await free
        try:
            cell.take(0, array, "text", sent="not a future")
        except TypeError:
            continue
        raise AssertionError("nothing was raised")


async def post():
    _, both = cells()
    for cell in both:
        for step in range(5):
            for where in ("gpu", "host"):
                assert await cell.face(Own(ascending(3000, step)), where, step=step, ret=True)
                assert await cell.face(where=where, data=Own(ascending(3000)), ret=True)
        assert await cell.partly(Own(ascending(3000)), Own(ascending(10, 5)), ret=True)
        for how, kind, text in (
            ("raises", KeyError, "of the post entry"),
            ("later", TypeError, "cannot be a coroutine"),
            ("read-only", ValueError, "read-only"),
            ("read-only host", ValueError, "read-only"),
            ("shorter", ValueError, "24000 bytes of 'd' comes, and was to go into 23992 bytes of 'd'"),
            ("type", ValueError, "24000 bytes of 'l'"),
            ("gaps", ValueError, "gaps"),
        ):
            try:
                await cell.wrong(Own(ascending(3000)), how, ret=True)
            except kind as error:
                assert text in str(error), error
            else:
                raise AssertionError(how)
        # What comes behind is as it was.
        assert await cell.face(Own(ascending(3000)), "gpu", ret=True)


async def moves():
    """Arrays follow a chare that has moved."""
    made, _ = cells()
    size = isthmus.size()
    for turn in range(6):
        for index in range(4):
            made[index].move((index + turn) % size)
        answers = [made[index].face(Own(ascending(3000, turn)), "gpu", turn, ret=True) for index in range(4)]
        # Nobody but the library has these, given by keyword: their memory is freed when they have been sent.
        answers += [made[index].face(where="gpu", step=turn, data=Own(ascending(3000, turn)), ret=True) for index in range(4)]
        more = [made[index].take(turn, Own(ascending(3000, turn)), "text", ret=True) for index in range(4)]
        assert all(await asyncio.gather(*answers))
        await asyncio.gather(*more)
    await isthmus.quiescence()


async def refused():
    """What cannot be sent is refused where it is sent."""
    _, both = cells()
    array = Own(ascending(12).reshape(3, 4))
    freed = Own(ascending(10))
    bad = (
        (Own(ascending(10), strides=(16,)), "contiguous"),
        (Own(ascending(12).reshape(3, 4), strides=(8, 24)), "contiguous"),
        (freed, "freed"),
        (Own(ascending(10), data=(0, False)), "freed"),
        (Own(ascending(10), shape=(1 << 30,)), "less memory"),
        (Own(ascending(10), shape=(-1,)), "below 0"),
        (Own(ascending(10), stream=0), "stream 0"),
        (Own(ascending(10), mask=array), "mask"),
        (Own(ascending(10), typestr=">f8"), "arrays of numbers"),
        (Own(ascending(10), typestr="|V8"), "arrays of numbers"),
    )
    few = Own(ascending(1))
    last = Own(ascending(10))
    freed.description["data"] = (last.memory.address.value, False)
    last.memory.free()  # nothing is allocated from here on, which might get its address
    for cell in both:
        for wrong, text in bad:
            try:
                cell.take(0, wrong, "text")
            except (ValueError, TypeError) as error:
                assert text in str(error), (text, error)
            else:
                raise AssertionError(text)
        waiting = len(_future._waiting)
        try:
            cell.take(0, freed, "text", ret=True)
        except ValueError:
            assert len(_future._waiting) == waiting, "nobody will give that future a value"
        else:
            raise AssertionError("freed, with an answer")
        try:
            cell.take(0, few, "text", *[few] * 64)
        except ValueError as error:
            assert "64" in str(error)
        else:
            raise AssertionError("65 arrays")
    for cell in both:
        assert await cell.take(0, Own(ascending(12).reshape(3, 4), strides=(32, 8)), "text", ret=True)


async def streams():
    """The stream that an array names is waited for."""
    _, both = cells()
    stream = ctypes.c_void_p()
    need(driver.cuStreamCreate(ctypes.byref(stream), 1))
    count = 100_000
    for cell in both:
        if cell.local is not None:
            continue
        for number in (stream.value, LEGACY_STREAM):
            source, array = Own(ascending(count, 4)), Own(numpy.zeros(count), stream=number)
            need(
                driver.cuMemcpyDtoDAsync_v2(array.memory.address, source.memory.address, ctypes.c_size_t(8 * count), ctypes.c_void_p(number))
            )
            await cell.take(4, array, "text", ret=True)
    array = ByDlpack(ascending(10))
    await both[1].take(0, array.array if both[1].local is not None else array, "text", ret=True)
    assert array.streams in ([], [LEGACY_STREAM]) and (array.streams or isthmus.size() == 1)
    need(driver.cuStreamDestroy_v2(stream))


async def channels():
    made, _ = cells()
    await asyncio.gather(made[0].talk(made[3], ret=True), made[3].talk(made[0], ret=True))


async def own_arrays():
    """GpuArray by itself."""
    _, both = cells()
    values = ascending(12).reshape(3, 4)
    array = isthmus.GpuArray.of(values)
    assert same(array, values) and numpy.array_equal(array.numpy(), values)
    assert (len(array), array.size, array.nbytes, array.ndim) == (3, 12, 96, 2)
    assert array.__dlpack_device__() == (2, array.device)
    assert array.__cuda_array_interface__["stream"] == LEGACY_STREAM
    address, extents, strides, kind, _ = _core.take_dlpack(array.__dlpack__(stream=LEGACY_STREAM))
    assert (address, extents, kind) == (array.__cuda_array_interface__["data"][0], [3, 4], "<f8") and not strides
    for wrong in ({"copy": True}, {"dl_device": (1, 0)}):
        try:
            array.__dlpack__(**wrong)
        except BufferError:
            continue
        raise AssertionError(wrong)
    array.__dlpack__()  # nobody takes it
    # Results are pickled, by way of the host.
    assert same(await both[1].give(ret=True), ascending(10))
    try:
        isthmus.GpuArray(1 << 50)
    except MemoryError as error:
        assert "no 9007199254740992 bytes" in str(error), error
    else:
        raise AssertionError("memory without end")
    assert math.prod(isthmus.GpuArray((2, 3), "c8").shape) == 6
    assert _arrays.of_gpu(numpy.zeros(3)) is None


async def lost():
    """Nobody waits for what the post entry raises."""
    _, both = cells()
    both[1].wrong(Own(ascending(3000)), "raises")
    await isthmus.Future()


if __name__ == "__main__":
    for name in sys.argv[1].split(","):
        isthmus.run(globals()[name])
