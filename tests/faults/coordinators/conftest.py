"""Members and producers in a line a request, over one connection, and everything that coordinators tell of themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from stratalog.client.link import BrokerLink
from stratalog.metadata.coordination import Producer
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.compression import Codec
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from stratalog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from stratalog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from stratalog.wire.messages.describe_groups import DescribeGroupsRequest
from stratalog.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from stratalog.wire.messages.describe_transactions import DescribeTransactionsRequest
from stratalog.wire.messages.end_txn import EndTxnRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.heartbeat import HeartbeatRequest
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from stratalog.wire.messages.list_groups import ListGroupsRequest
from stratalog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from stratalog.wire.messages.list_transactions import ListTransactionsRequest
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratalog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from stratalog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from stratalog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

WAIT_SECONDS = 30
NOT_YET = (14, 15, 16)
"""Codes of a coordinator that is still being loaded."""


class Member(NamedTuple):
    """A classic member as its group knows it."""

    group: str
    member_id: str
    generation: int
    instance: str | None = None


def name_of(code: int) -> str:
    return ErrorCode(code).name


class Wire:
    """One connection to the broker at a port. Codes are given by name."""

    def __init__(self, port: int, opened: list[BrokerLink]) -> None:
        """``opened``: where to keep what is to be closed after the test."""
        self.port = port
        self.link = BrokerLink("127.0.0.1", port, timeout_seconds=20)
        self._opened = opened
        opened.append(self.link)

    def another(self) -> Wire:
        """A second connection."""
        return Wire(self.port, self._opened)

    def call(self, request: Any, version: int) -> Any:
        return self.link.call(request, version)

    def send(self, request: Any, version: int) -> None:
        """Without waiting; `answer` waits."""
        self.link.send(request, version)

    def answer(self) -> Any:
        return self.link.receive()

    def ready(self) -> Wire:
        """Both topics are there and loaded, as far as they can be."""
        listing = (
            (0, ListGroupsRequest(states_filter=[], types_filter=[]), 5),
            (1, ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0),
        )
        end = time.monotonic() + WAIT_SECONDS
        for key_type, request, version in listing:
            find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"])
            while self.call(find, 6).coordinators[0].error_code or self.call(request, version).error_code in NOT_YET:
                assert time.monotonic() < end, "the coordinators are not loaded"
                time.sleep(0.005)
        return self

    # -- classic members ----------------------------------------------------------------------------------------------

    def join_request(
        self, group: str, member_id: str = "", *, instance=None, session_ms=60_000, rebalance_ms=60_000, metadata=b"m"
    ) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )

    def id_for(self, group: str, **options: Any) -> str:
        """The id that the coordinator gives a new member."""
        answer = self.call(self.join_request(group, **options), 9)
        assert name_of(answer.error_code) == "MEMBER_ID_REQUIRED"
        return answer.member_id

    def join(self, group: str, member_id: str = "", **options: Any) -> Any:
        """Join with an id of one's own, or one that is given."""
        if not member_id and not options.get("instance"):
            member_id = self.id_for(group, **options)
        return self.call(self.join_request(group, member_id, **options), 9)

    def sync(self, member: Member, assignments: dict[str, bytes] | None = None) -> Any:
        return self.call(self.sync_request(member, assignments), 5)

    def sync_request(self, member: Member, assignments: dict[str, bytes] | None = None) -> SyncGroupRequest:
        listed = [SyncGroupRequestAssignment(member_id=one, assignment=it) for one, it in (assignments or {}).items()]
        return SyncGroupRequest(
            group_id=member.group,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=listed,
        )

    def beat(self, member: Member) -> str:
        request = HeartbeatRequest(
            group_id=member.group,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance,
        )
        return name_of(self.call(request, 4).error_code)

    def stable(self, group: str, *instances: str | None, **options: Any) -> list[Member]:
        """A group of these members (None: not static), the first one its leader, all with their assignments."""
        first = self.join(group, instance=instances[0], **options)
        assert first.error_code == 0, name_of(first.error_code)
        members = [Member(group, first.member_id, first.generation_id, instances[0])]
        self.sync(members[0], {first.member_id: b"all"})
        for instance in instances[1:]:
            members = self._grown(members, instance, options)
        return members

    def _grown(self, members: list[Member], instance: str | None, options: dict[str, Any]) -> list[Member]:
        group = members[0].group
        wires = [self.another() for _ in members] + [self]
        member_id = "" if instance else self.id_for(group, **options)
        self.send(self.join_request(group, member_id, instance=instance, **options), 9)
        for wire, member in zip(wires, members, strict=False):
            while wire.beat(member) == "NONE":
                time.sleep(0.002)
            wire.send(self.join_request(group, member.member_id, instance=member.instance, **options), 9)
        answers = [wire.answer() for wire in wires]
        given = [*(one.instance for one in members), instance]
        grown = [
            Member(group, answer.member_id, answer.generation_id, one)
            for answer, one in zip(answers, given, strict=True)
        ]
        shares = {one.member_id: b"share %d" % number for number, one in enumerate(grown)}
        for number, (wire, member) in enumerate(zip(wires, grown, strict=True)):
            wire.send(self.sync_request(member, None if number else shares), 5)
        for wire in wires:
            assert wire.answer().error_code == 0
        return grown

    # -- members of the consumer protocol -------------------------------------------------------------------------------

    def consume(
        self,
        group: str,
        member_id: str,
        epoch: int,
        *,
        topics: Sequence[str] | None = None,
        owned: Iterable[tuple[bytes, Sequence[int]]] | None = None,
        **options: Any,
    ) -> Any:
        """One heartbeat. With epoch 0 it says everything that is to be said."""
        listed = None if owned is None else [TopicPartitions(topic_id=one, partitions=list(it)) for one, it in owned]
        if epoch <= 0:
            options.setdefault("rebalance_timeout_ms", 60_000)
            listed = listed or []
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else list(topics),
            topic_partitions=listed,
            **options,
        )
        return self.call(request, 1)

    # -- offsets ----------------------------------------------------------------------------------------------------

    def commit(self, group: str, offset: int, *, topic="t", partitions=(0,), member=None, epoch=-1, text="") -> str:
        """Commit the same offset for some partitions; the code of the first."""
        rows = [
            OffsetCommitRequestPartition(partition_index=one, committed_offset=offset, committed_metadata=text)
            for one in partitions
        ]
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=epoch,
            member_id=member or "",
            topics=[OffsetCommitRequestTopic(name=topic, partitions=rows)],
        )
        return name_of(self.call(request, 9).topics[0].partitions[0].error_code)

    def offsets(self, group: str, *, stable: bool = False) -> Any:
        """All offsets of the group as OffsetFetch tells them, in order; or the code of the group."""
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        request.require_stable = stable
        (answer,) = self.call(request, 9).groups
        if answer.error_code:
            return name_of(answer.error_code)
        return sorted(
            (topic.name, one.partition_index, one.committed_offset, one.metadata, name_of(one.error_code))
            for topic in answer.topics
            for one in topic.partitions
        )

    # -- transactions -------------------------------------------------------------------------------------------------

    def init(self, transactional_id: str = "x", *, timeout_ms: int = 60_000, **options: Any) -> Any:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **options)
        return self.call(request, 5)

    def producer(self, transactional_id: str = "x", **options: Any) -> Producer:
        """A new one; waits for the end of what the one before has left open."""
        end = time.monotonic() + WAIT_SECONDS
        while name_of((answer := self.init(transactional_id, **options)).error_code) == "CONCURRENT_TRANSACTIONS":
            assert time.monotonic() < end
        assert answer.error_code == 0, name_of(answer.error_code)
        return Producer(answer.producer_id, answer.producer_epoch)

    def add(self, producer: Producer, *partitions: int, transactional_id: str = "x") -> str:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=list(partitions))],
        )
        (topic,) = self.call(request, 3).results_by_topic_v3_and_below
        return name_of(topic.results_by_partition[0].partition_error_code)

    def add_offsets(self, producer: Producer, group: str, *, transactional_id: str = "x") -> str:
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id=group,
        )
        return name_of(self.call(request, 3).error_code)

    def produce_request(
        self, producer: Producer, partition: int = 0, *, sequence=0, value=b"v", transactional_id="x", codec=Codec.NONE
    ) -> ProduceRequest:
        """One batch of the transaction."""
        batch = build_batch(
            [Record(0, time.time_ns() // 1_000_000, None, value)],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            transactional=True,
            codec=codec,
        )
        data = PartitionProduceData(index=partition, records=bytes(batch))
        topic = TopicProduceData(name="t", partition_data=[data])
        return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=20_000, topic_data=[topic])

    def produce(self, producer: Producer, partition: int = 0, *, version: int = 11, **options: Any) -> str:
        """Up to version 11 the partition was added before, from 12 on it is now."""
        answer = self.call(self.produce_request(producer, partition, **options), version)
        return name_of(answer.responses[0].partition_responses[0].error_code)

    def commit_in_transaction(
        self, producer: Producer, group: str, offset: int, *, version=4, partition=0, transactional_id="x"
    ) -> str:
        """TxnOffsetCommit: up to version 4 the group was added before, from 5 on it is now."""
        row = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata="in transaction"
        )
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[row])],
        )
        return name_of(self.call(request, version).topics[0].partitions[0].error_code)

    def end(self, producer: Producer, *, commit: bool = True, version: int = 4, transactional_id: str = "x") -> Any:
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=commit,
        )
        return self.call(request, version)

    def transaction(self, transactional_id: str = "x") -> Any:
        """The answer of DescribeTransactions."""
        answer = self.call(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0)
        return answer.transaction_states[0]

    def state(self, transactional_id: str = "x") -> str:
        return self.transaction(transactional_id).transaction_state

    def settled(self, transactional_id: str = "x") -> str:
        """Wait for the markers; how it has ended."""
        end = time.monotonic() + WAIT_SECONDS
        while not (state := self.state(transactional_id)).startswith("Complete"):
            assert time.monotonic() < end, f"the transaction stays {state}"
            time.sleep(0.002)
        return state

    def ends(self, topic: str, partition_count: int, *, committed: bool) -> list[int]:
        """Where each partition ends for readers of all records, or of committed ones."""
        partitions = [ListOffsetsPartition(partition_index=one, timestamp=-1) for one in range(partition_count)]
        topics = [ListOffsetsTopic(name=topic, partitions=partitions)]
        answer = self.call(ListOffsetsRequest(replica_id=-1, isolation_level=int(committed), topics=topics), 5)
        return [one.offset for one in sorted(answer.topics[0].partitions, key=lambda one: one.partition_index)]

    # -- everything ---------------------------------------------------------------------------------------------------

    def groups(self) -> list[tuple[str, str, str, str]]:
        """The groups of ListGroups, in order."""
        answer = self.call(ListGroupsRequest(states_filter=[], types_filter=[]), 5)
        assert answer.error_code == 0, name_of(answer.error_code)
        return sorted((one.group_id, one.protocol_type, one.group_state, one.group_type) for one in answer.groups)

    def described(self, group: str, kind: str = "classic") -> Any:
        """The group with its members in order."""
        if kind.lower() == "consumer":
            found = self.call(ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups[0]
        else:
            found = self.call(DescribeGroupsRequest(groups=[group]), 6).groups[0]
        found.members.sort(key=lambda one: one.member_id)
        return found

    def everything(self, topic: str = "t", partition_count: int = 4) -> dict[str, Any]:
        """All groups, all offsets, all transactions, and where they stand in the topic."""
        told: dict[str, Any] = {"groups": self.groups()}
        for group, _, _, kind in told["groups"]:
            told[f"group {group}"] = self.described(group, kind)
            told[f"offsets of {group}"] = self.offsets(group), self.offsets(group, stable=True)
        listed = self.call(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0)
        for one in listed.transaction_states:
            told[f"transaction {one.transactional_id}"] = self.transaction(one.transactional_id)
        partitions = list(range(partition_count))
        asked = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=partitions)])
        told["producers"] = self.call(asked, 0).topics
        told["ends"] = [self.ends(topic, partition_count, committed=one) for one in (False, True)]
        return told


def _wires() -> Iterator[Callable[[int], Wire]]:
    opened: list[BrokerLink] = []
    yield lambda port: Wire(port, opened)
    for link in opened:
        link.close()


@pytest.fixture
def wire_to() -> Iterator[Callable[[int], Wire]]:
    """Makes connections to a port; all are closed after the test."""
    yield from _wires()


@pytest.fixture(scope="module")
def wires_of_module() -> Iterator[Callable[[int], Wire]]:
    """The same for all tests of a file."""
    yield from _wires()


@pytest.fixture
def member_of() -> type[Member]:
    """Classic members."""
    return Member
