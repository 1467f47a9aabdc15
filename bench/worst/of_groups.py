"""Requests about groups and transactions that ask for the most."""

from __future__ import annotations

from collections.abc import Sequence

from bench.worst.worst import ELEMENTS, GROUP, Add
from stratalog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from stratalog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from stratalog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from stratalog.wire.messages.delete_groups import DeleteGroupsRequest
from stratalog.wire.messages.describe_groups import DescribeGroupsRequest
from stratalog.wire.messages.describe_transactions import DescribeTransactionsRequest
from stratalog.wire.messages.end_txn import EndTxnRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.heartbeat import HeartbeatRequest
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from stratalog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from stratalog.wire.messages.list_groups import ListGroupsRequest
from stratalog.wire.messages.list_transactions import ListTransactionsRequest
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratalog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from stratalog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from stratalog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from stratalog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from stratalog.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

__all__ = ["add_groups"]


def add_groups(add: Add, groups: Sequence[str], half: Sequence[str]) -> None:
    """Those about groups, their offsets and transactions."""
    _groups(add, groups, half)
    _committed(add, half)
    _members(add, groups)
    _transactions(add, groups, half)
    _markers(add, half)


def _groups(add: Add, groups: Sequence[str], half: Sequence[str]) -> None:
    everything = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in groups]
    for one in everything:
        one.topics = None
    add("9,900 groups, all topics", OffsetFetchRequest(groups=everything, group_id="", require_stable=False), 8, 10)
    same = [OffsetFetchRequestGroup(group_id=GROUP, topics=None) for _ in range(50)]
    add("one group 50 times, all topics", OffsetFetchRequest(groups=same, group_id=""), 8, 10)
    add("all topics", OffsetFetchRequest(groups=[], group_id=GROUP, topics=None), 2, 7)
    by_name = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in half]
    add("4,900 topics", OffsetFetchRequest(groups=[], group_id=GROUP, topics=by_name), 1, 7)
    add("9,900 groups", DescribeGroupsRequest(groups=list(groups), include_authorized_operations=True), 0, 6)
    add("one group 9,900 times", DescribeGroupsRequest(groups=[GROUP] * ELEMENTS), 6)
    add("9,900 groups", ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=True))
    add("members, 100 times", ConsumerGroupDescribeRequest(group_ids=["members"] * 100))
    add("all groups", ListGroupsRequest(states_filter=[], types_filter=[]), 0, 5)
    add("all groups, 100 pipelined", ListGroupsRequest(states_filter=[], types_filter=[]), 5, pipelined=100)
    add("9,900 absent groups", DeleteGroupsRequest(groups_names=[f"absent-{name}" for name in groups]))
    add("9,900 keys", FindCoordinatorRequest(key="", coordinator_keys=list(groups)))
    add("9,900 keys", FindCoordinatorRequest(key="", coordinator_keys=list(groups), key_type=1))


def _committed(add: Add, half: Sequence[str]) -> None:
    add(
        "4,900 offsets",
        OffsetCommitRequest(
            group_id=GROUP,
            member_id="",
            topics=[
                OffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
                    ],
                )
                for name in half
            ],
        ),
        9,
    )
    add(
        "4,900 offsets",
        OffsetDeleteRequest(
            group_id="absent",
            topics=[
                OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
                for name in half
            ],
        ),
    )


def _members(add: Add, groups: Sequence[str]) -> None:
    add(
        "9,900 names",
        ConsumerGroupHeartbeatRequest(
            group_id="names",
            member_id="a",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=[f"absent-{name}" for name in groups],
            topic_partitions=[],
        ),
        0,
    )
    add(
        "9,900 protocols",
        JoinGroupRequest(
            group_id="join",
            session_timeout_ms=6000,
            rebalance_timeout_ms=100,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=b"") for name in groups],
        ),
        9,
    )
    add(
        "9,900 assignments",
        SyncGroupRequest(
            group_id="absent",
            generation_id=1,
            member_id="m",
            assignments=[SyncGroupRequestAssignment(member_id=name, assignment=b"") for name in groups],
        ),
    )
    add(
        "9,900 members",
        LeaveGroupRequest(group_id=GROUP, member_id="", members=[MemberIdentity(member_id=name) for name in groups]),
    )
    add("absent", HeartbeatRequest(group_id="absent", generation_id=1, member_id="m"), pipelined=1000)


def _transactions(add: Add, groups: Sequence[str], half: Sequence[str]) -> None:
    add("9,900 ids", DescribeTransactionsRequest(transactional_ids=list(groups)))
    add("all", ListTransactionsRequest(state_filters=[], producer_id_filters=[]))
    add("all, 100 pipelined", ListTransactionsRequest(state_filters=[], producer_id_filters=[]), pipelined=100)
    parts = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in half]
    add(
        "4,900 partitions, unknown producer",
        AddPartitionsToTxnRequest(
            transactions=[],
            v3_and_below_transactional_id="absent",
            v3_and_below_producer_id=9,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=parts,
        ),
        3,
    )
    add(
        "4,900 offsets, unknown producer",
        TxnOffsetCommitRequest(
            transactional_id="absent",
            group_id=GROUP,
            producer_id=9,
            producer_epoch=0,
            member_id="",
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
                    ],
                )
                for name in half
            ],
        ),
    )


def _markers(add: Add, half: Sequence[str]) -> None:
    add(
        "4,900 markers, unknown topics",
        WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=9,
                    producer_epoch=0,
                    transaction_result=False,
                    coordinator_epoch=0,
                    topics=[WritableTxnMarkerTopic(name=f"absent-{name}", partition_indexes=[0]) for name in half],
                )
            ]
        ),
    )
    add("none", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), pipelined=1000)
    add("absent", EndTxnRequest(transactional_id="absent", producer_id=9, producer_epoch=0, committed=True))
    add("absent", AddOffsetsToTxnRequest(transactional_id="absent", producer_id=9, producer_epoch=0, group_id="g"))
