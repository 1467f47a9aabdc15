"""Tests of hot/segments/segment.py."""

import os
from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.segments.log_summary import ActiveSummary
from stratalog.hot.segments.segment import Segment
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.hot.segments.transaction_index import AbortedTxn, aborted_to_bytes
from stratalog.wire.errors import Corrupt


@pytest.fixture
def make(make_segment):
    return make_segment


@pytest.fixture
def batches(make_batch):
    return [(offset, make_batch(offset, timestamp_ms=1000 + offset)) for offset in range(40, 60)]


def test_the_file_names_are_20_digits_of_the_base_offset(make, batches, tmp_path):
    """With Kafka's suffixes."""
    make(40, batches)
    names = [f"{40:020d}{suffix}" for suffix in (".index", ".log", ".timeindex")]
    assert sorted(entry.name for entry in Path(tmp_path).iterdir()) == names


def test_an_offset_is_located_by_index_and_scan(make, batches):
    """At every offset, below the first and behind the last."""
    segment = make(40, batches)
    size = len(batches[0][1])
    assert [segment.locate(offset)[0] for offset in range(40, 60)] == [number * size for number in range(20)]
    assert segment.locate(0)[0] == 0
    assert segment.locate(60) is None


def test_a_frozen_segment_gives_its_indexes_back_and_loads_them_again(make, batches):
    """The same answers from the files."""
    segment = make(40, batches)
    before = segment.indexes.offsets.to_bytes(), segment.max_timestamp
    segment.freeze()
    segment.release()
    assert not segment.has_indexes
    assert segment.max_timestamp == before[1]
    assert segment.indexes.offsets.to_bytes() == before[0]


def test_index_files_that_point_beyond_their_log_are_rebuilt(make, batches, tmp_path):
    """A stale index of another life of the segment."""
    segment = make(40, batches)
    expected = segment.indexes.offsets.to_bytes()
    path = tmp_path / f"{40:020d}.index"
    path.write_bytes(expected + bytes.fromhex("0fffffff 0fffffff"))
    segment.freeze()
    segment.release()
    assert segment.locate(59) is not None
    assert path.read_bytes() == expected


def test_a_file_that_is_held_open_elsewhere_is_not_opened_twice(make, batches):
    """A segment that the cache let go of takes its file back from another holder; a released one does not."""
    cache = SegmentCache(open_max=1)
    segment = make(40, batches, cache=cache)
    file = segment.file
    make(60, [], cache=cache).file.fileno()
    assert cache.held_count == 1
    assert segment.file is file
    segment.release()
    assert segment.file is not file
    segment.lend()
    segment.release()
    number = file.fileno()
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)  # no other holder: it was closed


def test_an_active_segment_that_is_released_keeps_what_is_not_stored(make, batches):
    """Only its descriptor goes."""
    segment = make(40, batches)
    entries = len(segment.indexes.offsets)
    segment.release()
    assert len(segment.indexes.offsets) == entries
    assert segment.locate(45) is not None


def test_aborted_transactions_are_appended_and_rewritten(make, batches, tmp_path):
    """The file appears with the first abort and goes with the last."""
    segment = make(40, batches)
    path = tmp_path / f"{40:020d}.txnindex"
    assert segment.aborted == []
    segment.store_indexes(final=False)
    assert not path.exists()
    segment.aborted.append(AbortedTxn(1, 40, 41, 42))
    segment.store_indexes(final=False)
    segment.aborted.append(AbortedTxn(1, 43, 44, 45))
    segment.store_indexes(final=False)
    assert path.stat().st_size == 68
    segment.replace_aborted(segment.aborted[:1])
    segment.store_indexes(final=False)
    assert path.stat().st_size == 34
    segment.replace_aborted([])
    segment.store_indexes(final=False)
    assert not path.exists()


def test_segment_info_gives_offsets_size_times_and_path(make, batches, tmp_path):
    """Offsets, sizes and times for retention and tiering."""
    info = make(40, batches).info(active=False)
    assert (info.base_offset, info.end_offset, info.first_append_ms, info.max_timestamp_ms) == (40, 60, 5, 1059)
    assert info.size_bytes == Path(info.path).stat().st_size


def test_an_empty_segment_is_described_without_indexes(files, tmp_path):
    """Retention asks every log of a broker: each would get eight objects that stay."""
    segment = Segment(files, str(tmp_path), 40, LogConfig(), SegmentCache())
    assert segment.info(active=True).max_timestamp_ms == -1
    assert segment.max_timestamp.offset == segment.base_offset
    assert not segment.has_indexes


def reopened(make, files, batches, *, stop: int) -> Segment:
    """An active segment whose first ``stop`` batches were stored and are known by their summary alone."""
    first = make(40, batches[:stop])
    known = ActiveSummary(40, 1, 0, "", first.indexes.tail(), 0, 0)
    size_bytes = first.size_bytes
    first.release()
    segment = Segment(
        files, str(Path(first.path()).parent), 40, first.config, SegmentCache(), size_bytes=size_bytes,
        next_offset=40 + stop,
    )  # fmt: skip
    segment.stored = known
    return segment


@pytest.mark.parametrize("harm", [None, "missing", "cut", "zero"])
@pytest.mark.parametrize("stop", [1, 3, 9])
def test_batches_are_added_without_reading_the_indexes_that_are_there(make, files, batches, stop, harm):
    """A look-up reads them, or derives them where they are not what they were, also before the batches are written."""
    segment = reopened(make, files, batches, stop=stop)
    assert segment.max_timestamp == (1039 + stop, 39 + stop)
    for offset, batch in batches[stop:]:
        assert not segment.must_roll(len(batch), offset, 1000 + offset, 5)
        segment.queue(batch, offset, 1000 + offset, 5)
    for suffix in (".index", ".timeindex"):
        path = Path(segment.path(suffix))
        if harm == "missing":
            path.unlink()
        elif harm is not None:
            path.write_bytes(path.read_bytes()[:-1] if harm == "cut" else bytes(path.stat().st_size))
    assert segment.max_timestamp == (1059, 59)
    assert segment.locate(40)[1].base_offset == 40
    segment.write_pending()
    assert [segment.locate(offset)[1].base_offset for offset, _ in batches] == [offset for offset, _ in batches]
    segment.store_indexes(final=True)
    stored = [Path(segment.path(suffix)).read_bytes() for suffix in (".index", ".timeindex")]
    whole = segment.rebuild_indexes()
    whole.close()
    assert stored[0] == whole.offsets.to_bytes()
    assert stored[1][-12:] == whole.times.to_bytes()[-12:]


def test_a_look_up_drops_the_stored_summary_of_an_index(make, files, batches):
    """The note holds only as long as no batch was added."""
    segment = reopened(make, files, batches, stop=5)
    assert segment.stored is not None
    assert not segment.has_indexes
    segment.locate(41)
    assert segment.stored is None
    assert segment.has_indexes


@pytest.mark.parametrize("byte", [3, 7])
def test_an_index_entry_that_leads_astray_is_noticed(make_segment, make_batch, byte):
    """The file has no checksum: whichever half of an entry is damaged, every offset is found, and the index rebuilt."""
    segment = make_segment(0, [(base, make_batch(base)) for base in range(12)])
    segment.freeze()
    path = Path(segment.path(".index"))
    good = path.read_bytes()
    for entry in range(0, len(good), 8):
        for bit in (1, 2, 4):
            data = bytearray(good)
            data[entry + byte] ^= bit
            path.write_bytes(data)
            segment.forget_indexes()
            for offset in range(12):
                assert segment.locate(offset)[1].base_offset == offset
            assert segment.locate(12) is None


def test_a_batch_that_claims_what_its_segment_cannot_hold_is_refused(make_segment, make_batch):
    """A changed byte in the second header raises `Corrupt` with the position of that header."""
    segment = make_segment(0, [(base, make_batch(base)) for base in range(3)])
    segment.freeze()
    path = Path(segment.path())
    good = path.read_bytes()
    second = len(good) // 3
    for at in (second, second + 16, second + 8):
        segment.release()
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :])
        with pytest.raises(Corrupt, match=f"position {second}"):
            segment.locate(1)


@pytest.mark.parametrize("room", [0, 8, 34, 50, 68, 100])
def test_index_entries_that_found_no_room_are_stored_with_the_next_try(full_disk, make_batch, tmp_path, room):
    """All of them once, whatever part of them a full disk took; also behind some that were stored before."""
    segment = Segment(full_disk, str(tmp_path), 0, LogConfig(index_interval_bytes=0), SegmentCache())
    for number in range(4):
        segment.queue(make_batch(number), number, 1000 + number, 5)
        segment.aborted.append(AbortedTxn(1, number, number, number + 1))
        if number == 1:
            segment.store_indexes(final=False)
    segment.write_pending()
    full_disk.room = room
    with pytest.raises(OSError, match="no space"):
        segment.store_indexes(final=False)
    full_disk.room = 1 << 20
    segment.store_indexes(final=False)
    expected = aborted_to_bytes(segment.aborted)
    assert Path(segment.path(".txnindex")).read_bytes() == expected
    assert Path(segment.path(".index")).read_bytes() == segment.indexes.offsets.to_bytes()
    assert Path(segment.path(".timeindex")).read_bytes() == segment.indexes.times.to_bytes()


def test_aborted_transactions_take_the_place_of_others_in_one_step(full_disk, tmp_path):
    """Without room the file stays as it is: a start sees that it is damaged, or believes it."""
    segment = Segment(full_disk, str(tmp_path), 0, LogConfig(), SegmentCache())
    path = Path(segment.path(".txnindex"))
    path.write_bytes(b"damaged")
    segment.replace_aborted([AbortedTxn(1, 0, 1, 2), AbortedTxn(1, 2, 3, 4)])
    full_disk.room = 34
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            segment.store_indexes(final=False)
        assert path.read_bytes() == b"damaged"
    full_disk.room = 1 << 20
    segment.store_indexes(final=False)
    assert path.read_bytes() == aborted_to_bytes(segment.aborted)
