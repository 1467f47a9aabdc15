"""Tests of broker/runtime/watchers.py."""

from stratalog.broker.runtime.watchers import Watchers


def test_watchers_are_called_once_each_in_the_order_in_which_they_came():
    """One that goes and comes again is the last."""
    watchers, called = Watchers(), []
    calls = [lambda number=number: called.append(number) for number in range(20)]
    for call in (*calls, calls[3]):
        watchers.add(call)
    watchers.discard(calls[0])
    watchers.discard(calls[0])
    watchers.add(calls[0])
    watchers.call()
    assert called == [*range(1, 20), 0]


def test_a_watcher_may_go_while_it_is_called():
    """As those do that are called once."""
    watchers, called = Watchers(), []

    def once():
        watchers.discard(once)
        called.append(1)

    watchers.add(once)
    watchers.call()
    watchers.call()
    assert called == [1]
