# title: MPI programs with their data in GPU memory, on the emulated CUDA driver
# timeout: 900
# under: asan
# runs: mpi_abi gpu_allocation gpu_p2p gpu_coll gpu_hosts gpu_streams gpu_prepared gpu_several gpu_chares gpu_ways jacobi3d jacobi3d_chares bench_gpu bench_chare_data emulated_cuda emulated_kernels
# about: *gpu* *stream* src/kernels/* test/emulated/*
"""The programs of test/gpu check themselves and print nothing when all is right; the emulated driver reports what they leave open."""

import json
import os
import re
import shutil
import sys

sys.path.insert(0, "tools/dev")
from jobs import marked_processes, segments, shared_files, vanish
from suite import BUILT, PREFIX, VENV, Skip, Suite, ask_until

suite = Suite("gpu")
PROGRAMS = BUILT / "test/gpu"
EMULATED = BUILT / "test/emulated"
HAS_KERNELS = '"gpu_kernels":{"value":null' not in suite.run([PREFIX / "bin/isthmus", "info", "--json"]).out.replace(" ", "").replace("\n", "")


def run(program, ranks, before=(), options=(), **settings):
    environment = {
        "LD_LIBRARY_PATH": f"{EMULATED}:{PREFIX / 'lib'}",
        "EMULATED_CUDA_LEAKS": "fail",
        "EMULATED_CUDA_TWINS": str(EMULATED / "libemulated_kernels.so"),
        "EMULATED_GDR": "absent",
        **settings,
    }
    name, *more = [program] if isinstance(program, str) else program
    command = [PREFIX / "bin/mpiexec", *options, "-n", ranks, *before, PROGRAMS / name, *more]
    return suite.run(command, env=environment, timeout=120)


def once(why="the same code as in other cases"):
    """Left out under a sanitizer: unless told otherwise, since it takes half a minute there and runs no code that other cases do not."""
    if os.environ.get("DEV_SANITIZER"):
        raise Skip(why)


def quiet(result):
    suite.expect(result)
    # A library that was built without nvcc says once that it has no kernels.
    lines = [line for line in result.text.splitlines() if "built without nvcc" not in line or HAS_KERNELS]
    assert not lines, f"it printed something\n{result}"


with suite.case("chares: data that goes apart, between all kinds of memory, and state in a GPU that moves"):
    quiet(run("gpu_chares", 2))
    once()
    for settings in ({"ISTHMUS_GPU_PATH": "staged"}, {"ISTHMUS_GPU_PATH": "pull"}, {"ISTHMUS_IDLE": "sleep"}):
        quiet(run("gpu_chares", 2, **settings))

with suite.case("chares: GPU memory that has been freed is named"):
    result = run(["gpu_chares", "freed"], 2, EMULATED_CUDA_LEAKS="report")
    suite.expect(result, status=1, err=r"rank 0: 4000 bytes at 0x\w+ cannot be sent")

with suite.case("chares: the benchmark of data checks what comes, from GPU to GPU and by way of the hosts"):
    once()  # benchmarks are not built for sanitizers
    for words in ([], ["staged"]):
        environment = {"LD_LIBRARY_PATH": f"{EMULATED}:{PREFIX / 'lib'}", "EMULATED_CUDA_TWINS": str(EMULATED / "libemulated_kernels.so")}
        command = [PREFIX / "bin/mpiexec", "-n", 2, BUILT / "bench/bench_chare_data", "gpu", *words, 8, 65536]
        suite.expect(suite.run(command, env=environment, timeout=60), out="all data came as it was sent")

with suite.case("messages between all kinds of memory"):
    quiet(run("gpu_p2p", 2))

SEVERAL = ("--ranks-per-process", "2")
NO_COPIES = "copies of a program lie where AddressSanitizer has its shadow"

with suite.case("messages between all kinds of memory, of ranks of one process: none goes by way of the host"):
    once(NO_COPIES)
    for options in (SEVERAL, (*SEVERAL, "--workers-per-process", "2")):
        quiet(run(["gpu_p2p", "short"], 2, options=options))
    for program in ("gpu_local", "gpu_again"):
        quiet(run(program, 2, options=SEVERAL))

with suite.case("collectives of ranks of one process: no kernel waits for one that a rank in cuMemFree would have to launch"):
    once(NO_COPIES)
    for ranks, options in ((2, SEVERAL), (2, (*SEVERAL, "--workers-per-process", "2")), (4, SEVERAL), (4, ("--ranks-per-process", "4"))):
        quiet(run("gpu_coll", ranks, options=options))

# A process of the third number of ranks has one alone.
with suite.case("streams, enqueued operations and ports are refused where processes have several ranks, and messages go on"):
    once(NO_COPIES)
    for ranks, options in ((2, SEVERAL), (2, (*SEVERAL, "--workers-per-process", "2")), (3, SEVERAL), (4, ("--ranks-per-process", "4"))):
        quiet(run("gpu_several", ranks, options=options))
    # Without CUDA the sentence is the same: it is not the driver that is missing.
    suite.expect(run(["gpu_streams", "absent"], 2, options=SEVERAL), status=1, err="Start the job without --ranks-per-process")

with suite.case("programs of streams and of ports end with that sentence where processes have several ranks, and nobody waits for ever"):
    once(NO_COPIES)
    for program, what in ((["gpu_streams", "pingpong"], "enqueued operations are"), (["gpu_prepared", "put"], "ports of streams are"), (["gpu_device", "direct"], "ports of kernels are")):
        for workers in ((), ("--workers-per-process", "2")):
            result = run(program, 4, options=(*SEVERAL, *workers), EMULATED_CUDA_LEAKS="")
            assert result.status != 0 and f"{what} for processes of one rank" in result.err, result

with suite.case("explain tells that a rank which shares its process has no enqueued operations and no ports"):
    once(NO_COPIES)
    for program, options, tells in (("gpu_several", SEVERAL, True), (["gpu_streams", "tags"], (), False)):
        result = run(program, 2, options=options, ISTHMUS_EXPLAIN="full")
        suite.expect(result)
        assert ("no enqueued operations, no ports" in result.text) == tells, result

with suite.case("messages between all kinds of memory, where the kernel refuses process_vm_*"):
    quiet(run(["gpu_p2p", "short"], 2, ISTHMUS_CMA="off"))

for path, which in (("auto", ["message", "self"]), ("auto", ["many"]), ("push", ["message"]), ("pull", ["message"]), ("staged", ["message", "many"])):
    with suite.case(f"memory runs out at the n-th allocation of messages in GPU memory, for every n: {', '.join(which)}, {path}"):
        if path != "auto":
            once()
        result = run(["gpu_allocation", *which], 2, ISTHMUS_GPU_PATH=path, ISTHMUS_GPU_COURIER="on" if path == "auto" else "off")
        suite.expect(result)

def way_lessons(*words, plans="live", **settings):
    """What the receiver of test/gpu/gpu_ways.cpp has learned, and how many messages have come to it each way."""
    command = [PREFIX / "bin/isthmus", "explain", "--json", PREFIX / "bin/mpiexec", "-n", 2, "-x", f"ISTHMUS_PLANS={plans}", PROGRAMS / "gpu_ways", *words]
    environment = {"LD_LIBRARY_PATH": f"{EMULATED}:{PREFIX / 'lib'}", "EMULATED_CUDA_TWINS": str(EMULATED / "libemulated_kernels.so"), **settings}
    report = json.loads(suite.expect(suite.run(command, env=environment, timeout=120)).err.splitlines()[-1])
    rank = report["ranks"][1]
    counts = {way["protocol"]: way["received"]["messages"] for way in rank["peers"][0]["traffic"] if "GPU" in way["protocol"]}
    return rank["live_gpu"], counts


def moved_to(way, *words, **settings):
    """What it has learned, which is that way, and the counts."""
    lessons, counts = ask_until(4, lambda: way_lessons(*words, **settings), lambda told: [lesson["way"] for lesson in told[0]] == [way])
    return lessons[0], counts


MIB = 1 << 20

with suite.case("plans of GPU memory that measure themselves leave a job of ten messages as fixed plans have it"):
    lessons, counts = way_lessons("device", "device", MIB, 10)
    assert lessons == [] and counts == way_lessons("device", "device", MIB, 10, plans="fixed")[1], (lessons, counts)

with suite.case("when writes to another GPU become slow, its receiver reads, within a hundred messages, and tells what each way takes"):
    slowed = ["device", "device", MIB, 200, "READS_US", 0, 0, "WRITES_US", 20000]
    before = moved_to("push", *slowed[:4], EMULATED_CUDA_READS_US="20000")[0]
    lesson, counts = moved_to("pull", *slowed, 100, EMULATED_CUDA_READS_US="20000")
    assert before["assumed"] == "push", before
    assert (lesson["route"], lesson["assumed"], lesson["origin"], lesson["messages"]) == ("GPUs over NVLink", "push", "live", 300), lesson
    predicted = {way["way"]: way["predicted_us"] for way in lesson["ways"]}
    assert set(predicted) == {"push", "pull"} and predicted["push"] > 20000 > predicted["pull"], lesson

with suite.case("the same where they are slow from the start on, and the other way round"):
    moved_to("pull", "device", "device", MIB, 100, EMULATED_CUDA_WRITES_US="20000")
    moved_to("push", "device", "device", MIB, 100, EMULATED_CUDA_READS_US="20000")

with suite.case("where GPUs reach each other over PCIe, and slowly, messages go through memory of the host"):
    lesson, counts = moved_to("staged", "device", "device", MIB, 200, "WRITES_US", 20000, 0, "READS_US", 20000, 150, EMULATED_CUDA_LINKS="pcie")
    assert lesson["route"] == "GPUs over PCIe" and lesson["assumed"] == "push", lesson

with suite.case("messages that are under way together learn as well, and between pinned memory and a GPU"):
    lesson, _ = moved_to("pull", "window=8", "device", "device", MIB, 400, EMULATED_CUDA_WRITES_US="20000")
    assert lesson["several"], lesson
    lesson, _ = moved_to("staged", "pinned", "device", MIB, 200, EMULATED_CUDA_WRITES_US="20000")
    assert (lesson["route"], lesson["assumed"]) == ("pinned memory to a GPU", "push"), lesson

with suite.case("what has been set is never left, nor are fixed plans"):
    for settings in ({"plans": "fixed"}, {"ISTHMUS_GPU_PATH": "push"}, {"ISTHMUS_GPU_PUSH_FROM": "1"}):
        lessons, counts = way_lessons("device", "device", MIB, 120, **settings, EMULATED_CUDA_WRITES_US="20000")
        (count,) = [count for count in counts.values() if count]
        assert lessons == [] and count == 120, (settings, lessons, counts)

with suite.case("explain --full tells what ways of GPU memory take"):
    command = [PREFIX / "bin/isthmus", "explain", "--full", PREFIX / "bin/mpiexec", "-n", 2, PROGRAMS / "gpu_ways", "device", "device", MIB, 200]
    said = r"^    measured, GPUs over NVLink, one at a time:\n      from 1 MiB +(push|pull): [\d.]+ us .*; 200 messages$"
    environment = {"LD_LIBRARY_PATH": f"{EMULATED}:{PREFIX / 'lib'}"}
    suite.expect(ask_until(4, lambda: suite.run(command, env=environment, timeout=60), lambda result: re.search(said, result.err, re.MULTILINE)))

CHECK = {"EMULATED_CUDA_MEMORY": str(4 << 30)}
# What a default pool, and VMM memory without handles, cannot do is said once.
PRIVATE = r"(cannot be handed to another process|go by way of the host's memory|built without nvcc)"


def checked(groups, before=(), **settings):
    result = run(["gpu_check", "quick", *groups], 2, before, **CHECK, **settings)
    suite.expect(result)
    lines = [line for line in result.text.splitlines() if not re.search(PRIVATE, line)]
    assert not lines, f"it printed something\n{result}"


for group in ("matrix", "types", "flight", "calls", "coll", "again", "span", "threads", "streams", "bounce"):
    with suite.case(f"as programs from outside use it: {group}"):
        checked([group])

# Memory that CUDA moves while the kernel copies to it for another process: what is written is lost, each time.
MOVED = ("env", f"LD_PRELOAD={EMULATED / 'libemulated_moves.so'}")

for group in ("matrix", "flight", "coll"):
    with suite.case(f"no process copies from or to another's managed memory: {group}"):
        once()  # a sanitizer's library wants to be the first
        checked([group], MOVED)

for seed, group in (("1", "flight"), ("2", "calls"), ("3", "coll")):
    with suite.case(f"managed memory that moves between any two looks at it: {group}"):
        once()
        checked([group], MOVED, EMULATED_CUDA_MOVES=seed)

# Lines of explain.
BY_HOST = r"GPU memory, by way of the host's .*(sent|received) [1-9]"
BY_LIBRARY = r"GPU memory, by way of the library's .*sent [1-9]"

for limit, what in (("64M", "as shipped"), ("4M", "with 4 MiB to do it"), ("0", "with none")):
    with suite.case(f"memory that nobody can open goes by way of the library's, not the host's, {what}"):
        result = run(["gpu_check", "quick", "bounce"], 2, **CHECK, ISTHMUS_GPU_BOUNCE=limit, ISTHMUS_EXPLAIN="full")
        suite.expect(result)
        assert bool(re.search(BY_LIBRARY, result.text)) == (limit != "0"), result
        assert bool(re.search(BY_HOST, result.text)) == (limit == "0"), result
        assert ("cannot be handed to another process" in result.err) == (limit == "0"), result

for victim in ("sender", "receiver"):
    with suite.case(f"the {victim} is killed in the middle of a message of memory that nobody can open: the other goes on"):
        result = run(["gpu_window", victim], 2, options=("--on-failure", "continue"), EMULATED_CUDA_LEAKS="")
        assert f"the {victim}'s death: told" in result.out, result
        assert "isthmus: " not in result.err, result

with suite.case("memory that nobody can open, where GPUs do not reach each other: by way of the host's, and it says why"):
    result = run(["gpu_check", "quick", "bounce"], 2, **CHECK, EMULATED_CUDA_LINKS="none", ISTHMUS_EXPLAIN="full")
    suite.expect(result, err="go by way of the host's memory: .*has no peer access")
    assert re.search(BY_HOST, result.text) and not re.search(BY_LIBRARY, result.text), result
    assert not re.search(r"up to .* by way of the library's", result.text), f"it plans what has been refused\n{result}"

NO_BOX = ("env", "-u", "ISTHMUS_BOX")

with suite.case("messages between all kinds of memory, without a box for descriptors: they are fetched, where the kernel allows it"):
    quiet(run(["gpu_p2p", "short"], 2, NO_BOX))
    once()
    result = run(["gpu_p2p", "short"], 2, NO_BOX, ISTHMUS_CMA="off")
    suite.expect(result, err=r"go by way of the host's memory: the descriptor of its GPU memory cannot be had")

for path in ("pull", "push", "staged"):
    with suite.case(f"messages between all kinds of memory, {path} alone"):
        if path != "staged":
            once()
        quiet(run("gpu_p2p" if path == "staged" else ["gpu_p2p", "short"], 2, ISTHMUS_GPU_PATH=path))

for fault in ("short", "none", "lost"):
    with suite.case(f"messages through the host where pinned memory or a GPU fails: {fault}"):
        suite.expect(run(["gpu_faults", fault], 2, ISTHMUS_GPU_PATH="staged"), err="the CUDA driver refuses|failed before")

with suite.case("messages with gaps where the GPU has no memory left to pack them"):
    if not HAS_KERNELS:
        raise Skip("nothing is packed on the GPU without kernels")
    result = run(["gpu_faults", "memory"], 2)
    suite.expect(result, err="to pack a message: CUDA_ERROR_OUT_OF_MEMORY")

with suite.case("messages with gaps are read where they lie: the sender's GPU needs no memory to pack them"):
    if not HAS_KERNELS:
        raise Skip("built without kernels")
    quiet(run(["gpu_faults", "tight"], 2))

with suite.case("messages between a rank that uses CUDA and one that does not"):
    quiet(run(["gpu_faults", "mixed"], 2))

for path in ("push", "pull", "staged"):
    for victim in ("sender", "receiver"):
        with suite.case(f"a {victim} is killed in mid-copy, {path}: the other's copy outlives it, and nothing is left"):
            before = shared_files() | segments()
            result = run(["gpu_faults", victim], 2, ISTHMUS_GPU_PATH=path, MARK=f"gpu{os.getpid()}")
            suite.expect(result, status=137, err="killed by signal 9", within=20)
            # Whose GPU does not copy has nothing to finish, and goes with the job.
            copies = {"push": "receiver", "pull": "sender"}.get(path) == victim
            assert ("outlived" in result.err) == copies, result
            vanish(lambda: marked_processes(f"MARK=gpu{os.getpid()}"))
            assert shared_files() | segments() == before

for path in ("auto", "staged"):
    with suite.case(f"freed GPU memory, addresses without memory, too long messages: errors, and no end, {path}"):
        result = run("gpu_misuse", 2, ISTHMUS_GPU_PATH=path)
        suite.expect(result, err="there is no memory at 0x[0-9a-f]+, neither of this process nor of a GPU")
        suite.expect(result, err="the program has freed GPU memory that a message is still to be copied from or to")

with suite.case("messages and collectives while streams of the program are in capture"):
    quiet(run(["gpu_program", "capture"], 2))

with suite.case("a thread resets the device; and the program does, before MPI ends"):
    quiet(run(["gpu_program", "reset"], 2))

with suite.case("buffers in a CUDA context of the program's own"):
    result = run(["gpu_program", "context"], 2)
    suite.expect(result, err="a buffer lies in a CUDA context of the program's own")

ALONE = ["unshare", "--user", "--map-root-user", "--pid", "--ipc", "--net", "--mount", "--uts", "--fork", "--kill-child"]


def gpu_only(result):
    """What has a descriptor goes from GPU to GPU where cudaMalloc memory is refused."""
    suite.expect(result, err=r"both processes have the process id 1 in their pid namespaces")
    suite.expect(result, err=r"GPU memory, copied by the sender's GPU +sent [1-9]")


def need_namespaces():
    if suite.run([*ALONE, "true"], timeout=20).status != 0:
        raise Skip("unshare is refused here")


with suite.case("all namespaces private and both ranks process 1: memory with a descriptor goes from GPU to GPU"):
    need_namespaces()
    gpu_only(run(["gpu_p2p", "short"], 2, ALONE, EMULATED_CUDA_FOLDER=str(suite.tmp), ISTHMUS_EXPLAIN="full"))

with suite.case("the same where containers get the region, and its box, from a socket"):
    need_namespaces()
    once()
    options = ["--rendezvous", suite.tmp, "--container", " ".join(ALONE)]
    gpu_only(run("gpu_free", 2, options=options, EMULATED_CUDA_FOLDER=str(suite.tmp), ISTHMUS_EXPLAIN="full"))

# A launcher whose hosts are all this machine.
launcher = suite.tmp / "launcher"
launcher.write_text('#!/bin/sh\nexec sh -c "$2"\n')
launcher.chmod(0o755)
HOSTS = ["--launcher", launcher, "--hosts", "a,b"]

with suite.case("the same where ranks have met in a folder"):
    need_namespaces()
    once()
    gpu_only(run("gpu_free", 2, ALONE, HOSTS, EMULATED_CUDA_FOLDER=str(suite.tmp), ISTHMUS_EXPLAIN="full",
                 ISTHMUS_RENDEZVOUS_DIR=str(suite.tmp)))  # fmt: skip

CHUNKED = r"GPU memory to another host, in chunks +sent [1-9]"
AWAY = {"ISTHMUS_LOCALITY": "static", "ISTHMUS_NETWORK_EAGER_LIMIT": "1K"}


def need_network():
    if not (PREFIX / "lib/isthmus/libisthmus_network.so").exists():
        raise Skip("this build has no network")


with suite.case("messages between all kinds of memory, to another host: long ones of GPUs in chunks"):
    need_network()
    result = run(["gpu_p2p", "short"], 2, options=HOSTS, ISTHMUS_GPU_CHUNK="4K", ISTHMUS_EXPLAIN="full", **AWAY)
    suite.expect(result, err=CHUNKED)
    once()
    suite.expect(run(["gpu_p2p", "short"], 2, options=HOSTS, ISTHMUS_GPU_CHUNK="64K", ISTHMUS_IDLE="sleep", ISTHMUS_EXPLAIN="full", **AWAY), err=CHUNKED)

with suite.case("a GPU that fails between two chunks ends the message on both hosts with an error"):
    need_network()
    result = run(["gpu_faults", "lost"], 2, options=HOSTS, ISTHMUS_GPU_CHUNK="64K", **AWAY)
    suite.expect(result, err="failed before")

with suite.case("chunks from a GPU to a host that has none, and back, and where no memory can be pinned"):
    need_network()
    once()
    for fault in ("mixed", "none"):
        suite.expect(run(["gpu_faults", fault], 2, options=HOSTS, ISTHMUS_EXPLAIN="full", **AWAY), err="another host, in chunks +sent [1-9]")

with suite.case("messages that leave for a communicator which their receiver has revoked end at their sender"):
    quiet(run("gpu_revoked", 2))
    for path in ("push", "pull", "staged"):
        quiet(run("gpu_revoked", 2, ISTHMUS_GPU_PATH=path))

with suite.case("the same between hosts"):
    need_network()
    quiet(run("gpu_revoked", 2, options=HOSTS, **AWAY))

with suite.case("a message from memory of the host lands in a GPU's of another host a chunk at a time"):
    need_network()
    result = run(["gpu_lost", "slim"], 2, options=HOSTS, ISTHMUS_EXPLAIN="full", **AWAY)
    suite.expect(result, err="GPU memory to another host, in chunks +sent 0 messages, 0 bytes; received 2 messages")

with suite.case("a host is lost in the middle of messages in chunks: they end with MPI_ERR_PROC_ABORTED at both, and nothing is left"):
    need_network()
    suite.expect(run(["gpu_lost", "cut"], 2, options=HOSTS, ISTHMUS_GPU_CHUNK="64K", **AWAY), err="has lost rank")

for victim in ("sender", "receiver"):
    with suite.case(f"the {victim} of a message in chunks is killed: the job ends, and nothing is left"):
        need_network()
        before = shared_files() | segments()
        result = run(["gpu_lost", victim], 2, options=HOSTS, ISTHMUS_GPU_CHUNK="64K", MARK=f"lost{os.getpid()}", **AWAY)
        suite.expect(result, status=137, err="killed by signal 9", within=20)
        vanish(lambda: marked_processes(f"MARK=lost{os.getpid()}"))
        assert shared_files() | segments() == before


def pushed(mode):
    """How many messages of gpu_again the sender's GPU has copied."""
    result = run(["gpu_again", mode], 2, ISTHMUS_GPU_PATH="push", ISTHMUS_EXPLAIN="full")
    suite.expect(result)
    counted = re.findall(r"copied by the sender's GPU +sent \d+ messages, \d+ bytes; received (\d+)", result.err)
    return sum(map(int, counted)), result


with suite.case("memory that a peer has closed to open other is told anew, and goes from GPU to GPU again"):
    messages, result = pushed("evicted")
    assert messages == 319, f"{messages} of 320: but for the one from which it is seen\n{result}"

with suite.case("a sender that frees its buffer spoils no other message of the receiver's, and is warned of once"):
    messages, result = pushed("hindered")
    assert messages == 20, f"{messages} of 20\n{result}"
    assert result.err.count("could not copy a message from or to GPU memory") == 1, result

for path in ("auto", "push", "pull", "staged"):
    with suite.case(f"a device is reset: what is under way ends with errors, what comes later arrives, {path}"):
        suite.expect(run(["gpu_again", "reset"], 2, ISTHMUS_GPU_PATH=path, ISTHMUS_GPU_COURIER="on"), err="has reset GPU")

for path in ("auto", "push", "pull"):
    with suite.case(f"many messages in flight both ways: copies are started together, {path}"):
        result = run("gpu_window", 2, ISTHMUS_GPU_PATH=path, ISTHMUS_EXPLAIN="full")
        suite.expect(result, err=r"^ +[1-9]\d* copies started together with others")

with suite.case("many short messages in flight between GPU memory and memory of the host, or that cannot be handed on: copied together"):
    result = run(["gpu_window", "short"], 2, ISTHMUS_EXPLAIN="full")
    suite.expect(result, err=r"^ +[1-9]\d* copies started together with others")

with suite.case("threads help a rank to copy pageable memory"):
    quiet(run("gpu_p2p", 2, ISTHMUS_COPY_THREADS="2", ISTHMUS_GPU_PATH="staged", ISTHMUS_WARN="off"))
    quiet(run(["gpu_check", "quick", "matrix"], 2, **CHECK, ISTHMUS_COPY_THREADS="2"))

with suite.case("a buffer that is freed before its copy is started spoils no other message"):
    result = run(["gpu_window", "freed"], 2)
    suite.expect(result, err="the program has freed GPU memory that a message is still to be copied from or to")

UCX_WHEEL = next(VENV.glob("lib/python3*/site-packages/libucx/lib"), None)
UCX_WITH_CUDA = suite.tmp / "ucx"


def by_ucx(program, options=(), **settings):
    """With a UCX whose CUDA module runs on the emulated driver, and takes memory of its GPUs."""
    need_network()
    once()  # it is not ours to be watched
    if not UCX_WHEEL:
        raise Skip("the wheel of UCX with CUDA is not there (./dev setup test)")
    if not UCX_WITH_CUDA.exists():
        # Each file once, as systems install it: only so does it see allocations being made.
        for folder in (".", "ucx"):
            (UCX_WITH_CUDA / folder).mkdir(parents=True)
            for file in (UCX_WHEEL / folder).glob("*.so.0"):
                shutil.copy(file, UCX_WITH_CUDA / folder)
    folders = f"{UCX_WITH_CUDA}:{EMULATED}:{EMULATED / 'nvml'}:{PREFIX / 'lib'}"
    return run(program, 2, options=options, LD_LIBRARY_PATH=folders, ISTHMUS_EXPLAIN="full", **settings)


TAKEN, LOOPED = (rf"GPU memory, {how} +sent [1-9]" for how in ("taken by the network", "through the adapter"))

with suite.case("messages between all kinds of memory, to another host: a UCX with CUDA is handed those of GPUs"):
    result = by_ucx(["gpu_p2p", "short"], HOSTS, ISTHMUS_GPU_PATH="network", **AWAY)
    suite.expect(result, err=TAKEN)
    assert not re.search(CHUNKED, result.err), result

with suite.case("over TCP it is not, unless it is asked for"):
    result = by_ucx(["gpu_p2p", "short"], HOSTS, ISTHMUS_GPU_CHUNK="4K", **AWAY)
    suite.expect(result, err=CHUNKED)
    assert not re.search(TAKEN, result.err), result

with suite.case("messages between all kinds of memory on one host, through the network's adapter"):
    suite.expect(by_ucx(["gpu_p2p", "short"], ISTHMUS_GPU_PATH="network"), err=LOOPED)

for victim in ("sender", "receiver"):
    with suite.case(f"a {victim} is killed while the network has its memory, on another host and on this one"):
        mark = f"gpu{os.getpid()}"
        for options, settings in ((HOSTS, {"ISTHMUS_GPU_PATH": "network", **AWAY}), ((), {"ISTHMUS_GPU_PATH": "network"})):
            before = shared_files() | segments()
            result = by_ucx(["gpu_faults", victim], options, MARK=mark, **settings)
            # Between hosts the other rank may have heard of it before mpiexec has.
            expected = "killed by signal 9" if not options else "killed by signal 9|has lost rank"
            suite.expect(result, status=None if options else 137, err=expected, within=20)
            vanish(lambda: marked_processes(f"MARK={mark}"))
            assert shared_files() | segments() == before

with suite.case("a UCX without CUDA is handed none of it, and messages say why and arrive"):
    need_network()
    once()
    why = r"go by way of the host's memory: this UCX (is older than 1\.19|has no CUDA)"
    suite.expect(run(["gpu_p2p", "short"], 2, options=HOSTS, ISTHMUS_GPU_PATH="network", **AWAY), err=why)
    suite.expect(run(["gpu_p2p", "short"], 2, ISTHMUS_GPU_PATH="network"), err=why)


def by_courier(mode, **settings):
    """How many messages of gpu_short couriers have delivered, and how often one was sent out, of both ranks together."""
    result = run(["gpu_short", mode], 2, ISTHMUS_EXPLAIN="full", ISTHMUS_GPU_COURIER="on", **settings)
    suite.expect(result)
    counted = re.findall(r"GPU \d: (\d+) messages by courier, sent out (\d+) times, recalled (\d+) times", result.err)
    # This program has one message under way at a time, so that a recall gives one back.
    return sum(int(taken) - int(recalled) for taken, _, recalled in counted), sum(int(times) for _, times, _ in counted), result


NO_KERNELS = "a library without kernels has no couriers"

with suite.case("short messages by couriers, from and to any place"):
    if not HAS_KERNELS:
        raise Skip(NO_KERNELS)
    messages, times, result = by_courier("steady")
    assert messages > 0 < times and "by a courier" in result.err, result

with suite.case("couriers leave while the program does something else, and are sent out again"):
    if not HAS_KERNELS:
        raise Skip(NO_KERNELS)
    messages, times, result = by_courier("pauses")
    assert messages > 0 and times > 2, f"{messages} messages, sent out {times} times\n{result}"

with suite.case("a program that synchronises its device never waits for a courier for ever"):
    once()
    by_courier("sync")

with suite.case("short messages from and to memory that is freed and allocated anew"):
    by_courier("frees")

with suite.case("a receive of a short message whose buffer is freed before it comes is an error, and nothing else"):
    for gdr in ("absent", ""):
        result = run(["gpu_short", "gone"], 2, ISTHMUS_GPU_COURIER="on", EMULATED_GDR=gdr)
        suite.expect(result, err="the program has freed GPU memory that a message is still to be copied from or to")

with suite.case("short messages while streams are captured"):
    once()
    by_courier("captures")

with suite.case("two ranks on one GPU have no courier"):
    messages, _, result = by_courier("steady", EMULATED_CUDA_DEVICES="1")
    assert messages == 0, result

with suite.case("GPUs without NVLink between them have no courier"):
    once()
    messages, _, result = by_courier("steady", EMULATED_CUDA_LINKS="pcie")
    assert messages == 0, result

with suite.case("short messages where no courier finds room on its GPU: the copy engine does it"):
    once()
    _, _, result = by_courier("few", EMULATED_CUDA_DELAY_US="30000")
    suite.expect(result, err=r"recalled [1-9]\d* times because the GPU had no room")

with suite.case("short messages without kernels: as others"):
    messages, _, result = by_courier("steady", EMULATED_CUDA_TWINS="")
    assert messages == 0, result

with suite.case("ISTHMUS_GPU_COURIER=off: none"):
    once()
    result = run(["gpu_short", "steady"], 2, ISTHMUS_EXPLAIN="full", ISTHMUS_GPU_COURIER="off")
    suite.expect(result)
    assert "courier" not in result.err.replace("ISTHMUS_GPU_COURIER", ""), result

with suite.case("a rank is killed while couriers are out: the job ends"):
    result = run(["gpu_short", "killed"], 2, ISTHMUS_GPU_COURIER="on")
    suite.expect(result, status=137, err="rank 1")

with suite.case("a rank that ends without MPI_Finalize while a courier is out"):
    suite.expect(run(["gpu_short", "leaves"], 2, ISTHMUS_GPU_COURIER="on"), status=1, err="exited without MPI_Finalize")

with suite.case("short messages by the processor, where GDRCopy is"):
    result = run(["gpu_short", "steady"], 2, ISTHMUS_EXPLAIN="full", EMULATED_GDR="")
    suite.expect(result, err=r"by GDRCopy: [1-9]\d* messages loaded from GPU memory, [1-9]\d* stored there")

with suite.case("short messages by the processor, from and to memory that is freed and allocated anew"):
    result = run(["gpu_short", "frees"], 2, ISTHMUS_EXPLAIN="full", EMULATED_GDR="")
    suite.expect(result, err=r"by GDRCopy: [1-9]\d* messages loaded")

with suite.case("messages between all kinds of memory, where GDRCopy is"):
    quiet(run(["gpu_p2p", "short"], 2, EMULATED_GDR=""))

with suite.case("explain says why there is no GDRCopy"):
    once()
    result = run(["gpu_short", "steady"], 2, ISTHMUS_EXPLAIN="full")
    suite.expect(result, err="no GDRCopy: GDRCopy's kernel module gdrdrv is not loaded")

with suite.case("MPI_Alloc_mem and the kinds of memory"):
    kinds = ("--memory-alloc-kinds", "cuda:device:host,rocm,system")
    quiet(run("gpu_alloc", 2, options=kinds))

with suite.case("memory that is freed while a peer has it open: no descriptor stays open"):
    quiet(run("gpu_free", 2))

with suite.case("memory that is freed while a peer has it open, all namespaces private: no descriptor stays open, none stays in the box"):
    need_namespaces()
    result = run("gpu_free", 2, ALONE, EMULATED_CUDA_FOLDER=str(suite.tmp), ISTHMUS_GPU_PATH="pull")
    suite.expect(result, err="have the process id 1")
    suite.expect(run("gpu_free", 2, ALONE, EMULATED_CUDA_FOLDER=str(suite.tmp), ISTHMUS_GPU_PATH="staged"))

with suite.case("memory that is freed while a peer has it open to read"):
    quiet(run("gpu_free", 2, ISTHMUS_GPU_PATH="pull"))

with suite.case("messages between all kinds of memory, on one GPU"):
    once()
    quiet(run(["gpu_p2p", "short"], 2, EMULATED_CUDA_DEVICES="1"))

with suite.case("messages between all kinds of memory, where GPUs do not reach each other"):
    once()
    suite.expect(run(["gpu_p2p", "short"], 2, EMULATED_CUDA_LINKS="none"), err="go by way of the host's memory")

with suite.case("messages between all kinds of memory, sleeping"):
    once()
    quiet(run(["gpu_p2p", "short"], 2, ISTHMUS_IDLE="sleep"))


def seeing(of_each):
    """A rank's GPUs as it sees them, in its order."""
    chosen = " ".join(f"{rank}) see={devices};;" for rank, devices in enumerate(of_each))
    return ["sh", "-c", f'case $ISTHMUS_RANK in {chosen} esac; CUDA_VISIBLE_DEVICES=$see exec "$@"', "sh"]


with suite.case("messages between all kinds of memory, each rank with a GPU that the other does not see"):
    once()
    result = run(["gpu_p2p", "short"], 2, seeing(["0", "1"]))
    suite.expect(result, err="go by way of the host's memory: this process does not see the (sender|receiver)'s GPU")

with suite.case("messages and collectives go by the GPUs where each rank has them in another order"):
    # Of three GPUs, the two that are used reach each other; as numbers, they are 0 on one rank and 1 on the other.
    orders = seeing(["2,0,1", "0,1,2"])
    only = {"EMULATED_CUDA_DEVICES": "3", "EMULATED_CUDA_LINKS": "none,1-2:nvlink"}
    for program in ("gpu_p2p", "gpu_coll"):
        result = run([program, "short"], 2, orders, ISTHMUS_EXPLAIN="full", **only)
        assert "by way of the host's memory: " not in suite.expect(result).err, result
        suite.expect(result, err=r"copied by the sender's GPU +sent [1-9]" if program == "gpu_p2p" else None)

with suite.case("explain's summary says what helps against what was refused"):

    def helps(program, before=(), **settings):
        """Each refusal, and what helps."""
        text = suite.expect(run(program, 2, before, ISTHMUS_EXPLAIN="on", **settings)).err
        return dict(re.findall(r"refused: (.*)\n.*\n(?: +what helps: (.*)\n)?", text))

    def of(found, words):
        remedies = [remedy for what, remedy in found.items() if words in what]
        assert len(remedies) == 1, (words, found)
        return remedies[0]

    closed = helps(["gpu_check", "quick", "bounce"], **CHECK)
    assert of(closed, "as a device's default pool is").startswith("allocate from a pool that cudaMemPoolCreate has made"), closed
    assert of(closed, "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR").startswith("ask cuMemCreate for that handle type"), closed
    assert of(closed, "managed memory").startswith("send from and receive into memory of cudaMalloc"), closed
    apart = helps(["gpu_p2p", "short"], EMULATED_CUDA_LINKS="none")
    assert any("nvidia-smi topo -p2p r" in remedy for remedy in apart.values()), apart
    unseen = helps(["gpu_p2p", "short"], seeing(["0", "1"]))
    assert any("--gpu-bind closest:order" in remedy for remedy in unseen.values()), unseen
    no_handles = helps(["gpu_p2p", "short"], EMULATED_CUDA_REFUSE="ipc")
    assert of(no_handles, "make an IPC handle of cudaMalloc memory").startswith("allocate the buffer with MPI_Alloc_mem"), no_handles
    chosen = helps(["gpu_p2p", "short"], ISTHMUS_GPU_PATH="staged")
    assert of(chosen, "ISTHMUS_GPU_PATH wants another way") == "leave ISTHMUS_GPU_PATH at its default", chosen

with suite.case("packing and local reductions in all kinds of memory"):
    quiet(run("gpu_local", 1))

with suite.case("messages and local calls without kernels: as before, with one warning that says what they would bring"):
    for program, ranks in (("gpu_local", 1), (["gpu_p2p", "short"], 2)):
        result = run(program, ranks, EMULATED_CUDA_TWINS="", EMULATED_CUDA_DELAY_US="0")
        suite.expect(result, err=r"copied a block at a time, and the host computes reductions: .*kernels")
        assert len(result.text.splitlines()) == ranks, f"it said more\n{result}"

COUNTS = r"collectives with data in GPU memory: (\d+) between GPUs, (\d+) by way"
THROUGH_WINDOWS = r"(\d+) by way of the library's memory on GPUs"


def collectives(ranks, *which, before=(), **settings):
    """How many went between GPUs, and how many by way of the hosts, on the rank that has most of them."""
    result = run(["gpu_coll", *which], ranks, before, ISTHMUS_EXPLAIN="full", **settings)
    suite.expect(result)
    counted = [tuple(map(int, counts)) for counts in re.findall(COUNTS, result.err)]
    assert counted, f"explain does not tell of collectives\n{result}"
    return max(between for between, _ in counted), max(by_host for _, by_host in counted), result


for ranks in (1, 2, 5):
    with suite.case(f"collectives at {ranks}"):
        quiet(run("gpu_coll", ranks))

with suite.case("collectives at 3 go between GPUs, reductions too"):
    # What has gaps, an operation of its own, or lies in memory of the host has stand-ins; managed memory, too, which no other
    # process may copy.
    between, by_host, _ = collectives(3)
    assert between > (5 * by_host if HAS_KERNELS else by_host), f"{between} between GPUs, {by_host} by way of the host"

with suite.case("collectives of megabytes, whose shares members write to each other"):
    for ranks in (2, 4):
        quiet(run(["gpu_coll", "long"], ranks))

with suite.case("short collectives: kernels meet for them, by couriers and without; also where one rank's memory is a host's now and then"):
    if not HAS_KERNELS:
        raise Skip("there are none")
    for ranks, settings in ((2, {}), (2, {"ISTHMUS_GPU_COURIER": "on"}), (3, {"ISTHMUS_GPU_COURIER": "off"}), (4, {"ISTHMUS_GPU_COURIER": "on"})):
        _, _, result = collectives(ranks, "short", EMULATED_CUDA_DEVICES=str(ranks), **settings)
        by_courier = [int(count) for count in re.findall(r"(\d+) collectives by courier", result.err)]
        expected = settings.get("ISTHMUS_GPU_COURIER")
        assert len(by_courier) == (ranks if expected == "on" else 0 if expected == "off" else len(by_courier)), result
        assert expected != "on" or min(by_courier) > 50, result
    _, _, result = collectives(2, "short", ISTHMUS_COLLECTIVE_WAY="direct", ISTHMUS_GPU_COURIER="on")
    assert "collectives by courier" not in result.err, result

with suite.case("a GPU that fails in a short collective for which kernels meet: all ranks come back"):
    if not HAS_KERNELS:
        raise Skip("there are no kernels")
    suite.expect(run(["gpu_coll", "broken"], 2, ISTHMUS_GPU_COURIER="off", EMULATED_CUDA_LEAKS="report"))

with suite.case("collectives without kernels"):
    for ranks, which in ((2, []), (3, []), (3, ["long"])):
        between, by_host, _ = collectives(ranks, *which, EMULATED_CUDA_TWINS="")
        assert between > 0, "what only moves data needs none"

with suite.case("collectives with another kind of memory on each rank"):
    quiet(run(["gpu_coll", "mixed"], 3))

for which, ranks, settings in (("closed", 2, {}), ("closed", 4, {}), ("some", 3, {}), ("rounds", 2, {}), ("rounds", 3, {"ISTHMUS_GPU_BOUNCE": "4M"})):
    with suite.case(f"collectives of memory that nobody can open go by way of the library's, not the hosts': {which}, {ranks} ranks{', 4 MiB' * bool(settings)}"):
        # Short ones need no windows where kernels meet.
        between, by_host, result = collectives(ranks, which, ISTHMUS_COLLECTIVE_WAY="direct", **settings)
        through = [int(count) for count in re.findall(THROUGH_WINDOWS, result.err)]
        # What has gaps, or an operation of its own, has stand-ins.
        assert len(through) == ranks and min(through) > (50 if HAS_KERNELS else 25), result
        assert by_host < (between / 5 if HAS_KERNELS else between) and "by way of the host's memory" not in result.err, result

with suite.case("collectives of memory that nobody can open, with nothing to go through: stand-ins, and it says why"):
    between, by_host, result = collectives(2, "closed", ISTHMUS_GPU_BOUNCE="0", ISTHMUS_COLLECTIVE_WAY="direct")
    assert between < by_host / 5 and not re.search(THROUGH_WINDOWS, result.err), result
    assert "cannot be handed to another process" in result.err, result

with suite.case("short collectives of memory that nobody can open need nothing to go through where kernels meet"):
    if not HAS_KERNELS:
        raise Skip("there are no kernels")
    without, by_hosts, _ = collectives(2, "closed", ISTHMUS_GPU_BOUNCE="0", ISTHMUS_COLLECTIVE_WAY="direct")
    between, by_host, _ = collectives(2, "closed", ISTHMUS_GPU_BOUNCE="0")
    assert between > without + 30 and by_host < by_hosts - 30, (without, by_hosts, between, by_host)

with suite.case("a GPU that fails between two rounds through the library's memory is an error on all ranks, and nobody waits for ever"):
    if not HAS_KERNELS:
        raise Skip("nothing is reduced on the GPU without kernels")
    for ranks in (2, 3):
        suite.expect(run(["gpu_coll", "lost"], ranks, ISTHMUS_GPU_BOUNCE="4M"))

with suite.case("collectives of cudaMalloc memory, all namespaces private and all ranks process 1: by way of the library's"):
    need_namespaces()
    between, by_host, result = collectives(3, before=ALONE, EMULATED_CUDA_FOLDER=str(suite.tmp))
    assert re.search(THROUGH_WINDOWS, result.err) and between > by_host, result

with suite.case("a long broadcast where members reach the root's memory alone"):
    between, by_host, result = collectives(3, "rooted", before=ALONE)
    assert between > 0 == by_host, f"{between} between GPUs, {by_host} by way of the host\n{result}"

with suite.case("collectives with one rank that does not use CUDA"):
    between, by_host, result = collectives(3, "apart")
    assert between == 0 < by_host, f"{between} between GPUs, {by_host} by way of the host\n{result}"

with suite.case("collectives on one GPU after the other"):
    between, _, _ = collectives(2, "moving")
    assert between > 0

with suite.case("collectives of several ranks on one GPU"):
    once()
    quiet(run("gpu_coll", 3, EMULATED_CUDA_DEVICES="1"))

with suite.case("collectives where GPUs do not reach each other: all ranks use stand-ins, and say why"):
    between, by_host, result = collectives(3, EMULATED_CUDA_LINKS="none")
    assert between < by_host, f"{between} between GPUs, {by_host} by way of the host"
    assert "go by way of the host's memory" in result.err, result

with suite.case("collectives where nothing can be exported"):
    between, by_host, result = collectives(2, "moving", EMULATED_CUDA_REFUSE="ipc")
    # A gatherv or scatterv to whose root nobody else gives anything needs no export.
    assert between < by_host / 20 and "go by way of the host's memory" in result.err, result

with suite.case("collectives where the kernel refuses process_vm_*"):
    once()
    between, by_host, result = collectives(2, ISTHMUS_CMA="off")
    assert between > by_host / 2, f"no descriptor is fetched\n{result}"

with suite.case("collectives of memory with descriptors, all namespaces private and all ranks process 1"):
    need_namespaces()
    between, by_host, _ = collectives(3, "described", before=ALONE, EMULATED_CUDA_FOLDER=str(suite.tmp))
    assert between > by_host / 2, f"{between} between GPUs, {by_host} by way of the host"

with suite.case("collectives, sleeping"):
    once()
    quiet(run("gpu_coll", 3, ISTHMUS_IDLE="sleep"))

ACROSS = r"by way of the hosts' memory(?:, (\d+) across hosts)?"


def across(ranks, hosts, *which, before=(), **settings):
    """As `collectives`, of gpu_hosts on several hosts: how many went across hosts between GPUs, on the ranks that have least and most of them."""
    need_network()
    settings = {"ISTHMUS_GPU_CHUNK": "64K", **settings}
    result = run(["gpu_hosts", *which], ranks, before, options=["--launcher", launcher, "--hosts", hosts], ISTHMUS_EXPLAIN="full", **AWAY, **settings)
    suite.expect(result)
    counted = [int(count or 0) for count in re.findall(ACROSS, result.err)]
    assert counted, f"explain does not tell of collectives\n{result}"
    return min(counted), max(counted), result


for ranks, hosts in ((4, "a:2,b:2"), (7, "a:4,b:1,c:2"), (2, "a,b")):
    with suite.case(f"long collectives across hosts go between the GPUs of each, {hosts}"):
        if ranks == 7:
            once()
        least, _, result = across(ranks, hosts)
        assert least > (30 if HAS_KERNELS else 5), result

with suite.case("long collectives across hosts where each rank wants segments of another length"):
    once()
    differ = ("sh", "-c", 'ISTHMUS_GPU_CHUNK=$((20 + 16 * ISTHMUS_RANK))K exec "$@"', "sh")
    least, _, result = across(3, "a:2,b:1", before=differ)
    assert least > (30 if HAS_KERNELS else 5), result

with suite.case("long collectives across hosts of memory with descriptors, sleeping"):
    once()
    least, _, result = across(6, "a:2,b:2,c:2", "described", ISTHMUS_IDLE="sleep", ISTHMUS_GPU_CHUNK="1M")
    assert least > (60 if HAS_KERNELS else 20), result

with suite.case("long collectives across hosts where one rank does not use CUDA, or has its data on the host in turn, or gaps: stand-ins on all"):
    assert across(2, "a,b", "apart")[1] == 0
    assert across(3, "a:2,b:1", "gaps")[1] == 0
    least, most, result = across(4, "a:2,b:2", "turns")
    assert 0 < most < 100, result

with suite.case("long collectives across hosts where the GPUs of a host do not reach each other: by way of the hosts, and it is said why"):
    once()
    least, _, result = across(4, "a:2,b:2", EMULATED_CUDA_LINKS="none")
    assert least < 10 and "go by way of the host's memory" in result.err, result

with suite.case("long collectives across hosts where little memory can be pinned: stand-ins, and it is said why"):
    _, most, result = across(4, "a:2,b:2", EMULATED_CUDA_PINNED="200000")
    assert most == 0 and re.search("pinned for collectives|no pinned host memory", result.err), result

with suite.case("long collectives across hosts without kernels: what only moves data goes between GPUs"):
    once()
    least, most, result = across(4, "a:2,b:2", EMULATED_CUDA_TWINS="")
    assert 5 < least, result

with suite.case("a GPU that fails in the middle of a collective across hosts is an error on all ranks, and nobody waits for ever"):
    if not HAS_KERNELS:
        raise Skip("nothing is reduced on the GPU without kernels")
    least, _, _ = across(4, "a:2,b:2", "lost", ISTHMUS_GPU_CHUNK="4K")
    assert least > 0

STREAM_CASES = ("pingpong", "late", "memory", "tags", "collectives", "meetings", "in_place", "staging", "graph", "two", "freed", "short", "errors", "short_errors", "pending")


def streams(ranks, *cases, options=(), **settings):
    result = run(["gpu_streams", *cases], ranks, options=options, **settings)
    suite.expect(result)
    for case in cases if cases != ("all",) else STREAM_CASES:
        assert re.search(rf"^{case}: right", result.out, re.M), result
    others = [line for line in result.text.splitlines() if ": right" not in line and "built without nvcc" not in line]
    assert not others, f"it printed something\n{result}"
    return result


for case in STREAM_CASES:
    with suite.case(f"operations in the order of streams: {case}"):
        if case == "short_errors" and not HAS_KERNELS:
            raise Skip("without kernels no message has to be short")
        streams(2, case)

with suite.case("operations in the order of streams, at three ranks"):
    streams(3, "collectives", "meetings", "in_place", "graph", "two", "late", "short", "pending")

for seed in ("1", "2", "3"):
    with suite.case(f"operations in the order of streams, where what is independent is done in another order: {seed}"):
        if seed != "1":
            once()
        streams(3, "pingpong", "collectives", "meetings", "two", "short", EMULATED_CUDA_SHUFFLE=seed)

with suite.case("operations in the order of streams wait for room where what kernels do not reach takes all memory"):
    streams(2, "staging", EMULATED_CUDA_PINNED="40000000")

# Collectives of what the hosts see, which kernels that meet move: of others there are none between GPUs.
BETWEEN = r"collectives with data in GPU memory: (\d+) between GPUs"

with suite.case("collectives in the order of streams meet on the GPU, where GPUs reach each other"):
    result = run(["gpu_streams", "collectives"], 2, ISTHMUS_EXPLAIN="full")
    suite.expect(result, out="collectives: right")
    # 2 kinds of memory, 4 lengths, 8 operations.
    counts = [int(count) for count in re.findall(BETWEEN, result.text)]
    if HAS_KERNELS:
        assert counts == [64, 64], result

for settings in ({"EMULATED_CUDA_LINKS": "none"}, {"EMULATED_CUDA_TWINS": ""}, {"ISTHMUS_CHECK": "on"}):
    with suite.case(f"collectives in the order of streams by their threads: {settings}"):
        if settings != {"EMULATED_CUDA_LINKS": "none"}:
            once()
        result = run(["gpu_streams", "collectives", "meetings", "short"], 2, **settings)
        suite.expect(result, out="short: right")

with suite.case("operations in the order of streams, beside a progress thread"):
    streams(2, "all", ISTHMUS_PROGRESS="thread")

with suite.case("operations in the order of streams, where ranks sleep"):
    streams(2, "pingpong", "late", "graph", "two", ISTHMUS_IDLE="sleep")

with suite.case("operations in the order of streams, across hosts"):
    once()
    need_network()
    streams(2, "pingpong", "late", "collectives", "two", options=["--launcher", launcher, "--hosts", "a,b"], **AWAY)

with suite.case("a stream that is not freed is completed by MPI_Finalize"):
    streams(2, "leave", EMULATED_CUDA_LEAKS="")

with suite.case("a stream that waits for a process that dies goes on, and the error is told"):
    result = run(["gpu_streams", "lost"], 2, options=("--on-failure", "continue"), EMULATED_CUDA_LEAKS="report")
    assert "lost: right" in result.out, result

with suite.case("kernels that meet go on when a member dies, and when one revokes the communicator, and it is told"):
    if not HAS_KERNELS:
        raise Skip("none meet without kernels")
    result = run(["gpu_streams", "lost_meeting"], 2, options=("--on-failure", "continue"), EMULATED_CUDA_LEAKS="report")
    assert "lost: right" in result.out, result
    result = run(["gpu_streams", "revoked"], 2, options=("--on-failure", "continue"), EMULATED_CUDA_LEAKS="report")
    assert "revoked: right" in result.out, result

with suite.case("without memory operations of streams, or without CUDA, there is no stream, and it is said why"):
    quiet(run(["gpu_streams", "refused"], 1, EMULATED_CUDA_REFUSE="memops"))
    quiet(run(["gpu_streams", "absent"], 1))

PREPARED = ("put", "now", "words", "pressure", "batch", "graph", "errors", "cancel", "pinned", "both", "many", "behind", "parting", "streams")


def prepared(words, **options):
    result = run(["gpu_prepared", *words], 2, **options)
    suite.expect(result, out=rf"^{words[-1]}: right$")
    others = [line for line in result.text.splitlines() if ": right" not in line and "built without nvcc" not in line]
    assert not others, f"it printed something\n{result}"


for case in PREPARED:
    with suite.case(f"prepared puts and gets, and waits for words, by streams alone: {case}"):
        prepared([case])

with suite.case("prepared puts and gets to another host: a proxy carries them, words and all"):
    need_network()
    for case in PREPARED if not os.environ.get("DEV_SANITIZER") else ("put", "graph", "pinned", "parting"):
        prepared(["carried", case], options=HOSTS, ISTHMUS_LOCALITY="static")

for refused, settings in (("GPUs with no link", {"EMULATED_CUDA_LINKS": "none"}), ("memory that the driver does not open", {"EMULATED_CUDA_REFUSE": "ipc"})):
    with suite.case(f"a proxy carries prepared puts and gets between {refused}"):
        once()
        prepared(["carried", "now", "batch", "graph", "both", "behind", "pinned", "streams"], **settings)

with suite.case("streams that wait for what a dead process's proxy would bring go on, and the next call tells it"):
    for options, settings in (((), {"EMULATED_CUDA_LINKS": "none"}), (HOSTS, {"ISTHMUS_LOCALITY": "static"})):
        if options:
            need_network()
        result = run(["gpu_prepared", "carried", "lost"], 2, options=(*options, "--on-failure", "continue"), EMULATED_CUDA_LEAKS="report", **settings)
        assert "lost: right" in result.out, result

with suite.case("a proxy that fails is told to all processes of the port, and no stream waits"):
    result = run(["gpu_prepared", "carried", "broken"], 2, EMULATED_CUDA_LINKS="none", EMULATED_CUDA_LEAKS="report")
    assert "broken: right" in result.out, result

with suite.case("MPI_Finalize lets streams go that wait by a port that was not freed, and what was put comes before"):
    for settings in ({}, {"EMULATED_CUDA_LINKS": "none"}):
        result = run(["gpu_prepared", *(("carried",) if settings else ()), "leave"], 2, EMULATED_CUDA_LEAKS="report", **settings)
        assert "leave: right" in result.out, result

for settings in ({"EMULATED_CUDA_TWINS": ""}, {"EMULATED_CUDA_SHUFFLE": "5"}):
    with suite.case(f"prepared puts and gets, by copy engines alone and in another order: {settings}"):
        suite.expect(run(["gpu_prepared", "put", "now", "batch", "graph", "streams"], 2, **settings), out="streams: right")

with suite.case("prepared puts, by two ranks of one GPU"):
    suite.expect(run(["gpu_prepared", "put", "graph", "streams"], 2, EMULATED_CUDA_DEVICES="1"), out="streams: right")

with suite.case("streams that wait for words of a process that dies go on, and the next call tells it"):
    result = run(["gpu_prepared", "lost"], 2, options=("--on-failure", "continue"), EMULATED_CUDA_LEAKS="report")
    assert "lost: right" in result.out, result

with suite.case("the ping-pong of prepared puts tells its times"):
    suite.expect(run(["gpu_prepared", "pingpong"], 2), out=r"pingpong 8 B, words of streams: [\d.]+ us one way")

with suite.case("explain tells the plan of each pair of memories, as it acts, and why ways are left out"):

    def peer_of(program, **settings):
        report = json.loads(run(program, 2, ISTHMUS_EXPLAIN="json", **settings).err.splitlines()[-1])
        return next(peer for peer in report["ranks"][0]["peers"] if peer["rank"] == 1)

    def plan(source, target):
        found = [one for one in peer["gpu_plans"] if source in one["from"] and target in one["to"]]
        assert len(found) == 1, (source, target, peer["gpu_plans"])
        return [step["way"] for step in found[0]["steps"]], {one["way"]: one["why"] for one in found[0]["refused"]}

    push, pull, staged, courier = (
        f"GPU memory, {way}" for way in ("copied by the sender's GPU", "copied by the receiver's GPU", "by way of the host's", "by a courier")
    )
    peer = peer_of(["gpu_p2p", "short"])
    assert peer["gpu_locality"] == "GPUs over NVLink", peer
    device, managed = "device memory", "managed memory"
    assert plan(device, device) == ([push], {}), plan(device, device)
    assert plan(device, managed)[0] == [pull] and "managed" in plan(device, managed)[1][push], plan(device, managed)
    ways, refused = plan(device, "pageable host memory")  # the last messages were not of a latency-bound program
    assert ways == [staged] and "several messages are under way" in refused[pull], (ways, refused)
    assert plan("pinned host memory", "VMM memory")[0] == ["eager", push], plan("pinned host memory", "VMM memory")
    peer = peer_of(["gpu_p2p", "short"], ISTHMUS_GPU_COURIER="on")
    assert plan(device, device)[0] == ([courier, push] if HAS_KERNELS else [push]), plan(device, device)
    assert courier not in plan(device, managed)[0], plan(device, managed)

with suite.case("explain tells how GPU memory went"):
    once()
    result = run(["gpu_p2p", "short"], 2, ISTHMUS_EXPLAIN="full")
    for path in ("copied by the sender's GPU", "copied by the receiver's GPU", "by way of the host's"):
        suite.expect(result, err=rf"GPU memory, {path} +sent [1-9]")


with suite.case("a trace has lines for what GPUs carry, and what overlaps is on different ones"):
    once()
    file = suite.tmp / "trace.json"
    environment = {"LD_LIBRARY_PATH": f"{EMULATED}:{PREFIX / 'lib'}", "EMULATED_CUDA_TWINS": str(EMULATED / "libemulated_kernels.so")}
    suite.expect(suite.run([PREFIX / "bin/isthmus", "trace", "-o", file, PREFIX / "bin/mpiexec", "-n", 2, PROGRAMS / "gpu_p2p", "short"], env=environment, timeout=120))
    events = json.loads(file.read_text())["traceEvents"]
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    copies = [event for event in events if event.get("cat") == "gpu"]
    assert {event["args"]["way"] for event in copies} >= {"GPU memory, copied by the sender's GPU", "GPU memory, copied by the receiver's GPU"}, copies[:3]
    lines = {}
    for event in copies:
        assert names[event["pid"], event["tid"]].startswith(("copies by GPUs", "couriers")), event
        lines.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in lines.values():
        spans.sort()
        assert all(before[1] <= after[0] + 0.0015 for before, after in zip(spans, spans[1:])), spans


def solve(halo, options=(), **settings):
    environment = {"LD_LIBRARY_PATH": f"{EMULATED}:{PREFIX / 'lib'}", "EMULATED_CUDA_LEAKS": "fail", **settings}
    command = [PREFIX / "bin/mpiexec", *options, "-n", 2, BUILT / "apps/jacobi3d/jacobi3d", "-n", 24, "-q", *halo]
    return suite.run(command, env=environment, timeout=60)


def answer_of(result):
    """The same for each form that has run."""
    return frozenset(line for line in result.out.splitlines() if "residual" in line or " error " in line)


both = f"{EMULATED / 'libemulated_jacobi3d.so'}:{EMULATED / 'libemulated_kernels.so'}"
with suite.case("jacobi3d on GPUs has the host's answer, from GPU to GPU and by way of the hosts"):
    probe = solve(["--gpu"], EMULATED_CUDA_TWINS=str(EMULATED / "libemulated_jacobi3d.so"))
    if "built without nvcc" in probe.err:
        raise Skip("jacobi3d was built without nvcc")
    answers = set()
    packed = ["--gpu", "--halo", "pack"]
    enqueued = [*packed, "--form", "stream"]
    for halo in ([], ["--gpu"], packed, ["--gpu", "--halo", "staged"], enqueued, [*enqueued, "--by", "mpi"], [*packed, "--form", "kernel"]):
        result = solve(halo, EMULATED_CUDA_TWINS=both)
        suite.expect(result, out="correct")
        answers.add(answer_of(result))
    for halo in (["--gpu"], packed, ["--gpu", "--halo", "staged"]) if not os.environ.get("DEV_SANITIZER") else ():  # NO_COPIES
        result = solve(halo, SEVERAL, EMULATED_CUDA_TWINS=both)
        suite.expect(result, out="correct")
        answers.add(answer_of(result))
    assert len(answers) == 1, answers

    for words in ([], ["--carrier", "mailbox"], ["--parts", "8"], ["--parts", "8", "--carrier", "mailbox"]):
        for halo in ("pack", "staged"):
            chares = BUILT / "apps/jacobi3d_chares/jacobi3d_chares"
            environment = {"LD_LIBRARY_PATH": f"{EMULATED}:{PREFIX / 'lib'}", "EMULATED_CUDA_LEAKS": "fail", "EMULATED_CUDA_TWINS": both}
            command = [PREFIX / "bin/mpiexec", "-n", 2, chares, *words, "-n", 24, "-q", "--gpu", "--halo", halo]
            result = suite.expect(suite.run(command, env=environment, timeout=60), out="correct")
            answers.add(answer_of(result))
    assert len(answers) == 1, answers

with suite.case("jacobi3d says what --gpu and --halo want of each other, and where there is no GPU"):
    suite.expect(solve(["--halo", "staged"]), status=2, err="--halo staged needs --gpu")
    for form in ("stream", "kernel"):
        suite.expect(solve(["--gpu", "--form", form]), status=2, err=f"--form {form} needs --gpu and --halo pack")
    result = solve(["--gpu"], EMULATED_CUDA_DEVICES="0")
    suite.expect(result, status=1, err="jacobi3d: (there is no GPU here|the GPU cannot)")

with suite.case("the benchmark of GPU memory checks contents and reports every way"):
    if os.environ.get("DEV_SANITIZER"):
        raise Skip("benchmarks are not built for sanitizers")
    points = ["host.8B", "pingpong.8B", "latency.8B", "synchronised.8B", "pingpong-vmm.4KiB", "window.4KiB", "window-both.4KiB", "first.4KiB", "vector.1KiB",
              "pinned-device.4KiB", "pageable-device.4KiB", "allreduce.4KiB", "bcast.4KiB", "allgather.4KiB", "allgatherv.4KiB", "alltoall.4KiB",
              "alltoall-in-place.4KiB", "alltoallv.4KiB", "scan.4KiB"]  # fmt: skip
    environment = {"LD_LIBRARY_PATH": f"{EMULATED}:{PREFIX / 'lib'}", "EMULATED_CUDA_LEAKS": "fail"}
    program = BUILT / "bench/bench_gpu"
    result = suite.run([PREFIX / "bin/mpiexec", "-n", 2, program, "--no-nccl", "--seconds", "0.001", "--rounds", 1, *points],
                       env=environment, timeout=60)  # fmt: skip
    suite.expect(result)
    missing = [point for point in points if f'"point": "{point}", "way": "mpi"' not in result.out]
    assert not missing and "failure" not in result.out, f"nothing of {missing}\n{result}"

with suite.case("a process with pinned memory alone bounces on GPUs where cudaMalloc memory is refused"):
    if os.environ.get("DEV_SANITIZER"):
        raise Skip("benchmarks are not built for sanitizers")
    need_namespaces()
    result = suite.run([PREFIX / "bin/mpiexec", "-n", 2, *ALONE, BUILT / "bench/bench_gpu", "--no-nccl", "--seconds", "0.001", "--rounds", 1, "pinned-device.1MiB"],
                       env={"LD_LIBRARY_PATH": f"{EMULATED}:{PREFIX / 'lib'}", "EMULATED_CUDA_FOLDER": str(suite.tmp), "ISTHMUS_EXPLAIN": "full"}, timeout=60)  # fmt: skip
    suite.expect(result, err=r"GPU memory, by way of the library's +sent [1-9]")
    assert "isthmus: rank" not in result.err, f"it warns\n{result}"

with suite.case("./dev bench gpu says what it lacks"):
    bench = ["python3", "tools/bench/gpu.py"]
    suite.expect(suite.run([*bench, "--gpus", "0"]), status=1, err="needs two GPUs")
    suite.expect(suite.run([*bench, "--only", "nonsense"]), status=1, err="no such point")
    suite.expect(suite.run([*bench, "--list"]), out=r"allreduce.64MiB@4 .* <= 1.11111 x nccl")

suite.finish()
