"""The profiling interface: a tool's MPI_Send takes the place of the library's and reaches it by PMPI_Send."""

from suite import ROOT

PROGRAMS = ROOT / "test/abi/programs"
COUNTS = r"tool: rank 0 called MPI_Send 5 times"
NO_COUNTS = r"tool: rank 1 called MPI_Send 0 times"


def run(suite, prefix, reference):
    mpicc, mpiexec = prefix / "bin/mpicc", prefix / "bin/mpiexec"
    program, tool, both = suite.tmp / "send_some", suite.tmp / "count_sends.so", suite.tmp / "send_some_with_tool"

    with suite.case("a preloaded tool counts the program's MPI_Send, and no send of the library's own"):
        suite.expect(suite.run([mpicc, PROGRAMS / "send_some.c", "-o", program]))
        suite.expect(suite.run([mpicc, "-shared", "-fPIC", PROGRAMS / "count_sends.c", "-o", tool]))
        result = suite.run([mpiexec, "-n", "2", "env", f"LD_PRELOAD={tool}", program], timeout=30)
        suite.expect(result, err=COUNTS)
        suite.expect(result, err=NO_COUNTS)
    with suite.case("a tool linked into the program counts the same"):
        suite.expect(suite.run([mpicc, "-DWITH_TOOL", PROGRAMS / "send_some.c", "-o", both]))
        result = suite.run([mpiexec, "-n", "2", both], timeout=30)
        suite.expect(result, err=COUNTS)
        suite.expect(result, err=NO_COUNTS)
    with suite.case("without the tool nothing counts"):
        result = suite.expect(suite.run([mpiexec, "-n", "2", program], timeout=30))
        assert "tool:" not in result.text, result
