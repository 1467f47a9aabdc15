"""ConsumerGroupDescribe: what each version of the messages carries."""

from stratalog.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from stratalog.wire.schema import encode_bytes

TOPIC = b"t" * 16


def test_request():
    """Group ids and whether operations are wanted, alike in both versions."""
    request = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)
    assert encode_bytes(request, 0) == encode_bytes(request, 1) == bytes.fromhex("02 0267 01 00")


def test_response_versions():
    """The type of a member came with version 1."""
    member = Member(
        member_id="m",
        member_epoch=2,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["t"],
        assignment=Assignment(
            topic_partitions=[TopicPartitions(topic_id=TOPIC, topic_name="t", partitions=[1])],
        ),
        target_assignment=Assignment(),
        member_type=1,
    )
    group = DescribedGroup(
        group_id="g", group_state="Stable", group_epoch=2, assignment_epoch=2, assignor_name="uniform", members=[member]
    )
    response = ConsumerGroupDescribeResponse(groups=[group])
    head = "00000000 02 0000 00 0267 07537461626c65 00000002 00000002 08756e69666f726d 02"
    body = "026d 00 00 00000002 0263 032f68 02 0274 00 02" + TOPIC.hex() + "0274 02 00000001 00 00 01 00"
    tail = "00 80000000 00 00"
    assert encode_bytes(response, 0) == bytes.fromhex(head + body + tail)
    assert encode_bytes(response, 1) == bytes.fromhex(head + body + "01" + tail)
