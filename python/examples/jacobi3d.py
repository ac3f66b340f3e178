"""jacobi3d in Python: -Laplace(u) = f on the unit cube by Jacobi iterations with Chebyshev's weights, one block a chare.

    mpiexec -n 2 python jacobi3d.py [-n 64] [--parts 8] [--gpu] [--staged]

The blocks, the iteration and the answer are those of apps/jacobi3d, by NumPy or, with --gpu, CuPy; faces go by channels, from GPU to GPU, or,
with --staged, copied to the host and back. Exit status: 0 correct, 1 wrong or not converged.
"""

import argparse
import math
import time

import isthmus
import numpy

SOURCE = 1.25 * math.pi**2 - 1  # f = SOURCE * u


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=64, help="points along each edge, without the boundary (64)")
    parser.add_argument("--parts", type=int, default=0, help="chares in all (one a process)")
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument("--iterations", type=int, default=0, help="stop after so many (otherwise after what the tolerance takes)")
    parser.add_argument("--gpu", action="store_true", help="on GPUs, by CuPy")
    parser.add_argument("--staged", action="store_true", help="with --gpu: copy faces to the host, and send them from there")
    return parser.parse_args()


def choose_grid(parts, n):
    """Of parts along x, y and z, with the least surface."""
    grids = [(x, y, parts // x // y) for x in range(1, parts + 1) if parts % x == 0 for y in range(1, parts // x + 1) if parts // x % y == 0]
    fitting = [grid for grid in grids if max(grid) <= n]
    if not fitting:
        raise SystemExit(f"-n {n}: there is no grid of {parts} parts with at most {n} along each axis")
    return min(fitting, key=lambda grid: (sum(grid), grid[0], grid[1]))


class Part(isthmus.Chare):
    def __init__(self, options, grid):
        self.options, self.grid, n = options, grid, options.n
        self.xp = numpy
        if options.gpu:
            import cupy

            cupy.cuda.Device(isthmus.rank() % cupy.cuda.runtime.getDeviceCount()).use()
            self.xp = cupy
        xp = self.xp
        self.place = [self.index % grid[0], self.index // grid[0] % grid[1], self.index // (grid[0] * grid[1])]
        self.h = 1 / (n + 1)
        points = []
        for place, parts in zip(self.place, grid):
            size, offset = n // parts + (place < n % parts), place * (n // parts) + min(place, n % parts)
            points.append(xp.arange(offset, offset + size + 2) * self.h)
        x, y, z = points
        # In memory x is the fastest, as in apps/jacobi3d.
        self.exact = xp.exp(x)[None, None, :] * xp.sin(math.pi * y)[None, :, None] * xp.cos(math.pi / 2 * z)[:, None, None]
        self.source = (self.h**2 * SOURCE * self.exact)[1:-1, 1:-1, 1:-1]
        self.now = self.exact.copy()
        self.inside()[...] = 0
        for axis in range(3):
            for end in (0, 1):
                if self.neighbour(axis, end) is not None:
                    self.layer(self.now, axis, end, around=True)[...] = 0
        self.older = self.now.copy()

    def inside(self):
        return self.now[1:-1, 1:-1, 1:-1]

    def neighbour(self, axis, end):
        at = list(self.place)
        at[axis] += 2 * end - 1
        if not 0 <= at[axis] < self.grid[axis]:
            return None
        return at[0] + self.grid[0] * (at[1] + self.grid[1] * at[2])

    def layer(self, field, axis, end, around):
        """The outermost layer of the block at an end of an axis, or the one around it."""
        where = [slice(1, -1)] * 3
        where[2 - axis] = (-1 if end else 0) if around else (-2 if end else 1)
        return field[tuple(where)]

    async def exchange(self):
        sends = []
        for channel, axis, end, _ in self.channels:
            face = self.xp.ascontiguousarray(self.layer(self.now, axis, end, around=False))
            sends.append(channel.send(face.get() if self.options.staged else face))
        for channel, axis, end, buffer in self.channels:
            await channel.recv(into=buffer)
            self.layer(self.now, axis, end, around=True)[...] = self.xp.asarray(buffer)
        for send in sends:
            await send

    def sweep(self, weight):
        """The largest change is left to who asks: `change()`."""
        now = self.now
        around = now[1:-1, 1:-1, :-2] + now[1:-1, 1:-1, 2:] + now[1:-1, :-2, 1:-1] + now[1:-1, 2:, 1:-1] + now[:-2, 1:-1, 1:-1] + now[2:, 1:-1, 1:-1]
        step = (around + self.source) * (1.0 / 6)
        out = self.older[1:-1, 1:-1, 1:-1]
        out += weight * (step - out)
        return step

    @isthmus.entry
    async def run(self, target):
        options = self.options
        host = numpy if options.staged or not options.gpu else self.xp
        self.channels = []
        for axis in range(3):
            for end in (0, 1):
                other = self.neighbour(axis, end)
                if other is not None:
                    shape = self.layer(self.now, axis, end, around=True).shape
                    self.channels.append((isthmus.Channel(self, self.collection[other], axis), axis, end, host.empty(shape)))
        radius = math.cos(math.pi * self.h)
        to_residual = 6 / (self.h**2 * SOURCE * math.e)
        rate = -math.log(radius / (1 + math.sqrt(1 - radius**2)))
        limit = options.iterations or int(2 * math.log(6 / self.h**2 / options.tolerance) / rate) + 10
        weight, residual, iteration = 1.0, math.inf, 0
        begin = time.perf_counter()
        while True:
            await self.exchange()
            if iteration == 1:
                weight = 2 / (2 - radius**2)
            elif iteration > 1:
                weight = 1 / (1 - radius**2 * weight / 4)
            measure = iteration % 10 == 0 or iteration == limit
            step = self.sweep(weight)
            if measure:
                change = float(abs(step - self.inside()).max())
                largest = isthmus.Future()
                self.contribute(self.collection.agree, change, isthmus.reduce.max)
                self.agreed = largest
                residual = to_residual * await largest
                if residual <= options.tolerance or iteration == limit or not math.isfinite(residual):
                    break
            self.now, self.older = self.older, self.now
            iteration += 1
        seconds = time.perf_counter() - begin
        error = float(abs(self.inside() - self.exact[1:-1, 1:-1, 1:-1]).max())
        for channel, *_ in self.channels:
            channel.close()
        self.contribute(target, numpy.array([error, residual, iteration, seconds]), isthmus.reduce.max)

    @isthmus.entry
    def agree(self, largest):
        self.agreed.set_result(largest)


async def main(options):
    parts = options.parts or isthmus.size()
    grid = choose_grid(parts, options.n)
    target = isthmus.Future()
    blocks = isthmus.Array(Part, parts, options, grid)
    blocks.run(target)
    error, residual, iterations, seconds = (float(value) for value in await target)
    bound = (math.e * (1 + math.pi**4 * (1 + 1 / 16)) / 96) / (options.n + 1) ** 2 + residual * SOURCE * math.e / 8
    is_right = error <= bound and residual <= options.tolerance
    print(f"{parts} parts as {' x '.join(map(str, grid))}, {'CuPy' if options.gpu else 'NumPy'}")
    print(f"after {iterations:.0f} iterations, residual {residual:.3e}; {1000 * seconds / (iterations + 1):.4f} ms an iteration")
    print(f"error {error:.9e} against the analytic solution, allowed {bound:.3e}: {'correct' if is_right else 'WRONG'}")
    isthmus.exit(0 if is_right else 1)


if __name__ == "__main__":
    isthmus.run(main, parse())
