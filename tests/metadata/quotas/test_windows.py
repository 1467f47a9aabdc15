"""Rates and buckets: what a client that is muted in time can get through."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.quotas.windows import RateWindows, TokenBucket

COUNT, SECONDS = 11, 1.0
BOUND = 1000.0


@given(
    st.lists(st.tuples(st.integers(1, 30_000), st.sampled_from([0.0, 0.0, 0.01, 0.4, 1.0, 3.0, 12.0])), max_size=80),
    st.integers(0, 999),
)
def test_over_any_time_no_more_gets_through_than_the_quota_a_burst_and_one_request(requests, start):
    """A client that sends as soon as it is heard again: in every interval, quota x its length + burst + one request."""
    windows, now = RateWindows(COUNT, SECONDS), start / 1000
    admitted = []
    for amount, pause in requests:
        admitted.append((now, amount))
        now += windows.use(amount, BOUND, now) + pause
    largest = max((amount for amount, _ in requests), default=0)
    for first in range(len(admitted)):
        total = 0
        for at, amount in admitted[first:]:
            total += amount
            assert total <= BOUND * (at - admitted[first][0] + windows.burst_seconds) + largest + 1e-6


@pytest.mark.parametrize("amount", [100, 500, 9000, 11_000, 21_000, 35_000])
def test_a_steady_client_gets_its_quota(amount):
    """Sending as fast as it is heard, for a long time: what it gets is the quota and the first burst."""
    windows, now, total = RateWindows(COUNT, SECONDS), 0.0, 0
    while now < 600:
        total += amount
        now += 0.0001 + windows.use(amount, BOUND, now)
    assert 600 * BOUND - amount <= total <= (600 + COUNT) * BOUND + amount


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=60))
def test_clients_that_share_a_quota_share_it(amounts, turns):
    """Each is silent for its throttle time; together they get the quota, a burst and one request of each."""
    windows, now, total = RateWindows(COUNT, SECONDS), 0.0, 0
    heard_at = [0.0] * len(amounts)
    for turn in turns:
        who = turn % len(amounts)
        now = max(now, heard_at[who])
        total += amounts[who]
        heard_at[who] = now + windows.use(amounts[who], BOUND, now)
    assert total <= BOUND * (now + windows.burst_seconds) + sum(amounts) + 1e-6


def test_use_below_the_quota_never_waits():
    """900 a second of 1,000."""
    windows = RateWindows(COUNT, SECONDS)
    assert {windows.use(90, BOUND, step / 10) for step in range(1000)} == {0}


def test_ten_windows_of_quota_may_be_used_at_once():
    """After that the wait is what is too much, at the quota's rate."""
    windows = RateWindows(COUNT, SECONDS)
    assert windows.use(10_000, BOUND, 5.0) == 0
    assert windows.use(500, BOUND, 5.0) == pytest.approx(0.5)
    assert windows.rate(5.0) == pytest.approx(1050)
    assert windows.burst_seconds == 10


def test_windows_are_forgotten():
    """Eleven of them are kept, the present one among them."""
    windows = RateWindows(COUNT, SECONDS)
    windows.use(7, BOUND, 0.9)
    windows.use(5, BOUND, 1.1)
    assert [windows.total(now) for now in (1.1, 10.9, 11.0, 11.9, 12.0)] == [12, 12, 5, 5, 0]
    assert windows.rate(12.0) == 0


def test_unused_amounts_are_taken_back():
    """A negative amount in the same window."""
    windows = RateWindows(COUNT, SECONDS)
    windows.use(50_000, BOUND, 0.1)
    windows.give_back(50_000, BOUND, 0.1)
    assert windows.total(0.1) == 0
    assert windows.wait_seconds(BOUND, 0.1) == 0


def test_windows_in_which_nothing_is_left_may_be_thrown_away():
    """A window is idle only when the large request in it has been paid for."""
    windows = RateWindows(COUNT, SECONDS)
    assert windows.idle(0.0)
    windows.use(30_000, BOUND, 0.0)
    assert [windows.idle(now) for now in (0.0, 12.0, 29.9, 30.0)] == [False, False, False, True]


def test_one_window_is_enough():
    """The smallest setting: everything within the present window counts."""
    windows = RateWindows(1, 2.0)
    assert windows.use(4000, BOUND, 1.0) == pytest.approx(2.0)
    assert windows.total(2.0) == 0


def test_a_bucket_is_full_at_first_and_may_owe():
    """Eleven seconds' worth at once, then what comes in."""
    bucket = TokenBucket(11.0)
    assert bucket.tokens(2.0, 100.0) == 22
    bucket.take(30, 2.0, 100.0)
    assert bucket.wait_seconds(2.0, 100.0) == pytest.approx(4.0)
    assert bucket.tokens(2.0, 104.0) == pytest.approx(0.0)
    assert bucket.wait_seconds(2.0, 104.0) == 0
    assert bucket.tokens(2.0, 1000.0) == 22


@given(st.lists(st.tuples(st.integers(1, 50), st.floats(0, 20)), max_size=60))
def test_a_bucket_gives_no_more_than_its_rate_and_its_capacity(requests):
    """A client that asks only when nothing is owed: over any time, rate x time + capacity + one request."""
    bucket, now = TokenBucket(11.0), 0.0
    taken = []
    for amount, pause in requests:
        if bucket.wait_seconds(2.0, now) == 0:
            bucket.take(amount, 2.0, now)
            taken.append((now, amount))
        now += pause
    for first in range(len(taken)):
        total = 0
        for at, amount in taken[first:]:
            total += amount
            assert total <= 2.0 * (at - taken[first][0] + 11.0) + 50 + 1e-6


def test_the_debt_of_the_smallest_quota_is_paid_off_one_day():
    """A debt without an end would outlive the quota, and a client would not be heard under a larger one either."""
    windows = RateWindows(11, 1.0)
    assert windows.use(1000, 5e-324, 100.0) == math.inf
    assert windows.wait_seconds(1000.0, 2e9) == 0
    windows.give_back(1000, 5e-324, 2e9)
    assert windows.use(1000, 1000.0, 2e9 + 1) == 0
