# title: ./dev itself: the layer check, the suite runner, the commands
# timeout: 120
# runs: none
# reads: dev tools/dev/* test/dev/* docs/pictures/*
import sys

sys.path[:0] = ["tools/dev", "tools/dev/lint", "test/dev"]
import changes
import commands
import docs
import draw
import layers
import runner
from suite import Suite

suite = Suite("dev")
for part in (layers, docs, runner, changes, commands):
    part.cases(suite)
suite.check("the pictures in docs are what their texts say (python3 tools/dev/draw.py)", not draw.stale(), draw.stale())
suite.finish()
