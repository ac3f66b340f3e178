"""The layer check sees what it is there to see."""

from pathlib import Path

from check_layers import MOST_FILES, Layers, check_folders, included_file

TEXT = """
base
memory   # a comment
channel
channel/*
route
stream device
coll/gpu/team
coll/gpu
"""


def cases(suite):
    layers = Layers(TEXT)

    def objection(includer, included):
        return layers.objection(Path(includer), Path(included))

    allowed = [
        ("base/a.hpp", "base/b.hpp"),
        ("memory/a.hpp", "base/b.hpp"),
        ("memory/deep/a.hpp", "memory/b.hpp"),
        ("channel/shm/a.hpp", "channel/b.hpp"),
        ("channel/shm/a.hpp", "channel/shm/b.hpp"),
        ("route/a.hpp", "channel/shm/b.hpp"),
        ("stream/a.hpp", "route/b.hpp"),
        ("coll/gpu/a.hpp", "coll/gpu/team/b.hpp"),
    ]
    forbidden = [
        ("base/a.hpp", "memory/b.hpp"),
        ("channel/a.hpp", "channel/shm/b.hpp"),
        ("channel/shm/a.hpp", "channel/cma/b.hpp"),
        ("channel/shm/a.hpp", "route/b.hpp"),
        ("stream/a.hpp", "device/b.hpp"),
        ("coll/gpu/team/a.hpp", "coll/gpu/b.hpp"),
        ("coll/a.hpp", "coll/gpu/b.hpp"),
        ("nowhere/a.hpp", "base/b.hpp"),
        ("base/a.hpp", "nowhere/b.hpp"),
    ]
    for pair in allowed:
        suite.check(f"layers: {pair[0]} may include {pair[1]}", not objection(*pair), objection(*pair))
    for pair in forbidden:
        suite.check(f"layers: {pair[0]} must not include {pair[1]}", objection(*pair), "no objection was made")
    told = Layers("command\nranks", "tools/mpiexec").objection(Path("command/options.hpp"), Path("ranks/signals.hpp"))
    suite.check("layers: the order of another tree is named by its own file", "tools/mpiexec/layers.txt" in told, told)
    header = included_file(Path("tools/mpiexec/main.cpp"), "hosts/head.hpp", True, "tools/mpiexec")
    suite.check("layers: an include within tools/mpiexec is found from its top", header == Path("hosts/head.hpp"), header)

    said = "# `src/base`\n\n**Here:** what any folder may use, and no more.\n\n**Not here:** anything that knows of peers.\n"

    def folder(files, text):
        return dict(check_folders([Path(f"src/base/{number}.hpp") for number in range(files)], lambda path: text))["folder src/base"]

    def refused(name, objection, wanted):
        suite.check(f"folders: {name}", wanted in objection, objection or "no objection was made")

    suite.check(f"folders: {MOST_FILES} files and a README are right", not folder(MOST_FILES, said), folder(MOST_FILES, said))
    refused("one file more is refused", folder(MOST_FILES + 1, said), f"{MOST_FILES + 1} files")
    refused("a folder without a README is refused", folder(1, None), "there is no src/base/README.md")
    refused("one that does not say what may not live there", folder(1, said.partition("**Not")[0]), "**Not here:**")
    refused("one that says nothing behind its heading", folder(1, said.replace("what any folder may use, and no more", "")), "**Here:**")
    refused("one of another folder", folder(1, said.replace("src/base", "src/wire")), "# `src/base`")
    nested = check_folders([Path("src/coll/gpu/a.hpp"), Path("test/unit/a.cpp"), Path("src/a.cpp")], lambda path: None)
    suite.check("folders: those of src/ with files in them, and no others", [case for case, _ in nested] == ["folder src/coll/gpu"], nested)

    units = dict(check_folders([Path(f"test/unit/{folder}/a_test.cpp") for folder in ("p2p/link", "tools/mpiexec", "p2p/no_such_room")], lambda path: None))
    mirrored = not units["folder test/unit/p2p/link"] and not units["folder test/unit/tools/mpiexec"]
    suite.check("folders: unit tests lie in the folder of what they test", mirrored, units)
    refused("unit tests in a folder that src/ has not", units["folder test/unit/p2p/no_such_room"], "there is no src/p2p/no_such_room")
