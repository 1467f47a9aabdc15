"""The rest of a batch, by the offsets that stay or go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from crc32c import crc32c

from stratalog.hot.cleaner.horizons import HorizonRules
from stratalog.hot.cleaner.records import emptied_batch
from stratalog.spark.rewrite.filter import (
    DoomedFilter,
    SurvivorFilter,
    aborted_by_producer,
    code_of,
)
from stratalog.wire.batch import (
    HEADER_BYTES,
    Record,
    build_batch,
    build_control_batch,
    check_batch,
    iter_records,
    read_header,
)
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt

RULES = HorizonRules(now_ms=10_000, delete_retention_ms=500, forgettable_below=0)
WHOSE: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "transactional": True, "leader_epoch": 0}


def codes(*offsets: int, flagged: tuple[int, ...] = ()) -> Any:
    return np.array([code_of(offset, flagged=offset in flagged) for offset in offsets], np.int64)


def batch(*offsets: int, gone: tuple[int, ...] = (), codec: Codec = Codec.NONE, **options: Any) -> bytes:
    records = [Record(o, 1_000 + o, b"k%d" % o, None if o in gone else b"v%d" % o) for o in offsets]
    return bytes(build_batch(records, codec=codec, leader_epoch=3, **options))


def marker(offset: int, *, commit: bool, producer_id: int = 7) -> bytes:
    return bytes(
        build_control_batch(
            int(commit), bytes(6), offset=offset, timestamp_ms=5, **{**WHOSE, "producer_id": producer_id}
        )
    )


def left(chosen: Any, data: bytes) -> Any:
    found = chosen.left(read_header(data), memoryview(data))
    if found is not None:
        check_batch(found)
    return found


def survivors(kept: Any, *, rules: HorizonRules = RULES, aborted: Any = ()) -> SurvivorFilter:
    return SurvivorFilter(kept, aborted_by_producer(aborted), rules)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD, Codec.GZIP])
def test_records_stay_at_their_offsets_and_times(codec: Codec) -> None:
    """Under the same codec, with the same header but for the count."""
    data = batch(*range(10, 20), codec=codec)
    chosen = survivors(codes(12, 19))
    found = left(chosen, data)
    chosen.finish()
    assert [(one.offset, one.timestamp_ms, one.key, one.value) for one in iter_records(found)] == [
        (o, 1_000 + o, b"k%d" % o, b"v%d" % o) for o in (12, 19)
    ]
    header = read_header(found)
    assert (header.base_offset, header.next_offset, header.codec, header.partition_leader_epoch) == (10, 20, codec, 3)
    assert (chosen.counts.records, chosen.counts.records_kept, chosen.counts.kept_whole) == (10, 2, 0)


def test_a_batch_that_keeps_all_is_passed_on_and_an_emptied_one_is_gone() -> None:
    """Both without a look inside."""
    chosen = survivors(codes(0, 1, 2))
    data = memoryview(batch(0, 1, 2))
    assert chosen.left(read_header(data), data) is data
    assert left(chosen, batch(3, 4)) is None
    empty = bytes(emptied_batch(read_header(batch(5, 6))))
    assert left(chosen, empty) is None
    chosen.finish()
    assert chosen.counts.kept_whole == 1


def test_an_offset_that_is_not_found_is_an_error() -> None:
    """A record that should stay and is not there: the objects are not those whose keys were read."""
    chosen = survivors(codes(1, 5))
    left(chosen, batch(0, 1, 2))
    with pytest.raises(Corrupt, match="1 of 2 records"):
        chosen.finish()
    chosen = survivors(codes(4))
    with pytest.raises(Corrupt, match="at offset 3"):
        left(chosen, batch(3, 5, 6))
    chosen = survivors(codes(4, flagged=(4,)))
    with pytest.raises(Corrupt, match="at offset 3"):
        left(chosen, batch(3, 5, 6))


def test_tombstones_get_a_horizon_first_and_go_when_it_is_over() -> None:
    """Below the offset up to which an earlier compaction cleaned; times of other records stay through both."""
    data = batch(0, 1, 2, gone=(1,))
    found = bytes(left(survivors(codes(1, 2, flagged=(1,))), data))
    header = read_header(found)
    assert (header.has_delete_horizon, header.base_timestamp) == (True, 10_500)
    assert [(one.offset, one.timestamp_ms, one.value) for one in iter_records(found)] == [
        (1, 1_001, None), (2, 1_002, b"v2"),
    ]  # fmt: skip
    early = RULES._replace(now_ms=10_499, forgettable_below=9)
    assert bytes(left(survivors(codes(1, 2, flagged=(1,)), rules=early), found)) == found
    above = RULES._replace(now_ms=10_500, forgettable_below=1)
    assert bytes(left(survivors(codes(1, 2, flagged=(1,)), rules=above), found)) == found
    due = RULES._replace(now_ms=10_500, forgettable_below=2)
    chosen = survivors(codes(1, 2, flagged=(1,)), rules=due)
    assert [(one.offset, one.timestamp_ms) for one in iter_records(left(chosen, found))] == [(2, 1_002)]
    assert chosen.counts.tombstones_dropped == 1
    assert left(survivors(codes(1, flagged=(1,)), rules=due), found) is None


def test_aborted_records_go_and_those_of_other_transactions_stay() -> None:
    """By the object's own list."""
    chosen = survivors(codes(6), aborted=[(7, 0, 3, 4), (7, 0, 3, 4)])
    assert left(chosen, bytes(build_batch([Record(0, 1, b"k", b"v")], base_sequence=0, **WHOSE))) is None
    assert left(chosen, bytes(build_batch([Record(6, 1, b"k", b"v")], base_sequence=1, **WHOSE))) is not None
    chosen.finish()


def test_an_abort_marker_goes_after_its_records() -> None:
    """It stays until an earlier compaction has cleaned past it, then gets its horizon, then goes."""
    data = marker(3, commit=False)
    assert bytes(left(survivors(codes(), aborted=[(7, 0, 3, 4)]), data)) == data
    past = RULES._replace(forgettable_below=4)
    found = bytes(left(survivors(codes(), rules=past), data))
    assert (read_header(found).has_delete_horizon, read_header(found).base_timestamp) == (True, 10_500)
    assert bytes(left(survivors(codes(), rules=past), found)) == found
    assert left(survivors(codes(), rules=past._replace(now_ms=10_500)), found) is None
    assert left(survivors(codes(), rules=RULES._replace(now_ms=10_500)), found) is not None


def test_a_commit_marker_stays_while_a_record_of_its_transaction_may() -> None:
    """The first one in a range may end a transaction that began before it."""
    rules = RULES._replace(forgettable_below=100)
    chosen = survivors(codes(2), rules=rules)
    first, second, third = marker(1, commit=True), marker(3, commit=True), marker(5, commit=True)
    assert bytes(left(chosen, first)) == first
    left(chosen, bytes(build_batch([Record(2, 1, b"k", b"v")], base_sequence=0, **WHOSE)))
    assert bytes(left(chosen, second)) == second
    assert left(chosen, bytes(build_batch([Record(4, 1, b"k", b"v")], base_sequence=1, **WHOSE))) is None
    found = bytes(left(chosen, third))
    assert read_header(found).has_delete_horizon
    other = marker(6, commit=True, producer_id=8)
    assert bytes(left(chosen, other)) == other
    later = survivors(codes(), rules=rules._replace(now_ms=20_000))
    left(later, first)
    assert left(later, found) is None


def test_control_records_that_are_no_markers_stay() -> None:
    """They are not a cleaner's business; those that were emptied go."""
    change = bytes(build_control_batch(2, bytes(6), offset=0, timestamp_ms=5, leader_epoch=0))
    assert bytes(left(survivors(codes()), change)) == change
    assert left(survivors(codes()), bytes(emptied_batch(read_header(marker(3, commit=True))))) is None


def test_erased_records_go_and_everything_else_stays_as_it_stood() -> None:
    """Markers, aborted batches and emptied ones too."""
    chosen = DoomedFilter(codes(1, 2, 8))
    found = left(chosen, batch(0, 1, 2, 3, codec=Codec.LZ4))
    assert [one.offset for one in iter_records(found)] == [0, 3]
    whole = memoryview(batch(4, 5))
    assert chosen.left(read_header(whole), whole) is whole
    assert left(chosen, batch(8)) is None
    end = memoryview(marker(9, commit=True))
    assert chosen.left(read_header(end), end) is end
    chosen.finish()
    assert (chosen.counts.records, chosen.counts.records_kept, chosen.counts.kept_whole) == (8, 5, 2)


def test_a_missing_offset_to_erase_is_an_error() -> None:
    """No reader learns that it was."""
    chosen = DoomedFilter(codes(1, 7))
    left(chosen, batch(0, 1))
    with pytest.raises(Corrupt, match="1 of 2 records to be erased"):
        chosen.finish()
    with pytest.raises(Corrupt, match="at offset 3"):
        left(DoomedFilter(codes(4)), batch(3, 5, 6))


def made_up(*deltas: int) -> bytes:
    """A batch from offset 40 on, of records with these offset deltas and the keys k0, k1 ..., sealed by a client itself."""
    count = len(deltas)
    data = bytearray(build_batch([Record(40 + n, 1_040, b"k%d" % n, b"v%d" % n) for n in range(count)], leader_epoch=3))
    at = HEADER_BYTES
    for delta in deltas:
        data[at + 3] = delta << 1
        at += 1 + (data[at] >> 1)
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize("deltas", [(50, 51), (1, 0), (0, 0)])
def test_records_with_offset_deltas_that_a_client_made_up_are_met_by_their_order(deltas: tuple[int, int]) -> None:
    """At the offsets at which a reader finds them: one goes, the other stays."""
    for chosen in (survivors(codes(41)), survivors(codes(41, flagged=(41,))), DoomedFilter(codes(40))):
        found = left(chosen, made_up(*deltas))
        assert [(one.offset, one.key) for one in iter_records(found)] == [(41, b"k1")]
        chosen.finish()
    assert left(survivors(codes(40, 41)), made_up(*deltas)) == made_up(*deltas)
