# title: which ways messages took, on a screen, whole, as JSON and as a picture: isthmus explain
# timeout: 120
# about: src/p2p/explain/* src/p2p/protocol/* src/route/* tools/isthmus/explain/* tools/isthmus/child*
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, "tools/dev")
from suite import PREFIX, VENV, Suite

suite = Suite("explain")
MPIEXEC, ISTHMUS = PREFIX / "bin/mpiexec", PREFIX / "bin/isthmus"
SCREEN = 24  # lines
LONG = 1 << 20
AWAY = 2000  # ms that the program is not in MPI while a message is under way
PROGRAM = suite.tmp / "ring"
SOURCE = suite.tmp / "ring.c"
SOURCE.write_text(f"""
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>
static char out[{LONG}], in[{LONG}];
int main(int argc, char** argv) {{
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int sizes[4] = {{8, 8, 8, argc > 2 ? 8 : {LONG}}};
  for (int i = 0; i < 4; ++i)
    MPI_Sendrecv(out, sizes[i], MPI_BYTE, (rank + 1) % size, 0, in, sizes[i], MPI_BYTE, (rank + size - 1) % size, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (argc > 2) {{
    MPI_Request request;
    if (rank == 1) MPI_Isend(out, {LONG}, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
    if (rank == 1) MPI_Send(out, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    if (rank == 0) {{
      MPI_Recv(in, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Irecv(in, {LONG}, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
      usleep({AWAY} * 1000);
    }}
    if (rank < 2) MPI_Wait(&request, MPI_STATUS_IGNORE);
  }}
  MPI_Finalize();
  return argc > 1 ? atoi(argv[1]) : 0;
}}
""")
suite.expect(suite.run([PREFIX / "bin/mpicc", SOURCE, "-o", PROGRAM]))
# Two hosts that are this machine, and share nothing.
HOSTS = ["--launcher", "sh -c 'exec sh -c \"$1\"'", "--head-address", "127.0.0.1", "-x", "ISTHMUS_LOCALITY=static"]
APART = ["--container", "unshare -p -f --mount-proc"]
DRAWING = {"PATH": f"{VENV}/bin:{os.environ['PATH']}"}


def explain(*options, ranks=2, launch=(), words=(), **environment):
    command = [ISTHMUS, "explain", *options, "mpiexec", "-n", ranks, *launch, PROGRAM, *words]
    return suite.run(command, timeout=60, env=environment)


def on_screen(result):
    lines = result.err.splitlines()
    assert lines[0].startswith("isthmus explain: ") and len(lines) <= SCREEN, result.err
    return result.err


with suite.case("the summary counts what was sent, says how pairs go, and fits on a screen"):
    for ranks in (2, 16):
        text = on_screen(explain(ranks=ranks))
        assert re.search(rf"all ranks together: {ranks * 4} messages, {ranks}.0 MiB, under way for \S+ [mu]?s$", text, re.M), text
        assert re.search(r"^ +eager, in one cache line +75.0 % of messages, +0.0 % of bytes", text, re.M), text
        pairs = "between both ranks" if ranks == 2 else "between any two of all 16 ranks"
        assert f"    {pairs}\n      up to 32 B" in text and text.count("up to any size") == 1, text

with suite.case("it names refusals, what they cost, and what helps"):
    text = on_screen(explain(ISTHMUS_CMA="off"))
    assert "setting ISTHMUS_CMA = off (environment)" in text, text
    assert "refused: reading the peer's memory: switched off by ISTHMUS_CMA=off\n      between both ranks; 2.0 MiB went a slower way\n" in text, text
    assert "      what helps: leave ISTHMUS_CMA at its default\n" in text, text
    assert "refused" not in explain().err

with suite.case("the time on each way: measured of long messages, estimated of those that come with their envelope"):
    for options in ((), ("--picture", suite.tmp / "times.svg")):
        text = on_screen(explain(*options, ISTHMUS_CMA="off", ISTHMUS_MAPPING="off", **DRAWING))
        (ring,) = re.findall(r"pipelined through the ring .* (\d+\.\d) % of time \(\S+ [mu]?s\)$", text, re.M)
        (short,) = re.findall(r"in one cache line .* (\d+\.\d) % of time \(\S+ [mun]?s, estimated\)$", text, re.M)
        assert 99.5 < float(ring) + float(short) < 100.5, text
    job = json.loads(explain("--json").err)
    assert {each["way"] for each in job["estimates"]} == {"eager, in one cache line", "eager"}, job["estimates"]
    assert all(each["us"] > 0 for each in job["estimates"]), job["estimates"]
    long = [each for peer in job["ranks"][0]["peers"] for each in peer["traffic"] if each["received"]["bytes"] == LONG]
    assert [0 < each["received"]["under_way_us"] < 1e6 for each in long] == [True], long
    assert "under way for" in explain("--full").err

with suite.case("what a rank does between the calls is no time of a way"):
    text = on_screen(explain(words=[0, "away"], ISTHMUS_CMA="off", ISTHMUS_MAPPING="off"))
    (us,) = re.findall(r"pipelined through the ring .* % of time \((\S+ [mu]?s)\)$", text, re.M)
    number, unit = us.split()
    assert float(number) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit] < AWAY / 2, text

with suite.case("ranks in pid namespaces of their own"):
    if suite.run(["unshare", "-p", "-f", "--mount-proc", "true"]).status != 0:
        suite.skip("unshare is refused here")
    text = on_screen(explain(ranks=4, launch=APART))
    assert text.count("refused: ") == 1 and "; 4.0 MiB went a slower way\n      what helps: start the containers in one pid namespace" in text, text

with suite.case("ranks on two hosts"):
    text = on_screen(explain(ranks=4, launch=["--hosts", "a:2,b:2", *HOSTS]))
    assert "    within each of 2 groups of ranks: 0, 1; 2, 3\n" in text and "transport: tcp" in text, text
    assert re.search(r"network, rendezvous, receiver fetches +12.5 % of messages, +50.0 % of bytes", text), text
    assert "refused" not in text, text

with suite.case("--full, --json, and ISTHMUS_EXPLAIN with the same words"):
    for full in (explain("--full").err, suite.run([MPIEXEC, "-n", 2, PROGRAM], env={"ISTHMUS_EXPLAIN": "full"}).err):
        assert "rank 1 (pid" in full and "traffic with rank 0" in full, full
    for text in (explain("--json").err, suite.run([MPIEXEC, "-n", 2, PROGRAM], env={"ISTHMUS_EXPLAIN": "json"}).err):
        place = json.loads(text)["ranks"][1]["place"]
        assert place["namespaces"]["pid"] == os.stat("/proc/self/ns/pid").st_ino and len(place["boot"]) == 32, place
    for word in ("1", "on", "yes"):
        on_screen(suite.run([MPIEXEC, "-n", 2, PROGRAM], env={"ISTHMUS_EXPLAIN": word}))
    suite.expect(suite.run([MPIEXEC, "-n", 1, PROGRAM], env={"ISTHMUS_EXPLAIN": "some"}), status=2, err="on, off, full, json or picture")

with suite.case("a picture shows ranks, places and ways, and the summary is there too"):
    file = suite.tmp / "ranks.svg"
    result = explain("--picture", file, ranks=4, launch=["--hosts", "a:2,b:2", *HOSTS], **DRAWING)
    suite.expect(result, status=0, err=rf"isthmus: drawn: {file}$")
    assert "all ranks together: 16 messages" in result.err and "isthmus_explain" not in result.err, result.err
    svg = file.read_text()
    assert svg.startswith("<?xml") and svg.rstrip().endswith("</svg>"), svg[:80]
    for text in ("from rank", "to rank", "4.0 MiB in 16 messages", "network, rendezvous, receiver fetches: 2.0 MiB in 2 messages"):
        assert text in svg, text
    for name, begin in (("ranks.png", b"\x89PNG\r\n\x1a\n"), ("ranks.pdf", b"%PDF")):
        suite.expect(explain("--picture", suite.tmp / name, **DRAWING), status=0)
        assert (suite.tmp / name).read_bytes().startswith(begin), name

with suite.case("a picture for each job of a command, and the command's status"):
    file = suite.tmp / "several.svg"
    both = f"{MPIEXEC} -n 2 {PROGRAM}; echo between >&2; {MPIEXEC} -n 3 {PROGRAM} 5"
    result = suite.run([ISTHMUS, "explain", "--picture", file, "sh", "-c", both], timeout=60, env=DRAWING)
    suite.expect(result, status=5, err=r"^between$")
    assert file.exists() and "3 ranks on" in file.with_name("several-2.svg").read_text()

with suite.case("what cannot be drawn is one sentence, before the job starts where that is known"):
    nowhere = explain("--picture", suite.tmp / "no/folder.svg", **DRAWING)
    suite.expect(nowhere, status=1, err=r"^isthmus: nothing is drawn: No such file or directory: ")
    told = suite.run([ISTHMUS, "explain", "--picture", suite.tmp / "none.svg", "true"], env=DRAWING)
    suite.expect(told, status=1, err="no job has told anything, so nothing is drawn")
    empty = suite.tmp / "empty"
    empty.mkdir()
    (empty / "matplotlib.py").write_text("raise ImportError('not here')")
    without = explain("--picture", suite.tmp / "none.svg", PYTHONPATH=str(empty))
    suite.expect(without, status=1, err=r"no matplotlib, .*python3-matplotlib")
    assert "all ranks together" not in without.err, without.err
    for wrong in (["--picture", "x.gif"], ["--full", "--json"], ["--picture", "x.svg", "--json"], ["--picture"]):
        suite.expect(suite.run([ISTHMUS, "explain", *wrong, "true"]), status=2)

with suite.case("SIGTERM to isthmus ends the job, and what was said so far is shown"):
    command = [ISTHMUS, "explain", "--picture", suite.tmp / "none.svg", "sh", "-c", "trap 'echo told >&2; exit 3' TERM; echo ready; while :; do sleep 0.05; done"]
    job = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **DRAWING})
    assert job.stdout.readline() == "ready\n"
    began = time.monotonic()
    job.send_signal(signal.SIGTERM)
    _, said = job.communicate(timeout=20)
    assert job.returncode == 3 and "told\n" in said and time.monotonic() - began < 10, (job.returncode, said)

suite.finish()
