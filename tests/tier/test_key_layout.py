"""Keys that every store can hold, also one that keeps objects as files."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.bucket.cuts import CUT_NAME
from stratalog.tier.documents.keys import (
    FORMAT_KEY,
    PartitionId,
    audit_key,
    cluster_key,
    cut_key,
    cut_manifest_key,
    group_key,
    lease_key,
    topic_key,
)

topics = st.text("ab01._-", min_size=1, max_size=249).filter(lambda name: name not in {".", ".."})
ids = st.binary(min_size=16, max_size=16)
cuts = st.from_regex(CUT_NAME, fullmatch=True)


def keys_of(topic, topic_id, partition, number, cut):
    """One key of every kind."""
    where = PartitionId(topic, topic_id, partition)
    return {
        FORMAT_KEY,
        cluster_key("cluster"),
        cut_key("cluster", number, cut),
        cut_manifest_key("cluster", number, cut, where),
        group_key("cluster", "ab" * 16, number),
        lease_key(topic_id),
        audit_key(number, topic_id),
        topic_key(topic, topic_id),
        where.manifest_key,
        where.segment_key(number, number + 1, 1, topic_id),
        where.page_key(number, number + 1, 1),
        where.history_key(number, "b-1"),
    }


@given(st.lists(st.tuples(topics, ids, st.integers(0, 9), st.integers(0, 99), cuts), min_size=2, max_size=4))
def test_no_key_is_the_directory_of_another(names):
    """Random names of topics and cuts make no such pair; all keys are plain ASCII without empty parts."""
    keys = set().union(*(keys_of(*name) for name in names))
    above = {key[:at] for key in keys for at in range(len(key)) if key[at] == "/"}
    assert keys & above == set()
    assert all(key.isascii() and "//" not in key and "%" not in key for key in keys)
