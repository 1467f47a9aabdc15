from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stratalog.tier.cache import Admission, ChunkCache
from stratalog.tier.commands import FilledChunk
from stratalog.tier.remote_log import ChunkId
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
    """The first one starts it, the others wait, and all are told."""
    cache = ChunkCache(100)
    assert cache.ask(chunk(1), 10, "a", 0) is Admission.FILL
    assert cache.ask(chunk(1), 10, "b", 0) is Admission.WAIT
    assert cache.get(chunk(1), "a", 0) is None
    assert cache.filled(chunk(1), file_of(1), 0) == ["a", "b"]
    assert cache.ask(chunk(1), 10, "c", 0) is Admission.HIT
    assert (cache.hits, cache.misses) == (1, 1)


def test_a_reader_that_finds_a_chunk_here_is_a_hit_once():
    """However often it asks; who waited for the fill is no hit, who comes back after reading past is one again."""
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
    assert cache.take_evicted() == [found]


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
    assert cache.failed(chunk(1)) == ["a"]
    assert cache.used_bytes == 0
    assert cache.failed(chunk(1)) == []
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
    """However long the fill takes and whoever left."""
    cache = ChunkCache(10)
    cache.ask(chunk(1), 10, "a", 0)
    cache.leave("a")
    assert cache.ask(chunk(2), 10, "b", 10**6) is Admission.THROTTLED
    assert cache.filled(chunk(1), file_of(1), 10**6) == []
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


def test_files_found_at_start_up_are_taken_in_while_there_is_room():
    """They are evictable at once."""
    cache = ChunkCache(15)
    assert cache.restore(chunk(1), file_of(1))
    assert not cache.restore(chunk(1), file_of(1))
    assert not cache.restore(chunk(2), file_of(2))
    assert cache.ask(chunk(3), 15, "r", 0) is Admission.FILL
    assert [gone.path for gone in cache.take_evicted()] == ["/cache/1"]


def test_a_fill_nobody_asked_for_is_an_error():
    """A late answer to an abandoned fill must not enter the books."""
    cache = ChunkCache(10)
    with pytest.raises(Invalid):
        cache.filled(chunk(1), file_of(1), 0)


class CacheMachine(RuleBasedStateMachine):
    """Random readers against the books."""

    def __init__(self):
        super().__init__()
        self.cache = ChunkCache(50, pin_ms=100)
        self.now_ms = 0
        self.filling = set()
        self.present = {}

    @rule(number=st.integers(0, 9), reader=st.integers(0, 3), length=st.integers(1, 30))
    def ask(self, number, reader, length):
        answer = self.cache.ask(chunk(number), length, reader, self.now_ms)
        assert (answer is Admission.HIT) == (number in self.present)
        assert (answer is Admission.WAIT) == (number in self.filling)
        if answer is Admission.FILL:
            self.filling.add(number)

    @precondition(lambda self: self.filling)
    @rule(data=st.data())
    def finish(self, data):
        number = data.draw(st.sampled_from(sorted(self.filling)))
        self.filling.discard(number)
        if data.draw(st.booleans()):
            length = self.cache._slots[chunk(number)].length
            self.cache.filled(chunk(number), file_of(number, length), self.now_ms)
            self.present[number] = length
        else:
            self.cache.failed(chunk(number))

    @rule(number=st.integers(0, 9), reader=st.integers(0, 3))
    def move_on(self, number, reader):
        self.cache.read_past(chunk(number), reader)

    @rule(reader=st.integers(0, 3))
    def leave(self, reader):
        self.cache.leave(reader)

    @rule(step_ms=st.integers(1, 200))
    def wait(self, step_ms):
        self.now_ms += step_ms

    @invariant()
    def the_books_agree(self):
        for path in (gone.path for gone in self.cache.take_evicted()):
            del self.present[int(path.rsplit("/", 1)[1])]
        slots = self.cache._slots
        assert {c.number for c, s in slots.items() if s.chunk} == set(self.present)
        assert {c.number for c, s in slots.items() if not s.chunk} == self.filling
        assert self.cache.used_bytes == sum(s.length for s in slots.values()) <= 50
        pinned = {c for c, s in slots.items() if s.pins or not s.chunk}
        assert set(self.cache._pinned) == pinned


TestCacheBooks = CacheMachine.TestCase
TestCacheBooks.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
