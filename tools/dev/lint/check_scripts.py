"""The scripts: bash through shellcheck, Python through its compiler; and sizes, as advice only."""

import ast
import re
import shutil
import subprocess
from pathlib import Path

from sources import ROOT, in_parallel, source_files

FOLDERS = ("tools", "test", "bench", "apps", "python", "cmake", ".ci")


def scripts():
    found = [Path("dev")]
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                found.append(path.relative_to(ROOT))
    return found


def interpreter(path):
    if path.suffix == ".py":
        return "python"
    if path.suffix == ".sh":
        return "bash"
    if path.suffix == "":
        with (ROOT / path).open("rb") as file:
            first = file.readline(80)
        if first.startswith(b"#!"):
            return "python" if b"python" in first else "bash" if b"sh" in first else ""
    return ""


def one(path):
    if interpreter(path) == "python":
        try:
            ast.parse((ROOT / path).read_text(), str(path))
        except SyntaxError as error:
            return str(error)
        return ""
    if not shutil.which("shellcheck"):
        command = ["bash", "-n", str(path)]
    else:
        command = ["shellcheck", "--shell=bash", "--severity=warning", "--format=gcc", "-x", "-P", "SCRIPTDIR", "-P", str(ROOT)]
        command.append(str(path))
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return "" if result.returncode == 0 else result.stdout + result.stderr


def check():
    """[(case, problem or '')]"""
    files = [path for path in scripts() if interpreter(path)]
    return [(f"script {path}", problem) for path, problem in in_parallel(one, files)]


# The end of a function's head, and what has such an end but is none.
_HEAD = re.compile(r"\)(?: const| noexcept| override| final| mutable| -> [\w:<>,*& ]+)* \{$")
_LAMBDA = re.compile(r"\[[^\]]*\]\s*\(")
_NO_FUNCTION = re.compile(r"\s*(\} )?(if|for|while|switch|else|catch)\b")


def long_functions(path):
    """(line, lines) of functions over 60 lines. By the layout that clang-format gives: a body ends with '}' in the column in
    which its head began."""
    lines = (ROOT / path).read_text(errors="replace").splitlines()
    for start, line in enumerate(lines):
        head = start
        while head > 0 and lines[head - 1].endswith((",", "(", "||", "&&", "=", "+", "?")):
            head -= 1
        if not _HEAD.search(line) or _NO_FUNCTION.match(lines[head]) or _LAMBDA.search(" ".join(lines[head : start + 1])):
            continue
        indent = re.match(r"\s*", lines[head])[0]
        end = next((i for i in range(start + 1, len(lines)) if lines[i] == indent + "}"), start)
        if end - head + 1 > 60:
            yield head + 1, end - head + 1


def size_advice():
    """What CONTRIBUTING.md asks to be split, as lines of text."""
    advice = []
    for path in source_files():
        if path.parts[0] in ("include", "test"):
            continue  # the standard sets the size of one, and a test may be one long story
        count = len((ROOT / path).read_text(errors="replace").splitlines())
        if count > 500:
            advice.append(f"{path}: {count} lines; a file over 500 asks to be split")
        advice += [f"{path}:{line}: a function of {n} lines; over 60 asks to be split" for line, n in long_functions(path)]
    return advice
