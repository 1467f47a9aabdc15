"""AlterPartition: what each version of the messages carries."""

from stratalog.wire.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    AlterPartitionTopicResult,
    BrokerState,
)
from stratalog.wire.schema import encode_bytes

UUID = bytes(range(16))


def test_request_versions():
    """The wanted set is ids in 2, ids with broker epochs in 3; an epoch that is not given is -1."""
    partition = AlterPartitionPartition(
        partition_index=1,
        leader_epoch=5,
        new_isr=[2, 3],
        new_isr_with_epochs=[BrokerState(broker_id=2, broker_epoch=7), BrokerState(broker_id=3)],
        leader_recovery_state=1,
        partition_epoch=8,
    )
    request = AlterPartitionRequest(
        broker_id=2, broker_epoch=7, topics=[AlterPartitionTopic(topic_id=UUID, partitions=[partition])]
    )
    start = "00000002 0000000000000007 02" + UUID.hex() + "02 00000001 00000005 03"
    end = "01 00000008 00 00 00"
    assert encode_bytes(request, 2) == bytes.fromhex(start + "00000002 00000003" + end)
    assert encode_bytes(request, 3) == bytes.fromhex(
        start + "00000002 0000000000000007 00 00000003 ffffffffffffffff 00" + end
    )


def test_a_wish_for_a_leader_epoch_is_a_tagged_field_far_above_kafkas():
    """Those who do not know it pass over it."""
    partition = AlterPartitionPartition(
        partition_index=1, leader_epoch=5, new_isr=[2], new_isr_with_epochs=[], partition_epoch=8, leader_epoch_above=9
    )
    topics = [AlterPartitionTopic(topic_id=UUID, partitions=[partition])]
    request = AlterPartitionRequest(broker_id=2, broker_epoch=7, topics=topics)
    wanted = "00000001 00000005 02 00000002 00 00000008 01 88a401 04 00000009"
    assert encode_bytes(request, 2) == bytes.fromhex(
        "00000002 0000000000000007 02" + UUID.hex() + "02" + wanted + "00 00"
    )


def test_response_versions():
    """The partition as the controller has it, the same in both versions."""
    result = AlterPartitionPartitionResult(
        partition_index=1, error_code=107, leader_id=2, leader_epoch=5, isr=[2], partition_epoch=9
    )
    response = AlterPartitionResponse(topics=[AlterPartitionTopicResult(topic_id=UUID, partitions=[result])])
    expected = "00000000 0000 02" + UUID.hex() + "02 00000001 006b 00000002 00000005 02 00000002 00 00000009 00 00 00"
    for version in (2, 3):
        assert encode_bytes(response, version) == bytes.fromhex(expected)
