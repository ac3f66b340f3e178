"""mpi4py, built from its source distribution with our mpicc, and the tests that come in that distribution."""

import hashlib
import os
import shutil
import sysconfig
import tarfile

from suite import BUILD, PREFIX, VENV, run

VERSION = "4.1.2"
FOLDER = BUILD / f"mpi4py{'' if PREFIX == BUILD / 'prefix' else '-' + PREFIX.name}"
SOURCE = FOLDER / f"mpi4py-{VERSION}"
TESTS = SOURCE / "test"
SITE = FOLDER / "site"
PYTHON = VENV / "bin/python"


class BuildFailed(AssertionError):
    pass


def _pip(*arguments, env=None):
    command = [PYTHON, "-m", "pip", "--disable-pip-version-check", *arguments]
    result = run(command, timeout=540, env=env)
    if result.status != 0:
        raise BuildFailed(str(result))


def _fetch():
    if TESTS.is_dir():
        return
    _pip("download", "--no-deps", "--no-binary", "mpi4py", "--dest", FOLDER, f"mpi4py=={VERSION}")
    with tarfile.open(FOLDER / f"mpi4py-{VERSION}.tar.gz") as archive:
        archive.extractall(FOLDER, filter="data")


def _key():
    """What the extension module was built from: it is used again until one of these changes. The library itself is not among
    them, because its interface is mpi.h, and the standard ABI is what lets a program go on to the next library."""
    parts = [VERSION, sysconfig.get_config_var("EXT_SUFFIX"), str(PREFIX), str(PYTHON.resolve())]
    parts += [(PREFIX / name).read_text() for name in ("include/mpi.h", "bin/mpicc")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def build():
    """True if it had to be built, False if the one of an earlier run serves."""
    stamp = FOLDER / "built"
    key = _key()
    if stamp.exists() and stamp.read_text() == key and SITE.is_dir() and TESTS.is_dir():
        return False
    FOLDER.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    shutil.rmtree(SITE, ignore_errors=True)
    _fetch()
    # From the file and not by name: pip would take a module out of its cache that was built with another MPI. Not optimised,
    # because only the answers matter here, and the one huge C file takes a compiler long.
    settings = {"MPI4PY_BUILD_MPICC": PREFIX / "bin/mpicc", "MPI4PY_BUILD_MPIABI": "1", "CFLAGS": "-O0 -g0"}
    archive = FOLDER / f"mpi4py-{VERSION}.tar.gz"
    _pip("install", "--no-deps", "--no-binary", "mpi4py", "--target", SITE, archive, env=settings)
    stamp.write_text(key)
    return True


def environment():
    """What a program needs to find this mpi4py, and not one that the user has."""
    path = os.pathsep.join(map(str, (SITE, TESTS)))
    return {"PYTHONPATH": path, "PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
