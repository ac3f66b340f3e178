"""The points that `./dev bench host` measures, and what Isthmus is to reach at each of them (the tables of issues 2 and 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """Bounds on Isthmus's figure. For times and memory it must not be above them, for bandwidths and rates not below."""

    to_best: float | None = None  # times the best peer's figure
    to_limit: float | None = None  # times the machine's own limit
    ahead: bool = False  # strictly ahead of every peer

    def text(self, less_is_better: bool) -> str:
        sign = "<=" if less_is_better else ">="
        parts = []
        if self.to_limit is not None:
            parts.append(f"{sign} {self.to_limit:g} x limit")
        if self.to_best is not None:
            parts.append(f"{sign} {self.to_best:g} x best")
        if self.ahead:
            parts.append("ahead")
        return ", ".join(parts)


@dataclass(frozen=True)
class Point:
    """One row of the table."""

    name: str  # what bench_host calls it, "@" and the number of ranks: latency.8B@2
    title: str
    unit: str
    section: str
    limit: str | None = None  # the point of bench_raw that bounds it
    target: Target | None = None

    @property
    def less_is_better(self) -> bool:
        return self.unit in ("us", "ms", "MiB")

    @property
    def benchmark(self) -> str:
        return self.name.partition("@")[0]

    @property
    def ranks(self) -> int:
        return int(self.name.partition("@")[2])

    def best(self, figures: Sequence[float]) -> float | None:
        """The best of the peers' figures."""
        if not figures:
            return None
        return min(figures) if self.less_is_better else max(figures)

    def met(self, isthmus: float | None, best: float | None, limit: float | None) -> bool | None:
        """Whether Isthmus reached the target; None where there is no target or a figure that it needs is missing.

        Where Isthmus finished and no peer did, every comparison with peers counts as won.
        """
        if self.target is None or isthmus is None:
            return None
        verdicts: list[bool] = []
        if self.target.to_limit is not None:
            if limit is None:
                return None
            verdicts.append(self._within(isthmus, self.target.to_limit * limit))
        if best is not None:
            if self.target.to_best is not None:
                verdicts.append(self._within(isthmus, self.target.to_best * best))
            if self.target.ahead:
                verdicts.append(isthmus < best if self.less_is_better else isthmus > best)
        return all(verdicts)

    def _within(self, figure: float, bound: float) -> bool:
        return figure <= bound if self.less_is_better else figure >= bound


def _message_points() -> list[Point]:
    section = "messages, 2 ranks on 2 cores"
    small = Target(to_best=0.75)
    large = Target(to_best=1.7)
    points = [
        Point("latency.8B@2", "8 B one way", "us", section, "cache-line-pair", Target(to_limit=1.35, ahead=True)),
        Point("latency.64B@2", "64 B one way", "us", section),
        Point("latency.1KiB@2", "1 KiB one way", "us", section, None, Target(to_best=0.9)),
        Point("latency.4KiB@2", "4 KiB one way", "us", section, "double-copy.4KiB", small),
        Point("latency.32KiB@2", "32 KiB one way", "us", section, "double-copy.32KiB", small),
        Point("latency.256KiB@2", "256 KiB one way", "us", section),
        Point("latency-echo.4KiB@2", "4 KiB one way, fresh data", "us", section, "double-copy.4KiB"),
        Point("latency-echo.32KiB@2", "32 KiB one way, fresh data", "us", section, "double-copy.32KiB"),
        Point("rate.8B@2", "8 B messages, window 64", "M/s", section, "line-stream", Target(to_best=1.8)),
    ]
    for size in (1, 4, 16, 64):
        copied = f"memcpy-2-cores.{size}MiB"
        points.append(Point(f"bandwidth.{size}MiB@2", f"{size} MiB send/recv", "GB/s", section, copied, large))
    for size in (1, 4, 16, 64):
        copied = f"memcpy-2-cores.{size}MiB"
        points.append(Point(f"bandwidth-echo.{size}MiB@2", f"{size} MiB send/recv, fresh data", "GB/s", section, copied))
    for size in (2, 4, 8, 16):
        name = f"bandwidth-window.{size}KiB@2"
        points.append(Point(name, f"{size} KiB window, one way", "GB/s", section, None, Target(to_best=1.1)))
    for size in (1, 16):
        copied = f"memcpy-2-cores.{size}MiB"
        points.append(Point(f"bandwidth-window.{size}MiB@2", f"{size} MiB window, one way", "GB/s", section, copied))
    return points


def _collective_points() -> list[Point]:
    section = "collectives, 2 ranks on 2 cores"
    target = Target(to_best=0.75)
    return [
        Point("barrier@2", "barrier", "us", section, "cache-line-pair", target),
        Point("allreduce.8B@2", "8 B allreduce", "us", section, "cache-line-pair", target),
        Point("bcast.64KiB@2", "64 KiB bcast, root moves", "us", section, None, target),
        Point("bcast-fixed-root.64KiB@2", "64 KiB bcast, root 0", "us", section, None, target),
        Point("allreduce.1MiB@2", "1 MiB allreduce", "us", section, None, target),
        Point("alltoall.64KiB@2", "64 KiB alltoall", "us", section, None, target),
        Point("iallreduce.8B@2", "8 B iallreduce, wait", "us", section, "cache-line-pair", target),
        Point("ibcast.64KiB@2", "64 KiB ibcast, wait, root moves", "us", section, None, target),
        Point("iallreduce-many.8B@2", "100 iallreduces of 8 B under way, each", "us", section, None, Target(to_best=0.6)),
    ]


def _crowded_points() -> list[Point]:
    section = "more ranks than cores"
    target = Target(to_best=0.6)
    return [
        Point("allreduce.8B@8", "8 ranks, 8 B allreduce", "us", section, "barrier-8-yielding", target),
        Point("barrier@8", "8 ranks, barrier", "us", section, "barrier-8-yielding"),
        Point("neighbor-alltoall.1KiB@8", "8 ranks in a 3-D grid, 1 KiB to each neighbour", "us", section, None, Target(to_best=0.75)),
        Point("neighbor-alltoall.64KiB@8", "8 ranks in a 3-D grid, 64 KiB to each neighbour", "us", section, None, Target(to_best=0.75)),
    ]


def _starting_points() -> list[Point]:
    section = "init, barrier, finalize on 2 cores"
    points = []
    for ranks, time_bound, memory in ((2, 0.4, 0.6), (32, 0.4, 0.6), (256, 0.3, None)):
        points += [
            Point(f"start@{ranks}", f"{ranks} ranks, start to finish", "ms", section, f"start@{ranks}", Target(time_bound)),
            Point(f"resident@{ranks}", f"{ranks} ranks, resident a rank", "MiB", section, "resident",
                  Target(memory) if memory else None),
            Point(f"resident-peak@{ranks}", f"{ranks} ranks, peak a rank", "MiB", section, "resident-peak"),
            Point(f"resident-share@{ranks}", f"{ranks} ranks, share (Pss) a rank", "MiB", section, "resident-share"),
        ]
    points.append(Point("alltoall.1KiB@256", "256 ranks, 1 KiB alltoall", "ms", section, None, Target(0.3)))
    return points


POINTS: tuple[Point, ...] = tuple(
    _message_points() + _collective_points() + _crowded_points() + _starting_points()
)
