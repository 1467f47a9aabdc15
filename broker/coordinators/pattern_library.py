"""Matches the regular expressions of clients beside the event loop, and remembers which topics match.

RE2 needs time linear in a name, but up to 5 ms for one of 250 characters, and there may be ten thousand names. So one
thread matches, with a budget of time for each expression; RE2 releases the interpreter's lock meanwhile. As in Kafka
(KIP-848), a group goes on with the topics that it had until the answer is there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from stratalog.metadata.groups.topic_patterns import compile_pattern
from stratalog.metadata.image.topics_image import TopicsImage
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["PatternLibrary"]

_REMEMBERED_MAX: Final = 1_000
"""Expressions that are remembered."""
_ENTRIES_MAX: Final = 1_000_000
"""Names in all sets that are remembered, some 50 MB. The library keeps one expression whatever its sets hold."""
_WAITING_MAX: Final = 100
"""Expressions that wait for the thread."""
_SECONDS_MAX: Final = 2.0
"""The time to match one expression. Usual ones need 20 ms for ten thousand names."""
_KEPT_SECONDS: Final = 60.0
"""How long an answer is kept for the group that asked, which asks again with its next heartbeat. It may be gone."""
_CLOCK_EVERY: Final = 8
"""The thread looks at the clock after so many names, which take it 40 ms at most."""

log = logging.getLogger(__name__)


class _Known:
    """One expression: ``examined`` are the names of topics that were matched with it, ``matching`` those that do match."""

    __slots__ = ("compiled", "examined", "matching")

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled
        self.examined: frozenset[str] = frozenset()
        self.matching: frozenset[str] = frozenset()


class PatternLibrary:
    """The expressions of all groups; a `Patterns`. The thread, too, calls ``monotonic``, which counts seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._known: OrderedDict[str, _Known] = OrderedDict()
        """Those asked for last are the last ones."""
        self._kept: OrderedDict[str, float] = OrderedDict()
        """Expressions learned for a group that has not asked again, and when. They are not forgotten for others: with more
        expressions than are remembered, each would be gone again before its group comes.
        """
        self._users: Counter[int] = Counter()
        """By identity of a set of examined names: the expressions that share it."""
        self._entries = 0
        """The names in all sets that are remembered; a shared one counts once."""
        self._refused: OrderedDict[str, None] = OrderedDict()
        """Expressions from logs that cannot be used; their groups keep the topics that they have."""
        self._names: tuple[TopicsImage | None, frozenset[str]] = (None, frozenset())
        """The image seen last, and the names of its topics, a set that all expressions share."""
        self._learning: dict[str, asyncio.Task[None]] = {}
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="patterns")  # it starts with the first expression

    def check(self, pattern: str) -> None:
        """Raise INVALID_REGULAR_EXPRESSION for an expression that cannot be used."""
        if pattern not in self._known:
            compile_pattern(pattern)

    def matching(self, pattern: str, topics: TopicsImage) -> frozenset[str] | None:
        """The names of the topics that match; None while the thread finds them: ask again later."""
        self._kept.pop(pattern, None)
        known = self._up_to_date(pattern, topics)
        if known is not None:
            self._known.move_to_end(pattern)
            return known.matching
        if pattern not in self._learning and pattern not in self._refused and self._has_room():
            task = asyncio.get_running_loop().create_task(self._learn_quietly(pattern, topics))
            self._learning[pattern] = task
            task.add_done_callback(lambda _: self._learning.pop(pattern, None))
        return None

    def knows(self, pattern: str) -> bool:
        """Whether an expression has been matched before."""
        return pattern in self._known

    async def learn(self, pattern: str, topics: TopicsImage) -> None:
        """Have the thread find the topics that match, for `matching`.

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
        known.examined = names
        self._known[pattern] = known
        self._count(known)
        self._refused.pop(pattern, None)  # it may have been refused for the time it took on a busy machine
        self._make_room(pattern)

    async def select(self, pattern: str, names: Collection[str]) -> frozenset[str]:
        """Those of ``names`` that match as a whole. Raises what `learn` raises."""
        compiled = await self._run(compile_pattern, pattern)
        found: frozenset[str] = await self._run(self._match, pattern, compiled, names)
        return found

    def close(self) -> None:
        """Stop the thread; expressions that wait for it are given up."""
        for task in self._learning.values():
            task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _up_to_date(self, pattern: str, topics: TopicsImage) -> _Known | None:
        """The known matches of an expression; None unless all names of ``topics`` were matched with it."""
        known = self._known.get(pattern)
        if known is None:
            return None
        names = self._names_of(topics)
        if known.examined is not names:
            if names - known.examined:
                return None
            self._discount(known)
            known.matching &= names
            known.examined = names
            self._count(known)
        return known

    def _names_of(self, topics: TopicsImage) -> frozenset[str]:
        """The names of the topics: the same object as long as no topic comes or goes."""
        seen, names = self._names
        if seen is not topics:
            if names != topics.by_name.keys():
                names = frozenset(topics.by_name)
            self._names = (topics, names)
        return names

    def _has_room(self) -> bool:
        """Whether one more expression may be learned for a group; else the group asks again later."""
        end = self._monotonic() - _KEPT_SECONDS
        while self._kept and next(iter(self._kept.values())) < end:
            self._kept.popitem(last=False)
        kept_count = len(self._kept)
        if self._entries > _ENTRIES_MAX and kept_count == len(self._known):
            return False
        return self._waiting < _WAITING_MAX and kept_count + len(self._learning) < _REMEMBERED_MAX

    def _make_room(self, learned: str) -> None:
        """Forget the expressions that were asked for longest ago, but those that are kept, and the one just learned."""
        for pattern in list(self._known):
            if len(self._known) <= _REMEMBERED_MAX and self._entries <= _ENTRIES_MAX:
                return
            if pattern not in self._kept and pattern != learned:
                self._forget(pattern)

    def _forget(self, pattern: str) -> None:
        known = self._known.pop(pattern, None)
        if known is not None:
            self._discount(known)

    def _count(self, known: _Known) -> None:
        """Count the names of an expression that is remembered from now on."""
        shared = id(known.examined)
        self._entries += len(known.matching) + (0 if self._users[shared] else len(known.examined))
        self._users[shared] += 1

    def _discount(self, known: _Known) -> None:
        """Undo `_count`, before the sets change."""
        shared = id(known.examined)
        self._users[shared] -= 1
        self._entries -= len(known.matching)
        if not self._users[shared]:
            del self._users[shared]
            self._entries -= len(known.examined)

    async def _learn_quietly(self, pattern: str, topics: TopicsImage) -> None:
        try:
            await self.learn(pattern, topics)
            self._kept[pattern] = self._monotonic()
            self._kept.move_to_end(pattern)
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
        """The names that match, found in the thread. Raises INVALID_REGULAR_EXPRESSION if that takes too long."""
        end = self._monotonic() + _SECONDS_MAX
        fullmatch, found = compiled.fullmatch, []
        for number, name in enumerate(names):
            if fullmatch(name):
                found.append(name)
            if number % _CLOCK_EVERY == 0 and self._monotonic() > end:
                raise KafkaError(
                    ErrorCode.INVALID_REGULAR_EXPRESSION,
                    f"`{pattern}` takes more than {_SECONDS_MAX:g} s to be matched with {len(names)} names: make it simpler.",
                )
        return frozenset(found)
