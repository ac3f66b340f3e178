# title: how jobs end on errors: fatal handlers, MPI_Abort, calls before MPI_Init and after MPI_Finalize
# timeout: 300
# under: asan
# about: src/abi/* src/comm/* src/launch/* src/p2p/* !src/p2p/protocol/* tools/mpiexec/*
import re
import sys

sys.path.insert(0, "tools/dev")
from suite import BUILT, PREFIX, ROOT, Suite

suite = Suite("ending")
PROGRAM = BUILT / "test-mpi/program_ending"
WHO = r"^\[[^:\]]+:\d+\]"  # [host:pid]

# Exit statuses are the class of the error, or what MPI_Abort was given, in 8 bits and never 0 for a failure.
ERR_COUNT, ERR_TAG, ERR_TRUNCATE, ERR_OTHER = 2, 4, 15, 16

# way of ending, exit status, the line that says why
ENDINGS = [
    ("tag", ERR_TAG, rf"{WHO} rank R: MPI_Send: tag -7 is negative \(MPI_ERR_TAG\); MPI_ERRORS_ARE_FATAL$"),
    ("errors-abort", ERR_COUNT, rf"{WHO} rank R: MPI_Send: count -1 is negative \(MPI_ERR_COUNT\); MPI_ERRORS_ABORT$"),
    ("truncate", ERR_TRUNCATE, rf"{WHO} rank R: MPI_Sendrecv: the message from rank R .*\(MPI_ERR_TRUNCATE\)"),
    ("call-errhandler", ERR_OTHER, rf"{WHO} rank R: MPI_Comm_call_errhandler: .*MPI_ERR_OTHER"),
    ("abort", 42, rf"{WHO} rank R: MPI_Abort was called on MPI_COMM_WORLD with code 42$"),
    ("abort-256", 1, rf"{WHO} rank R: MPI_Abort was called on MPI_COMM_WORLD with code 256$"),
    ("abort-self", 9, rf"{WHO} rank R: MPI_Abort was called on MPI_COMM_SELF with code 9$"),
    ("before-init", ERR_OTHER, rf"{WHO}: MPI_Send was called before MPI_Init$"),
    ("wait-before-init", ERR_OTHER, rf"{WHO}: MPI_Wait was called before MPI_Init$"),
    ("finalize-before-init", ERR_OTHER, rf"{WHO}: MPI_Finalize was called before MPI_Init$"),
    ("init-twice", ERR_OTHER, rf"{WHO} rank \d: MPI_Init: MPI is initialized already"),
    ("after-finalize", ERR_OTHER, rf"{WHO} rank \d: MPI_Send was called after MPI_Finalize$"),
    ("init-after-finalize", ERR_OTHER, rf"{WHO} rank \d: MPI_Init: MPI was finalized"),
]


def compile_program():
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    command = [PREFIX / "bin/mpicc", "-g", "-Wall", "-Wextra", "-Werror", ROOT / "test/mpi/program/ending.c", "-o", PROGRAM]
    return suite.run(command, timeout=120)


with suite.case("the program compiles"):
    suite.expect(compile_program())

for way, status, line in ENDINGS:
    for ranks in (1, 2, 4):
        with suite.case(f"{way} at {ranks}"):
            result = suite.run([PREFIX / "bin/mpiexec", "-n", ranks, PROGRAM, way], timeout=30)
            suite.expect(result, status=status, err=line.replace("rank R", f"rank {ranks - 1}"))
            assert "was still there" not in result.err, f"the call returned\n{result}"
    with suite.case(f"{way} without mpiexec"):
        result = suite.run([PROGRAM, way], timeout=30)
        suite.expect(result, status=status, err=line.replace("rank R", "rank 0"))

for way in ("tag", "abort"):
    with suite.case(f"{way}: what the program has printed is not lost"):
        result = suite.run([PREFIX / "bin/mpiexec", "-n", 2, PROGRAM, way], timeout=30)
        suite.expect(result, status=None, out=r"^printed by rank 1 before the end$")
    with suite.case(f"{way}: one line of the library, not one for each rank"):
        result = suite.run([PREFIX / "bin/mpiexec", "-n", 4, PROGRAM, way], timeout=30)
        lines = re.findall(rf"{WHO}.*", result.err, re.MULTILINE)
        assert len(lines) == 1, f"{len(lines)} lines\n{result}"
with suite.case("a second MPI_Init raises an error that can be caught"):
    suite.expect(suite.run([PREFIX / "bin/mpiexec", "-n", 2, PROGRAM, "init-twice-returns"], timeout=30))
suite.finish()
