"""AlterPartitionReassignments: one broker holds everything, and goes on doing so."""

import pytest

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)


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
