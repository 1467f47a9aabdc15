"""The view on which the controller decides about partitions: an image, its index, and two settings of each topic.

Brokers that a decision fences or unfences are not yet so in the image: they are named to `ClusterView.rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple, Protocol

from msgspec import Struct

from stratalog.metadata.controller.partition_change import Election, OfReplica, PartitionRules
from stratalog.metadata.image.configs_image import ConfigResource
from stratalog.metadata.image.directory_ids import UNASSIGNED, is_online
from stratalog.metadata.image.features import METADATA_VERSION, has_eligible_leader_replicas
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.partition_index import ScannedPartitions
from stratalog.metadata.image.topics_image import PartitionImage, TopicImage
from stratalog.metadata.settings.resolution import NOTHING, ConfigResolver
from stratalog.wire.topic import Uuid

__all__ = ["ClusterView", "Held", "Partitions", "ReplicationSettings", "TopicSettings", "topic_settings"]


class ReplicationSettings(NamedTuple):
    """The settings of a topic that bear on its replicas: min.insync.replicas, unclean.leader.election.enable."""

    min_in_sync_replicas: int = 1
    unclean_allowed: bool = False


TopicSettings = Callable[[str], ReplicationSettings]
"""Called with the name of a topic."""


def topic_settings(image: ClusterImage, resolver: ConfigResolver) -> TopicSettings:
    """The settings of the topics of an image, and of all images with the same ones.

    A topic with settings of its own is resolved once. Only these are kept: names come from strangers, and others need
    no place.
    """
    configs, defaults = image.configs, _replication_settings(resolver, NOTHING)
    known: dict[str, ReplicationSettings] = {}

    def settings(name: str) -> ReplicationSettings:
        overrides = configs.of(ConfigResource.topic(name))
        if not overrides:
            return defaults
        found = known.get(name)
        if found is None:
            found = known[name] = _replication_settings(resolver, overrides)
        return found

    return settings


def _replication_settings(resolver: ConfigResolver, overrides: Mapping[str, str]) -> ReplicationSettings:
    entries = resolver.committed(overrides)
    at_least = entries["min.insync.replicas"].value
    return ReplicationSettings(
        at_least if isinstance(at_least, int) else 1,
        bool(entries["unclean.leader.election.enable"].value),
    )


class Partitions(Protocol):
    """An index of partitions, as `PartitionIndex` is one."""

    def held_by(self, broker_id: int) -> Iterator[tuple[Uuid, int]]:
        """The partitions that a broker is assigned."""

    def leaderless(self) -> Iterator[tuple[Uuid, int]]:
        """The partitions without a leader."""

    def not_preferred(self) -> Iterator[tuple[Uuid, int]]:
        """The partitions that another replica than the preferred one leads, or none."""

    def leads_any(self, broker_id: int) -> bool:
        """Whether a broker leads a partition."""


class Held(NamedTuple):
    """One partition, found in the image."""

    topic: TopicImage
    number: int
    state: PartitionImage


class ClusterView(Struct, frozen=True, kw_only=True):
    """The image that a decision is made on. Without an index of its own every look at a broker is one at all partitions."""

    image: ClusterImage
    settings: TopicSettings
    index: Partitions | None = None
    heeds_directories: bool = True
    """Whether a replica whose directory its broker has not registered cannot lead: the broker itself sees to it if not."""

    @property
    def has_eligible(self) -> bool:
        """Whether the cluster keeps eligible leader replicas."""
        return has_eligible_leader_replicas(self.image.features)

    @property
    def level(self) -> int:
        """The level of ``metadata.version``."""
        return self.image.features.get(METADATA_VERSION, 0)

    def allows_unclean(self, topic: str) -> bool:
        """Whether a replica that may lack records may lead the partitions of a topic if no other can."""
        return self.settings(topic).unclean_allowed

    def held_by(self, broker_id: int) -> Iterator[Held]:
        """The partitions that a broker is assigned."""
        return self._found(self._partitions.held_by(broker_id))

    def leaderless(self) -> Iterator[Held]:
        """The partitions without a leader."""
        return self._found(self._partitions.leaderless())

    def not_preferred(self) -> Iterator[Held]:
        """The partitions that another replica than the preferred one leads, or none."""
        return self._found(self._partitions.not_preferred())

    def leads_any(self, broker_id: int) -> bool:
        """Whether a broker leads a partition."""
        return self._partitions.leads_any(broker_id)

    @property
    def _partitions(self) -> Partitions:
        return ScannedPartitions(self.image) if self.index is None else self.index

    def _found(self, keys: Iterable[tuple[Uuid, int]]) -> Iterator[Held]:
        """Each when it is asked for: decisions about very many partitions are made in steps."""
        by_id = self.image.topics.by_id
        for topic_id, number in keys:
            topic = by_id[topic_id]
            yield Held(topic, number, topic.partitions[number])

    def default_directory(self, broker_id: int) -> Uuid:
        """The directory of a new replica on a broker, which need not be registered."""
        broker = self.image.brokers.brokers.get(broker_id)
        return UNASSIGNED if broker is None else broker.default_directory

    def rules(
        self,
        *,
        fenced: Collection[int] = (),
        stopping: Collection[int] = (),
        unfenced: Collection[int] = (),
        offline: Collection[Uuid] = (),
        election: Election | None = None,
    ) -> Callable[[str], PartitionRules]:
        """The rules of a change by topic. ``election`` is by default what the topic's settings allow.

        ``fenced``, ``stopping`` and ``unfenced`` brokers count as such whatever the image says of them, and the directories
        ``offline`` as not there.
        """
        is_acceptable, lives = self._liveness(frozenset(fenced), frozenset(stopping), frozenset(unfenced), offline)

        level, has_eligible = self.level, self.has_eligible

        @cache
        def of_topic(name: str) -> PartitionRules:
            settings = self.settings(name)
            allowed = Election.UNCLEAN if settings.unclean_allowed else Election.ONLINE
            return PartitionRules(
                is_acceptable=is_acceptable,
                lives=lives,
                default_directory=self.default_directory,
                level=level,
                min_in_sync_replicas=settings.min_in_sync_replicas,
                election=allowed if election is None else election,
                has_eligible=has_eligible,
            )

        return of_topic

    def _liveness(
        self, fenced: frozenset[int], stopping: frozenset[int], unfenced: frozenset[int], offline: Collection[Uuid]
    ) -> tuple[OfReplica, OfReplica]:
        heeds = self.heeds_directories
        living = {
            broker.broker_id: broker
            for broker in self.image.brokers.brokers.values()
            if broker.broker_id not in fenced and (not broker.is_fenced or broker.broker_id in unfenced)
        }
        active = {one for one, broker in living.items() if not broker.in_controlled_shutdown} - stopping

        def lives(broker_id: int, directory: Uuid) -> bool:
            broker = living.get(broker_id)
            if broker is None or directory in offline:
                return False
            return not heeds or is_online(directory, broker.directories)

        def is_acceptable(broker_id: int, directory: Uuid) -> bool:
            return broker_id in active and lives(broker_id, directory)

        return is_acceptable, lives
