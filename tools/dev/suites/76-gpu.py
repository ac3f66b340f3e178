# title: MPI programs with their data in GPU memory, on the emulated CUDA driver
# timeout: 300
# under: asan
"""The programs of test/gpu check themselves and print nothing when all is right; the emulated driver reports what they leave open."""

import sys

sys.path.insert(0, "tools/dev")
from suite import BUILT, PREFIX, Skip, Suite

suite = Suite("gpu")
PROGRAMS = BUILT / "test/gpu"
EMULATED = BUILT / "test/emulated"
HAS_KERNELS = '"gpu_kernels":{"text":"none' not in suite.run([PREFIX / "bin/isthmus", "info", "--json"]).out.replace(" ", "").replace("\n", "")


def run(program, ranks, before=(), options=(), arguments=(), **settings):
    environment = {
        "LD_LIBRARY_PATH": f"{EMULATED}:{PREFIX / 'lib'}",
        "EMULATED_CUDA_LEAKS": "fail",
        "EMULATED_CUDA_TWINS": str(EMULATED / "libemulated_kernels.so"),
        **settings,
    }
    command = [PREFIX / "bin/mpiexec", *options, "-n", ranks, *before, PROGRAMS / program, *arguments]
    return suite.run(command, env=environment, timeout=120)


def quiet(result):
    suite.expect(result)
    # A library that was built without nvcc says once that it has no kernels.
    lines = [line for line in result.text.splitlines() if "built without nvcc" not in line or HAS_KERNELS]
    assert not lines, f"it printed something\n{result}"


with suite.case("messages between all kinds of memory"):
    quiet(run("gpu_p2p", 2))

with suite.case("messages between all kinds of memory, where the kernel refuses process_vm_*"):
    result = run("gpu_p2p", 2, ISTHMUS_CMA="off")
    suite.expect(result, err=r"go by way of the host's memory: the descriptor of its GPU memory cannot be had")

for path in ("pull", "push", "staged"):
    with suite.case(f"messages between all kinds of memory, {path} alone"):
        quiet(run("gpu_p2p", 2, ISTHMUS_GPU_PATH=path))

for fault in ("short", "none", "lost"):
    with suite.case(f"messages through the host where pinned memory or a GPU fails: {fault}"):
        suite.expect(run("gpu_faults", 2, ISTHMUS_GPU_PATH="staged", arguments=[fault]), err="the CUDA driver refuses|failed before")

with suite.case("messages between a rank that uses CUDA and one that does not"):
    quiet(run("gpu_faults", 2, arguments=["mixed"]))

with suite.case("messages between all kinds of memory, in pid namespaces in which both ranks are process 1"):
    alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if suite.run([*alone, "true"], timeout=20).status != 0:
        raise Skip("unshare is refused here")
    result = run("gpu_p2p", 2, alone, EMULATED_CUDA_FOLDER=str(suite.tmp))
    suite.expect(result, err=r"both processes have the process id 1 in their pid namespaces")

with suite.case("MPI_Alloc_mem and the kinds of memory"):
    kinds = ("--memory-alloc-kinds", "cuda:device:host,rocm,system")
    quiet(run("gpu_alloc", 2, options=kinds))

with suite.case("memory that is freed while a peer has it open"):
    quiet(run("gpu_free", 2))

with suite.case("memory that is freed while a peer has it open to read"):
    quiet(run("gpu_free", 2, ISTHMUS_GPU_PATH="pull"))

with suite.case("messages between all kinds of memory, on one GPU"):
    quiet(run("gpu_p2p", 2, EMULATED_CUDA_DEVICES="1"))

with suite.case("messages between all kinds of memory, where GPUs do not reach each other"):
    suite.expect(run("gpu_p2p", 2, EMULATED_CUDA_LINKS="none"), err="go by way of the host's memory")

with suite.case("messages between all kinds of memory, sleeping"):
    quiet(run("gpu_p2p", 2, ISTHMUS_IDLE="sleep"))

with suite.case("messages between all kinds of memory, each rank with a GPU that the other does not see"):
    one_each = ["sh", "-c", 'CUDA_VISIBLE_DEVICES=$ISTHMUS_RANK exec "$@"', "sh"]
    suite.expect(run("gpu_p2p", 2, one_each))

with suite.case("packing and local reductions in all kinds of memory"):
    quiet(run("gpu_local", 1))

with suite.case("messages and local calls without kernels: as before, with one warning that says what they would bring"):
    for program, ranks in (("gpu_local", 1), ("gpu_p2p", 2)):
        result = run(program, ranks, EMULATED_CUDA_TWINS="")
        suite.expect(result, err=r"copied a block at a time, and the host computes reductions: .*kernels")
        assert len(result.text.splitlines()) == ranks, f"it said more\n{result}"

for ranks in (1, 2, 3, 5):
    with suite.case(f"collectives at {ranks}"):
        quiet(run("gpu_coll", ranks))

with suite.case("explain tells how GPU memory went"):
    result = run("gpu_p2p", 2, ISTHMUS_EXPLAIN="1")
    for path in ("copied by the sender's GPU", "copied by the receiver's GPU", "by way of the host's"):
        suite.expect(result, err=rf"GPU memory, {path} +sent [1-9]")

suite.finish()
