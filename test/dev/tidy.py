"""Files that clang-tidy reads as one: which, and that what is wrong in any of them is found."""

import json
import tempfile
from pathlib import Path
from unittest import mock

import check_tidy


def cases(suite):
    with tempfile.TemporaryDirectory() as made:
        root = Path(made).resolve()
        build, database = root / "build", root / "build/database/compile_commands.json"
        settings = (check_tidy.ROOT / ".clang-tidy").read_text()
        files = {name: root / name for name in (f"src/{letter}.cpp" for letter in "abcdefgh")}
        together = {"0": ("src/a.cpp", "src/b.cpp"), "1": ("src/c.cpp", "src/d.cpp"), "2": ("src/e.cpp",)}
        for folder in (root / "src", database.parent, build / "release/Unity"):
            folder.mkdir(parents=True)
        (root / ".clang-tidy").write_text(settings)
        for name, path in files.items():
            declared = {"b": "Wrong_Name", "f": "clash", "g": "clash"}.get(path.stem, path.stem)
            path.write_text(f"namespace {{\n[[maybe_unused]] int {declared} = 0;\n}}\n")
        for number, names in together.items():
            text = "\n".join(f'#include "{root / name}"' for name in names)
            (build / f"release/Unity/unity_{number}.cxx").write_text(text)
        command = "g++ -std=c++20 -o {0}.o -c {0}"
        entries = [{"directory": str(root), "file": str(path), "command": command.format(path)} for path in files.values()]
        database.write_text(json.dumps(entries))
        with mock.patch.multiple(check_tidy, ROOT=root, BUILD=build, COMPILE_DATABASE=database):
            found = list(check_tidy.groups({Path(name) for name in files}))
            few = list(check_tidy.groups({Path(name) for name in files if name != "src/d.cpp"}))
            right = [check_tidy.is_tidy(group) for group in found]
    names = [[str(path) for path in group[-1]] for group in found]
    suite.check("tidy: what the build compiles as one is read as one", names[:2] == [list(together["0"]), list(together["1"])], names)
    suite.check("tidy: of the rest, files without a name in common are", names[2:] == [["src/e.cpp", "src/f.cpp", "src/h.cpp"]], names)
    suite.check("tidy: what has not changed is not read along", [len(group[-1]) for group in few] == [2, 3], few)
    suite.check("tidy: what is wrong in the second of two is found", right == [False, True, True], right)
