"""The layer check sees what it is there to see."""

from pathlib import Path

from check_layers import Layers

TEXT = """
base
memory   # a comment
channel
channel/*
route
stream device
coll/gpu/team
coll/gpu
"""


def cases(suite):
    layers = Layers(TEXT)

    def objection(includer, included):
        return layers.objection(Path(includer), Path(included))

    allowed = [
        ("base/a.hpp", "base/b.hpp"),
        ("memory/a.hpp", "base/b.hpp"),
        ("memory/deep/a.hpp", "memory/b.hpp"),
        ("channel/shm/a.hpp", "channel/b.hpp"),
        ("channel/shm/a.hpp", "channel/shm/b.hpp"),
        ("route/a.hpp", "channel/shm/b.hpp"),
        ("stream/a.hpp", "route/b.hpp"),
        ("coll/gpu/a.hpp", "coll/gpu/team/b.hpp"),
    ]
    forbidden = [
        ("base/a.hpp", "memory/b.hpp"),
        ("channel/a.hpp", "channel/shm/b.hpp"),
        ("channel/shm/a.hpp", "channel/cma/b.hpp"),
        ("channel/shm/a.hpp", "route/b.hpp"),
        ("stream/a.hpp", "device/b.hpp"),
        ("coll/gpu/team/a.hpp", "coll/gpu/b.hpp"),
        ("coll/a.hpp", "coll/gpu/b.hpp"),
        ("nowhere/a.hpp", "base/b.hpp"),
        ("base/a.hpp", "nowhere/b.hpp"),
    ]
    for pair in allowed:
        suite.check(f"layers: {pair[0]} may include {pair[1]}", not objection(*pair), objection(*pair))
    for pair in forbidden:
        suite.check(f"layers: {pair[0]} must not include {pair[1]}", objection(*pair), "no objection was made")
