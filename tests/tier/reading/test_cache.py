"""The books of the chunk cache; random readers are in test_cache_model.py."""

from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace

from stratalog.tier.messages.commands import FilledChunk
from stratalog.tier.reading.cache import Admission, CacheLimits, ChunkCache
from stratalog.tier.reading.remote_log import ChunkId
from stratalog.wire.errors import Invalid


def chunk(number):
    """The id of one chunk."""
    return ChunkId(bytes(16), number)


def file_of(number, length=10):
    """A filled file with index entries every ten offsets and 5 bytes."""
    offsets, positions = array("q", [0, 10, 20]), array("i", [0, 5, 10])
    return FilledChunk(f"/cache/{number}", length, offsets.tobytes(), positions.tobytes(), 30)


def fill(cache, number, reader="r", now_ms=0, length=10):
    """Ask for a chunk and fill it."""
    assert cache.ask(chunk(number), length, reader, now_ms) is Admission.FILL
    return cache.filled(chunk(number), file_of(number, length), now_ms)


def test_many_readers_cost_one_fill():
    """The first one starts it, the others wait, and all get the result."""
    cache = ChunkCache(100)
    assert cache.ask(chunk(1), 10, "a", 0) is Admission.FILL
    assert cache.ask(chunk(1), 10, "b", 0) is Admission.WAIT
    assert cache.get(chunk(1), "a", 0) is None
    assert cache.filled(chunk(1), file_of(1), 0) == ("a", "b")
    assert cache.ask(chunk(1), 10, "c", 0) is Admission.HIT
    assert (cache.hits, cache.misses) == (1, 1)


def test_a_reader_that_finds_a_chunk_here_is_a_hit_once():
    """A reader's second request is no hit, nor one that waited for the fill; a reader that read past and comes back is."""
    cache = ChunkCache(100)
    fill(cache, 1, reader="a")
    for reader in ("a", "b", "b"):
        assert cache.get(chunk(1), reader, 0) is not None
    cache.ask(chunk(1), 10, "b", 0)
    assert (cache.hits, cache.misses) == (1, 1)
    cache.read_past(chunk(1), "a")
    assert cache.get(chunk(1), "a", 0) is not None
    assert (cache.hits, cache.misses) == (2, 1)


def test_where_a_chunk_lies_is_kept_until_it_is_handed_out():
    """Its place in a shared file, also when it is evicted while it is being checked again."""
    cache = ChunkCache(10)
    cache.ask(chunk(1), 10, "a", 0)
    shared = replace(file_of(1), start=500, shared=True)
    cache.filled(chunk(1), shared, 0)
    found = cache.get(chunk(1), "a", 0)
    assert (found.path, found.start, found.shared) == ("/cache/1", 500, True)
    assert cache.ask(chunk(1), 10, "a", 30_000) is Admission.FILL
    assert cache.path_to_check(chunk(1)) is None
    cache.failed(chunk(1))
    assert cache.take_evicted() == [("/cache/1", True)]


def test_a_file_of_the_cache_is_checked_where_it_is():
    """If the chunk is somewhere else afterwards, its old file goes."""
    cache = ChunkCache(10)
    fill(cache, 1)
    assert cache.path_to_check(chunk(1)) is None
    cache.ask(chunk(1), 10, "a", 30_000)
    assert cache.path_to_check(chunk(1)) == "/cache/1"
    cache.filled(chunk(1), replace(file_of(1), path="/bucket/1", shared=True), 30_000)
    assert [(gone.path, gone.shared) for gone in cache.take_evicted()] == [("/cache/1", False)]


def test_a_failed_fill_frees_its_space_and_tells_the_waiters():
    """The next one to ask starts it again."""
    cache = ChunkCache(10)
    cache.ask(chunk(1), 10, "a", 0)
    assert cache.failed(chunk(1)) == ("a",)
    assert cache.used_bytes == 0
    assert cache.failed(chunk(1)) == ()
    assert cache.ask(chunk(2), 10, "a", 0) is Admission.FILL


def test_the_least_recently_used_chunk_goes_first():
    """Its path is handed out once, to be removed."""
    cache = ChunkCache(30)
    for number in (1, 2, 3):
        fill(cache, number)
        cache.read_past(chunk(number), "r")
    cache.get(chunk(1), "r", 1)
    cache.read_past(chunk(1), "r")
    fill(cache, 4)
    assert [gone.path for gone in cache.take_evicted()] == ["/cache/2"]
    assert cache.take_evicted() == []
    assert cache.used_bytes == 30


def test_a_pinned_chunk_stays_until_it_is_read_past_or_30_seconds():
    """A slow reader keeps what he is reading; a vanished one does not keep it for ever."""
    cache = ChunkCache(10)
    fill(cache, 1, now_ms=0)
    assert cache.ask(chunk(2), 10, "r", 29_999) is Admission.THROTTLED
    assert cache.get(chunk(1), "r", 29_999)
    assert cache.ask(chunk(2), 10, "r", 30_001) is Admission.THROTTLED
    assert cache.ask(chunk(2), 10, "r", 60_000) is Admission.FILL
    assert [gone.path for gone in cache.take_evicted()] == ["/cache/1"]


def test_a_chunk_being_filled_is_never_evicted():
    """A fill that takes long, and whose reader has left, keeps its place: another fill is throttled until it is done."""
    cache = ChunkCache(10)
    cache.ask(chunk(1), 10, "a", 0)
    cache.leave("a")
    assert cache.ask(chunk(2), 10, "b", 10**6) is Admission.THROTTLED
    assert cache.filled(chunk(1), file_of(1), 10**6) == ()
    assert cache.ask(chunk(2), 10, "b", 10**6) is Admission.FILL


def test_new_streams_are_throttled_when_most_is_pinned():
    """Above 80 % those under way may go on, newcomers wait, and come in when a reader has moved on."""
    cache = ChunkCache(100)
    for number in range(9):
        fill(cache, number, reader=number % 3)
    assert cache.pinned_bytes == 90
    assert cache.ask(chunk(20), 10, "new", 0) is Admission.THROTTLED
    assert cache.ask(chunk(21), 10, 0, 0) is Admission.FILL
    cache.leave(0)
    cache.leave(1)
    assert cache.ask(chunk(20), 10, "new", 0) is Admission.FILL


def test_readers_that_are_gone_make_room_for_new_ones():
    """Their chunks may be evicted. They are looked for once a second at most; those of present readers stay."""
    gone, looked = set(), []
    cache = ChunkCache(CacheLimits(100, share_percent=50), is_gone=lambda one: bool(looked.append(one)) or one in gone)
    for number in range(6):
        assert cache.ask(chunk(number), 10, number % 3, 0, "t") is Admission.FILL
        cache.filled(chunk(number), file_of(number), 0)
    assert cache.ask(chunk(9), 10, "new", 0, "t") is Admission.THROTTLED
    assert len(looked) == 3
    gone |= {0, 1}
    assert cache.ask(chunk(9), 10, "new", 999, "t") is Admission.THROTTLED
    assert len(looked) == 3
    assert cache.ask(chunk(9), 10, "new", 1000, "t") is Admission.FILL
    assert cache.pinned_bytes == 30


def test_an_offset_is_looked_up_in_the_sparse_index():
    """The border at or before it, from which the batches are walked."""
    cache = ChunkCache(10)
    fill(cache, 1)
    found = cache.get(chunk(1), "r", 0)
    assert [found.position_before(offset) for offset in (0, 9, 10, 25, 99)] == [0, 0, 5, 10, 10]


def test_a_damaged_chunk_is_forgotten_although_it_is_pinned():
    """It will be filled anew."""
    cache = ChunkCache(10)
    fill(cache, 1)
    cache.forget(chunk(1))
    assert [gone.path for gone in cache.take_evicted()] == ["/cache/1"]
    assert cache.ask(chunk(1), 10, "r", 0) is Admission.FILL
    cache.forget(chunk(1))
    assert len(cache) == 1


def test_files_found_at_start_up_are_checked_before_they_are_served():
    """They are taken in while there is room, evictable at once, and filled without being missed."""
    cache = ChunkCache(15)
    assert cache.restore(chunk(1), "/cache/1", 10)
    assert not cache.restore(chunk(1), "/cache/1", 10)
    assert not cache.restore(chunk(2), "/cache/2", 10)
    assert not cache.lacks(chunk(1))
    assert cache.get(chunk(1), "r", 0) is None
    assert cache.ask(chunk(1), 10, "r", 0) is Admission.FILL
    assert cache.path_to_check(chunk(1)) == "/cache/1"
    cache.filled(chunk(1), file_of(1), 0)
    assert cache.get(chunk(1), "r", 0).path == "/cache/1"
    assert cache.misses == 0
    cache.leave("r")
    assert cache.ask(chunk(3), 15, "r", 0) is Admission.FILL
    assert [gone.path for gone in cache.take_evicted()] == ["/cache/1"]


def test_one_long_scan_does_not_drive_out_what_is_read_again():
    """Chunks that two readers used stay; those that one used go."""
    cache = ChunkCache(100)
    for reader in ("a", "b"):
        for number in (0, 1):
            if cache.ask(chunk(number), 10, reader, 0) is Admission.FILL:
                cache.filled(chunk(number), file_of(number), 0)
            cache.read_past(chunk(number), reader)
    for number in range(10, 40):
        fill(cache, number, reader="scan")
        cache.read_past(chunk(number), "scan")
    assert not cache.lacks(chunk(0))
    assert not cache.lacks(chunk(1))
    assert cache.evictions == 22


def test_reading_a_chunk_in_many_steps_is_one_use():
    """A reader who takes a quarter of the chunk at a time proves nothing."""
    cache = ChunkCache(20)
    fill(cache, 1)
    for _ in range(4):
        cache.get(chunk(1), "r", 0)
    cache.read_past(chunk(1), "r")
    fill(cache, 2)
    cache.read_past(chunk(2), "r")
    fill(cache, 3)
    assert [gone.path for gone in cache.take_evicted()] == ["/cache/1"]


def share_fill(cache, number, share, reader="r"):
    """As `fill`, for a topic, and read past."""
    assert cache.ask(chunk(number), 10, reader, 0, share) is Admission.FILL
    cache.filled(chunk(number), file_of(number), 0)
    cache.read_past(chunk(number), reader)


def test_a_topic_over_its_share_pays_first():
    """It may use all room that others do not need; when they do, its chunks go, however new."""
    cache = ChunkCache(CacheLimits(100, share_percent=50))
    for number in range(3):
        share_fill(cache, number, "small")
    for number in range(10, 17):
        share_fill(cache, number, "large")
    assert cache.take_evicted() == []
    share_fill(cache, 20, "other")
    share_fill(cache, 21, "large")
    assert [gone.path for gone in cache.take_evicted()] == ["/cache/10", "/cache/11"]
    assert not any(cache.lacks(chunk(number)) for number in range(3))


def test_a_topic_that_pins_more_than_its_share_keeps_new_streams_waiting():
    """Its own ones, not those of others."""
    cache = ChunkCache(CacheLimits(100, share_percent=50))
    for number in range(6):
        assert cache.ask(chunk(number), 10, number, 0, "large") is Admission.FILL
    assert cache.ask(chunk(6), 10, "new", 0, "large") is Admission.THROTTLED
    assert cache.ask(chunk(7), 10, 3, 0, "large") is Admission.FILL
    assert cache.ask(chunk(8), 10, "new", 0, "small") is Admission.FILL


def test_a_disk_that_fills_up_takes_room_from_the_cache():
    """Chunks go until what is to be left free is free; when it is, they may come again."""
    cache = ChunkCache(CacheLimits(100, free_bytes_min=1000))
    for number in range(10):
        fill(cache, number)
        cache.read_past(chunk(number), "r")
    cache.note_free(1000)
    assert cache.take_evicted() == []
    cache.note_free(975)
    assert [gone.path for gone in cache.take_evicted()] == ["/cache/0", "/cache/1", "/cache/2"]
    assert cache.limit_bytes == 75
    fill(cache, 20)
    assert [gone.path for gone in cache.take_evicted()] == ["/cache/3"]
    cache.note_free(10**6)
    assert cache.limit_bytes == 100


def test_chunks_served_from_the_archive_itself_take_no_room_on_the_disk():
    """They are not what fills it."""
    cache = ChunkCache(CacheLimits(100, free_bytes_min=1000))
    cache.ask(chunk(1), 10, "a", 0)
    cache.filled(chunk(1), replace(file_of(1), start=500, shared=True), 0)
    fill(cache, 2)
    cache.note_free(1000)
    assert cache.limit_bytes == 10


def test_a_held_chunk_stays_until_its_time_is_over():
    """For any reader; but no more than half of the cache may be held."""
    cache = ChunkCache(100)
    for number in range(6):
        fill(cache, number)
        cache.read_past(chunk(number), "r")
    assert not cache.hold(chunk(99), 1000)
    assert all(cache.hold(chunk(number), 1000) for number in range(5))
    assert not cache.hold(chunk(5), 1000)
    assert cache.hold(chunk(0), 2000)
    assert cache.pinned_bytes == 50
    for number in range(10, 30):
        fill(cache, number)
        cache.read_past(chunk(number), "r")
    assert not any(cache.lacks(chunk(number)) for number in range(5))
    fill(cache, 40, now_ms=1000)
    assert cache.pinned_bytes == 20
    assert cache.hold(chunk(1), 3000)
    cache.forget(chunk(1))
    assert cache.ask(chunk(41), 10, "r", 2000) is Admission.FILL
    assert cache.pinned_bytes == 20


def test_few_indexes_of_idle_chunks_are_kept():
    """Three of ten idle chunks keep their index; a chunk without its index is checked again before it is served."""
    cache = ChunkCache(1000, indexes_kept=3)
    for number in range(10):
        fill(cache, number)
        cache.read_past(chunk(number), "r")
    assert sum(cache.get(chunk(number), "r", 0) is not None for number in range(10)) == 3
    assert cache.ask(chunk(0), 10, "r", 0) is Admission.FILL
    assert cache.path_to_check(chunk(0)) == "/cache/0"


def test_an_unrequested_fill_is_an_error():
    """A late answer to an abandoned fill must not enter the books."""
    cache = ChunkCache(10)
    with pytest.raises(Invalid):
        cache.filled(chunk(1), file_of(1), 0)
