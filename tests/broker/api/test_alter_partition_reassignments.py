"""AlterPartitionReassignments: one broker holds everything and goes on doing so; a controller of several moves replicas."""

import pytest

from stratalog.broker.api.alter_partition_reassignments import API
from stratalog.broker.api.list_partition_reassignments import API as LIST
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from stratalog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest


@pytest.mark.parametrize("version", [0, 1])
def test_the_present_assignment_is_no_error_and_any_other_is_refused(broker, version):
    """By Kafka's codes, with messages that say what is wrong."""
    broker.create("t", 1)
    here = broker.node.node_id
    wanted = [
        ("t", 0, [here], ErrorCode.NONE),
        ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("t", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [here, here], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [77], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 1, [here], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("absent", 0, [here], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    for name, number, replicas, code in wanted:
        one = ReassignablePartition(partition_index=number, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name, partitions=[one])])
        answer = broker.link().call(request, version)
        assert answer.error_code == ErrorCode.NONE
        (topic,) = answer.responses
        assert topic.partitions[0].error_code == code, (name, number, replicas)
        silent = code in {ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
        assert (topic.partitions[0].error_message is None) == silent


def test_a_controller_of_several_begins_moves_lists_them_and_stops_them(memory_controller):
    """A move ends when the new replica is in sync; until then it can be stopped."""
    one = memory_controller()
    one.start(1, 2)
    one.topic("t", (1,), (2,))

    def ask(*wanted):
        partitions = [ReassignablePartition(partition_index=number, replicas=replicas) for number, replicas in wanted]
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=partitions)])
        answer = one.ask(API, request)
        assert answer.error_code == ErrorCode.NONE
        return [(each.partition_index, ErrorCode(each.error_code).name) for each in answer.responses[0].partitions]

    def listed():
        topics = one.ask(LIST, ListPartitionReassignmentsRequest(topics=None)).topics
        return [(each.partition_index, each.replicas, each.adding_replicas) for each in topics[0].partitions]

    assert ask((1, [1]), (0, [1, 2]), (0, None)) == [
        (1, "NONE"),
        (0, "NONE"),
        (0, "NONE"),
    ]
    assert listed() == [(1, [1, 2], [1])]
    assert ask((1, None), (0, None)) == [(1, "NONE"), (0, "NO_REASSIGNMENT_IN_PROGRESS")]
    assert one.state(number=1).replicas == (2,)
    assert one.ask(LIST, ListPartitionReassignmentsRequest(topics=None)).topics == []


def test_too_many_moves_are_refused_as_a_whole(memory_controller):
    """With an answer for each of them, as in Kafka."""
    one = memory_controller()
    partitions = [ReassignablePartition(partition_index=0, replicas=[1])] * 10_001
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=partitions)])
    answer = one.ask(API, request)
    assert answer.error_code == ErrorCode.POLICY_VIOLATION
    assert len(answer.responses[0].partitions) == 10_001
