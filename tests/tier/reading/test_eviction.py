"""Which chunk goes next, against a model that is a list."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stratalog.tier.reading.eviction import EvictionOrder
from stratalog.tier.reading.remote_log import ChunkId


def chunk(number):
    """The id of one chunk."""
    return ChunkId(bytes(16), number)


def leaving(order, greedy=()):
    """The numbers of all chunks as they go."""
    gone = []
    while (chunk_id := order.first(greedy)) is not None:
        order.remove(chunk_id)
        gone.append(chunk_id.number)
    return gone


def test_chunks_used_once_go_before_chunks_used_again():
    """Each in the order in which it was let go."""
    order = EvictionOrder(100)
    for number, proven in ((1, True), (2, False), (3, True), (4, False)):
        order.add(chunk(number), "t", 10, proven=proven)
    assert leaving(order) == [2, 4, 1, 3]


def test_chunks_used_again_may_not_fill_the_cache():
    """Beyond four fifths its oldest are queued behind those used once, and are proven no longer."""
    order = EvictionOrder(100)
    for number in range(10):
        order.add(chunk(number), "t", 10, proven=True)
    assert order.size_bytes == 100
    assert not order.remove(chunk(0))
    assert order.remove(chunk(2))
    assert leaving(order) == [1, 3, 4, 5, 6, 7, 8, 9]
    assert order.size_bytes == 0


def test_greedy_topics_pay_first():
    """With what was used again too, before any other topic loses anything."""
    order = EvictionOrder(100)
    order.add(chunk(1), "modest", 10, proven=False)
    order.add(chunk(2), "greedy", 10, proven=True)
    order.add(chunk(3), "greedy", 10, proven=False)
    assert leaving(order, ["absent", "greedy"]) == [3, 2, 1]


def test_a_missing_chunk_cannot_be_taken_out():
    """That would be a defect of the caller's books."""
    order = EvictionOrder(100)
    assert order.first() is None
    with pytest.raises(KeyError):
        order.remove(chunk(1))


class OrderMachine(RuleBasedStateMachine):
    """Random additions and removals against a list of (number, share, length, proven), oldest first."""

    def __init__(self):
        super().__init__()
        self.order = EvictionOrder(50)
        self.model = []

    @rule(number=st.integers(0, 9), share=st.sampled_from("ab"), length=st.integers(1, 30), proven=st.booleans())
    def add(self, number, share, length, proven):
        if any(one[0] == number for one in self.model):
            return
        self.order.add(chunk(number), share, length, proven=proven)
        self.model.append((number, share, length, proven))
        while proven and sum(one[2] for one in self.model if one[3]) > 40:
            oldest = next(one for one in self.model if one[3])
            self.model.remove(oldest)
            self.model.append((*oldest[:3], False))

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data):
        one = data.draw(st.sampled_from(self.model))
        self.model.remove(one)
        assert self.order.remove(chunk(one[0])) == one[3]

    @invariant()
    def the_next_one_is_right(self):
        for greedy in ([], ["a"], ["b", "a"]):
            preferred = [[one for one in self.model if one[1] == share] for share in greedy]
            among = next((some for some in preferred if some), self.model)
            expected = min(among, key=lambda one: one[3], default=None)
            found = self.order.first(greedy)
            assert (found and found.number) == (expected and expected[0])
        assert self.order.size_bytes == sum(one[2] for one in self.model)
        assert len(self.order) == len(self.model)


TestOrder = OrderMachine.TestCase
TestOrder.settings = settings(stateful_step_count=30)
