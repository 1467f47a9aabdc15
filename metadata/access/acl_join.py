"""Find the rules of access of many filters in one pass, however alike these are.

Thousands of filters may look at the same rules: all without a name at all rules of a type. So the filters are sorted by the
place where their rules lie, and each place is looked through once. There a rule is compared with no filter: the filters
lie in tables by the fields that they fix, at most 32 of them, and a rule is looked up in each.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, Final

from stratalog.metadata.access.acl_index import Source
from stratalog.metadata.access.acl_rules import ANY, AclFilter, AclRule, PatternType
from stratalog.metadata.access.acls import AclsImage
from stratalog.wire.topic import Uuid

__all__ = ["Found", "find_each"]

_FEW: Final = 4
"""So few filters of one place are looked at one by one, with the index of their principals and hosts."""
_PAUSE_STEPS: Final = 500
"""Comparisons, and rules found, between two pauses."""
_FIXED: Final[Sequence[tuple[int, Callable[[Any], bool]]]] = (
    (AclFilter._fields.index("pattern_type"), lambda value: value in (PatternType.LITERAL, PatternType.PREFIXED)),
    (AclFilter._fields.index("principal"), lambda value: value is not None),
    (AclFilter._fields.index("host"), lambda value: value is not None),
    (AclFilter._fields.index("operation"), lambda value: value != ANY),
    (AclFilter._fields.index("permission"), lambda value: value != ANY),
)
"""The fields that a filter may fix beside the type and the name, which a place has; those of a rule are the same."""

Found = list[tuple[Uuid, AclRule]]


def find_each(
    acls: AclsImage, filters: Iterable[AclFilter], too_many: Callable[[int], None]
) -> Generator[None, None, dict[AclFilter, Found]]:
    """The rules that each filter matches, in no particular order; yields where others may have their turns.

    ``too_many`` is called now and then with the number of rules found so far; it may raise.
    """
    found: dict[AclFilter, Found] = {wanted: [] for wanted in filters}
    places: dict[int, tuple[Source, list[AclFilter]]] = {}
    steps = 0
    for wanted in found:
        for place, source in acls.sources(wanted):
            places.setdefault(place, (source, []))[1].append(wanted)
            steps += 1
        if steps >= _PAUSE_STEPS:
            steps = 0
            yield
    total = 0
    for source, those in places.values():
        for looked_at, hits in (
            _one_by_one(source, those, found) if len(those) <= _FEW else _joined(source, those, found)
        ):
            steps += looked_at + hits
            total += hits
            if steps >= _PAUSE_STEPS:
                steps = 0
                too_many(total)
                yield
    return found


def _one_by_one(source: Source, those: Iterable[AclFilter], found: dict[AclFilter, Found]) -> Iterator[tuple[int, int]]:
    """Look through a place for each filter. Yields after each rule what was done: comparisons, and rules found."""
    for wanted in those:
        matching = found[wanted]
        for candidate in source(wanted.principal, wanted.host):
            hit = wanted.matches(candidate[1])
            if hit:
                matching.append(candidate)
            yield 1, hit


def _joined(source: Source, those: Iterable[AclFilter], found: dict[AclFilter, Found]) -> Iterator[tuple[int, int]]:
    """Look through a place once for all filters. Yields as `_one_by_one` does."""
    tables: dict[tuple[int, ...], dict[tuple[Any, ...], list[Found]]] = {}
    for wanted in those:
        fixed = tuple(field for field, is_fixed in _FIXED if is_fixed(wanted[field]))
        key = tuple([wanted[field] for field in fixed])
        tables.setdefault(fixed, {}).setdefault(key, []).append(found[wanted])
    shapes = list(tables.items())
    for candidate in source(None, None):
        rule, hits = candidate[1], 0
        for fixed, table in shapes:
            matching = table.get(tuple([rule[field] for field in fixed]))
            if matching is not None:
                hits += len(matching)
                for each in matching:
                    each.append(candidate)
        yield len(shapes), hits
