# title: kernels that communicate, on the emulated CUDA driver
# timeout: 300
# under: asan
# runs: mpi_abi gpu_device emulated_cuda emulated_kernels
# about: include/isthmus/device* include/isthmus/fuse* src/device/* src/abi/device/* test/gpu/*device* test/gpu/twins/* test/emulated/*
"""test/gpu/gpu_device checks itself; the same text that nvcc compiles runs here, a block as a thread of the host, three at a time."""

import sys

sys.path.insert(0, "tools/dev")
from suite import BUILT, PREFIX, Suite

suite = Suite("kernels")
EMULATED = BUILT / "test/emulated"


def run(arguments, ranks=2, options=(), **settings):
    environment = {
        "LD_LIBRARY_PATH": f"{EMULATED}:{PREFIX / 'lib'}",
        "EMULATED_CUDA_LEAKS": "fail",
        "EMULATED_CUDA_TWINS": str(EMULATED / "libemulated_kernels.so"),
        "EMULATED_GDR": "absent",
        **settings,
    }
    return suite.run([PREFIX / "bin/mpiexec", *options, "-n", ranks, BUILT / "test/gpu/gpu_device", *arguments], env=environment, timeout=120)


def right(result, *cases):
    suite.expect(result)
    told = [line for line in result.text.splitlines() if "built without nvcc" not in line]
    assert told == [f"{case}: right" for case in cases], f"cases are missing, or it printed something\n{result}"


for case, what in {
    "direct": "puts, gets and signals by threads, warps, blocks and grids bring what was written, and signals come behind it",
    "order": "a kernel that signals before it puts is found out",
    "team": "barrier, broadcast and allreduce inside of kernels, from launch to launch",
    "ports": "many ports, of communicators of some processes in another order",
    "ranges": "what does not lie within is refused, told once, and writes nothing",
    "graph": "a graph of kernels that communicate is launched again and again",
    "cancel": "kernels of more blocks than the GPU holds wait in vain until the host cancels the port",
    "freed": "shared memory that was freed is told",
    "jacobi": "one kernel computes, sends, polls and unpacks for many steps, in grids of any size",
}.items():
    with suite.case(what):
        right(run([case]), case)

with suite.case("the same by two ranks of one GPU"):
    right(run(["direct", "team", "jacobi"], EMULATED_CUDA_DEVICES="1"), "direct", "team", "jacobi")

with suite.case("the same by four ranks of four GPUs"):
    right(run(["team", "ports", "jacobi"], 4, EMULATED_CUDA_DEVICES="4"), "team", "ports", "jacobi")

with suite.case("kernels that wait for a process that dies are let go, and the next call tells it"):
    result = run(["lost"], options=("--on-failure", "continue"), EMULATED_CUDA_LEAKS="report")
    assert "lost: right" in result.out, result

with suite.case("MPI_Finalize lets kernels go that wait by a port that was not freed"):
    result = run(["leave"], EMULATED_CUDA_LEAKS="report")
    assert "leave: right" in result.out, result
