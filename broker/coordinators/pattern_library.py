"""Regular expressions of clients, matched beside the event loop.

RE2 needs time linear in a name, but up to 5 ms for one of 250 characters, and there may be ten thousand names. So one
thread matches, with a budget for each expression; RE2 lets go of the interpreter meanwhile. What was found about
topics is remembered. As in Kafka (KIP-848), a group that has not been told yet goes on with what it knew.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from stratalog.metadata.groups.topic_patterns import compile_pattern
from stratalog.metadata.topics_image import TopicsImage
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["PatternLibrary"]

_REMEMBERED_MAX: Final = 1_000
_ENTRIES_MAX: Final = 1_000_000
"""The names of topics in all that is remembered, some 50 MB."""
_WAITING_MAX: Final = 100
_SECONDS_MAX: Final = 2.0
"""What matching one expression may take. Usual ones need 20 ms for ten thousand names."""


log = logging.getLogger(__name__)


class _Known:
    """What is known of one expression: the names looked at, and those of them that match."""

    __slots__ = ("compiled", "examined", "matching", "topics")

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled
        self.topics: TopicsImage | None = None
        """The topics that ``matching`` is about."""
        self.examined: frozenset[str] = frozenset()
        self.matching: frozenset[str] = frozenset()


class PatternLibrary:
    """The expressions of all groups; a `Patterns`. ``monotonic`` counts seconds, in the thread."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._entries = 0
        """The names in all that is remembered."""
        self._refused: OrderedDict[str, None] = OrderedDict()
        """Expressions from logs that cannot be used; their groups go on with what they knew."""
        self._names: tuple[TopicsImage | None, frozenset[str]] = (None, frozenset())
        """Shared by all that is known of one image."""
        self._learning: dict[str, asyncio.Task[None]] = {}
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="patterns")  # it starts with the first expression

    def check(self, pattern: str) -> None:
        """Raise INVALID_REGULAR_EXPRESSION for an expression that cannot be used."""
        if pattern not in self._known:
            compile_pattern(pattern)

    def matching(self, pattern: str, topics: TopicsImage) -> frozenset[str] | None:
        """The names of the topics that match; None if that is found out only now: ask again."""
        known = self._up_to_date(pattern, topics)
        if known is not None:
            return known.matching
        if pattern not in self._learning and pattern not in self._refused and self._waiting < _WAITING_MAX:
            task = asyncio.get_running_loop().create_task(self._learn_quietly(pattern, topics))
            self._learning[pattern] = task
            task.add_done_callback(lambda _: self._learning.pop(pattern, None))
        return None

    def knows(self, pattern: str) -> bool:
        """Whether an expression has been matched before."""
        return pattern in self._known

    async def learn(self, pattern: str, topics: TopicsImage) -> None:
        """Find out which topics match.

        Raises INVALID_REGULAR_EXPRESSION for an expression that cannot be used, or takes too long;
        COORDINATOR_LOAD_IN_PROGRESS if too many others wait.
        """
        if self._up_to_date(pattern, topics) is not None:
            return
        known = self._known.get(pattern)
        if known is None:
            known = _Known(await self._run(compile_pattern, pattern))
        names = self._names_of(topics)
        before = known.matching  # others may change what is known meanwhile
        found: frozenset[str] = await self._run(self._match, pattern, known.compiled, names - known.examined)
        self._forget(pattern)
        matching = found | (before & names)
        known.matching = names if matching == names else matching
        known.examined, known.topics = names, topics
        self._known[pattern] = known
        self._entries += len(known.matching)
        while len(self._known) > _REMEMBERED_MAX or (self._entries > _ENTRIES_MAX and len(self._known) > 1):
            self._forget(next(iter(self._known)))

    async def select(self, pattern: str, names: Collection[str]) -> frozenset[str]:
        """Those of ``names`` that match as a whole. Raises as `learn`."""
        compiled = await self._run(compile_pattern, pattern)
        found: frozenset[str] = await self._run(self._match, pattern, compiled, names)
        return found

    def close(self) -> None:
        """Stop; what waits is given up."""
        for task in self._learning.values():
            task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _up_to_date(self, pattern: str, topics: TopicsImage) -> _Known | None:
        """What is known, if it is about all of these topics."""
        known = self._known.get(pattern)
        if known is None or known.topics is topics:
            return known
        names = self._names_of(topics)
        if known.examined is not names:
            if names - known.examined:
                return None
            self._entries -= len(known.matching)
            known.matching &= names
            self._entries += len(known.matching)
            known.examined = names
        known.topics = topics
        return known

    def _names_of(self, topics: TopicsImage) -> frozenset[str]:
        """The names of the topics: the same set as long as they are the same."""
        seen, names = self._names
        if seen is not topics:
            if names != topics.by_name.keys():
                names = frozenset(topics.by_name)
            self._names = (topics, names)
        return names

    def _forget(self, pattern: str) -> None:
        known = self._known.pop(pattern, None)
        if known is not None:
            self._entries -= len(known.matching)

    async def _learn_quietly(self, pattern: str, topics: TopicsImage) -> None:
        try:
            await self.learn(pattern, topics)
        except KafkaError as error:
            if error.code is ErrorCode.INVALID_REGULAR_EXPRESSION:
                log.warning("%s Its groups keep the topics that they have.", error.message)
                self._refused[pattern] = None
                if len(self._refused) > _REMEMBERED_MAX:
                    self._refused.popitem(last=False)

    async def _run(self, function: Callable[..., Any], *args: Any) -> Any:
        if self._waiting >= _WAITING_MAX:
            why = f"{_WAITING_MAX} regular expressions wait to be matched; try again"
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, why)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)
        finally:
            self._waiting -= 1

    def _match(self, pattern: str, compiled: Any, names: Collection[str]) -> frozenset[str]:
        """In the thread."""
        end = self._monotonic() + _SECONDS_MAX
        fullmatch, found = compiled.fullmatch, []
        for number, name in enumerate(names):
            if fullmatch(name):
                found.append(name)
            if number % 8 == 0 and self._monotonic() > end:
                raise KafkaError(
                    ErrorCode.INVALID_REGULAR_EXPRESSION,
                    f"`{pattern}` takes more than {_SECONDS_MAX:g} s to be matched with {len(names)} names: make it simpler.",
                )
        return frozenset(found)
