"""How two libraries compare at one point: the ratio of their medians, with an interval by bootstrap over the repetitions."""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass

RESAMPLES = 2000
CONFIDENCE = 0.95
SEED = 20261121  # the same figures give the same interval


@dataclass(frozen=True)
class Ratio:
    """First library's figure by the second's; low and high are None where fewer than three repetitions have both."""

    value: float
    low: float | None
    high: float | None

    def decided(self) -> bool:
        """The interval leaves 1 out: one of the two is ahead."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def ratio(first: dict[int, float], second: dict[int, float]) -> Ratio | None:
    """Figures by repetition. Repetitions are drawn whole, because what the machine did in one of them hit both libraries alike."""
    if not first or not second:
        return None
    below = statistics.median(second.values())
    if below == 0:
        return None
    value = statistics.median(first.values()) / below
    common = sorted(first.keys() & second.keys())
    if len(common) < 3 or any(second[repetition] == 0 for repetition in common):
        return Ratio(value, None, None)
    chance = random.Random(SEED)
    drawn = []
    for _ in range(RESAMPLES):
        picked = chance.choices(common, k=len(common))
        drawn.append(statistics.median([first[i] for i in picked]) / statistics.median([second[i] for i in picked]))
    drawn.sort()
    margin = int(RESAMPLES * (1 - CONFIDENCE) / 2)
    return Ratio(value, drawn[margin], drawn[-1 - margin])
