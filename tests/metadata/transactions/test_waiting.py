"""Requests that wait for the end of a transaction."""

from stratalog.metadata.transactions.events import InitProducer
from stratalog.metadata.transactions.waiting import Waiting


def test_they_go_on_in_their_order():
    """All requests that wait for one end, and no others."""
    waiting = Waiting()
    for token, tid in [(1, "a"), (2, "b"), (3, "a")]:
        waiting.add(InitProducer(token, tid, 1), deadline_ms=50)
    assert [event.token for event in waiting.ended("a")] == [1, 3]
    assert waiting.ended("a") == []
    assert waiting.tokens() == [2]


def test_they_wait_until_their_deadline():
    """The deadline of all is that of the first."""
    waiting = Waiting()
    assert waiting.deadline() is None
    waiting.add(InitProducer(1, "a", 1), deadline_ms=50)
    waiting.add(InitProducer(2, "a", 1), deadline_ms=40)
    assert waiting.deadline() == 40
    assert waiting.late(39) == []
    assert [event.token for event in waiting.late(40)] == [2]
    assert [event.token for event in waiting.late(60)] == [1]
    assert (waiting.tokens(), waiting.deadline()) == ([], None)
