# title: the tuning table, the settings, and what explain tells machines
# timeout: 300
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, "tools/dev")
from suite import PREFIX, Suite

suite = Suite("tune")
ISTHMUS = PREFIX / "bin/isthmus"
MPIEXEC = PREFIX / "bin/mpiexec"
PAIR = PREFIX / "libexec/isthmus/measure_pair"
TABLE = suite.tmp / "tuning.json"
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
    assert good["isthmus_tuning"] == 1 and len(good["values"]) == 6, good
    assert all(value["why"] and value["origin"] in ("tuned", "default") for value in good["values"].values()), good
    assert list(TABLE.parent.glob("tuning.json.*")) == []

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
    ways = {one["protocol"]: one["sent"]["messages"] for one in many["traffic"]}
    assert ways["eager"] >= 64, ways
    result = suite.run([ISTHMUS, "explain", "mpiexec", "-n", 2, PAIR, "bandwidth", 3, 8192], env=CONFIG, timeout=60)
    suite.expect(result, status=0, err=r"workload of the sends: bandwidth-bound \(100 % nonblocking\), since message 256")

with suite.case("a pair that plays ping-pong stays in the latency column"):
    _, report = job("ISTHMUS_EAGER_LIMIT=4K", "ISTHMUS_BANDWIDTH_EAGER_LIMIT=64K", size=16384)
    one = report["ranks"][0]["peers"][1]
    assert one["workload"]["kind"] != "bandwidth" and one["workload"]["eager_limit"] == 4096, one
    assert "eager" not in [way["protocol"] for way in one["traffic"]], one

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
