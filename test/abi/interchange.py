"""Programs compiled against one MPI run on the other, both ways, and tell the same of everything that the ABI fixes."""

import difflib

from suite import ROOT

SOURCES = sorted((ROOT / "test/abi/programs/interchange").glob("*.c"))
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def run(suite, prefix, reference):
    by_us, by_them = suite.tmp / "compiled_by_us", suite.tmp / "compiled_by_them"
    printed = {}

    with suite.case("the same program compiles against both headers, without a warning"):
        reference.require()
        suite.expect(suite.run([prefix / "bin/mpicc", *WARNINGS, *SOURCES, "-o", by_us]))
        suite.expect(suite.run([reference.mpicc, *WARNINGS, *SOURCES, "-o", by_them]))

    libraries = {
        "Isthmus": (prefix / "bin/mpiexec", prefix / "lib", r"^library: Isthmus"),
        "MPICH": (reference.mpiexec, reference.prefix / "lib", r"^library: MPICH"),
    }
    programs = {"compiled against Isthmus": by_us, "compiled against MPICH": by_them}
    for library, (mpiexec, folder, version) in libraries.items():
        for how, program in programs.items():
            with suite.case(f"a program {how} runs on {library}"):
                # LD_LIBRARY_PATH goes before the RUNPATH that both wrappers write.
                result = suite.run([mpiexec, "-n", "3", program], env={"LD_LIBRARY_PATH": folder}, timeout=60)
                suite.expect(result, err=version)
                assert "rank 2" in result.out, result
                printed[how, library] = result.out
    with suite.case("all four tell the same"):
        assert len(printed) == 4, "not all of them ran"
        (first, expected), *others = printed.items()
        for name, text in others:
            difference = difflib.unified_diff(
                expected.splitlines(), text.splitlines(), " on ".join(first), " on ".join(name), n=0, lineterm=""
            )
            assert text == expected, "\n".join(difference)
