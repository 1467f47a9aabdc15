"""Keys in byte order from a service that lists as a walk through directories does (SeaweedFS).

Such a service gives ``a/b`` before ``a-``, because it compares ``a`` with ``a-``. Within one directory, though, it lists
by name, directories among objects: asked level by level (with a delimiter), it gives what is needed, a page at a time.
All that has to be put right is the place of a directory: ``a/`` comes after every name that continues ``a`` with a
character below the slash. Directories are therefore held back until the names have passed them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from msgspec import Struct

__all__ = ["Level", "Walk", "first_needed_name", "just_below"]

T = TypeVar("T")
_ASCII_MAX: Final = 0x7E


class Level(Struct, frozen=True):
    """One page of one level: what lies there, by key (an object) or by key with a slash (None: a directory)."""

    entries: dict[str, Any]


def first_needed_name(name: str) -> str:
    """The lowest name of a level that may hold a key above ``name``, or above a key that begins with ``name/``.

    That is ``name`` itself, or the shortest part of it that it continues with a character below the slash: such a
    directory's keys come after it.
    """
    for at in range(1, len(name)):
        if name[at] < "/":
            return name[:at]
    return name


def just_below(name: str) -> str:
    """A text below ``name``, near it, and without a slash at its end; empty where there is none to be had cheaply."""
    head, last = name[:-1], ord(name[-1])
    if not ord("!") < last <= _ASCII_MAX:
        return head  # a beginning comes before what continues it
    below = chr(last - 1)
    return head + ("." if below == "/" else below)


class Walk(Struct, frozen=True):
    """``pages(prefix, start_after)`` asks the service for the pages of the level that ``prefix`` lies in."""

    pages: Callable[[str, str], Iterator[Level]]

    def objects(self, prefix: str, start_after: str) -> Iterator[Any]:
        """Yield what stands for the objects whose keys begin with ``prefix`` and are above ``start_after``, in order."""
        after = start_after.encode()
        held: list[tuple[bytes, str]] = []
        for page in self.pages(prefix, self._begin(prefix, start_after)):
            for key in sorted(page.entries, key=lambda key: key.removesuffix("/").encode()):
                name = key.removesuffix("/").encode()
                while held and held[0][0] < name:
                    yield from self.objects(heapq.heappop(held)[1], start_after)
                if not key.endswith("/"):
                    if name > after:
                        yield page.entries[key]
                elif key.encode() > after or start_after.startswith(key):
                    heapq.heappush(held, (key.encode(), key))
        while held:
            yield from self.objects(heapq.heappop(held)[1], start_after)

    @staticmethod
    def _begin(prefix: str, start_after: str) -> str:
        """Where the listing of a level may begin, so that nothing above ``start_after`` is missed."""
        directory = prefix[: prefix.rfind("/") + 1]
        if not start_after.startswith(directory):
            return ""
        name = start_after[len(directory) :].partition("/")[0]
        below = just_below(first_needed_name(name)) if name else ""
        return directory + below if below else ""
