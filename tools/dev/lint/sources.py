"""The project's source files, what they include, and a cache of checks by content. Shared by the parts of ./dev lint."""

import concurrent.futures
import functools
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for suite.py
from suite import BUILD, ROOT

FOLDERS = ("src", "include", "apps", "bench", "test", "tools")
SUFFIXES = (".c", ".cpp", ".h", ".hpp")
# The release build's, but with a command for each file: the build itself compiles several together (cmake/CompileTime.cmake).
COMPILE_DATABASE = BUILD / "database" / "compile_commands.json"
# Outside of the tree, as ccache's: a fresh clone has the same files. No key and no answer names the tree's own place.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isthmus-lint"

_INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


@functools.cache
def source_files():
    """All C and C++ files, relative to the root."""
    found = []
    for folder in FOLDERS:
        for directory, folders, files in os.walk(ROOT / folder):
            folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
            found += [Path(directory, name).relative_to(ROOT) for name in sorted(files) if name.endswith(SUFFIXES)]
    return found


@functools.cache
def includes(path):
    """(text between the quotes or brackets, whether quotes) of each #include of a file, in order."""
    text = (ROOT / path).read_text(errors="replace")
    return [(quoted or angled, bool(quoted)) for quoted, angled in _INCLUDE.findall(text)]


@functools.cache
def resolve(name, quoted, directory, search):
    """The file of this repository (generated ones in build/ too) that an #include names, or None for a system header."""
    for folder in ((directory,) if quoted else ()) + search:
        path = Path(os.path.normpath(ROOT / folder / name))
        if path.is_file():
            return path.relative_to(ROOT) if path.is_relative_to(ROOT) else None
    return None


def closure(path, search):
    """The file and all files of this repository that it includes, directly or not."""
    seen, todo = set(), [Path(path)]
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        for name, quoted in includes(current):
            if found := resolve(name, quoted, current.parent, search):
                todo.append(found)
    return sorted(seen)


@functools.cache
def _file_hash(path):
    return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()


@functools.cache
def installed():
    """Debian's packages with their versions: what brings the headers that are not ours."""
    return subprocess.run(["dpkg-query", "-W", "*-dev", "g++*", "clang*"], capture_output=True, text=True, check=True).stdout


def content_key(path, search, *context):
    """Changes when the file, anything of ours that it includes, an installed package with headers, or the context (flags, versions,
    settings) changes."""
    digest = hashlib.sha256(repr((context, installed())).replace(str(ROOT), "").encode())
    for file in closure(path, search):
        digest.update(f"{file} {_file_hash(file)}\n".encode())
    return digest.hexdigest()[:32]


@functools.cache
def compile_commands():
    """file -> flags that matter for reading it (-I, -isystem, -D, -std...), from the compile database."""
    commands = {}
    for entry in json.loads(COMPILE_DATABASE.read_text()):
        path = Path(os.path.normpath(Path(entry["directory"], entry["file"])))
        if path.is_relative_to(ROOT) and not path.is_relative_to(BUILD):
            words = entry.get("arguments") or shlex.split(entry["command"])
            commands[path.relative_to(ROOT)] = reading_flags(words, Path(entry["directory"]))
    return commands


def reading_flags(words, directory):
    flags, i = [], 1
    while i < len(words):
        word = words[i]
        if word in ("-I", "-isystem", "-D", "-include"):
            i += 1
            word += words[i]
        for option in ("-isystem", "-include", "-I"):
            if word.startswith(option):
                flags += [option, os.path.normpath(directory / word[len(option) :])]
                break
        else:
            if word.startswith(("-D", "-std=", "-f", "-m", "-pthread")) and not word.startswith(("-fsanitize", "-fdiag")):
                flags.append(word)
        i += 1
    return flags


def search_path(flags):
    return tuple(flags[i + 1] for i, flag in enumerate(flags[:-1]) if flag in ("-I", "-isystem"))


def flags_for(path):
    """The flags of this file's own entry, else of the nearest one of its top folder. What the build does not compile (programs
    that suites and benchmarks compile with mpicxx) gets what mpicxx would give."""
    commands = compile_commands()
    if path in commands:
        return commands[path]

    def common(other):
        return len(os.path.commonprefix([path.parts, other.parts]))

    c_language = path.suffix == ".c"
    nearest = max((other for other in commands if (other.suffix == ".c") == c_language), key=common, default=None)
    if nearest is not None and common(nearest) >= min(2, len(path.parts) - 1):
        return commands[nearest]
    folders = [path.parts[0], "include"] + (["src"] if path.parts[0] in ("test", "tools") else [])
    folders += ["tools/mpiexec", "test/emulated/cuda"] if path.parts[:2] == ("test", "fuzz") else []
    return ["-std=c11" if c_language else "-std=c++23", *(word for name in folders for word in ("-I", str(ROOT / name)))]


def jobs():
    result = subprocess.run(["bash", "-c", ". tools/dev/lib.sh && dev_jobs"], cwd=ROOT, capture_output=True, text=True)
    return int(result.stdout or 1)


def is_known(folder, key):
    """Whether there is a stored answer for this key."""
    return (CACHE / folder / key).exists()


def store(folder, key, answer):
    file = CACHE / folder / key
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}")
    partial.write_text(answer)
    partial.rename(file)


def cached(folder, key, produce):
    """The stored answer for this key, or `produce()`'s, stored. Answers are text; empty means that all is well."""
    file = CACHE / folder / key
    if file.exists():
        os.utime(file)
        return file.read_text()
    answer = produce()
    store(folder, key, answer)
    return answer


def prune_cache(days=30):
    for file in CACHE.glob("*/*"):
        if file.stat().st_mtime < time.time() - days * 86400:
            file.unlink(missing_ok=True)


def in_parallel(function, items):
    """[(item, function(item))] in the order of the items."""
    with concurrent.futures.ThreadPoolExecutor(jobs()) as pool:
        return list(zip(items, pool.map(function, items)))
