"""A request or more of every API, whose answer says something of who may do what; none changes what others ask for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from stratalog.wire.batch import Record, build_batch
from stratalog.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from stratalog.wire.schema import Message

__all__ = ["ABSENT", "GROUP", "REQUESTS", "SECRET", "TRANSACTION", "Ids"]

Ids = Mapping[str, bytes]
Make = Callable[[int, Ids], Message | None]

SECRET, ABSENT, GROUP, TRANSACTION = "app-secret", "app-absent", "app-group", "app-transaction"
TOPICS = (SECRET, ABSENT)
ABSENT_ID = bytes(range(16))
BROKER, TOPIC_CONFIG, GROUP_CONFIG = 4, 2, 32


def _id(ids: Ids, name: str) -> bytes:
    return ids.get(name, ABSENT_ID)


def _batch(*, transactional: bool) -> bytes:
    now = [Record(0, time.time_ns() // 1_000_000, None, b"x")]
    if transactional:
        return bytes(build_batch(now, producer_id=1 << 40, producer_epoch=0, base_sequence=0, transactional=True))
    return bytes(build_batch(now))


def _produce(
    transactional_id: str | None = None, *, transactional: bool = False, topics: tuple[str, ...] = TOPICS
) -> Make:
    def make(version: int, ids: Ids) -> Message:
        data = [
            produce.TopicProduceData(
                name=name if version < 13 else "",
                topic_id=_id(ids, name) if version >= 13 else bytes(16),
                partition_data=[produce.PartitionProduceData(index=0, records=_batch(transactional=transactional))],
            )
            for name in topics
        ]
        return produce.ProduceRequest(transactional_id=transactional_id, acks=1, timeout_ms=9000, topic_data=data)

    return make


def _fetch(version: int, ids: Ids) -> Message:
    return fetch.FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_id=0, session_epoch=-1,
        topics=[
            fetch.FetchTopic(
                topic=name if version < 13 else "",
                topic_id=_id(ids, name) if version >= 13 else bytes(16),
                partitions=[fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)],
            )
            for name in TOPICS
        ],
    )  # fmt: skip


def _metadata(version: int, ids: Ids) -> Message:
    return metadata.MetadataRequest(
        # Versions up to 3 create what is absent, later in Kafka, at once here: others would see it.
        topics=[metadata.MetadataRequestTopic(name=name) for name in (TOPICS if version >= 4 else TOPICS[:1])],
        allow_auto_topic_creation=version < 4,
        include_cluster_authorized_operations=8 <= version <= 10,
        include_topic_authorized_operations=version >= 8,
    )


def _metadata_by_id(version: int, ids: Ids) -> Message | None:
    if version < 12:
        return None
    topics = [metadata.MetadataRequestTopic(name=None, topic_id=_id(ids, name)) for name in TOPICS]
    return metadata.MetadataRequest(topics=topics, include_topic_authorized_operations=True)


def _metadata_of_all(version: int, ids: Ids) -> Message:
    return metadata.MetadataRequest(topics=None if version else [], include_topic_authorized_operations=version >= 8)


def _commit(version: int, ids: Ids) -> Message:
    part = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
    return offset_commit.OffsetCommitRequest(
        group_id=GROUP, generation_id_or_member_epoch=-1, member_id="",
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name=name if version < 10 else "", topic_id=_id(ids, name) if version >= 10 else bytes(16), partitions=[part]
            )
            for name in TOPICS
        ],
    )  # fmt: skip


def _offsets(*, everything: bool) -> Make:
    def make(version: int, ids: Ids) -> Message | None:
        if version < 8:
            if everything and version < 2:
                return None
            topics = [offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in TOPICS]
            return offset_fetch.OffsetFetchRequest(group_id=GROUP, topics=None if everything else topics)
        wanted = [
            offset_fetch.OffsetFetchRequestTopics(
                name=name if version < 10 else "",
                topic_id=_id(ids, name) if version >= 10 else bytes(16),
                partition_indexes=[0],
            )
            for name in TOPICS
        ]
        group = offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, topics=None if everything else wanted)
        return offset_fetch.OffsetFetchRequest(groups=[group])

    return make


def _coordinator(kind: int, key: str) -> Make:
    def make(version: int, ids: Ids) -> Message | None:
        if version < 4:
            return None if kind and not version else find_coordinator.FindCoordinatorRequest(key=key, key_type=kind)
        return find_coordinator.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])

    return make


def _leave(version: int, ids: Ids) -> Message:
    if version < 3:
        return leave_group.LeaveGroupRequest(group_id=GROUP, member_id="absent")
    return leave_group.LeaveGroupRequest(group_id=GROUP, members=[leave_group.MemberIdentity(member_id="absent")])


def _create_topics(version: int, ids: Ids) -> Message:
    wanted = [
        create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for name in TOPICS
    ]
    return create_topics.CreateTopicsRequest(topics=wanted, timeout_ms=9000, validate_only=True)


def _delete_topics(name: str, *, by_id: bool = False) -> Make:
    def make(version: int, ids: Ids) -> Message | None:
        if version < 6:
            return None if by_id else delete_topics.DeleteTopicsRequest(topic_names=[name], timeout_ms=9000)
        one = delete_topics.DeleteTopicState(name=None, topic_id=_id(ids, name)) if by_id else None
        return delete_topics.DeleteTopicsRequest(
            topics=[one or delete_topics.DeleteTopicState(name=name)], timeout_ms=9000
        )

    return make


def _add_partitions(version: int, ids: Ids) -> Message:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in TOPICS]
    if version < 4:
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTION, v3_and_below_producer_id=1 << 40, v3_and_below_producer_epoch=0,
            v3_and_below_topics=topics,
        )  # fmt: skip
    one = add_partitions_to_txn.AddPartitionsToTxnTransaction(
        transactional_id=TRANSACTION, producer_id=1 << 40, producer_epoch=0, verify_only=False, topics=topics
    )
    return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[one])


def _txn_commit(version: int, ids: Ids) -> Message:
    part = txn_offset_commit.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_metadata=""
    )
    topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(name=name, partitions=[part]) for name in TOPICS]
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=TRANSACTION, group_id=GROUP, producer_id=1 << 40, producer_epoch=0, topics=topics
    )


def _describe_configs(version: int, ids: Ids) -> Message:
    resources = [(TOPIC_CONFIG, SECRET), (TOPIC_CONFIG, ABSENT), (BROKER, "1"), (8, "1")]
    return describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in (*resources, (GROUP_CONFIG, GROUP))[: 5 if version >= 4 else 4]
        ]
    )


def _alter_configs(module: Any) -> Make:
    def make(version: int, ids: Ids) -> Message:
        resources = [
            module.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
            for kind, name in ((TOPIC_CONFIG, SECRET), (TOPIC_CONFIG, ABSENT), (BROKER, "1"), (GROUP_CONFIG, GROUP))
        ]
        request = "AlterConfigsRequest" if module is alter_configs else "IncrementalAlterConfigsRequest"
        answer: Message = getattr(module, request)(resources=resources, validate_only=True)
        return answer

    return make


def _heartbeat_848(version: int, ids: Ids) -> Message:
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="absent", member_epoch=5, subscribed_topic_names=[SECRET], topic_partitions=None
    )


def _always(make: Callable[[], Message]) -> Make:
    return lambda version, ids: make()


REQUESTS: dict[int, tuple[Make, ...]] = {
    0: (_produce(), _produce(TRANSACTION), _produce(TRANSACTION, transactional=True), _produce(transactional=True)),
    1: (_fetch,),
    2: (
        _always(
            lambda: list_offsets.ListOffsetsRequest(
                replica_id=-1,
                topics=[
                    list_offsets.ListOffsetsTopic(
                        name=name, partitions=[list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
                    )
                    for name in TOPICS
                ],
            )
        ),
    ),
    3: (_metadata, _metadata_by_id, _metadata_of_all),
    8: (_commit,),
    9: (_offsets(everything=False), _offsets(everything=True)),
    10: (_coordinator(0, GROUP), _coordinator(1, TRANSACTION)),
    11: (
        _always(
            lambda: join_group.JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=1,
                rebalance_timeout_ms=1,
                member_id="",
                protocol_type="consumer",
                protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"")],
            )
        ),
    ),
    12: (_always(lambda: heartbeat.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="absent")),),
    13: (_leave,),
    14: (
        _always(
            lambda: sync_group.SyncGroupRequest(
                group_id=GROUP, generation_id=1, member_id="absent", protocol_type="consumer", protocol_name="range"
            )
        ),
    ),
    15: (
        lambda version, ids: describe_groups.DescribeGroupsRequest(
            groups=[GROUP], include_authorized_operations=version >= 3
        ),
    ),
    16: (_always(list_groups.ListGroupsRequest),),
    19: (_create_topics,),
    20: (_delete_topics(ABSENT), _delete_topics(ABSENT, by_id=True)),
    21: (
        _always(
            lambda: delete_records.DeleteRecordsRequest(
                topics=[
                    delete_records.DeleteRecordsTopic(
                        name=name, partitions=[delete_records.DeleteRecordsPartition(partition_index=0, offset=0)]
                    )
                    for name in TOPICS
                ],
                timeout_ms=9000,
            )
        ),
    ),
    22: (
        _always(lambda: init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=9000)),
        _always(
            lambda: init_producer_id.InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=9000)
        ),
    ),
    23: (
        _always(
            lambda: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
                topics=[
                    offset_for_leader_epoch.OffsetForLeaderTopic(
                        topic=name,
                        partitions=[offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)],
                    )
                    for name in TOPICS
                ]
            )
        ),
    ),
    24: (_add_partitions,),
    25: (
        _always(
            lambda: add_offsets_to_txn.AddOffsetsToTxnRequest(
                transactional_id=TRANSACTION, producer_id=1 << 40, producer_epoch=0, group_id=GROUP
            )
        ),
    ),
    26: (
        _always(
            lambda: end_txn.EndTxnRequest(
                transactional_id=TRANSACTION, producer_id=1 << 40, producer_epoch=0, committed=True
            )
        ),
    ),
    27: (
        _always(
            lambda: write_txn_markers.WriteTxnMarkersRequest(
                markers=[
                    write_txn_markers.WritableTxnMarker(
                        producer_id=1,
                        producer_epoch=0,
                        transaction_result=False,
                        coordinator_epoch=0,
                        topics=[write_txn_markers.WritableTxnMarkerTopic(name=ABSENT, partition_indexes=[0])],
                    )
                ]
            )
        ),
    ),
    28: (_txn_commit,),
    32: (_describe_configs,),
    33: (_alter_configs(alter_configs),),
    37: (
        _always(
            lambda: create_partitions.CreatePartitionsRequest(
                topics=[
                    create_partitions.CreatePartitionsTopic(name=name, count=2, assignments=None) for name in TOPICS
                ],
                timeout_ms=9000,
                validate_only=True,
            )
        ),
    ),
    42: (_always(lambda: delete_groups.DeleteGroupsRequest(groups_names=["app-no-such-group"])),),
    44: (_alter_configs(incremental_alter_configs),),
    47: (
        _always(
            lambda: offset_delete.OffsetDeleteRequest(
                group_id=GROUP,
                topics=[
                    offset_delete.OffsetDeleteRequestTopic(
                        name=name, partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=7)]
                    )
                    for name in TOPICS
                ],
            )
        ),
    ),
    61: (
        _always(
            lambda: describe_producers.DescribeProducersRequest(
                topics=[describe_producers.TopicRequest(name=name, partition_indexes=[0]) for name in TOPICS]
            )
        ),
    ),
    65: (
        _always(
            lambda: describe_transactions.DescribeTransactionsRequest(transactional_ids=[TRANSACTION, "app-no-such"])
        ),
    ),
    66: (_always(lambda: list_transactions.ListTransactionsRequest(state_filters=[], producer_id_filters=[])),),
    68: (_heartbeat_848,),
    69: (
        _always(
            lambda: consumer_group_describe.ConsumerGroupDescribeRequest(
                group_ids=[GROUP], include_authorized_operations=True
            )
        ),
    ),
    75: (
        _always(
            lambda: describe_topic_partitions.DescribeTopicPartitionsRequest(
                topics=[describe_topic_partitions.TopicRequest(name=name) for name in TOPICS]
            )
        ),
    ),
}
"""By API key. A function of the version and of topics' ids; None where the version cannot say it."""
