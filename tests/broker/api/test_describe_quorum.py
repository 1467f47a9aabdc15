"""DescribeQuorum: one voter."""

import pytest

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_quorum import DescribeQuorumRequest, RequestedPartition, RequestedTopic

NAME = "__cluster_metadata"


def ask(broker, name=NAME, partition=0, version=2):
    topic = RequestedTopic(topic_name=name, partitions=[RequestedPartition(partition_index=partition)])
    return broker.link().call(DescribeQuorumRequest(topics=[topic]), version)


@pytest.mark.parametrize("version", range(3))
def test_the_voter_is_the_leader_and_up_to_date(broker, version):
    """High watermark and log end move with the metadata log; the epoch rises with each start."""
    node = broker.node.node_id
    ends = []
    for start in range(2):
        broker.create(f"t{start}")
        answer = ask(broker, version=version)
        (found,) = answer.topics[0].partitions
        assert (answer.error_code, found.error_code, found.leader_id, found.leader_epoch) == (0, 0, node, start + 1)
        (voter,) = found.current_voters
        assert (voter.replica_id, voter.log_end_offset, found.observers) == (node, found.high_watermark, [])
        assert (voter.last_fetch_timestamp == voter.last_caught_up_timestamp > 0) == (version >= 1)
        ends.append(found.high_watermark)
        broker.restart()
    assert 0 < ends[0] < ends[1]


def test_where_the_voter_is_reached(broker):
    """From version 2 on: where the broker is."""
    (node,) = ask(broker).nodes
    (listener,) = node.listeners
    assert (node.node_id, listener.name, listener.port) == (broker.node.node_id, "PLAINTEXT", broker.port)


@pytest.mark.parametrize(("name", "partition"), [("t", 0), (NAME, 1)])
def test_no_other_partition_has_a_quorum(broker, name, partition):
    """UNKNOWN_TOPIC_OR_PARTITION, in its place."""
    (found,) = ask(broker, name, partition).topics[0].partitions
    assert ErrorCode(found.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (found.partition_index, found.current_voters, found.error_message is not None) == (partition, [], True)


def test_a_partition_named_again_is_answered_once(broker):
    """Each answer has a row for every voter and observer."""
    named = [
        RequestedTopic(topic_name=NAME, partitions=[RequestedPartition(partition_index=at) for at in (0, 0, 1, 1)])
    ]
    answer = broker.link().call(DescribeQuorumRequest(topics=named * 2), 2)
    assert [[one.partition_index for one in topic.partitions] for topic in answer.topics] == [[0, 1], []]
