"""Arrays in GPU memory: arguments of entries, and channels. On the emulated driver, where the suite names it."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from isthmus import _core, entry, post

MPIEXEC = os.environ.get("DEV_MPIEXEC", "mpiexec")
EMULATED = os.environ.get("DEV_EMULATED")
PROGRAM = Path(__file__).with_name("gpu_program.py")
needs_driver = pytest.mark.skipif(EMULATED is None, reason="DEV_EMULATED does not name the emulated driver")


def job(names, ranks, **settings):
    emulated = {"LD_LIBRARY_PATH": EMULATED, "EMULATED_CUDA_TWINS": f"{EMULATED}/libemulated_kernels.so", "EMULATED_GDR": "absent"}
    command = [MPIEXEC, "-n", str(ranks), sys.executable, str(PROGRAM), names]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env={**os.environ, **emulated, **settings})


def right(result):
    # A library that was built without nvcc says once that it has no kernels.
    lines = [line for line in (result.stdout + result.stderr).splitlines() if "built without nvcc" not in line]
    assert result.returncode == 0 and not lines, result.stdout + result.stderr


@needs_driver
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("name", ["arrive", "sent", "post", "moves", "refused", "channels", "own_arrays"])
def test_arrays_in_gpu_memory(name, ranks):
    right(job(name, ranks))


@needs_driver
@pytest.mark.parametrize("path", ["staged", "pull", "push"])
def test_whichever_way_they_take(path):
    right(job("arrive,post", 2, ISTHMUS_GPU_PATH=path))


@needs_driver
def test_streams_are_waited_for():
    right(job("streams", 2, EMULATED_CUDA_DELAY_US="30000"))


@needs_driver
def test_a_post_entry_that_fails_where_nobody_waits_ends_the_job():
    result = job("lost", 2)
    assert result.returncode == 1, result.stderr
    for text in ("chare __main__.Cell[3]", "entry __main__.Cell.wrong", "KeyError: 'of the post entry'", "in post_wrong"):
        assert text in result.stderr, result.stderr


def test_a_post_entry_names_an_entry():
    with pytest.raises(TypeError, match="names an entry: len is none"):
        post(len)


def test_a_post_entry_is_no_coroutine():
    @entry
    def takes(self):
        pass

    async def where(self):
        pass

    with pytest.raises(TypeError, match="cannot be a coroutine"):
        post(takes)(where)


class Said:
    """What stands for an array of a GPU here."""

    __cuda_array_interface__ = None

    def __init__(self, *extents):
        self.extents = list(extents)


def of_gpu(array):
    size = 8
    for extent in array.extents:
        size *= extent
    return _core.Memory(64, size, "d", True), array.extents, 1, array


def section(*arguments, **keywords):
    return _core.section(arguments, keywords, of_gpu)


def test_descriptions_come_back():
    text = section(1, Said(2, 3), "a", Said(), b=1, c=Said(0))
    assert _core.read_section(text, [48, 8, 0]) == [(1, "d", [2, 3]), (3, "d", []), (5, "d", [0])]
    assert section(1, "a", None, [Said(1)]) == b""


def test_descriptions_that_are_none_are_refused():
    text = section(1, Said(2, 3), Said())
    for sizes in ([], [48], [48, 8, 8], [48, 0], [8, 48], [47, 8]):
        with pytest.raises(ValueError):
            _core.read_section(text, sizes)
    for length in range(len(text)):
        with pytest.raises(ValueError):
            _core.read_section(text[:length], [48, 8])
    for place in range(0, len(text), 4):
        for bytes_ in (4, 8):
            with contextlib.suppress(ValueError):
                _core.read_section(text[:place] + bytes(bytes_) + text[place + bytes_ :], [48, 8])
    with pytest.raises(ValueError):
        _core.read_section(bytes(len(text)), [48, 8])
    for place in range(len(text)):
        for bit in range(8):
            wrong = bytearray(text)
            wrong[place] ^= 1 << bit
            try:
                _core.read_section(bytes(wrong), [48, 8])
            except ValueError:
                continue


def test_no_driver_is_named():
    if EMULATED is None:
        pytest.skip("there may be one")
    code = "import isthmus\ntry:\n  isthmus.GpuArray(3)\nexcept RuntimeError as error:\n  print(error)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "no CUDA driver that works" in result.stdout, result.stdout + result.stderr
