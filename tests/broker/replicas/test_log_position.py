"""Tests of broker/replicas/log_position.py."""

from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.replicas.log_position import cut_to
from stratalog.hot.state.leader_epochs import EpochEnd
from stratalog.wire.messages.fetch import EpochEndOffset

EPOCHS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=4)


def history(steps):
    """The first offset of each epoch, and the end."""
    starts, offset, epoch = {}, 0, 0
    for more, count in steps:
        epoch += more
        starts[epoch] = offset
        offset += count
    return starts, offset


def end_of(starts, log_end, epoch):
    """Kafka's answer: the largest epoch not above, and where it ends."""
    known = [one for one in starts if one <= epoch]
    later = [one for one in starts if one > epoch]
    end = starts[min(later)] if later else log_end
    return (max(known), end) if known else (-1, -1) if not later else (epoch, end)


@given(EPOCHS, EPOCHS, EPOCHS)
def test_repeated_cuts_end_where_histories_part(common, ours, theirs):
    """Two logs with a common beginning and epochs of their own behind it: nothing common is cut, nothing forked is left."""
    shared, shared_end = history(common)
    top = max(shared)
    own, leaders = dict(shared), dict(shared)
    own_end = leaders_end = shared_end
    for number, (more, count) in enumerate(ours):
        own[top + 2 * (more + 3 * number) + 1] = own_end
        own_end += count
    for number, (more, count) in enumerate(theirs):
        leaders[top + 2 * (more + 3 * number)] = leaders_end
        leaders_end += count
    for _ in range(20):
        last = max(own)
        epoch, end = end_of(leaders, leaders_end, last)
        if epoch == last and end >= own_end:
            break
        cut = cut_to(EpochEndOffset(epoch=epoch, end_offset=end), EpochEnd(*end_of(own, own_end, epoch)), own_end)
        own_end = min(own_end, cut)
        own = {one: start for one, start in own.items() if start < own_end}
    assert (own, own_end) == (shared, shared_end)
