import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.broker.buffers import BASE_BYTES, BufferPool


def test_a_buffer_is_reused_only_after_its_last_lease():
    """A leased buffer does not come back from the pool until the lease is released."""
    pool = BufferPool(1 << 20)
    buffer = pool.take()
    release = buffer.lease()
    buffer.release()
    assert pool.take() is not buffer
    release()
    assert pool.take() is buffer


def test_releasing_more_often_than_leasing_is_an_error():
    """A double release would let two owners write into one buffer: it raises."""
    buffer = BufferPool(1 << 20).take()
    release = buffer.lease()
    release()
    release()
    with pytest.raises(RuntimeError, match="more often"):
        release()


def test_capacities_are_rounded_up_and_large_buffers_are_reused_when_they_fit():
    """A free buffer serves requests of half its size and more; a much smaller one does not get it."""
    pool = BufferPool(1 << 30)
    large = pool.take(1_000_000)
    assert large.capacity == 1 << 20
    large.release()
    assert pool.take(70_000).capacity == 2 * BASE_BYTES
    assert pool.take(600_000) is large


def test_the_pool_keeps_a_bounded_amount_and_trim_frees_it():
    """However much is given back, at most 16 MiB stay, and trim leaves nothing."""
    pool = BufferPool(1 << 30)
    buffers = [pool.take(1 << 20) for _ in range(40)]
    for buffer in buffers:
        buffer.release()
    assert pool.retained_bytes == 16 << 20
    assert pool.used_bytes == 0
    pool.trim()
    assert pool.retained_bytes == 0
    assert pool.take(1 << 20) not in buffers


def test_an_adopted_common_buffer_is_replaced():
    """Who keeps the common buffer has it alone; the next connection reads into another."""
    pool = BufferPool(1 << 20)
    common = pool.common
    release = common.lease()
    assert pool.adopt() is common
    assert pool.common is not common
    assert pool.used_bytes == BASE_BYTES
    common.release()
    assert pool.used_bytes == BASE_BYTES
    release()
    assert pool.used_bytes == 0


def test_a_frame_is_charged_as_a_whole_before_its_bytes_arrive():
    """A frame that has begun holds its full size; another that does not fit beside it must wait, then fits."""
    pool = BufferPool(10 << 20)
    first, second = pool.take(), pool.take()
    assert pool.charge(first, 8 << 20)
    assert not pool.charge(second, 4 << 20)
    woken = []
    pool.wait(lambda: woken.append(pool.charge(second, 4 << 20)))
    first.release()
    assert woken == [True]
    assert pool.used_bytes == 4 << 20


def test_a_frame_larger_than_the_budget_passes_alone():
    """The budget delays, it never makes a legal frame impossible."""
    pool = BufferPool(1 << 20)
    buffer = pool.take()
    assert pool.charge(buffer, 50 << 20)
    assert pool.overdrawn


def test_waiting_is_first_come_first_served():
    """A small frame does not overtake a large one that waits."""
    pool = BufferPool(10 << 20)
    holder, large, small = pool.take(), pool.take(), pool.take()
    assert pool.charge(holder, 9 << 20)
    assert not pool.charge(large, 9 << 20)
    pool.wait(lambda: None)
    assert not pool.charge(small, 100_000)


def test_who_no_longer_waits_is_not_woken():
    """A connection that ended is forgotten."""
    pool = BufferPool(1 << 20)
    woken = []
    resume = lambda: woken.append(1)  # noqa: E731
    pool.wait(resume)
    pool.forget(resume)
    pool.forget(resume)
    pool.take().release()
    assert woken == []


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3 << 20)), max_size=40))
def test_the_account_is_right_after_any_sequence(steps):
    """Used bytes are the sum of all charges at any time, and nothing once everything is given back."""
    pool = BufferPool(1 << 40)
    held = []
    for action, size in steps:
        if action <= 1 or not held:
            held.append(pool.take(size))
        elif action == 2:
            held.pop().release()
        elif action == 3:
            pool.charge(held[-1], size)
        elif action == 4:
            old = held.pop()
            held.append(pool.replace(old, size))
            old.release()
        else:
            held.append(pool.adopt())
        assert pool.used_bytes == sum(buffer.charge_bytes for buffer in held)
        assert len({id(buffer) for buffer in [*held, pool.common]}) == len(held) + 1
    for buffer in held:
        buffer.release()
    assert pool.used_bytes == 0
