# title: ranks in containers: every namespace private or shared
# timeout: 300
import itertools
import shutil
import subprocess
import sys

sys.path.insert(0, "tools/dev")
from suite import PREFIX, ROOT, Suite

suite = Suite("places")
flags = {"user": "-Ur", "pid": "-pf --mount-proc --kill-child", "ipc": "-i", "shm": "", "net": "-n", "uts": "-u"}
program = suite.tmp / "exchange"
built = suite.run([PREFIX / "bin/mpicc", ROOT / "test/places/exchange.c", "-o", program], timeout=60)
may = subprocess.run(["unshare", "-mpfuinUr", "--mount-proc", "true"], capture_output=True, check=False).returncode == 0
hydra = shutil.which("mpiexec.hydra")


def start(private, **env):
    """Two ranks, each with the `private` namespaces to itself, and 64 KB of /dev/shm where that is one."""
    words = ["unshare", "-m"]
    for name in private:
        words += flags[name].split()
    mount = "mount -t tmpfs -o size=64k shm /dev/shm; " if "shm" in private else ""
    mount += "ip link set lo up; " if "net" in private else ""
    words += ["sh", "-c", mount + 'exec "$0"', program]
    return suite.run([hydra, "-n", "2", *words], timeout=60, env={"ISTHMUS_IDLE": "sleep", **env})


together = r"shares memory with 2 of 2"
with suite.case("the program is built"):
    suite.expect(built, status=0)
if not hydra or not may:
    suite.skip("the matrix", "mpiexec.hydra is missing" if not hydra else "this user may not make namespaces")
else:
    folder = suite.tmp / "meet"
    folder.mkdir()
    folder.chmod(0o1777)
    names = list(flags)
    for size in range(len(names) + 1):
        for private in itertools.combinations(names, size):
            nothing = {"ipc", "shm", "net"} <= set(private)
            with suite.case("private: " + (", ".join(private) or "none") + (", a folder shared" if nothing else "")):
                # A System V segment is for one user: with a user namespace of its own, root is still the same one.
                result = start(private, **({"ISTHMUS_RENDEZVOUS_DIR": folder} if nothing else {}))
                suite.expect(result, status=0, out=together)
                if result.out.count(" 0 wrong, shares memory with 2 of 2") != 2:
                    raise AssertionError(str(result))
    with suite.case("a rank that shares nothing is told the remedy"):
        result = start(("ipc", "shm", "net"))
        if result.status == 0 or "set ISTHMUS_RENDEZVOUS_DIR" not in result.err:
            raise AssertionError(str(result))
    suite.check("nothing is left in the folder", not list(folder.iterdir()), list(folder.iterdir()))
suite.finish()
