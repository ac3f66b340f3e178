"""clang-tidy over all sources, with the flags of the release build. An answer is kept until what it depends on changes."""

import re
import subprocess

from sources import (
    BUILD,
    COMPILE_DATABASE,
    ROOT,
    cached,
    compile_commands,
    content_key,
    flags_for,
    in_parallel,
    search_path,
    source_files,
)

CLANG_TIDY = BUILD / "venv/bin/clang-tidy"
_DIAGNOSTIC = re.compile(r"^(/\S+?:\d+:\d+): (warning|error): .*", re.MULTILINE)


def version():
    return subprocess.run([CLANG_TIDY, "--version"], capture_output=True, text=True).stdout


def settings():
    """The text of every .clang-tidy of the tree, since one in a folder refines the one above it."""
    return [path.read_text() for path in [ROOT / ".clang-tidy", *sorted(ROOT.glob("[a-z]*/**/.clang-tidy"))]]


def tidy(path, fix=False):
    command = [CLANG_TIDY, "--quiet", *(["--fix"] if fix else []), str(path)]
    if path in compile_commands():
        command += ["-p", str(COMPILE_DATABASE.parent), "--extra-arg=-Wno-unknown-warning-option"]
    else:
        command += ["--", *flags_for(path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if result.returncode == 0 and not _DIAGNOSTIC.search(result.stdout):
        return ""
    return (result.stdout or result.stderr).replace(f"{ROOT}/", "") or f"exit status {result.returncode}"


def without_repeats(results):
    """A finding in a header comes once for each file that includes it: shown with the first."""
    seen = set()
    for path, text in results:
        kept, keep = [], True
        for line in text.splitlines():
            if re.match(r"\S+?:\d+:\d+: (warning|error): ", line):
                keep = line not in seen
                seen.add(line)
            if keep:
                kept.append(line)
        yield path, "\n".join(kept) if kept or not text else "only findings in headers that are shown above"


def check(fix=False):
    """[(case, problem or '')]"""
    context = (version(), settings())

    def one(path):
        flags = flags_for(path)
        key = content_key(path, search_path(flags), context, flags)
        return cached("tidy", key, lambda: tidy(path))

    files = [path for path in source_files() if path.suffix in (".c", ".cpp")]
    if fix:
        for path in files:  # one at a time: two may fix the same header
            tidy(path, fix=True)
        return []
    return [(f"tidy {path}", problem) for path, problem in without_repeats(in_parallel(one, files))]
