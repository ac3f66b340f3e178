# title: the device tests, against the emulated CUDA driver
# timeout: 120
# runs: isthmus_device_cuda emulated_cuda emulated_kernels
# about: src/gpu/* src/kernels/* test/*
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
    emulated = BUILT / "test/emulated"
    settings = {"LD_LIBRARY_PATH": str(emulated), "EMULATED_CUDA_TWINS": str(emulated / "libemulated_kernels.so"), "GTEST_FILTER": "-*Cost*"}
    gtest.run(suite, binary, timeout=100, env=settings)
suite.finish()
