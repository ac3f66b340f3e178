"""The order of the folders in src/, as src/layers.txt gives it; and that apps/ and bench/ are plain MPI programs."""

from pathlib import Path

from sources import ROOT, includes, source_files


class Layers:
    """Which folder of src/ may include which."""

    def __init__(self, text):
        self._level = {}  # pattern ("base", "channel/*") -> number of its line
        for number, line in enumerate(text.splitlines()):
            for pattern in line.partition("#")[0].split():
                self._level[pattern] = number

    def folder_of(self, path):
        """The layer that a file of src/ (path relative to src/) belongs to: (its folder, its level), or None if unlisted."""
        folders = path.parts[:-1]
        for depth in range(len(folders), 0, -1):
            name = "/".join(folders[:depth])
            wildcard = "/".join(folders[: depth - 1] + ("*",))
            for pattern in (name, wildcard):
                if pattern in self._level and pattern != "*":
                    return name, self._level[pattern]
        return None

    def objection(self, includer, included):
        """Why the one file (both relative to src/) may not include the other, or nothing."""
        here, there = self.folder_of(includer), self.folder_of(included)
        if here is None:
            return f"src/{includer.parent} is not in src/layers.txt: give the folder its place in the order"
        if there is None:
            return f"includes {included}, whose folder is not in src/layers.txt"
        if here[0] == there[0] or there[1] < here[1]:
            return ""
        relation = "a peer of" if there[1] == here[1] else "above"
        return f"includes {included}: {there[0]} is {relation} {here[0]} in the order of src/layers.txt"


def included_source(path, name, quoted):
    """The file of src/, relative to it, that an #include in `path` names, or None."""
    if not quoted:
        return None
    for folder in (ROOT / path.parent, ROOT / "src"):
        found = Path(folder, name).resolve()
        if found.is_file() and found.is_relative_to(ROOT / "src"):
            return found.relative_to(ROOT / "src")
    return None


# The CUDA driver's interface, declared in our own words and nothing else: held against NVIDIA's header once, and installed with the benchmarks' sources.
DECLARATIONS = ("gpu/driver/cuda_types.hpp", "gpu/driver/cuda_api.hpp")


# Measures parts of the library by themselves.
PARTS = ("bench", "parts")


def violations(layers, path):
    """What is wrong with one file's includes (path relative to the root)."""
    found = []
    for name, quoted in includes(path):
        target = included_source(path, name, quoted)
        if target is None:
            continue
        if path.parts[0] in ("apps", "bench", "include") and path.parts[:2] != PARTS and str(target) not in DECLARATIONS:
            found.append(f"includes {name}: {path.parts[0]}/ must not depend on src/, it is for any MPI program")
        elif path.parts[0] == "src":
            if (ROOT / path.parent / name).is_file() and not (ROOT / "src" / name).is_file():
                found.append(f'includes "{name}": write the path from src/, "{target}"')
            if why := layers.objection(path.relative_to("src"), target):
                found.append(why)
    return found


def check():
    """[(case, problem or '')]: one case a file."""
    layers = Layers((ROOT / "src/layers.txt").read_text())
    results = []
    for path in source_files():
        problems = violations(layers, path)
        if path.parts[0] == "src" and len(path.parts) > 2 and layers.folder_of(path.relative_to("src")) is None:
            problems.insert(0, f"{path.parent} is not in src/layers.txt: give the folder its place in the order")
        results.append((f"layers {path}", "\n".join(dict.fromkeys(problems))))
    return results


if __name__ == "__main__":
    import sys

    wrong = [(case, problem) for case, problem in check() if problem]
    for case, problem in wrong:
        print(f"{case}: {problem}")
    sys.exit(1 if wrong else 0)
