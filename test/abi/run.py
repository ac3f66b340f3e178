"""The standard ABI, proved against the reference library and header that the `mpich` 5 wheel carries.

    python3 test/abi/run.py [--prefix DIR] [--reference DIR] [GROUP...]

The groups are the modules beside this file: generator, headers, symbols, wrappers, interposition, interchange.
"""

import argparse
import importlib
import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2] / "tools/dev")]

from suite import PREFIX, VENV, Suite  # noqa: E402

GROUPS = ("generator", "headers", "symbols", "wrappers", "interposition", "interchange")


class Reference:
    """The installation of the wheel: include/, lib/, bin/."""

    def __init__(self, prefix: Path):
        self.prefix = prefix
        self.header = prefix / "include/mpi_abi.h"
        self.library = prefix / "lib/libmpi_abi.so.1"
        self.mpicc = prefix / "bin/mpicc_abi"
        self.mpiexec = prefix / "bin/mpiexec"

    def require(self):
        """Fails the case that needs it if it is not there: the proof must not be skipped in silence."""
        for path in (self.header, self.library, self.mpicc, self.mpiexec):
            assert path.exists(), (
                f"the reference MPI is not complete, {path} is missing: install the Python package 'mpich==5.*' "
                "and name its prefix by ISTHMUS_REFERENCE_MPI or --reference"
            )
        return self


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("groups", nargs="*", default=GROUPS, metavar="GROUP", help=" ".join(GROUPS))
    parser.add_argument("--prefix", type=Path, default=PREFIX, help="the installation of Isthmus (build/prefix)")
    parser.add_argument("--reference", type=Path, default=os.environ.get("ISTHMUS_REFERENCE_MPI", VENV),
                        help="where the mpich wheel is installed ($ISTHMUS_REFERENCE_MPI, or build/venv)")  # fmt: skip
    arguments = parser.parse_args()
    unknown = [group for group in arguments.groups if group not in GROUPS]
    if unknown:
        parser.error(f"there is no group {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    prefix, reference = arguments.prefix.resolve(), Reference(Path(arguments.reference).resolve())
    suite = Suite("abi")
    for group in arguments.groups:
        importlib.import_module(group).run(suite, prefix, reference)
    suite.finish()


if __name__ == "__main__":
    main()
