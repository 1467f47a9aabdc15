"""The document of a cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.tier.bucket.cuts import (
    Cut,
    CutPartition,
    CutState,
    CutTopic,
    check_cut_name,
    cut_from_bytes,
    cut_to_bytes,
)
from stratalog.tier.documents.keys import PartitionId
from stratalog.wire.errors import Corrupt, Invalid

TOPIC = CutTopic("orders", b"\1" * 16, 2, {"retention.ms": "1"})
MEMBERS = tuple(CutPartition(PartitionId("orders", b"\1" * 16, n), n, 10 + n, 3, "ab") for n in range(2))
CUT = Cut("c", "nightly", 1_700_000_000_000, CutState.COMPLETE, (TOPIC,), MEMBERS, "stratalog")

topics = st.builds(
    CutTopic,
    st.from_regex(r"[a-z]{1,9}", fullmatch=True),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 9),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)


@pytest.mark.story
@given(st.lists(topics, max_size=3, unique_by=lambda each: each.topic_id), st.sampled_from(CutState), st.data())
def test_it_is_read_as_it_was_written(found, state, data):
    """Random topics and partitions come back equal, with and without the copies of groups."""
    members = tuple(
        CutPartition(PartitionId(each.name, each.topic_id, number), 0, data.draw(st.integers(0, 2**62)), number, "f")
        for each in found
        for number in range(each.partition_count)
    )
    cut = Cut("c", "n", 5, state, tuple(found), members, "w")
    assert cut_from_bytes(cut_to_bytes(cut), cut.key) == cut
    assert b"groups" not in cut_to_bytes(cut)
    cut = replace(cut, group_count=3, groups_sha256="ab")
    assert cut_from_bytes(cut_to_bytes(cut), cut.key) == cut


def test_its_keys_lie_below_its_cluster():
    """The document, and the copies of manifests in a folder beside it."""
    assert CUT.cut_id == "1700000000000-nightly"
    assert CUT.key == "clusters/c/cuts/1700000000000-nightly.json"
    uuid = "AQEBAQEBAQEBAQEBAQEBAQ"
    assert CUT.manifest_key(MEMBERS[1].partition) == f"clusters/c/cuts/1700000000000-nightly/{uuid}-0000000001.json"
    assert CUT.topic("orders") is TOPIC
    assert CUT.topic("others") is None


def test_fields_of_a_newer_writer_are_kept():
    """They are written back."""
    fields = json.loads(cut_to_bytes(CUT)) | {"mood": ["good"]}
    cut = cut_from_bytes(json.dumps(fields).encode(), CUT.key)
    assert json.loads(cut_to_bytes(cut)) == fields


@pytest.mark.parametrize(
    "change",
    [
        {"format": "x"},
        {"version": 2},
        {"state": "odd"},
        {"created_ms": "1"},
        {"partitions": [{}]},
        {"topics": []},
        {"name": "other"},
    ],
)
def test_a_foreign_cut_is_refused(change):
    """Another format, missing fields, another key."""
    fields = json.loads(cut_to_bytes(CUT)) | change
    with pytest.raises(Corrupt, match=CUT.key):
        cut_from_bytes(json.dumps(fields).encode(), CUT.key)


def test_bytes_that_are_no_json_are_refused():
    """With the key."""
    with pytest.raises(Corrupt, match=CUT.key):
        cut_from_bytes(b"{", CUT.key)


@pytest.mark.parametrize("name", ["", "2026", "a b", "a@b", "a.b", "x" * 64])
def test_names_fit_into_names_of_topics_and_keys(name):
    """And look like no time."""
    check_cut_name("A-b_9")
    with pytest.raises(Invalid):
        check_cut_name(name)
