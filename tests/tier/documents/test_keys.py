from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.documents.keys import (
    HistoryKey,
    PageKey,
    PartitionId,
    SegmentKey,
    TopicKey,
    cluster_key,
    cut_key,
    group_key,
    lease_key,
    parse_key,
    topic_key,
)
from stratalog.tier.stores.store import validate_key
from stratalog.wire.errors import Invalid

topics = st.text("abcXYZ019._-", min_size=1, max_size=249).filter(lambda name: name not in {".", ".."})
ids = st.binary(min_size=16, max_size=16)
offsets = st.integers(0, 2**63 - 1)
epochs = st.integers(0, 2**31 - 1)


@pytest.mark.story
@given(topics, ids, epochs, offsets, offsets, epochs, ids)
def test_every_key_is_taken_apart_into_what_it_was_made_of(topic, topic_id, partition, base, end, epoch, uuid):
    """Parsing is the inverse of making, for any topic name, also one that is cut or full of hyphens."""
    where = PartitionId(topic, topic_id, partition)
    short = topic[:200]
    assert parse_key(topic_key(topic, topic_id)) == TopicKey(short, topic_id, None)
    assert parse_key(where.manifest_key) == TopicKey(short, topic_id, partition)
    assert parse_key(where.segment_key(base, end, epoch, uuid)) == SegmentKey(
        short, topic_id, partition, base, end, epoch, uuid
    )
    assert parse_key(where.page_key(base, end, epoch)) == PageKey(short, topic_id, partition, base, end, epoch)
    assert parse_key(where.history_key(base, "b-1")) == HistoryKey(short, topic_id, partition, base, "b-1")


@given(topics, ids, epochs, offsets, ids)
def test_every_key_is_one_that_every_store_takes(topic, topic_id, partition, offset, uuid):
    """The longest names still fit the limits of the object store port."""
    where = PartitionId(topic, topic_id, partition)
    for key in (
        topic_key(topic, topic_id),
        where.manifest_key,
        where.segment_key(offset, offset, partition, uuid),
        where.page_key(offset, offset, partition),
        where.history_key(offset, "broker-1"),
        lease_key(uuid),
        cluster_key("abc"),
        cut_key("abc", 17, "x"),
        group_key("abc", "h", 4),
    ):
        validate_key("put", key, "memory:")


def test_a_listing_of_segments_is_in_offset_order():
    """Zero padding makes the order of the keys' bytes the order of the offsets."""
    where = PartitionId("t", bytes(16), 0)
    keys = [where.segment_key(base, base + 1, 0, bytes(16)) for base in (0, 9, 10, 99, 100, 10**18)]
    assert keys == sorted(keys)


def test_two_topics_of_one_name_share_no_key():
    """A topic deleted and created again cannot see its predecessor's data: the id is in every key."""
    old, new = PartitionId("t", bytes(16), 0), PartitionId("t", bytes([1] * 16), 0)
    assert not new.segment_key(0, 1, 0, bytes(16)).startswith(old.prefix)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "format.json",
        "leases/x.json",
        "topics/t/0000000000/manifest.json",
        f"topics/t-{'A' * 22}/0/manifest.json",
        f"topics/t-{'A' * 22}/0000000000/seg/1-2-3-{'A' * 22}.seg",
        f"topics/t-{'A' * 22}/0000000000/seg/{1:020}-{2:020}-{3:010}-{'A' * 22}.seg.bak",
        f"topics/t-{'A' * 21}!/0000000000/manifest.json",
        f"topics/t-{'A' * 21}B/0000000000/manifest.json",
    ],
)
def test_an_unknown_key_is_refused(key):
    """A foreign key is never mistaken for ours."""
    with pytest.raises(Invalid):
        parse_key(key)
