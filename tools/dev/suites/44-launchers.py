# title: processes find each other under Hydra, orterun and Slurm
# timeout: 200
# runs: kvs_probe isthmus_pmix mpi_abi
# about: src/launch/* test/launchers/*
import os
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, "tools/dev")
import slurm
from suite import BUILT, PREFIX, ROOT, Skip, Suite

PROBE = Path(os.environ.get("LAUNCHERS_PROBE") or BUILT / "test/kvs_probe")
PMIX_PLUGIN = BUILT / "lib/isthmus/libisthmus_pmix.so"
HYDRA = ["mpiexec.hydra"]
ORTERUN = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]

suite = Suite("launchers")


class Launcher:
    """How a launcher is started, and what it makes of an abort."""

    def __init__(self, name, command, protocol, *, environment=None, abort_status=9):
        self.name, self.command, self.protocol = name, command, protocol
        self.environment, self.abort_status = environment or {}, abort_status

    def run(self, ranks, *words):
        return suite.run([*self.command, "-n", str(ranks), *map(str, words)], env=self.environment, timeout=40)

    def needs(self):
        program = self.command[0]
        if not shutil.which(program, path=self.environment.get("PATH")):
            raise Skip(f"there is no {program}")
        if self.protocol == "PMIx" and not PMIX_PLUGIN.exists():
            raise Skip("built without PMIx")


def lines_of(result):
    return sorted(result.out.splitlines())


SESSIONS = suite.tmp / "program_sessions"


def compile_sessions():
    suite.expect(suite.run([PREFIX / "bin/mpicc", "-std=gnu11", ROOT / "test/mpi/program/sessions.c", "-o", SESSIONS], timeout=60))


def test_launcher(launcher):
    def case(name):
        return suite.case(f"{launcher.name}: {name}")

    with case("4 ranks read the values of all, of any bytes, after each of two fences"):
        launcher.needs()
        result = suite.expect(launcher.run(4, PROBE), status=0)
        shape = rf"rank (\d) of 4, {re.escape(launcher.protocol)}, universe -?\d+, appnum -?\d+, job (\S+)"
        matches = [re.fullmatch(shape, line) for line in lines_of(result)]
        assert all(matches) and [match[1] for match in matches] == list("0123"), str(result)
        assert len({match[2] for match in matches}) == 1, str(result)
        # What Slurm says of its queue is no noise of ours.
        assert not [line for line in result.err.splitlines() if not line.startswith("srun: job ")], str(result)

    with case("jobs one after the other have different names"):
        launcher.needs()
        names = {lines_of(suite.expect(launcher.run(1, PROBE)))[0].rpartition(" ")[2] for _ in range(3)}
        assert len(names) == 3, names

    with case("sessions without MPI_Init, and behind MPI_Finalize"):
        launcher.needs()
        compile_sessions()
        for way in ("alone", "after"):
            result = suite.expect(launcher.run(4, SESSIONS, way), status=0)
            assert lines_of(result) == ["sum 4"] * 4, str(result)
        suite.expect(launcher.run(4, SESSIONS, "exits"), status=7)

    with case("one rank is a job too"):
        launcher.needs()
        suite.expect(launcher.run(1, PROBE), status=0, out=rf"^rank 0 of 1, {launcher.protocol},")

    with case("the exit code of a rank that has finalized is the job's"):
        launcher.needs()
        suite.expect(launcher.run(4, PROBE, "exit", 7), status=7)

    with case(f"abort ends ranks that wait; the status is {launcher.abort_status}"):
        launcher.needs()
        suite.expect(launcher.run(4, PROBE, "abort", 9), status=launcher.abort_status)

    with case("a key that nobody has put is an error at once"):
        launcher.needs()
        result = suite.expect(launcher.run(2, PROBE, "missing"), status=0, within=20)
        assert len(re.findall(r"^missing: the launcher .*nobody-put-this", result.out, re.M)) == 2, str(result)

    with case("programs that a rank starts are jobs of their own and inherit no descriptor"):
        launcher.needs()
        result = suite.expect(launcher.run(2, PROBE, "children"), status=0)
        assert len(re.findall(r"^children: singletons, (?:0|-1) sockets more$", result.out, re.M)) == 2, str(result)


def test_survival(launcher, before=()):
    """Under launchers that let the others live on, nobody tells them of a death: they find out themselves. `before`: words before the
    program."""
    for words in (("messages", 1), ("collective", 1, "allreduce", 64, 3000), ("finalize", 1)):
        with suite.case(f"{launcher.name}: a rank dies, the others live on: {words[0]}"):
            launcher.needs()
            program = suite.tmp / "program_survival"
            if not program.exists():
                suite.expect(suite.run([PREFIX / "bin/mpicc", "-std=gnu11", ROOT / "test/mpi/program/survival.c", "-o", program]))
            result = launcher.run(4, *before, program, *words)
            assert not result.timed_out and re.search("^survived$", result.out, re.M), str(result)


def test_without_server():
    pmix = {"PMIX_RANK": "0", "PMIX_NAMESPACE": "gone"}

    with suite.case("no launcher: a job of one"):
        suite.expect(suite.run([PROBE]), status=0, out="^singleton$")

    with suite.case("PMIx variables without a server: one sentence, and nothing of libpmix's own"):
        if not PMIX_PLUGIN.exists():
            raise Skip("built without PMIx")
        result = suite.expect(suite.run([PROBE], env=pmix, timeout=20), status=3, err="that cannot be reached")
        assert len(result.err.splitlines()) == 1 and not result.out, str(result)

    with suite.case("an installation without the PMIx object says what to install for the build"):
        folder = suite.tmp / "bare"
        folder.mkdir()
        shutil.copy(PROBE, folder / "kvs_probe")
        suite.expect(suite.run([folder / "kvs_probe"], env=pmix), status=3, err=r"libisthmus_pmix\.so.*Debian: libpmix-dev")

    with suite.case("a PMIx object that cannot be loaded says what to install for the run"):
        folder = suite.tmp / "broken"
        (folder / "isthmus").mkdir(parents=True)
        shutil.copy(PROBE, folder / "kvs_probe")
        (folder / "isthmus/libisthmus_pmix.so").write_text("not an object\n")
        result = suite.run([folder / "kvs_probe"], env=pmix)
        suite.expect(result, status=3, err=r"cannot be loaded \(Debian: libpmix2\)")


def test_slurm():
    folder = suite.tmp / "slurm"
    with slurm.running(folder) as cluster:
        def srun(*options):
            return ["srun", "--quiet", *options]

        # Slurm's PMI-2 has no exit code in its abort: the step is killed (SIGKILL, 137).
        test_launcher(Launcher("srun --mpi=pmi2", srun("--mpi=pmi2"), "PMI-2", environment=cluster.environment, abort_status=137))
        test_launcher(Launcher("srun --mpi=pmix", srun("--mpi=pmix"), "PMIx", environment=cluster.environment))

        for plugin, protocol in (("pmi2", "PMI-2"), ("pmix", "PMIx")):
            test_survival(Launcher(f"srun --mpi={plugin}", srun(f"--mpi={plugin}"), protocol, environment=cluster.environment))

        with suite.case("Slurm: without an MPI plugin, and in an allocation without srun, a job of one"):
            suite.expect(Launcher("", srun("--mpi=none"), "", environment=cluster.environment).run(1, PROBE), out="^singleton$")
            suite.expect(Launcher("", ["salloc", "-Q"], "", environment=cluster.environment).run(1, PROBE), out="^singleton$")

        for plugin in ("pmi2", "pmix"):
            with suite.case(f"mpiexec as a task of srun --mpi={plugin}: its ranks are mpiexec's"):
                task = Launcher("", srun(f"--mpi={plugin}"), "", environment=cluster.environment)
                result = suite.expect(task.run(1, PREFIX / "bin/mpiexec", "-n", "2", PROBE), status=0)
                assert all(re.match(r"rank \d of 2, PMI-1,", line) for line in lines_of(result)), str(result)

            with suite.case(f"Hydra whose proxies are started by srun --mpi={plugin}: its ranks are Hydra's"):
                inside = Launcher("", ["salloc", "-Q"], "", environment={**cluster.environment, "SLURM_MPI_TYPE": plugin})
                result = inside.run(2, *HYDRA, "-launcher", "slurm", "-n", "2", PROBE)
                suite.expect(result, status=0, out=r"^rank 1 of 2, PMI-1,")


test_launcher(Launcher("mpiexec", [PREFIX / "bin/mpiexec"], "PMI-1"))
test_launcher(Launcher("mpiexec.hydra", HYDRA, "PMI-1"))
test_launcher(Launcher("orterun", ORTERUN, "PMIx"))
# Hydra ends all when it sees one killed (4.0.2, with that option too); under a shell it does not see it, but a SIGUSR1 comes of it.
test_survival(Launcher("mpiexec.hydra", [*HYDRA, "-disable-auto-cleanup"], "PMI-1"), ["sh", "-c", 'trap "" USR1; "$@"', "sh"])
test_survival(Launcher("orterun", [*ORTERUN, "--enable-recovery"], "PMIx"))
test_without_server()
try:
    test_slurm()
except slurm.Unavailable as why:
    suite.skip("Slurm", why)
suite.finish()
