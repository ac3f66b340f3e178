# title: isthmus simulate: its curves, its verdict over measured points, what it refuses, its drawing
# timeout: 180
# runs: isthmus mpiexec jacobi3d bench_chare_data
# about: tools/isthmus/* apps/jacobi3d/decomposition* tools/bench/scaling.py
"""What it works out is held against hand-made cases by the unit tests."""

import json
import sys

sys.path.insert(0, "tools/dev")
from suite import PREFIX, VENV, Skip, Suite

suite = Suite("simulate")
ISTHMUS = PREFIX / "bin/isthmus"
COSTS = {
    "name": "made up", "gpus_per_host": 8, "sweep": [[0, 5], [262144, 12], [134217728, 1500]],
    "allreduce": [[2, 12], [1536, 80]], "weak_edge": 256, "strong_n": 768,
    "ways": [
        {"name": "direct", "host": [[8, 3], [1048576, 8], [16777216, 60]], "network": [[8, 5], [1048576, 48], [16777216, 720]], "faces": [[0, 6], [1572864, 40]]},
        {"name": "staged", "host": [[8, 25], [1048576, 150], [16777216, 1700]], "faces": [[0, 16], [1572864, 60]]},
    ],
    "measured": [{"way": "direct", "gpus": 2, "n": 512, "iteration": 800.0}, {"way": "staged", "gpus": 4, "n": 256, "iteration": 230.0}],
}  # fmt: skip


def simulate(costs, *options, **expected):
    file = suite.tmp / "costs.json"
    file.write_text(costs if isinstance(costs, str) else json.dumps(costs))
    return suite.expect(suite.run([ISTHMUS, "simulate", file, *options], timeout=60), **expected)


with suite.case("curves to 1,536 GPUs, beside what was measured"):
    result = simulate(COSTS, out=r"weak scaling, 256\^3 points a GPU(.|\n)*strong scaling, 768\^3 points(.|\n)* 1536 ")
    assert '"staged" ends at 8 GPUs: it has no curve for the "network"' in result.out, result
    found = json.loads(simulate(COSTS, "--json").out)
    assert [point["gpus"] for point in found["weak"][0]["points"]][-3:] == [512, 1024, 1536], found
    assert len(found["weak"][1]["points"]) == 4 and len(found["checked"]) == 2, found
    for curve in found["strong"]:
        times = [point["iteration"] for point in curve["points"]]
        assert all(time > 0 for time in times), curve
    direct, staged = (curve["points"] for curve in found["weak"])
    assert all(one["iteration"] <= other["iteration"] for one, other in zip(direct, staged)), found
    assert simulate(COSTS).out == result.out, "another answer the second time"
with suite.case("a measured point that is too far off fails, and says how far"):
    exact = json.loads(simulate(COSTS, "--json").out)["checked"]
    for point, checked in zip(COSTS["measured"], exact):
        point["iteration"] = checked["predicted"] * 1.05
    simulate(COSTS, "--within", "6", status=0, out="the worst is 4.8 % off")
    simulate(COSTS, "--within", "4", status=1, err="a measured point is 4.8 % off, more than 4 %")
    simulate({**COSTS, "measured": []}, "--within", "4", status=1, err="has no measured points, so nothing was compared")
with suite.case("files that are none are refused with a sentence"):
    simulate("{", status=2, err="costs.json: it is no JSON")
    simulate({**COSTS, "sweep": [[5, 1], [4, 2]]}, status=2, err='"sweep": its sizes do not grow at point 2')
    simulate({**COSTS, "measured": [{"way": "staged", "gpus": 16, "n": 256, "iteration": 1}]}, status=2, err="has no curve for the network")
    simulate({**COSTS, "measured": [{"way": "direct", "gpus": 7, "n": 3, "iteration": 1}]}, status=2, err="which it cannot be cut for")
    suite.expect(suite.run([ISTHMUS, "simulate", suite.tmp / "none"]), status=2, err="cannot be read: No such file")
    suite.expect(suite.run([ISTHMUS, "simulate"]), status=2, err="COSTS is required")
with suite.case("one command measures, writes the costs, and says how far off each point is, on 1 and 2"):
    command = [sys.executable, "tools/bench/scaling.py", "--host", "--sizes", "8,16,24", "--bytes", "8,1024", "--iterations", 3, "--runs", 1]
    file = suite.tmp / "measured.json"
    result = suite.run([*command, "--output", file, "--within", 1000], timeout=120)
    suite.expect(result, status=None, out=r"the worst is [\d.]+ % off")
    measured = json.loads(file.read_text())["measured"]
    # On one between the edges that are swept: 8 to 14 by 2, 16, 19 (half of 24) and 24.
    held_against = [(1, 9), (1, 11), (1, 13), (1, 15), (1, 17), (1, 21), (2, 16)]
    assert [(point["gpus"], point["n"]) for point in measured] == held_against, measured
    lines = [line for line in result.out.splitlines() if line.split()[:1] == ["direct"] and "us" not in line]
    assert [line.split()[1:3] for line in lines if len(line.split()) == 6] == [[str(gpus), str(n)] for gpus, n in held_against], result
    suite.expect(suite.run([*command, "--bytes", "8"]), status=1, err="--bytes needs two sizes")
    suite.expect(suite.run([*command, "--sizes", "8,16"]), status=1, err="--sizes needs three edges")
with suite.case("a picture"):
    environment = {"PATH": f"{VENV / 'bin'}:/usr/bin:/bin"}
    picture = suite.tmp / "curves.svg"
    file = suite.tmp / "costs.json"
    file.write_text(json.dumps(COSTS))
    result = suite.run([ISTHMUS, "simulate", file, "--picture", picture], env=environment, timeout=60)
    if "finds no matplotlib" in result.err:
        raise Skip("matplotlib is not there")
    suite.expect(result, err="drawn: ")
    assert "weak scaling" in picture.read_text() and "predicted / measured" in picture.read_text()
    result = suite.run([ISTHMUS, "simulate", file, "--picture", suite.tmp / "nowhere/at.svg"], env=environment, timeout=60)
    suite.expect(result, status=1, err="nothing is drawn: No such file or directory")
suite.finish()
