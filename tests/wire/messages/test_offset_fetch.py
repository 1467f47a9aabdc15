"""OffsetFetch: what each version of the messages carries."""

import pytest

from stratalog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from stratalog.wire.schema import EncodeError, decode, encode_bytes


def test_request_one_group():
    """Until 7 one group; null topics are all of them since 2; stable offsets can be required since 7."""
    named = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[2])])
    assert encode_bytes(named, 1) == bytes.fromhex("0001 67 00000001 0001 74 00000001 00000002")
    everything = OffsetFetchRequest(group_id="g", topics=None, require_stable=True)
    assert encode_bytes(everything, 2) == bytes.fromhex("0001 67 ffffffff")
    assert encode_bytes(everything, 7) == bytes.fromhex("0267 00 01 00")
    with pytest.raises(EncodeError):
        encode_bytes(everything, 1)


def test_request_groups():
    """Since 8 several groups, since 9 with a member and its epoch, since 10 with topic ids."""
    topics = [OffsetFetchRequestTopics(name="t", topic_id=b"\x11" * 16, partition_indexes=[2])]
    group = OffsetFetchRequestGroup(group_id="g", member_id="m", member_epoch=3, topics=topics)
    request = OffsetFetchRequest(groups=[group, OffsetFetchRequestGroup(group_id="h", topics=None)])
    assert encode_bytes(request, 8) == bytes.fromhex("03 0267 02 0274 02 00000002 00 00 0268 00 00 00 00")
    member, none = "026d 00000003", "00 ffffffff"
    assert encode_bytes(request, 9) == bytes.fromhex(
        f"03 0267 {member} 02 0274 02 00000002 00 00 0268 {none} 00 00 00 00"
    )
    newest = bytes.fromhex(f"03 0267 {member} 02 {'11' * 16} 02 00000002 00 00 0268 {none} 00 00 00 00")
    assert encode_bytes(request, 10) == newest
    assert decode(OffsetFetchRequest, 10, newest).groups[0].topics[0].topic_id == b"\x11" * 16


def test_response_one_group():
    """Until 7 the topics stand alone: an error of the whole since 2, throttle time since 3, leader epochs since 5."""
    partition = OffsetFetchResponsePartition(
        partition_index=2, committed_offset=7, committed_leader_epoch=5, metadata="m", error_code=88
    )
    topic = OffsetFetchResponseTopic(name="t", partitions=[partition])
    response = OffsetFetchResponse(throttle_time_ms=1, topics=[topic], error_code=16)
    plain = "00000001 0001 74 00000001 00000002 0000000000000007 0001 6d 0058"
    assert encode_bytes(response, 1) == bytes.fromhex(plain)
    assert encode_bytes(response, 2) == bytes.fromhex(plain + "0010")
    assert encode_bytes(response, 3) == bytes.fromhex("00000001" + plain + "0010")
    assert encode_bytes(response, 7) == bytes.fromhex(
        "00000001 02 0274 02 00000002 0000000000000007 00000005 026d 0058 00 00 0010 00"
    )


def test_response_groups():
    """Since 8 by group, since 10 with topic ids; an offset that is not there is -1 with empty text."""
    partition = OffsetFetchResponsePartitions(partition_index=2, committed_offset=-1, metadata="")
    topic = OffsetFetchResponseTopics(name="t", topic_id=b"\x11" * 16, partitions=[partition])
    response = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[topic], error_code=16)])
    tail = "02 00000002 ffffffffffffffff ffffffff 01 0000 00 00 0010 00 00"
    assert encode_bytes(response, 8) == bytes.fromhex("00000000 02 0267 02 0274" + tail)
    assert encode_bytes(response, 10) == bytes.fromhex("00000000 02 0267 02" + "11" * 16 + tail)
