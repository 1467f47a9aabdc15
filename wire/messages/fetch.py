"""Fetch (key 1): read record batches; followers replicate with the same request.

- 4: isolation level, last stable offset and aborted transactions (KIP-98).
- 5: log start offsets in both directions (KIP-107).
- 7: fetch sessions: only what changed is named again, ``forgotten_topics_data`` takes partitions out (KIP-227).
- 9: the leader epoch that the client knows (KIP-320).
- 10: batches may be compressed with zstd (KIP-110).
- 11: the client's rack, and the replica to prefer (KIP-392).
- 12: flexible; the epoch of the last record fetched, and where the logs diverge (KIP-595).
- 13: topics are named by id (KIP-516).
- 14: OFFSET_MOVED_TO_TIERED_STORAGE may be answered to a follower (KIP-405).
- 15: the follower's id and epoch move into a tagged struct (KIP-903).
- 16: endpoints of new leaders as tagged fields (KIP-951).
- 17: the follower's directory id (KIP-853).
- 18: the follower's high watermark (KIP-1166).

``forgotten_below`` is this project's own. It is a tagged field, which Kafka's brokers pass over, with a number far above those that
Kafka gives out.
"""

from __future__ import annotations

from stratalog.wire.schema import Int8, Int16, Int32, Int64, Message, Records, Struct, Uuid, field

__all__ = [
    "AbortedTransaction",
    "EpochEndOffset",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "FetchableTopicResponse",
    "ForgottenTopic",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionData",
    "ReplicaState",
    "SnapshotId",
]


class ReplicaState(Struct):
    """Which follower asks, and the broker epoch it was registered with."""

    replica_id: Int32 = field(-1)
    replica_epoch: Int64 = field(-1)


class FetchPartition(Struct):
    """Where to read on. ``high_watermark`` is what the follower knows; its default means that it does not tell."""

    partition: Int32
    current_leader_epoch: Int32 = field(-1, since=9)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = field(-1, since=12)
    log_start_offset: Int64 = field(-1, since=5)
    partition_max_bytes: Int32
    replica_directory_id: Uuid = field(since=17, tag=0)
    high_watermark: Int64 = field(2**63 - 1, since=18, tag=1)


class FetchTopic(Struct):
    """The partitions to read of one topic."""

    topic: str = field(until=12)
    topic_id: Uuid = field(since=13)
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    """Partitions to take out of the session."""

    topic: str = field(until=12)
    topic_id: Uuid = field(since=13)
    partitions: list[Int32]


class FetchRequest(Message, api_key=1, versions=(4, 18), flexible=12):
    """The partitions to read, in the order in which they are to be filled.
    ``isolation_level``: 0 read_uncommitted, 1 read_committed.
    """

    cluster_id: str | None = field(since=12, tag=0)
    replica_id: Int32 = field(-1, until=14)
    replica_state: ReplicaState | None = field(since=15, tag=1)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(2**31 - 1)
    isolation_level: Int8 = field()
    session_id: Int32 = field(since=7)
    session_epoch: Int32 = field(-1, since=7)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field(since=7)
    rack_id: str = field(since=11)


class EpochEndOffset(Struct):
    """Where the follower's log and the leader's part ways: the end of the largest epoch they share."""

    epoch: Int32 = field(-1)
    end_offset: Int64 = field(-1)


class LeaderIdAndEpoch(Struct):
    """The partition's leader now; -1 where that is not known."""

    leader_id: Int32 = field(-1)
    leader_epoch: Int32 = field(-1)


class SnapshotId(Struct):
    """The snapshot to fetch instead, when the log no longer reaches back that far."""

    end_offset: Int64 = field(-1)
    epoch: Int32 = field(-1)


class AbortedTransaction(Struct):
    """An aborted transaction that overlaps the answer: skip this producer's records from the offset on."""

    producer_id: Int64
    first_offset: Int64


class PartitionData(Struct):
    """The batches of one partition and how far it reaches; an offset of -1 is not known.

    ``forgotten_below`` comes to a follower that asks for an offset below it: the leader lacks tombstones, or markers of transactions,
    up to there, so that a log which ends before them would never hear of them.
    """

    partition_index: Int32
    error_code: Int16 = field()
    high_watermark: Int64
    last_stable_offset: Int64 = field(-1)
    log_start_offset: Int64 = field(-1, since=5)
    diverging_epoch: EpochEndOffset | None = field(since=12, tag=0)
    current_leader: LeaderIdAndEpoch | None = field(since=12, tag=1)
    snapshot_id: SnapshotId | None = field(since=12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field([])
    preferred_read_replica: Int32 = field(-1, since=11)
    records: Records | None
    forgotten_below: Int64 = field(0, since=12, tag=21_000)


class FetchableTopicResponse(Struct):
    """The partitions of one topic."""

    topic: str = field(until=12)
    topic_id: Uuid = field(since=13)
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    """How to reach a node named as current leader."""

    node_id: Int32
    host: str
    port: Int32
    rack: str | None = field()


class FetchResponse(Message, api_key=1, versions=(4, 18), flexible=12):
    """Record batches, partition by partition."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field(since=7)
    session_id: Int32 = field(since=7)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field(since=16, tag=0)
