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
        files = {name: root / name for name in (*(f"src/{letter}.cpp" for letter in "abcdefgh"), "src/part/i.cpp", "src/part/j.cpp")}
        together = {"0": ("src/a.cpp", "src/b.cpp"), "1": ("src/c.cpp", "src/d.cpp"), "2": ("src/e.cpp",)}
        for folder in (root / "src/part", database.parent, build / "release/Unity"):
            folder.mkdir(parents=True)
        (root / ".clang-tidy").write_text(settings)
        (root / "src/part/.clang-tidy").write_text("InheritParentConfig: true\n")
        for name, path in files.items():
            declared = {"b": "Wrong_Name", "f": "clash", "g": "clash"}.get(path.stem, path.stem)
            opened = "namespace other {}\nusing namespace other;\n" if path.stem == "h" else ""
            path.write_text(f"{opened}namespace {{\n[[maybe_unused]] int {declared} = 0;\n}}\n")
        for number, names in together.items():
            text = "\n".join(f'#include "{root / name}"' for name in names)
            (build / f"release/Unity/unity_{number}.cxx").write_text(text)
        command = "g++ -std=c++20 -o {0}.o -c {0}"
        entries = [{"directory": str(root), "file": str(path), "command": command.format(path)} for path in files.values()]
        database.write_text(json.dumps(entries))
        with mock.patch.multiple(check_tidy, ROOT=root, BUILD=build, COMPILE_DATABASE=database):
            found = sorted(check_tidy.groups({Path(name) for name in files}), key=lambda group: group[-1])
            few = sorted(check_tidy.groups({Path(name) for name in files if name != "src/d.cpp"}), key=lambda group: group[-1])
            right = [check_tidy.tidy_together(group) == "" for group in found]
            with mock.patch.object(check_tidy, "MOST", 3):
                short = sorted([str(path) for path in group[-1]] for group in check_tidy.groups({Path(name) for name in files}))
    names = [[str(path) for path in group[-1]] for group in found]
    of_src, of_part = [f"src/{letter}.cpp" for letter in "abcdef"], ["src/part/i.cpp", "src/part/j.cpp"]
    suite.check("tidy: files without a name in common, under the same settings, are read as one", names == [of_src, of_part], names)
    suite.check("tidy: as many as may be; what the build compiles as one stays so", short[:2] == [[*together["0"], "src/e.cpp"], [*together["1"], "src/f.cpp"]], short)
    suite.check("tidy: what has not changed is not read along", [len(group[-1]) for group in few] == [5, 2], few)
    suite.check("tidy: what is wrong in the second of several is found", right == [False, True], right)
