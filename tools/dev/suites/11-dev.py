# title: ./dev itself: the checks of lint, the suite runner, the commands
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
import tidy
from suite import Suite

suite = Suite("dev")
for part in (layers, docs, runner, tidy, changes, commands):
    part.cases(suite)
suite.check("the pictures in docs are what their texts say (python3 tools/dev/draw.py)", not draw.stale(), draw.stale())
suite.finish()
