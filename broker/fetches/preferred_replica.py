"""The replica that a consumer of another rack is sent to (KIP-392).

The leader names it instead of records; the consumer reads there for a while (``metadata.max.age.ms``) and comes back when
that replica cannot answer. Candidates are followers in sync that have the offset, on brokers of the consumer's rack that it
can reach; the one furthest on is taken. A leader in that rack serves itself. Where a topic has an archive, a follower's disk
may begin as late as the archive ends, and it reads no archive: offsets below are the leader's. Sources: Kafka's
``ReplicaManager.findPreferredReadReplica``, ``RackAwareReplicaSelector``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from stratalog.broker.replicas.partition import Partition
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.settings.config import BrokerConfig
from stratalog.hot.replica_state import ReplicaState
from stratalog.metadata.image.brokers_image import BrokersImage
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.settings.catalogue.replication import RACK_AWARE_SELECTOR
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.fetch import FetchPartition

__all__ = [
    "RACKS_SINCE",
    "check_reader_epoch",
    "check_reads_here",
    "elsewhere",
    "follower_in_rack",
    "is_local",
    "preferred_replica",
]

RACKS_SINCE: Final = 11
"""From this version on a fetch tells its rack, its client knows the answer, and followers serve it."""


def is_local(config: BrokerConfig, rack: str) -> bool:
    """Whether a consumer of this rack is never sent elsewhere: it has none, it is the broker's own, or no selector is set."""
    return not rack or rack == config.rack or config.text("replica.selector.class") != RACK_AWARE_SELECTOR


def check_reader_epoch(partition: Partition, current_leader_epoch: int, version: int) -> None:
    """Whether a consumer may read here under its leader epoch. Raises `KafkaError` as `Partition.check_reader_epoch`."""
    if version < RACKS_SINCE:
        partition.check_leader_epoch(current_leader_epoch)
    else:
        partition.check_reader_epoch(current_leader_epoch)


def check_reads_here(unified: UnifiedLog, wanted: FetchPartition, version: int, in_contact: Callable[[], bool]) -> None:
    """Whether a consumer may read here what it has ``wanted``. Raises `KafkaError`.

    A leader that has lost contact with the controller may have a successor, whose log goes further. OFFSET_OUT_OF_RANGE would have
    a consumer of that log begin anew, at its first record perhaps; Kafka's brokers answer so.

    A follower reads no archive. A consumer that knows the epoch has been sent here, and OFFSET_OUT_OF_RANGE sends it back to the
    leader. One that tells no epoch may take this broker for the leader, and would begin anew elsewhere by that: it gets
    NOT_LEADER_OR_FOLLOWER, and asks who leads. So it does for an offset that a follower has not reached: it may have led before.
    """
    offset, current_leader_epoch = wanted.fetch_offset, wanted.current_leader_epoch
    check_reader_epoch(unified.partition, current_leader_epoch, version)
    log, leader = unified.log, unified.partition.leader
    if offset > log.log_end_offset and leader is not None and leader.state.has_followers and not in_contact():
        why = (
            f"offset {offset} of {unified.topic_partition} is above {log.log_end_offset}, the end of the log here; the controller "
            "has not answered this broker for a session, and another one may lead"
        )
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, why)
    if leader is not None or unified.remote is not None:
        return
    if offset > log.log_end_offset and current_leader_epoch < 0:
        why = f"offset {offset} of {unified.topic_partition} is above {log.log_end_offset}, which this follower has reached"
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, why)
    if log.log_start_offset <= offset < log.local_log_start_offset:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if current_leader_epoch < 0 else ErrorCode.OFFSET_OUT_OF_RANGE
        why = (
            f"offset {offset} of {unified.topic_partition} is in the archive, which its leader reads; the disk of this "
        )
        raise KafkaError(code, f"{why}follower begins at {log.local_log_start_offset}")


class RackedBroker(Protocol):
    """The broker as this choice sees it."""

    @property
    def config(self) -> BrokerConfig:
        """Its settings, as they are now."""

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""


def elsewhere(
    broker: RackedBroker, rack: str, listener: str, version: int
) -> Callable[[UnifiedLog, int], int | None] | None:
    """Finds the broker that a consumer of this rack is sent to, by partition and offset; None if it is never sent away."""
    if version < RACKS_SINCE or is_local(broker.config, rack):
        return None
    return lambda unified, offset: preferred_replica(unified, offset, rack, broker.image.brokers, listener=listener)


def preferred_replica(
    unified: UnifiedLog, offset: int, rack: str, brokers: BrokersImage, *, listener: str
) -> int | None:
    """The broker in ``rack`` that a consumer who came by ``listener`` reads from ``offset`` on, unless it is this one."""
    leader, remote = unified.partition.leader, unified.remote
    if leader is None or not leader.state.has_followers:
        return None
    if remote is not None and not (remote.known and offset >= remote.end_offset):
        return None
    return follower_in_rack(leader.state, offset, rack, brokers, listener=listener)


def follower_in_rack(
    state: ReplicaState, offset: int, rack: str, brokers: BrokersImage, *, listener: str
) -> int | None:
    """The follower in sync that has the offset, in this rack, that is furthest on; of equals the one caught up last."""
    best: tuple[int, int, int] | None = None
    for broker_id in state.in_sync:
        broker = brokers.brokers.get(broker_id)
        if broker is None or broker.rack != rack or not state.is_follower(broker_id):
            continue
        follower = state.follower(broker_id)
        if broker.is_fenced or listener not in broker.listeners:
            continue
        if follower.log_start_offset <= offset <= follower.log_end_offset:
            best = max(best or (-1, -1, -1), (follower.log_end_offset, follower.last_caught_up_ms, broker_id))
    return None if best is None else best[2]
