"""The opaque bytes that consumers write in the classic protocol."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
    decode_assignment,
    decode_subscription,
    encode_protocol,
    protocol_version,
)
from stratalog.wire.schema import DecodeError

parts = st.lists(
    st.builds(OwnedPartitions, topic=st.text(max_size=4), partitions=st.lists(st.integers(0, 99), max_size=3)),
    max_size=2,
)
subscriptions = st.builds(
    ConsumerProtocolSubscription,
    topics=st.lists(st.text(max_size=4), max_size=3),
    user_data=st.none() | st.binary(max_size=4),
    owned_partitions=parts,
    generation_id=st.integers(-1, 99),
    rack_id=st.none() | st.text(max_size=3),
)


@given(subscription=subscriptions)
def test_subscription(subscription):
    """The newest version carries everything; the bytes name their version."""
    data = encode_protocol(subscription, 3)
    assert protocol_version(data) == 3
    assert decode_subscription(data) == subscription


@given(assignment=st.builds(ConsumerProtocolAssignment, assigned_partitions=parts, user_data=st.none() | st.binary()))
def test_assignment(assignment):
    """Every version of an assignment is alike."""
    for version in range(4):
        data = encode_protocol(assignment, version)
        assert decode_assignment(data) == assignment
        assert data[2:] == encode_protocol(assignment, 0)[2:]


def test_bytes():
    """The bytes of each version."""
    subscription = ConsumerProtocolSubscription(
        topics=["a"],
        owned_partitions=[OwnedPartitions(topic="a", partitions=[1])],
        generation_id=5,
        rack_id="r",
    )
    head = "00000001 0001 61 ffffffff"
    owned = "00000001 0001 61 00000001 00000001"
    assert encode_protocol(subscription, 0) == bytes.fromhex("0000" + head)
    assert encode_protocol(subscription, 1) == bytes.fromhex("0001" + head + owned)
    assert encode_protocol(subscription, 2) == bytes.fromhex("0002" + head + owned + "00000005")
    assert encode_protocol(subscription, 3) == bytes.fromhex("0003" + head + owned + "00000005 0001 72")


def test_newer_version():
    """A version that is not known is read as the newest that is; it is written so, too."""
    data = encode_protocol(ConsumerProtocolSubscription(topics=["a"]), 9)
    assert protocol_version(data) == 3
    newer = b"\x00\x09" + data[2:] + b"more"
    assert decode_subscription(newer).topics == ["a"]


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff\x00", b"\x00\x01\x00\x00\x00\x05"])
def test_malformed(data):
    """Bytes that are none of a consumer's are refused."""
    with pytest.raises(DecodeError):
        decode_subscription(data)
