"""Offsets of deleted topics, found some at a time: there may be a million of one topic, over all groups and shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from stratalog.metadata.groups.offsets.records import read_offset
from stratalog.wire.topic import ZERO_UUID, Uuid

__all__ = ["OFFSETS_AT_ONCE", "DeletedTopics", "same_topic"]

OFFSETS_AT_ONCE: Final = 250
"""How many offsets, and groups without any, one shard looks at before others have their turn: fifty shards may have theirs together."""

Place = tuple[str, str, int]
"""Group, topic and partition of an offset."""


class DeletedTopics:
    """The topics whose offsets are still to go, and the groups that have not been looked at for them."""

    def __init__(self) -> None:
        self._ids: dict[str, set[Uuid]] = {}
        self._to_look: list[str] = []
        self._rest: list[Place] = []
        """Offsets of one group that are still to be looked at: it may have very many of one topic."""
        self._newer: set[Place] = set()
        """Offsets without an id that were stored since: they are of newer topics of these names."""

    @property
    def under_way(self) -> bool:
        """Whether groups or offsets are left."""
        return bool(self._to_look or self._rest)

    def add(self, topics: Mapping[str, Uuid], groups: Iterable[str]) -> None:
        """Topics are gone, by name and id: all ``groups`` are to be looked at, also for those that went before."""
        for name, topic_id in topics.items():
            self._ids.setdefault(name, set()).add(topic_id)
        self._newer = {place for place in self._newer if place[1] not in topics}
        self._to_look = list(groups)
        if not self.under_way:
            self._forget()

    def stored(self, place: Place, value: bytes) -> None:
        """An offset was committed meanwhile: it stays though its record may have no id, as those of old clients."""
        if place[1] in self._ids and read_offset(value).topic_id == ZERO_UUID:
            self._newer.add(place)

    def _forget(self) -> None:
        self._ids.clear()
        self._newer.clear()

    def look(self, groups: Mapping[str, Mapping[str, Mapping[int, bytes]]]) -> list[Place]:
        """Offsets of the next groups, or of the same one, that are to go."""
        places: list[Place] = []
        read = 0
        while self.under_way and read < OFFSETS_AT_ONCE:
            if self._rest:
                group_id, topic, at = place = self._rest.pop()
                value = groups.get(group_id, {}).get(topic, {}).get(at)
                if value is not None and self.is_gone(place, value):
                    places.append(place)
            else:
                group_id = self._to_look.pop()
                stored = groups.get(group_id, {})
                self._rest = [
                    (group_id, topic, at) for topic in self._ids.keys() & stored.keys() for at in stored[topic]
                ]
                if self._rest:
                    continue  # those are what is counted
            read += 1
        if not self.under_way:
            self._forget()
        return places

    def is_gone(self, place: Place, value: bytes) -> bool:
        """Whether the offset in this record is of one of the topics, and of no newer one of that name."""
        ids = self._ids.get(place[1])
        if ids is None or place in self._newer:
            return False
        stored_id = read_offset(value).topic_id
        return any(same_topic(stored_id, one) for one in ids)


def same_topic(stored: Uuid, wanted: Uuid) -> bool:
    """Whether two ids may be of one topic: zero is not known."""
    return stored == wanted or ZERO_UUID in {stored, wanted}
