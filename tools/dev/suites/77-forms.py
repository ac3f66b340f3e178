# title: applications on GPUs, synchronous, enqueued, in graphs: the right answer, the same bits in each form, on the emulated driver
# timeout: 300
# under: asan
# runs: mpi_abi multigrid emulated_cuda emulated_kernels emulated_multigrid molecular emulated_molecular breadth_first emulated_breadth_first jacobi3d emulated_jacobi3d isthmus isthmus_observer
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
with suite.case("multigrid: streams and kernels that do not reach each other send by a proxy"):
    on_gpu(4, "multigrid", *MULTIGRID, "--form", "stream,graph,kernel", **APART)
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
with suite.case("molecular: streams and kernels that do not reach each other send by a proxy"):
    on_gpu(4, "molecular", *MOLECULAR, "--form", "stream,graph,kernel", **APART)
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
for application, arguments in (
    ("multigrid", MULTIGRID),
    ("molecular", MOLECULAR),
    ("breadth_first", ("--scale", "9", "--repeats", "1", "--ahead", "3")),
    ("jacobi3d", ("--halo", "pack", "-n", "5", "--iterations", "20", "--tolerance", "0")),
):
    for name, settings in (("", {}), (", by a proxy", APART)):
        with suite.case(f"{application}: the blocks of one kernel are held up here and there{name}: the right answer"):
            on_gpu(4, application, *arguments, "--form", "kernel", EMULATED_CUDA_SHUFFLE="1", **settings)
with suite.case("breadth_first --form graph: said once, with status 2"):
    suite.expect(run(2, "breadth_first", "--form", "graph"), status=2, err=r"graph not in \{sync,stream,kernel\}")

JACOBI = ("--halo", "pack")
for ranks, arguments, settings in (
    (1, ("-n", "12"), {}),
    (2, ("-n", "12"), {}),
    (2, ("-n", "7", "--residual-every", "50"), {}),  # more iterations than one kernel does
    (4, ("-n", "5", "--grid", "1x1x4"), {}),  # one layer of points is a process's lower face and its upper one
    (8, ("-n", "9"), {}),
    (4, ("-n", "9"), APART),  # by a proxy
    (2, ("-n", "9"), {"EMULATED_CUDA_DEVICES": "1"}),
):
    for way in ("prepared", "mpi") if ranks in (2, 8) else ("prepared",):
        with suite.case(f"jacobi3d on {ranks} GPUs in each form, {' '.join(arguments)}, by {way}{', ' if settings else ''}{' '.join(settings)}: the same bits"):
            found = on_gpu(ranks, "jacobi3d", *JACOBI, *arguments, "--form", "stream,kernel", "--by", way, **settings)
            assert list(found) == ["sync", "stream", "kernel"] and all(form["same_bits"] for form in found.values()), found
            for form in found.values():
                assert (form["iterations"], form["error"]) == (found["sync"]["iterations"], found["sync"]["error"]), found
                assert 0 < form["step_seconds"] and 0 <= form["halo_percent"] < 100 and 0 < form["allreduce_percent"] < 100, form
for form, slow in (
    ("kernel", {**APART, "EMULATED_CUDA_HOST_US": "5000"}),  # a proxy copies each face to the host
    ("stream", {"EMULATED_CUDA_DELAY_US": "1000"}),  # each piece of work waits: five of an iteration, and one without the exchange
):
    with suite.case(f"jacobi3d --form {form}: what exchanges take is told, by what is left without them"):
        forms = on_gpu(2, "jacobi3d", *JACOBI, "-n", "6", "--iterations", "40", "--tolerance", "0", "--form", form, **slow)
        assert forms[form]["halo_percent"] > 50 and forms[form]["step_seconds"] > 0.004, forms
with suite.case("jacobi3d: with one process there is nothing to exchange"):
    result = suite.expect(run(1, "jacobi3d", "--gpu", *JACOBI, "-n", "12", "-q", "--form", "kernel"), out=r"form +kernel\n(.*\n)*.*the same bits as sync: correct\n.*gained on sync\n  halo +\d")
    assert result.out.count("form  ") == 2, result
with suite.case("jacobi3d --check holds each form against a coarser grid"):
    forms = on_gpu(2, "jacobi3d", *JACOBI, "-n", "24", "--check", "--form", "kernel")
    assert forms["kernel"]["order"] == forms["sync"]["order"] and 1.8 < forms["sync"]["order"] < 2.3, forms
with suite.case("jacobi3d --form graph, whose weights would be those of the capture: said once, with status 2"):
    suite.expect(run(2, "jacobi3d", "--form", "graph"), status=2, err=r"graph not in \{sync,stream,kernel\}")

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
        assert 0 < inside <= parts["total"] and min(parts[key]["seconds"] for key in "abc") > 0, parts
        # Faces are packed before messages are sent, layers filled from this process's own boxes meanwhile.
        assert [parts[key]["pieces"] for key in "abc"] == [4 * 26, 4 * 26, 4 * 2 * 26], parts
    seconds = found["seconds"]
    assert seconds["kernel_best"] <= seconds["kernel_worst"] and seconds["stream"] >= seconds["graph"] > 0, seconds
with suite.case("isthmus model counts what jacobi3d does, all but its first iteration, and predicts"):
    if "built without nvcc" in run(1, "jacobi3d", "--gpu").err:
        raise Skip("jacobi3d was built without nvcc")
    words = ("--gpu", "--json", *JACOBI, "-n", "10", "--tolerance", "0", "--iterations", "40")
    found = json.loads(suite.expect(model("--json", application="jacobi3d", arguments=words)).out)
    for parts in found["parts"]:
        # Of an iteration: faces are packed and unpacked, and a sweep; four of them clear and copy the largest change.
        assert (parts["exchanges"], parts["messages"], parts["launches"], parts["gpu_waits"]) == (40, 40, 40 * 3 + 4 * 2, 40 * 3), parts
        assert [parts[key]["pieces"] for key in "abc"] == [40, 0, 88] and parts["a"]["seconds"] > 0 < parts["collective"], parts
    seconds = found["seconds"]
    assert 0 < seconds["kernel_best"] <= seconds["kernel_worst"] and seconds["stream"] >= seconds["graph"] > 0, seconds
    assert seconds["c3"]["fragments"] == 128 / 160, seconds


def slowed(**settings):
    """What is predicted of jacobi3d where parts of the emulated GPU are slow, in seconds; and the launches of a process."""
    words = ("--gpu", "--json", *JACOBI, "-n", "6", "--tolerance", "0", "--iterations", "20")
    found = json.loads(suite.expect(model("--json", application="jacobi3d", arguments=words, **settings)).out)
    assert found["why_no_kernel"] is None, found
    return found["seconds"], found["parts"][0]["launches"]


with suite.case("isthmus model: where launches in a stream are slow, streams are, and neither graphs nor kernels"):
    seconds, launches = slowed(EMULATED_CUDA_DELAY_US="5000")
    assert seconds["stream"] > 0.9 * launches * 0.005 and max(seconds["graph"], seconds["kernel_worst"]) < seconds["stream"] / 2, seconds
with suite.case("isthmus model: what starts slowly by itself is as fast in a row, and slow once in each exchange"):
    seconds, launches = slowed(EMULATED_CUDA_DELAY_US="0", EMULATED_CUDA_START_US="5000")
    # Of an exchange: what sends, which is timed behind a gate. A kernel waits, and the one behind it is in a row. In the run that times them, each
    # launch starts by itself.
    assert 0.9 * 20 * 0.005 < min(seconds["stream_gpu"], seconds["graph_gpu"]) and seconds["kernel_worst"] < launches * 0.005 / 2, seconds
    assert seconds["stream_gpu"] < 0.8 * (launches + 20) * 0.005, seconds
with suite.case("isthmus model: where pieces of a graph are slow, graphs are, and neither streams nor kernels"):
    seconds, launches = slowed(EMULATED_CUDA_DELAY_US="0", EMULATED_CUDA_GRAPH_US="5000")
    assert seconds["graph"] > 0.9 * launches * 0.005 and max(seconds["stream"], seconds["kernel_worst"]) < seconds["graph"] / 2, seconds
with suite.case("isthmus model: where kernels are slow, all forms are"):
    seconds, launches = slowed(EMULATED_CUDA_DELAY_US="0", EMULATED_CUDA_KERNEL_US="5000")
    kernels = 3 * 20 * 0.005  # the other launches clear and copy
    assert min(seconds[form] for form in ("stream", "graph", "kernel_worst")) > 0.9 * kernels, seconds
    assert seconds["kernel_best"] > 0.9 * kernels * 2 / 3, seconds  # a third, those before messages, can go on beside others
with suite.case("isthmus model: where streams do not reach a peer's memory, nothing is predicted, and it says why"):
    suite.expect(model(arguments=("--gpu", *MULTIGRID), **APART), status=1, out=r"nothing is predicted: no stream reaches what rank \d shares, a proxy carries it: .*no peer access")
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
