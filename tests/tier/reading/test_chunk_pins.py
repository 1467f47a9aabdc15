"""Holders of chunks, against a model that looks at every pin."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from stratalog.tier.reading.chunk_pins import ChunkPins
from stratalog.tier.reading.remote_log import ChunkId


def chunk(number):
    """The id of one chunk."""
    return ChunkId(bytes(16), number)


def nothing_waits(chunk_id):
    """No chunk is being filled."""
    return False


def test_a_pin_that_is_used_again_is_no_new_one():
    """It lasts from its last use."""
    pins = ChunkPins(100)
    assert pins.pin(chunk(1), "a", 0)
    assert pins.pin(chunk(2), "a", 10)
    assert not pins.pin(chunk(1), "a", 50)
    assert pins.expire(110, nothing_waits) == [chunk(2)]
    assert pins.expire(149, nothing_waits) == []
    assert pins.expire(150, nothing_waits) == [chunk(1)]
    assert not pins.reads("a")


def test_a_waiter_for_a_fill_is_not_forgotten():
    """A pin does not expire while its chunk is being filled; it expires afterwards."""
    pins = ChunkPins(100)
    pins.pin(chunk(1), "a", 0)
    assert pins.expire(500, lambda chunk_id: chunk_id == chunk(1)) == []
    assert pins.readers(chunk(1)) == ("a",)
    assert pins.expire(600, nothing_waits) == [chunk(1)]


def test_a_hold_may_only_grow():
    """A shorter one changes nothing, and ends nothing earlier."""
    pins = ChunkPins(100)
    pins.hold(chunk(1), 500)
    pins.hold(chunk(1), 300)
    assert pins.expire(499, nothing_waits) == []
    assert chunk(1) in pins
    pins.hold(chunk(1), 700)
    assert pins.expire(500, nothing_waits) == []
    assert pins.held(chunk(1))
    assert pins.expire(700, nothing_waits) == [chunk(1)]
    assert chunk(1) not in pins


class PinsMachine(RuleBasedStateMachine):
    """Random pins against {(chunk, reader): end} and {chunk: end}."""

    def __init__(self):
        super().__init__()
        self.pins, self.now_ms = ChunkPins(100), 0
        self.ends, self.holds = {}, {}

    @rule(number=st.integers(0, 3), reader=st.integers(0, 3))
    def pin(self, number, reader):
        assert self.pins.pin(chunk(number), reader, self.now_ms) == ((number, reader) not in self.ends)
        self.ends[number, reader] = self.now_ms + 100

    @rule(number=st.integers(0, 3), reader=st.integers(0, 3))
    def release(self, number, reader):
        self.pins.release(chunk(number), reader)
        self.ends.pop((number, reader), None)

    @rule(number=st.integers(0, 3), hold_ms=st.integers(1, 300))
    def hold(self, number, hold_ms):
        self.pins.hold(chunk(number), self.now_ms + hold_ms)
        self.holds[number] = max(self.holds.get(number, 0), self.now_ms + hold_ms)

    @rule(number=st.integers(0, 3))
    def drop(self, number):
        self.pins.drop(chunk(number))
        self.ends = {pair: end for pair, end in self.ends.items() if pair[0] != number}
        self.holds.pop(number, None)

    @rule(step_ms=st.integers(0, 150))
    def expire(self, step_ms):
        self.now_ms += step_ms
        over = {pair[0] for pair, end in self.ends.items() if end <= self.now_ms}
        over |= {number for number, end in self.holds.items() if end <= self.now_ms}
        assert {one.number for one in self.pins.expire(self.now_ms, nothing_waits)} == over
        self.ends = {pair: end for pair, end in self.ends.items() if end > self.now_ms}
        self.holds = {number: end for number, end in self.holds.items() if end > self.now_ms}

    @invariant()
    def everybody_is_known(self):
        for number in range(4):
            readers = {reader for one, reader in self.ends if one == number}
            assert set(self.pins.readers(chunk(number))) == readers
            assert (chunk(number) in self.pins) == bool(readers or number in self.holds)
        for reader in range(4):
            numbers = {number for number, one in self.ends if one == reader}
            assert {one.number for one in self.pins.chunks(reader)} == numbers
            assert self.pins.reads(reader) == bool(numbers)


TestPins = PinsMachine.TestCase
TestPins.settings = settings(stateful_step_count=30)
