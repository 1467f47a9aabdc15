"""An archive that went back to before what a stream has read."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from msgspec.structs import replace

from stratalog.spark.source.gone_back import gone_back_to, other_records, shortened
from stratalog.spark.source.options import parse_options
from stratalog.spark.source.planner import DataLoss
from stratalog.spark.source.stream_driver import StreamDriver
from stratalog.spark.source.stream_offsets import offset_document, parse_offsets, shortened_of, with_shortened
from stratalog.spark.source.stream_options import parse_stream
from stratalog.tier.bucket.trash import TIERING_OFF, begin_again, trash_archive
from stratalog.tier.care.rewind import read_cut_target, rewind_partition
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import REPAIR, Manifest, Uploaded, commit
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.manifests.parts import Claimant, CommitNote, Pin
from stratalog.tier.objects.segment_object import SegmentRequest, build_segment
from stratalog.tier.work.cut_commands import create_cut
from stratalog.wire.topic import TopicPartition

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def manifest(shortened_seq: int, *notes: tuple[int, str, int], pins: tuple[tuple[int, int], ...] = ()) -> Manifest:
    """``pins`` are the number and the end of each."""
    commits = tuple(CommitNote(seq, kind, 0, end, 0) for seq, kind, end in notes)
    pinned = tuple(Pin(f"cut-{seq}", 0, end, 0, seq) for seq, end in pins)
    return Manifest(PartitionId("orders", b"t" * 16, 0), shortened_seq=shortened_seq, commits=commits, pins=pinned)


@pytest.mark.parametrize(
    ("view", "known", "expected"),
    [
        (manifest(0, (1, "claim", 0), (2, "commit", 30)), 0, None),
        (manifest(5, (4, "commit", 30), (5, "rewind", 10), (6, "commit", 20)), 0, 10),
        (manifest(5, (4, "commit", 30), (5, "rewind", 10), (6, "commit", 20)), 5, None),
        (manifest(7, (5, "rewind", 10), (6, "commit", 40), (7, REPAIR, 25)), 0, 10),
        (manifest(7, (5, "rewind", 10), (6, "commit", 40), (7, REPAIR, 25)), 5, 25),
        (manifest(5, (6, "commit", 40), (7, "commit", 50)), 0, 0),
        (manifest(7, (5, "rewind", 10), (6, "commit", 40), (7, "rewind", 30), pins=((3, 10), (4, 30))), 5, 10),
        (manifest(7, (6, "commit", 40), (7, "rewind", 30), pins=((4, 30),)), 5, 0),
        (manifest(7, (6, "commit", 40), (7, "rewind", 30), pins=((4, 31), (6, 30))), 5, 30),
        (manifest(8, (6, "commit", 40), (7, "rewind", 30), (8, "rewind", 20), pins=((4, 25), (6, 20))), 5, 0),
        (manifest(7, (5, "rewind", 10), (6, "commit", 40), (7, "rewind", 30), (8, "unpin", 30)), 5, 10),
        (manifest(7, (4, "unpin", 20), (5, "rewind", 10), (6, "commit", 40), (7, "rewind", 30)), 5, 30),
        (manifest(5, (4, "delete", 30), (5, "begin again", 20)), 0, None),
        (manifest(5, (3, "takeover", 30), (4, "delete", 0), (5, "begin again", 0)), 0, 0),
    ],
)
def test_from_where_on_records_may_be_others(view, known, expected):
    """By the changes that the manifest remembers, and from 0 on where it does not."""
    assert gone_back_to(view, known) == expected


@pytest.mark.parametrize("commits", [2, 40])
@pytest.mark.parametrize("restored", ["newer", "older"])
def test_a_second_restore_changes_what_was_read_since_the_first(memory_archive, batches, restored, commits):
    """From the end of its cut on, if that is of what came since; else from where the first one led to, or, where the
    manifest has forgotten it, from 0 on. The cuts of all of them are kept.
    """
    cuts = {}
    for name, first in (("first", 0), ("older", 10), ("", 20)):
        memory_archive.add("orders", 0, batches(first, 10))
        cuts[name] = cut_of(memory_archive, name)
    known = restore(memory_archive, cuts["first"], 1).shortened_seq
    end = 10 + 10 * commits
    grow(memory_archive, batches, *range(10, end, 10))
    cuts["newer"] = cut_of(memory_archive, "newer")
    grow(memory_archive, batches, end)
    back = restore(memory_archive, cuts[restored], 2)
    from_there = {"newer": end, "older": 10 if commits < 32 else 0}[restored]
    assert gone_back_to(back, known) == from_there
    assert (other_records({P0: back}, {P0: end}, {P0: known}) == {}) is (restored == "newer")


def cut_of(archive: Any, name: str) -> Any:
    made = create_cut(archive.store, name, now_ms=50) if name else None
    archive.manifests["orders", 0] = read_manifest(archive.store, archive.manifests["orders", 0].partition).manifest
    return made


def restore(archive: Any, cut: Any, incarnation: int) -> Manifest:
    """As ``stratalog restore --takeover`` does."""
    target = read_cut_target(archive.store, cut, cut.partitions[-1])
    claimant = Claimant(incarnation, -1, b"m" * 16, 4)
    back = rewind_partition(archive.store, target, claimant, cluster_id="c", now_ms=90)
    archive.manifests["orders", 0] = back
    return back


def grow(archive: Any, batches: Any, *firsts: int) -> None:
    """The restored cluster archives ten records from each of ``firsts`` on."""
    back = archive.manifests["orders", 0]
    for first in firsts:
        built = build_segment(
            SegmentRequest(
                partition=back.partition,
                uuid=back.seq.to_bytes(16, "big"),
                base=first,
                end=first + 10,
                epoch=back.claimant.leader_epoch,
                source=[batches(first, 10)],
            )
        )
        archive.store.put(built.entry.key, list(built.source))
        back = commit(back, back.claimant, [Uploaded(built.entry, back.claimant)], now_ms=100)
    archive.write("orders", 0, back, [])


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


def test_a_number_stays_while_tiering_is_off(memory_archive, batches):
    """Brokers feed the stream meanwhile. When the archive begins again, the restore before is no news to it."""
    memory_archive.add("orders", 0, batches(0, 10))
    cut = cut_of(memory_archive, "first")
    memory_archive.add("orders", 0, batches(10, 20))
    back = restore(memory_archive, cut, 1)
    known = {P0: back.shortened_seq}
    off = trash_archive(back, back.claimant, now_ms=91, reason=TIERING_OFF)
    assert off.deleted_ms == 91
    known = shortened({}, {P0: 50}, known)
    begun = begin_again(off, off.claimant, 40, now_ms=92)
    assert other_records({P0: begun}, {P0: 50}, known) == {}
    assert shortened({P0: begun}, {P0: 50}, known) == {P0: begun.shortened_seq}
