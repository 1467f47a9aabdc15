"""The first records of a cluster, in Kafka's file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.quorum.bootstrap import bootstrap_checkpoint, level_records, read_bootstrap
from stratalog.metadata.quorum.checkpoint import build_checkpoint
from stratalog.wire.errors import Corrupt
from stratalog.wire.records.metadata import FeatureLevelRecord, UserScramCredentialRecord

LEVELS = {
    "metadata.version": 30,
    "transaction.version": 2,
    "share.version": 1,
    "streams.version": 1,
    "group.version": 1,
    "eligible.leader.replicas.version": 1,
    "kraft.version": 1,
}
ALICE = UserScramCredentialRecord(
    name="alice", mechanism=1, salt=b"s" * 25, stored_key=b"k" * 32, server_key=b"v" * 32, iterations=4096
)


def test_levels_stand_in_kafkas_order():
    """metadata.version is the first, the others follow by name; a level of 0 and kraft.version have no record."""
    records = level_records({**LEVELS, "share.version": 0})
    assert [(record.name, record.feature_level) for record in records] == [
        ("metadata.version", 30),
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("streams.version", 1),
        ("transaction.version", 2),
    ]


@pytest.mark.parametrize(("records", "size"), [(level_records(LEVELS), 411), ([*level_records(LEVELS), ALICE], 527)])
def test_the_file_has_the_size_of_kafkas(records, size):
    """Kafka 4.3.1 writes 411 bytes for its seven default features, and 116 more with one SCRAM credential."""
    assert len(bootstrap_checkpoint(records, timestamp_ms=1_795_445_801_328)) == size


@given(st.dictionaries(st.text("abc.", min_size=1, max_size=6), st.integers(1, 9), max_size=5), st.integers(0, 1 << 41))
def test_the_records_survive_the_file(levels, timestamp_ms):
    """The file holds the records in the order in which they were given."""
    records = [*level_records({**levels, "metadata.version": 30}), ALICE]
    assert list(read_bootstrap(bootstrap_checkpoint(records, timestamp_ms=timestamp_ms), "x")) == records


def test_a_file_without_metadata_version_is_refused():
    """Every other record is read by that level."""
    content = bootstrap_checkpoint([FeatureLevelRecord(name="group.version", feature_level=1)], timestamp_ms=1)
    with pytest.raises(Corrupt, match="the file has no level of metadata"):
        read_bootstrap(content, "the file")


@pytest.mark.parametrize("value", [b"", b"\x01\x7f\x00"])
def test_a_record_that_cannot_be_read_is_corrupt(value):
    """The message says where another copy lies."""
    content = build_checkpoint([value], last_contained_timestamp_ms=0, timestamp_ms=1)
    with pytest.raises(Corrupt, match="copy the file from another log directory"):
        read_bootstrap(content, "the file")
