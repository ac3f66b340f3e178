"""Writes the inputs of test/fuzz/corpus/gpu that are made by hand: python3 test/fuzz/make_corpus.py.

A fuzzer takes its input a byte at a time, and `below(n)` is that byte modulo n. So an input is a list of choices, in the
order in which fuzz_gpu.cpp asks for them; where it asks otherwise one day, these inputs only reach less deep."""

from pathlib import Path

CORPUS = Path(__file__).parent / "corpus/gpu"

# Engine: path, couriers, bounce, eager limit, push from, direct limit.
PUSHES = [0, 0, 0, 1, 1, 1]
PULLS = [3, 0, 0, 1, 0, 1]
STAGES = [4, 0, 0, 1, 0, 1]
BY_COURIER = [0, 2, 0, 1, 0, 1]
PLAIN, VMM = 0, 2  # where a buffer lies
OWN_COOKIE = [0]  # of the oldest request


def receive(size, where):
    """From the peer, with tag 0, without gaps."""
    return [6, 0, 0, size, where, 1]


def send(size, where):
    """To the peer, of mode standard, with tag 0, without gaps."""
    return [8, 1, 1, 0, size, where, 1]


def progress(turns):
    return [15, turns - 1]


def lent(which):
    """An export whose descriptor is in the box, and nothing changed in it."""
    return [which, 0, 1, 2, 1, 1]


def length(size):
    return [1, size]


def cell(kind, cookie, *words):
    return [0, kind, *cookie, *(byte for word in words for byte in word)]


def offer(size, export):
    """Tag 0, offset 0, number 0, not latency-bound; an export, or what cannot be named, and no shape."""
    return cell(0, [29, 1, 3], [0], length(size), [1, 0], [1, 0], [0], [1, *export] if export else [0], [1])


def window(export):
    return cell(12, OWN_COOKIE, [0], [1], export)


def staged(number, window_bytes):
    """Through window `number`, at position 0 of the peer's area."""
    return cell(9, OWN_COOKIE, [0], [number, 1], [1], [1], [1, window_bytes])


def filled(position):
    """The counter of the peer's area."""
    return [11, 0, 1, position, 1]


def end(outcome):
    return cell(5, OWN_COOKIE, [0], [outcome])


def target(size, export):
    """Of the oldest request, a send."""
    return cell(3, OWN_COOKIE, [0], [0], [0], length(size), [1, 0], [1], export)


def stage(size, window, device=0):
    return cell(7, OWN_COOKIE, [0], [0], length(size), [0], [0], [window], [device])


LONG = 12  # 200,000 bytes
INPUTS = {
    "pulled": PULLS + receive(LONG, PLAIN) + offer(LONG, lent(0)) + progress(30),
    "pulled-from-a-pool": PULLS + receive(LONG, PLAIN) + offer(LONG, lent(3)) + progress(30),
    "pushed-and-landed": PUSHES + receive(LONG, PLAIN) + offer(LONG, lent(2)) + progress(3) + end(1) + progress(9),
    "push-refused": PUSHES + receive(LONG, VMM) + offer(LONG, lent(2)) + progress(3) + end(3) + progress(30),
    "by-courier": BY_COURIER + receive(3, PLAIN) + offer(3, lent(0)) + progress(30),
    "pushes": PUSHES + send(LONG, PLAIN) + progress(2) + target(LONG, lent(0)) + progress(30),
    "through-the-host": STAGES + receive(LONG, PLAIN) + offer(LONG, lent(0)) + progress(3) + staged(0, 1) + filled(3) + progress(30),
    "through-a-window-and-the-host": PUSHES + receive(LONG, PLAIN) + offer(LONG, None) + progress(3) + end(5) + window(lent(0))
    + progress(3) + staged(1, 1) + staged(0, 1) + filled(3) + progress(40) + filled(3) + progress(40),
    "fills-a-window": PUSHES + send(LONG, PLAIN) + progress(2) + stage(LONG, 1) + progress(3) + stage(LONG, 2) + progress(40),
    "fills-the-host": STAGES + send(LONG, VMM) + progress(2) + stage(LONG, 0) + progress(40),
}

if __name__ == "__main__":
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, choices in INPUTS.items():
        (CORPUS / name).write_bytes(bytes(choices))
    print(f"{len(INPUTS)} inputs in {CORPUS}")
