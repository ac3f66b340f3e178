"""The suite mpi4py: its own tests, at several numbers of ranks; see tools/dev/suites/50-mpi4py.py."""

import collections
import os
import sys

sys.path[:0] = ["tools/dev", "test/mpi4py"]
import harness
import known_failures
import package
from module_runs import run_modules
from suite import PREFIX, Suite

# Not 8, unless asked for: on 2 cores they take 208 s, the others 147 s together.
RANKS = tuple(map(int, os.environ.get("MPI4PY_RANKS", "1 2 3 5").split()))
MODULES = """
    environ status request errhandler exceptions info group comm attributes datatype op pack
    p2p_buf p2p_obj p2p_buf_matched p2p_obj_matched cco_buf cco_obj cco_vec pickle msgspec
    address buffer cco_buf_inter cco_obj_inter cco_vec_inter
    cco_nb_buf cco_nb_vec cco_pr_buf cco_pr_vec cco_ngh_buf cco_ngh_obj cco_pr_ngh_buf
    comm_inter comm_topo errorcode grequest mpimem msgzero threads
""".split()

IMPORT = """
from mpi4py import MPI
print(MPI.Get_version(), MPI.Get_library_version())
print(*{line.split()[-1] for line in open("/proc/self/maps") if "libmpi" in line})
"""

suite = Suite("mpi4py")


def table(counts):
    """Passed, failed and skipped cases, a line for each module and a column for each number of ranks."""
    print(f"\n{'passed/failed/skipped at':<26}" + "".join(f"{ranks:>14}" for ranks in RANKS))
    sums = collections.Counter()
    for module in MODULES:
        cells = []
        for ranks in RANKS:
            cell = [counts[module, ranks, status] for status in ("ok", "fail", "skip")]
            sums.update({(ranks, index): count for index, count in enumerate(cell)})
            cells.append("/".join(map(str, cell)))
        print(f"  test_{module:<19}" + "".join(f"{cell:>14}" for cell in cells))
    print(f"  {'all':<24}" + "".join(f"{'/'.join(str(sums[ranks, index]) for index in range(3)):>14}" for ranks in RANKS) + "\n")


def run_tests():
    entries = known_failures.read()
    counts = collections.Counter()
    modules = [f"test_{module}" for module in MODULES]
    for ranks in RANKS:
        folder = suite.tmp / f"ranks-{ranks}"
        outcomes, breaks = run_modules(ranks, modules, folder, python=package.PYTHON, env=package.environment())
        for case, outcome in outcomes.items():
            verdict, words = known_failures.judge(entries, case, ranks, outcome)
            name = f"{case} at {ranks}"
            counts[case.partition(".")[0].removeprefix("test_"), ranks, verdict] += 1
            if verdict == "skip":
                suite.skip(name, " ".join(words.split()))
            else:
                suite.check(name, verdict == "ok", words)
        suite.check(f"the jobs at {ranks} end with status 0", not breaks, "\n\n".join(breaks))
        for module in MODULES:
            if not any(counts[module, ranks, status] for status in ("ok", "fail", "skip")):
                suite.fail(f"test_{module} has cases at {ranks}")
    for entry in entries:
        suite.check(f"{known_failures.FILE.name}: {entry.pattern} is about a case", entry.used, "no case that it names failed: take it off")
    table(counts)


def main():
    built = False
    with suite.case(f"mpi4py {package.VERSION} builds from its source with our mpicc"):
        print("built anew" if package.build() else "an earlier run built it")
        built = True
    if built:
        with suite.case("import mpi4py.MPI works, and loads our library"):
            result = suite.run([package.PYTHON, "-c", IMPORT], env=package.environment())
            suite.expect(result, out=rf"^\(5, 0\) Isthmus(.|\n)*^{PREFIX}/lib/libmpi_abi\.so\.1$")
        harness.check(suite)
        run_tests()
    suite.finish()


if __name__ == "__main__":
    main()
