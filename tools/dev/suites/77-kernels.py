# title: kernels that communicate, on the emulated CUDA driver
# timeout: 300
# under: asan
# runs: mpi_abi gpu_device gpu_initiated emulated_cuda emulated_kernels
# about: include/isthmus/device* include/isthmus/fuse* src/device/* src/abi/device/* test/gpu/*device* test/gpu/device/* test/gpu/gpu_initiated.cpp test/gpu/twins/* test/emulated/*
"""test/gpu/gpu_device checks itself; the same text that nvcc compiles runs here, a block as a thread of the host, three at a time."""

import sys

sys.path.insert(0, "tools/dev")
from suite import BUILT, PREFIX, Suite

suite = Suite("kernels")
EMULATED = BUILT / "test/emulated"


def run(arguments, ranks=2, options=(), program="gpu_device", **settings):
    environment = {
        "LD_LIBRARY_PATH": f"{EMULATED}:{PREFIX / 'lib'}",
        "EMULATED_CUDA_LEAKS": "fail",
        "EMULATED_CUDA_TWINS": str(EMULATED / "libemulated_kernels.so"),
        "EMULATED_GDR": "absent",
        **settings,
    }
    return suite.run([PREFIX / "bin/mpiexec", *options, "-n", ranks, BUILT / "test/gpu" / program, *arguments], env=environment, timeout=120)


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
    "pinned": "what kernels share in pinned memory goes by proxy, and signals come behind it",
    "messages": "messages with tags, short and long, in another order than they were sent, by threads, warps and blocks",
    "misfits": "messages that do not fit are refused or cut, and told; the next comes whole",
    "jacobi": "one kernel computes, sends, polls and unpacks for many steps, in grids of any size",
}.items():
    with suite.case(what):
        right(run([case]), case)

with suite.case("the same by two ranks of one GPU"):
    right(run(["direct", "team", "jacobi", "messages"], EMULATED_CUDA_DEVICES="1"), "direct", "team", "jacobi", "messages")

with suite.case("the same by four ranks of four GPUs"):
    right(run(["team", "ports", "jacobi", "messages"], 4, EMULATED_CUDA_DEVICES="4"), "team", "ports", "jacobi", "messages")

# A launcher whose hosts are all this machine.
launcher = suite.tmp / "launcher"
launcher.write_text('#!/bin/sh\nexec sh -c "$2"\n')
launcher.chmod(0o755)
HOSTS = ["--launcher", launcher, "--hosts", "a,b"]

for ranks in (2, 4):
    with suite.case(f"to another host, a proxy carries what kernels put, get and signal: {ranks} ranks"):
        right(run(["carried"], ranks, HOSTS, ISTHMUS_LOCALITY="static"), "carried")

for ranks in (2, 4):
    with suite.case(f"messages with tags go to another host, match as on one, and are refused for the same reasons: {ranks} ranks"):
        right(run(["messages", "misfits"], ranks, HOSTS, ISTHMUS_LOCALITY="static"), "messages", "misfits")

for refused, settings in (("GPUs with no link", {"EMULATED_CUDA_LINKS": "none"}), ("memory that the driver does not open", {"EMULATED_CUDA_REFUSE": "ipc"})):
    with suite.case(f"a proxy carries it between {refused}"):
        right(run(["carried"], **settings), "carried")
        right(run(["messages", "misfits"], **settings), "messages", "misfits")

with suite.case("kernels that wait for what a dead process's proxy would bring are let go"):
    result = run(["lost"], options=("--on-failure", "continue"), EMULATED_CUDA_LINKS="none", EMULATED_CUDA_LEAKS="report")
    assert "lost: right" in result.out, result

with suite.case("kernels that wait for a process that dies are let go, and the next call tells it"):
    result = run(["lost"], options=("--on-failure", "continue"), EMULATED_CUDA_LEAKS="report")
    assert "lost: right" in result.out, result

with suite.case("MPI_Finalize lets kernels go that wait by a port that was not freed"):
    result = run(["leave"], EMULATED_CUDA_LEAKS="report")
    assert "leave: right" in result.out, result

with suite.case("the table of what kernels and streams cost is right in what it moves"):
    result = run(["quick"], program="gpu_initiated")
    suite.expect(result, out="^contents: right$")
    rows = [line for line in result.out.splitlines() if " target " in line]
    assert len(rows) == 41, f"{len(rows)} lines\n{result}"

suite.finish()
