"""The order of the folders in src/ and in tools/mpiexec, as their layers.txt give it; folders that one can survey and that say what
they are for; and that apps/ and bench/ are plain MPI programs."""

from collections import Counter
from pathlib import Path

from sources import ROOT, includes, source_files

# Folders that have an order, written in layers.txt there.
ORDERED = ("src", "tools/mpiexec")
# More files than that are several folders that nobody has made yet.
MOST_FILES = 25
# What the README of a folder in src/ says, each in a paragraph.
SAID = ("**Here:** ", "**Not here:** ")


class Layers:
    """Which folder may include which, of those below `top`."""

    def __init__(self, text, top="src"):
        self._top = top
        self._level = {}  # pattern ("base", "channel/*") -> number of its line
        for number, line in enumerate(text.splitlines()):
            for pattern in line.partition("#")[0].split():
                self._level[pattern] = number

    def folder_of(self, path):
        """The layer that a file (path relative to the top) belongs to: (its folder, its level), or None if unlisted."""
        folders = path.parts[:-1]
        for depth in range(len(folders), 0, -1):
            name = "/".join(folders[:depth])
            wildcard = "/".join(folders[: depth - 1] + ("*",))
            for pattern in (name, wildcard):
                if pattern in self._level and pattern != "*":
                    return name, self._level[pattern]
        return None

    def unlisted(self, path):
        return f"{self._top}/{path.parent} is not in {self._top}/layers.txt: give the folder its place in the order"

    def objection(self, includer, included):
        """Why the one file (both relative to the top) may not include the other, or nothing."""
        here, there = self.folder_of(includer), self.folder_of(included)
        if here is None:
            return self.unlisted(includer)
        if there is None:
            return f"includes {included}, whose folder is not in {self._top}/layers.txt"
        if here[0] == there[0] or there[1] < here[1]:
            return ""
        relation = "a peer of" if there[1] == here[1] else "above"
        return f"includes {included}: {there[0]} is {relation} {here[0]} in the order of {self._top}/layers.txt"


def included_file(path, name, quoted, top):
    """The file below `top`, relative to it, that an #include in `path` names, or None."""
    if not quoted:
        return None
    for folder in (ROOT / path.parent, ROOT / top):
        found = Path(folder, name).resolve()
        if found.is_file() and found.is_relative_to(ROOT / top):
            return found.relative_to(ROOT / top)
    return None


# The CUDA driver's interface, declared in our own words and nothing else: held against NVIDIA's header once, and installed with the benchmarks' sources.
DECLARATIONS = ("gpu/driver/cuda_types.hpp", "gpu/driver/cuda_api.hpp")


# Measures parts of the library by themselves.
PARTS = ("bench", "parts")


def plain_program(path):
    return path.parts[0] in ("apps", "bench", "include") and path.parts[:2] != PARTS


def violations(layers, path, top):
    """What is wrong with one file's includes (path relative to the root) of files below `top`."""
    found = []
    for name, quoted in includes(path):
        target = included_file(path, name, quoted, top)
        if target is None:
            continue
        if top == "src" and plain_program(path) and str(target) not in DECLARATIONS:
            found.append(f"includes {name}: {path.parts[0]}/ must not depend on src/, it is for any MPI program")
        elif path.is_relative_to(top):
            if (ROOT / path.parent / name).is_file() and not (ROOT / top / name).is_file():
                found.append(f'includes "{name}": write the path from {top}/, "{target}"')
            below = path.relative_to(top)
            if len(below.parts) > 1 and (why := layers.objection(below, target)):
                found.append(why)
    return found


def folders_of(files):
    """folder -> how many of the files (relative to the root) lie in it, not below it."""
    return Counter(path.parent for path in files)


def too_many(folder, count):
    """Why a folder with so many files is refused, or nothing."""
    if count <= MOST_FILES:
        return ""
    return f"{count} files; over {MOST_FILES} ask for rooms: move what belongs together to a folder of its own, and name it in src/layers.txt"


def unexplained(folder, text):
    """What is missing in the README of a folder (None: there is no such file), or nothing."""
    if text is None:
        return f"there is no {folder}/README.md: it says in a paragraph each what lives here and what does not"
    paragraphs = text.split("\n\n")
    if paragraphs[0].strip() != f"# `{folder}`":
        return f"{folder}/README.md begins with another name than # `{folder}`"
    for begin in SAID:
        if not any(paragraph.startswith(begin) and len(paragraph.split()) > 5 for paragraph in paragraphs):
            return f"{folder}/README.md has no paragraph that begins with {begin.strip()}"
    return ""


UNIT = Path("test/unit")


def unmirrored(folder, is_folder):
    """Why unit tests may not lie in a folder, or nothing: they lie as what they test does, in src/ or in tools/."""
    mirrored = folder.relative_to(UNIT)
    if mirrored.parts[:1] == ("tools",) and is_folder(mirrored) or is_folder(Path("src") / mirrored):
        return ""
    return f"there is no src/{mirrored}: unit tests lie in the folder of what they test"


def check_folders(files, read):
    """[(case, problem or '')] for the folders of src/ that hold any of these files; `read` gives a file's text, or None."""
    results = []
    for folder, count in sorted(folders_of(path for path in files if path.parts[0] == "src" and len(path.parts) > 2).items()):
        problems = [too_many(folder, count), unexplained(folder, read(folder / "README.md"))]
        results.append((f"folder {folder}", "\n".join(filter(None, problems))))
    for folder in sorted({path.parent for path in files if path.is_relative_to(UNIT) and path.parent != UNIT}):
        results.append((f"folder {folder}", unmirrored(folder, lambda path: (ROOT / path).is_dir())))
    return results


def check():
    """[(case, problem or '')]: one case a file, and one a folder of src/."""
    orders = {top: Layers((ROOT / top / "layers.txt").read_text(), top) for top in ORDERED}
    results = []
    for path in source_files():
        problems = []
        for top, layers in orders.items():
            if path.is_relative_to(top):
                below = path.relative_to(top)
                if len(below.parts) > 1 and layers.folder_of(below) is None:
                    problems.append(layers.unlisted(below))
            problems += violations(layers, path, top)
        results.append((f"layers {path}", "\n".join(dict.fromkeys(problems))))

    def read(path):
        return (ROOT / path).read_text() if (ROOT / path).is_file() else None

    return results + check_folders(source_files(), read)


if __name__ == "__main__":
    import sys

    wrong = [(case, problem) for case, problem in check() if problem]
    for case, problem in wrong:
        print(f"{case}: {problem}")
    sys.exit(1 if wrong else 0)
