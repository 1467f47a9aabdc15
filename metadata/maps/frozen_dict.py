"""A dictionary that does not change, for values that are kept by the ten thousand.

It is read as fast as a dictionary, and unlike a ``mappingproxy`` it may be left out of collections of garbage.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

__all__ = ["FrozenDict"]

K = TypeVar("K")
V = TypeVar("V")


def _refuse(*_given: object, **_named: object) -> NoReturn:
    raise TypeError("a frozen dictionary does not change; dict() makes a copy that does")


class FrozenDict(dict[K, V]):
    """Filled when it is made. Everything that would change it raises `TypeError`."""

    __slots__ = ()

    __setitem__: Any = _refuse
    __delitem__: Any = _refuse
    __ior__: Any = _refuse
    clear: Any = _refuse
    pop: Any = _refuse
    popitem: Any = _refuse
    setdefault: Any = _refuse
    update: Any = _refuse

    def __reduce__(self) -> tuple[type[FrozenDict[Any, Any]], tuple[dict[K, V]]]:
        return FrozenDict, (dict(self),)
