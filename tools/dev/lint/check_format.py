"""The sources are as clang-format writes them with .clang-format."""

import subprocess

from sources import ROOT, in_parallel, source_files

CLANG_FORMAT = "clang-format-19"


def one(path):
    result = subprocess.run([CLANG_FORMAT, str(path)], cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        return result.stderr
    had, wanted = (ROOT / path).read_text().splitlines(), result.stdout.splitlines()
    if had == wanted:
        return ""
    line = next((i for i, (a, b) in enumerate(zip(had, wanted)) if a != b), min(len(had), len(wanted)))
    return f"{path}:{line + 1}: not as clang-format writes it; ./dev format does"


def check():
    """[(case, problem or '')]"""
    return [(f"format {path}", problem) for path, problem in in_parallel(one, source_files())]


def rewrite():
    """Formats all sources in place."""
    files = [str(path) for path in source_files()]
    subprocess.run([CLANG_FORMAT, "-i", *files], cwd=ROOT, check=True)
    return len(files)
