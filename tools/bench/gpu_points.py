"""What `./dev bench gpu` measures, and what Isthmus is to reach (the table of issue 4)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bound:
    """A bound on the MPI library's figure by that of another way; times must not be above it, rates not below."""

    way: str  # raw, nccl, or one of ELSEWHERE
    factor: float
    plus: float = 0.0  # in the point's unit

    def text(self, less_is_better: bool) -> str:
        return f"{'<=' if less_is_better else '>='} {self.factor:g} x {self.way}{f' + {self.plus:g}' if self.plus else ''}"


@dataclass(frozen=True)
class Point:
    name: str  # as bench_gpu has it
    title: str
    section: str
    ranks: int = 2
    unit: str = "us"
    bounds: tuple[Bound, ...] = ()
    place: str = ""  # one of PLACES; empty: no walls

    @property
    def less_is_better(self) -> bool:
        return self.unit == "us"

    @property
    def key(self) -> str:
        return f"{self.name}@{self.ranks}{f' {self.place}' if self.place else ''}"

    def met(self, figures: dict[str, float]) -> bool | None:
        """None where there is no bound, or nothing to compare with."""
        verdicts = []
        for bound in self.bounds:
            if "mpi" not in figures or bound.way not in figures:
                return None
            limit = bound.factor * figures[bound.way] + bound.plus
            verdicts.append(figures["mpi"] <= limit if self.less_is_better else figures["mpi"] >= limit)
        return all(verdicts) if verdicts else None


# Ranks in namespaces of their own, as container engines make them. Where both are process 1, the driver refuses legacy handles.
_UNSHARE = ("unshare", "-U", "-r", "-m", "-p", "-i", "-u", "-n", "-f", "--mount-proc", "--kill-child")
PLACES = {
    "apart": (*_UNSHARE, "sh", "-c", 'for i in $(seq $((2 + 3 * ISTHMUS_RANK))); do sh -c : & wait; done; "$@"', "sh"),
    "equal pids": (*_UNSHARE,),
    "courier off": ("env", "ISTHMUS_GPU_COURIER=off"),
}

# What a bound compares with that is measured for another point of the same run: its key, and the way.
ELSEWHERE = {
    "native": ("pingpong.64MiB@2", "mpi"),
    "pcie": ("pinned-device.64MiB@2", "raw"),
}

SMALL = ("8B", "4KiB", "64KiB", "1MiB")


def _messages() -> list[Point]:
    section = "device to device, two GPUs, one way"
    points = [Point("pingpong.8B", "8 B", section, bounds=(Bound("raw", 1.15), Bound("nccl", 0.55))),
              Point("pingpong.4KiB", "4 KiB", section), Point("pingpong.64KiB", "64 KiB", section)]
    for size, title, bounds in (("1MiB", "1 MiB", (Bound("raw", 0.9),)),
                                ("64MiB", "64 MiB", (Bound("raw", 0.98), Bound("nccl", 1.2))),
                                ("1024MiB", "1 GiB", (Bound("raw", 0.99),))):
        points.append(Point(f"pingpong.{size}", title, section, unit="GB/s", bounds=bounds))
    points += [
        Point("window.1MiB", "64 x 1 MiB, one direction", section, unit="GB/s", bounds=(Bound("raw", 0.95),)),
        Point("window-both.1MiB", "64 x 1 MiB, both directions", section, unit="GB/s", bounds=(Bound("raw", 0.95),)),
        Point("first.4MiB", "first message of a buffer, 4 MiB", section, bounds=(Bound("raw", 1.1),)),
        Point("vector.1MiB", "1 MiB in 8-byte blocks (raw: without gaps)", section, unit="GB/s", bounds=(Bound("raw", 0.5),)),
    ]
    return points


def _couriers() -> list[Point]:
    section = "latency-bound, device to device, one way (raw: a bare courier)"
    points = [Point("latency.8B", "8 B", section, bounds=(Bound("raw", 1.21),))]
    points += [Point(f"latency.{size}", size, section) for size in ("1KiB", "4KiB", "16KiB")]
    points.append(Point("synchronised.8B", "8 B, the device synchronised before each (raw: the same around copies)", section))
    off = "courier off"
    points += [Point(f"latency.{size}", f"{size}, without courier", section, place=off) for size in ("8B", "1KiB", "4KiB", "16KiB")]
    points.append(Point("synchronised.8B", "8 B, the device synchronised before each, without courier", section, place=off))
    return points


def _host() -> list[Point]:
    section = "host memory, and both"
    return [
        Point("host.8B", "8 B between hosts' memories (raw: before CUDA)", section, bounds=(Bound("raw", 1.0, plus=0.1),)),
        Point("pinned-device.64MiB", "64 MiB, pinned and device", section, unit="GB/s", bounds=(Bound("raw", 0.9),)),
        Point("pageable-device.64MiB", "64 MiB, pageable and device", section, unit="GB/s", bounds=(Bound("raw", 0.9),)),
    ]


def _places() -> list[Point]:
    section = "all namespaces private"
    return [
        Point("pingpong.8B", "8 B, different pids", section, place="apart"),
        Point("pingpong.64MiB", "64 MiB, different pids", section, unit="GB/s", place="apart", bounds=(Bound("native", 0.98), Bound("raw", 0.98))),
        Point("pingpong-vmm.64MiB", "64 MiB, equal pids, cuMemCreate", section, unit="GB/s", place="equal pids", bounds=(Bound("native", 0.98),)),
        Point("pinned-device.64MiB", "64 MiB, equal pids, pinned and device", section, unit="GB/s", place="equal pids"),
        Point("pingpong.64MiB", "64 MiB, equal pids, cudaMalloc", section, unit="GB/s", place="equal pids", bounds=(Bound("pcie", 0.9),)),
    ]


def _collectives(ranks: int) -> list[Point]:
    section = f"collectives on {ranks} GPUs"
    points = []
    for name in ("allreduce", "bcast", "allgather", "alltoall"):
        points += [Point(f"{name}.{size}", f"{name} {size}", section, ranks, bounds=(Bound("nccl", 1.0),)) for size in SMALL]
        points.append(Point(f"{name}.64MiB", f"{name} 64MiB", section, ranks, bounds=(Bound("nccl", 1 / 0.9),)))
    for name in ("allgatherv", "alltoallv", "alltoall-in-place", "scan"):
        points += [Point(f"{name}.{size}", f"{name} {size}", section, ranks) for size in (*SMALL, "64MiB")]
    return points


POINTS: tuple[Point, ...] = tuple(_messages() + _couriers() + _host() + _places() + _collectives(2) + _collectives(4))
