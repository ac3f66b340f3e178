"""Arrays that are not NumPy's: of a GPU (`__cuda_array_interface__`, DLPack), and of others in memory of the host
(DLPack). For channels and for arguments of entries alike."""

from __future__ import annotations

import functools
import math
from typing import Any, Sequence

import numpy

from . import _core
from ._gpu_array import GpuArray

NUMPY, CUPY, TORCH, TORCH_GPU = range(4)

_COMPLEX = {"F": "Zf", "D": "Zd"}
_FROM_COMPLEX = {"Zf": "F", "Zd": "D"}
_DLPACK_CPU = 1
_DLPACK_GPU = (2, 13)  # a GPU's own memory, managed memory
_LEGACY_STREAM = 1


def _element(dtype: numpy.dtype[Any]) -> str:
    """The character of the buffer protocol for an element."""
    if dtype.hasobject or not dtype.isnative or dtype.char in "gGSUVMm":
        raise TypeError(f"arrays of numbers are sent, not of {dtype}")
    return _COMPLEX.get(dtype.char, dtype.char)


def _synchronize(array: Any, stream: int | None, address: int) -> None:
    """Waits until the GPU has done what the program has ordered for this array."""
    if type(array).__module__.partition(".")[0] == "torch":
        # Torch does not say in which stream an array is made: it is the current one.
        import torch

        torch.cuda.current_stream(array.device).synchronize()
    elif stream is not None:
        _core.synchronize_stream(stream, address)


def _contiguous(extents: Sequence[int], strides: Sequence[int] | None, item: int) -> None:
    """Raises ValueError where the elements do not follow each other; `strides` in bytes."""
    if not strides or 0 in extents:
        return
    for extent, stride in zip(reversed(extents), reversed(strides)):
        if extent > 1 and stride != item:
            raise ValueError("an array of a GPU must be contiguous to travel: this one has gaps, or another order")
        item *= extent


def _memory_of_gpu(address: int, dtype: numpy.dtype[Any], extents: list[int]) -> _core.Memory:
    if any(each < 0 for each in extents):
        raise ValueError("an array of a GPU with an extent below 0")
    size = math.prod(extents) * dtype.itemsize
    element = _element(dtype)
    if size != 0:
        _core.need_gpu_memory(address, size)
    return _core.Memory(address, size, element, True)


def _of_gpu(array: Any, description: dict[str, Any]) -> tuple[_core.Memory, list[int]]:
    dtype = numpy.dtype(description["typestr"])
    extents = [int(each) for each in description["shape"]]
    _contiguous(extents, description.get("strides"), dtype.itemsize)
    if description.get("mask") is not None:
        raise ValueError("an array of a GPU with a mask does not travel")
    memory = _memory_of_gpu(description["data"][0] or 0, dtype, extents)
    _synchronize(array, description.get("stream"), description["data"][0] or 0)
    return memory, extents


def _of_dlpack(array: Any) -> tuple[_core.Memory, list[int], Any]:
    """Of a GPU, without `__cuda_array_interface__`: with what keeps the memory."""
    # It makes the legacy default stream wait for what is under way.
    address, extents, strides, type_, owner = _core.take_dlpack(array.__dlpack__(stream=_LEGACY_STREAM))
    dtype = numpy.dtype(type_)
    _contiguous(extents, strides, dtype.itemsize)
    memory = _memory_of_gpu(address, dtype, extents)
    _core.synchronize_stream(_LEGACY_STREAM, address)
    return memory, extents, owner


def _is_of_gpu_by_dlpack(array: Any) -> bool:
    return hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] in _DLPACK_GPU


def _family(array: Any, is_gpu: bool) -> int:
    module = type(array).__module__.partition(".")[0]
    if module == "torch":
        return TORCH_GPU if is_gpu else TORCH
    # Others of a GPU are made by CuPy on the other side, if it is there: its arrays are what the interface was made for.
    return CUPY if is_gpu else NUMPY


def _of_host(array: numpy.ndarray[Any, Any]) -> tuple[_core.Memory, list[int]]:
    if not array.flags.c_contiguous:
        raise ValueError("data comes into contiguous arrays: this one has gaps, or another order")
    return _core.Memory(array.ctypes.data, array.nbytes, _element(array.dtype), False), list(array.shape)


def view(array: Any) -> tuple[_core.Memory, list[int], int, Any] | None:
    """What is sent straight from its memory: (memory, extents, family, owner). None: not an array of this kind."""
    description = getattr(array, "__cuda_array_interface__", None)
    if description is not None:
        memory, extents = _of_gpu(array, description)
        return memory, extents, _family(array, True), array
    if isinstance(array, numpy.ndarray) or not hasattr(array, "__dlpack_device__"):
        return None
    if _is_of_gpu_by_dlpack(array):
        memory, extents, owner = _of_dlpack(array)
        return memory, extents, _family(array, True), owner
    if array.__dlpack_device__()[0] != _DLPACK_CPU:
        raise TypeError(f"an array of another device than the host or a GPU of CUDA: {type(array).__name__}")
    host = numpy.ascontiguousarray(numpy.from_dlpack(array))
    memory, extents = _of_host(host)
    return memory, extents, _family(array, False), host


def of_gpu(array: Any) -> tuple[_core.Memory, list[int], int, Any] | None:
    """An argument that goes apart from the others: as `view`, of arrays of GPUs alone."""
    if getattr(array, "__cuda_array_interface__", None) is None and not _is_of_gpu_by_dlpack(array):
        return None
    return view(array)


def target(array: Any) -> _core.Memory:
    """What data comes straight into."""
    description = getattr(array, "__cuda_array_interface__", None)
    if description is not None:
        if description["data"][1]:
            raise ValueError("the array to receive into is read-only")
        return _of_gpu(array, description)[0]
    if isinstance(array, numpy.ndarray):
        host = array
    elif _is_of_gpu_by_dlpack(array):
        return _of_dlpack(array)[0]
    elif hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] == _DLPACK_CPU:
        host = numpy.from_dlpack(array)
        if type(array).__module__.partition(".")[0] != "torch" and not host.flags.writeable:
            raise ValueError("the array to receive into is read-only")
        return _of_host(host)[0]
    else:
        host = numpy.asarray(memoryview(array))
    if not host.flags.writeable:
        raise ValueError("the array to receive into is read-only")
    return _of_host(host)[0]


@functools.cache
def _package(name: str) -> Any:
    """The package, or None. Looked for once: to look for one that is not there takes as long as a message."""
    try:
        return __import__(name)
    except ImportError:
        return None


def new(family: int, element: str, extents: list[int]) -> tuple[Any, _core.Memory]:
    """An array as the other side has sent it: of the same package, if it is there; else of CuPy; else a GpuArray."""
    dtype = numpy.dtype(_FROM_COMPLEX.get(element, element))
    torch = _package("torch") if family in (TORCH, TORCH_GPU) else None
    if family == TORCH and torch is None:
        raise TypeError(
            "an array has come that torch makes, which this process does not have: receive it with recv(into=...)"
        )
    array: Any
    if family == TORCH:
        array = torch.from_numpy(numpy.empty(extents, dtype))
    elif torch is not None:
        array = torch.empty(extents, dtype=torch.from_numpy(numpy.empty(0, dtype)).dtype, device="cuda")
    elif (cupy := _package("cupy")) is not None:
        array = cupy.empty(tuple(extents), dtype)
    else:
        array = GpuArray(extents, dtype)
    return array, target(array)


class Coming:
    """An array of a GPU that will come: what a post entry gets in its place.

    `into` says where it goes. Where a post entry does not say it, the array comes into a new one.
    """

    __slots__ = ("_family", "_element", "_into", "shape", "dtype")

    shape: tuple[int, ...]
    dtype: numpy.dtype[Any]

    def __init__(self, family: int, element: str, extents: list[int]) -> None:
        self._family = family
        self._element = element
        self._into: tuple[Any, _core.Memory] | None = None
        self.shape = tuple(extents)
        self.dtype = numpy.dtype(_FROM_COMPLEX.get(element, element))

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def into(self, array: Any) -> None:
        """The data comes into this array, of a GPU or of the host, which the entry gets: as many bytes, and the same
        type of elements; else ValueError is raised. It must live, and be left alone, until the entry is called."""
        memory = target(array)
        if memory.bytes != self.nbytes or memory.element != self._element:
            raise ValueError(
                f"an array of {self.nbytes} bytes of '{self._element}' comes, and was to go into {memory.bytes} bytes of '{memory.element}'"
            )
        self._into = array, memory

    def _destination(self) -> tuple[Any, _core.Memory]:
        return self._into if self._into is not None else new(self._family, self._element, list(self.shape))
