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
# Tests of the network wait most of their time, until a connection is given up: the others run beside them.
parts = [(binary, "Network*") for binary in binaries] + [(binary, "-Network*") for binary in binaries]
gtest.run_beside(suite, parts, at_once=2, timeout=540)
suite.finish()
