"""Errors of requests to other nodes."""

import pytest

from stratalog.broker.peers.peer_errors import (
    Peer,
    PeerBusy,
    PeerClosed,
    PeerError,
    PeerTimeout,
    PeerUnavailable,
    PeerUnsupported,
)
from stratalog.wire.errors import Invalid, Retriable


@pytest.mark.parametrize(
    ("kind", "tree"),
    [(PeerBusy, Retriable), (PeerTimeout, Retriable), (PeerUnavailable, Retriable), (PeerUnsupported, Invalid)],
)
def test_an_error_says_whether_to_try_again(kind, tree):
    """A node that is away or busy may answer later; one that does not speak the version will not."""
    error = kind(Peer(3, "h", 1), "Vote: no")
    assert isinstance(error, PeerError)
    assert isinstance(error, tree)
    assert isinstance(error, Retriable) is (tree is Retriable)


def test_an_error_names_the_node():
    """Id, host and port, in the text and as values; a closed link is no reason to try again."""
    error = PeerClosed(Peer(-2, "::1", 9093), "Vote: the link is closed")
    assert str(error) == "bootstrap server ::1:9093: Vote: the link is closed"
    assert error.peer == (-2, "::1", 9093)
    assert not isinstance(error, Retriable | Invalid)
