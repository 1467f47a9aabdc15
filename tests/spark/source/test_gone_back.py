"""An archive that went back to before what a stream has read."""

from __future__ import annotations

import logging

import pytest
from msgspec.structs import replace

from stratalog.spark.source.gone_back import gone_back_to, other_records, shortened
from stratalog.spark.source.options import parse_options
from stratalog.spark.source.planner import DataLoss
from stratalog.spark.source.stream_driver import StreamDriver
from stratalog.spark.source.stream_offsets import offset_document, parse_offsets, shortened_of, with_shortened
from stratalog.spark.source.stream_options import parse_stream
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import REPAIR, Manifest
from stratalog.tier.manifests.parts import CommitNote
from stratalog.wire.topic import TopicPartition

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def manifest(shortened_seq: int, *notes: tuple[int, str, int]) -> Manifest:
    commits = tuple(CommitNote(seq, kind, 0, end, 0) for seq, kind, end in notes)
    return Manifest(PartitionId("orders", b"t" * 16, 0), shortened_seq=shortened_seq, commits=commits)


@pytest.mark.parametrize(
    ("view", "known", "expected"),
    [
        (manifest(0, (1, "claim", 0), (2, "commit", 30)), 0, None),
        (manifest(5, (4, "commit", 30), (5, "rewind", 10), (6, "commit", 20)), 0, 10),
        (manifest(5, (4, "commit", 30), (5, "rewind", 10), (6, "commit", 20)), 5, None),
        (manifest(7, (5, "rewind", 10), (6, "commit", 40), (7, REPAIR, 25)), 0, 10),
        (manifest(7, (5, "rewind", 10), (6, "commit", 40), (7, REPAIR, 25)), 5, 25),
        (manifest(5, (6, "commit", 40), (7, "commit", 50)), 0, 0),
        (manifest(7, (5, "rewind", 10), (6, "commit", 40), (7, "rewind", 30)), 5, 10),
        (manifest(7, (6, "commit", 40), (7, "rewind", 30)), 5, 0),
        (manifest(5, (4, "delete", 30), (5, "begin again", 20)), 0, None),
        (manifest(5, (3, "takeover", 30), (4, "delete", 0), (5, "begin again", 0)), 0, 0),
    ],
)
def test_from_where_on_records_may_be_others(view, known, expected):
    """By the changes that the manifest remembers, and from 0 on where it does not."""
    assert gone_back_to(view, known) == expected


def test_only_positions_behind_the_way_back_are_named():
    """A stream that had not come so far has read nothing else; nor has one of a partition without an archive."""
    view = manifest(5, (4, "commit", 30), (5, "rewind", 10), (6, "commit", 20))
    assert other_records({P0: view}, {P0: 10, P1: 99}, {}) == {}
    assert "orders-0: the archive was taken back" in other_records({P0: view}, {P0: 11}, {})[P0]
    assert other_records({P0: view}, {P0: 11}, {P0: 5}) == {}
    assert shortened({P0: view, P1: manifest(0)}, {P0: 1, P1: 1}) == {P0: 5}


def test_the_checkpoint_keeps_the_number():
    """Beside the offsets, and that there is none: a checkpoint that says nothing is of an earlier version."""
    document = offset_document({P0: 7, P1: 9})
    assert with_shortened(document, {}) == {**document, "@shortened": {}}
    assert shortened_of(with_shortened(document, {})) == {}
    marked = with_shortened(document, {P0: 5})
    assert marked == {"orders": {"0": 7, "1": 9}, "@shortened": {"orders": {"0": 5}}}
    assert (parse_offsets(marked), shortened_of(marked), shortened_of(document)) == ({P0: 7, P1: 9}, {P0: 5}, None)


def test_a_stream_does_not_skip_what_came_in_the_place_of_what_it_read(memory_archive, batches, caplog):
    """The archive has grown beyond the stream's position by other records: an error, or one warning."""

    def stream(**options):
        given = {"path": "s3://b/p", "subscribe": "orders", "lease": "false", "manifestRefresh": "0", **options}
        return StreamDriver(memory_archive.store, parse_options(given, streaming=True), parse_stream(given), 2)

    memory_archive.add("orders", 0, batches(0, 10), batches(10, 10))
    before = memory_archive.manifests["orders", 0]
    back = replace(before, entries=before.entries[:1], remote_end=10, seq=before.seq + 1, shortened_seq=before.seq + 1)
    back = replace(back, commits=(*before.commits, CommitNote(back.seq, "rewind", 0, 10, 0)))
    memory_archive.write("orders", 0, back, [])
    memory_archive.add("orders", 0, batches(10, 30))
    strict, lenient = stream(), stream(failOnDataLoss="false")
    with pytest.raises(DataLoss, match="may hold other records from offset 10 on than this stream has read"):
        strict.next_end({P0: 20}, None, {})
    with pytest.raises(DataLoss, match="was to read, up to 19"):
        strict.plan({P0: 5}, {P0: 20}, {}, {})
    assert strict.next_end({P0: 20}, None, None) == {P0: 40}
    assert len(strict.plan({P0: 5}, {P0: 20}, None, None)[0]) == 1
    assert strict.next_end({P0: 10}, None) == {P0: 40}
    known = strict.shortened({P0: 40})
    assert known == {P0: back.seq}
    assert strict.next_end({P0: 20}, None, known) == {P0: 40}
    assert len(strict.plan({P0: 10}, {P0: 40}, {}, known)[0]) == 1
    with caplog.at_level(logging.WARNING, "stratalog.spark"):
        end = lenient.next_end({P0: 20}, None, {})
        lenient.plan({P0: 20}, end, {}, lenient.shortened(end))
        lenient.plan({P0: 40}, {P0: 40}, known, known)
    assert [record.message.count("was taken back to a cut") for record in caplog.records] == [1]
