"""Frames: what goes between processes. Nothing of a frame is unpickled before it has been checked."""

import random

import numpy
import pytest

from isthmus import _core


def roundtrip(*arguments, **keywords):
    return _core.decode(_core.encode(arguments, keywords))


@pytest.mark.parametrize("arguments", [(), (b"",), (b"text",), (1, "a", None), ([numpy.arange(3).tolist()],), ({"a": (1,)},)])
def test_values_come_back(arguments):
    assert roundtrip(*arguments) == (arguments, None)


def test_keywords_come_back():
    assert roundtrip(1, a=2) == ((1,), {"a": 2})


@pytest.mark.parametrize("form", "? b B h H e i I f l L q Q d F D".split())
def test_arrays_come_back(form):
    array = numpy.arange(6).reshape(2, 3).astype(form)
    (back,), _ = roundtrip(array)
    assert back.dtype == array.dtype and numpy.array_equal(back, array) and back.flags.writeable


def test_arrays_within_others_are_out_of_band():
    array = numpy.arange(1000)
    text = _core.encode(([array, array],), None)
    assert len(text) < 1000 * 8 + 1000  # once, and beside the pickle
    (back,), _ = _core.decode(text)
    assert numpy.array_equal(back[1], array)


class Bomb:
    """Says that it was unpickled."""

    exploded = False

    def __reduce__(self):
        return _explode, ()


def _explode():
    Bomb.exploded = True


def test_what_is_cut_off_or_has_more_is_refused_before_it_is_unpickled():
    for arguments in ((Bomb(), numpy.arange(10)), (numpy.arange(4),), (b"text",)):
        Bomb.exploded = False
        text = _core.encode(arguments, None)
        for wrong in [text[:length] for length in range(1, len(text))] + [text + b"\0", text + text]:
            with pytest.raises(ValueError, match="no frame|array"):
                _core.decode(wrong)
        assert not Bomb.exploded


def test_headers_with_wrong_bits_are_refused_or_make_a_value():
    """A header that is changed must not make the reader leave the message. What the pickle makes of a body
    that begins elsewhere
    is Python's: an exception of any class, or a value."""
    rng = random.Random(5)
    texts = [_core.encode((numpy.arange(4.0),), None), _core.encode((b"abcdefgh" * 4,), None), _core.encode(([numpy.arange(9)], 1), None)]
    refused = 0
    for _ in range(20000):
        text = bytearray(rng.choice(texts))
        for _ in range(rng.randrange(1, 4)):
            text[rng.randrange(16)] = rng.randrange(256)
        try:
            _core.decode(bytes(text))
        except Exception:  # noqa: BLE001
            refused += 1
    assert refused > 10000


def test_an_array_that_is_larger_than_its_bytes_is_refused():
    text = bytearray(_core.encode((numpy.arange(4.0),), None))
    text[24:32] = (5).to_bytes(8, "little")  # the one extent
    with pytest.raises(ValueError, match="do not fit"):
        _core.decode(bytes(text))


def test_nothing_works_outside_of_run():
    with pytest.raises(RuntimeError, match="only while isthmus.run"):
        _core.rank()
