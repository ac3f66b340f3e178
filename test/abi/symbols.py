"""What libmpi_abi.so.1 exports: every function of mpi.h twice, PMPI_ strong and MPI_ weak, the extensions, and nothing else."""

import re

from suite import ROOT


def run(suite, prefix, reference):
    library = prefix / "lib/libmpi_abi.so.1"
    chaptered = (ROOT / "include/mpi.h").read_text()
    functions = set(re.findall(r"^\w[\w ]*\bMPI_(\w+)\(", chaptered, re.MULTILINE))
    extensions = set(re.findall(r"\bMPIX_(\w+)\(", (ROOT / "include/mpi-ext.h").read_text()))
    chares = set(re.findall(r"\b(isthmus_chare_\w+)\(", (ROOT / "include/isthmus/chare_runtime.h").read_text()))

    streams = set(re.findall(r"\b(isthmus_stream_\w+)\(", (ROOT / "include/isthmus/stream_runtime.h").read_text()))
    devices = set(re.findall(r"\b(isthmus_device_\w+)\(", (ROOT / "include/isthmus/device_runtime.h").read_text()))

    with suite.case("libmpi_abi.so.1 exports the functions of the standard, twice, those of chares, streams and kernels, and nothing else"):
        assert len(functions) > 600, f"only {len(functions)} functions were read from mpi.h"
        assert len(chares) > 20, f"only {len(chares)} functions were read from chare_runtime.h"
        exported = {}
        for line in suite.expect(suite.run(["nm", "-D", "--defined-only", library])).out.splitlines():
            _, kind, name = line.split()
            exported[name] = kind
        expected = {f"MPI_{name}": "W" for name in functions} | {f"PMPI_{name}": "T" for name in functions}
        expected |= {f"MPIX_{name}": "W" for name in extensions} | {f"PMPIX_{name}": "T" for name in extensions}
        assert len(streams) > 10, f"only {len(streams)} functions were read from stream_runtime.h"
        assert len(devices) > 7, f"only {len(devices)} functions were read from device_runtime.h"
        # The last are for the programs that hold several ranks, which mpiexec starts.
        expected |= dict.fromkeys(chares | streams | devices | {"isthmus_virtual_ranks_main", "isthmus_migratable_ranks_main"}, "T")
        problems = [f"missing: {name}" for name in sorted(expected.keys() - exported.keys())]
        problems += [f"should not be exported: {name}" for name in sorted(exported.keys() - expected.keys())]
        problems += [
            f"{name} is '{exported[name]}', not '{kind}'"
            for name, kind in sorted(expected.items())
            if exported.get(name, kind) != kind
        ]
        assert not problems, "\n".join(problems)
    with suite.case("MPI_X and PMPI_X are one function"):
        places = {}
        for line in suite.run(["nm", "-D", "--defined-only", library]).out.splitlines():
            address, _, name = line.split()
            places[name] = address
        apart = [name for name in sorted(functions) if places.get(f"MPI_{name}") != places.get(f"PMPI_{name}")]
        assert not apart, f"MPI_ and PMPI_ differ: {', '.join(apart)}"
    with suite.case("libmpi_abi.so.1 names itself, and .so and .so.0 lead to it"):
        suite.expect(suite.run(["readelf", "-d", library]), out=r"\(SONAME\).*\[libmpi_abi\.so\.1\]")
        for name in ("libmpi_abi.so", "libmpi_abi.so.0"):
            link = prefix / "lib" / name
            assert link.is_symlink(), f"{link} is no symbolic link"
            assert link.resolve() == library.resolve(), f"{link} leads to {link.resolve()}"
    with suite.case("the reference library defines every function of mpi.h"):
        reference.require()
        text = suite.expect(suite.run(["nm", "-D", "--defined-only", reference.library])).out
        theirs = set(re.findall(r" MPI_(\w+)$", text, re.MULTILINE))
        assert functions <= theirs, f"not in the reference library: {', '.join(sorted(functions - theirs))}"
