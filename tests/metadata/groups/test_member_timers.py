"""Deadlines of members, against a dictionary."""

from hypothesis import example, given
from hypothesis import strategies as st

from stratalog.metadata.groups.member_timers import MemberTimers

changes = st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(1, 20), st.integers(0, 4)), max_size=30)


@given(steps=changes)
@example(steps=[("b", 4, 0), ("b", 5, 3), ("a", 1, 2)])
def test_every_deadline_is_reported_once_and_in_order(steps):
    """Every deadline is reported once, when it has come, the earliest
    first; the next one is never reported too late.
    """
    timers, wanted, now = MemberTimers(), {}, 0
    for key, deadline, elapsed in steps:
        if deadline is None:
            timers.cancel(key)
            wanted.pop(key, None)
        else:
            timers.set(key, now + deadline)
            wanted[key] = now + deadline
        now += elapsed
        passed = timers.passed(now)
        assert sorted(passed) == sorted(one for one, moment in wanted.items() if moment <= now)
        assert [wanted[one] for one in passed] == sorted(wanted[one] for one in passed)
        wanted = {one: moment for one, moment in wanted.items() if moment > now}
        assert (timers.next_ms() is None) == (not wanted)
        assert not wanted or timers.next_ms() <= min(wanted.values())
        assert all((one in timers) == (one in wanted) for one in "abc")


def test_heartbeats_do_not_grow_it():
    """A deadline that is pushed back a thousand times is queued once."""
    timers = MemberTimers()
    for now in range(1_000):
        timers.set("a", now + 45_000)
    assert len(timers._heap) == 1
    assert timers.next_ms() == 45_000
    assert timers.passed(45_000) == []
    assert timers.next_ms() == 45_999


def test_members_that_come_and_go_leave_no_heap_behind():
    """Their entries would stay until their old moment; those that stay keep theirs."""
    timers: MemberTimers[str] = MemberTimers()
    timers.set("early", 5)
    timers.set("early", 900)
    timers.set("stays", 1_000)
    for number in range(20_000):
        timers.set(f"m{number}", 500 + number)
        timers.cancel(f"m{number}")
    assert timers.entries <= 1_010
    assert timers.passed(899) == []
    assert timers.passed(1_000) == ["early", "stays"]
