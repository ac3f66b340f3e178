# title: MPI programs with their data in GPU memory, on the emulated CUDA driver
# timeout: 300
# under: asan
"""The programs of test/gpu check themselves and print nothing when all is right; the emulated driver reports what they leave open."""

import sys

sys.path.insert(0, "tools/dev")
from suite import BUILT, PREFIX, Suite

suite = Suite("gpu")
PROGRAMS = BUILT / "test/gpu"
EMULATED = BUILT / "test/emulated"
HAS_KERNELS = '"gpu_kernels":{"text":"none' not in suite.run([PREFIX / "bin/isthmus", "info", "--json"]).out.replace(" ", "").replace("\n", "")


def run(program, ranks, before=(), **settings):
    environment = {
        "LD_LIBRARY_PATH": f"{EMULATED}:{PREFIX / 'lib'}",
        "EMULATED_CUDA_LEAKS": "fail",
        "EMULATED_CUDA_TWINS": str(EMULATED / "libemulated_kernels.so"),
        **settings,
    }
    command = [PREFIX / "bin/mpiexec", "-n", ranks, *before, PROGRAMS / program]
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
    suite.expect(result, err=r"GPU memory, copied by the receiver's GPU +sent [1-9]")

suite.finish()
