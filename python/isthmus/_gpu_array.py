"""An array in memory of a GPU, for programs that have neither CuPy nor PyTorch."""

from __future__ import annotations

import math
from typing import Any

import numpy

from . import _core

_DLPACK_CUDA = 2


class GpuArray:
    """A new contiguous array in memory of the current GPU: what arrives where there is no CuPy and no PyTorch.

    It has `__cuda_array_interface__` and DLPack, so that Numba, `cupy.asarray` and `torch.as_tensor` use it
    without a copy. `numpy()` copies it to the host. What it holds at first is undefined. Its memory is freed with it.

    Raises MemoryError, or RuntimeError where there is no GPU.
    """

    __slots__ = ("_memory", "shape", "dtype")

    shape: tuple[int, ...]
    dtype: numpy.dtype[Any]

    def __init__(self, shape: int | tuple[int, ...] | list[int], dtype: Any = "f8") -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(int(each) for each in shape)
        self.dtype = numpy.dtype(dtype)
        if self.dtype.hasobject or any(each < 0 for each in self.shape):
            raise ValueError("an array of a GPU has numbers, and extents of 0 or more")
        self._memory = _core.GpuMemory(self.nbytes)

    @classmethod
    def of(cls, array: Any) -> GpuArray:
        """A copy of an array in memory of the host."""
        host = numpy.ascontiguousarray(array).reshape(numpy.shape(array))
        made = cls(host.shape, host.dtype)
        _core.copy_of_gpu(made._memory.address, host.ctypes.data, host.nbytes)
        return made

    def numpy(self) -> numpy.ndarray[Any, Any]:
        """A copy in memory of the host."""
        host = numpy.empty(self.shape, self.dtype)
        _core.copy_of_gpu(host.ctypes.data, self._memory.address, host.nbytes)
        return host

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def device(self) -> int:
        """The number of its GPU."""
        return self._memory.device

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._memory.address, False),
            "strides": None,
            "stream": 1,  # what other libraries do with it goes by the legacy default stream, or is waited for by them
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DLPACK_CUDA, self.device

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None) -> Any:
        if copy:
            raise BufferError("a copy of an array of a GPU is not made by DLPack")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError("an array of a GPU cannot be given to another device")
        return _core.make_dlpack(self, self._memory.address, list(self.shape), self.dtype.str, self.device)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<GpuArray {self.shape} of {self.dtype} on GPU {self.device}>"

    def __reduce__(self) -> Any:
        # By way of the host: in results, broadcasts and the state of chares that move.
        return GpuArray.of, (self.numpy(),)
