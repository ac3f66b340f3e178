"""The programs of python/examples have the answers that they should have."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

MPIEXEC = os.environ.get("DEV_MPIEXEC", "mpiexec")
EXAMPLES = Path(__file__).parents[1] / "examples"


def jacobi3d(ranks, *words):
    command = [MPIEXEC, "-n", str(ranks), sys.executable, str(EXAMPLES / "jacobi3d.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("ranks, parts", [(1, 1), (2, 2), (2, 8), (3, 3)])
def test_jacobi3d_has_the_answer_of_the_program_in_c(ranks, parts):
    result = jacobi3d(ranks, "-n", "24", "--parts", str(parts))
    assert result.returncode == 0 and not result.stderr, result.stdout + result.stderr
    # Sines of NumPy and of the C library differ in the last bit.
    error = re.search(r"error (\S+) against the analytic solution, allowed \S+: correct", result.stdout)
    assert error and abs(float(error[1]) / 8.235395283e-04 - 1) < 1e-9, result.stdout


def test_jacobi3d_that_has_not_converged_says_so():
    result = jacobi3d(2, "-n", "24", "--iterations", "5")
    assert result.returncode == 1 and "WRONG" in result.stdout, result.stdout + result.stderr


def test_jacobi3d_on_a_gpu():
    cupy = pytest.importorskip("cupy", reason="there is no CuPy")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        pytest.skip("there is no GPU")
    for more in ((), ("--staged",)):
        result = jacobi3d(2, "-n", "24", "--gpu", *more)
        assert result.returncode == 0, result.stdout + result.stderr
