"""Answers that a consumer group got: the partitions of each member, and its committed offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from sim.model import Model, PartitionModel, Violation

__all__ = ["GroupModel"]

_SURE_SECONDS: Final = 1.0
"""A member that got a good heartbeat answer this lately cannot have been expelled at the end of its session."""


class Named(Protocol):
    """A member of a group; two of them are never equal."""

    name: str


class GroupModel:
    """One group."""

    def __init__(self, name: str, model: Model, *, one_coordinator: bool = True) -> None:
        """``one_coordinator``: none of before can answer members beside it, as a broker may that is out of contact."""
        self.name = name
        self._model = model
        self._sure_seconds = _SURE_SECONDS if one_coordinator else -1.0
        self._floors: dict[PartitionModel, int] = {}
        self._attempted: dict[PartitionModel, set[int]] = {}
        self._owners: dict[PartitionModel, Named] = {}
        self._heard: dict[Named, float] = {}

    def find(self, named: Iterable[tuple[str | bytes, int]]) -> list[PartitionModel]:
        """The partitions of (topic name or id, number) that the model knows."""
        topics = {key: topic for topic in self._model.topics.values() for key in (topic.name, topic.topic_id)}
        found = [topics[key].partitions[number] for key, number in named if key in topics]
        return sorted(found, key=str)

    @property
    def partitions(self) -> list[PartitionModel]:
        """Partitions with a commit, done or tried."""
        return list(self._attempted)

    # -- ownership -----------------------------------------------------------------------------------------------------

    def take(self, member: Named, partitions: list[PartitionModel], now: float) -> None:
        """A member works on these, and on nothing else. Raises `Violation` if another one surely does, too."""
        self.release(member)
        self._heard[member] = now
        for partition in partitions:
            other = self._owners.get(partition)
            if other is not None and now - self._heard[other] < self._sure_seconds:
                raise Violation(f"group {self.name}: {partition} is {member.name}'s, and {other.name}'s, too")
            self._owners[partition] = member

    def release(self, member: Named) -> None:
        """A member works on nothing any more."""
        for partition in [one for one, owner in self._owners.items() if owner is member]:
            del self._owners[partition]

    def heard(self, member: Named, now: float) -> None:
        """A member got a heartbeat answer without an error."""
        self._heard[member] = now

    # -- offsets -------------------------------------------------------------------------------------------------------

    def floor(self, partition: PartitionModel) -> int:
        """The largest committed offset that a member knows of: answers to later requests are not below it."""
        return self._floors.get(partition, -1)

    def attempt(self, partition: PartitionModel, offset: int) -> int:
        """A member asks to commit; the floor at this time."""
        self._attempted.setdefault(partition, set()).add(offset)
        return self.floor(partition)

    def committed(self, partition: PartitionModel, offset: int, who: str, floor: int) -> None:
        """The commit was acknowledged. Raises `Violation` if the offset went back behind ``floor``."""
        self._check(partition, offset, who, floor)

    def fetched(self, partition: PartitionModel, offset: int, who: str, floor: int) -> None:
        """A member got a committed offset; -1 is none. Raises `Violation` if that cannot be."""
        if partition.topic.deleting:
            return
        self._check(partition, offset, who, floor)
        if offset >= 0 and offset not in self._attempted.get(partition, ()):
            raise Violation(f"group {self.name}: {who} finds {partition} at {offset}, which no member committed")

    def _check(self, partition: PartitionModel, offset: int, who: str, floor: int) -> None:
        if offset < floor and not partition.topic.deleting:
            raise Violation(f"group {self.name}: {who} has {partition} at {offset}, it had been at {floor}")
        self._floors[partition] = max(self.floor(partition), offset)
