"""From the log's batches to images."""

import pytest

from stratalog.metadata.image.image import EMPTY_IMAGE, Provenance
from stratalog.metadata.image.replay import MetadataReplay
from stratalog.metadata.quorum.checkpoint import QuorumRecords
from stratalog.metadata.quorum.quorum_state import leader_change_batch
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.records.control import (
    ControlType,
    KRaftVersionFeature,
    KRaftVersionRecord,
    QuorumVoter,
    VotersRecord,
    encode_key,
)
from stratalog.wire.records.control import encode_record as encode_control_record
from stratalog.wire.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClearElrRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionRecord,
    TopicRecord,
    encode_record,
)


def _batch(offset, *records, epoch=1):
    rows = [Record(offset + index, 50 + offset, None, encode_record(record)) for index, record in enumerate(records)]
    return build_batch(rows, leader_epoch=epoch)


def _feature(level, name="group.version"):
    return FeatureLevelRecord(name=name, feature_level=level)


def test_batches_become_an_image_whose_provenance_is_their_last_record():
    """Offset, epoch and time of the last batch, control batches counted."""
    replay = MetadataReplay()
    replay.replay(leader_change_batch(1, epoch=1, offset=0, timestamp_ms=5) + _batch(1, _feature(1), _feature(2)))
    image = replay.image()
    assert image.features == {"group.version": 2}
    assert image.provenance == (2, 1, 51)
    assert replay.next_offset == 3


def test_a_control_batch_alone_moves_the_offset():
    """The head of an epoch holds no change of the cluster."""
    replay = MetadataReplay()
    replay.replay(leader_change_batch(1, epoch=4, offset=0, timestamp_ms=5))
    assert replay.image() == EMPTY_IMAGE
    assert replay.image().provenance == (0, 4, 5)


def test_voters_of_the_log_are_kept_beside_the_image():
    """The last record counts (KIP-853); a replay that begins with a snapshot begins with its voters."""

    def batch(offset, *records):
        rows = [
            Record(offset + index, 5, encode_key(kind), encode_control_record(record))
            for index, (kind, record) in enumerate(records)
        ]
        return build_batch(rows, leader_epoch=1, control=True)

    def voters(*ids):
        level = KRaftVersionFeature(min_supported_version=0, max_supported_version=1)
        return VotersRecord(
            voters=[
                QuorumVoter(voter_id=one, voter_directory_id=b"d" * 16, endpoints=[], kraft_version_feature=level)
                for one in ids
            ]
        )

    replay = MetadataReplay()
    replay.replay(
        batch(
            0,
            (ControlType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=1)),
            (ControlType.KRAFT_VOTERS, voters(1, 2)),
        )
    )
    replay.replay(batch(2, (ControlType.KRAFT_VOTERS, voters(1))))
    assert replay.quorum == QuorumRecords(1, tuple(voters(1).voters))
    assert MetadataReplay(EMPTY_IMAGE, replay.quorum).quorum == replay.quorum
    assert replay.image() == EMPTY_IMAGE


def test_records_held_by_the_snapshot_are_passed_over():
    """The log behind a snapshot may begin before it."""
    replay = MetadataReplay(EMPTY_IMAGE.apply([_feature(5)], Provenance(1, 1, 1)))
    replay.replay(_batch(0, _feature(1), _feature(2)) + _batch(2, _feature(3)))
    assert replay.image().features == {"group.version": 3}


def test_a_gap_in_the_log_is_corrupt():
    """A missing record is never guessed."""
    replay = MetadataReplay()
    with pytest.raises(Corrupt, match="goes on at offset 3, 0 was expected"):
        replay.replay(_batch(3, _feature(1)))


def test_a_damaged_batch_is_corrupt():
    """The CRC is checked on the way."""
    batch = _batch(0, _feature(1))
    batch[-1] ^= 1
    with pytest.raises(Corrupt, match="CRC"):
        MetadataReplay().replay(batch)


@pytest.mark.parametrize(
    ("value", "found"),
    [(b"\x01\xc8\x01\0\0", "type 200"), (b"\x01\x02\x63\0\0", "version 99"), (b"\xff\xff\xff", "cut off")],
)
def test_a_whole_batch_with_a_record_that_cannot_be_read_is_of_a_newer_release(value, found):
    """The sentence has the offset, and says what to do; nothing is damaged here."""
    batch = build_batch([Record(7, 50, None, encode_record(_feature(1))), Record(8, 50, None, value)], leader_epoch=1)
    replay = MetadataReplay(EMPTY_IMAGE.apply([], Provenance(6, 1, 0)))
    with pytest.raises(Invalid, match=f"the record at offset 8 of the metadata log: .*{found}.*update this node"):
        replay.replay(batch)


@pytest.mark.parametrize(("level", "way_out"), [(31, "update this node"), (6, "raise it")])
def test_a_metadata_version_that_this_release_cannot_read_ends_the_replay(level, way_out):
    """Its records may mean something else. Levels of other features are the controller's business."""
    replay = MetadataReplay()
    replay.replay(_batch(0, _feature(9), _feature(7, "metadata.version"), _feature(1, "unheard.of")))
    with pytest.raises(Invalid, match=f"metadata.version {level}, and this release knows 7 to 30.*{way_out}"):
        replay.replay(_batch(3, _feature(level, "metadata.version")))


def test_a_metadata_transaction_takes_effect_at_its_end():
    """Until the end marker the image is the one before, whichever batches it spans."""
    replay = MetadataReplay()
    replay.replay(_batch(0, _feature(1)) + _batch(1, BeginTransactionRecord(), _feature(2)))
    assert replay.in_transaction
    assert replay.image().features == {"group.version": 1}
    assert replay.image().provenance.offset == 0
    replay.replay(_batch(3, _feature(3), EndTransactionRecord(), _feature(9, "x")))
    assert not replay.in_transaction
    assert replay.image().features == {"group.version": 3, "x": 9}
    assert replay.image().provenance.offset == 5


def test_an_aborted_metadata_transaction_never_takes_effect():
    """Its records are void, what follows is not."""
    replay = MetadataReplay()
    replay.replay(_batch(0, BeginTransactionRecord(), _feature(2), AbortTransactionRecord(), _feature(1, "x")))
    assert replay.image().features == {"x": 1}


@pytest.mark.parametrize(
    "records",
    [
        (BeginTransactionRecord(), BeginTransactionRecord()),
        (EndTransactionRecord(),),
        (AbortTransactionRecord(),),
    ],
)
def test_markers_out_of_order_are_corrupt(records):
    """A transaction neither begins twice nor ends unbegun."""
    with pytest.raises(Corrupt, match="metadata transaction"):
        MetadataReplay().replay(_batch(0, *records))


def test_images_taken_on_the_way_share_and_go_on():
    """Asking twice is free, and later batches build on the image given out."""
    replay = MetadataReplay()
    replay.replay(_batch(0, _feature(1)))
    first = replay.image()
    replay.replay(_batch(1, _feature(2, "other")))
    second = replay.image()
    assert first.features == {"group.version": 1}
    assert second.features == {"group.version": 1, "other": 2}
    assert second.topics is first.topics


@pytest.mark.parametrize("is_transaction", [False, True])
def test_one_record_that_changes_all_partitions_is_taken_in_steps(is_transaction):
    """Where a broker is away each may have eligible replicas: another minimum of the cluster clears them all."""
    topic_id = b"t" * 16
    partitions = [
        PartitionRecord(topic_id=topic_id, partition_id=number, replicas=[1, 2], isr=[1], eligible_leader_replicas=[2])
        for number in range(3000)
    ]
    image = EMPTY_IMAGE.apply([TopicRecord(name="t", topic_id=topic_id), *partitions], Provenance(8, 1, 50))
    record = ClearElrRecord(topic_name="")
    batch = [BeginTransactionRecord(), record, EndTransactionRecord()] if is_transaction else [record]
    replay, own = MetadataReplay(image), MetadataReplay(image)
    assert sum(1 for _ in replay.replay_steps(_batch(9, *batch))) > 5
    assert sum(1 for _ in own.replay_own(batch, Provenance(8 + len(batch), 1, 59))) > 5
    for after in (replay.image(), own.image()):
        cleared = after.topics.by_name["t"].partitions.values()
        assert len(cleared) == 3000
        assert not any(one.eligible_leader_replicas for one in cleared)
