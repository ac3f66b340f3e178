"""Kernels that put into the next process's GPU memory and wait for the one before, from Python: docs/device.md.

    mpiexec -n 2 python device_ring.py INCLUDE

INCLUDE is the folder of <isthmus/device.cuh>. It needs CuPy and mpi4py. Each process's block writes its rank and the round, puts them to
the right, and adds up what comes from the left; no process waits for its GPU meanwhile.
"""

import ctypes
import sys

SOURCE = r"""
#include <isthmus/device.cuh>
using namespace isthmus::device;

extern "C" __global__ void ring(const DevicePort* given, unsigned share, long long* out, const long long* in,
                                long long* sum, int rounds) {
  const DevicePort port = *given;
  const ByBlock by;
  const int right = (port.rank() + 1) % port.ranks();
  for (int round = 1; round <= rounds; ++round) {
    // The two halves in turn: the right one may still read the other.
    const unsigned half = round % 2 * blockDim.x;
    out[half + threadIdx.x] = port.rank() * 1000 + round;
    by.sync();
    if (!port.put_with_signal(by, {share, right, half * 8}, out + half, blockDim.x * 8, 0, round)) return;
    if (!port.wait(by, 0, round)) return;
    sum[threadIdx.x] += in[half + threadIdx.x];
    if (!port.barrier(by)) return;
  }
}
"""


class View(ctypes.Structure):
    """isthmus_device_view of <isthmus/device_view.h>."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("peers", "spans", "state", "control", "requests")] + [
        ("slots", ctypes.c_uint32),
        ("signals", ctypes.c_uint32),
        ("shares", ctypes.c_uint32),
        ("rank", ctypes.c_int32),
        ("ranks", ctypes.c_int32),
        ("is_team", ctypes.c_uint32),
    ]


class Port:
    """A port of the GPU that is current. Collective: what makes it, `share` and `free`."""

    def __init__(self, comm, signals, most_shares=8):
        from mpi4py import MPI

        self.library = ctypes.CDLL("libmpi_abi.so.1")
        self.library.isthmus_device_error.restype = ctypes.c_char_p
        handle = ctypes.c_void_p.from_address(MPI._addressof(comm))
        self.port = ctypes.c_void_p()
        self.call("make", handle, ctypes.c_uint32(signals), ctypes.c_uint32(most_shares), ctypes.byref(self.port))

    def call(self, name, *arguments):
        if getattr(self.library, f"isthmus_device_{name}")(*arguments) != 0:
            raise RuntimeError(self.library.isthmus_device_error().decode())

    def share(self, array):
        number = ctypes.c_uint32()
        self.call("share", self.port, ctypes.c_void_p(array.data.ptr), ctypes.c_size_t(array.nbytes), ctypes.byref(number))
        return number.value

    def view(self):
        """What kernels get, in memory of the GPU: a RawKernel takes no structure of 64 bytes by value."""
        import cupy
        import numpy

        made = View()
        self.call("view_of", self.port, ctypes.byref(made))
        return cupy.asarray(numpy.frombuffer(bytes(made), dtype=numpy.uint8))

    def check(self):
        self.call("check", self.port)

    def free(self):
        self.call("free", self.port)


def main(include):
    import cupy
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    rank, ranks = comm.Get_rank(), comm.Get_size()
    cupy.cuda.Device(rank % cupy.cuda.runtime.getDeviceCount()).use()
    # CuPy's own pool is of cudaMalloc, which another process can open; cupy.cuda.MemoryAsyncPool is not.
    threads, rounds = 64, 100
    out, incoming = cupy.zeros(2 * threads, dtype=cupy.int64), cupy.zeros(2 * threads, dtype=cupy.int64)
    total = cupy.zeros(threads, dtype=cupy.int64)
    kernel = cupy.RawKernel(SOURCE, "ring", options=("-std=c++17", f"-I{include}"))
    kernel.compile()
    port = Port(comm, 1)
    share = port.share(incoming)
    stream = cupy.cuda.Stream(non_blocking=True)
    view = port.view()
    cupy.cuda.get_current_stream().synchronize()
    with stream:
        kernel((1,), (threads,), (view, cupy.uint32(share), out, incoming, total, cupy.int32(rounds)))
    stream.synchronize()
    port.check()
    left = (rank - 1) % ranks
    expected = sum(left * 1000 + i for i in range(1, rounds + 1))
    assert (total.get() == expected).all(), (total.get(), expected)
    port.free()
    print(f"rank {rank}: right")


if __name__ == "__main__":
    main(sys.argv[1])
