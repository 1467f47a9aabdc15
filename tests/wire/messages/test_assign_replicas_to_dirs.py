"""AssignReplicasToDirs: what the messages carry."""

from stratalog.wire.messages.assign_replicas_to_dirs import (
    AssignedDirectory,
    AssignedDirectoryResult,
    AssignedPartition,
    AssignedPartitionResult,
    AssignedTopic,
    AssignedTopicResult,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from stratalog.wire.schema import encode_bytes

TOPIC = bytes(range(16))
DIRECTORY = bytes(range(16, 32))


def test_request_versions():
    """Directories, topics and partitions stand in each other."""
    topic = AssignedTopic(topic_id=TOPIC, partitions=[AssignedPartition(partition_index=4)])
    request = AssignReplicasToDirsRequest(
        broker_id=1, broker_epoch=7, directories=[AssignedDirectory(id=DIRECTORY, topics=[topic])]
    )
    assert encode_bytes(request, 0) == bytes.fromhex(
        "00000001 0000000000000007 02" + DIRECTORY.hex() + "02" + TOPIC.hex() + "02 00000004 00 00 00 00"
    )


def test_response_versions():
    """Each replica has a code."""
    topic = AssignedTopicResult(topic_id=TOPIC, partitions=[AssignedPartitionResult(partition_index=4, error_code=100)])
    answer = AssignReplicasToDirsResponse(directories=[AssignedDirectoryResult(id=DIRECTORY, topics=[topic])])
    assert encode_bytes(answer, 0) == bytes.fromhex(
        "00000000 0000 02" + DIRECTORY.hex() + "02" + TOPIC.hex() + "02 00000004 0064 00 00 00 00"
    )
