"""AlterPartition at an active controller."""

import pytest

from stratalog.broker.api.alter_partition import API
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    BrokerState,
)

CURRENT = object()


@pytest.fixture
def one(memory_controller):
    """The partition t-0 on the brokers 1, 2 and 3; 1 leads, and 3 is not in sync. Broker 4 holds nothing."""
    one = memory_controller()
    one.start(1, 2, 3, 4)
    one.topic("t", (1, 2, 3), (2, 1, 3), in_sync=(1, 2))
    return one


def wanted(one, *members, version=3, number=0, moved_leader_epoch=0, moved_partition_epoch=0, **fields):
    """One partition of a request; members are ids, or ids with epochs."""
    state = one.state(number=number) if number < 2 else one.state()
    pairs = [each if isinstance(each, tuple) else (each, CURRENT) for each in members]
    with_epochs = [
        BrokerState(
            broker_id=one_id,
            broker_epoch=one.image.brokers.brokers[one_id].epoch
            if epoch is CURRENT and one_id in one.image.brokers.brokers
            else (7 if epoch is CURRENT else epoch),
        )
        for one_id, epoch in pairs
    ]
    return AlterPartitionPartition(
        partition_index=number,
        leader_epoch=state.leader_epoch + moved_leader_epoch,
        partition_epoch=state.partition_epoch + moved_partition_epoch,
        new_isr=[one_id for one_id, _ in pairs],
        new_isr_with_epochs=with_epochs if version >= 3 else [],
        **fields,
    )


def ask(one, *partitions, broker_id=1, moved_broker_epoch=0, topic_id=None, version=3):
    topic = AlterPartitionTopic(
        topic_id=one.image.topics.by_name["t"].topic_id if topic_id is None else topic_id, partitions=list(partitions)
    )
    epoch = one.epoch(broker_id) + moved_broker_epoch
    return one.ask(API, AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch, topics=[topic]), version)


def code_of(one, *members, topic_id=None, **fields):
    (topic,) = ask(one, wanted(one, *members, **fields), topic_id=topic_id).topics
    (result,) = topic.partitions
    return ErrorCode(result.error_code).name


def test_a_set_that_is_granted_is_answered_with_the_state_that_holds(one):
    """The partition epoch rises, the leader epoch does not."""
    before = one.state()
    (topic,) = ask(one, wanted(one, 1, 2, 3)).topics
    (result,) = topic.partitions
    after = one.state()
    assert (result.error_code, result.leader_id, result.isr) == (ErrorCode.NONE, 1, [1, 2, 3])
    assert (result.leader_epoch, result.partition_epoch) == (before.leader_epoch, before.partition_epoch + 1)
    assert (after.leader_epoch, after.partition_epoch) == (result.leader_epoch, result.partition_epoch)
    assert after.in_sync_replicas == (1, 2, 3)


def test_the_present_set_is_granted_without_a_record(one):
    """A request that is repeated."""
    count = len(one.log.records)
    assert code_of(one, 1, 2) == "NONE"
    assert len(one.log.records) == count


def test_version_2_names_no_epochs_and_lets_in_only_who_is_in(one):
    """A joiner's epoch has to be known; Kafka would let it pass."""
    for members, code in (((1,), ErrorCode.NONE), ((1, 2), ErrorCode.INELIGIBLE_REPLICA)):
        (topic,) = ask(one, wanted(one, *members, version=2), version=2).topics
        assert topic.partitions[0].error_code == code


@pytest.mark.parametrize(
    ("members", "fields", "code"),
    [
        ((9, 9), {"topic_id": b"x" * 16, "moved_leader_epoch": 1}, "UNKNOWN_TOPIC_ID"),
        ((9, 9), {"number": 5, "moved_leader_epoch": 1}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ((9, 9), {"moved_leader_epoch": 1, "moved_partition_epoch": -1}, "NOT_CONTROLLER"),
        ((9, 9), {"moved_partition_epoch": 1, "moved_leader_epoch": -1}, "NOT_CONTROLLER"),
        ((9, 9), {"moved_leader_epoch": -1, "moved_partition_epoch": -1}, "FENCED_LEADER_EPOCH"),
        ((9, 9), {"number": 1, "moved_partition_epoch": -1}, "INVALID_REQUEST"),
        ((9, 9), {"moved_partition_epoch": -1}, "INVALID_UPDATE_VERSION"),
        ((1, 4), {"leader_recovery_state": 1}, "INVALID_REQUEST"),
        ((1, 2, 2), {}, "INVALID_REQUEST"),
        ((2, (3, 50)), {}, "INVALID_REQUEST"),
        (((1, 50),), {"leader_recovery_state": 7}, "INVALID_REQUEST"),
        ((1, (2, 50)), {"leader_recovery_state": 1}, "INVALID_REQUEST"),
        (((1, 50),), {"leader_recovery_state": 1}, "INVALID_REQUEST"),
        ((1, (2, 50)), {}, "INELIGIBLE_REPLICA"),
        ((1, 2, (3, -1)), {}, "INELIGIBLE_REPLICA"),
    ],
)
def test_refusals_come_in_kafkas_order(one, members, fields, code):
    """Each case has later faults, too, where it can. No record is written."""
    count = len(one.log.records)
    assert code_of(one, *members, **fields) == code
    assert len(one.log.records) == count


def test_a_member_that_is_fenced_or_stopping_is_ineligible(one):
    """The leader asks again when it knows."""
    one.beat(3, wants_fence=True)
    assert code_of(one, 1, 2, 3) == "INELIGIBLE_REPLICA"
    one.beat(3)
    one.beat(4, wants_shutdown=True)
    assert code_of(one, 1, 2, 3) == "NONE"


def test_a_stale_broker_epoch_refuses_the_request(one):
    """No partition is answered."""
    answer = ask(one, wanted(one, 1, 2, 3), moved_broker_epoch=-1)
    assert (answer.error_code, answer.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])


def test_one_partition_that_is_refused_does_not_stop_the_others(one):
    """The answer has all of them, in their order."""
    (topic,) = ask(one, wanted(one, 1, 2, 3), wanted(one, 1, number=1), wanted(one, 1, number=9)).topics
    found = [(each.partition_index, ErrorCode(each.error_code).name) for each in topic.partitions]
    assert found == [(0, "NONE"), (1, "INVALID_REQUEST"), (9, "UNKNOWN_TOPIC_OR_PARTITION")]


def test_brokers_must_be_allowed_to_act_for_the_cluster():
    """As in Kafka."""
    assert (API.operation.name, API.resource.name) == ("CLUSTER_ACTION", "CLUSTER")
