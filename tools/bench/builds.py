"""Compiles the suite with a library's own mpicxx, file by file, and keeps what came of it until a source or the library changes."""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from peers import Library, Unavailable, last_lines

PROGRAM = "isthmus_bench"


def find_sources() -> Path:
    """The folder with suite/ and common/: beside these scripts where they are installed, else the repository's bench/."""
    here = Path(__file__).resolve().parent
    installed = here.parent / "source"
    return installed if (installed / "suite").is_dir() else here.parents[1] / "bench"


def declarations_of(folder: Path) -> Path:
    """Where gpu/driver/cuda_types.hpp and cuda_api.hpp are: with the installed sources, else in the repository's src/."""
    return folder if (folder / "gpu/driver").is_dir() else folder.parent / "src"


def sources_of(folder: Path) -> list[Path]:
    return sorted((folder / "suite").rglob("*.cpp"))


def fingerprint(library: Library, folder: Path) -> str:
    """Changes with the sources, with the wrapper, and with what the wrapper says it does (paths and flags)."""
    digest = hashlib.sha256()
    declarations = (declarations_of(folder) / "gpu/driver").glob("cuda_*.hpp")
    for path in sorted([*(folder / "suite").rglob("*.[ch]*"), *(folder / "common").rglob("*.[ch]*"), *declarations]):
        digest.update(f"{path.name} ".encode() + path.read_bytes())
    compiler = shutil.which(library.expand(library.mpicxx)) or ""
    shown = subprocess.run([compiler, "-show"], capture_output=True, text=True, check=False, env=library.run_environment())
    digest.update(f"{compiler} {shown.stdout}".encode())
    return digest.hexdigest()


def command_for(library: Library, folder: Path, source: Path, output: Path) -> list[str]:
    whole = library.compile_command([source], folder, output)
    return [whole[0], "-c", f"-I{declarations_of(folder)}", *whole[1:]]


def build_suite(library: Library, folder: Path, build: Path, jobs: int) -> Path:
    """The program; raises Unavailable with the compiler's words. An installation of Isthmus brings its own."""
    if library.prefix is not None and (ready := library.prefix / "libexec" / "isthmus" / "bench" / PROGRAM).exists():
        return ready
    target = build / "suite" / library.key.partition(":")[0]
    program, stamp = target / PROGRAM, target / "fingerprint"
    wanted = fingerprint(library, folder)
    if program.exists() and stamp.exists() and stamp.read_text() == wanted:
        return program
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    environment = library.run_environment()

    def compile_one(item: tuple[int, Path]) -> Path:
        number, source = item
        output = target / f"{number}.o"
        _run(command_for(library, folder, source, output), environment, library)
        return output

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        objects = list(pool.map(compile_one, enumerate(sources_of(folder))))
    compiler = library.expand(library.mpicxx)
    _run([compiler, "-pthread", *map(str, objects), "-o", str(program), "-ldl"], environment, library)
    for file in objects:
        file.unlink()
    stamp.write_text(wanted)
    return program


def _run(command: list[str], environment: dict[str, str], library: Library) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Unavailable(f"cannot build the benchmarks with {library.expand(library.mpicxx)}: {last_lines(done.stderr)}")


def jobs() -> int:
    return max(1, len(os.sched_getaffinity(0)))
