"""The allowance of throttled replicas: the rate over a longer run, and how much may go at once."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.quotas.replication_quota import ReplicationQuota

COUNT, SECONDS = 11, 1.0
RATE = 1_000_000


@given(
    st.lists(st.tuples(st.integers(1, 3_000_000), st.sampled_from([0.0, 0.0, 0.01, 0.4, 3.0])), max_size=80),
    st.integers(0, 999),
)
def test_over_any_time_no_more_goes_than_the_rate_a_window_and_one_answer(answers, start):
    """Sent as soon as allowed: in every interval the rate x its length, one window's worth and the largest answer."""
    quota, now = ReplicationQuota(COUNT, SECONDS), start / 1000
    sent = []
    for size, pause in answers:
        now += quota.wait_seconds(RATE, now)
        assert quota.allowed_bytes(RATE, now) > 0
        quota.record(size, RATE, now)
        sent.append((now, size))
        now += pause
    largest = max((size for size, _ in answers), default=0)
    for first, (begun, _) in enumerate(sent):
        total = 0
        for at, size in sent[first:]:
            total += size
            assert total <= RATE * (at - begun + SECONDS) + largest + 1


@pytest.mark.parametrize("size", [65_536, 1 << 20, 4 << 20])
@pytest.mark.parametrize("rate", [1_000_000, 2_000_000, 20_000_000])
def test_a_long_copy_gets_the_rate(size, rate):
    """One answer after the other, 2 ms for a round trip: in a minute goes the rate, but for a first window and an answer."""
    quota, now, total = ReplicationQuota(COUNT, SECONDS), 5.0, 0
    while now < 65:
        now += 0.002 + quota.wait_seconds(rate, now)
        quota.record(size, rate, now)
        total += size
    assert total == pytest.approx(rate * (now - 5), abs=rate + size + 1)


def test_a_debt_is_forgotten_after_all_windows():
    """Copies that are in sync used 100 times the rate: the others wait for 11 s, and not for 100."""
    quota = ReplicationQuota(COUNT, SECONDS)
    quota.record(100 * RATE, RATE, 0.0)
    assert quota.wait_seconds(RATE, 0.0) == pytest.approx(COUNT * SECONDS, abs=0.01)
    assert quota.wait_seconds(RATE, 12.0) == 0


def test_a_new_rate_holds_at_once():
    """A debt of 5 s is paid ten times as fast at ten times the rate; at a lower one nothing is allowed that was."""
    quota = ReplicationQuota(COUNT, SECONDS)
    quota.record(6 * RATE, RATE, 0.0)
    assert quota.wait_seconds(RATE, 0.0) == pytest.approx(5, abs=0.01)
    assert quota.wait_seconds(10 * RATE, 0.0) == pytest.approx(0.5, abs=0.01)
    assert quota.allowed_bytes(RATE, 20.0) == RATE
    assert quota.allowed_bytes(RATE // 10, 20.0) == RATE // 10


def test_a_rate_of_0_allows_nothing_ever():
    """And does not divide by it."""
    quota = ReplicationQuota(COUNT, SECONDS)
    assert quota.wait_seconds(0, 0.0) == quota.wait_seconds(0, 1e9) == inf
    quota.record(10, 0, 1e9)
    assert quota.allowed_bytes(0, 2e9) == 0


def test_without_a_limit_nothing_waits_and_all_is_counted():
    """Kafka's default is the largest number."""
    quota = ReplicationQuota(COUNT, SECONDS)
    for second in range(20):
        quota.record(5 * RATE, (1 << 63) - 1, float(second))
        assert quota.wait_seconds((1 << 63) - 1, float(second)) == 0
    assert quota.byte_rate(19.5) == pytest.approx(5 * RATE, rel=0.1)
