"""Sockets that rest: looked at together, by a clock of the test's own."""

import select
import socket
from contextlib import ExitStack

import pytest

from stratalog.broker.runtime.resting_sockets import REST_SECONDS, RestingSockets


class Rig:
    """An epoll instance with sockets that rest in it; `woken` says whether it would wake its loop."""

    def __init__(self, stack, count):
        self.now = 100.0
        self.epoll = stack.enter_context(select.epoll())
        pairs = [socket.socketpair() for _ in range(count)]
        self.mine = [stack.enter_context(mine) for mine, _ in pairs]
        self.theirs = [stack.enter_context(theirs) for _, theirs in pairs]
        for mine in self.mine:
            self.epoll.register(mine.fileno(), select.EPOLLIN)
        self.resting = RestingSockets(self.epoll, lambda: self.now)
        stack.callback(self.resting.close)
        for mine in self.mine:
            self.resting.add(mine.fileno())

    @property
    def woken(self):
        return [descriptor for descriptor, _ in self.epoll.poll(0)]

    def look(self):
        """Look, and read from everybody who is named."""
        found = [descriptor for descriptor, _ in self.resting.look()]
        for mine in self.mine:
            if mine.fileno() in found:
                mine.recv(10)
        return found


@pytest.fixture
def rig():
    """Three sockets, all at rest."""
    with ExitStack() as stack:
        yield Rig(stack, 3)


def test_a_rare_sender_wakes_at_once(rig):
    """More than the rest apart: each is heard without delay, and nothing is to be looked at by the clock."""
    for mine, theirs in zip(rig.mine, rig.theirs, strict=True):
        assert rig.woken == []
        theirs.send(b"x")
        assert rig.woken == [rig.resting.fileno()]
        assert rig.look() == [mine.fileno()]
        assert rig.resting.due == float("inf")
        rig.now += 1.5 * REST_SECONDS


def test_frequent_senders_are_waited_for(rig):
    """From the second within the rest on none wakes, until the clock finds nothing."""
    rig.theirs[0].send(b"x")
    rig.look()
    rig.now += REST_SECONDS / 2
    rig.theirs[1].send(b"x")
    assert rig.look() == [rig.mine[1].fileno()]
    assert rig.resting.due == rig.now + REST_SECONDS
    for theirs in rig.theirs:
        theirs.send(b"x")
    assert rig.woken == []
    rig.now = rig.resting.due
    assert sorted(rig.look()) == sorted(mine.fileno() for mine in rig.mine)
    rig.now = rig.resting.due
    assert rig.look() == []
    assert rig.resting.due == float("inf")
    rig.theirs[2].send(b"x")
    assert rig.woken == [rig.resting.fileno()]


def test_a_socket_that_rests_no_longer_wakes_the_loop_itself(rig):
    """With what it had not read."""
    descriptor = rig.mine[0].fileno()
    rig.theirs[0].send(b"x")
    assert descriptor in rig.resting
    rig.resting.remove(descriptor, select.EPOLLIN)
    assert descriptor not in rig.resting
    assert len(rig.resting) == 2
    assert rig.woken == [descriptor]


def test_a_connection_that_breaks_is_heard_in_spite_of_rest(rig):
    """Its end on both sides is an event of the loop's, whatever was asked for."""
    rig.theirs[1].close()
    assert rig.mine[1].fileno() in rig.woken
