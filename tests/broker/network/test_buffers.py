import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.network.buffers import BASE_BYTES, BufferPool


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
    """At most 16 MiB of 40 MiB given back stay, and trim leaves nothing."""
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
    """The holder of the common buffer has it alone; the next connection reads into another."""
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


def test_large_buffers_are_mapped_not_written():
    """100 MiB cost the kernel no pages, and this process no time, until bytes come."""
    assert type(BufferPool(1 << 30).take(100 << 20).view.obj) is mmap.mmap
    assert type(BufferPool(1 << 30).take(1 << 20).view.obj) is bytearray


def test_a_waiter_is_called_when_leases_have_ended():
    """All at once, and once."""
    pool = BufferPool(BASE_BYTES)
    buffers = [pool.take(), pool.take()]
    woken = []
    pool.wait(lambda: woken.append(1), 5.0)
    pool.wait(lambda: woken.append(2), 6.0)
    assert (pool.waiting_count, pool.waits_since()) == (2, 5.0)
    buffers[0].release()
    assert woken == [1, 2]
    buffers[1].release()
    assert woken == [1, 2]
    assert (pool.waiting_count, pool.waits_since()) == (0, None)


def test_frames_that_wait_are_resumed_when_buffers_come_back():
    """The pool asks the account, which knows whose turn it is."""
    pool = BufferPool(10 << 20)
    buffers = [pool.take(4 << 20), pool.take(4 << 20)]
    memory = pool.memory
    woken = []
    first = memory.begin("a", 0, 0.0, list)
    assert memory.ask(first, 4 << 20)
    second = memory.begin("a", 0, 0.0, lambda: woken.append(2))
    assert not memory.ask(second, 1 << 20)
    second.follow(True, 3.0)
    assert (pool.waiting_count, pool.waits_since()) == (1, 3.0)
    buffers[0].release()
    assert woken == [2]


def test_a_cancelled_waiter_is_not_woken():
    """A connection that ended is forgotten."""
    pool = BufferPool(1 << 20)
    woken = []
    resume = lambda: woken.append(1)  # noqa: E731
    pool.wait(resume, 0.0)
    pool.forget(resume)
    pool.forget(resume)
    pool.take().release()
    assert woken == []


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3 << 20)), max_size=40))
def test_the_account_is_right_after_any_sequence(steps):
    """Used bytes are those of all buffers in use at any time, and nothing once everything is given back."""
    pool = BufferPool(1 << 40)
    held = []
    for action, size in steps:
        if action <= 1 or not held:
            held.append(pool.take(size))
        elif action == 2:
            held.pop().release()
        else:
            held.append(pool.adopt())
        assert pool.used_bytes == sum(buffer.capacity for buffer in held)
        assert len({id(buffer) for buffer in [*held, pool.common]}) == len(held) + 1
    for buffer in held:
        buffer.release()
    assert pool.used_bytes == 0
