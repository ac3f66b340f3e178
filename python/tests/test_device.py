"""Kernels that communicate, from Python: docs/device.md."""

import ctypes
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "python/examples/device_ring.py"


def example():
    spec = importlib.util.spec_from_file_location("device_ring", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def why_not():
    """Why kernels of CuPy cannot run here; empty where they can."""
    for name in ("cupy", "mpi4py"):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed"
    import cupy

    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no GPU: {error}"
    return ""


def test_the_view_is_that_of_the_header():
    text = (ROOT / "include/isthmus/device_view.h").read_text()
    body = re.search(r"typedef struct isthmus_device_view \{(.*?)\}", text, re.DOTALL).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
    wanted = [(name, 8 if "*" in type_ else 4) for type_, name in re.findall(r"([\w *]+?)\s*(?<![\w])(\w+);", body)]
    view = example().View
    assert [(name, ctypes.sizeof(kind)) for name, kind in view._fields_] == wanted
    assert ctypes.sizeof(view) == 64


@pytest.mark.skipif(bool(why_not()), reason=why_not() or "it can")
def test_a_ring_of_cupy_kernels():
    result = subprocess.run(
        [os.environ["DEV_MPIEXEC"], "-n", "2", sys.executable, EXAMPLE, ROOT / "include"], capture_output=True, text=True, timeout=100
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count(": right") == 2
