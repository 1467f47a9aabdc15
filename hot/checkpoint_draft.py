"""The text of a checkpoint with a row for each partition, made in steps: a broker may have a hundred thousand rows.

The rows of a topic are one piece of text. A partition that is deleted between two steps costs its topic's piece alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from stratalog.wire.topic import TopicPartition

__all__ = ["CheckpointChanges", "CheckpointDraft", "number_rows"]

_ROWS_PER_PAUSE: Final = 200

R = TypeVar("R")


class CheckpointDraft(Generic[R]):
    """Rows by topic and partition, and the text of each topic's. Topics come in the order of their names."""

    __slots__ = ("_pieces", "_rows", "_text_of", "count")

    def __init__(self, text_of: Callable[[str, Mapping[int, R]], str]) -> None:
        """``text_of`` makes the text of one topic; its partitions are sorted."""
        self._text_of = text_of
        self._rows: dict[str, dict[int, R]] = {}
        self._pieces: dict[str, str] = {}
        self.count = 0

    def put(self, name: TopicPartition, row: R) -> None:
        """Add or replace a row, before `writing`."""
        rows = self._rows.setdefault(name[0], {})
        self.count += name[1] not in rows
        rows[name[1]] = row

    def holds(self, name: TopicPartition) -> bool:
        """Whether there is a row."""
        rows = self._rows.get(name[0])
        return rows is not None and name[1] in rows

    def putting(self, rows: Iterable[tuple[TopicPartition, R]]) -> Iterator[None]:
        """Add many rows; pauses between them."""
        for count, (name, row) in enumerate(rows, 1):
            self.put(name, row)
            if count % _ROWS_PER_PAUSE == 0:
                yield

    def writing(self) -> Iterator[None]:
        """Make the texts; pauses between topics."""
        since_pause = 0
        for topic in sorted(self._rows):
            self._write(topic)
            since_pause += len(self._rows[topic])
            if since_pause >= _ROWS_PER_PAUSE:
                since_pause = 0
                yield

    def _write(self, topic: str) -> None:
        rows = self._rows[topic]
        self._pieces[topic] = self._text_of(topic, dict(sorted(rows.items())))

    def drop(self, names: Iterable[TopicPartition]) -> None:
        """Take rows out, whose partitions are gone; may come after `writing`."""
        for topic, number in names:
            rows = self._rows.get(topic)
            if rows is None or number not in rows:
                continue
            del rows[number]
            self.count -= 1
            if not rows:
                del self._rows[topic]
                self._pieces.pop(topic, None)
            elif topic in self._pieces:
                self._write(topic)

    def pieces(self) -> Iterable[str]:
        """The texts of the topics."""
        return self._pieces.values()


def number_rows(topic: str, rows: Mapping[int, int]) -> str:
    """The rows of one topic as Kafka's checkpoints have them, each with a line's end."""
    return "".join([f"{topic} {partition} {number}\n" for partition, number in rows.items()])


class CheckpointChanges:
    """The changes of a directory's checkpoints that a draft under way has to know of."""

    __slots__ = ("_forgotten", "store_count")

    def __init__(self) -> None:
        self.store_count = 0
        """Times that one of the files was written: a draft of before lacks what was written then."""
        self._forgotten: list[set[TopicPartition]] = []

    def forget(self, name: TopicPartition) -> None:
        """A partition is gone."""
        for forgotten in self._forgotten:
            forgotten.add(name)

    @contextmanager
    def drafting(self) -> Iterator[set[TopicPartition]]:
        """The partitions that go while a draft is under way."""
        forgotten: set[TopicPartition] = set()
        self._forgotten.append(forgotten)
        try:
            yield forgotten
        finally:
            self._forgotten = [one for one in self._forgotten if one is not forgotten]
