"""ListPartitionReassignments: nothing is ever under way, except what another cluster has left."""

from stratalog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from stratalog.wire.records.metadata import PartitionChangeRecord


def ask(broker, *topics):
    named = [ListPartitionReassignmentsTopics(name=name, partition_indexes=list(each)) for name, each in topics]
    return broker.link().call(ListPartitionReassignmentsRequest(topics=named or None), 0)


def test_no_reassignment_is_ever_listed(broker):
    """The answer is empty for all partitions and for named ones, known or not."""
    broker.create("t", 2)
    for topics in ((), (("t", [0, 7]), ("absent", [0]))):
        answer = ask(broker, *topics)
        assert (answer.error_code, answer.topics) == (0, [])


def test_reassignments_in_the_metadata_are_listed(broker):
    """A move that was begun in a cluster of several brokers."""
    broker.create("t", 2)
    topic_id = broker.node.image.topics.by_name["t"].topic_id
    record = PartitionChangeRecord(topic_id=topic_id, partition_id=1, adding_replicas=[7], replicas=[1, 7])
    broker.run(broker.node.control.write, (record,))
    for topics in ((), (("t", [0, 1]),)):
        (topic,) = ask(broker, *topics).topics
        (moving,) = topic.partitions
        assert (topic.name, moving.partition_index, moving.replicas) == ("t", 1, [1, 7])
        assert (moving.adding_replicas, moving.removing_replicas) == ([7], [])
    assert ask(broker, ("t", [0])).topics == []
