"""clang-tidy over all sources, with the flags of the release build. An answer is kept until what it depends on changes.

Five sixths of the time of a file go into reading its headers: 7 files of src/p2p/explain take 41 s one by one, and 10 s as one. So
where many have changed, up to 30 are read as one first; where they cannot be, half as many, and so on. What shows in a
file alone (an include that it lacks) is found when few have changed, which is when it is written."""

import collections
import json
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

from sources import (
    BUILD,
    COMPILE_DATABASE,
    ROOT,
    cached,
    compile_commands,
    content_key,
    flags_for,
    in_parallel,
    is_known,
    search_path,
    source_files,
    store,
)

FEW = 40  # files; so many are read alone at once
MOST = 30  # files that are read as one

CLANG_TIDY = BUILD / "venv/bin/clang-tidy"
# A name that a file declares at the left margin, roughly; what is a member's definition or a macro's call declares none.
_DECLARED = re.compile(
    r"^(?!#|//|\}|\s|namespace|static_assert|using namespace|using [\w:]+;|[A-Z_]+\()(?:template.*>\s*)?"
    r"(?:(?:class|struct|enum(?: class)?|union|using)\s+(\w+)|[^;=({\n]*?(?<!:)\b(\w+)\s*[({;=\[])",
    re.MULTILINE,
)
_OPENED = re.compile(r"^using (?!testing::|std::|enum )[\w: ]+;", re.MULTILINE)
_INCLUDED = re.compile(r'^#include "(.*)"', re.MULTILINE)
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
    return said_by(result)


def said_by(result):
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


def names_in(path):
    """What a file declares at the left margin, roughly: two files with one name in common can't be read as one."""
    return {found[1] or found[2] for found in _DECLARED.finditer((ROOT / path).read_text())}


def fitting(lists):
    """Longer lists of these lists of files: none of whose names clash."""
    made = []
    for files in sorted(lists):
        names = set().union(*(names_in(path) for path in files))
        for longer, taken in made:
            if len(longer) + len(files) <= MOST and not names & taken:
                longer.extend(files)
                taken |= names
                break
        else:
            made.append(([*files], names))
    return [longer for longer, _ in made]


def groups(paths):
    """(command without the file, its folder, the files) of those that can be read as one, where there are several: compiled by one command,
    under one .clang-tidy. What the release build compiles as one stays together."""
    entries = {Path(entry["directory"], entry["file"]): entry for entry in json.loads(COMPILE_DATABASE.read_text())}
    lists = []
    for together in sorted((BUILD / "release").glob("**/Unity/unity_*.cxx")):
        files = [Path(name) for name in _INCLUDED.findall(together.read_text())]
        lists.append([path.relative_to(ROOT) for path in files if path in entries and path.parent == files[0].parent])
    known = {path for files in lists for path in files}
    lists += [[path] for path in paths - known if ROOT / path in entries]
    alike = collections.defaultdict(list)
    for files in lists:
        if files := [path for path in files if path in paths]:
            entry = entries[ROOT / files[0]]
            opened = frozenset().union(*(opened_in(path) for path in files))
            alike[command_of(entry), entry["directory"], settings_of(files[0]), opened].append(files)
    for (command, directory, *_), of_them in alike.items():
        for files in fitting(of_them):
            if len(files) > 1:
                yield command, directory, files


def opened_in(path):
    """The namespaces whose names a file uses as its own: an ambiguity for others that are read with it."""
    return frozenset(_OPENED.findall((ROOT / path).read_text()))


def settings_of(path):
    return next(folder for folder in path.parents if (ROOT / folder / ".clang-tidy").exists())


def command_of(entry):
    words = entry.get("arguments") or shlex.split(entry["command"])
    return tuple(word for word, before in zip(words, ("", *words)) if word not in ("-o", "-c", entry["file"]) and before != "-o")


def tidy_together(group):
    """What is found in these files, read as one. That one is in their folder for clang-tidy alone."""
    command, directory, files = group
    with tempfile.TemporaryDirectory() as scratch:
        together, real = ROOT / files[0].parent / "together.cpp", Path(scratch, "together.cpp")
        real.write_text("".join(f'#include "{ROOT / path}"\n' for path in files))
        overlay = {"version": 0, "roots": [{"name": str(together), "type": "file", "external-contents": str(real)}]}
        Path(scratch, "overlay.json").write_text(json.dumps(overlay))
        entry = {"directory": directory, "file": str(together), "arguments": [*command, "-c", str(together)]}
        Path(scratch, "compile_commands.json").write_text(json.dumps([entry]))
        command = [CLANG_TIDY, "--quiet", f"--vfsoverlay={scratch}/overlay.json", "-p", scratch, "--checks=-bugprone-suspicious-include"]
        command += [r"--header-filter=(^|/)(src|apps|bench|test|tools)/.*\.[ch]pp$", "--extra-arg=-Wno-unknown-warning-option", str(together)]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return said_by(result)


def check(fix=False):
    """[(case, problem or '')]"""
    context = (version(), settings())

    def key(path):
        flags = flags_for(path)
        return content_key(path, search_path(flags), context, flags)

    found = {}  # in files that were read as one: with the first of them

    def one(path):
        return found[path] if path in found else cached("tidy", key(path), lambda: tidy(path))

    def several(group):
        *compiled, paths = group
        text = tidy_together(group)
        if not text:
            for path in paths:
                store("tidy", key(path), "")
        elif re.search(": (warning|error): ", text) and "clang-diagnostic-error" not in text:
            found.update(dict.fromkeys(paths, ""))
            found[paths[0]] = text
        elif len(paths) > 3:  # they clash: half of them may not
            several((*compiled, paths[: len(paths) // 2]))
            several((*compiled, paths[len(paths) // 2 :]))

    files = [path for path in source_files() if path.suffix in (".c", ".cpp")]
    if fix:
        for path in files:  # one at a time: two may fix the same header
            tidy(path, fix=True)
        return []
    changed = {path for path in files if not is_known("tidy", key(path))}
    if len(changed) > FEW:
        in_parallel(several, list(groups(changed)))
    return [(f"tidy {path}", problem) for path, problem in without_repeats(in_parallel(one, files))]
