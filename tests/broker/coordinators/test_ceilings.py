"""Groups, members and transactional ids have ceilings; who is known goes on."""

import time

import pytest

from stratalog.broker.coordinators.ceilings import Ceiling
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratalog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

FULL = ErrorCode.GROUP_MAX_SIZE_REACHED


class Time:
    """A clock that stands."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        """Seconds."""
        return self.now


def test_there_is_room_until_there_is_none():
    """Present things count, at once; refusals are counted; long names need more room."""
    held = [5]
    ceiling = Ceiling("some.max", lambda: 8, lambda: held[0], Time())
    with pytest.raises(KafkaError, match=r"some\.max is 8, for names of 1024 characters 4") as caught:
        ceiling.admit("x" * 1024, FULL)
    assert caught.value.code is FULL
    for _ in range(20):
        ceiling.admit("x", FULL)  # requests that fail afterwards make nothing
    held[0] = 8
    with pytest.raises(KafkaError, match=r"some\.max is 8\."):
        ceiling.admit("x", FULL)
    assert ceiling.refused == 2
    held[0] = 7
    ceiling.admit("x", FULL)


def test_a_large_one_takes_several_places():
    """It counts before it is there, where a count is good for a second."""
    clock = Time()
    ceiling = Ceiling("some.max", lambda: 10, lambda: 2, clock, looked_at=lambda: 1_001)
    with pytest.raises(KafkaError, match=r"some\.max is 10; this one counts as 9\."):
        ceiling.admit("x", FULL, 9)
    ceiling.admit("x", FULL, 8)
    with pytest.raises(KafkaError):
        ceiling.admit("x", FULL, 2)
    clock.now += 1
    ceiling.admit("x", FULL, 8)


def test_a_long_count_is_made_once_a_second():
    """250 attempts within 2.5 s make three counts."""
    clock, passes = Time(), []
    ceiling = Ceiling("some.max", lambda: 1_000, lambda: passes.append(1) or 0, clock, looked_at=lambda: 1_001)
    for _ in range(250):
        clock.now += 0.01
        ceiling.admit("x", FULL)
    assert len(passes) == 3


def find(node, kind, key):
    """A connection to the broker once it coordinates a key."""
    link, request = node.link(), FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    end = time.monotonic() + 30
    while link.call(request, 6).coordinators[0].error_code:
        assert time.monotonic() < end
        time.sleep(0.01)
    return link


def answered(link, request, version):
    """The answer once the coordinator has its log."""
    end = time.monotonic() + 30
    while (answer := link.call(request, version)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        assert time.monotonic() < end
    return answer


def join(group_id, member_id="", instance_id=None, metadata=b""):
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def test_member_ids_that_are_given_out_count(start_node):
    """A client that has an id may use it; no other client gets one, in any group or protocol."""
    node = start_node(stratalog_group_members_max="2", group_initial_rebalance_delay_ms="0")
    link = find(node, 0, "g")
    first = answered(link, join("g"), 9)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    static = answered(node.link(), join("h", instance_id="i"), 9)
    assert static.error_code == 0
    beat = ConsumerGroupHeartbeatRequest(
        group_id="k", member_id="m", member_epoch=0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"],
        topic_partitions=[],
    )  # fmt: skip
    assert answered(link, join("other"), 9).error_code == FULL
    assert answered(link, beat, 1).error_code == FULL
    shown = node.node.metrics.render()
    shown = shown.decode() if isinstance(shown, bytes) else shown
    assert 'stratalog_groups_refused_total{setting="stratalog.group.members.max"} 2' in shown
    assert "stratalog_group_members 2" in shown
    assert answered(link, join("h", instance_id="i"), 9).error_code == 0
    assert answered(link, join("g", first.member_id), 9).error_code == 0


def test_the_bytes_of_members_count(start_node):
    """Those of subscriptions and of assignments, in either protocol; a member may say more only while there is room."""
    node = start_node(stratalog_group_members_max="32", group_initial_rebalance_delay_ms="0")
    link = find(node, 0, "g")
    first = answered(link, join("g", metadata=bytes(80_000)), 3)
    assert first.error_code == 0
    assert answered(link, join("h", metadata=bytes(240_000)), 3).error_code == FULL
    sync = SyncGroupRequest(
        group_id="g", generation_id=1, member_id=first.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=first.member_id, assignment=bytes(240_000))],
    )  # fmt: skip
    assert answered(link, sync, 3).error_code == FULL
    sync.assignments[0].assignment = bytes(80_000)
    assert answered(link, sync, 3).error_code == 0
    assert answered(link, join("g", first.member_id, metadata=bytes(400_000)), 3).error_code == FULL
    assert answered(link, join("g", first.member_id, metadata=bytes(80_001)), 3).error_code == 0
    beat = ConsumerGroupHeartbeatRequest(
        group_id="k", member_id="m", member_epoch=0, rebalance_timeout_ms=1000, topic_partitions=[],
        subscribed_topic_names=[f"{number:0200}" for number in range(1_000)],
    )  # fmt: skip
    assert answered(link, beat, 1).error_code == FULL
    beat.subscribed_topic_names = ["t"]
    assert answered(link, beat, 1).error_code == 0
    more = ConsumerGroupHeartbeatRequest(
        group_id="k", member_id="m", member_epoch=1, rebalance_timeout_ms=-1,
        subscribed_topic_names=[f"{number:0200}" for number in range(1_000)],
    )  # fmt: skip
    assert answered(link, more, 1).error_code == FULL


def test_assignments_that_replace_others_need_no_more_room(start_node):
    """A group that takes more than half of the places goes on with its next generation."""
    node = start_node(stratalog_group_members_max="16", group_initial_rebalance_delay_ms="0")
    link = find(node, 0, "g")
    member_id = answered(link, join("g"), 3).member_id

    def sync(generation, size):
        one = SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(size))
        request = SyncGroupRequest(group_id="g", generation_id=generation, member_id=member_id, assignments=[one])
        return answered(link, request, 3).error_code

    assert sync(1, 80_000) == 0
    assert answered(link, join("g", member_id, metadata=b"x"), 3).generation_id == 2
    assert sync(2, 240_000) == FULL
    assert sync(2, 80_001) == 0


def test_groups_of_offsets_count(start_node):
    """The groups that are there go on; the setting may be raised while the broker runs."""
    node = start_node(stratalog_groups_max="2")
    node.create("t")
    link = find(node, 0, "g1")

    def commit(group_id):
        """The answer once the coordinator of this group has its log; each group may have another one."""
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
        topic = OffsetCommitRequestTopic(name="t", partitions=[part])
        request = OffsetCommitRequest(group_id=group_id, generation_id_or_member_epoch=-1, member_id="", topics=[topic])
        end = time.monotonic() + 30
        while (
            code := link.call(request, 9).topics[0].partitions[0].error_code
        ) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            assert time.monotonic() < end
        return code

    assert commit("g1") == 0
    assert [commit("g2"), commit("g3"), commit("g1"), answered(link, join("g4"), 9).error_code] == [0, FULL, 0, FULL]
    node.restart()
    link = find(node, 0, "g1")
    assert commit("g3") == FULL


def test_transactional_ids_count(start_node):
    """A producer that is known goes on; a new one is refused for good, not told to come again."""
    node = start_node(stratalog_transactional_ids_max="2")
    link = find(node, 1, "a")

    def begin(name):
        return answered(link, InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000), 4).error_code

    assert [begin(name) for name in ("a", "b", "c", "a")] == [0, 0, ErrorCode.POLICY_VIOLATION, 0]
    assert node.node.transactions.ceiling.refused == 1
