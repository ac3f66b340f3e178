"""Ways to combine the parts of a reduction."""

from __future__ import annotations

from typing import Any, Callable

import numpy

_reducers: dict[Callable[[Any, Any], Any], str] = {}


def reducer(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Makes a function of two values, at the top of a module, a way to combine the parts of a reduction.

    It must be associative and commutative, and changes neither value: parts come together in any order.
    """
    name = f"{function.__module__}.{function.__qualname__}"
    if "<locals>" in name:
        raise TypeError(f"{name} is a reducer inside of a function: other processes could not find it")
    _reducers[function] = name
    return function


@reducer
def sum(a: Any, b: Any) -> Any:  # noqa: A001
    """a + b: numbers, or arrays element by element."""
    return a + b


@reducer
def product(a: Any, b: Any) -> Any:
    """a * b."""
    return a * b


@reducer
def min(a: Any, b: Any) -> Any:  # noqa: A001
    """The smaller one; of arrays, element by element."""
    return numpy.minimum(a, b) if isinstance(a, numpy.ndarray) else b if b < a else a


@reducer
def max(a: Any, b: Any) -> Any:  # noqa: A001
    """The larger one; of arrays, element by element."""
    return numpy.maximum(a, b) if isinstance(a, numpy.ndarray) else b if b > a else a


@reducer
def logical_and(a: Any, b: Any) -> Any:
    """Whether all are true."""
    return bool(a) and bool(b)


@reducer
def logical_or(a: Any, b: Any) -> Any:
    """Whether any is true."""
    return bool(a) or bool(b)


@reducer
def concatenate(a: Any, b: Any) -> Any:
    """a + b of lists, sorted: give [(self.index, value)], and all come in the order of the indices."""
    return sorted(a + b, key=lambda each: each[0])


@reducer
def nothing(a: Any, b: Any) -> Any:
    """Of a reduction without values: all have come here."""
    return None


def all_reducers() -> dict[Callable[[Any, Any], Any], str]:
    return dict(_reducers)
