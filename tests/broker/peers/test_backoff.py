"""Times between attempts."""

from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.peers.backoff import JITTER, Backoff


@given(st.integers(0, 200), st.floats(0, 1, exclude_max=True), st.integers(0, 1000), st.integers(0, 100_000))
def test_times_stay_in_bounds(failures, drawn, initial_ms, more_ms):
    """At least four fifths of what is due, at most the maximum."""
    backoff = Backoff(initial_ms, initial_ms + more_ms)
    due_ms = min(initial_ms * 2**failures, backoff.max_ms)
    assert int(due_ms * (1 - JITTER)) <= backoff.after(failures, lambda: drawn) <= backoff.max_ms


def test_times_double():
    """50 ms, 100 ms, and so on up to the maximum, without chance."""
    assert [Backoff(50, 1000).after(failures, lambda: 0.5) for failures in range(7)] == [
        50,
        100,
        200,
        400,
        800,
        1000,
        1000,
    ]
