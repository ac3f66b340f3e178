"""Arrays that are not NumPy's: of a GPU (`__cuda_array_interface__`), and of others in memory of the host (DLPack)."""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any

import numpy

from . import _core

NUMPY, CUPY, TORCH, TORCH_GPU = range(4)

_COMPLEX = {"F": "Zf", "D": "Zd"}
_FROM_COMPLEX = {"Zf": "F", "Zd": "D"}
_DLPACK_CPU = 1


def _element(dtype: numpy.dtype[Any]) -> str:
    """The character of the buffer protocol for an element."""
    if dtype.hasobject or not dtype.isnative or dtype.char in "gGSUVMm":
        raise TypeError(f"a channel sends arrays of numbers, not of {dtype}")
    return _COMPLEX.get(dtype.char, dtype.char)


@functools.cache
def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def _synchronize(array: Any, stream: int | None) -> None:
    """Waits until the GPU has done what the program has ordered for this array."""
    if type(array).__module__.partition(".")[0] == "torch":
        # Torch does not say in which stream an array is made: it is the current one.
        import torch

        torch.cuda.current_stream(array.device).synchronize()
    elif stream is not None:
        code = _driver().cuStreamSynchronize(ctypes.c_void_p(stream))
        if code != 0:
            raise RuntimeError(f"the stream of an array cannot be waited for (CUDA error {code})")


def _of_gpu(array: Any, description: dict[str, Any]) -> tuple[_core.Memory, list[int]]:
    dtype = numpy.dtype(description["typestr"])
    extents = [int(each) for each in description["shape"]]
    strides = description.get("strides")
    if strides is not None:
        wanted = dtype.itemsize
        for extent, stride in zip(reversed(extents), reversed(strides)):
            if extent > 1 and stride != wanted:
                raise ValueError("a channel needs contiguous arrays of a GPU: this one has gaps, or another order")
            wanted *= extent
    if description.get("mask") is not None:
        raise ValueError("a channel does not know masks of arrays")
    _synchronize(array, description.get("stream"))
    return _core.Memory(description["data"][0], math.prod(extents) * dtype.itemsize, _element(dtype), True), extents


def _family(array: Any, is_gpu: bool) -> int:
    module = type(array).__module__.partition(".")[0]
    if module == "torch":
        return TORCH_GPU if is_gpu else TORCH
    # Others of a GPU are made by CuPy on the other side: its arrays are what the interface was made for.
    return CUPY if is_gpu else NUMPY


def _of_host(array: numpy.ndarray[Any, Any]) -> tuple[_core.Memory, list[int]]:
    if not array.flags.c_contiguous:
        raise ValueError("a channel receives into contiguous arrays: this one has gaps, or another order")
    return _core.Memory(array.ctypes.data, array.nbytes, _element(array.dtype), False), list(array.shape)


def view(array: Any) -> tuple[_core.Memory, list[int], int, Any] | None:
    """What a channel sends straight from its memory: (memory, extents, family, owner). None: not an array of
    this kind."""
    description = getattr(array, "__cuda_array_interface__", None)
    if description is not None:
        memory, extents = _of_gpu(array, description)
        return memory, extents, _family(array, True), array
    if isinstance(array, numpy.ndarray) or not hasattr(array, "__dlpack_device__"):
        return None
    if array.__dlpack_device__()[0] != _DLPACK_CPU:
        raise TypeError(f"an array of another device, without __cuda_array_interface__: {type(array).__name__}")
    host = numpy.ascontiguousarray(numpy.from_dlpack(array))
    memory, extents = _of_host(host)
    return memory, extents, _family(array, False), host


def target(array: Any) -> _core.Memory:
    """What a channel receives straight into."""
    description = getattr(array, "__cuda_array_interface__", None)
    if description is not None:
        if description["data"][1]:
            raise ValueError("the array to receive into is read-only")
        return _of_gpu(array, description)[0]
    if isinstance(array, numpy.ndarray):
        host = array
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


def new(family: int, element: str, extents: list[int]) -> tuple[Any, _core.Memory]:
    """An array as the other side has sent it."""
    dtype = numpy.dtype(_FROM_COMPLEX.get(element, element))
    module = "cupy" if family == CUPY else "torch"
    try:
        maker = __import__(module)
    except ImportError:
        raise TypeError(
            f"an array has come that {module} makes, which this process does not have: receive it with recv(into=...)"
        ) from None
    array: Any
    if family == CUPY:
        array = maker.empty(extents, dtype)
    elif family == TORCH:
        array = maker.from_numpy(numpy.empty(extents, dtype))
    else:
        array = maker.empty(extents, dtype=maker.from_numpy(numpy.empty(0, dtype)).dtype, device="cuda")
    return array, target(array)
