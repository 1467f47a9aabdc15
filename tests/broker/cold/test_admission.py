"""Refused readers, their waiting times, and the moments when they are woken."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stratalog.broker.cold.admission import ColdAdmission
from stratalog.tier.reading.fetch_budgets import FetchRates


class Rig:
    """Readers are (client, number); a woken reader asks ``again`` for the same thing."""

    def __init__(self):
        self.now_ms, self.rates = 0, FetchRates()
        self.timer = None
        self.woken = []
        self.again = lambda reader: None
        self.admission = ColdAdmission(
            lambda: self.rates,
            client_of=lambda reader: reader[0],
            wake=self.wake,
            now_ms=lambda: self.now_ms,
            later=self.later,
        )

    def wake(self, reader):
        self.woken.append(reader)
        self.again(reader)

    def later(self, seconds, call):
        assert self.timer is None
        timer = self.timer = SimpleNamespace(due_ms=self.now_ms + round(seconds * 1000), call=call)
        timer.cancel = lambda: setattr(self, "timer", None)
        return timer

    def advance(self, step_ms):
        """Let time pass, and the timer go off when it is due."""
        end_ms = self.now_ms + step_ms
        while self.timer is not None and self.timer.due_ms <= end_ms:
            timer, self.timer = self.timer, None
            self.now_ms = max(self.now_ms, timer.due_ms)
            timer.call()
        self.now_ms = end_ms


@pytest.fixture
def rig():
    return Rig()


def test_without_limits_no_reader_waits(rig):
    """And nothing is remembered."""
    rig.admission.take(("c", 1), "t", 1 << 40)
    assert rig.admission.wait_ms(("c", 1), "t") == 0
    assert rig.admission.throttle_ms(("c", 1)) == 0
    rig.admission.room()
    assert rig.timer is None


def test_readers_of_one_client_share_its_budget(rig):
    """A second reader waits for the bytes that the first one took; a reader of another client does not."""
    rig.rates = FetchRates(client=1000)
    rig.admission.take(("c", 1), "t", 3000)
    assert rig.admission.wait_ms(("c", 2), "t") == 2001
    assert rig.admission.wait_ms(("d", 1), "t") == 0


def test_a_reader_without_budget_is_woken_when_its_time_has_come(rig):
    """Room in the cache wakes no reader that waits for its budget; its time does."""
    rig.admission.refuse(("c", 1), 500)
    rig.admission.refuse(("d", 1), 200)
    assert rig.admission.throttle_ms(("c", 1)) == 500
    rig.admission.room()
    rig.advance(199)
    assert rig.woken == []
    rig.advance(1)
    assert rig.woken == [("d", 1)]
    rig.advance(300)
    assert rig.woken == [("d", 1), ("c", 1)]
    assert len(rig.admission) == 0
    assert rig.admission.throttle_count == 2
    assert rig.admission.throttle_ms_sum == 700


def test_room_wakes_one_after_the_other_until_there_is_none(rig):
    """First come, first served; a reader that finds none waits on, those behind it are left alone."""
    for number in range(4):
        rig.admission.refuse(("c", number))
    room = [2]

    def again(reader):
        room[0] -= 1
        if room[0] < 0:
            rig.admission.refuse(reader)

    rig.again = again
    rig.advance(100)
    rig.admission.room()
    rig.advance(0)
    assert rig.woken == [("c", 0), ("c", 1), ("c", 2)]
    assert len(rig.admission) == 2
    assert rig.admission.throttle_ms(("c", 3)) == 900


def test_a_reader_without_room_asks_once_a_second_at_the_latest(rig):
    """Pins may have run out without a word."""
    rig.again = rig.admission.refuse
    rig.admission.refuse(("c", 1))
    rig.advance(3500)
    assert rig.woken == [("c", 1)] * 3


def test_a_gone_reader_is_not_woken(rig):
    """A reader that was admitted after a refusal is not woken at its old time."""
    rig.admission.refuse(("c", 1))
    rig.admission.admit(("c", 1))
    rig.advance(2000)
    assert rig.woken == []


def test_a_reader_that_leaves_while_others_are_woken_is_left_out(rig):
    """One of them may be what ends its connection."""
    rig.again = lambda reader: rig.admission.admit(("c", 2))
    rig.admission.refuse(("c", 1))
    rig.admission.refuse(("c", 2))
    rig.admission.room()
    rig.advance(0)
    assert rig.woken == [("c", 1)]


def test_no_waiting_time_is_longer_than_an_answer_can_hold(rig):
    """At a byte a second a chunk takes months: a fetch without an answer would be sent again at once."""
    rig.admission.refuse(("a", 1), 4 << 30)
    assert rig.admission.throttle_ms(("a", 1)) == (1 << 31) - 1


@pytest.mark.parametrize("wait_ms", [200, 0])
def test_readers_that_asked_anew_with_another_are_not_woken_again(rig, wait_ms):
    """A fetch of many partitions is a reader for each. Any of them that is woken has all ask again: a hundred would ask for 10,000."""
    readers = [("c", number) for number in range(100)]

    def again(_reader):
        for each in readers:
            rig.admission.refuse(each, wait_ms)

    again(None)
    rig.again = again
    rig.advance(wait_ms or 1000)
    assert rig.woken == [("c", 0)]
    rig.advance(wait_ms or 1000)
    assert len(rig.woken) == 2
    assert len(rig.admission) == 100
