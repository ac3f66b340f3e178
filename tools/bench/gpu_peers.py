#!/usr/bin/env python3
"""The MPI libraries that ./dev bench gpu puts beside Isthmus: where they come from, how they are built for, packed and started.

A peer is a folder: its installation, bench_gpu compiled with it, and the UCX with CUDA that it loads in place of its own. It may be moved:
./dev gpu-bundle --peers packs such folders (this program, with --pack), and a bundle's gpu.py finds them in its folder peers.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from peers import Library, Unavailable, last_lines, libraries, make_available  # noqa: E402

UCX_WHEEL = "libucx-cu13==1.22.0"


@dataclass(frozen=True)
class GpuLibrary:
    """An MPI library as gpu.py starts it."""

    key: str
    mpiexec: Path
    program: Path
    options: tuple[str, ...] = ()  # of mpiexec
    environment: tuple[tuple[str, str], ...] = ()  # besides what there is

    def run_environment(self) -> dict[str, str]:
        return {**os.environ, **dict(self.environment)}


# Open MPI's own wheel is built without CUDA: UCX alone tells what it is handed, so that messages without gaps work, and what its processors pack
# or reduce ends in a fault. UCX asks the driver each time: its cache of allocations has to see them being made.
_SETTINGS = {
    "openmpi5": (("OMPI_MCA_pml", "ucx"), ("UCX_MEMTYPE_CACHE", "n"), ("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")),
}


def of_folder(folder: Path) -> GpuLibrary:
    """The peer that such a folder holds, named as the folder."""
    key = folder.name
    # Its own libraries before others of their names that a bundle brings for Isthmus.
    paths = [str(folder / "ucx"), str(folder / "lib/openmpi"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return GpuLibrary(key, folder / "bin/mpiexec", folder / "bench_gpu", options=("--map-by", "core", "--bind-to", "core"),
                      environment=(("LD_LIBRARY_PATH", ":".join(paths)), *_SETTINGS[key]))


def packed(bundle: Path) -> list[GpuLibrary]:
    return [of_folder(folder) for folder in sorted((bundle / "peers").glob("*")) if folder.name in _SETTINGS]


def _copy_library(library: Library, folder: Path) -> None:
    """Without the interpreter of the virtual environment that pip has put it into."""
    for name in ("bin", "lib", "share", "include"):
        shutil.copytree(library.prefix / name, folder / name, symlinks=True,
                        ignore=shutil.ignore_patterns("python*", "pip*", "activate*", "Activate*"))


def _copy_ucx(library: Library, folder: Path) -> None:
    found = next(library.prefix.glob("lib/python3*/site-packages/libucx/lib"), None)
    if not found:
        raise Unavailable(f"{UCX_WHEEL} has no libucx/lib")
    # Each is there under three names.
    for kind in (".", "ucx"):
        (folder / "ucx" / kind).mkdir(parents=True, exist_ok=True)
        for file in (found / kind).glob("*.so.0"):
            shutil.copy(file, folder / "ucx" / kind)


def _compile(folder: Path) -> None:
    source = HERE.parents[1] / "bench"
    command = [str(folder / "bin/mpicxx"), "-O2", "-std=c++20", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", f"-I{source}",
               *map(str, sorted((source / "gpu").glob("*.cpp"))), "-ldl", "-o", str(folder / "bench_gpu")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"it cannot compile bench_gpu: {last_lines(done.stderr)}")


def make(build: Path, keys: list[str]) -> list[GpuLibrary]:
    """Installs each from PyPI into `build`/peers, where it is not there, and makes its folder; Unavailable with the reason."""
    unknown = set(keys) - set(_SETTINGS)
    if unknown:
        raise Unavailable(f"no such library: {', '.join(sorted(unknown))}; there is {', '.join(_SETTINGS)}")
    made = []
    for base in (library for library in libraries(build, build / "prefix") if library.key in keys):
        folder = build / "peers/gpu" / base.key
        library = replace(base, prefix=base.prefix.with_name(f"{base.prefix.name}-cuda"), wheels=(*base.wheels, UCX_WHEEL))
        make_available(library, True, lambda text: print(text, file=sys.stderr, flush=True))
        shutil.rmtree(folder, ignore_errors=True)
        _copy_library(library, folder)
        _copy_ucx(library, folder)
        _compile(folder)
        made.append(of_folder(folder))
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=Path, required=True, metavar="FOLDER", help="where the peers' folders go")
    arguments = parser.parse_args()
    try:
        for library in make(HERE.parents[1] / "build", list(_SETTINGS)):
            shutil.copytree(library.program.parent, arguments.pack / library.key, symlinks=True,
                            ignore=shutil.ignore_patterns("include"), dirs_exist_ok=True)
    except Unavailable as reason:
        print(f"gpu-bundle: a peer cannot be packed: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
