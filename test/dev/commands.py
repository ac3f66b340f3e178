"""./dev answers a person who mistypes, and explains itself; what it packs and what that needs."""

import hashlib
import os
import re
import tarfile

from suite import BUILD, BUILT

# Nothing is installed on this machine, and what shall be is written down.
STAND_INS = {"dpkg-query": "exit 1", "apt-get": 'echo "$@" >>"$WANTED"', "sudo": '[ "$1" != -n ] || shift; exec "$@"'}


def wanted_packages(suite, *sets):
    folder = suite.tmp / "stand-ins"
    folder.mkdir(exist_ok=True)
    for name, body in STAND_INS.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    wanted = folder / "wanted"
    wanted.unlink(missing_ok=True)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "WANTED": wanted, "DEV_LOGS": folder}
    suite.expect(suite.run(["tools/dev/setup.sh", *sets], env=environment, timeout=100))
    return set(wanted.read_text().split())


def bundle_cases(suite):
    with suite.case("commands: gpu-bundle needs a compiler and GoogleTest, and neither QEMU nor Slurm"):
        wanted = wanted_packages(suite, "build", "bundle")
        assert {"g++", "libgtest-dev"} <= wanted, wanted
        foreign = [name for name in wanted if name.startswith(("qemu", "slurm", "podman", "clang"))]
        assert not foreign, foreign
    with suite.case("commands: gpu-bundle asks for that set alone"):
        text = open("tools/dev/gpu_bundle.sh").read()
        assert [line.split()[1:] for line in text.splitlines() if "tools/dev/setup.sh" in line] == [["build", "bundle"]], text
    with suite.case("commands: gpu-bundle's tarball holds each library once"):
        assert (BUILT / "test/device/isthmus_device_cuda").exists(), "the device tests are not built"
        # With the library for the network, so that UCX goes in.
        plugin = next(BUILT.glob("lib/isthmus/libisthmus_network.so"), None)
        suite.expect(suite.run(["./dev", "gpu-bundle", "--no-build", "--device-only", *filter(None, [plugin])], timeout=110))
        held = {}
        with tarfile.open(BUILD / "gpu-bundle.tar.gz") as archive:
            for member in archive:
                if member.isfile() and ".so" in member.name:
                    held.setdefault(hashlib.sha256(archive.extractfile(member).read()).hexdigest(), []).append(member.name)
                assert not member.name.endswith(".a"), member.name
        assert held, "it holds no library"
        assert plugin is None or any("libucs" in name for names in held.values() for name in names), held
        twice = [names for names in held.values() if len(names) > 1]
        assert not twice, twice


def demo_cases(suite):
    with suite.case("commands: the demo builds all that is installed"):
        release = BUILD / "release"
        scripts = "".join(script.read_text() for script in release.rglob("cmake_install.cmake"))
        built = re.findall(rf'file\(INSTALL [^)]* TYPE (?:EXECUTABLE|SHARED_LIBRARY|MODULE) FILES "{re.escape(str(release))}/([^"]+)"', scripts)
        programs = {name for name in built if not name.endswith(".so") or "/isthmus/" in name}
        assert {"bin/mpiexec", "lib/libmpi_abi.so.1"} <= programs, programs
        commands = suite.run(["ninja", "-C", release, "-t", "commands", "demo"], timeout=60).out
        missing = programs - set(re.findall(r" -o (\S+)", commands))
        assert not missing, f"./dev demo does not build {sorted(missing)}, so that its installation fails on a fresh clone"


def cases(suite):
    def answers(name, arguments, status, **expected):
        with suite.case(f"commands: {name}"):
            suite.expect(suite.run(["./dev", *arguments], timeout=60), status=status, **expected)

    answers("alone it prints the help", [], 0, out="usage: ./dev COMMAND")
    answers("an unknown command", ["biuld"], 2, err="no command 'biuld'")
    answers("an unknown preset", ["build", "--preset", "fast"], 1, err="no preset 'fast'")
    answers("the demo's build with a target", ["build", "--demo", "--target", "mpiexec"], 1, err="--demo goes with no")
    answers("an unknown set of packages", ["setup", "everything"], 1, err="'everything' is none of")
    answers("an unknown benchmark", ["bench", "nothing"], 2, err="no benchmark 'nothing'")
    for command in ("demo", "build", "test", "bench", "lint", "format", "gpu-bundle", "setup", "clean"):
        answers(f"{command} --help", [command, "--help"], 0, out=rf"usage: ./dev (\w+ )?.*")
    demo_cases(suite)
    bundle_cases(suite)
