from types import SimpleNamespace

import pytest

from stratalog.broker.network.send_turns import (
    CALM_SECONDS,
    IDLE_SHARE,
    LARGE_BYTES,
    PIECE_BYTES,
    PIECE_BYTES_MAX,
    REST_SECONDS,
    SendTurns,
)

TURN_SECONDS = 0.00005


class Loop:
    """Runs what was to be called soon, a turn at a time; each takes some time, during which ``idle_seconds`` stands."""

    def __init__(self):
        self.soon, self.later = [], []
        self.now, self.idle_seconds = 100.0, 0.0

    def time(self):
        return self.now

    def call_soon(self, call):
        self.soon.append(call)

    def call_later(self, seconds, call):
        timer = SimpleNamespace(at=self.now + seconds, call=call)
        timer.cancel = lambda: self.later.remove(timer)
        self.later.append(timer)
        return timer

    def turn(self):
        due = [timer for timer in self.later if timer.at <= self.now]
        self.later = [timer for timer in self.later if timer not in due]
        calls, self.soon = self.soon + [timer.call for timer in due], []
        for call in calls:
            call()
        self.now += TURN_SECONDS

    def sleep(self, seconds):
        """No socket is ready for so long."""
        self.now += seconds
        self.idle_seconds += seconds


class Reader:
    """Has so much to send, and remembers how much it might send each time."""

    def __init__(self, turns, left, *, patient=False):
        self.turns, self.left, self.patient, self.allowed = turns, left, patient, []

    def take_turn(self, size_bytes):
        self.allowed.append(size_bytes)
        self.left -= min(self.left, size_bytes)
        if self.left:
            self.wait()

    def wait(self):
        self.turns.wait(self, patient=self.patient)
        return self


@pytest.fixture
def loop():
    """A loop without anything to do."""
    return Loop()


@pytest.fixture
def turns(loop):
    """The turns of a loop that counts how idle it is."""
    return SendTurns(loop, loop)


def disturbed(turns):
    """A small answer was sent a moment ago."""
    turns.small_count += 1
    assert turns.at_once() == 0


def pieces_in(loop, turns, reader, seconds, *, busy):
    """How many pieces leave in the time, in a loop that small answers keep ``busy`` for that part of each millisecond."""
    before = len(reader.allowed)
    end = loop.now + seconds
    while loop.now < end:
        turns.small_count += 1
        until = loop.now + 0.001 * busy
        while loop.now < until:
            loop.turn()
        until += 0.001 * (1 - busy)
        while loop.now < until:
            if loop.soon:
                loop.turn()
            else:
                loop.sleep(until - loop.now)
                loop.turn()
    return len(reader.allowed) - before


def test_a_sender_that_fails_keeps_no_other_from_sending(loop, turns):
    """The loop reports its error; the senders behind it have their turns without a new one that asks."""
    disturbed(turns)

    class Broken(Reader):
        def take_turn(self, size_bytes):
            raise ZeroDivisionError

    Broken(turns, 1).wait()
    reader = Reader(turns, PIECE_BYTES).wait()
    with pytest.raises(ZeroDivisionError):
        loop.turn()
    for _ in range(10):
        loop.turn()
    assert reader.left == 0


def test_a_lone_large_answer_leaves_at_once_and_whole(turns):
    """It is not cut up without others."""
    assert turns.at_once() == PIECE_BYTES_MAX
    assert not len(turns)


def test_after_a_small_answer_a_large_one_waits_and_leaves_in_pieces(loop, turns):
    """A piece of it is what the next small answer has to wait for at most."""
    disturbed(turns)
    reader = Reader(turns, 3 * PIECE_BYTES).wait()
    for _ in range(3):
        loop.turn()
    assert reader.allowed == [PIECE_BYTES] * 3
    assert not loop.soon


@pytest.mark.parametrize("besides", [0, 100])
def test_turns_of_the_loop_with_small_answers_are_passed_but_not_for_ever(loop, turns, besides):
    """Small answers go first; a reader of large ones gets on all the same, also beside one of the archive."""
    disturbed(turns)
    reader = Reader(turns, 10 * PIECE_BYTES).wait()
    cold = Reader(turns, max(besides, 1) * PIECE_BYTES, patient=True).wait()
    passed = 0
    while reader.left:
        turns.small_count += 1
        before = len(reader.allowed) + len(cold.allowed)
        loop.turn()
        passed += len(reader.allowed) + len(cold.allowed) == before
    assert passed == 8 * 10
    assert len(cold.allowed) == (pytest.approx(90 * TURN_SECONDS / REST_SECONDS, abs=1) if besides else 1)


@pytest.mark.parametrize("patient", [False, True])
def test_waiting_senders_get_their_turns_one_after_the_other(loop, patient):
    """One piece in a turn of the loop, for every owner."""
    turns = SendTurns(loop)
    disturbed(turns)
    readers = [Reader(turns, 2 * PIECE_BYTES, patient=patient).wait() for _ in range(3)]
    assert len(turns) == 3
    counts = []
    for _ in range(6):
        loop.turn()
        counts.append([len(reader.allowed) for reader in readers])
    assert counts == [[1, 0, 0], [1, 1, 0], [1, 1, 1], [2, 1, 1], [2, 2, 1], [2, 2, 2]]


def test_without_small_answers_pieces_are_large_again_after_a_while(loop, turns):
    """A loop with nothing but large answers does not spend its time on cutting them; however many pieces that were."""
    disturbed(turns)
    began = loop.now
    reader = Reader(turns, 3000 * PIECE_BYTES).wait()
    while reader.left:
        loop.turn()
    assert set(reader.allowed) == {PIECE_BYTES, PIECE_BYTES_MAX}
    assert reader.allowed == sorted(reader.allowed)
    assert reader.allowed.count(PIECE_BYTES) == pytest.approx(CALM_SECONDS / TURN_SECONDS, abs=2)
    assert loop.now - began > CALM_SECONDS
    assert turns.at_once() == PIECE_BYTES_MAX


def test_a_new_sender_waits_behind_waiting_ones(turns):
    """No sender passes the queue."""
    turns.wait(Reader(turns, LARGE_BYTES))
    assert turns.at_once() == 0


def test_a_reader_of_the_archive_gets_a_piece_in_a_millisecond_of_a_busy_loop(loop, turns):
    """It is never left out, and never why the loop has no time."""
    disturbed(turns)
    reader = Reader(turns, 10_000 * PIECE_BYTES, patient=True).wait()
    pieces_in(loop, turns, reader, 0.01, busy=0.8)
    found = pieces_in(loop, turns, reader, 0.1, busy=0.8)
    assert 0.1 / REST_SECONDS * 0.9 <= found <= 0.1 / REST_SECONDS + 1


def test_a_reader_of_the_archive_takes_the_idle_time_but_for_its_share(loop, turns):
    """Idle time is not wasted either."""
    disturbed(turns)
    reader = Reader(turns, 10_000 * PIECE_BYTES, patient=True).wait()
    pieces_in(loop, turns, reader, 0.01, busy=0.2)
    idle_before = loop.idle_seconds
    found = pieces_in(loop, turns, reader, 0.1, busy=0.2)
    assert found > 0.1 / REST_SECONDS * 3
    assert loop.idle_seconds - idle_before == pytest.approx(0.1 * IDLE_SHARE, rel=0.3)


def test_a_hot_reader_does_not_wait_for_the_loop_to_be_idle(loop, turns):
    """It comes first while a reader of the archive rests, whose turn comes in the same time all the same."""
    disturbed(turns)
    cold = Reader(turns, 100 * PIECE_BYTES, patient=True).wait()
    loop.turn()
    loop.turn()
    assert len(cold.allowed) == 1
    assert loop.later
    hot = Reader(turns, 50 * PIECE_BYTES).wait()
    assert not loop.later
    for _ in range(50):
        loop.turn()
    assert len(cold.allowed) == pytest.approx(1 + 50 * TURN_SECONDS / REST_SECONDS, abs=1)
    assert len(hot.allowed) + len(cold.allowed) == 51


def test_without_small_answers_a_reader_of_the_archive_does_not_rest(loop, turns):
    """There is no small answer to leave the loop to."""
    reader = Reader(turns, 20 * PIECE_BYTES_MAX, patient=True).wait()
    for _ in range(20):
        loop.turn()
    assert reader.allowed == [PIECE_BYTES_MAX] * 20
