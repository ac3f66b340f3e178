# title: the device tests, against the emulated CUDA driver
# timeout: 120
import sys

sys.path.insert(0, "tools/dev")
import gtest
from suite import BUILT, Suite

suite = Suite("device")
binary = BUILT / "test/device/isthmus_device_cuda"
if not binary.is_file():
    suite.fail("the device tests are built", f"there is no {binary}")
else:
    # What it prints of costs means nothing here.
    gtest.run(suite, binary, timeout=100, env={"LD_LIBRARY_PATH": str(BUILT / "test/emulated"), "GTEST_FILTER": "-*Cost*"})
suite.finish()
