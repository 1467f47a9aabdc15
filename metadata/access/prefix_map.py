"""Which of many prefixes a name begins with: a sorted set that never changes.

All prefixes of a name that are in the set begin the greatest member that does not come after the name. So one binary
search finds that member, and from it a chain leads to ever shorter ones. The members lie in chunks; a change copies one
chunk. A chunk finds out where its chains lead when it is first asked; it goes on knowing that until a prefix
changes that one of its members begins with.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, Generic, TypeVar

from stratalog.metadata.maps.persistent_map import PersistentMap

__all__ = ["PrefixMap"]

_MEMBERS_MAX: Final = 512

V = TypeVar("V")


class _Chunk:
    """Some prefixes in order, and what is known of them."""

    __slots__ = ("above", "chains", "members")

    def __init__(self, members: Sequence[str]) -> None:
        self.members = members
        self.above: dict[str, str | None] = {}
        """The longest other prefix that each begins with; empty until it is asked for."""
        self.chains: dict[str, tuple[Any, ...]] = {}
        """The values of each and of the prefixes that it begins with, longest first, of those that were asked for."""


class PrefixMap(Generic[V]):
    """An immutable mapping of prefixes to values."""

    __slots__ = ("_chunks", "_firsts", "_values")

    def __init__(self) -> None:
        """No prefixes."""
        self._chunks: list[_Chunk] = []
        self._firsts: list[str] = []
        """The first member of each chunk."""
        self._values: PersistentMap[str, V] = PersistentMap()

    def get(self, prefix: str) -> V | None:
        """The value of exactly this prefix, or None."""
        return self._values.get(prefix)

    def values(self) -> Iterator[V]:
        """All values, in no particular order."""
        return iter(self._values.values())

    def matching(self, name: str) -> tuple[V, ...]:
        """The values of all prefixes that ``name`` begins with, longest first."""
        at = bisect_right(self._firsts, name) - 1
        if at < 0:
            return ()
        chunk = self._chunks[at]
        longest: str | None = chunk.members[bisect_right(chunk.members, name) - 1]
        while longest is not None and not name.startswith(longest):
            above = chunk.above.get(longest, longest)
            longest = self._next(longest) if above is longest else above
        if longest is None:
            return ()
        found = chunk.chains.get(longest)
        return self._chain(longest) if found is None else found

    def updated(self, items: Mapping[str, V], removed: Collection[str] = ()) -> PrefixMap[V]:
        """The map without the prefixes of ``removed`` and with ``items``, which names none of them.

        Raises KeyError for one of ``removed`` that is not there.
        """
        result = PrefixMap[V]()
        result._values = self._values.updated(items, removed)
        known = self._still_known([*items, *removed])
        result._chunks = self._rearranged(
            [chunk if known[at] else _Chunk(chunk.members) for at, chunk in enumerate(self._chunks)],
            [prefix for prefix in items if prefix not in self._values],
            set(removed),
        )
        result._firsts = [chunk.members[0] for chunk in result._chunks]
        return result

    def _still_known(self, changed: Collection[str]) -> list[bool]:
        """For each chunk, whether no member begins with a prefix that has changed."""
        firsts = self._firsts
        steps = [0] * (len(firsts) + 1)
        for prefix in changed:
            length = len(prefix)
            start = max(bisect_right(firsts, prefix) - 1, 0)
            end = bisect_right(firsts, prefix, lo=start, key=lambda first: first[:length])
            steps[start] += 1
            steps[max(end, start)] -= 1
        return [not count for count in accumulate(steps)]

    def _rearranged(self, chunks: list[_Chunk], added: Collection[str], removed: Collection[str]) -> list[_Chunk]:
        touched: dict[int, list[str]] = {}
        for prefix in added:
            touched.setdefault(max(bisect_right(self._firsts, prefix) - 1, 0), []).append(prefix)
        for prefix in removed:
            touched.setdefault(bisect_right(self._firsts, prefix) - 1, [])
        result = []
        for at, chunk in enumerate(chunks or [_Chunk(())]):
            if at not in touched:
                result.append(chunk)
                continue
            members = sorted([*(each for each in chunk.members if each not in removed), *touched[at]])
            pieces = max(-(-len(members) // _MEMBERS_MAX), 1)
            size = max(-(-len(members) // pieces), 1)
            result += [_Chunk(members[start : start + size]) for start in range(0, len(members), size)]
        return [chunk for chunk in result if chunk.members]

    def _chunk_of(self, prefix: str) -> _Chunk:
        return self._chunks[bisect_right(self._firsts, prefix) - 1]

    def _chain(self, longest: str) -> tuple[V, ...]:
        chain = []
        prefix: str | None = longest
        while prefix is not None:
            chain.append(self._values[prefix])
            prefix = self._next(prefix)
        found = self._chunk_of(longest).chains[longest] = tuple(chain)
        return found

    def _next(self, prefix: str) -> str | None:
        """The longest prefix that ``prefix``, itself a member, begins with."""
        chunk = self._chunk_of(prefix)
        if not chunk.above:
            self._learn(chunk)
        return chunk.above[prefix]

    def _learn(self, chunk: _Chunk) -> None:
        """Find out where chains lead: what a member begins with is the member before it, or begins that one."""
        above: dict[str, str | None] = {}
        before: str | None = None
        for prefix in chunk.members:
            if before is None:
                found = self._searched(prefix)
            else:
                found = before
                while found is not None and not prefix.startswith(found):
                    found = above[found] if found in above else self._searched(found)
            above[prefix] = found
            before = prefix
        chunk.above = above

    def _searched(self, prefix: str) -> str | None:
        """The same as :meth:`_next`, by going back through the order to what ever less of ``prefix`` begins with."""
        found = self._last_before(prefix)
        while found is not None and not prefix.startswith(found):
            common = prefix[: _common_length(prefix, found)]
            found = common if common in self._values else self._last_before(common)
        return found

    def _last_before(self, name: str) -> str | None:
        """The last member that comes before a name."""
        at = bisect_left(self._firsts, name) - 1
        if at < 0:
            return None
        members = self._chunks[at].members
        return members[bisect_left(members, name) - 1]


def _common_length(one: str, other: str) -> int:
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        length += 1
    return length
