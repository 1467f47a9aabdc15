"""The books of the chunk cache against a model that makes every sum anew."""

from __future__ import annotations

from array import array

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stratalog.tier.messages.commands import FilledChunk
from stratalog.tier.reading.cache import Admission, CacheLimits, ChunkCache
from stratalog.tier.reading.remote_log import ChunkId


def chunk(number):
    """The id of one chunk."""
    return ChunkId(bytes(16), number)


def file_of(number, length):
    """A filled file with an index of one entry."""
    return FilledChunk(f"/cache/{number}", length, array("q", [0]).tobytes(), array("i", [0]).tobytes(), 30)


class CacheMachine(RuleBasedStateMachine):
    """Random readers against a model without clever bookkeeping: every sum is made anew."""

    def __init__(self):
        super().__init__()
        self.cache = ChunkCache(CacheLimits(50, 60, 100), pin_ms=100, check_ms=10**9)
        self.now_ms = 0
        self.chunks = {}  # number -> {length, share, filling, pins, until}

    def held(self, one):
        return one["filling"] or one["pins"] or one["until"]

    def pinned_bytes(self, share=None):
        return sum(c["length"] for c in self.chunks.values() if self.held(c) and share in {None, c["share"]})

    def expire(self):
        for one in self.chunks.values():
            if not one["filling"]:
                one["pins"] = {reader: end for reader, end in one["pins"].items() if end > self.now_ms}
            if one["until"] <= self.now_ms:
                one["until"] = 0

    def expected(self, number, share, length, reader):
        if number in self.chunks:
            return Admission.WAIT if self.chunks[number]["filling"] else Admission.HIT
        self.expire()
        limit = self.cache.limit_bytes
        reads = any(reader in one["pins"] for one in self.chunks.values())
        crowded = self.pinned_bytes() > 0.8 * limit or self.pinned_bytes(share) > 30
        if crowded and not reads:
            return Admission.THROTTLED
        room = self.pinned_bytes() + length <= limit or not self.pinned_bytes()
        return Admission.FILL if room else Admission.THROTTLED

    def evict(self):
        for path in (gone.path for gone in self.cache.take_evicted()):
            gone = self.chunks.pop(int(path.rsplit("/", 1)[1]))
            assert not self.held(gone)

    @rule(number=st.integers(0, 9), reader=st.integers(0, 3), length=st.integers(1, 30))
    def ask(self, number, reader, length):
        share = "ab"[number % 2]
        expected = self.expected(number, share, length, reader)
        assert self.cache.ask(chunk(number), length, reader, self.now_ms, share) is expected
        self.evict()
        if expected is Admission.FILL:
            self.chunks[number] = {"length": length, "share": share, "filling": True, "pins": {}, "until": 0}
        if expected is not Admission.THROTTLED:
            self.chunks[number]["pins"][reader] = self.now_ms + 100

    @precondition(lambda self: any(one["filling"] for one in self.chunks.values()))
    @rule(data=st.data())
    def finish(self, data):
        number = data.draw(st.sampled_from(sorted(n for n, one in self.chunks.items() if one["filling"])))
        one = self.chunks[number]
        if data.draw(st.booleans()):
            readers = self.cache.filled(chunk(number), file_of(number, one["length"]), self.now_ms)
            one["filling"] = False
            one["pins"] = dict.fromkeys(one["pins"], self.now_ms + 100)
        else:
            readers = self.cache.failed(chunk(number))
            del self.chunks[number]
        assert set(readers) == set(one["pins"])

    @rule(number=st.integers(0, 9), length=st.integers(1, 30))
    def restore(self, number, length):
        used = sum(one["length"] for one in self.chunks.values())
        fits = number not in self.chunks and used + length <= self.cache.limit_bytes
        share = "ab"[number % 2]
        assert self.cache.restore(chunk(number), f"/cache/{number}", length, share) == fits
        if fits:
            assert self.cache.ask(chunk(number), length, "start", self.now_ms, share) is Admission.FILL
            self.cache.filled(chunk(number), file_of(number, length), self.now_ms)
            pins = {"start": self.now_ms + 100}
            self.chunks[number] = {"length": length, "share": share, "filling": False, "pins": pins, "until": 0}

    @rule(number=st.integers(0, 9), hold_ms=st.integers(1, 300))
    def hold(self, number, hold_ms):
        known = self.chunks.get(number)
        held = sum(one["length"] for one in self.chunks.values() if one["until"])
        fits = known is not None and (bool(known["until"]) or held + known["length"] <= 25)
        assert self.cache.hold(chunk(number), self.now_ms + hold_ms) == fits
        if fits:
            known["until"] = max(known["until"], self.now_ms + hold_ms)

    @rule(free_bytes=st.integers(60, 200))
    def look_at_the_disk(self, free_bytes):
        on_disk = sum(one["length"] for one in self.chunks.values() if not one["filling"])
        self.cache.note_free(free_bytes)
        assert self.cache.limit_bytes == min(50, max(0, on_disk + free_bytes - 100))
        self.evict()

    @rule(number=st.integers(0, 9), reader=st.integers(0, 3))
    def move_on(self, number, reader):
        self.cache.read_past(chunk(number), reader)
        if number in self.chunks:
            self.chunks[number]["pins"].pop(reader, None)

    @rule(reader=st.integers(0, 3))
    def leave(self, reader):
        self.cache.leave(reader)
        for one in self.chunks.values():
            one["pins"].pop(reader, None)

    @rule(number=st.integers(0, 9))
    def forget(self, number):
        one = self.chunks.get(number)
        self.cache.forget(chunk(number))
        if one is not None and not one["filling"]:
            del self.chunks[number]
            assert [gone.path for gone in self.cache.take_evicted()] == [f"/cache/{number}"]

    @rule(step_ms=st.integers(1, 200))
    def wait(self, step_ms):
        self.now_ms += step_ms

    @invariant()
    def the_books_agree(self):
        cache = self.cache
        assert {n for n in range(10) if not cache.lacks(chunk(n))} == set(self.chunks)
        assert cache.used_bytes == sum(one["length"] for one in self.chunks.values())
        assert cache.pinned_bytes == self.pinned_bytes()
        idle = [n for n, one in self.chunks.items() if not self.held(one)]
        assert not idle or cache.used_bytes <= max(50, cache.limit_bytes)


TestCacheBooks = CacheMachine.TestCase
TestCacheBooks.settings = settings(stateful_step_count=40)
