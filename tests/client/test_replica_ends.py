"""The ends of copies are asked of every broker that holds one."""

from stratalog.client.client import Client
from stratalog.client.replica_ends import Copy, CopyEnd, ends_of_copies
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from stratalog.wire.topic import TopicPartition
from tests.client import told_topics as told


def test_a_broker_that_is_away_and_a_copy_that_is_refused_have_their_words(scripted):
    """The others have their ends; the request is that of Kafka's debugging consumer."""
    scripted.ranges = {2: (1, 11), 3: (0, 13), 18: (0, 4)}
    scripted.answers[3] = told.metadata(scripted.port, (1,), {"t": []})
    rows = [
        ListOffsetsPartitionResponse(partition_index=0, offset=7),
        ListOffsetsPartitionResponse(partition_index=1, error_code=ErrorCode.KAFKA_STORAGE_ERROR),
    ]
    scripted.answers[2] = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=rows)])
    with Client(scripted.address, 2) as client:
        client.refresh()
        client.brokers[2] = ("127.0.0.1", 1)
        copies = [Copy(1, TopicPartition("t", 0)), Copy(1, TopicPartition("t", 1)), Copy(2, TopicPartition("t", 0))]
        found = ends_of_copies(client, copies)
    assert found[copies[0]] == CopyEnd(7)
    assert found[copies[1]] == CopyEnd(None, "kafka storage error")
    assert found[copies[2]].offset is None
    assert found[copies[2]].why.startswith("node 2 does not answer (")
    (request,) = [one for one, _ in scripted.requests if hasattr(one, "replica_id")]
    assert request.replica_id == -2
