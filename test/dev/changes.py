"""./dev test --changed runs what a change can reach: from git, from what suites read, and from the build's dependency files."""

import dataclasses
import os

import changed
import test

SUITE = '''# title: a suite
# runs: PROGRAM
# about: src/p2p/* test/*
import sys
sys.path.insert(0, "tools/dev")
import jobs
PLACES = "test/places/fault.c"
'''


def repository(folder):
    """A branch that has left main with one commit more, and a working tree with changes."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]

    def git(*arguments):
        changed.git(folder, *identity, *arguments)

    folder.mkdir()
    git("init", "-q", "-b", "main")
    for name in ("kept", "committed", "edited", "renamed", "removed"):
        (folder / name).write_text(f"this is the file {name}\n")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    git("checkout", "-q", "-b", "branch")
    (folder / "committed").write_text("more\n")
    git("commit", "-q", "-a", "-m", "two")
    (folder / "edited").write_text("more\n")
    (folder / "renamed").rename(folder / "with a new name")
    (folder / "removed").unlink()
    (folder / ".gitignore").write_text("ignored\n")
    (folder / "ignored").write_text("")
    return folder


def cases(suite):
    with suite.case("changes: committed on this branch, in the working tree, removed, renamed and new files; none that git ignores"):
        folder = repository(suite.tmp / "repository")
        wanted = [".gitignore", "committed", "edited", "removed", "renamed", "with a new name"]
        assert changed.files_since(folder, changed.base_of(folder)) == wanted, changed.files_since(folder, changed.base_of(folder))
        assert changed.files_since(folder, changed.base_of(folder, "HEAD")) == [name for name in wanted if name != "committed"]

    path = suite.tmp / "10-one.py"
    path.write_text(SUITE)
    one = test.read_suite(path)
    held = {"src/p2p/engine.cpp", "src/wire/ring.hpp", "test/unit/channel/ring_test.cpp"}

    def answers(name, files, wanted, of=one):
        with suite.case(f"changes: {name}"):
            found = changed.verdict(of, files, lambda targets: held if tuple(targets) == of.runs or not of.runs else set())
            assert found == wanted, found

    answers("a source that the suite's programs hold and that it is about", ["src/p2p/engine.cpp"], ("run", "src/p2p/engine.cpp"))
    answers("a source that it is not about is left, and named", ["src/wire/ring.hpp"], ("about", "src/wire/ring.hpp"))
    answers("one of both kinds runs it", ["src/wire/ring.hpp", "src/p2p/engine.cpp"], ("run", "src/p2p/engine.cpp"))
    answers("a source of other programs", ["src/rma/window.cpp", "docs/bench.md"], ("", ""))
    answers("a module that it imports", ["tools/dev/jobs.py"], ("run", "tools/dev/jobs.py"))
    answers("a module that its module imports not", ["tools/dev/vms.py"], ("", ""))
    answers("a file that it names", ["test/places/fault.c"], ("run", "test/places/fault.c"))
    answers("how programs are built", ["cmake/CompileTime.cmake"], ("run", "cmake/CompileTime.cmake"))
    part = dataclasses.replace(one, about=("src/p2p/*", "!src/p2p/engine*"))
    answers("a source that is taken out of what it is about is left, and named", ["src/p2p/engine.cpp"], ("about", "src/p2p/engine.cpp"), part)
    whole = dataclasses.replace(one, about=())
    answers("a suite that says nothing more is about all that its programs hold", ["src/wire/ring.hpp"], ("run", "src/wire/ring.hpp"), whole)
    none = dataclasses.replace(one, about=("none",))
    answers("a suite with a build of its own is left", ["src/p2p/engine.cpp"], ("about", "src/p2p/engine.cpp"), none)

    with suite.case("changes: the build's dependency files say what a program holds, headers and sources that are compiled together too"):
        program = changed.files_in(["mpiexec"])
        for file in ("tools/mpiexec/hosts/head.cpp", "tools/mpiexec/hosts/head.hpp", "src/wire/region.hpp", "src/launch/meeting/meeting.cpp"):
            assert file in program, f"{file} is not in {sorted(program)}"
        assert "src/abi/p2p/p2p.cpp" not in program and not any(os.path.isabs(file) for file in program)
        assert changed.files_in(["no_such_target"]) == frozenset()
