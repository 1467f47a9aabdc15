"""Tests of hot/cleaner/filter.py."""

import pytest
from crc32c import crc32c

from stratalog.hot.cleaner.filter import BatchFilter, FilterRules, add_keys
from stratalog.hot.cleaner.offset_map import SLOT_BYTES, OffsetMap
from stratalog.hot.cleaner.records import emptied_batch, record_spans
from stratalog.hot.cleaner.transactions import CleanedTransactions
from stratalog.hot.config import LONG_MAX
from stratalog.hot.segments.transaction_index import AbortedTxn
from stratalog.hot.state.producer_snapshot import ProducerEntry
from stratalog.wire.batch import (
    BATCH_HEADER,
    CRC_START,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    Record,
    build_batch,
    build_control_batch,
    iter_records,
    read_header,
)
from stratalog.wire.compression import Codec, compress
from stratalog.wire.errors import Corrupt

NOW_MS = 10_000
RETENTION_MS = 500


def batch_of(offset: int, *pairs: tuple[bytes | None, bytes | None], **options) -> bytearray:
    return build_batch([Record(offset + i, 100 + i, key, value) for i, (key, value) in enumerate(pairs)], **options)


class Cleaner:
    """A filter with its map, and rules that a test may change."""

    def __init__(self, *, aborted=(), producers=(), map_keys: int = 100, end_offset: int = 1 << 62) -> None:
        self.map = OffsetMap(map_keys * SLOT_BYTES, 1.0, 0, end_offset)
        self.aborted, self.producers = aborted, producers
        self.rules = FilterRules(NOW_MS, RETENTION_MS, 1000, LONG_MAX)

    def learn(self, *batches: bytearray) -> bool:
        return all(add_keys(read_header(one), memoryview(one), self.map, 0) for one in batches)

    def filter(self, *batches: bytearray) -> list[memoryview | bytearray | None]:
        self.last = BatchFilter(self.map, CleanedTransactions(self.aborted), self.producers, self.rules)
        return [self.last.survivor(read_header(one), memoryview(one)) for one in batches]


def offsets(batch) -> list[int] | None:
    return None if batch is None else [record.offset for record in iter_records(batch)]


def test_superseded_records_go_and_whole_batches_with_them():
    """A batch without superseded records is passed on as it stands, not compressed anew."""
    cleaner = Cleaner()
    old, mixed, new = batch_of(0, (b"a", b"1")), batch_of(1, (b"b", b"1"), (b"a", b"2")), batch_of(3, (b"b", b"2"))
    cleaner.learn(old, mixed, new)
    survivors = cleaner.filter(old, mixed, new)
    assert [offsets(one) for one in survivors] == [None, [2], [3]]
    assert survivors[2].obj is new
    assert (cleaner.last.counts.records, cleaner.last.counts.records_kept) == (4, 2)


def test_the_batch_with_which_a_leader_epoch_begins_stays_as_a_header():
    """Also over later cleanings. Its records go like all others."""
    cleaner = Cleaner()
    cleaner.rules = cleaner.rules._replace(epoch_starts=frozenset({1}))
    old, first, new = batch_of(0, (b"a", b"1")), batch_of(1, (b"a", b"2"), leader_epoch=3), batch_of(2, (b"a", b"3"))
    cleaner.learn(old, first, new)
    gone, header, _ = cleaner.filter(old, first, new)
    assert gone is None
    assert offsets(header) == []
    assert (read_header(header).base_offset, read_header(header).partition_leader_epoch) == (1, 3)
    [again] = cleaner.filter(header)
    assert again.obj is header


@pytest.mark.parametrize("start", [2, 4, 5])
def test_the_first_batch_behind_a_log_start_stays_as_a_header(start):
    """The oldest leader epoch begins there: in a gap, at a batch or within one."""
    cleaner = Cleaner()
    cleaner.rules = cleaner.rules._replace(epoch_starts=frozenset({start}))
    batches = batch_of(0, (b"a", b"1")), batch_of(4, (b"a", b"2"), (b"a", b"3")), batch_of(6, (b"a", b"4"))
    cleaner.learn(*batches, batch_of(7, (b"a", b"5")))
    left = cleaner.filter(*batches)
    assert [one and read_header(one).base_offset for one in left] == [None, 4, None]


def test_records_behind_the_section_stay():
    """Also in a batch that the map knows in part."""
    cleaner = Cleaner(map_keys=2)
    batch = batch_of(0, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", None))
    assert not cleaner.learn(batch)
    assert cleaner.map.latest_offset == 1
    [survivor] = cleaner.filter(batch)
    assert survivor.obj is batch


def test_a_record_without_a_key_is_removed():
    """A topic may have been compacted only later; Kafka drops these, too."""
    cleaner = Cleaner()
    batch = batch_of(0, (None, b"1"), (b"a", b"1"))
    cleaner.learn(batch)
    assert offsets(cleaner.filter(batch)[0]) == [1]


def numbered(deltas, batch, codec=Codec.NONE):
    """The batch with other offset deltas, of one byte each, for its records."""
    header, payload = read_header(batch), bytearray(batch[HEADER_BYTES:])
    for (start, *_), delta in zip(record_spans(header, bytes(payload)), deltas, strict=True):
        payload[start + 3] = (delta << 1) ^ (delta >> 7)
    out = batch[:HEADER_BYTES] + compress(codec, bytes(payload))
    fields = header._replace(attributes=codec, batch_length=len(out) - LOG_OVERHEAD_BYTES)
    BATCH_HEADER.pack_into(out, 0, *fields)
    BATCH_HEADER.pack_into(out, 0, *fields._replace(crc=crc32c(memoryview(out)[CRC_START:])))
    return out


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("deltas", [(0, 0, 0), (2, 1, 0), (7, 1, 2), (-1, 0, 1)])
@pytest.mark.parametrize("end_offset", [1 << 62, 8])
def test_offset_deltas_that_a_client_made_up_neither_lose_a_record_nor_end_the_cleaning(deltas, codec, end_offset):
    """Records count in the order in which they stand, with and without the table of the section."""
    cleaner = Cleaner(end_offset=end_offset)
    strange = numbered(deltas, batch_of(1, (b"a", b"2"), (b"b", b"2"), (b"c", None)), codec)
    batches = [batch_of(0, (b"c", b"1")), strange, batch_of(4, (b"a", b"3"))]
    assert cleaner.learn(*batches)
    cleaner.map.close()
    old, left, new = cleaner.filter(*batches)
    assert (old, offsets(left), offsets(new)) == (None, [2, 3], [4])
    assert [record.key for record in iter_records(left)] == [b"b", b"c"]
    assert read_header(left).codec is codec
    [again] = cleaner.filter(left)
    assert again.obj is left


def test_records_that_do_not_lie_in_their_batch_are_still_damage():
    """No numbers make up for them."""
    strange = numbered((0, 0), batch_of(1, (b"a", b"2"), (b"b", b"2")))
    strange[HEADER_BYTES] = 0x7E
    with pytest.raises(Corrupt, match="the batch at offset 1 is damaged"):
        Cleaner().learn(strange)


def test_a_tombstone_survives_the_first_clean_and_goes_when_its_horizon_has_passed():
    """The first cleaning gives it the horizon, ``delete.retention.ms`` from then."""
    cleaner = Cleaner()
    batch = batch_of(0, (b"a", None), (b"b", b"1"))
    cleaner.learn(batch)
    [first] = cleaner.filter(batch)
    header = read_header(first)
    assert header.has_delete_horizon
    assert header.base_timestamp == NOW_MS + RETENTION_MS
    assert [record.timestamp_ms for record in iter_records(first)] == [100, 101]
    for now_ms, kept in ((NOW_MS + RETENTION_MS - 1, [0, 1]), (NOW_MS + RETENTION_MS, [1])):
        cleaner.rules = cleaner.rules._replace(now_ms=now_ms)
        assert offsets(cleaner.filter(first)[0]) == kept


def test_tombstones_above_the_forgettable_offset_stay():
    """On a tiered topic: where its archive has not been cleaned."""
    cleaner = Cleaner()
    batch = batch_of(5, (b"a", None), (b"b", None))
    cleaner.learn(batch)
    [first] = cleaner.filter(batch)
    later = NOW_MS + RETENTION_MS
    for forgettable_below, kept in ((0, [5, 6]), (6, [6]), (7, None)):
        cleaner.rules = FilterRules(later, RETENTION_MS, 1000, forgettable_below)
        assert offsets(cleaner.filter(first)[0]) == kept


def marker(offset: int, kind: int) -> bytearray:
    return build_control_batch(
        kind, b"\0\0\0\0\0\1", offset=offset, timestamp_ms=100, leader_epoch=0, producer_id=7, producer_epoch=0,
        transactional=True,
    )  # fmt: skip


def data(offset: int) -> bytearray:
    return batch_of(offset, (b"t", b"1"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)


def test_aborted_records_go_at_once_and_their_marker_in_two_steps():
    """The marker stays while they stand before it, gets a horizon when they do not, and goes when it has passed."""
    cleaner = Cleaner(aborted=[AbortedTxn(7, 0, 1, 2)])
    records, end = data(0), marker(1, 0)
    assert [one and one.obj is end for one in cleaner.filter(records, end)] == [None, True]
    [again] = cleaner.filter(end)
    assert read_header(again).has_delete_horizon
    assert cleaner.filter(again)[0].obj is again
    cleaner.rules = cleaner.rules._replace(now_ms=NOW_MS + RETENTION_MS)
    assert cleaner.filter(again) == [None]
    cleaner.rules = cleaner.rules._replace(forgettable_below=1)
    assert cleaner.filter(again)[0].obj is again


def test_the_last_batch_of_a_producer_is_emptied_not_removed():
    """An idempotent producer goes on where it was after a restart."""
    entry = ProducerEntry(7, 0)
    entry.remember(0, 0, 0, 100)
    old, new = data(0), batch_of(1, (b"t", b"2"))
    cleaner = Cleaner(producers=[entry])
    cleaner.learn(old, new)
    survivor, _ = cleaner.filter(old, new)
    assert offsets(survivor) == []
    again = cleaner.filter(survivor)
    assert again[0].obj is survivor
    cleaner.producers = []
    assert cleaner.filter(old, survivor) == [None, None]


@pytest.mark.parametrize(("epoch", "stays"), [(0, True), (1, False)])
def test_a_marker_that_is_the_last_batch_of_its_producer_stays_as_it_is(epoch, stays):
    """It has the epoch that fences older ones. kafka-python and aiokafka cannot read a control batch without a record."""
    cleaner = Cleaner(producers=[ProducerEntry(7, epoch)])
    [horizon] = cleaner.filter(marker(1, 1))
    cleaner.rules = cleaner.rules._replace(now_ms=NOW_MS + RETENTION_MS)
    [left] = cleaner.filter(horizon)
    assert left.obj is horizon if stays else left is None


def test_a_marker_with_which_a_leader_epoch_begins_stays_as_it_is():
    """A coordinator often writes the first batch of a new leader."""
    cleaner = Cleaner()
    [horizon] = cleaner.filter(marker(1, 0))
    cleaner.rules = cleaner.rules._replace(now_ms=NOW_MS + RETENTION_MS, epoch_starts=frozenset({1}))
    assert cleaner.filter(horizon)[0].obj is horizon
    header = read_header(horizon)
    emptied = emptied_batch(header)  # as an earlier version left it
    assert cleaner.filter(emptied)[0].obj is emptied


def test_the_last_tombstone_that_goes_is_counted():
    """Exactly: a copy that ends behind it has had it. One that a later record of its key supersedes is missed by no copy."""
    cleaner = Cleaner()
    cleaner.rules = cleaner.rules._replace(end_offset=12)
    batches = [
        batch_of(0, (b"a", None), (b"b", b"1")),
        batch_of(5, (b"c", None)),
        batch_of(8, (b"d", None)),
        batch_of(10, (b"d", b"2"), (b"e", b"1")),
    ]
    cleaner.learn(*batches)
    first = [one for one in cleaner.filter(*batches) if one is not None]
    assert cleaner.last.counts.forgotten_below == 0
    cleaner.rules = cleaner.rules._replace(now_ms=NOW_MS + RETENTION_MS)
    for forgettable_below, expected in ((0, 0), (1, 1), (5, 1), (6, 6)):
        cleaner.rules = cleaner.rules._replace(forgettable_below=forgettable_below)
        cleaner.filter(*first)
        assert cleaner.last.counts.forgotten_below == expected


def test_a_tombstone_counts_whose_batch_stays_as_a_header():
    """The header says nothing of its key."""
    cleaner = Cleaner()
    batch = batch_of(4, (b"a", None))
    cleaner.learn(batch)
    [first] = cleaner.filter(batch)
    cleaner.rules = cleaner.rules._replace(now_ms=NOW_MS + RETENTION_MS, end_offset=5)
    assert offsets(cleaner.filter(first)[0]) == []
    assert cleaner.last.counts.forgotten_below == 5


@pytest.mark.parametrize(("epoch", "expected"), [(0, 0), (1, 2)])
def test_a_marker_that_goes_counts_and_one_that_stays_does_not(epoch, expected):
    """One that is the last word of its producer stays as it is: it ends the transaction of each copy."""
    cleaner = Cleaner(producers=[ProducerEntry(7, epoch)])
    [horizon] = cleaner.filter(marker(1, 1))
    assert cleaner.last.counts.forgotten_below == 0
    cleaner.rules = cleaner.rules._replace(now_ms=NOW_MS + RETENTION_MS)
    cleaner.filter(horizon)
    assert cleaner.last.counts.forgotten_below == expected


def test_the_batch_at_the_end_of_the_section_stays_as_a_header():
    """So the log still says how far it went."""
    cleaner = Cleaner()
    old, new = batch_of(0, (b"a", b"1")), batch_of(1, (b"a", b"2"))
    cleaner.learn(old, new)
    cleaner.rules = cleaner.rules._replace(end_offset=1)
    assert offsets(cleaner.filter(old)[0]) == []


def test_keys_below_the_first_dirty_offset_are_not_mapped():
    """The first dirty offset may lie inside a batch."""
    batch = batch_of(0, (b"a", b"1"), (b"b", b"1"))
    offset_map = OffsetMap(1000, 1.0)
    assert add_keys(read_header(batch), memoryview(batch), offset_map, 1)
    assert (offset_map.get(b"a"), offset_map.get(b"b")) == (-1, 1)
