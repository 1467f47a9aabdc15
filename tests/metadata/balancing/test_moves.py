"""Moves: their bytes, their time, and when they may begin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.balancing.moves import Move, is_safe, may_begin, traffic
from stratalog.wire.topic import TopicPartition


def move(number, replicas, target, **more):
    return Move(TopicPartition("t", number), replicas, target, **more)


def test_bytes_are_those_of_new_copies():
    """The leader sends one to each; a new order of the replicas copies nothing."""
    moves = [
        move(0, (1, 2), (3, 4), leader=1, copy_bytes=100, archived_bytes=900),
        move(1, (1, 2), (2, 1), leader=1, copy_bytes=70),
        move(2, (2, 3), (2, 4), leader=-1, copy_bytes=5),
    ]
    found = traffic(moves)
    assert (found.received, found.sent, found.total_bytes) == ({3: 100, 4: 105}, {1: 200}, 205)
    assert (found.busiest_bytes, found.seconds_at(50)) == (200, 4.0)
    assert traffic([]).busiest_bytes == 0
    assert (moves[0].adding, moves[0].removing, moves[1].adding) == ((3, 4), (1, 2), ())


@pytest.mark.parametrize(
    ("replicas", "target", "in_sync", "min_in_sync", "safe"),
    [
        ((1, 2), (2, 3), (1, 2), 2, True),
        ((1, 2), (2, 3), (1,), 2, False),
        ((1, 2), (3, 4), (1,), 2, True),
        ((1, 2, 3), (1, 2, 4), (1, 2), 2, True),
        ((1, 2, 3), (2, 3, 1), (1,), 2, False),
        ((1,), (2,), (1,), 2, True),
    ],
)
def test_a_move_waits_while_its_end_would_leave_too_few_in_sync(replicas, target, in_sync, min_in_sync, safe):
    """Those that stay and are in sync, and those that are added, have to be min.insync.replicas."""
    assert is_safe(move(0, replicas, target), in_sync, min_in_sync) is safe


@given(
    st.lists(st.permutations(range(6)), max_size=12), st.lists(st.permutations(range(6)), max_size=4), st.integers(1, 3)
)
def test_no_broker_receives_more_copies_at_once_than_it_may(waiting, running, bound):
    """And something begins while nothing runs."""
    wanted = [move(n, tuple(o[:2]), tuple(o[2:4])) for n, o in enumerate(waiting)]
    busy = [move(100 + n, tuple(o[:2]), tuple(o[2:4])) for n, o in enumerate(running)][:bound]
    begun = may_begin(wanted, busy, bound)
    for broker in range(6):
        assert sum(broker in each.adding for each in [*begun, *busy]) <= bound
    assert begun or busy or not wanted


def test_a_new_order_of_replicas_begins_at_once():
    """It copies nothing."""
    order = move(1, (1, 2), (2, 1))
    assert may_begin([order], [move(0, (1,), (2,))], 1) == [order]
