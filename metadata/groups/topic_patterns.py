"""Which topics a regular expression matches.

Expressions come from clients, so they are matched by RE2, whose time is linear in the length of the name whatever the
expression; its syntax is that of RE2/J, which Kafka uses. A topic matches if its whole name does. Source: KIP-848.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from typing import Any, Final, Protocol

import re2
from msgspec import Struct, field

from stratalog.metadata.image.topics_image import TopicsImage
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["Patterns", "TopicPatterns", "compile_pattern"]

_REMEMBERED_MAX: Final = 1_000
_PATTERN_BYTES_MAX: Final = 32_767
"""The longest text that the key of its record can hold."""
_MEMORY_BYTES_MAX: Final = 256 << 10
"""For a compiled expression: it is compiled within 3 ms, and an alternation of 500 names fits."""


@cache
def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES_MAX
    return options


class Patterns(Protocol):
    """The source of the topics that a group's expressions match."""

    def check(self, pattern: str) -> None:
        """Raises INVALID_REGULAR_EXPRESSION for an expression that cannot be used."""
        ...

    def matching(self, pattern: str, topics: TopicsImage) -> frozenset[str] | None:
        """The names of the topics that match; None if it is not known yet: the group asks again later."""
        ...


def compile_pattern(pattern: str) -> Any:
    """The expression, compiled.

    Raises INVALID_REGULAR_EXPRESSION, with the reason, for one that RE2 does not take, or that is too long or large.
    """
    if len(pattern.encode()) > _PATTERN_BYTES_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex has more than {_PATTERN_BYTES_MAX} bytes.",
        )
    try:
        return re2.compile(pattern, _options())
    except re2.error as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {_reason(error)}.",
        ) from error


def _reason(error: re2.error) -> str:
    reason = error.args[0] if error.args else "unknown reason"
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


class _Known(Struct):
    """The knowledge about one expression: the names looked at, and those of them that match."""

    compiled: Any
    examined: frozenset[str] = frozenset()
    matching: frozenset[str] = frozenset()


class TopicPatterns(Struct):
    """A `Patterns` that matches at once, and remembers, so that only new names cost anything."""

    _known: OrderedDict[str, _Known] = field(default_factory=OrderedDict)

    def check(self, pattern: str) -> None:
        """Raise INVALID_REGULAR_EXPRESSION for an expression that cannot be used."""
        if pattern not in self._known:
            compile_pattern(pattern)

    def matching(self, pattern: str, topics: TopicsImage) -> frozenset[str]:
        """The names of the topics that match.

        Raises INVALID_REGULAR_EXPRESSION.
        """
        known = self._known.get(pattern)
        if known is None:
            known = self._known[pattern] = _Known(compile_pattern(pattern))
            if len(self._known) > _REMEMBERED_MAX:
                self._known.popitem(last=False)
        self._known.move_to_end(pattern)
        names = topics.by_name.keys()
        if known.examined != names:
            fullmatch = known.compiled.fullmatch
            found = {name for name in names - known.examined if fullmatch(name)}
            known.matching = frozenset(found | (known.matching & names))
            known.examined = frozenset(names)
        return known.matching
