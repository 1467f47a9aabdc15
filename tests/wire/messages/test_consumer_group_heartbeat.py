"""ConsumerGroupHeartbeat: what each version of the messages carries."""

from stratalog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from stratalog.wire.schema import decode, encode_bytes

TOPIC = b"t" * 16
PARTITIONS = "02" + TOPIC.hex() + "03 00000000 00000004 00"


def test_request_versions():
    """The regular expression came with version 1."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=3,
        rebalance_timeout_ms=5,
        subscribed_topic_names=["a"],
        subscribed_topic_regex="b",
        topic_partitions=[TopicPartitions(topic_id=TOPIC, partitions=[0, 4])],
    )
    head = "0267 026d 00000003 00 00 00000005 02 0261"
    assert encode_bytes(request, 0) == bytes.fromhex(head + "00" + PARTITIONS + "00")
    assert encode_bytes(request, 1) == bytes.fromhex(head + "0262 00" + PARTITIONS + "00")
    assert decode(ConsumerGroupHeartbeatRequest, 1, encode_bytes(request, 1)) == request


def test_request_nothing_new():
    """Unchanged fields are null, or -1 for the rebalance time-out."""
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3)
    assert encode_bytes(request, 1) == bytes.fromhex("0267 026d 00000003 00 00 ffffffff 00 00 00 00 00")


def test_response():
    """An assignment is a nullable struct: a byte that is 1, or -1 where there is none."""
    response = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=3, heartbeat_interval_ms=5)
    head = "00000000 0000 00 026d 00000003 00000005"
    assert encode_bytes(response, 1) == bytes.fromhex(head + "ff 00")
    response.assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=TOPIC, partitions=[0, 4])])
    assert encode_bytes(response, 0) == bytes.fromhex(head + "01" + PARTITIONS + "00 00")
