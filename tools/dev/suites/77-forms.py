# title: applications on GPUs, synchronous, enqueued, in graphs: the right answer, the same bits in each form, on the emulated driver
# timeout: 300
# under: asan
# runs: mpi_abi multigrid emulated_cuda emulated_kernels emulated_multigrid molecular emulated_molecular breadth_first emulated_breadth_first isthmus isthmus_observer
# about: apps/* *stream* test/gpu/twins/*
import json
import os
import sys

sys.path.insert(0, "tools/dev")
from suite import BUILT, PREFIX, VENV, Skip, Suite

suite = Suite("forms")
EMULATED = BUILT / "test/emulated"
MPIEXEC = PREFIX / "bin/mpiexec"


def run(ranks, application, *arguments, timeout=100, **settings):
    twins = f"{EMULATED}/libemulated_{application}.so:{EMULATED}/libemulated_kernels.so"
    environment = {
        "LD_LIBRARY_PATH": f"{EMULATED}:{PREFIX / 'lib'}",
        "EMULATED_CUDA_LEAKS": "fail",
        "EMULATED_CUDA_TWINS": twins,
        "EMULATED_CUDA_DELAY_US": "0",
        **settings,
    }
    return suite.run([MPIEXEC, "-n", ranks, BUILT / "apps" / application / application, *arguments], env=environment, timeout=timeout)


def on_gpu(ranks, application, *arguments, **settings):
    """The forms' results. That each has the known answer and the bits of the synchronous form is its exit status."""
    result = run(ranks, application, "--gpu", "--json", *arguments, **settings)
    if "built without nvcc" in result.err:
        raise Skip(f"{application} was built without nvcc")
    found = json.loads(suite.expect(result).out)
    assert found["correct"] is True, found
    return {form["form"]: form for form in found["forms"]}


MULTIGRID = ("--box", "4", "--cycles", "4", "--bottom-sweeps", "8", "--repeats", "1")

errors = set()
for ranks in (1, 2, 4):
    with suite.case(f"multigrid on {ranks} ranks of the host: the exact answer, as fast as theory says"):
        suite.expect(run(ranks, "multigrid", "--boxes", "2x2x2", "--box", "8", "--repeats", "1", EMULATED_CUDA_TWINS=""), out=r"correct\n.*correct\n.*V-cycle")
    for way in ("prepared", "mpi"):
        with suite.case(f"multigrid on {ranks} GPUs in each form, by {way}: the same bits"):
            forms = on_gpu(ranks, "multigrid", *MULTIGRID, "--form", "sync,stream,graph,kernel", "--by", way)
            assert list(forms) == ["sync", "stream", "graph", "kernel"] and all(form["same_bits"] for form in forms.values()), forms
APART = {"EMULATED_CUDA_LINKS": "none"}
with suite.case("multigrid: kernels that do not reach each other send by a proxy"):
    on_gpu(4, "multigrid", *MULTIGRID, "--form", "kernel", **APART)
with suite.case("multigrid: two ranks share a GPU"):
    on_gpu(2, "multigrid", *MULTIGRID, "--form", "stream,graph,kernel", EMULATED_CUDA_DEVICES="1")
with suite.case("multigrid: Helmholtz's equation, boxes of unequal number"):
    on_gpu(2, "multigrid", *MULTIGRID, "--form", "graph", "--alpha", "100", "--boxes", "1x3x2")
with suite.case("multigrid: too few cycles for the answer are found to be"):
    result = run(1, "multigrid", "--box", "4", "--cycles", "2", "--sweeps", "1", "--bottom-sweeps", "1", "--boxes", "8x8x8", "--repeats", "1")
    suite.expect(result, status=1, out="residual .*: WRONG")

for arguments, why in (
    (("--form", "stream"), "--form stream needs --gpu"),
    (("--form", "magic"), r"magic not in \{sync,stream,graph"),
    (("--box", "3"), "--box 3: expected a power of two"),
    (("--boxes", "2x2"), "--boxes 2x2: expected three numbers"),
    (("--cycles", "3"), "--cycles 3: expected an even number"),
):
    with suite.case(f"multigrid {' '.join(arguments)}: said once, with status 2"):
        result = suite.expect(run(2, "multigrid", *arguments), status=2, err=why)
        assert result.err.count("multigrid: ") == 1, result
with suite.case("without a GPU it says so"):
    suite.expect(run(1, "multigrid", "--gpu", EMULATED_CUDA_DEVICES="0"), status=1, err="the GPU cannot be used|there is no GPU here|built without nvcc")
MOLECULAR = ("--edge", "3", "--steps", "6", "--repeats", "2")
for ranks in (1, 2, 3):
    with suite.case(f"molecular on {ranks} ranks of the host: the energy at rest, and what must be kept"):
        suite.expect(run(ranks, "molecular", "--edge", "3", "--steps", "40", "--repeats", "1", EMULATED_CUDA_TWINS=""), out="at rest .*correct\n.*drifts .*correct\n")
with suite.case("molecular: hot atoms go from cell to cell and from rank to rank, and none is lost"):
    suite.expect(run(2, "molecular", "--edge", "3", "--steps", "300", "--repeats", "1", "--temperature", "2500", EMULATED_CUDA_TWINS=""), out="216 atoms: correct")
for ranks in (1, 2, 4):
    for way in ("prepared", "mpi"):
        with suite.case(f"molecular on {ranks} GPUs in each form, by {way}: the same bits"):
            forms = on_gpu(ranks, "molecular", *MOLECULAR, "--form", "stream,graph,kernel", "--by", way)
            assert list(forms) == ["sync", "stream", "graph", "kernel"], forms
with suite.case("molecular: kernels that do not reach each other send by a proxy"):
    on_gpu(4, "molecular", *MOLECULAR, "--form", "kernel", **APART)
with suite.case("molecular: more steps than one kernel does, of hot atoms"):
    on_gpu(2, "molecular", "--edge", "3", "--steps", "38", "--repeats", "1", "--temperature", "2500", "--form", "kernel")
with suite.case("molecular: two ranks share a GPU"):
    on_gpu(2, "molecular", *MOLECULAR, "--form", "stream,graph,kernel", EMULATED_CUDA_DEVICES="1")
with suite.case("molecular: steps that are too long are told"):
    suite.expect(run(1, "molecular", "--edge", "3", "--steps", "200", "--step", "10", "--temperature", "3000", EMULATED_CUDA_TWINS=""), status=1, out="energy drifts .*: WRONG")
with suite.case("molecular --edge 4: said once, with status 2"):
    suite.expect(run(2, "molecular", "--edge", "4"), status=2, err="--edge 4: its cells would have too many atoms")

for ranks in (1, 2, 3, 4, 6):
    with suite.case(f"breadth_first on {ranks} ranks of the host: the levels of a serial search"):
        suite.expect(run(ranks, "breadth_first", "--scale", "9", "--repeats", "1", EMULATED_CUDA_TWINS=""), out="serial search: correct\n")
for ranks in (1, 2, 4):
    for way in ("prepared", "mpi"):
        with suite.case(f"breadth_first on {ranks} GPUs, sync and enqueued by {way}: the levels of a serial search"):
            forms = on_gpu(ranks, "breadth_first", "--scale", "9", "--repeats", "2", "--form", "stream,kernel", "--by", way, "--ahead", "3")
            # Enqueued three at a time: some levels find nothing. A kernel asks itself.
            assert forms["stream"]["levels"] >= forms["sync"]["levels"] and forms["stream"]["reached"] == forms["sync"]["reached"], forms
            assert forms["kernel"]["levels"] == forms["sync"]["levels"] and forms["kernel"]["reached"] == forms["sync"]["reached"], forms
with suite.case("breadth_first: two ranks share a GPU"):
    on_gpu(2, "breadth_first", "--scale", "9", "--repeats", "1", "--form", "stream,kernel", EMULATED_CUDA_DEVICES="1")
with suite.case("breadth_first: more levels than one kernel does, of a thin graph"):
    forms = on_gpu(2, "breadth_first", "--scale", "12", "--edge-factor", "1", "--repeats", "1", "--form", "kernel")
    assert forms["kernel"]["levels"] == forms["sync"]["levels"] > 8, forms
with suite.case("breadth_first: kernels that do not reach each other: the host asks"):
    forms = on_gpu(4, "breadth_first", "--scale", "9", "--repeats", "1", "--form", "kernel", "--ahead", "3", **APART)
    assert forms["kernel"]["reached"] == forms["sync"]["reached"], forms
with suite.case("breadth_first --form graph: said once, with status 2"):
    suite.expect(run(2, "breadth_first", "--form", "graph"), status=2, err=r"graph not in \{sync,stream,kernel\}")

# --- isthmus model ---------------------------------------------------------------------------------------------------------------

ISTHMUS = PREFIX / "bin/isthmus"
OBSERVER = PREFIX / "lib/isthmus/libisthmus_observer.so"


def need_observer():
    if not OBSERVER.exists():
        raise Skip("a sanitizer's build has no observer")


def model(*options, application="multigrid", ranks=2, arguments=(), **settings):
    need_observer()
    twins = f"{EMULATED}/libemulated_{application}.so:{EMULATED}/libemulated_kernels.so"
    environment = {"LD_LIBRARY_PATH": f"{EMULATED}:{PREFIX / 'lib'}", "EMULATED_CUDA_LEAKS": "fail", "EMULATED_CUDA_TWINS": twins, **settings}
    command = [ISTHMUS, "model", *options, MPIEXEC, "-n", ranks, BUILT / "apps" / application / application, *arguments]
    return suite.run(command, env=environment, timeout=100)


with suite.case("isthmus model counts what multigrid does, and predicts"):
    if "built without nvcc" in run(1, "multigrid", "--gpu").err:
        raise Skip("multigrid was built without nvcc")
    found = json.loads(suite.expect(model("--json", arguments=("--gpu", *MULTIGRID))).out)
    for parts in found["parts"]:
        # 26 exchanges of a V-cycle, each with 3 kernels and what comes behind it: 24 times the smoother, and one restriction and interpolation.
        assert (parts["exchanges"], parts["messages"], parts["launches"]) == (4 * 26, 4 * 26, 4 * (26 * 3 + 26)), parts
        assert parts["gpu_waits"] == 4 * 26 + 1, parts
        inside = sum(parts[key] for key in ("launch", "gpu_wait", "send", "wait", "collective"))
        assert 0 < inside <= parts["total"] and min(parts[key] for key in "abc") > 0, parts
    seconds = found["seconds"]
    assert seconds["kernel_best"] <= seconds["kernel_worst"] and seconds["stream"] >= seconds["graph"] > 0, seconds
with suite.case("it prints the program's output once, and its own behind it"):
    result = suite.expect(model(ranks=4, arguments=("--gpu", *MULTIGRID)), out=r"C1 .*\n.*C2 .*\n.*C3 ")
    assert result.out.count("library ") == 1, result
with suite.case("it draws a picture"):
    picture = suite.tmp / "model.svg"
    result = model("--picture", picture, arguments=("--gpu", *MULTIGRID), PATH=f"{VENV}/bin:{os.environ['PATH']}")
    suite.expect(result)
    text = picture.read_text()
    assert "graph" in text and "the GPU is idle" in text and "2 processes" in text, text[:2000]
for arguments, status, why in (
    (("--json", *MULTIGRID), 1, "has launched nothing on a GPU"),
    (("--box", "3"), 2, "expected a power of two"),
):
    with suite.case(f"isthmus model of multigrid {' '.join(arguments)}: {why}"):
        suite.expect(model(arguments=arguments), status=status, err=why)
with suite.case("isthmus model of a program without MPI says that nothing is left"):
    need_observer()
    suite.expect(suite.run([ISTHMUS, "model", "true"]), status=1, err="no process has left anything")
with suite.case("isthmus model without a command, and with a name that is no picture's"):
    suite.expect(suite.run([ISTHMUS, "model"]), status=2, err="needs a command")
    suite.expect(suite.run([ISTHMUS, "model", "--picture", "a.gif", "true"]), status=2, err="does not end in .svg")
suite.finish()
