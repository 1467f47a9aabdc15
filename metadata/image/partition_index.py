"""Which partitions a broker holds, and which have no leader: found without a look at all partitions.

An index belongs to one image and never changes; `PartitionIndex.after` makes that of the next image at the cost of
what changed. A controller that loses its office goes back to the index of the committed image.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct, field

from stratalog.metadata.image.decision import at_once
from stratalog.metadata.image.image import EMPTY_IMAGE, ClusterImage, ImageDelta
from stratalog.metadata.image.topics_image import NO_LEADER, PartitionImage
from stratalog.metadata.maps.persistent_map import changed
from stratalog.wire.topic import Uuid

__all__ = ["EMPTY_INDEX", "PartitionIndex", "PartitionKey", "ScannedPartitions"]


class PartitionKey(NamedTuple):
    """A partition of a topic by its id, as others name it."""

    topic_id: Uuid
    number: int


_KEYS_PER_PAUSE: Final = 500

_Key = tuple[Uuid, int]
"""A `PartitionKey` to be kept: the garbage collector looks at a plain tuple once, and at a named one each time."""

_Keys = Mapping[_Key, None]
_NONE: Final[_Keys] = MappingProxyType({})


class PartitionIndex(Struct, frozen=True):
    """Partitions by broker: all that a broker is assigned, in sync or not. Those without a leader, and without theirs."""

    _by_broker: Mapping[int, _Keys] = field(default_factory=lambda: MappingProxyType({}))
    _leaderless: _Keys = field(default_factory=lambda: _NONE)
    _not_preferred: _Keys = field(default_factory=lambda: _NONE)
    partition_count: int = 0
    """All partitions of the image."""
    _led_counts: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, image: ClusterImage) -> PartitionIndex:
        """The index of an image, at the cost of all its partitions."""
        return at_once(cls.making)(image)

    @classmethod
    def making(cls, image: ClusterImage) -> Generator[None, None, PartitionIndex]:
        """The same in steps, some hundred partitions each."""
        topics = image.topics.by_id.items()
        keys = ((id_, number) for id_, topic in topics for number in topic.partitions)
        return (yield from _updating(cls(), EMPTY_IMAGE, image, keys))

    def held_by(self, broker_id: int) -> Iterator[_Key]:
        """The partitions that a broker is assigned, in one and the same order in every process."""
        return _in_order(self._by_broker.get(broker_id, _NONE))

    def leaderless(self) -> Iterator[_Key]:
        """The partitions without a leader, in one and the same order in every process."""
        return _in_order(self._leaderless)

    def not_preferred(self) -> Iterator[_Key]:
        """The partitions that another replica than the preferred one leads, or none, in one and the same order."""
        return _in_order(self._not_preferred)

    def leads_any(self, broker_id: int) -> bool:
        """Whether a broker leads a partition."""
        return broker_id in self._led_counts

    @property
    def leaderless_count(self) -> int:
        """The number of partitions without a leader."""
        return len(self._leaderless)

    @property
    def not_preferred_count(self) -> int:
        """The number of partitions that another replica than the preferred one leads, or none."""
        return len(self._not_preferred)

    def after(self, before: ClusterImage, delta: ImageDelta, image: ClusterImage) -> PartitionIndex:
        """The index of ``image``, which ``delta`` made from ``before``, whose index this is."""
        return at_once(self.following)(before, delta, image)

    def following(
        self, before: ClusterImage, delta: ImageDelta, image: ClusterImage
    ) -> Generator[None, None, PartitionIndex]:
        """The same in steps."""
        keys = [(id_, number) for id_, numbers in delta.changed_partitions.items() for number in numbers]
        for topic_id in delta.removed_topics:
            keys += [(topic_id, number) for number in before.topics.by_id[topic_id].partitions]
        return (yield from _updating(self, before, image, keys))


def _in_order(keys: _Keys) -> Iterator[_Key]:
    """The keys sorted, as far as they are asked for: to sort all of 30,000 at once takes too long for one step."""
    parts: dict[int, list[_Key]] = {}
    for key in keys:
        parts.setdefault(key[0][0], []).append(key)  # topic ids are random
    for first in sorted(parts):
        yield from sorted(parts[first])


def _updating(
    index: PartitionIndex, before: ClusterImage, image: ClusterImage, keys: Iterable[_Key]
) -> Generator[None, None, PartitionIndex]:
    """As `_updated`, in steps: keys come once each."""
    left = iter(keys)
    while some := list(islice(left, _KEYS_PER_PAUSE)):
        index = _updated(index, before, image, some)
        yield
    return index


def _updated(index: PartitionIndex, before: ClusterImage, image: ClusterImage, keys: Iterable[_Key]) -> PartitionIndex:
    """The index of ``image``, which differs from ``before`` in the partitions ``keys``, or in fewer."""
    by_broker, leaderless, not_preferred = _Changes(), _Changes(), _Changes()
    count, led = index.partition_count, dict(index._led_counts)  # noqa: SLF001
    for key in keys:
        old, new = _partition(before, key), _partition(image, key)
        if old is not new:
            count += (new is not None) - (old is not None)
            _count_leader(led, old, -1)
            _count_leader(led, new, 1)
            by_broker.note(key, _replicas(old), _replicas(new))
            leaderless.note(key, _where(is_leaderless(old)), _where(is_leaderless(new)))
            not_preferred.note(key, _where(is_not_preferred(old)), _where(is_not_preferred(new)))
    return PartitionIndex(
        by_broker.applied_to(index._by_broker),  # noqa: SLF001
        leaderless.applied_to({_HERE: index._leaderless}).get(_HERE, _NONE),  # noqa: SLF001
        not_preferred.applied_to({_HERE: index._not_preferred}).get(_HERE, _NONE),  # noqa: SLF001
        count,
        MappingProxyType(led),
    )


def _count_leader(led: dict[int, int], state: PartitionImage | None, change: int) -> None:
    if state is None or state.leader == NO_LEADER:
        return
    led[state.leader] = count = led.get(state.leader, 0) + change
    if not count:
        del led[state.leader]


_HERE: Final = 0


def _where(is_in: bool) -> tuple[int, ...]:
    return (_HERE,) if is_in else ()


def _replicas(state: PartitionImage | None) -> tuple[int, ...]:
    return () if state is None else state.replicas


def is_leaderless(state: PartitionImage | None) -> bool:
    """Whether there is a partition, and it has no leader."""
    return state is not None and state.leader == NO_LEADER


def is_not_preferred(state: PartitionImage | None) -> bool:
    """Whether there is a partition, and its preferred replica does not lead it."""
    return state is not None and state.leader != state.preferred_replica


class _Changes:
    """Keys that come to sets, and go from them; each set has a number."""

    __slots__ = ("_gone", "_put")

    def __init__(self) -> None:
        self._put: dict[int, dict[_Key, None]] = {}
        self._gone: dict[int, list[_Key]] = {}

    def note(self, key: _Key, old: tuple[int, ...], new: tuple[int, ...]) -> None:
        """A key was in the sets ``old``, and is in the sets ``new``."""
        if old != new:
            for number in set(new).difference(old):
                self._put.setdefault(number, {})[key] = None
            for number in set(old).difference(new):
                self._gone.setdefault(number, []).append(key)

    def applied_to(self, sets: Mapping[int, _Keys]) -> Mapping[int, _Keys]:
        """The sets afterwards, without those that are empty; the same mapping if nothing changes."""
        if not self._put and not self._gone:
            return sets
        result = dict(sets)
        for number in self._put.keys() | self._gone.keys():
            held = changed(result.get(number, _NONE), self._put.get(number, {}), self._gone.get(number, ()))
            result[number] = held
            if not held:
                del result[number]
        return MappingProxyType(result)


def _partition(image: ClusterImage, key: _Key) -> PartitionImage | None:
    topic_id, number = key
    topic = image.topics.by_id.get(topic_id)
    return None if topic is None else topic.partitions.get(number)


class ScannedPartitions:
    """The answers of a `PartitionIndex`, found by a look at all partitions: for a controller that keeps no index."""

    __slots__ = ("_image",)

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def held_by(self, broker_id: int) -> Iterator[_Key]:
        """The partitions that a broker is assigned, in the order of the image."""
        return (key for key, state in self._all() if broker_id in state.replicas)

    def leaderless(self) -> Iterator[_Key]:
        """The partitions without a leader, in the order of the image."""
        return (key for key, state in self._all() if is_leaderless(state))

    def not_preferred(self) -> Iterator[_Key]:
        """The partitions that another replica than the preferred one leads, or none, in the order of the image."""
        return (key for key, state in self._all() if is_not_preferred(state))

    def leads_any(self, broker_id: int) -> bool:
        """Whether a broker leads a partition."""
        return any(state.leader == broker_id for _, state in self._all())

    def _all(self) -> Iterator[tuple[_Key, PartitionImage]]:
        for topic_id, topic in self._image.topics.by_id.items():
            for number, state in topic.partitions.items():
                yield (topic_id, number), state


EMPTY_INDEX: Final = PartitionIndex()
"""The index of an image without topics."""
