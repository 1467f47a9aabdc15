"""Jumps of the wall clock, told from time that passes."""

from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.clock_jumps import ClockJumps
from stratalog.metadata.coordination import Now

YEAR_MS = 365 * 86_400_000


def test_without_jumps_it_is_the_wall_clock():
    """Also one that is slewed a little."""
    jumps = ClockJumps()
    for step in range(10):
        now = Now(step * 60_000, 1_700_000_000_000 + step * 60_500)
        assert jumps.believed_ms(now, 1_000) == now.wall_ms


def test_a_jump_forwards_is_believed_after_the_patience():
    """Until then the time that has passed counts."""
    jumps = ClockJumps()
    assert jumps.believed_ms(Now(0, 5_000), 10_000) == 5_000
    assert jumps.believed_ms(Now(100, 5_100 + YEAR_MS), 10_000) == 5_100
    assert jumps.believed_ms(Now(10_099, 15_099 + YEAR_MS), 10_000) == 15_099
    assert jumps.believed_ms(Now(10_100, 15_100 + YEAR_MS), 10_000) == 15_100 + YEAR_MS


def test_a_jump_backwards_is_believed_at_once():
    """It keeps everything longer."""
    jumps = ClockJumps()
    jumps.believed_ms(Now(0, YEAR_MS), 10_000)
    assert jumps.believed_ms(Now(100, 100), 10_000) == 100


@given(
    st.lists(st.tuples(st.integers(1, 5_000), st.integers(-YEAR_MS, YEAR_MS), st.booleans()), max_size=30),
    st.integers(5_000, 20_000),
)
def test_no_value_is_taken_for_older_than_the_time_it_was_kept(steps, patience_ms):
    """Values stored during the life of the process expire no earlier than they should, over random jumps of the clock."""
    jumps = ClockJumps()
    now = Now(0, 1_700_000_000_000)
    jumps.believed_ms(now, patience_ms)
    kept = []
    for passed_ms, jump_ms, stores in steps:
        now = Now(now.monotonic_ms + passed_ms, now.wall_ms + passed_ms + jump_ms)
        believed_ms = jumps.believed_ms(now, patience_ms)
        for stamp_ms, since_ms in kept:
            if believed_ms - stamp_ms >= patience_ms + 1_000 * len(steps):
                assert now.monotonic_ms - since_ms >= patience_ms
        if stores:
            kept.append((now.wall_ms, now.monotonic_ms))


def test_after_the_patience_without_jumps_the_clock_is_believed():
    """No record is kept for ever."""
    jumps = ClockJumps()
    for step in range(5):
        now = Now(step, step * YEAR_MS)
        jumps.believed_ms(now, 10_000)
    assert jumps.believed_ms(Now(now.monotonic_ms + 10_000, now.wall_ms + 10_000), 10_000) == now.wall_ms + 10_000
