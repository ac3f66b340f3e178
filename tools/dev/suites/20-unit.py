# title: the unit tests
# timeout: 600
# under: asan tsan
# runs: isthmus_unit isthmus_unit_chare isthmus_unit_cuda isthmus_unit_memory
import sys

sys.path.insert(0, "tools/dev")
import gtest
from suite import BUILT, Suite

suite = Suite("unit")
binaries = sorted(path for path in BUILT.glob("**/isthmus_unit*") if path.is_file() and path.suffix == "")
if not binaries:
    suite.fail("the unit tests are built", f"no isthmus_unit under {BUILT}")
# Most of their time tests of the network wait until a connection is given up, and others until somebody counts as lost: four programs do not fill two
# cores.
WAITING = ("Network*", "Watch*:DeviceDirectory*")
GROUPS = (*WAITING, f"-{':'.join(WAITING)}:Domains*", "Domains*")
gtest.run_beside(suite, [(binary, group) for group in GROUPS for binary in binaries], at_once=4, timeout=540)
suite.finish()
