"""The way from a leader to the controller, who decides about in-sync sets."""

from __future__ import annotations

from typing import Final, Protocol

from stratalog.hot.replica_state import IsrChange, ReplicaState
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

__all__ = ["NO_FOLLOWERS", "AskingLeader", "InSyncAsking"]


class AskingLeader(Protocol):
    """A leader, `stratalog.broker.replicas.leader.Leader`, as those see it who ask for it."""

    state: ReplicaState
    epoch: int
    ended: KafkaError | None

    @property
    def key(self) -> PartitionKey:
        """The partition by the id of its topic."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that is led."""

    def in_sync_refused(self, change: IsrChange, code: ErrorCode, /) -> None:
        """The controller has refused a change."""

    def in_sync_passed_over(self, change: IsrChange, /) -> None:
        """The controller has granted a change without a new partition epoch."""


class InSyncAsking(Protocol):
    """The way to the controller, who decides about in-sync sets."""

    def ask(self, leader: AskingLeader, change: IsrChange, /) -> None:
        """Have the controller put another set in force; the metadata log has it when it is granted."""

    def may_join(self, key: PartitionKey, broker_id: int, broker_epoch: int, /) -> bool:
        """Whether the image knows the broker under this epoch, it is neither fenced nor stopping, and has the replica's directory."""

    def changed(self, before: int, after: int, /) -> None:
        """A set that this broker leads by has ``after`` members now, and had ``before``."""


class _NoFollowers:
    """For a broker that is a cluster by itself."""

    def ask(self, leader: AskingLeader, change: IsrChange) -> None:
        raise AssertionError(f"{leader.topic_partition} has one replica, and asks for {change.broker_ids}")

    def may_join(self, _key: PartitionKey, _broker_id: int, _broker_epoch: int) -> bool:
        return False

    def changed(self, before: int, after: int) -> None:
        """It is counted nowhere."""


NO_FOLLOWERS: Final[InSyncAsking] = _NoFollowers()
"""For partitions that have one replica."""
