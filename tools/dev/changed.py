"""What a change can reach: the suites that ./dev test --changed runs. From git, what suites read, and the build's own dependency files."""

import ast
import fnmatch
import functools
import os
import re
import subprocess
from pathlib import Path

from suite import BUILD, ROOT

# How programs are built: a change there is one of all programs.
BUILD_FILES = ("CMakeLists.txt", "CMakePresets.json", "cmake/*", "*/CMakeLists.txt", "tools/dev/*packages.txt")
# Where the modules lie that suites import.
MODULES = ("tools/dev", "tools/dev/lint", "tools/bench", "test/dev", "test/mpi4py", "test/abi")
_MENTIONED = re.compile(r"\b(?:test|apps|bench|tools|include)(?:/[\w.-]+)+")


def git(root, *arguments):
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout


def base_of(root, wanted=""):
    """The commit that changes are counted from: where this branch left `wanted` (main), or HEAD on main itself."""
    if not wanted:
        known = git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads/main", "refs/remotes/origin/main").split()
        wanted = known[0] if known else "HEAD"
    return git(root, "merge-base", wanted, "HEAD").strip()


def files_since(root, base):
    """Files that differ from that commit in the working tree, committed or not, and what git does not know yet. A renamed file has both its names."""
    listed = git(root, "diff", "--name-only", "--no-renames", "-z", base) + git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return sorted(set(filter(None, listed.split("\0"))))


def imported(path):
    """The file and what it imports of ours, directly or not, relative to the root."""
    seen, todo = set(), [path]
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        if current.suffix != ".py":
            continue
        names = set()
        for node in ast.walk(ast.parse(current.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(".py"):
                todo += [ROOT / node.value] if (ROOT / node.value).is_file() else []
        todo += [ROOT / folder / f"{name}.py" for name in names for folder in MODULES if (ROOT / folder / f"{name}.py").is_file()]
    return seen


def patterns_read(suite):
    """What the suite reads itself: its modules, and the files and folders of the tree that these name."""
    patterns = set(suite.reads)
    for path in imported(suite.path):
        if path.is_relative_to(ROOT):
            patterns.add(str(path.relative_to(ROOT)))
        for name in _MENTIONED.findall(path.read_text()):
            if name in MODULES:  # of these folders what is imported
                continue
            if (ROOT / name).is_dir():
                patterns.add(f"{name}/*")
            elif (ROOT / name).is_file():
                patterns.add(name)
    return patterns


@functools.cache
def _dependencies(build):
    """object -> files of the tree that it was compiled from, as the compilers said."""
    found, current = {}, None
    output = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True).stdout
    for line in output.splitlines():
        if line.startswith(" "):
            path = Path(os.path.normpath(Path(build, line.strip())))
            if path.is_relative_to(ROOT) and not path.is_relative_to(BUILD):
                current.add(str(path.relative_to(ROOT)))
        elif ": #deps" in line:
            current = found.setdefault(line.partition(": #deps")[0], set())
    return found


@functools.cache
def _reach_of(target, build):
    result = subprocess.run(["ninja", "-C", build, "-t", "inputs", target], capture_output=True, text=True)
    if result.returncode != 0:  # not built on this machine
        return frozenset()
    files = set()
    for line in result.stdout.splitlines():
        name = line.strip()
        files |= _dependencies(build).get(name, set())
        path = Path(os.path.normpath(Path(build, name)))
        if path.is_relative_to(ROOT) and not path.is_relative_to(BUILD):
            files.add(str(path.relative_to(ROOT)))
    return frozenset(files)


def installed(build=BUILD / "release"):
    """What a suite runs that says nothing else (`# runs:`): what is installed."""
    listed = build / "installed-targets"
    return tuple(listed.read_text().split(";")) if listed.exists() else ()


def files_in(targets, build=BUILD / "release"):
    """The files of the tree that the programs and libraries are built from."""
    return frozenset().union(*(_reach_of(target, build) for target in targets))


def matches(file, patterns):
    """Whether one of the patterns has the file, and none that begins with `!`."""
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")]
    unwanted = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    return any(fnmatch.fnmatchcase(file, pattern) for pattern in wanted) and not any(fnmatch.fnmatchcase(file, pattern) for pattern in unwanted)


def verdict(suite, changes, programs=files_in):
    """("run", the file for which) or ("about", a file that its programs hold but that it is not about) or ("", "")."""
    read = patterns_read(suite)
    for file in changes:
        if matches(file, read):
            return "run", file
    held = ""
    inside = programs(suite.runs or installed()) if suite.runs != ("none",) else frozenset()
    for file in changes:
        if inside and matches(file, BUILD_FILES) and "none" not in suite.about:
            return "run", file
        if file in inside:
            if not suite.about or matches(file, suite.about):
                return "run", file
            held = file
    return ("about", held) if held else ("", "")
