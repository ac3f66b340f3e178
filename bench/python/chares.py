"""What entries, channels and futures of the Python package cost: the table of docs/python.md.

    mpiexec -n 2 python chares.py

Each line is the best of the blocks, and their median, in microseconds: one way, but for futures there and back.
The last lines are
MPI's own messages by the same numbers of bytes, from C, without Python's part: what channels are held against.
"""

import statistics
import sys
import time

import numpy

import isthmus

BLOCKS = 21
ROUNDS = 500
LONG = 4 << 20


def show(what, seconds):
    micro = sorted(1e6 * each for each in seconds)
    print(f"{isthmus.size()}  {what:<46} {micro[0]:10.3f} {statistics.median(micro):10.3f} us", flush=True)


class Player(isthmus.Chare):
    """Two of them throw something to each other."""

    @isthmus.entry
    def meet(self, other, done):
        self.other = other
        self.done = done

    @isthmus.entry
    def begin(self, rounds, payload):
        self.left = rounds
        self.other.hit(payload)

    @isthmus.entry
    def hit(self, payload):
        self.left -= 1
        if self.left < 0:
            self.done.set_result(None)
        else:
            self.other.hit(payload)

    @isthmus.entry
    def rounds(self, count, done):
        self.left = count
        self.done = done

    @isthmus.entry
    def answer(self, value):
        return value

    @isthmus.entry
    async def ask(self, count):
        other = self.other
        begin = time.perf_counter()
        for _ in range(count):
            await other.answer(1, ret=True)
        return (time.perf_counter() - begin) / count

    @isthmus.entry
    def take(self, payload):
        self.left -= 1
        if self.left == 0:
            self.done.set_result(None)

    @isthmus.entry
    def give(self, count, payload):
        other = self.other
        for _ in range(count):
            other.take(payload)

    @isthmus.entry
    async def play(self, first, count, bytes, into):
        """One way by a channel, in seconds."""
        if not hasattr(self, "channel"):
            self.channel = isthmus.Channel(self, self.other)
        channel = self.channel
        array = numpy.zeros(bytes // 8)
        target = numpy.zeros(bytes // 8) if into else None
        begin = time.perf_counter()
        for _ in range(count):
            if first:
                channel.send(array)
                await channel.recv(into=target)
            else:
                await channel.recv(into=target)
                channel.send(array)
        return (time.perf_counter() - begin) / (2 * count)


async def main():
    players = isthmus.Array(Player, 2)
    one, two = players[0], players[1]
    blocks = int(sys.argv[1]) if len(sys.argv) > 1 else BLOCKS
    for name, payload in (("an entry with bytes (8)", b"12345678"), ("an entry with NumPy, 8 B", numpy.zeros(1))):
        took = []
        for _ in range(blocks):
            done = isthmus.Future()
            one.meet(two, done)
            two.meet(one, done)
            one.rounds(ROUNDS, done)
            two.rounds(ROUNDS, done)
            await isthmus.quiescence()
            begin = time.perf_counter()
            one.begin(ROUNDS, payload)
            two.rounds(ROUNDS, done)
            await done
            took.append((time.perf_counter() - begin) / (2 * ROUNDS))
        show(name + ", one way", took)
    took = []
    for _ in range(blocks):
        done = isthmus.Future()
        two.rounds(1000, done)
        await isthmus.quiescence()
        begin = time.perf_counter()
        one.give(1000, b"12345678")
        await done
        took.append((time.perf_counter() - begin) / 1000)
    show("an invocation with 1000 under way", took)
    show("a future there and back", [await one.ask(ROUNDS, ret=True) for _ in range(blocks)])
    for bytes, count, into in ((8, ROUNDS, False), (8, ROUNDS, True), (LONG, 20, False), (LONG, 20, True)):
        took = []
        for _ in range(blocks):
            both = [each.play(number == 0, count, bytes, into, ret=True) for number, each in enumerate((one, two))]
            took.append([await each for each in both][0])
        show(f"a channel, NumPy {bytes} B{', received into one' if into else ''}, one way", took)


isthmus.run(main)
