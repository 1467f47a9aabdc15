"""Metadata: what each version of the messages carries."""

import pytest

from stratalog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from stratalog.wire.schema import EncodeError, decode, encode_bytes

UUID = bytes(range(16))


def test_request_all_topics():
    """All topics: the empty list in version 0, null from 1 on."""
    assert decode(MetadataRequest, 0, bytes(4)).topics == []
    assert decode(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None
    assert encode_bytes(MetadataRequest(topics=None), 9).hex() == "00" + "01" + "00" + "00" + "00"
    with pytest.raises(EncodeError, match="topics is None"):
        encode_bytes(MetadataRequest(topics=None), 0)


def test_request_names():
    """A name may be null from version 10 on, where an id can stand for it."""
    by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=UUID)])
    assert encode_bytes(by_id, 12) == bytes.fromhex("02" + UUID.hex() + "00 00" + "01 00 00")
    with pytest.raises(EncodeError, match=r"topics\[0\].name is None"):
        encode_bytes(by_id, 9)


def test_request_defaults():
    """A client that does not say otherwise lets topics be created."""
    assert decode(MetadataRequest, 1, bytes(4)).allow_auto_topic_creation
    assert not decode(MetadataRequest, 4, bytes(5)).allow_auto_topic_creation


def test_response_versions():
    """Racks and controller since 1, cluster id since 2, throttling since 3, epochs since 7, ids since 10."""
    partition = MetadataResponsePartition(
        partition_index=3, leader_id=1, leader_epoch=4, replica_nodes=[1, 2], isr_nodes=[1], offline_replicas=[2]
    )
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="h", port=9092, rack="r")],
        cluster_id="c",
        controller_id=1,
        topics=[MetadataResponseTopic(name="t", topic_id=UUID, partitions=[partition])],
    )
    nodes = "00000002 00000001 00000002 00000001 00000001"
    assert encode_bytes(response, 0) == bytes.fromhex(
        "00000001 00000001 0001 68 00002384 00000001 0000 0001 74 00000001 0000 00000003 00000001" + nodes
    )
    assert encode_bytes(response, 7) == bytes.fromhex(
        "00000000 00000001 00000001 0001 68 00002384 0001 72 0001 63 00000001"
        "00000001 0000 0001 74 00 00000001 0000 00000003 00000001 00000004" + nodes + "00000001 00000002"
    )
    assert encode_bytes(response, 13) == bytes.fromhex(
        "00000000 02 00000001 0268 00002384 0272 00 0263 00000001 02 0000 0274"
        + UUID.hex()
        + "00 02 0000 00000003 00000001 00000004 03 00000001 00000002 02 00000001 02 00000002 00"
        + "80000000 00 0000 00"
    )


def test_response_operations():
    """Authorised operations that were not asked for are the smallest int32; the cluster's end with version 10."""
    response = MetadataResponse(brokers=[], topics=[])
    assert response.cluster_authorized_operations == -(2**31)
    assert encode_bytes(response, 10).hex().endswith("80000000" + "00")
    assert encode_bytes(response, 11).hex().endswith("ffffffff" + "01" + "00")
