# title: the tuning table, the settings, and what explain tells machines
# timeout: 600
# about: src/base/settings* src/route/* tools/isthmus/*
import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, "tools/dev")
from namespaces import Hosts, why_not
from suite import BUILT, PREFIX, ROOT, VENV, Skip, Suite, ask_until

suite = Suite("tune")
ISTHMUS = PREFIX / "bin/isthmus"
MPIEXEC = PREFIX / "bin/mpiexec"
PAIR = PREFIX / "libexec/isthmus/measure_pair"
NETWORK = PREFIX / "lib/isthmus/libisthmus_network.so"
TABLE = suite.tmp / "tuning.json"
no_hosts = why_not()
CONFIG = {"XDG_CONFIG_HOME": suite.tmp / "config"}


def job(*variables, mode="latency", size=64, env=None):
    """Two ranks that measure one size, and the report of their ways as an object."""
    words = [word for variable in variables for word in ("-x", variable)]
    pair = [PAIR, mode, 3, size]
    command = [ISTHMUS, "explain", "--json", "mpiexec", "-n", 2, *words, *pair]
    result = suite.run(command, env={**CONFIG, **(env or {})}, timeout=60)
    suite.expect(result, status=0, out=rf"^{size} ")
    return result, json.loads(result.err.splitlines()[-1])


def setting(report, variable):
    found = [one for one in report["settings"] if one["variable"] == variable]
    assert len(found) == 1, (variable, report)
    return found[0]["value"], found[0]["origin"]


def written(table):
    TABLE.write_text(table if isinstance(table, str) else json.dumps(table))
    return {"ISTHMUS_TUNING": TABLE}


with suite.case("tune --quick writes a table of this machine, with a reason for each value"):
    result = suite.run([ISTHMUS, "tune", "--quick", "--output", TABLE], env=CONFIG, timeout=150)
    suite.expect(result, status=0, out=r"-> ISTHMUS_EAGER_LIMIT = \d+ \((tuned|the default)\): ")
    good = json.loads(TABLE.read_text())
    assert good["isthmus_tuning"] == 1 and len(good["values"]) == len(good["curves"]) in (6, 7), good
    assert all(value["why"] and value["origin"] in ("tuned", "default") for value in good["values"].values()), good
    verdict = r"(both copy|receiver reads|ring): [\d.]+ to [\d.]+ of the next|not decided: "
    rows = [row for row in re.findall(r"^ +(?:64 KiB|1 MiB)(?: +[\d.]+){3}   (.*)$", result.out, re.MULTILINE) if re.match(verdict, row)]
    assert len(rows) == 8, result.out
    decided = {(each["from"], each["several"]) for each in good["taught"]}
    assert decided <= {(size, several) for size in (65536, 1048576) for several in (False, True)}, good["taught"]
    assert list(TABLE.parent.glob("tuning.json.*")) == []
    assert "\033" not in result.err and "left" not in result.err, result

# A launcher whose hosts are all this machine.
launcher = suite.tmp / "launcher"
launcher.write_text('#!/bin/sh\nexec sh -c "$2"\n')
launcher.chmod(0o755)

with suite.case("the network's eager limit is measured over the network, on one machine"):
    if not NETWORK.exists():
        raise Skip("this build has no network")
    network = good["curves"][-1]
    assert network["decides"] == "ISTHMUS_NETWORK_EAGER_LIMIT" and "within this machine: " in network["name"], network
    assert good["values"]["ISTHMUS_NETWORK_EAGER_LIMIT"]["value"] >= 16384, "a machine alone lowers nothing"

GPU_VALUES = {f"ISTHMUS_GPU_{name}" for name in ("PUSH_FROM", "EAGER_LIMIT", "DIRECT_LIMIT")}

with suite.case("tune --gpu measures the ways of GPU memory too, on the emulated driver"):
    table = suite.tmp / "gpu.json"
    libraries = {"LD_LIBRARY_PATH": f"{BUILT / 'test/emulated'}:{PREFIX / 'lib'}"}
    command = [ISTHMUS, "tune", "--quick", "--gpu", "--output", table]
    suite.expect(suite.run(command, env={**CONFIG, **libraries}, timeout=150), status=0, out=r"-> ISTHMUS_GPU_PUSH_FROM = \d+")
    measured = json.loads(table.read_text())["values"]
    assert GPU_VALUES <= measured.keys(), measured.keys()
    curves = [curve for curve in json.loads(table.read_text())["curves"] if curve["decides"] in GPU_VALUES]
    fixed = ["ISTHMUS_PLANS=fixed" in way["variables"] for curve in curves for way in curve["series"]]
    assert len(fixed) == 2 * len(GPU_VALUES) and all(fixed), curves
    assert ("ISTHMUS_GPU_CHUNK" in measured) == NETWORK.exists(), measured.keys()

with suite.case("and without a GPU says so, and writes nothing"):
    table = suite.tmp / "none.json"
    if suite.run([ISTHMUS, "info"], env=CONFIG).out.count("NVIDIA"):
        raise Skip("there is one")
    suite.expect(suite.run([ISTHMUS, "tune", "--quick", "--gpu", "--output", table], env=CONFIG), status=2, err="--gpu needs a GPU: ")
    assert not table.exists()

with suite.case("and between two hosts, by a launcher"):
    if not NETWORK.exists():
        raise Skip("this build has no network")
    table = suite.tmp / "between.json"
    with contextlib.ExitStack() as stack:
        before, names, reach, device = [], "oak,elm", launcher, ""
        if not no_hosts:
            hosts = stack.enter_context(Hosts(2))
            before, names, reach, device = hosts.head, "h1,h2", hosts.launcher, "tcp on eth0"
        command = [*before, ISTHMUS, "tune", "--quick", "--output", table, "--hosts", names, "--launcher"]
        suite.expect(suite.run([*command, reach], env=CONFIG, timeout=150), status=0, out=f"between {names}: {device}")
        assert "ISTHMUS_NETWORK_EAGER_LIMIT" in json.loads(table.read_text())["values"]
        table.unlink()
        suite.expect(suite.run([*command, "false"], env=CONFIG, timeout=60), status=1, err=rf"no two ranks on {names}: .*\w")
        assert not table.exists()
    suite.expect(suite.run([ISTHMUS, "tune", "--hosts", "oak"], env=CONFIG), status=2, err="is not two hosts")

with suite.case("explain tells the limit of messages to another host that go eagerly, which the network has chosen"):
    if not NETWORK.exists():
        raise Skip("this build has no network")
    here = ["--hosts", "a,b", "--launcher", launcher, "-x", "ISTHMUS_LOCALITY=static", "-x", "UCX_TLS=tcp"]
    for variables, limit in (([], 262144), (["-x", "ISTHMUS_NETWORK_EAGER_LIMIT=32K"], 32768)):
        command = [ISTHMUS, "explain", "--json", "mpiexec", "-n", 2, *here, *variables, PAIR, "latency", 3, 8]
        result = suite.expect(suite.run(command, env=CONFIG, timeout=60), status=0)
        steps = json.loads(result.err.splitlines()[-1])["ranks"][0]["peers"][1]["steps"]
        assert [step["up_to"] for step in steps] == [limit, None], steps

DRAWING = {**CONFIG, "PATH": f"{VENV}/bin:{os.environ['PATH']}"}

with suite.case("a table is drawn as PNG and as SVG, with each curve's name"):
    prefix = suite.tmp / "curves"
    drawn = suite.run([ISTHMUS, "tune", "--from", TABLE, "--plot", prefix], env=DRAWING, timeout=60)
    suite.expect(drawn, status=0, out=rf"^Drawn: {prefix}\.png and {prefix}\.svg$")
    png, svg = prefix.with_suffix(".png").read_bytes(), prefix.with_suffix(".svg").read_text()
    assert png.startswith(b"\x89PNG\r\n\x1a\n") and len(png) > 50_000, png[:16]
    assert svg.startswith("<?xml") and svg.rstrip().endswith("</svg>"), svg[:80]
    for curve in good["curves"]:
        assert curve["name"] in re.sub(r"&#x27;|&apos;", "'", svg), curve["name"]
        origin = good["values"][curve["decides"]]["origin"]
        assert f"({'tuned' if origin == 'tuned' else 'the default'})" in svg, curve
    assert good["machine"]["processor"] in svg and good["made"] in svg

with suite.case("what cannot be drawn is one sentence"):
    (suite.tmp / "other.json").write_text('{"values": {}}')
    other = suite.run([ISTHMUS, "tune", "--from", suite.tmp / "other.json", "--plot", prefix], env=DRAWING, timeout=60)
    suite.expect(other, status=1, err=r"^isthmus: nothing is drawn: \S+other.json is no table")
    nowhere = suite.run([ISTHMUS, "tune", "--from", TABLE, "--plot", suite.tmp / "no/folder"], env=DRAWING, timeout=60)
    suite.expect(nowhere, status=1, err=r"^isthmus: nothing is drawn: No such file or directory: ")
    assert "Traceback" not in other.err + nowhere.err, (other, nowhere)
    suite.expect(suite.run([ISTHMUS, "tune", "--from", TABLE], env=CONFIG), status=2, err="--plot")

# An installation and a machine that lack both.
alone = suite.tmp / "alone"
shutil.copytree(PREFIX, alone, symlinks=True)
(alone / NETWORK.relative_to(PREFIX)).unlink(missing_ok=True)
(alone / "matplotlib.py").write_text("raise ImportError('not here')")
undrawn = suite.tmp / "undrawn.json"
ALONE = [alone / "bin/isthmus", "tune", "--quick", "--output", undrawn]

with suite.case("without matplotlib the table is written, and the remedy named before and after"):
    command = [*ALONE, "--plot", suite.tmp / "undrawn"]
    result = suite.run(command, env={**CONFIG, "PYTHONPATH": alone}, timeout=150)
    suite.expect(result, status=1, out="^Written: ", err=r"no matplotlib, .*python3-matplotlib.*\n.*tune --from TABLE --plot PREFIX")
    assert result.err.count("python3-matplotlib") == 2 and json.loads(undrawn.read_text())["values"], result
    assert not list(suite.tmp.glob("undrawn.[ps]*"))

with suite.case("without the network's library everything else is measured, and the reason told; --hosts is refused"):
    suite.expect(result, status=None, out=r"^ISTHMUS_NETWORK_EAGER_LIMIT is not measured: .*libucx-dev")
    assert "ISTHMUS_NETWORK_EAGER_LIMIT" not in json.loads(undrawn.read_text())["values"]
    undrawn.unlink()
    result = suite.run([*ALONE, "--hosts", "a,b", "--launcher", launcher], env=CONFIG, timeout=60)
    suite.expect(result, status=1, err="^isthmus: no two ranks on a,b: .*libucx-dev")
    assert not undrawn.exists()


def on_a_terminal(command, seconds):
    """What a command shows on a terminal of 60 columns within that time; it is interrupted then."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({name: str(value) for name, value in CONFIG.items()})
        subprocess.run(["stty", "cols", "60"], check=True)
        os.execv(command[0], list(map(str, command)))
    shown = b""
    end = time.monotonic() + seconds
    with open(terminal, "rb", buffering=0) as screen:
        while time.monotonic() < end and b" left" not in shown:
            try:
                shown += screen.read(4096)
            except OSError:
                break
        os.kill(pid, signal.SIGINT)
        with contextlib.suppress(OSError):
            while screen.read(4096):
                pass
    os.waitpid(pid, 0)
    return shown.decode()


with suite.case("on a terminal a bar tells which curve, how far and how long; it fits"):
    shown = on_a_terminal([ISTHMUS, "tune", "--output", suite.tmp / "seen.json"], 60)
    lines = re.findall(r"\r\x1b\[K([^\r]*)", shown)
    assert re.match(r"\[#* *\] 1 of \d+: receiver reads, or both", lines[0]), shown
    assert any(re.match(r"\[#* *\] \d+ of \d+, about \d+ (s|min) left: r", line) for line in lines), shown
    assert max(map(len, lines)) < 60, lines

good["values"]["ISTHMUS_EAGER_LIMIT"] = {"value": 32768, "origin": "tuned", "why": "a test"}
good["values"]["ISTHMUS_FRAGMENT"] = {"value": 8192, "origin": "default", "why": "a test"}

with suite.case("a job loads the table, and says where each value comes from"):
    result, report = job(env=written(good))
    assert "warning" not in result.err, result
    assert setting(report, "ISTHMUS_EAGER_LIMIT") == ("32768", "tuned"), result
    assert setting(report, "ISTHMUS_FRAGMENT") == ("0", "default"), result
    to_peer = report["ranks"][0]["peers"][1]
    assert [step["up_to"] for step in to_peer["steps"]][:2] == [32, 32768], result
    _, report = job("ISTHMUS_EAGER_LIMIT=8K", env=written(good))
    assert setting(report, "ISTHMUS_EAGER_LIMIT") == ("8192", "environment"), report

with suite.case("without a name, the table of the user is loaded; off does without"):
    folder = suite.tmp / "config/isthmus"
    folder.mkdir(parents=True)
    (folder / "tuning.json").write_text(json.dumps(good))
    assert setting(job()[1], "ISTHMUS_EAGER_LIMIT") == ("32768", "tuned")
    assert setting(job(env={"ISTHMUS_TUNING": "off"})[1], "ISTHMUS_EAGER_LIMIT") == ("0", "default")
    shown = suite.run([ISTHMUS, "info", "--settings"], env=CONFIG, timeout=20)
    suite.expect(shown, status=0, out=r"ISTHMUS_EAGER_LIMIT +32768 +tuned")
    (folder / "tuning.json").unlink()

for name, table, said in (
    ("damaged", json.dumps(good)[:200], "is damaged"),
    ("foreign", {**good, "machine": {**good["machine"], "kernel": "2.4.18"}}, "another machine .*2.4.18"),
    ("newer", {**good, "isthmus_tuning": 2}, "has version 2 of the format"),
    ("senseless", {**good, "values": {"ISTHMUS_RING_CELLS": {"value": 100, "origin": "tuned"}}}, "cannot be 100"),
):
    with suite.case(f"a {name} table is one warning, and the defaults hold"):
        result, report = job(env=written(table))
        suite.expect(result, status=0, err=rf"{TABLE} .*{said}.*the defaults are used instead")
        assert result.err.count("tuning table") == 1, result
        assert all(one["origin"] != "tuned" for one in report["settings"]), report

with suite.case("a pipe, a folder and rubbish in place of a table are one warning each, and nobody waits for them"):
    pipe, rubbish = suite.tmp / "pipe", suite.tmp / "rubbish"
    os.mkfifo(pipe)
    rubbish.write_bytes(os.urandom(100_000) + b"[" * 900_000)
    for path, said in ((pipe, "is not a file"), (suite.tmp, "is not a file"), (rubbish, "is damaged")):
        result, _ = job(env={"ISTHMUS_TUNING": path})
        assert result.err.count(f"{path} {said}") == 1 and result.err.count("tuning table") == 1, result

with suite.case("a table that is not there is one warning"):
    result, _ = job(env={"ISTHMUS_TUNING": suite.tmp / "nowhere"})
    assert result.err.count("nowhere cannot be read (No such file") == 1, result

with suite.case("nonsense in any setting is an error that names variable, value and what is allowed"):
    shown = suite.run([ISTHMUS, "info", "--settings"], env=CONFIG, timeout=20)
    variables = [line.split()[0] for line in shown.out.splitlines() if line.startswith("ISTHMUS_")]
    assert len(variables) >= 16, shown
    for variable in variables:
        for command in ([MPIEXEC, "-n", 2, "true"], [PAIR, "latency", 1, 8]):
            result = suite.run(command, env={**CONFIG, variable: "a#b"}, timeout=20)
            assert result.status not in (0, -signal.SIGSEGV), result
            assert f"{variable}='a#b' is not understood; allowed: " in result.err, result

with suite.case("a pair of mostly nonblocking sends moves to the bandwidth column of its plan"):
    limits = ("ISTHMUS_EAGER_LIMIT=4K", "ISTHMUS_BANDWIDTH_EAGER_LIMIT=64K")
    _, report = job(*limits, mode="bandwidth", size=16384)
    many = report["ranks"][0]["peers"][1]
    assert many["workload"]["kind"] == "bandwidth" and many["workload"]["eager_limit"] == 65536, many
    # The plan that is printed is the one that acts now.
    eager = [step["up_to"] for step in many["steps"] if step["protocol"] == "eager"]
    assert eager == [65536], many["steps"]
    ways = {one["protocol"]: one["sent"]["messages"] for one in many["traffic"]}
    assert ways["eager"] >= 64, ways
    result = suite.run([ISTHMUS, "explain", "--full", "mpiexec", "-n", 2, PAIR, "bandwidth", 3, 8192], env=CONFIG, timeout=60)
    suite.expect(result, status=0, err=r"workload of the sends: bandwidth-bound \(100 % nonblocking\), since message 256")

with suite.case("a pair that plays ping-pong stays in the latency column"):
    _, report = job("ISTHMUS_EAGER_LIMIT=4K", "ISTHMUS_BANDWIDTH_EAGER_LIMIT=64K", size=16384)
    one = report["ranks"][0]["peers"][1]
    assert one["workload"]["kind"] != "bandwidth" and one["workload"]["eager_limit"] == 4096, one
    assert [step["up_to"] for step in one["steps"] if step["protocol"] == "eager"] == [4096], one["steps"]
    assert "eager" not in [way["protocol"] for way in one["traffic"]], one

WAYS = suite.tmp / "ways"
RING = "rendezvous, pipelined through the ring"


def ways(*words, plans="live", preloaded=None, env=None, before=()):
    """What the receiver has to tell of two ranks of which one sends the other long messages (test/bench/ways.c)."""
    return both_ranks(*words, plans=plans, preloaded=preloaded, env=env, before=before)[1]


def both_ranks(*words, plans="live", preloaded=None, env=None, before=()):
    """What both have."""
    if not WAYS.exists():
        suite.expect(suite.run([PREFIX / "bin/mpicc", "-O2", ROOT / "test/bench/ways.c", "-o", WAYS, "-ldl"], timeout=60))
    preload = ["env", f"LD_PRELOAD={preloaded}"] if preloaded else []
    setting = ["-x", f"ISTHMUS_PLANS={plans}"] if plans else []
    command = [*before, ISTHMUS, "explain", "--json", "mpiexec", "-n", 2, *setting, *preload, WAYS, *words]
    result = suite.expect(suite.run(command, env={**CONFIG, **(env or {})}, timeout=60))
    return json.loads(result.err.splitlines()[-1])["ranks"]


def received(rank):
    return {way["protocol"]: way["received"]["messages"] for way in rank["peers"][0]["traffic"] if way["received"]["messages"]}


with suite.case("plans that measure themselves leave a job of ten messages as fixed plans have it"):
    assert received(ways(262144, 10)) == received(ways(262144, 10, plans="fixed")), (ways(262144, 10))

with suite.case("when copies by the kernel become slow, the ring is taken within a hundred messages"):
    slow = suite.preload("test/bench/slow_copies.c", "-ldl")

    def taught():
        rank = ways(262144, 200, 300, preloaded=slow)
        return [(each["protocol"], each["messages"]) for each in rank["live"] if each["from"] == 262144], received(rank)

    lesson, _ = ask_until(3, taught, lambda told: [protocol for protocol, _ in told[0]] == [RING] and told[1].get(RING, 0) >= 200)
    assert 499 <= lesson[0][1] <= 500, lesson

with suite.case("ranks that share a core learn by the work of both sides, without being asked to"):
    core = ("taskset", "-c", min(os.sched_getaffinity(0)))
    assert received(ways(262144, 10, plans=None, before=core)) == received(ways(262144, 10, plans="fixed", before=core))

    def taught():
        rank = ways(262144, 200, 300, plans=None, preloaded=slow, before=core)
        return [(each["protocol"], each["by_work"]) for each in rank["live"] if each["from"] == 262144], received(rank)

    ask_until(3, taught, lambda told: told[0] == [(RING, True)] and told[1].get(RING, 0) >= 200)

with suite.case("the ring is hardly tried where the sender computes, for it would wait"):
    counts = received(ways(262144, 300, 0, 3000))
    assert counts.get(RING, 0) <= 8, counts

with suite.case("how long messages go with their envelope is left alone in a job of ten messages, and where a setting says it"):
    for size in (8192, 16384, 32768):
        sender, receiver = both_ranks(size, 10)
        assert sender["live_eager"] == [] and received(receiver) == received(ways(size, 10, plans="fixed")), (size, sender, receiver)
    for variable in ("ISTHMUS_EAGER_LIMIT", "ISTHMUS_BANDWIDTH_EAGER_LIMIT"):
        sender, receiver = both_ranks(16384, 400, env={variable: "16384"})
        assert sender["live_eager"] == [] and received(receiver)["eager"] == 400, (sender, receiver)
    sender, _ = both_ranks(16384, 400, plans="fixed")
    assert sender["live_eager"] == [], sender

with suite.case("when copies through memory become slow, messages no longer go with their envelope, within a hundred of them"):
    slow = suite.preload("test/bench/slow_memory.c")

    def taught():
        sender, receiver = both_ranks(16384, 200, 300, preloaded=slow)
        (lesson,) = [each for each in sender["live_eager"] if not each["several"]]
        return lesson, sum(count for way, count in received(receiver).items() if way != "eager")

    lesson, _ = ask_until(4, taught, lambda told: told[0]["way"] == "rendezvous" and told[1] >= 200)
    assert (lesson["from"], lesson["assumed"], lesson["nonblocking"], lesson["origin"]) == (16384, "eager", True, "live"), lesson
    assert 400 <= lesson["messages"] <= 500 and all(way["predicted_us"] for way in lesson["ways"]), lesson
    result = suite.run([ISTHMUS, "explain", "--full", "mpiexec", "-n", 2, WAYS, 16384, 400], env=CONFIG, timeout=60)
    suite.expect(result, err=r"^    measured, nonblocking sends:\n      from 16 KiB +(eager|rendezvous): [\d.]+ us .*; \d+ messages$")

with suite.case("the same of several that are under way together"):
    slow = suite.preload("test/bench/slow_memory.c")

    def taught():
        # Where they have settled before, one batch in sixteen is looked at: it takes up to a thousand messages to move.
        sender, receiver = both_ranks(16384, 20, 120, 0, 16, preloaded=slow)
        lessons = [each for each in sender["live_eager"] if each["several"]]
        return lessons, sum(count for way, count in received(receiver).items() if way != "eager")

    (lesson,), _ = ask_until(4, taught, lambda told: [each["way"] for each in told[0]] == ["rendezvous"] and told[1] >= 480)
    assert (lesson["from"], lesson["assumed"], lesson["nonblocking"], lesson["origin"]) == (16384, "eager", True, "live"), lesson

CALL_WAYS = suite.tmp / "call_ways"


def call_ways(*words, ranks=2, plans="live", preloaded=None, env=None):
    """What rank 0 has learned of the calls of a program that repeats one collective (test/bench/call_ways.c)."""
    return call_report(*words, ranks=ranks, plans=plans, preloaded=preloaded, env=env)[0]["live_collectives"]


def call_report(*words, ranks=2, plans="live", preloaded=None, env=None):
    """What its ranks tell."""
    if not CALL_WAYS.exists():
        suite.expect(suite.run([PREFIX / "bin/mpicc", "-O2", ROOT / "test/bench/call_ways.c", "-o", CALL_WAYS, "-ldl"], timeout=60))
    preload = ["env", f"LD_PRELOAD={preloaded}"] if preloaded else []
    command = [ISTHMUS, "explain", "--json", "mpiexec", "-n", ranks, "-x", f"ISTHMUS_PLANS={plans}", *preload, CALL_WAYS, *words]
    result = suite.expect(suite.run(command, env={**CONFIG, **(env or {})}, timeout=60))
    return json.loads(result.err.splitlines()[-1])["ranks"]


with suite.case("collectives of a job of a few calls go as the table has it, and so do all with fixed plans"):
    assert call_ways("bcast", 65536, 10) == [], call_ways("bcast", 65536, 10)
    assert call_ways("bcast", 65536, 300, plans="fixed") == []

with suite.case("where copies by the kernel are slow, a bcast goes another way within a hundred calls, and tells what each takes"):
    slow = suite.preload("test/bench/slow_copies.c", "-ldl")
    (lesson,) = ask_until(3, lambda: call_ways("bcast", 65536, 0, 110, preloaded=slow), lambda told: len(told) == 1 and not told[0]["way"].startswith("direct"))
    assert lesson["assumed"] == "direct_both" and lesson["calls"] == 110 and not lesson["told"], lesson
    predicted = {way["way"]: way["predicted_us"] for way in lesson["ways"]}
    assert set(predicted) == {"staged", "direct", "direct_both", "messages"} and all(predicted.values()), lesson

with suite.case("where copies by the kernel are slow, an allgather goes through memory that all share within a hundred calls"):
    slow = suite.preload("test/bench/slow_copies.c", "-ldl")
    (lesson,) = ask_until(4, lambda: call_ways("allgather", 65536, 0, 110, preloaded=slow), lambda lessons: [each["way"] for each in lessons] == ["staged"])
    assert lesson["assumed"] == "direct" and {way["way"] for way in lesson["ways"]} == {"staged", "direct", "messages"}, lesson

with suite.case("explain --full tells what a communicator has learned, explain that there is something to tell"):
    for words, said in ((["--full"], r"^    measured, bcast among 2 ranks:\n      up to 64 KiB   \w+: [\d.]+ us .*; 150 calls$"), ([], r"ways of collectives are measured")):
        result = suite.run([ISTHMUS, "explain", *words, "mpiexec", "-n", 2, CALL_WAYS, "bcast", 65536, 150], env=CONFIG, timeout=60)
        suite.expect(result, err=said)

with suite.case("when copies through memory become slow, a bcast goes from buffer to buffer within a hundred calls"):
    # Before that, copies by the kernel are slow: where cores are far from each other, copies through memory may be so by themselves.
    slow = f"{suite.preload('test/bench/slow_copies.c', '-ldl')}:{suite.preload('test/bench/slow_memory.c')}"

    def taught():
        return [*call_ways("bcast", 65536, 200, preloaded=slow), *call_ways("bcast", 65536, 200, 100, preloaded=slow)]

    _, after = ask_until(4, taught, lambda told: len(told) == 2 and not told[0]["way"].startswith("direct") and told[1]["way"].startswith("direct"))
    assert after["calls"] == 300, after

with suite.case("a way of collectives is forced where it is possible"):
    _, report = job("ISTHMUS_COLLECTIVE_WAY=staged")
    assert setting(report, "ISTHMUS_COLLECTIVE_WAY") == ("staged", "environment"), report
    for way in ("flat", "staged", "counted", "direct", "direct_both", "direct_all", "messages", "tree"):
        for collective, ranks in (("bcast", 2), ("allreduce", 2), ("allreduce", 3), ("allgather", 2), ("allgather", 3)):
            assert call_ways(collective, 65536, 5, ranks=ranks, env={"ISTHMUS_COLLECTIVE_WAY": way}) == []

def long_messages(ranks, size=65536):
    """So many of that size have come to any of them, also with their envelopes. What a job needs besides is less than one."""
    ways = [way for rank in ranks for peer in rank["peers"] for way in peer["traffic"]]
    return sum(way["received"]["bytes"] for way in ways if not way["protocol"].startswith("local")) // size


# What is said of calls that do not block takes effect so many calls later.
for form, deep in (("ibcast", 8), ("bcast_init", 4)):
    with suite.case(f"{form}: a way is forced where it is possible, from a step on that nobody can have reached"):
        for way, expected in (("messages", 400 - deep), ("direct", 0), ("staged", 0)):
            found = long_messages(call_report(form, 65536, 0, 400, env={"ISTHMUS_COLLECTIVE_WAY": way}))
            # Those that come before it is known whether all members reach each other go by the table too.
            assert expected - 2 <= found <= expected, (way, found)
        assert long_messages(call_report(form, 65536, 0, 400, plans="fixed")) == 0

    with suite.case(f"{form}: goes as blocking calls have turned out to be the fastest of the ways that it has"):
        slow = suite.preload("test/bench/slow_copies.c", "-ldl")

        def found():
            return [long_messages(call_report(form, 65536, 200, more, preloaded=slow)) for more in (0, 400)]

        # Some look whether another way has become better.
        ask_until(3, found, lambda messages: messages[1] >= messages[0] // 2 + 400 - deep - 14)
        assert long_messages(call_report(form, 65536, 200, 400, preloaded=slow, plans="fixed")) == 0

for form, kind in (("ibcast", "nonblocking"), ("bcast_init", "persistent")):
    with suite.case(f"{form}: explain tells how such calls have gone"):
        ranks = call_report(form, 65536, 0, 400, env={"ISTHMUS_COLLECTIVE_WAY": "messages"})
        (told,) = ranks[0]["live_nonblocking"]
        assert ranks[1]["live_nonblocking"] == [] and ranks[0]["live_collectives"] == [], ranks
        assert (told["form"], told["collective"], told["up_to"], told["way"]) == (kind, "bcast", 65536, "messages"), told
        assert told["assumed"].startswith("direct") and 398 <= told["calls"] <= 400, told
        words = ["mpiexec", "-n", 2, "-x", "ISTHMUS_COLLECTIVE_WAY=messages", CALL_WAYS, form, 65536, 0, 400]
        result = suite.run([ISTHMUS, "explain", "--full", *words], env=CONFIG, timeout=60)
        suite.expect(result, err=rf"{kind} bcast among 2 ranks:\n      up to 64 KiB +messages; \d+ of \d+ calls, the table has direct_both$")

def learned(form, size, calls, *words, **how):
    """What rank 0 tells of calls of one kind that do not block, where no call has blocked."""
    ranks = call_report(form, size, 0, calls, *words, **how)
    assert ranks[0]["live_collectives"] == [] and ranks[1]["live_nonblocking"] == [], ranks
    (told,) = ranks[0]["live_nonblocking"]
    return told


# Messages of 64 KiB go with their envelopes: longer ones would have to find their own way first, and where a trial of a collective has too
# few of them for that, they are no faster than the way that is slow.
ENVELOPES = {"ISTHMUS_EAGER_LIMIT": "128K"}

# Ways between buffers are slow. The others: messages; flat; none but these. What counts is what has been found: the last call may be one
# that looks at another way.
for form, size in (("ibcast", 65536), ("bcast_init", 65536), ("iallreduce", 8192), ("ibcast", 8192)):
    with suite.case(f"{form} of {size // 1024} KiB: learns by itself where no call has blocked, within a hundred calls"):
        slow = suite.preload("test/bench/slow_copies.c", "-ldl")
        told = ask_until(
            8,
            lambda: learned(form, size, 110, preloaded=slow, env=ENVELOPES),
            lambda told: not (told["nonblocking_way"] or "direct").startswith("direct"),
        )
        found = told["nonblocking_way"]
        assert told["assumed"].startswith("direct") and told["origin"] == "live" and not told["told"], told
        predicted = {way["way"]: way["predicted_us"] for way in told["ways"]}
        assert predicted[found] < predicted[told["assumed"]], told
        assert {way["way"] for way in learned(form, size, 110, preloaded=slow, plans="fixed")["ways"]} == {told["assumed"]}

for form in ("iallreduce", "allreduce_init"):
    with suite.case(f"{form} of 1 MiB: leaves the way that writes to others where that is slow, within a hundred calls"):
        slow = suite.preload("test/bench/slow_copies.c", "-ldl")
        told = ask_until(
            8,
            lambda: learned(form, 1 << 20, 110, preloaded=slow, env={"SLOW_WRITES_ONLY": "1"}),
            lambda told: told["nonblocking_way"] == "direct_all",
        )
        assert told["assumed"] == "direct", told

with suite.case("collectives that do not block go as the table has it in a job of a few"):
    slow = suite.preload("test/bench/slow_copies.c", "-ldl")
    for form, size in (("ibcast", 65536), ("bcast_init", 65536), ("iallreduce", 8192)):
        told = learned(form, size, 10, preloaded=slow)
        assert [way["way"] for way in told["ways"]] == [told["assumed"]] and told["calls"] <= 10, told

with suite.case("of calls during which a program computes nothing is learned, nor of many at once: all go as the table has it"):
    slow = suite.preload("test/bench/slow_copies.c", "-ldl")
    for form, size, *words in (("ibcast", 65536, 500), ("bcast_init", 65536, 500), ("iallreduce", 65536, 2000), ("ibcast", 65536, 0, 32)):
        told = learned(form, size, 320, *words, preloaded=slow)
        assert [(way["way"], way["predicted_us"]) for way in told["ways"]] == [(told["assumed"], None)], told

def bits_and_ways(form, size, ranks, plans):
    command = [ISTHMUS, "explain", "--json", "mpiexec", "-n", ranks, "-x", f"ISTHMUS_PLANS={plans}", CALL_WAYS, form, size, 0, 150]
    result = suite.expect(suite.run(command, env=CONFIG, timeout=60), out=r"^bits [0-9a-f]+$")
    (told,) = json.loads(result.err.splitlines()[-1])["ranks"][0]["live_nonblocking"]
    return result.out, len(told["ways"])


with suite.case("sums that do not block have the same bits by fixed plans and while they learn, also among three"):
    for kind in (("iallreduce_float", 8192, 2), ("iallreduce_float", 65536, 2), ("iallreduce_float", 65536, 3), ("allreduce_init_float", 65536, 2)):
        fixed, count = bits_and_ways(*kind, "fixed")
        assert count == 1, kind

        def ways_of_live():
            live, count = bits_and_ways(*kind, "live")
            assert live == fixed, (kind, fixed, live)
            return kind, count

        # Where processors are taken away all the time, calls teach nothing, and no other way is tried.
        ask_until(8, ways_of_live, lambda told: told[1] > 1)

with suite.case("reductions that do not block never go over messages, which would combine otherwise"):
    for form in ("iallreduce", "allreduce_init"):
        for way in ("messages", "direct", "direct_all", "flat"):
            # Persistent ones of 8 KiB have no room in lanes, and go over messages by the table.
            for size in (8192, 65536) if form == "iallreduce" else (65536,):
                assert long_messages(call_report(form, size, 3, 300, ranks=3, env={"ISTHMUS_COLLECTIVE_WAY": way}), size) < 30

with suite.case("tune --from stores what a program's messages have taught, and later jobs begin with it"):
    table = suite.tmp / "taught.json"
    slow = suite.preload("test/bench/slow_copies.c", "-ldl")
    command = [ISTHMUS, "tune", "--output", table, "--from", "mpiexec", "-n", 2, "env", f"LD_PRELOAD={slow}", WAYS, 262144, 1, 200]
    said = r"^  from 256 KiB +one at a time +ring +20[01] messages of 1 rank$"
    suite.expect(ask_until(4, lambda: suite.run(command, env=CONFIG, timeout=60), lambda result: re.search(said, result.out, re.MULTILINE)))
    taught = json.loads(table.read_text())["taught"]
    assert [(each["from"], each["way"], each["several"]) for each in taught] == [(262144, "ring", False)], taught
    # Behind the ten that go as the plan has them.
    for environment, told in (({"ISTHMUS_TUNING": table}, [RING]), ({}, [])):
        lessons = ways(262144, 14, env=environment)["live"]
        assert [each["protocol"] for each in lessons if each["told"]] == told, lessons
    # What was measured before stays.
    table.write_text(json.dumps({**good, "taught": taught}))
    suite.expect(suite.run(command, env=CONFIG, timeout=60), out=r"^Written: ")
    after = json.loads(table.read_text())
    assert after["values"] == good["values"] and len(after["taught"]) == 1, after["taught"]

with suite.case("tune --from stores what a program's collectives have taught, and later jobs begin with it"):
    table = suite.tmp / "taught_calls.json"
    slow = suite.preload("test/bench/slow_copies.c", "-ldl")
    program = ["mpiexec", "-n", 2, "env", f"LD_PRELOAD={slow}", CALL_WAYS, "bcast", 65536, 1, 250]
    said = r"^  bcast among 2 ranks, up to 64 KiB +\w+ +251 calls of 1 rank$"

    def taught():
        result = suite.run([ISTHMUS, "tune", "--output", table, "--from", *program], env={**CONFIG, **ENVELOPES}, timeout=60)
        suite.expect(result, out=said)
        (lesson,) = json.loads(table.read_text())["taught_collectives"]
        return lesson

    lesson = ask_until(4, taught, lambda told: not told["way"].startswith("direct") and told.get("nonblocking_way") == "messages")
    assert (lesson["collective"], lesson["members"], lesson["up_to"]) == ("bcast", 2, 65536), lesson
    # Behind the ten that go as the table of algorithms has them.
    (told,) = call_ways("bcast", 65536, 14, env={"ISTHMUS_TUNING": table})
    assert (told["origin"], told["told"], told["way"]) == ("tuned", True, lesson["way"]), (told, lesson)
    assert call_ways("bcast", 65536, 14) == []
    # What does not block begins with it too.
    (told,) = call_report("ibcast", 65536, 0, 40, env={"ISTHMUS_TUNING": table})[0]["live_nonblocking"]
    assert (told["told"], told["way"]) == (True, "messages"), told
    # Another program adds to it, and takes the place of what is of the same kind.
    other = ["mpiexec", "-n", 2, CALL_WAYS, "allreduce", 65536, 250]
    for words in (other, program):
        suite.expect(suite.run([ISTHMUS, "tune", "--output", table, "--from", *words], env=CONFIG, timeout=60))
    after = json.loads(table.read_text())["taught_collectives"]
    assert sorted(each["collective"] for each in after) == ["allreduce", "bcast"], after

with suite.case("tune --from stores what calls that do not block have found themselves, beside what blocking ones have"):
    table = suite.tmp / "taught_nonblocking.json"
    slow = suite.preload("test/bench/slow_copies.c", "-ldl")

    def taught(form, *counts):
        program = ["mpiexec", "-n", 2, "env", f"LD_PRELOAD={slow}", CALL_WAYS, form, 65536, *counts]
        result = suite.run([ISTHMUS, "tune", "--output", table, "--from", *program], env={**CONFIG, **ENVELOPES}, timeout=60)
        return result, json.loads(table.read_text())["taught_collectives"] if table.exists() else None

    found = lambda answer: answer[1] and answer[1][0]["nonblocking_way"] == "messages"
    result, lessons = ask_until(8, lambda: taught("ibcast", 0, 300), found)
    kind = {"collective": "bcast", "members": 2, "same_socket": True, "up_to": 65536}
    assert lessons == [{**kind, "nonblocking_way": "messages"}], (lessons, result)
    suite.expect(result, out=r"^  bcast among 2 ranks, up to 64 KiB +messages +\d+ calls of 1 rank that do not block$")
    # Later calls begin with it at once; blocking ones try all of theirs.
    (told,) = call_report("ibcast", 65536, 0, 40, env={"ISTHMUS_TUNING": table})[0]["live_nonblocking"]
    assert (told["told"], told["way"], told["nonblocking_way"]) == (True, "messages", None), told
    assert call_ways("bcast", 65536, 14, env={"ISTHMUS_TUNING": table}) == []
    # What blocking ones teach goes to the same entry.
    result, (both,) = taught("bcast", 1, 250)
    assert both["nonblocking_way"] == "messages" and both["ticks_per_byte"] > 0 and not both["way"].startswith("direct"), both
    # What these suggest for the others is not worth what the others have found.
    document = json.loads(table.read_text())
    document["taught_collectives"][0]["nonblocking_way"] = "direct"
    table.write_text(json.dumps(document))
    result, (both,) = taught("bcast", 1, 250)
    assert both["nonblocking_way"] == "direct", (both, result)

with suite.case("tune --from stores whether messages go with their envelope"):
    table = suite.tmp / "taught_eager.json"
    slow = suite.preload("test/bench/slow_memory.c")
    program = ["mpiexec", "-n", 2, "env", f"LD_PRELOAD={slow}", WAYS, 16384, 1, 250]
    said = r"^  from 16 KiB +nonblocking sends +rendezvous +\d+ messages of 1 rank$"
    command = [ISTHMUS, "tune", "--output", table, "--from", *program]
    suite.expect(ask_until(4, lambda: suite.run(command, env=CONFIG, timeout=60), lambda result: re.search(said, result.out, re.MULTILINE)))
    sender, receiver = both_ranks(16384, 14, env={"ISTHMUS_TUNING": table})
    (lesson,) = sender["live_eager"]
    assert (lesson["origin"], lesson["way"], received(receiver)["eager"]) == ("tuned", "rendezvous", 10), (lesson, received(receiver))

with suite.case("tune --from stores what a program's messages in GPU memory have taught, and later jobs begin with it"):
    table = suite.tmp / "taught_gpu.json"
    program = ["mpiexec", "-n", 2, BUILT / "test/gpu/gpu_ways", "device", "device", 1 << 20]
    emulated = {**CONFIG, "LD_LIBRARY_PATH": f"{BUILT / 'test/emulated'}:{PREFIX / 'lib'}"}
    said = r"^  from 1 MiB +GPUs over NVLink, one at a time pull +200 messages of 1 rank$"
    slow = {**emulated, "EMULATED_CUDA_WRITES_US": "20000"}
    command = [ISTHMUS, "tune", "--output", table, "--from", *program, 200]
    suite.expect(ask_until(4, lambda: suite.run(command, env=slow, timeout=60), lambda result: re.search(said, result.out, re.MULTILINE)))
    (lesson,) = json.loads(table.read_text())["taught_gpu"]
    assert (lesson["route"], lesson["from"], lesson["several"], lesson["way"]) == ("GPUs over NVLink", 1 << 20, False, "pull"), lesson
    # Behind the ten that go as the plan has them.
    result = suite.run([ISTHMUS, "explain", "--json", *program, 14], env={**emulated, "ISTHMUS_TUNING": table}, timeout=60)
    (told,) = json.loads(suite.expect(result).err.splitlines()[-1])["ranks"][1]["live_gpu"]
    assert (told["origin"], told["way"]) == ("tuned", "pull"), told

with suite.case("tune --from writes nothing where a program fails, teaches nothing or is none"):
    table = suite.tmp / "untaught.json"
    for words, status, why in (
        (["-n", 2, "false"], 1, "has ended with 1"), (["-n", 2, "true"], 1, "no job has told anything"),
        (["-n", 2, WAYS, 262144, 5], 1, "often enough"),
    ):  # fmt: skip
        result = suite.run([ISTHMUS, "tune", "--output", table, "--from", "mpiexec", *words], env=CONFIG, timeout=60)
        suite.expect(result, status=status, err=f"^isthmus: .*{why}.*no table is written")
        assert not table.exists()
    result = suite.run([ISTHMUS, "tune", "--quick", "--from", "mpiexec", "-n", 2, "true"], env=CONFIG, timeout=60)
    suite.expect(result, status=2, err="only --output goes with it")

with suite.case("a table whose lessons are damaged is one warning"):
    for name in ("taught", "taught_eager", "taught_gpu", "taught_collectives"):
        for taught in ({}, [{"from": 65536, "collective": "bcast", "members": 2, "up_to": 65536, "way": "pigeon", "ticks_per_byte": 1}]):
            result, _ = job(env=written({**good, name: taught}))
            suite.expect(result, err=r"is damaged: (what messages have taught|a way|what has been taught of (sends|GPU memory)|a collective that)")

# Says at its end how often it has let others run, beyond what starting and ending take.
YIELDS = r"""
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
static long yields;
int sched_yield(void) { ++yields; return 0; }
int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) {
    usleep(200000);
    MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  } else {
    const long before = yields;
    MPI_Recv(&rank, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("%ld yields\n", yields - before);
  }
  MPI_Finalize();
}
"""

with suite.case("a waiting rank polls for ISTHMUS_SPIN_MICROSECONDS before it lets others run"):
    source = suite.tmp / "yields.c"
    source.write_text(YIELDS)
    program = suite.tmp / "yields"
    suite.expect(suite.run([PREFIX / "bin/mpicc", "-rdynamic", source, "-o", program], timeout=60))
    counts = {}
    for microseconds in (0, 50, 1_000_000):
        variables = ["-x", "ISTHMUS_IDLE=spin", "-x", f"ISTHMUS_SPIN_MICROSECONDS={microseconds}"]
        result = suite.expect(suite.run([MPIEXEC, "-n", 2, *variables, program], env=CONFIG, timeout=30), out=r"^\d+ yields$")
        counts[microseconds] = int(result.out.split()[0])
    assert counts[0] > 1000 and counts[50] > 1000 and counts[1_000_000] == 0, counts

with suite.case("an interrupted tune leaves nothing half-written"):
    target = suite.tmp / "interrupted.json"
    environment = {**os.environ, "XDG_CONFIG_HOME": str(CONFIG["XDG_CONFIG_HOME"])}
    process = subprocess.Popen(
        [ISTHMUS, "tune", "--output", target],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(20) != 0
    assert list(suite.tmp.glob("interrupted*")) == []

suite.finish()
