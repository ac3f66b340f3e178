"""mpicc, mpicxx, isthmus.pc and the CMake package: what users build with."""

import os
import shlex
import shutil

from suite import ROOT, Skip

USER = ROOT / "test/abi/programs/cmake_user"
HELLO = r"^hello from MPI 5\.0$"


def needs_library(suite, program, prefix):
    """The program finds the library of that installation without help, and lets LD_LIBRARY_PATH choose another."""
    suite.expect(suite.run(["ldd", program]), out=rf"libmpi_abi\.so\.1 => {prefix}/lib/")
    suite.expect(suite.run(["readelf", "-d", program]), out=r"\(RUNPATH\)")


def run_commands(suite, prefix):
    mpicc, mpicxx = prefix / "bin/mpicc", prefix / "bin/mpicxx"
    hello = suite.tmp / "hello"

    for wrapper, source in ((mpicc, "hello.c"), (mpicxx, "hello.cpp"), (prefix / "bin/mpic++", "hello.cpp")):
        with suite.case(f"{wrapper.name} makes a program that finds its library"):
            suite.expect(suite.run([wrapper, USER / source, "-o", hello]))
            needs_library(suite, hello, prefix)
            suite.expect(suite.run([hello]), out=HELLO)
    with suite.case("mpicc compiles and links in two steps, and adds nothing to the first"):
        object_file = suite.tmp / "hello.o"
        suite.expect(suite.run([mpicc, "-Werror", "-c", USER / "hello.c", "-o", object_file], env={"ISTHMUS_CC": "clang-19"}))
        suite.expect(suite.run([mpicc, object_file, "-o", hello]))
        suite.expect(suite.run([hello]), out=HELLO)
    with suite.case("mpicc makes a shared library"):
        suite.expect(suite.run([mpicc, "-shared", "-fPIC", USER / "hello.c", "-o", suite.tmp / "libhello.so"]))
        needs_library(suite, suite.tmp / "libhello.so", prefix)
    with suite.case("mpicc keeps spaces, quotes and stars of its arguments"):
        folder = suite.tmp / "a folder"
        folder.mkdir()
        shutil.copy(USER / "hello.c", folder / "it's * mine.c")
        greeting = '"a \\"b\\" * $HOME"'
        suite.expect(suite.run([mpicc, f"-DGREETING={greeting}", "it's * mine.c", "-o", "pro gram"], cwd=folder))
        suite.expect(suite.run([folder / "pro gram"]), out=r'^a "b" \* \$HOME from MPI 5\.0$')
    with suite.case("what mpicc -show prints can be run"):
        shown = suite.expect(suite.run([mpicc, "-show", '-DGREETING="a $b"', USER / "hello.c", "-o", hello])).out
        assert len(shlex.split(shown)) > 6, shown
        suite.expect(suite.run(["sh", "-c", shown]))
        suite.expect(suite.run([hello]), out=r"^a \$b from MPI 5\.0$")
    with suite.case("mpicc reads a program from its standard input"):
        suite.expect(suite.run([mpicc, "-x", "c", "-", "-o", hello], stdin=(USER / "hello.c").read_text()))
        suite.expect(suite.run([hello]), out=HELLO)
    with suite.case("options that ask the compiler something reach it, with nothing to link"):
        for option in ("--version", "-dumpmachine", "-v", "-print-search-dirs"):
            direct = suite.run(["cc", option])
            suite.expect(suite.run([mpicc, option]), status=direct.status)
        assert suite.run([mpicc, "--version"]).out == suite.run(["cc", "--version"]).out
    with suite.case("a compiler's failure is the wrapper's"):
        suite.expect(suite.run([mpicc, "-c", suite.tmp / "no such file.c"]), status=1, err="No such file")


def run_settings(suite, prefix):
    mpicc, mpicxx = prefix / "bin/mpicc", prefix / "bin/mpicxx"
    with suite.case("ISTHMUS_CC and ISTHMUS_CXX choose the compiler, with its own options"):
        result = suite.run([mpicc, "-show", "-c", "a.c"], env={"ISTHMUS_CC": "ccache clang-19 -m64"})
        suite.expect(result, out=r"^ccache clang-19 -m64 .*-c a\.c$")
        suite.expect(suite.run([mpicxx, "--version"], env={"ISTHMUS_CXX": "clang++-19"}), out="clang")
        suite.expect(suite.run([mpicc, "-showme:command"], env={"ISTHMUS_CC": "clang-19"}), out="^clang-19$")
        # Those of other libraries serve where ours is not set.
        names = ("ISTHMUS_CC", "OMPI_CC", "MPICH_CC", "I_MPI_CC")
        for first in range(len(names)):
            chosen = {name: f"of-{name}" for name in names[first:]} | {name: "" for name in names[:first]}
            suite.expect(suite.run([mpicc, "-showme:command"], env=chosen), out=f"^of-{names[first]}$")
        for name in ("OMPI_CXX", "MPICH_CXX", "I_MPI_CXX"):
            suite.expect(suite.run([mpicxx, "-showme:command"], env={name: "clang++-19"}), out=r"^clang\+\+-19$")
        suite.expect(suite.run([mpicc, "-showme:command"], env={"OMPI_CXX": "x", "MPICH_CXX": "x"}), out="^cc$")
        result = suite.run([mpicc, "-cc=ccache clang-19", "-show", "-c", "a.c"], env={"OMPI_CC": "x"})
        suite.expect(result, out=r"^ccache clang-19 .*-c a\.c$")
        assert "-cc=" not in result.out, result
        suite.expect(suite.run([mpicxx, "-cxx=clang++-19", "--version"]), out="clang")
    with suite.case("a compiler that is not there is named, and how to choose another"):
        suite.expect(suite.run([mpicc, "x.c"], env={"ISTHMUS_CC": "no-cc"}), status=127, err="'no-cc'; ISTHMUS_CC can name")
    with suite.case("mpicc tells its flags in the ways of Open MPI and MPICH"):
        compiling, linking = f"-I{prefix}/include", rf"-L{prefix}/lib .*-lmpi_abi|-lmpi_abi .*-L{prefix}/lib"
        for option in ("-showme:compile", "--showme:compile", "-compile_info", "-compile-info"):
            suite.expect(suite.run([mpicc, option]), out=compiling)
        for option in ("-show", "--show", "-showme", "-showme:link", "--showme:link", "-link_info", "-link-info"):
            suite.expect(suite.run([mpicc, option]), out=linking)
        suite.expect(suite.run([mpicc, "-showme:incdirs"]), out=f"^{prefix}/include$")
        suite.expect(suite.run([mpicc, "-showme:libdirs"]), out=f"^{prefix}/lib$")
        suite.expect(suite.run([mpicc, "-showme:libs"]), out="^mpi_abi$")
        suite.expect(suite.run([mpicc, "-showme:version"]), out=r"Isthmus \d+\.\d+")
        suite.expect(suite.run([mpicc, "-showme:nonsense"]), status=1, err="there is no '-showme:nonsense'")
        suite.expect(suite.run([mpicc, "-help"]), out="^usage: mpicc")
    with suite.case("an installation that was moved, called through a symbolic link, finds itself"):
        moved = suite.tmp / "moved to" / "there"
        shutil.copytree(prefix, moved, symlinks=True, ignore=shutil.ignore_patterns("isthmus"))
        (suite.tmp / "links").mkdir()
        (suite.tmp / "links/one").symlink_to("../moved to/there/bin/mpicc")
        (suite.tmp / "links/two").symlink_to("one")
        program = suite.tmp / "moved hello"
        path = f"{suite.tmp}/links:{os.environ['PATH']}"
        suite.expect(suite.run(["two", USER / "hello.c", "-o", program], env={"PATH": path}))
        needs_library(suite, program, moved)
        suite.expect(suite.run([program]), out=HELLO)


def run_packages(suite, prefix):
    def build(name, variables, environment):
        folder = suite.tmp / name
        result = suite.run(["cmake", "-G", "Ninja", "-S", USER, "-B", folder, *variables], env=environment, timeout=120)
        suite.expect(result)
        suite.expect(suite.run(["cmake", "--build", folder], env=environment, timeout=120))
        for program in ("c_program", "cxx_program"):
            suite.expect(suite.run(["ldd", folder / program]), out=rf"libmpi_abi\.so\.1 => {prefix}/lib/")
            suite.expect(suite.run([folder / program]), out=HELLO)
        return result

    with suite.case("CMake's find_package(MPI) finds the compilers in PATH, for C and C++"):
        environment = {"PATH": f"{prefix}/bin:{os.environ['PATH']}"}
        suite.expect(build("find_mpi", [], environment), out=rf"mpiexec is {prefix}/bin/mpiexec")
    with suite.case("CMake takes the wrappers as its compilers"):
        build("as_compilers", [f"-DCMAKE_C_COMPILER={prefix}/bin/mpicc", f"-DCMAKE_CXX_COMPILER={prefix}/bin/mpicxx",
                               f"-DMPIEXEC_EXECUTABLE={prefix}/bin/mpiexec"], {})  # fmt: skip
    with suite.case("CMake's find_package(Isthmus) gives Isthmus::mpi"):
        build("package", ["-DUSE_PACKAGE=ON", f"-DCMAKE_PREFIX_PATH={prefix}"], {})
    with suite.case("pkg-config isthmus gives flags that work"):
        if not shutil.which("pkg-config"):
            raise Skip("pkg-config is not installed")
        result = suite.run(["pkg-config", "--cflags", "--libs", "isthmus"], env={"PKG_CONFIG_PATH": prefix / "lib/pkgconfig"})
        program = suite.tmp / "by pkg-config"
        suite.expect(suite.run(["cc", USER / "hello.c", "-o", program, *shlex.split(suite.expect(result).out)]))
        needs_library(suite, program, prefix / "lib/pkgconfig/../..")
        suite.expect(suite.run([program]), out=HELLO)


def run_nvcc(suite, prefix):
    """nvcc is a compiler of its own that hands on little: it knows no -Wl and no -pthread."""
    environment = {"PKG_CONFIG_PATH": prefix / "lib/pkgconfig"}
    sources = {
        "mpicxx -showme": [prefix / "bin/mpicxx", "-showme:compile"], "mpicxx -showme:link": [prefix / "bin/mpicxx", "-showme:link"],
        "mpicc -compile_info": [prefix / "bin/mpicc", "-compile_info"],
    }  # fmt: skip
    if shutil.which("pkg-config"):
        sources["pkg-config"] = ["pkg-config", "--cflags", "--libs", "isthmus"]
    with suite.case("all flags that are told are ones that nvcc takes"):
        for name, command in sources.items():
            words = shlex.split(suite.expect(suite.run(command, env=environment)).out)
            foreign = [word for word in words if word.startswith(("-W", "-p", "-f", "-m"))]
            assert words and not foreign, (name, words)
    nvcc = shutil.which("nvcc", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")
    program = suite.tmp / "by nvcc"
    for name, words in (
        ("OMPI_CXX=nvcc mpicxx", None),
        ("nvcc with mpicxx -showme", ("mpicxx -showme", "mpicxx -showme:link")),
        ("nvcc with pkg-config", ("pkg-config",)),
    ):
        with suite.case(f"{name} makes a program that finds its library"):
            if not nvcc:
                raise Skip("there is no nvcc")
            if words is None:
                command, added = [prefix / "bin/mpicxx"], {"OMPI_CXX": nvcc}
            else:
                if any(word not in sources for word in words):
                    raise Skip("pkg-config is not installed")
                flags = [flag for word in words for flag in shlex.split(suite.run(sources[word], env=environment).out)]
                command, added = [nvcc, *flags], {}
            suite.expect(suite.run([*command, USER / "hello.cpp", "-o", program], env=added, timeout=120))
            needs_library(suite, program, prefix / "lib/pkgconfig/../.." if words == ("pkg-config",) else prefix)
            suite.expect(suite.run([program]), out=HELLO)


def run(suite, prefix, reference):
    run_commands(suite, prefix)
    run_settings(suite, prefix)
    run_packages(suite, prefix)
    run_nvcc(suite, prefix)
