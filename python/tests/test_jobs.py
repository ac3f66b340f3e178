"""Programs of chares, at several numbers of processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MPIEXEC = os.environ.get("DEV_MPIEXEC", "mpiexec")
PROGRAM = Path(__file__).with_name("program.py")
GOOD = "entries,arrays,errors,reductions,channels,beside"


def job(names, ranks, *more, **settings):
    command = [MPIEXEC, "-n", str(ranks), sys.executable, str(PROGRAM), names, *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **settings})


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_programs_check_themselves(ranks):
    result = job(GOOD, ranks)
    assert result.returncode == 0 and not result.stdout + result.stderr, result.stdout + result.stderr


def test_without_copies_by_the_kernel():
    result = job("arrays,channels", 2, ISTHMUS_CMA="off")
    assert result.returncode == 0 and not result.stdout + result.stderr, result.stdout + result.stderr


@pytest.mark.parametrize(
    "name, status, texts",
    [
        ("raises", 1, ["ValueError: of main", "in raises"]),
        ("lost", 1, ["chare __main__.Cell[9]", "entry __main__.Cell.fail", "KeyError: 'nobody waits'", "in fail"]),
        ("lost_later", 1, ["fail_later", "Stubborn: nobody waits either"]),
        ("leaves", 7, []),
    ],
)
def test_what_ends_a_job(name, status, texts):
    result = job(name, 2)
    assert result.returncode == status, result.stderr
    for text in texts:
        assert text in result.stderr, result.stderr


@pytest.mark.parametrize("first", [(), ("mpi4py first",)])
def test_mpi4py_in_the_same_process(first):
    pytest.importorskip("mpi4py", reason="it is built by the suite mpi4py")
    result = job("mpi", 2, *first)
    assert result.returncode == 0, result.stdout + result.stderr
