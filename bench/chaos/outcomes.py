"""The answers that clients had: each thing is there, is not, or either, because no answer came.

Topics have names that are used once. A thing whose last request had no answer is left alone from then on: a request that
waits somewhere may be carried out later.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Ledger", "TopicTold", "Written"]


@dataclass(slots=True)
class TopicTold:
    """One topic by the answers to its creator. Several values of one thing: either may hold."""

    name: str
    topic_id: bytes | None = None
    exists: set[bool] = field(default_factory=lambda: {True})
    partition_counts: set[int] = field(default_factory=set)
    retentions: set[str] = field(default_factory=set)

    @property
    def is_certain(self) -> bool:
        """Whether every request about it had an answer."""
        return len(self.exists) == 1 and len(self.partition_counts) == 1 and len(self.retentions) == 1


@dataclass(frozen=True, slots=True)
class Written:
    """A record that was acknowledged."""

    partition: int
    offset: int
    value: bytes


class Ledger:
    """All answers of one run."""

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self.topics: dict[str, TopicTold] = {}
        self.written: list[Written] = []
        self.counts: dict[str, int] = {}
        """Answers, refusals and requests without an answer, by kind."""
        self.oddities: list[str] = []
        """Answers that cannot be."""

    def count(self, what: str) -> None:
        """One more of a kind."""
        with self._writing:
            self.counts[what] = self.counts.get(what, 0) + 1

    def odd(self, sentence: str) -> None:
        """An answer that cannot be."""
        with self._writing:
            self.oddities.append(sentence)

    def note(self, topic: TopicTold) -> None:
        """A topic that was asked for."""
        with self._writing:
            self.topics[topic.name] = topic

    def noted(self) -> Iterator[TopicTold]:
        """All topics."""
        with self._writing:
            found = list(self.topics.values())
        yield from found
