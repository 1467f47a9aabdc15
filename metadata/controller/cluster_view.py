"""The view on which the controller decides about partitions: an image, its index, and two settings of each topic.

Brokers that a decision fences or unfences are not yet so in the image: they are named to `ClusterView.rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol

from stratalog.metadata.controller.partition_change import Election, OfReplica, PartitionRules
from stratalog.metadata.image.directory_ids import UNASSIGNED
from stratalog.metadata.image.features import METADATA_VERSION, has_eligible_leader_replicas
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.partition_index import PartitionKey, ScannedPartitions
from stratalog.metadata.image.topics_image import PartitionImage, TopicImage
from stratalog.metadata.settings.resolution import ConfigResolver
from stratalog.wire.topic import Uuid

__all__ = ["ClusterView", "Held", "Partitions", "ReplicationSettings", "TopicSettings", "topic_settings"]


class ReplicationSettings(NamedTuple):
    """The settings of a topic that bear on its replicas: min.insync.replicas, unclean.leader.election.enable."""

    min_in_sync_replicas: int = 1
    unclean_allowed: bool = False


TopicSettings = Callable[[str], ReplicationSettings]
"""Called with the name of a topic."""


def topic_settings(image: ClusterImage, resolver: ConfigResolver) -> TopicSettings:
    """The settings of the topics of an image. A topic that is asked for twice is resolved once."""

    @cache
    def settings(name: str) -> ReplicationSettings:
        entries = resolver.resolve(image.topic_configs(name))
        at_least = entries["min.insync.replicas"].value
        return ReplicationSettings(
            at_least if isinstance(at_least, int) else 1, bool(entries["unclean.leader.election.enable"].value)
        )

    return settings


class Partitions(Protocol):
    """An index of partitions, as `PartitionIndex` is one."""

    def held_by(self, broker_id: int) -> list[PartitionKey]:
        """The partitions that a broker is assigned."""

    def leaderless(self) -> list[PartitionKey]:
        """The partitions without a leader."""

    def not_preferred(self) -> list[PartitionKey]:
        """The partitions that another replica than the preferred one leads, or none."""


class Held(NamedTuple):
    """One partition, found in the image."""

    topic: TopicImage
    number: int
    state: PartitionImage


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
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

    def held_by(self, broker_id: int) -> list[Held]:
        """The partitions that a broker is assigned."""
        return [self._found(key) for key in self._partitions.held_by(broker_id)]

    def leaderless(self) -> list[Held]:
        """The partitions without a leader."""
        return [self._found(key) for key in self._partitions.leaderless()]

    def not_preferred(self) -> list[Held]:
        """The partitions that another replica than the preferred one leads, or none."""
        return [self._found(key) for key in self._partitions.not_preferred()]

    def leads_any(self, broker_id: int) -> bool:
        """Whether a broker leads a partition."""
        return any(held.state.leader == broker_id for held in self.held_by(broker_id))

    @property
    def _partitions(self) -> Partitions:
        return ScannedPartitions(self.image) if self.index is None else self.index

    def _found(self, key: PartitionKey) -> Held:
        topic = self.image.topics.by_id[key.topic_id]
        return Held(topic, key.number, topic.partitions[key.number])

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

        @cache
        def of_topic(name: str) -> PartitionRules:
            settings = self.settings(name)
            allowed = Election.UNCLEAN if settings.unclean_allowed else Election.ONLINE
            return PartitionRules(
                is_acceptable=is_acceptable,
                lives=lives,
                default_directory=self.default_directory,
                level=self.level,
                min_in_sync_replicas=settings.min_in_sync_replicas,
                election=allowed if election is None else election,
                has_eligible=self.has_eligible,
            )

        return of_topic

    def _liveness(
        self, fenced: frozenset[int], stopping: frozenset[int], unfenced: frozenset[int], offline: Collection[Uuid]
    ) -> tuple[OfReplica, OfReplica]:
        brokers, heeds = self.image.brokers, self.heeds_directories
        known = brokers.brokers
        living = {one for one, broker in known.items() if not broker.is_fenced or one in unfenced} - fenced
        active = {one for one in living if not known[one].in_controlled_shutdown} - stopping

        def is_there(broker_id: int, directory: Uuid) -> bool:
            return not heeds or brokers.serves(broker_id, directory)

        def is_acceptable(broker_id: int, directory: Uuid) -> bool:
            return broker_id in active and directory not in offline and is_there(broker_id, directory)

        def lives(broker_id: int, directory: Uuid) -> bool:
            return broker_id in living and directory not in offline and is_there(broker_id, directory)

        return is_acceptable, lives
