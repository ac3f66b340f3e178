# title: ./dev itself: the layer check, the suite runner, the commands
# timeout: 120
import sys

sys.path[:0] = ["tools/dev", "test/dev"]
import commands
import layers
import runner
from suite import Suite

suite = Suite("dev")
for part in (layers, runner, commands):
    part.cases(suite)
suite.finish()
