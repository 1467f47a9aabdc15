"""The frame of checkpoints: ours byte for byte as Kafka lays it out, and every kind of damage found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.quorum.checkpoint import (
    STATIC_QUORUM,
    QuorumRecords,
    build_checkpoint,
    footer_batch,
    header_batch,
    read_checkpoint,
    record_batches,
)
from stratalog.wire.batch import Record, build_batch, check_batch, iter_headers, iter_records
from stratalog.wire.errors import Corrupt
from stratalog.wire.records import control
from stratalog.wire.records.control import (
    ControlType,
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    QuorumVoter,
    SnapshotHeaderRecord,
    VotersRecord,
)

_VOTERS = st.lists(
    st.builds(
        QuorumVoter,
        voter_id=st.integers(0, 9),
        voter_directory_id=st.binary(min_size=16, max_size=16),
        endpoints=st.lists(
            st.builds(
                Endpoint,
                name=st.just("CONTROLLER"),
                host=st.text("ab.", min_size=1, max_size=9),
                port=st.integers(0, 65535),
            ),
            min_size=1,
            max_size=2,
        ),
        kraft_version_feature=st.just(KRaftVersionFeature(min_supported_version=0, max_supported_version=1)),
    ),
    max_size=3,
)
_QUORUMS = st.just(STATIC_QUORUM) | _VOTERS.map(lambda voters: QuorumRecords(1, tuple(voters)))


def built(values=(b"a", b"b"), quorum=STATIC_QUORUM) -> bytes:
    """A small checkpoint."""
    return build_checkpoint(values, quorum, last_contained_timestamp_ms=5, timestamp_ms=7)


@given(st.lists(st.binary(max_size=30), max_size=9), _QUORUMS, st.integers(0, 1 << 40))
def test_a_checkpoint_survives_its_file(values, quorum, timestamp_ms):
    """Records, voters and the time come back as they were."""
    content = build_checkpoint(values, quorum, last_contained_timestamp_ms=timestamp_ms, timestamp_ms=7, epoch=3)
    found = read_checkpoint(content, "x")
    assert (found.last_contained_timestamp_ms, found.quorum) == (timestamp_ms, quorum)
    assert [bytes(value) for value in found.values] == values


@pytest.mark.parametrize(("voters", "records", "size"), [(0, 1, 83), (1, 3, 166)])
def test_the_first_batch_holds_the_header_the_level_and_the_voters(voters, records, size):
    """Kafka's own files have these counts and sizes, for the host of nine letters that a standalone node names."""
    voter = QuorumVoter(
        voter_id=1,
        voter_directory_id=b"d" * 16,
        endpoints=[Endpoint(name="CONTROLLER", host="localhost", port=9093)],
        kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    quorum = QuorumRecords(1, (voter,)) if voters else STATIC_QUORUM
    batch, following = header_batch(quorum, last_contained_timestamp_ms=0, timestamp_ms=7, epoch=0)
    kinds = [control.decode_key(record.key or b"") for record in iter_records(batch)]
    assert kinds == [ControlType.SNAPSHOT_HEADER, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS][:records]
    assert following == records
    assert (check_batch(batch).size_bytes, check_batch(batch).is_control) == (size, True)


def test_offsets_run_through_the_file_in_batches_of_a_thousand():
    """Records of the log stand in batches of their own between the two control batches."""
    batches = [check_batch(content, at) for content in [built([b"v"] * 1500)] for at, _ in iter_headers(content)]
    assert [batch.base_offset for batch in batches] == [0, 1, 1001, 1501]
    assert [batch.is_control for batch in batches] == [True, False, False, True]
    pieces = list(record_batches([b"v"] * 1500, first_offset=1, timestamp_ms=7, epoch=0))
    assert [following for _, following in pieces] == [1001, 1501]
    pieces = list(record_batches([bytes(3 << 20)] * 5, first_offset=0, timestamp_ms=7, epoch=0))
    assert [following for _, following in pieces] == [2, 4, 5]  # 8 MiB each at most


@given(st.data())
def test_a_file_that_is_cut_off_anywhere_is_corrupt(data):
    """Without its footer a checkpoint is worth nothing."""
    content = built()
    with pytest.raises(Corrupt):
        read_checkpoint(content[: data.draw(st.integers(0, len(content) - 1))], "x")


@given(st.data())
def test_a_flipped_bit_under_the_checksums_is_corrupt(data):
    """Each batch has a checksum from its attributes on."""
    content = bytearray(built([], STATIC_QUORUM))
    ends = [at for at, _ in iter_headers(bytes(content))]
    at = data.draw(
        st.sampled_from([at for at in range(21, len(content)) if all(not 0 <= at - end < 21 for end in ends)])
    )
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(Corrupt):
        read_checkpoint(bytes(content), "x")


@given(st.data())
def test_any_flipped_byte_is_corrupt_or_changes_nothing_and_the_file_is_named(data):
    """Base offset and epoch of a batch lie outside its checksum, and say nothing here. No other error ever comes."""
    whole = built([b"a", b"bb" * 40])
    content = bytearray(whole)
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = read_checkpoint(bytes(content), "the file")
    except Corrupt as error:
        assert str(error).startswith("the file ")
    else:
        assert found == read_checkpoint(whole, "the file")


def test_a_file_that_begins_without_a_header_is_corrupt():
    """The header says up to when the records reach."""
    record = build_batch([Record(0, 7, None, b"v")], leader_epoch=0)
    with pytest.raises(Corrupt, match="not as its first record"):
        read_checkpoint(bytes(record) + bytes(footer_batch(offset=1, timestamp_ms=7, epoch=0)), "the file")


def test_a_second_header_is_corrupt():
    """Two files in one were not written by any node."""
    first, _ = header_batch(STATIC_QUORUM, last_contained_timestamp_ms=0, timestamp_ms=7, epoch=0)
    with pytest.raises(Corrupt, match="at byte 83"):
        read_checkpoint(bytes(first) * 2, "the file")


def test_content_behind_the_footer_is_corrupt():
    """The footer is the end."""
    with pytest.raises(Corrupt, match="behind its footer"):
        read_checkpoint(built() * 2, "the file")


@pytest.mark.parametrize(
    ("kind", "value"),
    [(99, b"\0\0"), (ControlType.KRAFT_VERSION, b"\0\0"), (ControlType.SNAPSHOT_HEADER, b"")],
)
def test_a_control_record_that_cannot_be_read_is_corrupt(kind, value):
    """A kind that is not known may be about the voters."""
    header = control.encode_record(SnapshotHeaderRecord(last_contained_log_timestamp=0))
    rows = [
        Record(0, 7, control.encode_key(ControlType.SNAPSHOT_HEADER), header),
        Record(1, 7, control._KEY.pack(0, kind), value),
    ]
    with pytest.raises(Corrupt, match="control record that cannot be read"):
        read_checkpoint(bytes(build_batch(rows, leader_epoch=0, control=True)), "the file")


def test_a_level_of_kraft_version_above_ours_is_refused():
    """A newer release may lay out voters differently."""
    with pytest.raises(Corrupt, match="a newer release wrote it"):
        STATIC_QUORUM.after(KRaftVersionRecord(kraft_version=2))


def test_voters_without_a_level_are_refused():
    """Level 0 has static voters, which no record names."""
    with pytest.raises(Corrupt, match="before any KRaftVersionRecord"):
        STATIC_QUORUM.after(VotersRecord(voters=[]))
