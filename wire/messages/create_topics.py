"""CreateTopics (key 19): create topics, or with ``validate_only`` say whether that would work.

- 2: validate only, error messages and throttle time are there. 3: throttling comes after the answer (KIP-219).
- 4: counts of -1 mean the broker's defaults (KIP-464). 5: flexible; the answer shows the topic's configs (KIP-525).
- 6: THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599). 7: the answer has the topic id (KIP-516).
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int8, Int16, Int32, Message, Struct, Uuid, field

__all__ = [
    "CreatableReplicaAssignment",
    "CreatableTopic",
    "CreatableTopicConfig",
    "CreatableTopicConfigs",
    "CreatableTopicResult",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
]


class CreatableReplicaAssignment(Struct):
    """The replicas of one partition, the preferred leader first."""

    partition_index: Int32
    broker_ids: list[Int32]


class CreatableTopicConfig(Struct):
    """One config of the topic."""

    name: str
    value: str | None


class CreatableTopic(Struct):
    """One topic: either counts, -1 for the broker's default, or with counts of -1 an assignment of every partition."""

    name: str
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


class CreateTopicsRequest(Message, api_key=19, versions=(2, 7), flexible=5):
    """The topics to create."""

    topics: list[CreatableTopic]
    timeout_ms: Int32 = field(60000)
    validate_only: Bool = field()


class CreatableTopicConfigs(Struct):
    """One config of the new topic, defaults included. ``config_source`` as in DescribeConfigs."""

    name: str
    value: str | None
    read_only: Bool
    config_source: Int8 = field(-1)
    is_sensitive: Bool


class CreatableTopicResult(Struct):
    """One topic as it was created. ``configs`` is null and the counts are -1 where the caller may not see them;
    ``topic_config_error_code`` then says why.
    """

    name: str
    topic_id: Uuid = field(since=7)
    error_code: Int16 = field()
    error_message: str | None = field()
    topic_config_error_code: Int16 = field(since=5, tag=0)
    num_partitions: Int32 = field(-1, since=5)
    replication_factor: Int16 = field(-1, since=5)
    configs: list[CreatableTopicConfigs] | None = field([], since=5)


class CreateTopicsResponse(Message, api_key=19, versions=(2, 7), flexible=5):
    """The outcome for each topic."""

    throttle_time_ms: Int32 = field()
    topics: list[CreatableTopicResult]
