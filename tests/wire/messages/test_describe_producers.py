"""DescribeProducers: what the messages carry."""

from stratalog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from stratalog.wire.schema import encode_bytes


def test_request():
    """Partitions by topic."""
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[3])])
    assert encode_bytes(request, 0).hex() == "02" + "0274" + "0200000003" + "00" + "00"


def test_response():
    """The epoch is an int32 here; -1 stands for no sequence, no time and no open transaction."""
    producer = ProducerState(producer_id=7, producer_epoch=1, coordinator_epoch=9)
    response = DescribeProducersResponse(
        topics=[TopicResponse(name="t", partitions=[PartitionResponse(partition_index=3, active_producers=[producer])])]
    )
    state = "0000000000000007" + "00000001" + "ffffffff" + "ff" * 8 + "00000009" + "ff" * 8 + "00"
    expected = "00000000" + "02" + "0274" + "02" + "00000003" + "0000" + "00" + "02" + state + "00" * 3
    assert encode_bytes(response, 0).hex() == expected
