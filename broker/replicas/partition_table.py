"""Finds the partitions that this broker hosts, by name or by topic id.

Whether it leads one is known to the `Partition`. Beside them stand views: partitions that are only read, of a mounted
bucket or as they were at some time. Readers find both; writers and the maintenance of logs find those that are hosted,
and no others.

A partition that is not hosted here is unknown only if the image of the cluster has none of its name or id. One that
another broker hosts, or none at the moment, is NOT_LEADER_OR_FOLLOWER, and its client asks for metadata again (Kafka's
``ReplicaManager.getPartitionOrError``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator

from stratalog.broker.replicas.due_partitions import DuePartitions
from stratalog.broker.replicas.leader import Leader
from stratalog.broker.replicas.partition import Partition
from stratalog.broker.replicas.refused_batches import RefusedBatches
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.metadata.image.image import EMPTY_IMAGE, ClusterImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["LedPartitions", "PartitionTable"]

_LOOKED_AT_A_PAUSE = 500


class PartitionTable:
    """Hosted partitions, and views, by (topic, partition) and by (topic id, partition)."""

    __slots__ = (
        "_by_id",
        "_by_name",
        "_by_topic",
        "_counts",
        "_image",
        "_names",
        "_unopened",
        "_unopened_ids",
        "_views_by_id",
        "_views_by_name",
        "_why_unopened",
        "due",
        "failure_count",
        "in_contact",
        "on_removed",
        "refused",
        "version",
    )

    def __init__(
        self,
        image: Callable[[], ClusterImage] = lambda: EMPTY_IMAGE,
        in_contact: Callable[[], bool] = lambda: True,
        monotonic: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """``image`` gives the cluster as it is now: all partitions, wherever they are hosted. ``monotonic``: seconds."""
        self._image = image
        self.in_contact = in_contact
        """Whether the controller cannot have ended this broker's session yet: where it leads, no other broker does."""
        self.on_removed: Callable[[UnifiedLog], None] = _nothing_follows
        """Called with each partition that has left this broker."""
        self._by_name: dict[tuple[str, int], UnifiedLog] = {}
        self._by_id: dict[tuple[Uuid, int], UnifiedLog] = {}
        self._by_topic: defaultdict[str, dict[int, UnifiedLog]] = defaultdict(dict)
        self.due = DuePartitions()
        """Partitions that are led here and will be opened."""
        self._names: dict[Uuid, str] = {}
        self._counts: Counter[Uuid] = Counter()
        self._unopened: dict[tuple[str, int], Uuid] = {}
        self._unopened_ids: set[tuple[Uuid, int]] = set()
        """The same by topic id: a request may ask for very many of them."""
        self._why_unopened: dict[tuple[str, int], str] = {}
        self._views_by_name: dict[tuple[str, int], UnifiedLog] = {}
        self._views_by_id: dict[tuple[Uuid, int], UnifiedLog] = {}
        self.refused = RefusedBatches(monotonic)
        """Batches that were refused lately, also of partitions that were not open yet."""
        self.version = 0
        """Grows with every change; a result of an older version is stale."""
        self.failure_count = 0
        """Times that a log could not be opened."""

    def add(self, unified: UnifiedLog) -> None:
        """Serve a partition from now on."""
        self.version += 1
        topic, partition = unified.topic_partition
        self._by_name[topic, partition] = self._by_topic[topic][partition] = unified
        self._counts[unified.topic_id] += (unified.topic_id, partition) not in self._by_id
        self._by_id[unified.topic_id, partition] = unified
        self._names[unified.topic_id] = topic
        self.due.discard(topic, partition)
        self.forget_closed((topic, partition))

    def add_unopened(self, topic: str, topic_id: Uuid, partition: int, why: str) -> None:
        """List a partition that is led here although its log cannot be opened; ``why`` is a sentence that names it."""
        self.failure_count += 1
        self.forget_closed((topic, partition))
        self._unopened[topic, partition] = topic_id
        self._unopened_ids.add((topic_id, partition))
        self._why_unopened[topic, partition] = why

    @property
    def closed(self) -> list[str]:
        """Why each partition that is led here and could not be opened is offline."""
        return list(self._why_unopened.values())

    def forget_unopened(self, topic: str, topic_id: Uuid) -> None:
        """The topic was deleted. Partitions of another one of its name stay due, or closed."""
        self.due.forget(topic, topic_id)
        for name in [one for one, known_id in self._unopened.items() if known_id == topic_id]:
            self.forget_closed(name)

    def forget_closed(self, name: tuple[str, int]) -> None:
        """The partition is open, or other brokers or another topic have it."""
        topic_id = self._unopened.pop(name, None)
        if topic_id is not None:
            self._unopened_ids.discard((topic_id, name[1]))
            del self._why_unopened[name]

    def remove(self, unified: UnifiedLog) -> None:
        """Serve it no longer."""
        self.version += 1
        topic, partition = unified.topic_partition
        if self._by_name.get((topic, partition)) is unified:  # a topic made again may already have its place
            del self._by_name[topic, partition]
            of_topic = self._by_topic[topic]
            del of_topic[partition]
            if not of_topic:
                del self._by_topic[topic]
        if self._by_id.pop((unified.topic_id, partition), None) is None:
            return
        self._counts[unified.topic_id] -= 1
        if not self._counts[unified.topic_id]:
            del self._counts[unified.topic_id], self._names[unified.topic_id]
        self.on_removed(unified)

    def get(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """The partition, or None if it is not hosted here."""
        return self._by_name.get(topic_partition)

    def of_topic(self, topic: str) -> list[UnifiedLog]:
        """The partitions of a topic that are hosted here."""
        return list(self._by_topic[topic].values()) if topic in self._by_topic else []

    def is_archived(self, topic: str, topic_id: Uuid) -> bool:
        """Whether a partition of the topic that is hosted here has an archive."""
        return any(one.remote is not None and one.topic_id == topic_id for one in self.of_topic(topic))

    def of_topics(self, wanted: Callable[[UnifiedLog], bool]) -> Iterator[UnifiedLog]:
        """The partitions of topics for which ``wanted`` is true. It gets one partition of each topic."""
        for partitions in list(self._by_topic.values()):
            if wanted(next(iter(partitions.values()))):
                yield from list(partitions.values())

    def by_name(self, topic: str, partition: int) -> UnifiedLog:
        """The partition that is hosted here.

        Raises UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER for one that is not hosted here or will be opened next,
        POLICY_VIOLATION for one that is only read, KAFKA_STORAGE_ERROR for one that cannot be opened.
        """
        unified = self._by_name.get((topic, partition))
        if unified is None:
            _check_not_due(self.due.ask(topic, partition))
            _check_opened(unopened=(topic, partition) in self._unopened)
            _check_writable(self._views_by_name.get((topic, partition)))
            known = self._image().topics.by_name.get(topic)
            if known is None or partition not in known.partitions:
                raise _unknown()
            raise _hosted_elsewhere(topic, partition)
        return unified

    def by_id(self, topic_id: Uuid, partition: int) -> UnifiedLog:
        """The partition that is hosted here.

        Raises UNKNOWN_TOPIC_ID, or UNKNOWN_TOPIC_OR_PARTITION for a known topic (KIP-516), NOT_LEADER_OR_FOLLOWER for a
        partition that is not hosted here or will be opened next, POLICY_VIOLATION for one that is only read,
        KAFKA_STORAGE_ERROR for one that cannot be opened.
        """
        unified = self._by_id.get((topic_id, partition))
        if unified is None:
            _check_not_due(self.due.ask_by_id(topic_id, partition))
            _check_writable(self._views_by_id.get((topic_id, partition)))
            _check_opened(unopened=(topic_id, partition) in self._unopened_ids)
            known = self._image().topics.by_id.get(topic_id)
            if known is not None and partition in known.partitions:
                raise _hosted_elsewhere(known.name, partition)
            if known is not None or topic_id in self._names:
                raise _unknown()
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        return unified

    def readable_by_name(self, topic: str, partition: int) -> UnifiedLog:
        """The partition, hosted here or only read. Raises as `by_name`."""
        found = self._by_name.get((topic, partition)) or self._views_by_name.get((topic, partition))
        return found or self.by_name(topic, partition)

    def readable_by_id(self, topic_id: Uuid, partition: int) -> UnifiedLog:
        """The partition, hosted here or only read. Raises as `by_id`."""
        found = self._by_id.get((topic_id, partition)) or self._views_by_id.get((topic_id, partition))
        return found or self.by_id(topic_id, partition)

    def add_view(self, unified: UnifiedLog) -> None:
        """Let readers find a partition that is not hosted here."""
        self._views_by_name[unified.topic_partition] = unified
        self._views_by_id[unified.topic_id, unified.topic_partition.partition] = unified

    def remove_view(self, unified: UnifiedLog) -> None:
        """They find it no longer."""
        self._views_by_name.pop(unified.topic_partition, None)
        self._views_by_id.pop((unified.topic_id, unified.topic_partition.partition), None)

    def has_view(self, topic: str, partition: int) -> bool:
        """Whether readers find this partition although it is not hosted here."""
        return (topic, partition) in self._views_by_name

    def name_of(self, topic_id: Uuid) -> str | None:
        """The topic with this id."""
        return self._names.get(topic_id)

    def partitions(self) -> Iterator[Partition]:
        """The hosted partitions of this moment, without their archives."""
        return (unified.partition for unified in self)

    def __iter__(self) -> Iterator[UnifiedLog]:
        return iter(list(self._by_name.values()))

    def leaders_with_followers(self) -> Iterator[Leader | None]:
        """The leaders of this moment that have followers, and answer them; None now and then: thousands may have none.

        The others call no follower late: it cannot fetch. Alone in the set, one with a failed disk would leave the partition
        without a leader.
        """
        for count, unified in enumerate(self, 1):
            leader = unified.partition.leader
            if leader is not None and leader.state.has_followers and _answers(unified):
                yield leader
            elif count % _LOOKED_AT_A_PAUSE == 0:
                yield None

    def checking_lag(self, replica_lag_time_max_ms: int) -> Generator[None, None, None]:
        """Have leaders ask for in-sync sets without members that have not caught up for so long; yields after each."""
        for leader in self.leaders_with_followers():
            if leader is not None:
                leader.check_lag(replica_lag_time_max_ms)
            yield

    def brokers_changed(self) -> Generator[None, None, None]:
        """Other brokers are fenced no more, or registered anew: have leaders look who may join; yields after each."""
        for leader in self.leaders_with_followers():
            if leader is not None:
                leader.look_for_joiners()
            yield

    def __len__(self) -> int:
        return len(self._by_name)


def _answers(unified: UnifiedLog) -> bool:
    """Whether requests for the partition are answered: its disk works, and it is not held back."""
    return unified.partition.held_back is None and unified.partition.directory.offline is None


def _nothing_follows(_unified: UnifiedLog) -> None:
    pass


def _unknown() -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def _hosted_elsewhere(topic: str, partition: int) -> KafkaError:
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{partition} is not led by this broker")


def _check_not_due(is_due: bool) -> None:
    """Kafka's answer of a broker that has not come to the partition yet; clients ask again after their retry.backoff.ms."""
    if is_due:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The log of this partition is opened next.")


def _check_opened(*, unopened: bool) -> None:
    if unopened:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The log of this partition cannot be opened for now.")


def _check_writable(view: UnifiedLog | None) -> None:
    if view is not None:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{view.topic_partition} is a read-only view of the bucket.")


class LedPartitions:
    """Those of a table that this broker leads in the moment of a look; the others are copies of what other brokers lead."""

    def __init__(self, table: PartitionTable) -> None:
        self._table = table

    def __iter__(self) -> Iterator[UnifiedLog]:
        return (one for one in self._table if one.partition.leader is not None)
