"""./dev test counts what its suites report, and takes a suite that crashes, hangs or lies for a failure."""

import re

GOOD = """# title: a good one
import sys
sys.path.insert(0, "tools/dev")
from suite import Skip, Suite
suite = Suite("good")
with suite.case("passes"):
    suite.expect(suite.run(["sh", "-c", "echo out; exit 4"]), status=4, out="^out$")
with suite.case("skipped"):
    raise Skip("for this test")
suite.finish()
"""
BAD = """. tools/dev/lib.sh
suite_begin bad
expect "passes" 0 hello echo hello
expect "wrong status" 0 '' sh -c 'echo the reason; exit 3'
expect "wrong output" 0 hello echo nothing
SUITE_TIMEOUT=1 expect "too slow" 0 '' sleep 30
suite_end
"""
LONG = """# title: long
import sys
sys.path.insert(0, "tools/dev")
from suite import Suite
suite = Suite("long")
said = ["begun"] + ["much"] * 98 + ["==7==ERROR: AddressSanitizer: the reason", "    #0 the place"] + ["more"] * 98 + ["over"]
with suite.case("says much"):
    suite.expect(suite.run(["printf", r"%s\\n", *said]), status=1)
suite.finish()
"""
ASKING = """# title: asks several times
import sys
sys.path.insert(0, "tools/dev")
from suite import Suite, ask_until
suite = Suite("asking")
answers = iter(range(100))
with suite.case("the first that settles it"):
    assert ask_until(4, lambda: next(answers), lambda answer: answer == 3) == 3
    assert next(answers) == 4
with suite.case("none of three"):
    ask_until(3, lambda: next(answers), lambda answer: answer == 8)
with suite.case("no more than three"):
    assert next(answers) == 8
with suite.case("wrong at once"):
    def question():
        assert next(answers) < 9, "not true of every answer"
    ask_until(100, question, lambda answer: False)
with suite.case("asked once"):
    assert next(answers) == 10
suite.finish()
"""
CRASHED = 'echo "ok: one"\nkill -SEGV $$\n'
HANGING = '# timeout: 2\necho "ok: one"\nsleep 60\n'
LYING = 'echo "lying: 1 passed, 0 failed"\nexit 1\n'
SLOW = 'sleep 1.2\necho "ok: one"\necho "slow: 1 passed, 0 failed"\n'
# The second asks for what takes long; whoever is first waits until that has begun.
FIRST = 'for i in $(seq 200); do [ -e "$DEV_LOGS/begun" ] && break; sleep 0.05; done\n' \
        'echo "ok: one"\necho "first: $([ -e "$DEV_LOGS/begun" ] && echo 1) passed, 0 failed"\n'  # fmt: skip
SECOND = '# ahead: chrt -p $$ >"$DEV_LOGS/begun"; sleep 300\necho "ok: one"\necho "second: 1 passed, 0 failed"\n'
EMPTY = 'echo "empty: 0 passed, 0 failed"\n'


def run(suite, name, files, arguments=()):
    folder = suite.tmp / name
    folder.mkdir()
    for file, text in files.items():
        (folder / file).write_text(text)
    logs = folder / "logs"
    return suite.run(
        ["python3", "tools/dev/test.py", "--no-build", *arguments], env={"DEV_SUITES": folder, "DEV_LOGS": logs}, timeout=60
    )


def last_line(result):
    return result.out.rstrip().rpartition("\n")[2]


def cases(suite):
    def outcome(name, files, status, line, shows=".", arguments=()):
        with suite.case(f"runner: {name}"):
            result = run(suite, re.sub(r"\W", "-", name), files, arguments)
            suite.expect(result, status=status, out=shows)
            assert last_line(result) == line, f"the last line is not '{line}':\n{result}"

    outcome("a suite in Python", {"10-good.py": GOOD}, 0, "1 passed, 0 failed, 1 skipped", shows="a good one")
    outcome("a question is asked until an answer settles it, and no more often than said", {"10-asking.py": ASKING}, 1, "3 passed, 2 failed",
            shows="asked 3 times, and none settles it: 7(.|\n)*not true of every answer")  # fmt: skip
    outcome("a suite in bash, and why its cases failed", {"10-bad.sh": BAD}, 1, "1 passed, 3 failed", shows="the reason")
    complaint = r"99 lines left out \.\.\.\n +==7==ERROR: AddressSanitizer: the reason\n +#0 the place\n(.*\n)+ +over$"
    outcome("what a sanitizer says comes before what else a command printed", {"10-long.py": LONG}, 1, "0 passed, 1 failed", shows=complaint)
    outcome("sums over suites", {"10-good.py": GOOD, "20-bad.sh": BAD}, 1, "2 passed, 3 failed, 1 skipped")
    outcome("only the named suite", {"10-good.py": GOOD, "20-bad.sh": BAD}, 0, "1 passed, 0 failed, 1 skipped", arguments=["good"])
    outcome("a suite that crashes has failed", {"10-crashed.sh": CRASHED}, 1, "1 passed, 1 failed", shows="without its summary")
    outcome("a suite that hangs has failed", {"10-hanging.sh": HANGING}, 1, "1 passed, 1 failed", shows="did not end within 2 s")
    outcome("a suite that belies itself has failed", {"10-lying.sh": LYING}, 1, "0 passed, 1 failed", shows="belies")
    outcome("a suite without a case has failed", {"10-empty.sh": EMPTY}, 1, "0 passed, 1 failed", shows="ran no case")
    outcome("the slowest suites are named at the end", {"10-good.py": GOOD, "20-slow.sh": SLOW}, 0, "2 passed, 0 failed, 1 skipped",
            shows=r"the slowest: slow \d s, good \d s\n")  # fmt: skip
    outcome("what a later suite asks for is begun before, and ended after the last", {"10-first.sh": FIRST, "20-second.sh": SECOND},
            0, "2 passed, 0 failed")  # fmt: skip
    with suite.case("runner: it has what nobody else wants of the processors"):
        begun = next(suite.tmp.glob("what-a-later*/logs/begun")).read_text()
        assert "SCHED_IDLE" in begun, begun
    with suite.case("runner: --changed chooses by itself"):
        suite.expect(run(suite, "both", {"10-good.py": GOOD}, ["good", "--changed"]), status=2, err="chooses the suites itself")
    with suite.case("runner: an unknown suite is named"):
        suite.expect(run(suite, "unknown", {"10-good.py": GOOD}, ["better"]), status=2, err="better.*good")
