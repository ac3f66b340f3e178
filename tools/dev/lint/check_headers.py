"""Every header compiles on its own, twice in one file; the public C headers do so in every dialect that users have. What a file of the
build includes before anything else is read on its own by clang-tidy, which reads each file by itself."""

import re
import shutil
import subprocess

from sources import ROOT, cached, compile_commands, content_key, flags_for, in_parallel, includes, resolve, search_path, source_files

# A user's compiler and dialect; the public headers must be quiet under pedantic warnings in all of them.
PUBLIC_DIALECTS = (("gcc", "c", "c99"), ("gcc", "c", "c11"), ("g++", "c++", "c++11"), ("g++", "c++", "c++23"))
PUBLIC_CXX_DIALECTS = (("g++", "c++20"), ("g++", "c++23"))  # of the public headers with templates
PUBLIC_WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]

_BEGINS_WITH_INCLUDE = re.compile(r"(\s|//.*|/\*(.|\n)*?\*/)*#include")


def compile_alone(header, compiler, language, flags):
    text = f'#include "{ROOT / header}"\n' * 2
    command = [compiler, "-fsyntax-only", "-x", language, *flags, "-"]
    result = subprocess.run(command, input=text, cwd=ROOT, capture_output=True, text=True)
    return "" if result.returncode == 0 else result.stdout + result.stderr or f"exit status {result.returncode}"


def compiler_version(compiler):
    return subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout.partition("\n")[0]


def read_first():
    """The headers, safe to include twice, that a file of the build begins with: 270 of 390, for which g++ would need a minute more."""
    found = set()
    for path, flags in compile_commands().items():
        if _BEGINS_WITH_INCLUDE.match((ROOT / path).read_text()):
            name, quoted = includes(path)[0]
            found.add(resolve(name, quoted, path.parent, search_path(flags)))
    return {header for header in found if header and "#pragma once" in (ROOT / header).read_text()}


def tasks():
    """(case, header, compiler, language, flags)"""
    for header in source_files():
        if header.parts[0] == "include" and header.suffix == ".h":
            for compiler, language, standard in PUBLIC_DIALECTS:
                flags = [f"-std={standard}", *PUBLIC_WARNINGS, "-Iinclude"]
                yield f"header {header} as {standard}", header, compiler, language, flags
        elif header.parts[0] == "include":
            for compiler, standard in PUBLIC_CXX_DIALECTS:
                flags = [f"-std={standard}", *PUBLIC_WARNINGS, "-Iinclude"]
                yield f"header {header} as {standard}", header, compiler, "c++", flags
        elif header.suffix in (".h", ".hpp"):
            yield f"header {header}", header, "g++", "c++", [*flags_for(header), "-Wall", "-Werror"]


def check():
    """[(case, problem or '')]"""
    built = read_first()
    versions = {compiler: compiler_version(compiler) for compiler in ("gcc", "g++") if shutil.which(compiler)}

    def one(task):
        _, header, compiler, language, flags = task
        if header in built and header.parts[0] != "include":
            return ""
        key = content_key(header, search_path(flags), versions[compiler], language, flags)
        return cached("headers", key, lambda: compile_alone(header, compiler, language, flags))

    return [(task[0], problem) for task, problem in in_parallel(one, list(tasks()))]
